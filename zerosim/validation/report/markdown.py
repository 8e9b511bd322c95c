"""Tables and numbers in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from zerosim.validation.score import Errors

BLANK: Final = "-"
"""What stands where there is nothing to say."""


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table, with an empty line after it."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines) + "\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def share(value: float | None, *, signed: bool = False) -> str:
    """A share as per cent."""
    if value is None:
        return BLANK
    return f"{value:+.1%}" if signed else f"{value:.1%}"


def cells(found: Errors | None) -> tuple[str, ...]:
    """Rows, median, mean, 90th percentile and bias."""
    if found is None:
        return ("0", *[BLANK] * 4)
    size = (share(found.median), share(found.mean), share(found.p90))
    return (str(found.n_rows), *size, share(found.bias, signed=True))


def beside(found: Errors | None) -> tuple[str, ...]:
    """Median, mean and 90th percentile of the null model."""
    if found is None:
        return (BLANK,) * 3
    return share(found.median), share(found.mean), share(found.p90)
