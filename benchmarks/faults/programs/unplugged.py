"""A lab of two nodes, whose second one's cable is pulled after a few steps: `unplugged.py OUT TIMEOUT`."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from zerosim.cli import main
from zerosim_runtime.lab import run
from zerosim_runtime.lab.links import Lab, drop_link, open_lab
from zerosim_runtime.lab.shape import Shape
from zerosim_runtime.ring import read_ring

_LATER = 40
"""Collectives that a rank has ended when it happens."""


def _pull(lab: Lab, temporary: Path) -> None:
    while True:
        places = [*temporary.glob("zerosim-*")]
        if places and sum(n.ended_ns > 0 for n in read_ring(places[0], 0)) > _LATER:
            break
        time.sleep(0.05)
    drop_link(lab, 1)
    Path(os.environ["FAULT_MARK"]).touch()


@contextmanager
def _pulled(shape: Shape) -> Iterator[Lab]:
    with open_lab(shape) as lab:
        words = (lab, Path(os.environ["TMPDIR"]))
        threading.Thread(target=_pull, args=words, daemon=True).start()
        yield lab


if __name__ == "__main__":
    vars(run)["open_lab"] = _pulled
    words = [
        "lab",
        "--nodes",
        "2",
        "--ranks-per-node",
        "1",
        "--inter",
        "400Mbit",
        "--steps",
        "4000",
    ]
    main([*words, "--timeout", sys.argv[2], "lesson-zero3", "-o", sys.argv[1]])
