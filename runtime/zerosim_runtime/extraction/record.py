"""From a made module to a workload record: three passes tell what grows with the batch, and how."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_leaves

from zerosim.errors import ScenarioError
from zerosim.models.extracted import FORMAT, VERSION
from zerosim_runtime.extraction.counts import Counter
from zerosim_runtime.extraction.factory import Made, reason
from zerosim_runtime.extraction.fakes import fake_inputs, make_fake
from zerosim_runtime.extraction.layers import (
    Json,
    joined,
    layer_names,
    layer_record,
    workspaces,
)
from zerosim_runtime.extraction.segments import Segment
from zerosim_runtime.extraction.units import Wrapped, short_names, units_of, wrapped_modules

_PASSES: Final = (1, 2, 3)
"""Two points make a line, the third says whether it is one."""
_FIXED: Final = ("name", "parameters")
"""What does not grow with a batch."""
_ESTIMATES: Final = (
    *("forward_elements", "backward_elements", "forward_kernels", "backward_kernels"),
)
"""With a batch of 1 kernels are left out that add up over it: a line through 2 and 3 will do."""
_SCRATCH: Final = ("forward_workspace", "backward_workspace", "unsaved_workspace")


@dataclass(frozen=True, slots=True)
class Asked:
    """What to extract with: token ids `[batch, seq]` unless the factory gives inputs."""

    batch: int
    seq: int
    wrap: tuple[str, ...]
    dtype: torch.dtype
    causal: bool


@dataclass(frozen=True, slots=True)
class _Pass:
    """One forward and backward: its layers, their tokens, and elements that live only meanwhile."""

    segments: tuple[Segment, ...]
    layers: tuple[Json, ...]
    tokens: int
    workspaces: tuple[tuple[int, int, int], ...]


def record_of(made: Made, asked: Asked) -> Json:
    """The workload record of a module. Raises ScenarioError, UnknownNameError."""
    root = made.module
    with FakeTensorMode():
        make_fake(root)
        units = units_of(root, wrapped_modules(root, asked.wrap))
        passes = [_counted(made, asked, units, _PASSES[0])]
        try:
            passes += [_counted(made, asked, units, n) for n in _PASSES[1:]]
        except ScenarioError:  # such as inputs of a fixed batch
            passes = passes[:1]
    used = set().union(*(segment.used for segment in passes[0].segments))
    kept, numbers = _kept_units(passes[0].segments, units)
    layers, tokens, scales = _scaled(passes)
    layers = [layer | scratch for layer, scratch in zip(layers, _workspaces(passes), strict=True)]
    paths = short_names(units[i].path for i in kept if units[i].path)
    names = ["root" if not unit.path else paths.get(unit.path, unit.path) for unit in units]
    layer_list = layer_names(passes[0].segments, names)
    return {
        "format": FORMAT,
        "version": VERSION,
        "name": type(root).__name__,
        "batch": _batch(made, asked),
        "tokens": tokens,
        "scales": scales,
        "causal": asked.causal,
        "dtype": str(asked.dtype).removeprefix("torch."),
        "units": _compact(
            [{"names": [names[i]], "parameters": _parameters(units[i], used)} for i in kept],
            steps=False,
        ),
        "layers": _compact(
            [
                {"names": [name], "unit": numbers[segment.unit], **layer}
                for name, segment, layer in zip(layer_list, passes[0].segments, layers, strict=True)
            ],
            steps=True,
        ),
    }


def _counted(made: Made, asked: Asked, units: tuple[Wrapped, ...], repeats: int) -> _Pass:
    """Count one forward and backward with the batch `repeats` times as large."""
    args, kwargs = made.args, dict(made.kwargs or {})
    if args is None:
        args = (torch.empty(asked.batch, asked.seq, dtype=torch.long),)
    args, kwargs = fake_inputs((args, kwargs), repeats)
    counter = Counter(made.module, units, (args, kwargs))
    shape = " with token ids [batch, seq]" if made.args is None else " with its example inputs"
    try:
        with counter.hooked(made.module), counter:
            answer = made.module(*args, **kwargs)
        outputs = _outputs(answer)
        made.module.zero_grad(set_to_none=True)  # else gradients would be added up
        counter.backward(outputs)
        bare = _unsaved(made, units, args, kwargs)
    except ScenarioError:
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever the user's code raises
        name = type(made.module).__name__
        remedy = "give (module, example_inputs), and decide nothing by the values of tensors"
        raise ScenarioError(
            f"{name} does not run{shape} and without values {reason(error)}: {remedy}"
        ) from None
    segments = joined(counter.segments, units)
    layers = [layer_record(segment, units[segment.unit], asked.dtype) for segment in segments]
    for layer in layers:
        layer["logits"] = 0
    scores = [t for t in outputs if t.dim()]
    layers[-1]["logits"] = sum(t.numel() for t in scores)
    nbytes = sum(t.numel() * t.element_size() for t in scores)
    scratch = workspaces(segments, joined(bare, units), nbytes, asked.dtype.itemsize)
    return _Pass(tuple(segments), tuple(layers), _tokens(args, kwargs), tuple(scratch))


def _unsaved(
    made: Made, units: tuple[Wrapped, ...], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> list[Segment]:
    """The forward again, with nothing kept for a backward: as a checkpoint runs a layer first."""
    counter = Counter(made.module, units, (args, kwargs))
    with torch.no_grad(), counter.hooked(made.module), counter:
        made.module(*args, **kwargs)
    return counter.segments


def _outputs(answer: object) -> list[torch.Tensor]:
    """The tensors a backward starts from: the loss if there is one, else all that have a gradient."""
    if isinstance(loss := getattr(answer, "loss", None), torch.Tensor):
        answer = loss
    found = [t for t in tree_leaves(answer) if isinstance(t, torch.Tensor) and t.requires_grad]
    if not found:
        found = [
            t
            for t in getattr(answer, "__dict__", {}).values()
            if isinstance(t, torch.Tensor) and t.requires_grad
        ]
    if not found:
        raise ScenarioError(
            f"the forward returned a {type(answer).__name__} without a gradient: "
            "return the loss or the scores as tensors"
        )
    return found


def _tokens(args: Any, kwargs: Any) -> int:  # noqa: ANN401 - the user's own structure
    """Token ids of the first input, or samples if it holds something else."""
    first = next(t for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor))
    ids = first.dim() > 1 and not first.is_floating_point()
    return first.shape[0] * first.shape[1] if ids else (first.shape[0] if first.dim() else 1)


def _batch(made: Made, asked: Asked) -> int:
    if made.args is None:
        return asked.batch
    leaves = tree_leaves((made.args, dict(made.kwargs or {})))
    tensors = [t for t in leaves if isinstance(t, torch.Tensor)]
    if not tensors:
        raise ScenarioError("the example inputs hold no tensor: give those that the forward takes")
    return tensors[0].shape[0] if tensors[0].dim() else 1


def _kept_units(
    segments: Sequence[Segment], units: Sequence[Wrapped]
) -> tuple[list[int], dict[int, int]]:
    """Units with parameters, by first use (the root first, unused ones last), and their new numbers."""
    by_use = [0, *dict.fromkeys(segment.unit for segment in segments), *range(len(units))]
    kept = [i for i in dict.fromkeys(by_use) if units[i].parameters]
    return kept, {old: new for new, old in enumerate(kept)}


def _parameters(unit: Wrapped, used: set[int]) -> list[Json]:
    found = []
    for name, parameter in unit.parameters.items():
        record: Json = {"name": name, "shape": list(parameter.shape)}
        if not parameter.requires_grad:
            record["frozen"] = True
        elif id(parameter) not in used:
            record["unused"] = True
        found.append(record)
    return found


def _scaled(passes: Sequence[_Pass]) -> tuple[list[Json], Any, bool]:
    """Layers and tokens with every number as it grows with the batch, if it does so in a line."""
    plain = list(passes[0].layers), passes[0].tokens, False
    if len(passes) < len(_PASSES):
        return plain
    try:
        layers = [_line(*layer) for layer in zip(*(p.layers for p in passes), strict=True)]
        return layers, _line(*(p.tokens for p in passes)), True
    except ValueError:
        return plain


def _workspaces(passes: Sequence[_Pass]) -> Iterator[Json]:
    """Each layer's workspaces as lines over the batch, of which the highest counts.

    The most of several things that grow in a line bends upwards, so the lines through neighbouring
    passes never say more than is there, and at these passes they say it exactly.
    """
    for found in zip(*(p.workspaces for p in passes), strict=True):
        record = {}
        for name, sizes in zip(_SCRATCH, zip(*found, strict=True), strict=True):
            lines = [
                [low - k * (high - low), high - low]
                for k, (low, high) in enumerate(pairwise(sizes), 1)
            ]
            record[name] = [list(line) for line in dict.fromkeys(map(tuple, lines))] or [
                [sizes[0], 0]
            ]
        yield record


def _lines_of(key: str, values: list[Any]) -> Any:  # noqa: ANN401 - as _line
    if key in _ESTIMATES:
        each = values[2] - values[1]
        if values[1] - each >= 0:
            return _line(values[1] - each, *values[1:])
    return _line(*values)


def _line(*values: Any) -> Any:  # noqa: ANN401 - the same structure of numbers, three times
    """Numbers that lie on a line: `each` a batch, or `[fixed, each]`. Raises ValueError if not."""
    first = values[0]
    if isinstance(first, dict):
        keys = dict.fromkeys(key for value in values for key in value)
        return {
            key: first[key] if key in _FIXED else _lines_of(key, [v.get(key, 0) for v in values])
            for key in keys
        }
    if isinstance(first, list):
        if len({len(value) for value in values}) > 1:
            raise ValueError
        return [_line(*part) for part in zip(*values, strict=True)]
    steps = {b - a for a, b in pairwise(values)}
    if len(steps) > 1:
        raise ValueError
    each = steps.pop()
    return each if first == each else [first - each, each]


def _compact(entries: list[Json], *, steps: bool) -> list[Json]:
    """Equal neighbours as one entry with all their names; with `steps` their units count up."""
    found: list[Json] = []
    for entry in entries:
        last = found[-1] if found else None
        if last is not None:
            unit = {"unit": last["unit"] + len(last["names"])} if steps else {}
            if entry == last | unit | {"names": entry["names"]}:
                last["names"] += entry["names"]
                continue
        found.append(entry)
    return found
