"""One palette for pages and figures, in CSS for both themes."""

from __future__ import annotations

import re
from pathlib import Path

import zerosim_app
from zerosim.figures.palette import MEMORY, OPS, RUN
from zerosim_app.colours import stylesheet

ASSETS = Path(zerosim_app.__file__).parent / "assets"


def defined() -> set[str]:
    return set(re.findall(r"(--zs-[\w-]+):", stylesheet()))


def test_light_is_the_default_and_dark_overrides_it() -> None:
    light, dark = stylesheet().split(':root[data-mantine-color-scheme="dark"]')
    assert light.startswith(":root{color-scheme:light;")
    assert f"--zs-op-forward:{OPS['forward'].light};" in light
    assert f"--zs-op-forward:{OPS['forward'].dark};" in dark


def test_every_colour_comes_with_the_text_that_reads_on_it() -> None:
    for name in (f"--zs-op-{role}" for role in OPS):
        assert name in defined()
        assert name.replace("--zs-", "--zs-on-") in defined()
    assert "--zs-on-op-backward:#ffffff;" in stylesheet().split("dark")[0]


def test_memory_and_runs_have_their_colours() -> None:
    assert {f"--zs-mem-{kind}" for kind in MEMORY} <= defined()
    assert {f"--zs-run-{run.label.lower()}" for run in RUN} <= defined()


def test_the_stylesheet_uses_no_colour_that_is_not_defined() -> None:
    css = (ASSETS / "zs.css").read_text()
    own = set(re.findall(r"(--[\w-]+)\s*:", css))
    used = set(re.findall(r"var\((--zs-[\w-]+)", css))
    assert used - own - defined() == set()


def test_the_stylesheet_asks_for_nothing_from_outside() -> None:
    for path in ASSETS.glob("*.css"):
        assert "url(" not in path.read_text(), path.name
        assert "@import" not in path.read_text(), path.name
