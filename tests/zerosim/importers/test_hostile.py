"""Files made to break a reader: they end in a trace or a sentence, soon, and nothing is lost silently."""

from __future__ import annotations

import gzip
import json
import re
import sqlite3
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from zerosim.analysis.report import assess
from zerosim.errors import TraceFileError
from zerosim.importers import content, loose_json, read, recording
from zerosim.importers.choice import Choice
from zerosim.importers.kineto.facts import Facts, count_elements
from zerosim.kinds import Kind
from zerosim.trace import Trace

SEEDS = Path(__file__).parent / "seeds"
DEEP = "[" * 1015 + "]" * 1015
KERNEL = (
    '{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 10, "dur": 5, "args": {}}'
)


@pytest.fixture
def imported(tmp_path: Path) -> Callable[..., Trace]:
    """Reads a file of these bytes."""

    def made(raw: bytes | str, name: str = "a.json", choice: Choice | None = None) -> Trace:
        (tmp_path / name).write_bytes(raw if isinstance(raw, bytes) else raw.encode())
        return read([tmp_path / name], choice=choice or Choice())

    return made


def chrome(*events: str, head: str = "") -> str:
    return f'{{{head}"traceEvents": [{", ".join(events)}]}}'


QUOTES = '\\"' * 100_000
BLANKS = " " * 100_000


# Each of these took minutes when a search began again at every letter.
@pytest.mark.parametrize(
    "broken", [f'{{"ph": "X", "name": "{QUOTES}}}', f'{{"ph": "X", "name": x}}{BLANKS}y']
)
def test_an_event_of_many_quotes_or_blanks_takes_no_longer_than_others(
    imported: Any, broken: str
) -> None:
    quality = imported(chrome(KERNEL, broken, KERNEL)).meta.quality
    assert quality.skipped == 1


def test_a_record_of_many_quotes_takes_no_longer_than_others(imported: Any) -> None:
    sound = (SEEDS / "48_inspector.jsonl").read_text()
    quality = imported(f'{sound}{{"coll_perf": {{"coll": "{QUOTES}\n').meta.quality
    assert (quality.events, quality.skipped) == (4, 1)


def test_a_log_with_a_word_of_a_million_letters_takes_no_longer_than_others(imported: Any) -> None:
    sound = (SEEDS / "nccl_debug.log").read_text()
    assert imported(f"{'a' * 1_000_000} NCCL INFO \n{sound}").ranks == (0, 1)


def test_calls_that_ranks_wrote_into_one_line_count_once_each(imported: Any) -> None:
    call = "[Rank {}] rank={} | comm op: {} | time (ms): {} | msg size: 1.0 KB | algbw (Gbps): 1 "
    trace = imported(call.format(0, 0, "all_reduce", 2.0) + call.format(1, 1, "all_gather", 3.0))
    rows = trace.spans.select("rank", "name", "end_ns").rows()
    assert rows == [(0, "all_reduce", 2_000_000), (1, "all_gather", 3_000_000)]


@pytest.mark.parametrize("field", ["ts", "name", "pid", "tid", "cat"])
def test_an_event_with_a_value_nested_a_thousand_deep_is_left_out_or_refused(
    imported: Any, field: str
) -> None:
    event = json.loads(KERNEL) | {field: "DEEP"}
    raw = chrome(KERNEL, json.dumps(event).replace('"DEEP"', DEEP))
    try:
        assert imported(raw).meta.quality.skipped == 1
    except TraceFileError as refusal:
        assert "nested too deeply" in str(refusal)  # noqa: PT017 - either outcome is right


def test_a_header_with_a_number_of_thousands_of_digits_is_refused(imported: Any) -> None:
    with pytest.raises(TraceFileError, match="damaged JSON"):
        imported(chrome(KERNEL, head=f'"x": 0x{"f" * 5000}, '))


def test_a_time_of_a_million_letters_is_shown_by_its_first(imported: Any) -> None:
    event = KERNEL.replace("10", f'"{"a" * 1_000_000}"')
    [place] = imported(chrome(KERNEL, event)).meta.quality.places
    assert place.what == f'time "{"a" * 39} cannot be read: left out'
    assert place.byte == len(chrome(KERNEL)) - len("]}") + len(", ") + event.index('"ts"')


@pytest.mark.parametrize("held", [2**27, 0])
def test_an_exported_time_of_thirty_digits_is_left_out_however_the_file_is_read(
    imported: Any, monkeypatch: pytest.MonkeyPatch, held: int
) -> None:
    monkeypatch.setattr(content, "HELD_BYTES", held)
    raw = re.sub(
        r'"ts": ?2[\d.]+', f'"ts": {"9" * 30}', (SEEDS / "exported.json").read_text(), count=1
    )
    quality = imported(raw).meta.quality
    assert quality.skipped + quality.lost == 1


def test_sizes_beyond_a_column_are_unknown() -> None:
    assert Facts(Kind.ALL_REDUCE, elements=2**61, dtype="float32").nbytes is None
    assert Facts(Kind.ALL_REDUCE, elements=2**59, dtype="float32").nbytes == 2**61
    assert count_elements([[2**40, 2**40]]) is None
    assert count_elements([[2**40, 2**40, 0]]) == 0
    assert count_elements([[2, -1]]) is None
    assert count_elements([[[2, 3], [4]]]) == 10


