"""Whose collective a call is: read from the Python frames above it.

# Note [The unit of a collective]
The unit that its tensors belong to, as its engine knows it: FSDP2's parameter group, FSDP1's handle, the
parameters of DDP's bucket, DeepSpeed's parameters, the parameter that is sent itself. Else the unit whose
forward or backward runs. A collective of no unit at all (a loss, a barrier, an overflow flag) bears the
name of the program's function that asked for it, with brackets: `average_loss()`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import PurePath
from types import CodeType, FrameType
from typing import Any, Final

import torch.distributed as dist
from torch import nn

from zerosim_runtime.tracing.models import Models
from zerosim_runtime.tracing.units import clean

_DEPTH: Final = 80
_DEPTH_OF_OURS: Final = 4
"""Between `find` and the interposed kernel; what else is ours on top is passed over."""
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
    bucket = getattr(variables.get("bucket"), "params", None)
    if bucket:
        # Where its parameters stand in the optimizer's groups, as `bit16_groups` lists them.
        groups = variables["self"].bit16_groups
        return _units_of([groups[group][index] for group, index, _ in bucket], models)
    found = variables.get("params_to_reduce", variables.get("params"))
    return _units_of(found, models)


def _model_of_deepspeed(variables: dict[str, Any], _: Models) -> str | None:
    # Only the function that sends the whole model, parameter by parameter, asks this of each.
    return _ROOT if "is_replicated" in variables else None


def _whole_model(_: dict[str, Any], __: Models) -> str | None:
    return _ROOT


_READS: Final[dict[str, Read]] = {
    "fsdp/_fully_shard/_fsdp_param_group.py": _group_of_fsdp2,
    "distributed/fsdp/_flat_param.py": _handle_of_fsdp1,
    "distributed/fsdp/_runtime_utils.py": _handle_of_fsdp1,
    "distributed/fsdp/_init_utils.py": _whole_model,
    "torch/nn/parallel/distributed.py": _whole_model,
    "zero/partition_parameters.py": _parameters_of_deepspeed3,
    "deepspeed/runtime/engine.py": _model_of_deepspeed,
    "runtime/zero/stage3.py": _parameters_of_deepspeed3,
    "runtime/zero/stage_1_and_2.py": _bucket_of_deepspeed,
}
_LIBRARIES: Final = ("/site-packages/", "/dist-packages/", "/zerosim_runtime/", "/lib/python3", "<")
_BACKWARD: Final = "_engine_run_backward"
_OURS: Final = "/zerosim_runtime/tracing/"


@dataclass(frozen=True, slots=True)
class Found:
    """What the frames say: `unit` by an engine, `bucket` of a DDP hook, the `function` that asked.

    `reducer`: there is no Python between autograd and the call, so that it is DDP's reducer's.
    """

    unit: str | None = None
    bucket: int | None = None
    function: str | None = None
    reducer: bool = False


_REDUCER: Final = Found(reducer=True)


@dataclass(frozen=True, slots=True)
class Function:
    """What a function's code tells. `ours`: it is the tracer's; `name`: the program's own name of it.

    `code` is held, so that its id is no other's. `plain`: it tells nothing.
    """

    code: CodeType
    ours: bool
    backward: bool
    hook: bool
    read: Read | None
    name: str | None
    plain: bool


@dataclass(slots=True)
class Callers:
    """Reads frames; what is known of a function's code is looked up once, by the code's id.

    A code's own hash is of all of its bytes: too slow for a lookup at each frame of each collective.
    """

    models: Models
    functions: dict[int, Function] = field(default_factory=dict)

    def find(self, *, backward: bool) -> Found:
        """What the frames above the interposed kernel say; `backward`: autograd runs in this thread."""
        name, inside, first, functions = None, backward, True, self.functions
        frame: FrameType | None = sys._getframe(_DEPTH_OF_OURS)  # noqa: SLF001 - the only way
        left = _DEPTH
        while frame is not None and left:
            code = frame.f_code
            function = functions.get(id(code)) or self._learn(code)
            if function.plain:
                first = False
                left -= 1
            elif not (first and function.ours):
                if inside and function.backward:
                    if first:
                        return _REDUCER
                    inside = False
                first = False
                if inside and function.hook and (hooked := _hooked(frame, self.models)) is not None:
                    return hooked
                if function.read is not None:
                    unit = function.read(frame.f_locals, self.models)
                    if unit is not None:
                        return Found(unit, function=name)
                name = name or function.name
                left -= 1
            frame = frame.f_back
        return Found(function=name, reducer=first)

    def _learn(self, code: CodeType) -> Function:
        path = PurePath(code.co_filename).as_posix()
        named = PurePath(path).name if code.co_name == "<module>" else f"{code.co_name}()"
        ours, backward = _OURS in path, code.co_name == _BACKWARD
        hook = "bucket" in code.co_varnames
        read = next((r for end, r in _READS.items() if path.endswith(end)), None)
        name = None if any(word in path for word in _LIBRARIES) else named
        plain = not (ours or backward or hook or read or name)
        function = Function(code, ours, backward, hook, read, name, plain)
        self.functions[id(code)] = function
        return function


def _hooked(frame: FrameType, models: Models) -> Found | None:
    """The bucket that a communication hook of DDP has in hand."""
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
