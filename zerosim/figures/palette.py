"""Colours that never change: one per kind of op and one per kind of memory, for both themes.

An op has the same colour in a simulated and a measured run; a run is told apart by its header and
by solid against dashed lines. The op colours were optimised over CIEDE2000 under four kinds of
colour vision; `tests/zerosim/figures/test_palette.py` holds them there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from zerosim.kinds import Kind

Theme = Literal["light", "dark"]
THEMES: Final[tuple[Theme, ...]] = ("light", "dark")


@dataclass(frozen=True, slots=True)
class Swatch:
    """One meaning and its colour in either theme. `hatched`: told by its pattern, not its colour."""

    label: str
    light: str
    dark: str
    hatched: bool = False

    def __getitem__(self, theme: Theme) -> str:
        return self.light if theme == "light" else self.dark


BACKGROUND: Final = Swatch("background", "#ffffff", "#1a1b1e")
INK: Final = Swatch("text", "#1f2933", "#e3e6ea")
MUTED: Final = Swatch("secondary text", "#5b6670", "#a3abb3")
GRID: Final = Swatch("grid lines", "#e4e8ec", "#33363a")

OPS: Final[dict[str, Swatch]] = {
    "forward": Swatch("F", "#41619E", "#6393F8"),
    "backward": Swatch("B", "#06168D", "#59EBFB"),
    "all_gather": Swatch("AG", "#C68524", "#FDDB55"),
    "reduce_scatter": Swatch("RS", "#B91C1A", "#D73300"),
    "all_reduce": Swatch("AR", "#6F264A", "#BC759A"),
    "optimizer": Swatch("OPT", "#55A47A", "#8AC393"),
    "copy": Swatch("CP", "#9F85C2", "#7455C8"),
    "idle": Swatch("-", "#C9CFD5", "#484A4C", hatched=True),
}
"""The eight roles that have a colour of their own."""

ROLE: Final[dict[Kind, str]] = {
    Kind.FORWARD: "forward",
    Kind.BACKWARD: "backward",
    Kind.RECOMPUTE: "forward",
    Kind.ALL_GATHER: "all_gather",
    Kind.REDUCE_SCATTER: "reduce_scatter",
    Kind.ALL_REDUCE: "all_reduce",
    Kind.REDUCE: "reduce_scatter",
    Kind.BROADCAST: "all_gather",
    Kind.GATHER: "all_gather",
    Kind.SCATTER: "reduce_scatter",
    Kind.ALL_TO_ALL: "all_reduce",
    Kind.P2P: "copy",
    Kind.BARRIER: "idle",
    Kind.COLLECTIVE: "all_reduce",
    Kind.OPTIMIZER: "optimizer",
    Kind.COPY: "copy",
    Kind.FILL: "copy",
    Kind.MEMORY_OP: "copy",
    Kind.WAIT: "idle",
    Kind.HOST: "idle",
    Kind.OTHER: "forward",
}
"""Which role draws a kind; kinds that share one are told apart by their labels."""

MEMORY: Final[dict[str, Swatch]] = {
    "parameters": Swatch("parameters", "#41619E", "#6393F8"),
    "gathered": Swatch("gathered parameters", "#C68524", "#FDDB55"),
    "gradients": Swatch("gradients", "#B91C1A", "#D73300"),
    "buckets": Swatch("buckets", "#6F264A", "#BC759A"),
    "optimizer": Swatch("optimizer states", "#55A47A", "#8AC393"),
    "activations": Swatch("activations", "#9F85C2", "#7455C8"),
    "logits": Swatch("logits", "#7C8791", "#B9C0C7"),
    "workspace": Swatch("workspace", "#C9CFD5", "#6A6F75"),
}
"""By memory kind, stacked in this order. A gathered layer has the colour of its all-gather."""

LAUNCH: Final = Swatch("launch", "#9AA5B1", "#7B848D")
"""Time in which a device waits for its host; not a kind of op."""

SOURCES: Final = tuple(
    Swatch(str(place), light, dark)
    for place, (light, dark) in enumerate(
        (
            ("#41619E", "#8FB0FA"),
            ("#C4561D", "#FF9B5E"),
            ("#2E8B57", "#6FCF97"),
            ("#B91C6B", "#F783C2"),
            ("#7455C8", "#B197FC"),
            ("#0B7285", "#3BC9DB"),
            ("#8A6D00", "#E0C341"),
            ("#6F264A", "#D79AB8"),
            ("#D6336C", "#FF8787"),
            ("#4C7A1E", "#A9E34B"),
            ("#1971C2", "#4DABF7"),
            ("#5B6670", "#A3ABB3"),
            ("#A0522D", "#D9A066"),
            ("#00695C", "#63E6BE"),
            ("#7B3FA0", "#E599F7"),
            ("#3D4852", "#CED4DA"),
        )
    )
)
"""Of sources of measurements, in the order of their first row; the seventeenth is as the first."""

RUN: Final = (Swatch("A", "#0B7285", "#3BC9DB"), Swatch("B", "#9C36B5", "#DA77F2"))
"""The header bands of the first and the second of two compared runs."""


def op_colour(kind: Kind, theme: Theme) -> str:
    """The colour of an op of `kind`, as `#rrggbb`."""
    return OPS[ROLE[kind]][theme]


def text_on(background: str) -> str:
    """Black or white, whichever reads better on `background` (WCAG contrast ratio)."""
    return max(("#ffffff", "#111111"), key=lambda ink: contrast(ink, background))


def contrast(a: str, b: str) -> float:
    """WCAG 2 contrast ratio of two colours, 1 (equal) to 21 (black on white)."""
    brighter, darker = sorted((_luminance(a), _luminance(b)), reverse=True)
    return (brighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    red, green, blue = (_linear(int(colour[i : i + 2], 16) / 255) for i in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _linear(channel: float) -> float:
    low = channel <= 0.04045  # noqa: PLR2004 - the sRGB curve's own constant
    return channel / 12.92 if low else ((channel + 0.055) / 1.055) ** 2.4