def test_a_run_of_millions_of_ranks_is_reported_by_ranges(imported: Any) -> None:
    trace = imported(
        chrome(KERNEL, head='"distributedInfo": {"rank": 3, "world_size": 16000000}, ')
    )
    assert assess(trace)["ranks_missing"] == [[0, 2], [4, 15999999]]


def test_a_rank_of_many_digits_is_none(imported: Any) -> None:
    trace = imported(chrome(KERNEL, head='"distributedInfo": {"rank": "1073741824999"}, '))
    assert trace.ranks == (0,)


@pytest.mark.parametrize("phase", ['"{ph": "X"', '"ph": "Y"', '"ph": 5', '"ph": []'])
def test_an_event_that_has_lost_its_sort_is_left_out_aloud(imported: Any, phase: str) -> None:
    quality = imported(chrome(KERNEL, KERNEL.replace('"ph": "X"', phase))).meta.quality
    assert quality.skipped == 1


def test_events_of_a_category_that_nobody_knows_are_said(imported: Any) -> None:
    quality = imported(chrome(KERNEL, KERNEL.replace("kernel", "kernfl"))).meta.quality
    assert (
        "'a.json' has 1 event of categories that nobody knows ('kernfl'): passed over"
        in quality.warnings
    )


def test_records_that_tell_of_no_operation_are_left_out_aloud(imported: Any) -> None:
    sound = (SEEDS / "48_inspector.jsonl").read_bytes()
    for broken in (sound.replace(b"coll_perf", b"coll_perg", 1), b'5\n"a"\n' + sound):
        assert imported(sound + broken).meta.quality.skipped == (2 if broken[:1] == b"5" else 1)


def test_a_strict_import_names_the_file_even_where_no_byte_is_known(imported: Any) -> None:
    raw = (SEEDS / "exported.json").read_text().replace('"spans": 6', '"spans": 7')
    with pytest.raises(TraceFileError, match=r"1 lost, the first in 'a.json': import without"):
        imported(raw, choice=Choice(strict=True))


@pytest.mark.parametrize("field", ["comm_type", "pg_name", "id", "type", "data_deps", "name"])
@pytest.mark.parametrize("odd", [[], {}, [[]], None, True, 2**64, -1, "x", 1e300])
def test_a_chakra_node_of_any_values_is_a_row_or_left_out(
    imported: Any, field: str, odd: object
) -> None:
    document = json.loads((SEEDS / "chakra.json").read_text())
    document["workload_graph"][4][field] = odd
    trace = imported(json.dumps(document))
    assert trace.spans.height + trace.meta.quality.skipped == 4


def test_a_file_of_more_ranks_than_any_has_is_refused(
    imported: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "MAX_RECORDINGS", 2)
    line = (SEEDS / "48_inspector.jsonl").read_text().splitlines()[0]
    lines = [line.replace('"pid": 9', f'"pid": {pid}') for pid in range(3)]
    with pytest.raises(TraceFileError, match=r"a.json' tells of over 2 ranks: it is damaged"):
        imported("\n".join(lines))


def test_a_plain_file_over_the_limit_is_refused_before_it_is_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(content, "HELD_BYTES", 0)
    monkeypatch.setattr("tempfile.TemporaryFile", None)
    (tmp_path / "a").write_bytes(b"x" * 11)
    with pytest.raises(TraceFileError, match=r"a' holds more than 10 bytes"):
        content.read_content(tmp_path / "a", limit=10)


def test_a_link_to_a_database_with_changes_beside_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    real = tmp_path / "far" / "trace.sqlite"
    real.write_bytes((SEEDS / "nsys.sqlite").read_bytes())
    connection = sqlite3.connect(real)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE TABLE more (a)")
    (tmp_path / "link.sqlite").symlink_to(real)
    with pytest.raises(TraceFileError, match=r"changes that are still in 'trace.sqlite-wal'"):
        read([tmp_path / "link.sqlite"])
    connection.close()


@pytest.mark.parametrize("sort", ["a trace", "a tar", "a database"])
def test_without_a_place_for_temporary_files_the_sentence_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sort: str
) -> None:
    path = tmp_path / "a.gz"
    name = {"a database": "nsys.sqlite"}.get(sort, "00_base.json")
    raw = (SEEDS / name).read_bytes()
    if sort == "a tar":
        with tarfile.open(path, "w:gz") as packed:
            packed.add(SEEDS / name)
    else:
        path.write_bytes(gzip.compress(raw))
    read([path])
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    monkeypatch.setattr(content, "HELD_BYTES", 0 if sort == "a trace" else 2**27)
    with pytest.raises(
        TraceFileError, match=r"a.gz' cannot be unfolded into a temporary file .No such"
    ):
        read([path])


def test_a_file_of_millions_of_empty_objects_is_refused(
    imported: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loose_json, "MAX_VALUES", 50)
    with pytest.raises(TraceFileError, match=r"a.json' holds over 50 lists and objects: record"):
        imported(f'{{"schema": "1.0.1", "nodes": [{", ".join(["{}"] * 50)}]}}')


def test_a_row_that_is_torn_into_the_head_of_its_table_is_left_out_aloud(imported: Any) -> None:
    raw = (SEEDS / "nccl_tests.log").read_text()
    torn = raw.replace("busbw #wrong     time", "busbw #14.25 4.00 3.00 0\nwrong     time", 1)
    assert torn != raw
    assert imported(torn).meta.quality.skipped == imported(raw).meta.quality.skipped + 1
