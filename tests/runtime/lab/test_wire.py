"""Bytes on the wire, as the interfaces of a lab count them, are the closed forms within 1 %."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import orjson
import pytest

PROGRAM = Path(__file__).with_name("wire_program.py")
Found = dict[str, dict[str, list[dict[str, float]]]]


@pytest.fixture(scope="module")
def wire(lab_possible: None, tmp_path_factory: pytest.TempPathFactory) -> Found:
    """Of each shape, case and node: payload bytes by uplink and inside, over the buffer's."""
    del lab_possible
    report = tmp_path_factory.mktemp("wire") / "report.json"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(report)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: Found = orjson.loads(report.read_bytes())
    return found


@pytest.mark.runtime
@pytest.mark.parametrize(
    ("shape", "case", "sent", "inside"),
    [
        ("2x1", "all_gather, native", 1 / 2, 0),
        ("2x1", "all_reduce, native", 2 / 2, 0),
        ("2x1", "reduce_scatter, native", 2 / 2, 0),
        ("2x1", "reduce_scatter, all-to-all", 1 / 2, 0),
        ("3x1", "all_gather, native", 2 / 3, 0),
        ("3x1", "all_reduce, native", 4 / 3, 0),
        ("3x1", "reduce_scatter, native", 4 / 3, 0),
        ("3x1", "reduce_scatter, all-to-all", 2 / 3, 0),
        ("4x1", "all_gather, native", 3 / 4, 0),
        ("4x1", "all_reduce, native", 6 / 4, 0),
        ("4x1", "reduce_scatter, native", 6 / 4, 0),
        ("4x1", "reduce_scatter, all-to-all", 3 / 4, 0),
        ("2x2", "all_gather, native", 3 / 4, 3 / 4),
        ("2x2", "all_reduce, native", 6 / 4, 6 / 4),
        ("2x2", "reduce_scatter, native", 6 / 4, 6 / 4),
        ("2x2", "reduce_scatter, all-to-all", 1, 1 / 2),
    ],
)
def test_every_node_moves_what_the_closed_form_says(
    wire: Found, shape: str, case: str, sent: float, inside: float
) -> None:
    for node in wire[shape][case]:
        assert node["sent"] == pytest.approx(sent, rel=0.01)
        assert node["received"] == pytest.approx(sent, rel=0.01)
        assert node["inside"] == pytest.approx(inside, rel=0.01, abs=1e-3)
        assert 1 < node["headers"] < 1.06
