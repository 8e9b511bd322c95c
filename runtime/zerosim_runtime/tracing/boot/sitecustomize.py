"""Python runs this at its start wherever `zerosim trace` looks on; else it does nothing.

It must not break anybody's program: an earlier `sitecustomize` runs as if this one were not there, and
what goes wrong in here is written to the run's directory.
"""

import os
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path


def _run_the_next() -> None:
    """Run the `sitecustomize` that this one hides."""
    here = Path(__file__).resolve().parent
    elsewhere = [path for path in sys.path if Path(path or ".").resolve() != here]
    spec = PathFinder.find_spec("sitecustomize", elsewhere)
    if spec is None or spec.loader is None:
        return
    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


def _observe() -> None:
    directory = os.environ.get("ZEROSIM_TRACE_DIR")
    if directory is None:
        return
    try:
        from zerosim_runtime.tracing.hook import install  # noqa: PLC0415 - only where it is asked for

        install()
    except Exception as error:  # noqa: BLE001 - the program goes on without its tracer
        with Path(directory, "tracer.log").open("a") as log:
            log.write(f"not traced: {type(error).__name__}: {error}\n")


_observe()
_run_the_next()
