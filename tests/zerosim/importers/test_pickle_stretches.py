"""The fast way of the pickle machine does what the plain one does, to the last refusal."""

from __future__ import annotations

import gc
import pickle
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zerosim.importers import pickle_stretches
from zerosim.importers.pickle_machine import Machine, Refused, run_plainly, step

FRAMES = [{"filename": f"/m{i}.py", "line": 300 * i, "name": f"f{i}"} for i in range(5)]


def history(n: int) -> list[dict[str, Any]]:
    """Events as the allocator notes them: some frames are shared, some lists of them are their own."""
    shared = FRAMES[:2]
    return [
        {
            "action": ("alloc", "free_completed")[i % 2],
            "addr": 0x7F0000000000 + 512 * i,
            "size": (7, 70_000, 300)[i % 3],
            "stream": 0,
            "time_us": 1_758_610_505_592_849 + i,
            "frames": (shared, FRAMES[1:4], [], FRAMES[4:])[i % 4][: None if i % 4 == 0 else 9],
            "odd": (None, True, False, -1, -(2**40))[i % 5],
        }
        for i in range(n)
    ]


SNAPSHOT = {"segments": [{"device": 0, "blocks": history(7)}], "device_traces": [history(40)]}
MUTATIONS = st.lists(
    st.tuples(
        st.floats(0, 1, exclude_max=True),
        st.sampled_from((b"", b"h\0", b"j\0\0\0\0", b"}", b"}\x94(", b"u", b"(", b"]\x94", b"e"))
        | st.sampled_from((b"\x94", b"r\1\0\0\0", b"q\xff", b"\x86", b"N", b"K\1", b"cos\n", b"."))
        | st.binary(max_size=3),
        st.integers(0, 8),
    ),
    max_size=3,
)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the last 16 bytes of a program are left to the plain way."""
    monkeypatch.setattr(pickle_stretches, "_STRETCH", 1)


def outcome(run: Any, raw: bytes) -> tuple[Any, ...]:
    """What comes, or why not, and what the machine holds then."""
    machine = Machine(raw)
    try:
        came = repr(run(machine))
    except Refused as refusal:
        came = f"{refusal}, at {machine.begun}"
    held = machine.memo if isinstance(machine.memo, list) else sorted(machine.memo)
    return came, repr(machine.stack), machine.marks, repr(held)


@given(protocol=st.integers(2, 5), n=st.integers(0, 40))
def test_a_history_comes_as_it_was(protocol: int, n: int) -> None:
    raw = pickle.dumps(history(n), protocol)
    assert pickle_stretches.run(Machine(raw)) == history(n)
    assert outcome(pickle_stretches.run, raw) == outcome(run_plainly, raw)


@given(mutations=MUTATIONS, protocol=st.sampled_from((2, 4)))
def test_a_damaged_history_ends_alike_on_both_ways(mutations: Any, protocol: int) -> None:
    raw = pickle.dumps(SNAPSHOT, protocol)
    for place, token, dropped in mutations:
        at = int(place * len(raw))
        raw = raw[:at] + token + raw[at + dropped :]
    assert outcome(pickle_stretches.run, raw) == outcome(run_plainly, raw)


def test_every_cut_of_a_history_ends_alike_on_both_ways() -> None:
    raw = pickle.dumps(history(6))
    for length in range(2, len(raw)):
        assert outcome(pickle_stretches.run, raw[:length]) == outcome(run_plainly, raw[:length])


def test_lists_that_events_share_are_shared_and_others_are_not() -> None:
    events = history(12)
    events[9]["frames"] = events[5]["frames"]
    came = pickle_stretches.run(Machine(pickle.dumps([events, events[7]["frames"]])))
    assert came == [events, events[7]["frames"]]
    assert came[0][9]["frames"] is came[0][5]["frames"]
    assert came[1] is came[0][7]["frames"]
    assert came[0][1]["frames"] is not came[0][5]["frames"]


@pytest.mark.parametrize("key", [b"N", b"\x88", b"G" + bytes(8), b"]", b"K\1\x85"])
def test_a_key_that_is_no_text_or_integer_is_refused_in_a_row_of_dicts_too(key: bytes) -> None:
    put_aside = b"\x80\x04](" + key + b"\x94"
    dicts = b"}\x94(h\0K\1h\0K\2u" * 9
    machine = Machine(put_aside + dicts + b"e.")
    with pytest.raises(Refused, match="keys that are neither texts nor integers"):
        pickle_stretches.run(machine)


def test_what_is_put_aside_anew_is_what_counts() -> None:
    old, new = b"\x8c\3old\x94", b"\x8c\3new"
    dicts = b"}\x94(h\0h\0h\0K\2u" * 9
    raw = b"\x80\x04](" + old + dicts + new + b"q\0" + dicts + b"e."
    came = pickle_stretches.run(Machine(raw))
    assert came == ["old", *[{"old": 2}] * 9, "new", *[{"new": 2}] * 9]


@pytest.mark.parametrize("entries", [b"", b"h\0K\1", b"h\0K\1" * 2, b"h\0", b"h\0]\x94h\0]\x94"])
def test_dicts_of_any_number_of_entries_come_alike_on_both_ways(entries: bytes) -> None:
    raw = b"\x80\x04](\x8c\1a\x94" + (b"}\x94(" + entries + b"u") * 9 + b"e."
    assert outcome(pickle_stretches.run, raw) == outcome(run_plainly, raw)


def test_a_history_takes_few_single_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[int] = []

    def counted(machine: Machine) -> bool:
        steps.append(machine.at)
        return step(machine)

    monkeypatch.setattr(pickle_stretches, "_STRETCH", 256)
    monkeypatch.setattr(pickle_stretches, "step", counted)
    assert pickle_stretches.run(Machine(pickle.dumps(history(5000)))) == history(5000)
    assert len(steps) < 500


@pytest.mark.parametrize("raw", [pickle.dumps(history(40)), pickle.dumps(history(40))[:900]])
def test_the_collector_of_garbage_runs_on_afterwards(raw: bytes) -> None:
    outcome(pickle_stretches.run, raw)
    assert gc.isenabled()


HUNGRY = (
    *(b"]", b"}", b"(", b"N", b"h\0", b"M\0\1", b"J\0\0\0\1", b"\x8a\x08abcdefgh", b"N\x94"),
    *(b"}(h\0h\0u", b"}h\0h\0s", b"}\x94(h\0K\1u", b"](h\0h\0e", b"]h\0a", b"]\x94h\0a"),
    *(b"K\1\x85", b"(K\1t", b"G12345678", b"\x8c\2ab", b"\x8c\6\xf0\x9f\x8c\x8dab"),
)


@pytest.mark.parametrize("code", HUNGRY)
def test_what_values_take_is_reckoned_well_enough(
    code: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = 2**20
    monkeypatch.setattr("zerosim.importers.pickle_machine.MAX_BYTES", most)
    machine = Machine(b"\x80\x04\x8c\1a\x94" + code * (most // len(code)) + b".")
    tracemalloc.start()
    try:
        with pytest.raises(Refused, match="holds values of more than"):
            pickle_stretches.run(machine)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1.5 * most


@pytest.mark.parametrize("code", [b"]", b"}", b"}\x94", b"M\0\1", b"(", b"N", b"h\0", b"\x8c\2ab"])
def test_no_small_program_takes_much_memory(code: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zerosim.importers.pickle_machine.MAX_BYTES", 10_000)
    raw = b"\x80\x04N\x94" + code * 2000 + b"."
    assert "holds values of more than 10 kB" in outcome(pickle_stretches.run, raw)[0]
    assert "holds values of more than 10 kB" in outcome(run_plainly, raw)[0]
