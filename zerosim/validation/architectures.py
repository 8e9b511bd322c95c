"""Decoders by the names that rows give them, for what a row of measured memory does not say."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final

from zerosim.validation.cells import Cells, Default, fact_rows

SIZES: Final = ("params", "layers", "hidden", "heads", "kv_heads", "ffn", "vocab")
"""The columns that say what a decoder is."""
_VOCABULARY: Final = (1_000, 300_000)
"""Smaller and larger ones are a sign that the parameters are others."""


def dimensions(cells: Cells) -> tuple[dict[str, str], tuple[Default, ...]]:
    """What a row's model has, by column: as the row says, else as its model is known, else as counted.

    Counted: a GPT with a feed-forward of four times its width, whose vocabulary is what is left of
    its parameters. Raises MeasurementError if that is no vocabulary.
    """
    name = cells.text("model_id") or ""
    known = architectures().get(name.lower(), {})
    found = {c: text for c in SIZES if (text := cells.text(c) or known.get(c))}
    if "vocab" in found and "ffn" in found:
        return found, ()
    if not all(column in found for column in SIZES[:4]):
        missing = next(column for column in SIZES[:4] if column not in found)
        raise cells.refused(
            f"model_id is '{name}', which is not known, and {missing} is blank: give its sizes"
        )
    vocab = _left_for_vocabulary(cells, found)
    if vocab is None:
        raise cells.refused(
            f"model_id is '{name}', which is not known, and no GPT has its parameters: "
            "give vocab and ffn"
        )
    ffn = 4 * int(found["hidden"])
    why = f"'{name}' is not known; a GPT of its sizes has as many parameters"
    return found | {"vocab": str(vocab), "ffn": str(ffn)}, (
        Default("ffn", str(ffn), why),
        Default("vocab", str(vocab), why),
    )


@cache
def architectures() -> dict[str, Mapping[str, str]]:
    """The decoders of facts/architectures.csv, by name: sizes as text, and a source."""
    return {row["model"].lower(): row for row in fact_rows("architectures.csv")}


def _left_for_vocabulary(cells: Cells, found: Mapping[str, str]) -> int | None:
    params, layers, hidden = (int(float(found[column])) for column in SIZES[:3])
    seq = cells.whole("seq_len") or 0
    left, rest = divmod(
        params - layers * (12 * hidden * hidden + 13 * hidden) - (seq + 2) * hidden, hidden
    )
    least, most = _VOCABULARY
    return left if least <= left <= most and not rest else None
