"""Labels of collectives, and spans as lines."""

import pytest

from zerosim.errors import TraceFileError
from zerosim_runtime.tracing.labels import Label, current_label, labelled
from zerosim_runtime.tracing.spans import Span, span_of


def test_a_label_holds_inside_its_block_only() -> None:
    with labelled(Label(unit="blocks.0")):
        with labelled(Label(unit="head", bucket=2)):
            assert current_label() == Label(unit="head", bucket=2)
        assert current_label().unit == "blocks.0"
    assert current_label() == Label()


def test_a_span_reads_back_as_it_was_written() -> None:
    span = Span("all_gather", "AG0", "all_gather", 5, 6, 9, unit="blocks.0", seq=3, nbytes=64)

    assert span_of(list(span.line()["span"])) == span


def test_a_span_of_another_width_is_refused() -> None:
    with pytest.raises(TraceFileError, match="has 3 fields: give 16"):
        span_of(["all_gather", "AG0", "x"])
