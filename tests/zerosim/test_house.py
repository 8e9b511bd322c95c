"""The house: its floors, and what every file promises its reader."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path
from statistics import median, quantiles

import grimp
import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ("zerosim", "app/zerosim_app", "runtime/zerosim_runtime")
MODULES = sorted(path for source in SOURCES for path in (ROOT / source).rglob("*.py"))
EVERY_FILE = sorted(
    [*MODULES, *(ROOT / "tests").rglob("*.py"), *(ROOT / "benchmarks").rglob("*.py")]
)
NOTHING_WORDS = ("util", "helper", "manager", "handler", "misc", "common")


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def functions() -> Iterator[tuple[str, int]]:
    """Every function of the sources with its length in lines, docstring and blank lines left out."""
    for path in MODULES:
        lines = path.read_text().splitlines()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                first = node.body[0]
                documented = ast.get_docstring(node) is not None
                start = (first.end_lineno or 0) if documented else first.lineno - 1
                body = lines[start : node.end_lineno]
                yield f"{named(path)}:{node.name}", sum(bool(line.strip()) for line in body)


LENGTHS = dict(functions())


def test_no_floor_imports_one_above_it() -> None:
    path = os.pathsep.join(str(ROOT / part) for part in (".", "app", "runtime"))
    command = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run(
        [command, "--no-cache"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("path", EVERY_FILE, ids=named)
def test_every_module_opens_with_a_line_that_says_what_the_reader_finds(path: Path) -> None:
    docstring = ast.get_docstring(ast.parse(path.read_text()))
    assert docstring
    assert len(docstring.splitlines()[0]) >= len("What is X.")


@pytest.mark.parametrize("path", EVERY_FILE, ids=named)
def test_no_file_is_longer_than_300_lines(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 300


def test_functions_are_short() -> None:
    lengths = sorted(LENGTHS.values())
    assert median(lengths) <= 8
    assert quantiles(lengths, n=10)[8] <= 25


def test_no_function_is_longer_than_60_lines() -> None:
    assert [name for name, length in LENGTHS.items() if length > 60] == []


def test_modules_are_named_after_what_they_hold() -> None:
    assert [named(p) for p in MODULES if any(w in p.stem for w in NOTHING_WORDS)] == []


def test_nothing_is_left_to_do() -> None:
    marks = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
    mine = named(Path(__file__))
    assert [named(p) for p in EVERY_FILE if named(p) != mine and marks.search(p.read_text())] == []


def test_input_is_never_checked_by_assert() -> None:
    asserting = [
        named(path)
        for path in MODULES
        if any(isinstance(node, ast.Assert) for node in ast.walk(ast.parse(path.read_text())))
    ]
    assert asserting == []


@pytest.mark.parametrize("package", ["zerosim", "zerosim_app", "zerosim_runtime"])
def test_imports_have_no_cycle(package: str) -> None:
    graph = grimp.build_graph(package, cache_dir=None)
    imports = {m: graph.find_modules_directly_imported_by(m) for m in graph.modules}
    TopologicalSorter(imports).prepare()  # raises CycleError, which names the cycle
