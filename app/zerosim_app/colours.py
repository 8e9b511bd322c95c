"""The palette as CSS variables, so that the pages and the figures cannot drift apart."""

from __future__ import annotations

from zerosim.figures.palette import (
    BACKGROUND,
    GRID,
    INK,
    MEMORY,
    MUTED,
    OPS,
    RUN,
    THEMES,
    Swatch,
    Theme,
    text_on,
)


def stylesheet() -> str:
    """`--zs-op-…`, `--zs-mem-…`, `--zs-run-…` and the text that reads on each, for both themes."""
    return "".join(_block(theme) for theme in THEMES)


def _block(theme: Theme) -> str:
    selector = ":root" if theme == "light" else ':root[data-mantine-color-scheme="dark"]'
    swatches: dict[str, Swatch] = {"bg": BACKGROUND, "ink": INK, "muted": MUTED, "line": GRID}
    swatches |= {f"op-{role}": swatch for role, swatch in OPS.items()}
    swatches |= {f"mem-{kind}": swatch for kind, swatch in MEMORY.items()}
    swatches |= {f"run-{swatch.label.lower()}": swatch for swatch in RUN}
    rules = "".join(
        f"--zs-{name}:{swatch[theme]};--zs-on-{name}:{text_on(swatch[theme])};"
        for name, swatch in swatches.items()
    )
    return f"{selector}{{color-scheme:{theme};{rules}}}"
