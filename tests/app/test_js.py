"""The browser's pure code, run by node: one failure here shows node's own report."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

JS = Path(__file__).parent / "js"
ASSETS = Path(__file__).parents[2] / "app" / "zerosim_app" / "assets"


def test_the_timelines_code_passes_its_own_tests() -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    files = sorted(str(path) for path in JS.glob("*.test.mjs"))
    assert len(files) >= 5
    done = subprocess.run(
        [node, "--test", *files], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert "# fail 0" in done.stdout


def test_no_file_of_the_timeline_is_longer_than_300_lines() -> None:
    lengths = {path.name: len(path.read_text().splitlines()) for path in ASSETS.glob("*_zs_*.mjs")}
    assert lengths
    assert {name: n for name, n in lengths.items() if n > 300} == {}


def test_the_timeline_asks_nobody_outside() -> None:
    for path in ASSETS.glob("*_zs_*.mjs"):
        text = path.read_text()
        assert "http://" not in text, path.name
        assert "https://" not in text, path.name
