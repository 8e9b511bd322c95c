"""The pickle machine builds plain values like the real one, and refuses all that is more."""

from __future__ import annotations

import pickle
import pickletools
import struct
import time
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zerosim.errors import TraceFileError
from zerosim.importers.content import Content
from zerosim.importers.pickled import is_pickle, parse_pickle

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**100), 2**100)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])) | st.integers(), inner)
    ),
)


def loaded(raw: bytes) -> Any:
    return parse_pickle(Content(Path("dump_0"), raw))


def refusal(raw: bytes) -> str:
    with pytest.raises(TraceFileError) as refused:
        loaded(raw)
    assert "\n" not in str(refused.value)
    return str(refused.value)


@given(value=PLAIN, protocol=st.integers(2, 5))
def test_plain_values_come_as_the_real_machine_would_load_them(value: Any, protocol: int) -> None:
    assert loaded(pickle.dumps(value, protocol)) == value


def test_many_shared_and_long_values_come_whole() -> None:
    shared = ["x" * 300, 70_000, -5, 1.5]
    value = [{"i": i, "same": shared, "text": str(i) * 100} for i in range(3000)]
    for protocol in (2, 3, 4, 5):
        assert loaded(pickle.dumps(value, protocol)) == value
        assert loaded(pickletools.optimize(pickle.dumps(value, protocol))) == value


def test_a_text_that_is_no_text_is_kept_readable() -> None:
    assert loaded(b"\x80\x02X\x03\x00\x00\x00a\xffb.") == "a\\xffb"


def test_a_list_that_holds_itself_is_a_list() -> None:
    knot: list[Any] = []
    knot.append(knot)
    came = loaded(pickle.dumps(knot))
    assert came[0] is came


class Calls:
    """An object whose pickle calls what it is told to."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> Any:
        return self.call


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_what_names_a_global_is_refused_and_never_run(tmp_path: Path, protocol: int) -> None:
    trap = {"version": "2.9", "entries": [], "x": Calls(open, str(tmp_path / "pwned"), "w")}
    said = refusal(pickle.dumps(trap, protocol))
    assert "names a global ('" in said
    assert "open'), which would run code, at byte " in said
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"\x80\x02cos\nsystem\n.", "names a global ('os.system')"),
        (b"\x80\x02(ios\nsystem\n.", "names a global ('os.system')"),
        (b"\x80\x04\x8c\x02os\x8c\x06system\x93.", "names a global ('os.system')"),
        (b"\x80\x02c\x1b[31m\n\xff" + b"x" * 9999, "names a global ('\\x1b[31m"),
        (b"\x80\x02NNR.", "would call or fill an object"),
        (b"\x80\x02NNb.", "would call or fill an object"),
        (b"\x80\x02NN\x81.", "would call or fill an object"),
        (b"\x80\x02(No.", "would call or fill an object"),
        (b"\x80\x02\x82\x01.", "would call or fill an object"),
        (b"\x80\x02NQ.", "would call or fill an object"),
        (b"\x80\x02Pid\n.", "would call or fill an object"),
        (b"\x80\x05\x97.", "has an instruction (b'\\x97') that no dump needs"),
        (b"\x80\x02N\x80\x02.", "names its protocol, which belongs at the start, at byte 3"),
        (b"\x80\x04\x95" + b"\x01" * 8 + b"N.", "has a frame of unbelievable size"),
        (pickle.dumps({1, 2}), "that no dump needs"),
        (pickle.dumps(2**1000), "has an integer that no dump needs"),
        (pickle.dumps(2**4000), "has an instruction (b'\\x8b') that no dump needs"),
        (pickle.dumps({(1, 2): 3}), "has keys that are neither texts nor integers"),
        (pickle.dumps(OrderedDict(a=1)), "names a global ('collections.OrderedDict')"),
        (b"\x80\x02", "ends early (interrupted dump?), at byte 2"),
        (b"\x80\x02X\xff\xff\xff\x7fabc", "ends early (interrupted dump?), at byte 2"),
        (b"\x80\x04\x8d" + b"\xff" * 8 + b"abc", "ends early"),
        (b"\x80\x02.", "takes a value that is not there"),
        (b"\x80\x02h\x07.", "takes a value that is not there"),
        (b"\x80\x02e.", "takes a value that is not there"),
        (b"\x80\x02NNa.", "puts a value into what holds none"),
        (b"\x80\x02](Na.", "takes a value that is not there|puts a value"),
        (b"\x80\x02}(Nu.", "has keys that are neither texts nor integers"),
    ],
)
def test_hostile_pickles_are_refused_with_a_sentence(raw: bytes, says: str) -> None:
    said = refusal(raw)
    assert any(part in said for part in says.split("|"))


def quick(raw: bytes) -> str | None:
    """What is said of `raw`, without a hang; None if it loads."""
    start = time.process_time()
    try:
        loaded(raw)
    except TraceFileError as refused:
        return str(refused)
    finally:
        assert time.process_time() - start < 30
    return None


def test_a_million_nested_lists_and_tuples_neither_crash_nor_hang() -> None:
    assert quick(b"\x80\x02" + b"]" * 10**6 + b"a" * (10**6 - 1) + b".") is None
    assert quick(b"\x80\x02N" + b"\x85" * 10**6 + b".") is None


def test_a_deep_or_knotted_tuple_is_no_key() -> None:
    deep = b"\x80\x02}N" + b"\x85" * 10**6 + b"Ns."
    assert "keys" in (quick(deep) or "")
    doubled = b"\x80\x02}N" + b"q\x00h\x00\x86" * 200 + b"Ns."
    assert "keys" in (quick(doubled) or "")


def test_lists_of_lists_that_double_take_no_memory() -> None:
    doubled = b"\x80\x02]" + b"q\x00]h\x00ah\x00a" * 200 + b"."
    assert quick(doubled) is None


def test_a_memory_place_of_a_high_number_takes_no_memory() -> None:
    assert loaded(b"\x80\x02Nr" + struct.pack("<I", 2**32 - 1) + b".") is None


def test_too_many_values_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zerosim.importers.pickle_machine.MAX_BYTES", 5000)
    assert "holds values of more than 5 kB" in refusal(b"\x80\x02" + b"]" * 1000 + b".")


def test_every_cut_of_a_dump_is_refused() -> None:
    whole = pickle.dumps({"entries": [{"a": 1, "b": [1.5, "text"]}] * 3, "pg_config": {}}, 2)
    for length in range(2, len(whole)):
        assert "ends early" in refusal(whole[:length]), length


@given(raw=st.binary(max_size=200), place=st.integers(0, 150))
def test_no_bytes_do_more_than_load_or_be_refused(raw: bytes, place: int) -> None:
    sound = pickle.dumps({"entries": [{"a": 1}], "pg_config": {"0": "[0, 1]"}}, 2)
    for tried in (b"\x80\x02" + raw, sound[:place] + raw[:2] + sound[place + 2 :]):
        quick(tried)


def test_only_what_begins_like_a_pickle_is_one() -> None:
    assert is_pickle(pickle.dumps({}, 2))
    assert not is_pickle(b"\x80")
    assert not is_pickle(b"\x80\x01")
    assert not is_pickle(b"{}")
