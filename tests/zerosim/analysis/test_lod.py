"""The level of detail: exact shares, owners of pixels, and the fixture that the browser's code obeys."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zerosim.analysis.lod import RowSpans, Window, pixel_owners, share_stacks, visible_shares
from zerosim.errors import InputError

FIXTURE = Path(__file__).parents[2] / "golden" / "lod.json"
Rows = list[list[list[int]]]


def row_spans(rows: Rows) -> RowSpans:
    flat = [(r, *span) for r, spans in enumerate(rows) for span in spans]
    row, start, duration, role = np.array(flat, dtype=np.int64).reshape(-1, 4).T
    return RowSpans(len(rows), row, start.astype(float), (start + duration).astype(float), role)


@st.composite
def drawn_rows(draw: st.DrawFn) -> Rows:
    rows: Rows = []
    for _ in range(draw(st.integers(1, 3))):
        at = 0
        spans = []
        for gap, duration, role in draw(
            st.lists(st.tuples(st.integers(0, 50), st.integers(1, 200), st.integers(0, 3)))
        ):
            spans.append([at + gap, duration, role])
            at += gap + duration
        rows.append(spans)
    return rows


windows = st.builds(
    lambda t0, length, width: Window(t0, t0 + length, width),
    st.integers(-100, 2000),
    st.integers(1, 3000),
    st.integers(1, 64),
)


def test_a_span_fills_its_whole_pixels_and_its_part_of_the_last() -> None:
    shares = share_stacks(row_spans([[[5, 35, 0]]]), Window(0, 80, 8), 1)
    assert shares[0, :, 0].tolist() == [5, 10, 10, 10, 0, 0, 0, 0]


def test_two_roles_share_a_pixel_by_their_time() -> None:
    shares = share_stacks(row_spans([[[0, 3, 0], [4, 5, 1]]]), Window(0, 10, 1), 2)
    assert shares[0, 0].tolist() == pytest.approx([3, 5])


def test_a_span_beyond_the_window_counts_only_inside_it() -> None:
    shares = share_stacks(row_spans([[[-50, 1000, 0]]]), Window(100, 140, 4), 1)
    assert shares[0, :, 0].tolist() == [10, 10, 10, 10]


def test_no_spans_are_no_shares() -> None:
    assert share_stacks(row_spans([[], []]), Window(0, 10, 5), 2).sum() == 0


@given(drawn_rows(), windows)
def test_shares_sum_to_the_clipped_durations(rows: Rows, window: Window) -> None:
    spans = row_spans(rows)
    clipped = np.clip(spans.end_ns, window.t0_ns, window.t1_ns) - np.clip(
        spans.start_ns, window.t0_ns, window.t1_ns
    )
    shares = share_stacks(spans, window, 4)
    for role in range(4):
        expected = clipped[spans.role == role].sum()
        assert shares[:, :, role].sum() == pytest.approx(expected, rel=1e-6, abs=1e-6)


@given(drawn_rows(), windows)
def test_no_pixel_holds_more_than_its_own_time(rows: Rows, window: Window) -> None:
    shares = share_stacks(row_spans(rows), window, 4)
    assert (shares.sum(axis=2) <= window.pixel_ns * (1 + 1e-9)).all()
    assert (shares >= 0).all()


@given(drawn_rows(), windows)
def test_a_row_never_shows_more_than_it_has_pixels(rows: Rows, window: Window) -> None:
    spans = row_spans(rows)
    owners = pixel_owners(spans, window)
    shares = visible_shares(spans, window, 4).sum(axis=2)
    shown_spans = sum(len(set(row[row >= 0].tolist())) for row in owners)
    assert shown_spans + int((shares > 0).sum()) <= len(rows) * window.width
    assert not ((owners >= 0) & (shares > 0)).any()


@given(drawn_rows(), windows)
def test_an_owner_is_at_least_a_pixel_long_and_on_its_row(rows: Rows, window: Window) -> None:
    spans = row_spans(rows)
    for row, owners in enumerate(pixel_owners(spans, window)):
        for i in set(owners[owners >= 0].tolist()):
            assert spans.row[i] == row
            assert (spans.end_ns[i] - spans.start_ns[i]) / window.pixel_ns >= 1


def test_owned_pixels_are_those_a_span_rounds_to() -> None:
    owners = pixel_owners(row_spans([[[4, 12, 0], [16, 9, 0]]]), Window(0, 40, 4))
    assert owners.tolist() == [[0, 0, -1, -1]]


def test_neighbours_meet_in_one_pixel_edge() -> None:
    owners = pixel_owners(row_spans([[[0, 26, 0], [26, 14, 1]]]), Window(0, 40, 4))
    assert owners.tolist() == [[0, 0, 0, 1]]


@pytest.mark.parametrize("window", [(0, 10, 0), (10, 10, 5), (10, 5, 5), (0, float("nan"), 5)])
def test_a_window_without_pixels_or_time_is_refused(window: tuple[float, float, int]) -> None:
    with pytest.raises(InputError, match="at least one pixel"):
        Window(*window)


def fixture_cases() -> list[Any]:
    cases: list[dict[str, Any]] = json.loads(FIXTURE.read_text())
    return [pytest.param(case, id=case["name"]) for case in cases]


@pytest.mark.parametrize("case", fixture_cases())
def test_the_shared_fixture_holds(case: dict[str, Any]) -> None:
    spans = row_spans(case["rows"])
    window = Window(case["t0"], case["t1"], case["width"])
    assert pixel_owners(spans, window).tolist() == case["owners"]
    np.testing.assert_allclose(share_stacks(spans, window, case["n_roles"]), case["shares"])
    np.testing.assert_allclose(
        visible_shares(spans, window, case["n_roles"]), case["visible"], atol=1e-9
    )
