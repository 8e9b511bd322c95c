"""One of two ranks that run scripts one after the other, plain and traced: torch is imported once.

`python many.py RANK PORT DIRECTORY SCRIPT…`: `DIRECTORY/NAME/traced` gets the records of ranks, and
`DIRECTORY/NAME/{traced,plain}-RANK.out` what they printed. The n-th process group meets at PORT + n.
"""

from __future__ import annotations

import gc
import os
import runpy
import sys
from contextlib import redirect_stdout
from itertools import count
from pathlib import Path

from zerosim_runtime.tracing.hook import DIRECTORY_VARIABLE

PLAIN_ONLY = ("block",)


def run(script: str, place: Path, rank: str, port: int, *, traced: bool) -> None:
    os.environ["MASTER_PORT"] = str(port)
    how = "traced" if traced else "plain"
    if traced:
        (place / "traced").mkdir(parents=True, exist_ok=True)
        os.environ[DIRECTORY_VARIABLE] = str(place / "traced")
    else:
        os.environ.pop(DIRECTORY_VARIABLE, None)
    sys.argv = [script, str(place)]
    with (place / f"{how}-{rank}.out").open("w") as output, redirect_stdout(output):
        runpy.run_path(script, run_name="__main__")
    if traced:
        sys.modules["zerosim_runtime.tracing.rank"].finish("finished", "")
    gc.collect()


def main(rank: str, port: int, directory: Path, scripts: list[str]) -> None:
    local = {"LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}
    os.environ |= {"RANK": rank, "WORLD_SIZE": "2", **local}
    ports = count(port)
    for script in scripts:
        place = directory / Path(script).stem
        place.mkdir(exist_ok=True)
        for traced in (False,) if place.name in PLAIN_ONLY else (False, True):
            run(script, place, rank, next(ports), traced=traced)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]), sys.argv[4:])
