"""Recording an engine and comparing from recordings: an equal one, another one, and one that fails."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from zerosim.errors import RuntimeFailedError
from zerosim.scenario import plan_of
from zerosim_runtime.equality import replay
from zerosim_runtime.equality.case import Case, scenario_of
from zerosim_runtime.equality.harness import Watched
from zerosim_runtime.equality.recording import Replay, read_recording
from zerosim_runtime.equality.replay import record, replayed
from zerosim_runtime.equality.seen import Seen, planned

SCENARIO = {"workload": {"layers": 2, "hidden": 4}, "schedule": {"name": "ddp"}}
CASE = Case("two", "ddp", 2, SCENARIO)
PLAN = plan_of(scenario_of(CASE))


def silent(_: str) -> None:
    """Nobody watches."""


def at(directory: Path) -> Replay:
    return Replay(directory, lambda _: PLAN, lambda _, rows: list(rows))


def sees(monkeypatch: pytest.MonkeyPatch, rows: list[Seen] | str) -> None:
    """Every rank is seen to do `rows`."""

    def observed(cases: list[Case], _: object) -> Iterator[tuple[Case, Watched]]:
        yield from ((case, dict.fromkeys(case.ranks, rows)) for case in cases)

    monkeypatch.setattr(replay, "observed", observed)


def test_what_an_engine_did_is_recorded_with_versions_and_compared(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sees(monkeypatch, planned(PLAN, 0))
    record(at(tmp_path), [CASE], {"torch": "2.13.0"}, silent)
    assert read_recording(tmp_path / "two.json").case == CASE
    versions, (outcome,) = replayed(at(tmp_path), [CASE])
    assert versions == {"torch": "2.13.0"}
    assert (outcome.difference, outcome.collectives) == (None, 1)


def test_a_recording_of_something_else_is_a_difference(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sees(monkeypatch, planned(PLAN, 0)[:-1])
    record(at(tmp_path), [CASE], {}, silent)
    _, (outcome,) = replayed(at(tmp_path), [CASE])
    assert outcome.difference is not None
    assert "rank 0 at row 4" in outcome.difference


def test_a_rank_that_fails_is_not_recorded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    sees(monkeypatch, "ValueError: no")
    with pytest.raises(RuntimeFailedError, match=r"case 'two' .* ValueError: no"):
        record(at(tmp_path), [CASE], {}, silent)
    assert list(tmp_path.iterdir()) == []
