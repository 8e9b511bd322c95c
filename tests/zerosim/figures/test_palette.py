"""The palette keeps its promise: colours differ for every kind of colour vision, and are frozen."""

from __future__ import annotations

import math
from itertools import combinations, pairwise

import numpy as np
import pytest

from zerosim.figures.palette import (
    BACKGROUND,
    INK,
    MEMORY,
    MUTED,
    OPS,
    ROLE,
    RUN,
    SOURCES,
    THEMES,
    Theme,
    contrast,
    op_colour,
    text_on,
)
from zerosim.kinds import MEMORY_KINDS, Kind

# Machado, Oliveira & Fernandes 2009, severity 1.0, on linear RGB.
VISION = {
    "normal": np.eye(3),
    "protan": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deutan": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "tritan": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
}
RGB_TO_XYZ = np.array(
    [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.0721750],
        [0.0193339, 0.1191920, 0.9503041],
    ]
)
WHITE = np.array([0.95047, 1.0, 1.08883])


def lab(colour: str, vision: str) -> tuple[float, float, float]:
    rgb = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    xyz = RGB_TO_XYZ @ np.clip(VISION[vision] @ linear, 0, 1) / WHITE
    f = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116)
    return float(116 * f[1] - 16), float(500 * (f[0] - f[1])), float(200 * (f[1] - f[2]))


def ciede2000(first: tuple[float, float, float], second: tuple[float, float, float]) -> float:
    (l1, a1, b1), (l2, a2, b2) = first, second
    c_mean = (math.hypot(a1, b1) + math.hypot(a2, b2)) / 2
    g = 0.5 * (1 - math.sqrt(c_mean**7 / (c_mean**7 + 25**7)))
    a1, a2 = a1 * (1 + g), a2 * (1 + g)
    c1, c2 = math.hypot(a1, b1), math.hypot(a2, b2)
    h1 = math.degrees(math.atan2(b1, a1)) % 360 if c1 else 0.0
    h2 = math.degrees(math.atan2(b2, a2)) % 360 if c2 else 0.0
    dh = 0.0 if not c1 * c2 else (h2 - h1 + 180) % 360 - 180
    big_h = 2 * math.sqrt(c1 * c2) * math.sin(math.radians(dh / 2))
    l_mean, c_bar = (l1 + l2) / 2, (c1 + c2) / 2
    if not c1 * c2:
        h_bar = h1 + h2
    elif abs(h1 - h2) <= 180:
        h_bar = (h1 + h2) / 2
    else:
        h_bar = (h1 + h2 + 360) / 2 if h1 + h2 < 360 else (h1 + h2 - 360) / 2
    t = (
        1
        - 0.17 * math.cos(math.radians(h_bar - 30))
        + 0.24 * math.cos(math.radians(2 * h_bar))
        + 0.32 * math.cos(math.radians(3 * h_bar + 6))
        - 0.20 * math.cos(math.radians(4 * h_bar - 63))
    )
    s_l = 1 + 0.015 * (l_mean - 50) ** 2 / math.sqrt(20 + (l_mean - 50) ** 2)
    s_c, s_h = 1 + 0.045 * c_bar, 1 + 0.015 * c_bar * t
    turn = math.radians(60 * math.exp(-(((h_bar - 275) / 25) ** 2)))
    r_t = -2 * math.sqrt(c_bar**7 / (c_bar**7 + 25**7)) * math.sin(turn)
    dl, dc, dh_ = (l2 - l1) / s_l, (c2 - c1) / s_c, big_h / s_h
    return math.sqrt(dl**2 + dc**2 + dh_**2 + r_t * dc * dh_)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ((50.0, 2.6772, -79.7751), (50.0, 0.0, -82.7485), 2.0425),
        ((50.0, -1.0, 2.0), (50.0, 0.0, 0.0), 2.3669),
        ((50.0, 2.5, 0.0), (61.0, -5.0, 29.0), 22.8977),
        ((2.0776, 0.0795, -1.1350), (0.9033, -0.0636, -0.5514), 0.9082),
    ],
)
def test_the_colour_difference_reproduces_the_published_pairs_of_sharma(
    first: tuple[float, float, float], second: tuple[float, float, float], expected: float
) -> None:
    assert ciede2000(first, second) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("vision", VISION)
def test_any_two_ops_differ_for_every_kind_of_colour_vision(vision: str, theme: Theme) -> None:
    labs = {role: lab(swatch[theme], vision) for role, swatch in OPS.items()}
    worst = min((ciede2000(labs[a], labs[b]), a, b) for a, b in combinations(labs, 2))
    assert worst[0] >= 12, worst


@pytest.mark.parametrize("theme", THEMES)
def test_every_op_but_the_hatched_idle_stands_out_from_the_background(theme: Theme) -> None:
    weak = {
        role: round(contrast(swatch[theme], BACKGROUND[theme]), 2)
        for role, swatch in OPS.items()
        if not swatch.hatched and contrast(swatch[theme], BACKGROUND[theme]) < 3
    }
    assert weak == {}
    assert [role for role, swatch in OPS.items() if swatch.hatched] == ["idle"]


@pytest.mark.parametrize("theme", THEMES)
def test_text_reads_on_the_background_and_on_every_op(theme: Theme) -> None:
    assert contrast(INK[theme], BACKGROUND[theme]) >= 7
    assert contrast(MUTED[theme], BACKGROUND[theme]) >= 4.5
    for swatch in (*OPS.values(), *MEMORY.values(), *RUN):
        assert contrast(text_on(swatch[theme]), swatch[theme]) >= 4.5, swatch


@pytest.mark.parametrize("theme", THEMES)
def test_neighbours_in_a_memory_stack_differ(theme: Theme) -> None:
    kinds = list(MEMORY)
    for vision in VISION:
        for a, b in pairwise(kinds):
            difference = ciede2000(lab(MEMORY[a][theme], vision), lab(MEMORY[b][theme], vision))
            assert difference >= 10, (vision, a, b, difference)


def test_every_kind_of_op_and_of_memory_has_a_colour() -> None:
    assert set(ROLE) == set(Kind)
    assert set(ROLE.values()) == set(OPS)
    assert tuple(MEMORY) == MEMORY_KINDS


def test_the_colours_are_frozen() -> None:
    assert {role: (s.light, s.dark) for role, s in OPS.items()} == {
        "forward": ("#41619E", "#6393F8"),
        "backward": ("#06168D", "#59EBFB"),
        "all_gather": ("#C68524", "#FDDB55"),
        "reduce_scatter": ("#B91C1A", "#D73300"),
        "all_reduce": ("#6F264A", "#BC759A"),
        "optimizer": ("#55A47A", "#8AC393"),
        "copy": ("#9F85C2", "#7455C8"),
        "idle": ("#C9CFD5", "#484A4C"),
    }
    assert op_colour(Kind.ALL_GATHER, "light") == "#C68524"
    assert op_colour(Kind.FORWARD, "dark") == "#6393F8"


def test_text_is_white_on_dark_blue_and_black_on_yellow() -> None:
    assert text_on("#06168D") == "#ffffff"
    assert text_on("#FDDB55") == "#111111"
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)


@pytest.mark.parametrize("theme", THEMES)
def test_sources_stand_out_from_the_background_and_none_has_anothers_colour(theme: Theme) -> None:
    colours = [swatch[theme] for swatch in SOURCES]
    assert len(set(colours)) == len(colours)
    assert min(contrast(colour, BACKGROUND[theme]) for colour in colours) >= 3
