"""Scores: |ln|, every source alike; scaling in points; the null model; what the worst share."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from zerosim.validation.board import scoreboard
from zerosim.validation.rows import StepRow
from zerosim.validation.scaling import efficiencies, points
from zerosim.validation.score import Scored, errors, null_ratio, shared, worst


def scored(row_id: str, ratio: float, **given: object) -> Scored:
    fields: dict[str, object] = {
        "source_id": "one",
        "split": "test",
        "suite": "core-holdout",
        "simulatable": "yes",
        "scaling_group": None,
        "n_gpus": 8,
        "tokens": 1000,
        "measured_s": 1.0,
        "null_s": None,
        "facts": {},
        "defaults": (),
    }
    return Scored(row_id=row_id, predicted_s=ratio, **(fields | given))  # type: ignore[arg-type]


def test_errors_are_of_the_logarithm_and_too_slow_is_as_bad_as_too_fast() -> None:
    found = errors([scored("A", math.exp(0.1)), scored("B", math.exp(-0.1))])
    assert found is not None
    assert (found.median, found.mean, found.p90) == pytest.approx((0.1, 0.1, 0.1))
    assert found.bias == pytest.approx(0)


def test_a_source_of_many_rows_weighs_as_much_as_a_source_of_one() -> None:
    many = [scored(f"A{i}", math.exp(0.02)) for i in range(99)]
    found = errors([*many, scored("B", math.exp(0.1), source_id="two")])
    assert found is not None
    assert found.mean == pytest.approx(0.06)
    assert (found.n_rows, found.n_sources) == (100, 2)


def test_rows_without_a_null_model_do_not_count_in_its_errors() -> None:
    rows = [scored("A", 1.0, null_s=math.exp(0.3)), scored("B", 1.0)]
    found = errors(rows, null_ratio)
    assert found is not None
    assert found.n_rows == 1
    assert found.mean == pytest.approx(0.3)
    assert errors([], null_ratio) is None


def test_scaling_is_tokens_a_second_and_gpu_at_the_largest_count_over_the_smallest() -> None:
    rows = [
        scored("A", 1.0, scaling_group="G", n_gpus=8),
        scored("B", 1.1, scaling_group="G", n_gpus=16),
        scored("C", 1.25, scaling_group="G", n_gpus=64, measured_s=1.25 / 1.1),
    ]
    (found,) = efficiencies(rows)
    assert (found.from_gpus, found.to_gpus) == (8, 64)
    assert found.predicted == pytest.approx(0.8)
    assert found.measured == pytest.approx(0.88)
    assert found.points == pytest.approx(-8)
    total = points([found])
    assert total is not None
    assert total.median == pytest.approx(8)


def test_the_worst_come_first_and_what_they_share_is_named() -> None:
    good = [scored(f"A{i}", 1.01, facts={"gpu": "new", "size": "big"}) for i in range(18)]
    bad = [scored(f"B{i}", 2.0, facts={"gpu": "old", "size": "big"}) for i in range(2)]
    assert [row.row_id for row in worst([*good, *bad])][:2] == ["B0", "B1"]
    (found,) = shared([*good, *bad])
    assert (found.fact, found.value, found.among_worst, found.among_all) == ("gpu", "old", 2, 2)


def test_a_scoreboard_scores_what_it_can_and_names_the_rest(row: Callable[..., StepRow]) -> None:
    rows = [
        row(row_id="A", n_gpus="8", shard_group="8", split="calib", suite="core-calib"),
        row(row_id="B"),
        row(row_id="C", gpu="abacus"),
    ]
    board = scoreboard(rows, workers=1)
    assert [one.row_id for one in board.rows] == ["A", "B"]
    assert [left.row_id for left in board.left_out] == ["C"]
    test, calib = board.suite("test"), board.suite("calib")
    assert test is not None
    assert calib is not None
    assert (test.errors.n_rows, calib.errors.n_rows) == (1, 1)
    # The null model was fitted on the one calib row, so it is right there.
    assert calib.null is not None
    assert calib.null.mean == pytest.approx(0, abs=1e-12)
