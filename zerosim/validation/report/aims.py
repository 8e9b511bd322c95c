"""What was aimed at before anything was fitted, and what came out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from zerosim.validation.published import Published
from zerosim.validation.report.markdown import table

_MOSAICML: Final = (0.05, 0.04)
_ALL: Final = (0.08, 0.20)
_SCALING: Final = 3.0


def aims(found: Published) -> str:
    """A row an aim: what was to be reached, what is, and whether that is enough."""
    rows = [
        (what, aim, reached, "yes" if met else "no") for what, aim, reached, met in _aims(found)
    ]
    return table(("on rows that nothing was fitted on", "aim", "reached", "met"), rows)


def _aims(found: Published) -> Iterator[tuple[str, str, str, bool]]:
    board = found.steps
    mosaicml, core = board.suite("mosaicml"), board.suite("core-holdout")
    if mosaicml is not None:
        e = mosaicml.errors
        for kind, value, aim in (
            ("mean", e.mean, _MOSAICML[0]),
            ("median", e.median, _MOSAICML[1]),
        ):
            yield _share(f"MosaicML FSDP steps, {kind} error", value, aim)
    if core is not None:
        e = core.errors
        for kind, value, aim in (
            ("median", e.median, _ALL[0]),
            ("90th percentile", e.p90, _ALL[1]),
        ):
            yield _share(f"all core rows, sources weighted alike, {kind}", value, aim)
        if core.scaling is not None:
            reached = core.scaling.median
            yield (
                "scaling efficiency of core rows, median error",
                f"≤ {_SCALING:g} points",
                f"{reached:.1f} points",
                reached <= _SCALING,
            )
    series = found.collectives.of("test")
    met = sum(bool(score.meets) for score in series)
    yield (
        "collectives, series within 15 % and 10 %",
        "all",
        f"{met} of {len(series)}",
        met == len(series),
    )


def _share(what: str, value: float, aim: float) -> tuple[str, str, str, bool]:
    return what, f"≤ {aim:.1%}", f"{value:.1%}", value <= aim
