"""Whoever launches, merges or replays loads no torch: it takes seconds, and is an extra."""

from __future__ import annotations

import os
import subprocess
import sys

LAUNCHERS = (
    "zerosim_runtime.launch",
    "zerosim_runtime.node",
    "zerosim_runtime.watchdog",
    "zerosim_runtime.lab.check",
    "zerosim_runtime.lab.paced",
    "zerosim_runtime.lab.run",
    "zerosim_runtime.replaying.launch",
    "zerosim_runtime.tracing.launch",
)
SCRIPT = """
import sys
from importlib import import_module
from zerosim.cli import run

for name in sys.argv[1:]:
    import_module(name)
    assert "torch" not in sys.modules, f"{name} loads torch"
for words in (
    ["trace", "--backend", "mpi", "lesson-zero3"],
    ["trace", "--", "missing.py"],
    ["merge", ".", "-o", "run"],
    ["lab", "--inter", "fast", "lesson-zero3"],
    ["replay", "missing", "--real"],
):
    assert run(words) == 2, words
    assert "torch" not in sys.modules, f"zerosim {words[0]} loads torch"
"""


def test_launchers_and_their_verbs_load_no_torch(tmp_path: os.PathLike[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *LAUNCHERS],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
