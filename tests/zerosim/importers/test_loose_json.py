"""JSON as profilers write it: mended where the meaning is plain, refused with a place where not."""

from __future__ import annotations

import json
import time
from decimal import Decimal
from pathlib import Path

import pytest

from zerosim.errors import TraceFileError
from zerosim.importers.content import Content
from zerosim.importers.loose_json import Parsed, mend, parse_exactly, parse_json

FIRST = {"ph": "X", "name": "a", "ts": 1}
LAST = {"ph": "X", "name": "z", "ts": 9}


def content(text: str | bytes) -> Content:
    return Content(Path("t.json"), text.encode() if isinstance(text, str) else text)


def trace_with(middle: str) -> str:
    return f'{{"rank": 3, "traceEvents": [{json.dumps(FIRST)}, {middle}, {json.dumps(LAST)}]}}'


def names(parsed: Parsed) -> list[str]:
    return [event["name"] for event in parsed.document["traceEvents"]]


def test_sound_json_is_read_without_a_word() -> None:
    parsed = parse_json(content(trace_with('{"ph": "X", "name": "m", "ts": 5.25}')))
    assert names(parsed) == ["a", "m", "z"]
    assert (parsed.repaired, parsed.skipped, parsed.warnings) == (0, 0, ())


def test_a_byte_order_mark_is_no_fault() -> None:
    parsed = parse_json(content(b'\xef\xbb\xbf{"traceEvents": []}'))
    assert parsed.document == {"traceEvents": []}
    assert parsed.warnings == ()


def test_utf_16_is_read() -> None:
    parsed = parse_json(content('{"traceEvents": []}'.encode("utf-16")))
    assert parsed.document == {"traceEvents": []}
    assert parsed.warnings == ("'t.json' is UTF-16, not UTF-8",)


def test_bytes_that_are_no_utf_8_are_replaced_and_said() -> None:
    raw = trace_with('{"ph": "X", "name": "m?", "ts": 5}').encode().replace(b"m?", b"m\xff")
    parsed = parse_json(content(raw))
    assert names(parsed) == ["a", "m\ufffd", "z"]
    assert parsed.repaired == 1
    assert "is not UTF-8" in parsed.warnings[0]


def test_control_characters_stay_text() -> None:
    parsed = parse_json(content(trace_with('{"ph": "X", "name": "m\x01\n", "ts": 5}')))
    assert names(parsed) == ["a", "m\x01\n", "z"]
    assert parsed.repaired == 1


@pytest.mark.parametrize(
    "word", ["NaN", "Infinity", "-Infinity", "N/A", "nan", "-inf", "inf", "-nan(ind)"]
)
def test_bare_words_for_missing_numbers_are_null(word: str) -> None:
    parsed = parse_json(content(trace_with(f'{{"ph": "X", "name": "m", "busy": {word}}}')))
    assert parsed.document["traceEvents"][1]["busy"] is None
    assert parsed.repaired == 1


def test_a_bare_hexadecimal_number_keeps_its_value() -> None:
    parsed = parse_json(content(trace_with('{"ph": "X", "name": "m", "id": 0xff}')))
    assert parsed.document["traceEvents"][1]["id"] == 255


def test_windows_paths_are_taken_as_they_stand() -> None:
    parsed = parse_json(
        content(trace_with(r'{"ph": "X", "name": "C:\Users\new\test.py", "ts": 5}'))
    )
    assert names(parsed) == ["a", r"C:\Users\new\test.py", "z"]
    assert parsed.warnings == ("'t.json': events that were mended: 1",)


def test_sound_escapes_beside_a_fault_are_left_alone() -> None:
    assert mend(r'{"a": "x\ty\"", "b": N/A,}') == r'{"a": "x\ty\"", "b": null}'


def test_words_and_commas_inside_text_are_left_alone() -> None:
    assert mend('{"a": "b: N/A, ]", "c": nan}') == '{"a": "b: N/A, ]", "c": null}'


