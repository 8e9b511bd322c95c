"""Whose collective a call is: read from the Python frames above it.

# Note [The unit of a collective]
The unit that its tensors belong to, as its engine knows it: FSDP2's parameter group, FSDP1's handle, the
parameters of DDP's bucket, DeepSpeed's parameters, the parameter that is sent itself. Else the unit whose
forward or backward runs. A collective of no unit at all (a loss, a barrier, an overflow flag) bears the
name of the program's function that asked for it, with brackets: `average_loss()`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import PurePath
from types import CodeType, FrameType
from typing import Any, Final

import torch.distributed as dist
from torch import nn

from zerosim_runtime.tracing.models import Models
from zerosim_runtime.tracing.units import clean

_DEPTH: Final = 80
_Bucket: Final[Any] = dist.GradBucket  # type: ignore[attr-defined] # torch does not list it
_ROOT: Final = ""
Read = Callable[[dict[str, Any], Models], str | None]
"""Reads the unit off the variables of a frame; None: not from this one."""


def _group_of_fsdp2(variables: dict[str, Any], models: Models) -> str | None:
    path = getattr(variables.get("self"), "_module_fqn", None)
    return None if path is None else _paths(str(path), models)


def _handle_of_fsdp1(variables: dict[str, Any], models: Models) -> str | None:
    handle = variables.get("handle", variables.get("self"))
    module = getattr(handle, "_fully_sharded_module", None)
    place = models.known(module) if isinstance(module, nn.Module) else None
    return None if place is None else place.path


def _parameters_of_deepspeed3(variables: dict[str, Any], models: Models) -> str | None:
    found = variables.get("params", variables.get("params_in_bucket", variables.get("param")))
    return _units_of(found, models)


def _bucket_of_deepspeed(variables: dict[str, Any], models: Models) -> str | None:
    found = variables.get("params_to_reduce", variables.get("params"))
    return _units_of(found, models)


def _whole_model(_: dict[str, Any], __: Models) -> str | None:
    return _ROOT


_READS: Final[dict[str, Read]] = {
    "fsdp/_fully_shard/_fsdp_param_group.py": _group_of_fsdp2,
    "distributed/fsdp/_flat_param.py": _handle_of_fsdp1,
    "distributed/fsdp/_runtime_utils.py": _handle_of_fsdp1,
    "distributed/fsdp/_init_utils.py": _whole_model,
    "torch/nn/parallel/distributed.py": _whole_model,
    "zero/partition_parameters.py": _parameters_of_deepspeed3,
    "runtime/zero/stage3.py": _parameters_of_deepspeed3,
    "runtime/zero/stage_1_and_2.py": _bucket_of_deepspeed,
}
_LIBRARIES: Final = ("/site-packages/", "/dist-packages/", "/zerosim_runtime/", "/lib/python3", "<")
_BACKWARD: Final = "_engine_run_backward"


@dataclass(frozen=True, slots=True)
class Found:
    """What the frames say: `unit` by an engine, `bucket` of a DDP hook, the `function` that asked.

    `reducer`: there is no Python between autograd and the call, so that it is DDP's reducer's.
    """

    unit: str | None = None
    bucket: int | None = None
    function: str | None = None
    reducer: bool = False


@dataclass(slots=True)
class Callers:
    """Reads frames; what is known of a function's code is looked up once."""

    models: Models
    reads: dict[CodeType, Read | None] = field(default_factory=dict)
    programs: dict[CodeType, str | None] = field(default_factory=dict)

    def find(self, *, backward: bool) -> Found:
        """What the frames above the interposed kernel say; `backward`: autograd runs in this thread."""
        function, inside, first = None, backward, True
        for frame in _above():
            code = frame.f_code
            if inside and code.co_name == _BACKWARD:
                inside = False
                if first:
                    return Found(reducer=True)
            first = False
            if inside:
                found = _hooked(frame, self.models)
                if found is not None:
                    return found
            read = self._read(code)
            unit = read(frame.f_locals, self.models) if read is not None else None
            if unit is not None:
                return Found(unit, function=function)
            function = function or self._program(code)
        return Found(function=function, reducer=first)

    def _read(self, code: CodeType) -> Read | None:
        if code not in self.reads:
            path = PurePath(code.co_filename).as_posix()
            self.reads[code] = next((r for end, r in _READS.items() if path.endswith(end)), None)
        return self.reads[code]

    def _program(self, code: CodeType) -> str | None:
        """What a function of the program itself is called; None for one of a library."""
        if code not in self.programs:
            path = PurePath(code.co_filename).as_posix()
            ours = not any(word in path for word in _LIBRARIES)
            name = PurePath(path).name if code.co_name == "<module>" else f"{code.co_name}()"
            self.programs[code] = name if ours else None
        return self.programs[code]


def _above() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - the only way
    ours = __package__
    while frame is not None and frame.f_globals.get("__package__") == ours:
        frame = frame.f_back
    for _ in range(_DEPTH):
        if frame is None:
            return
        yield frame
        frame = frame.f_back


def _hooked(frame: FrameType, models: Models) -> Found | None:
    """The bucket that a communication hook of DDP has in hand."""
    if "bucket" not in frame.f_code.co_varnames:
        return None
    bucket = frame.f_locals.get("bucket")
    if not isinstance(bucket, _Bucket):
        return None
    wanted = {id(parameter) for parameter in bucket.parameters()}
    names = [name for name, parameter in models.parameters() if id(parameter) in wanted]
    return Found(models.units_of_paths(reversed(names)), bucket.index())


def _paths(path: str, models: Models) -> str:
    """FSDP2 names a group of several modules by all of their paths."""
    return models.units_of_paths(path.split(", ")) if ", " in path else clean(path)


def _units_of(parameters: Any, models: Models) -> str | None:  # noqa: ANN401 - whatever the frame has
    several = parameters if isinstance(parameters, list | tuple) else [parameters]
    wanted = {id(each) for each in several}
    names = [name for name, parameter in models.parameters() if id(parameter) in wanted]
    return models.units_of_paths(names) if names else None
