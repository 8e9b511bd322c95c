"""Buckets: what waits in them, and when each is taken."""

from __future__ import annotations

from zerosim.figures.buckets import MAX_LABELS, buckets
from zerosim.trace import Meta, Trace, make_trace


def run_of(n_buckets: int) -> Trace:
    """Bucket i gets 100 bytes at time 10 i + 5, and leaves at 10 i + 8."""
    rows = [
        row
        for i in range(n_buckets)
        for row in (
            ("fill", "compute", f"fill{i}", 10 * i + 4, 10 * i + 5, i),
            ("reduce_scatter", "reduce_scatter", f"RS{i}", 10 * i + 8, 10 * i + 12, i),
        )
    ]
    kind, stream, name, start, end, bucket = (list(column) for column in zip(*rows, strict=True))
    spans = {
        "rank": [0] * len(rows),
        "kind": kind,
        "stream": stream,
        "name": name,
        "start_ns": start,
        "end_ns": end,
        "bucket": bucket,
        "nbytes": [100] * len(rows),
    }
    return make_trace(spans, Meta("buckets", "simulated", 1))


def test_the_line_rises_when_a_copy_ends_and_falls_when_the_collective_starts() -> None:
    line = buckets(run_of(2), 0, "light").figure.data[0]
    assert list(line.x) == [0.0, 1.0, 4.0, 8.0, 11.0, 14.0, 18.0]
    assert list(line.y) == [0.0, 100.0, 0.0, 0.0, 100.0, 0.0, 0.0]
    assert line.line.shape == "hv"


def test_what_is_taken_is_on_its_way_until_its_collective_ends() -> None:
    line = buckets(run_of(2), 0, "light").figure.data[1]
    assert (line.name, line.stackgroup) == ("on its way", "buckets")
    assert list(line.y) == [0.0, 0.0, 100.0, 0.0, 0.0, 100.0, 0.0]


def test_each_taking_is_a_point_as_high_as_its_bucket() -> None:
    points = buckets(run_of(2), 0, "light").figure.data[2]
    assert list(points.x) == [4.0, 14.0]
    assert list(points.y) == [100.0, 100.0]
    assert list(points.text) == ["bucket 0", "bucket 1"]
    assert points.customdata[1] == "bucket 1: 100 B after 14 ns"


def test_the_sentence_counts_buckets() -> None:
    assert buckets(run_of(2), 0, "dark").sentence == (
        "Rank 0 sends 2 buckets of 100 B; at most 100 B wait at once."
    )
    assert buckets(run_of(1), 0, "dark").sentence.startswith("Rank 0 sends 1 bucket of 100 B;")


def test_many_buckets_are_points_without_labels() -> None:
    points = buckets(run_of(MAX_LABELS + 1), 0, "light").figure.data[2]
    assert points.text is None
    assert len(points.x) == MAX_LABELS + 1


def test_a_bucket_filled_and_taken_at_once_still_shows(two: Trace) -> None:
    line = buckets(two, 0, "light").figure.data[0]
    assert max(line.y) == 4.0
    assert buckets(two, 0, "light").sentence == (
        "Rank 0 sends 1 bucket of 4 kB; at most 4 kB wait at once."
    )


def test_a_run_without_buckets_says_so(silent: Trace) -> None:
    drawn = buckets(silent, 0, "light")
    assert drawn.sentence == "This run does not say how the buckets of rank 0 fill."
    assert len(drawn.figure.data) == 0


def test_labels_that_would_stand_on_each_other_are_left_out() -> None:
    points = buckets(run_of(14), 0, "light").figure.data[2]
    assert list(points.text)[:4] == ["bucket 0", "", "bucket 2", ""]
