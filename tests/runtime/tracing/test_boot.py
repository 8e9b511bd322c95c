"""The `sitecustomize` of a traced program: it does nothing where it should not, and hides nobody else's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import zerosim_runtime.tracing

BOOT = Path(zerosim_runtime.tracing.__file__).with_name("boot")
HOOKED = "import sys; print(any('zerosim' in type(f).__module__ for f in sys.meta_path))"


def python(code: str, *paths: Path, **environment: str) -> str:
    path = os.pathsep.join(map(str, (BOOT, *paths, *sys.path)))
    kept = {k: v for k, v in os.environ.items() if not k.startswith("ZEROSIM")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=kept | {"PYTHONPATH": path} | environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return done.stdout.strip()


def test_without_a_directory_to_trace_into_it_does_nothing() -> None:
    assert python(HOOKED) == "False"


def test_with_one_it_waits_for_the_import_of_torch(tmp_path: Path) -> None:
    assert python(HOOKED, ZEROSIM_TRACE_DIR=str(tmp_path)) == "True"
    code = "import sys; print('torch' in sys.modules, 'polars' in sys.modules)"
    assert python(code, ZEROSIM_TRACE_DIR=str(tmp_path)) == "False False"
    assert [*tmp_path.iterdir()] == []


def test_an_earlier_sitecustomize_still_runs(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import builtins; builtins.mine = 'it ran'")
    code = "import sys; print(mine, sys.modules['sitecustomize'].__file__)"
    traced = python(code, tmp_path, ZEROSIM_TRACE_DIR=str(tmp_path))
    assert traced == f"it ran {tmp_path / 'sitecustomize.py'}"


def test_what_cannot_be_set_up_is_noted_and_the_program_goes_on(tmp_path: Path) -> None:
    package = tmp_path / "zerosim_runtime"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('broken')")
    runs = tmp_path / "runs"
    runs.mkdir()
    assert python("print('goes on')", tmp_path, ZEROSIM_TRACE_DIR=str(runs)) == "goes on"
    assert (runs / "tracer.log").read_text() == "not traced: RuntimeError: broken\n"
