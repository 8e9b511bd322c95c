"""Where a program's process group begins and ends, found out without changing the program.

Nothing happens before `torch.distributed` is imported, and nothing is written before
`init_process_group` is called and makes a rank of this process: launchers, data-loader workers and other
subprocesses are left alone.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any, Final

DIRECTORY_VARIABLE: Final = "ZEROSIM_TRACE_DIR"
"""Where ranks write; every process of a traced program has it in its environment."""
STEPS_VARIABLE: Final = "ZEROSIM_TRACE_STEPS"
"""The first and the last step to keep, as `A:B`; all if it is not set."""
EXTRAS_VARIABLE: Final = "ZEROSIM_TRACE_EXTRAS"
"""What torch itself is to record, too (`tracing.extras`), separated by commas."""
_WRAPPED: Final = "_zerosim_wrapped"
_TARGET: Final = "torch.distributed.distributed_c10d"


def install() -> None:
    """Trace this process once it becomes a rank, if the environment names a directory then."""
    module = sys.modules.get(_TARGET)
    if module is None:
        sys.meta_path.insert(0, _Finder())
    else:
        wrap(module)


def wrap(module: ModuleType) -> None:
    """Let the making and the ending of the default process group tell the tracer."""
    if getattr(module, _WRAPPED, False):
        return
    setattr(module, _WRAPPED, True)
    holders = (module, sys.modules.get("torch.distributed"))
    for name, made in (
        ("init_process_group", _then_begin(module.init_process_group)),
        ("destroy_process_group", _end_before(module.destroy_process_group)),
    ):
        for holder in holders:
            if holder is not None:
                setattr(holder, name, made)


class _Finder(MetaPathFinder):
    """Lets the one module be found as ever, and wrapped once it has been executed."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec that the other finders give, with a loader that wraps."""
        if fullname != _TARGET:
            return None
        sys.meta_path.remove(self)
        found = (finder.find_spec(fullname, path, target) for finder in sys.meta_path)
        spec = next((spec for spec in found if spec is not None), None)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader(Loader):
    """The module's own loader, and then the wrapping."""

    def __init__(self, own: Loader) -> None:
        self.own = own

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """As its own loader does."""
        return self.own.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """As its own loader does; then wrap."""
        self.own.exec_module(module)
        if module.__spec__ is not None:
            module.__spec__.loader = self.own
        module.__loader__ = self.own
        if hasattr(module, "init_process_group"):
            wrap(module)


def _then_begin(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - torch's own
        with _joining():
            result = function(*args, **kwargs)
        _tell("begin")
        return result

    return wrapped


@contextmanager
def _joining() -> Iterator[None]:
    """Whoever looks on sees in the ring that this rank waits for the others to join."""
    directory, rank = os.environ.get(DIRECTORY_VARIABLE), os.environ.get("RANK", "")
    ended: Callable[[], None] | None = None
    if directory is not None and rank.isdecimal():
        with suppress(Exception):  # the program goes on without its tracer
            ended = import_module("zerosim_runtime.ring").note_joining(Path(directory), int(rank))
    yield
    if ended is not None:
        ended()


def _end_before(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapped(group: Any = None) -> Any:  # noqa: ANN401 - torch's own
        if group is None:
            _tell("end")
        return function(group)

    return wrapped


def _tell(what: str) -> None:
    directory = os.environ.get(DIRECTORY_VARIABLE)
    if directory is None:
        return
    try:
        rank = import_module("zerosim_runtime.tracing.rank")
        if what == "begin":
            rank.begin(Path(directory))
        else:
            rank.end()
    except Exception as error:  # noqa: BLE001 - the program goes on without its tracer
        note_problem(Path(directory), f"{what}: {type(error).__name__}: {error}")


def note_problem(directory: Path, problem: str) -> None:
    """Leave a line in the run's directory; the program goes on."""
    try:
        with (directory / "tracer.log").open("a", encoding="utf-8") as log:
            log.write(problem + "\n")
    except OSError:
        return