def test_an_event_beyond_mending_is_left_out_and_its_place_named() -> None:
    parsed = parse_json(content(trace_with('{"ph": "X", "name": "say "hi" now", "ts": 5}')))
    assert names(parsed) == ["a", "z"]
    assert parsed.skipped == 1
    assert parsed.warnings == ("'t.json': 1 events left out, the first at line 1, column 64",)


@pytest.mark.parametrize("size", [4070, 4080, 4090, 4096, 5000, 2**18 - 10, 2**18 + 100])
@pytest.mark.parametrize("tail", ["", ', "n": -Infinity, "u": "\\u00e9"'])
def test_events_of_any_length_stand_beside_a_broken_one(size: int, tail: str) -> None:
    long = f'{{"ph": "X", "name": "m", "text": "{"x" * size}"{tail}}}'
    parsed = parse_json(
        content(trace_with(f'{{"ph": "X", x}}, {long}, {{"ph": "X", "name": "n",}}'))
    )
    assert names(parsed) == ["a", "m", "n", "z"]
    assert (parsed.repaired, parsed.skipped) == (1, 1)


def test_many_broken_events_take_time_with_their_number_not_with_its_square() -> None:
    def seconds(n: int) -> float:
        began = time.process_time()
        assert parse_json(content(trace_with(", ".join(['{"ph": "X", x}'] * n)))).skipped == n
        return time.process_time() - began

    assert seconds(32_000) < 10 * seconds(8_000)


def test_trailing_commas_are_dropped() -> None:
    parsed = parse_json(content('{"traceEvents": [{"ph": "X", "name": "a"},], "rank": 1,}'))
    assert names(parsed) == ["a"]
    assert parsed.document["rank"] == 1


def test_a_bare_list_may_lack_its_end() -> None:
    parsed = parse_json(content('[{"ph": "X", "name": "a"},\n{"ph": "X", "name": "b"},\n'))
    assert [event["name"] for event in parsed.document] == ["a", "b"]
    assert parsed.skipped == 0


def test_a_missing_last_brace_is_added() -> None:
    parsed = parse_json(content('{"rank": 2, "traceEvents": [{"ph": "X", "name": "a"}]'))
    assert parsed.document["rank"] == 2
    assert names(parsed) == ["a"]


def test_a_file_cut_inside_an_event_is_refused_with_the_byte() -> None:
    text = trace_with('{"ph": "X", "name": "m"}')
    cut = text[: text.index('"z"')]
    where = cut.rindex("{")
    with pytest.raises(
        TraceFileError, match=rf"ends inside an event at byte {where} \(interrupted"
    ):
        parse_json(content(cut))


def test_a_file_cut_between_events_is_refused_too() -> None:
    text = trace_with('{"ph": "X", "name": "m"}')
    with pytest.raises(TraceFileError, match="interrupted export"):
        parse_json(content(text[: text.index('{"ph": "X", "name": "z"') - 2]))


def test_text_without_events_is_no_trace() -> None:
    with pytest.raises(TraceFileError, match="is not JSON"):
        parse_json(content('{"schemaVersion": 1, "deviceProp'))


def test_depth_beyond_reason_is_refused() -> None:
    with pytest.raises(TraceFileError):
        parse_json(content("[" * 200_000))


def test_halves_of_characters_are_replaced() -> None:
    parsed = parse_json(content(r'[{"name": "\ud800 \ude00 \ud83d\ude00"}]'))
    assert parsed.document[0]["name"] == "\ufffd \ufffd \U0001f600"
    assert parsed.repaired == 1


def test_ids_beyond_64_bits_stay_whole() -> None:
    parsed = parse_json(content('[{"ph": "X", "id": 18446744073709551615}]'))
    assert parsed.document[0]["id"] == 18446744073709551615


def test_exact_parsing_keeps_every_digit() -> None:
    parsed = parse_exactly(content('[{"ts": 1711964646123456.789}]'))
    assert parsed.document == [{"ts": Decimal("1711964646123456.789")}]
