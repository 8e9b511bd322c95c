"""From counted segments to the layers of a record: stretches without parameters join a neighbour."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import torch

from zerosim.errors import ScenarioError
from zerosim.units import DTYPE_BYTES
from zerosim_runtime.extraction.segments import Call, Segment
from zerosim_runtime.extraction.units import Wrapped

Json = dict[str, Any]
_INPUT, _OUTPUT, _WHOLE, _BETWEEN = "emb", "head", "root", "root"
_UNNAMED: Final = "root"


def joined(segments: Sequence[Segment], units: Sequence[Wrapped]) -> list[Segment]:
    """Segments that use a parameter of their unit; what lies between them is added to the one before.

    Raises ScenarioError if no parameter is used at all.
    """
    own = [{id(parameter) for parameter in unit.parameters.values()} for unit in units]
    found: list[Segment] = []
    waiting: list[Segment] = []
    for segment in segments:
        if segment.used & own[segment.unit]:
            found.append(_sum([*waiting, segment], segment))
            waiting = []
        elif found:
            found[-1] = _sum([found[-1], segment], found[-1])
        else:
            waiting.append(segment)
    if not found:
        raise ScenarioError(
            "the forward uses no parameter: return a module that computes with its own"
        )
    return found


def layer_names(segments: Sequence[Segment], units: Sequence[str]) -> list[str]:
    """A name a segment: its unit's, `emb` and `head` for the root's first and last; all different."""
    last = len(segments) - 1
    found = []
    for i, segment in enumerate(segments):
        edge = {0: _INPUT, last: _OUTPUT}.get(i, _BETWEEN) if last else _WHOLE
        found.append(units[segment.unit] if segment.unit else edge)
    seen: Tally[str] = Tally()
    names = []
    for name in found:
        seen[name] += 1
        names.append(name if seen[name] == 1 else f"{name}.{seen[name]}")
    return names


def layer_record(segment: Segment, unit: Wrapped, dtype: torch.dtype) -> Json:
    """What a record says about one layer, beside its name and unit: whole numbers of one pass."""
    kept = {str(kind).removeprefix("torch."): n for kind, n in segment.kept.items()}
    for kind in kept:
        if kind not in DTYPE_BYTES:
            raise ScenarioError(
                f"the model keeps {kind} tensors for its backward, whose size is unknown"
            )
    calls = segment.calls
    width = dtype.itemsize
    return {
        "forward_flops": sum(call.forward_flops for call in calls),
        "backward_flops": sum(call.backward_flops for call in calls),
        "masked_flops": sum(call.masked_flops for call in calls),
        "kept": kept,
        "inputs": segment.inputs,
        "forward_elements": -(-segment.traffic_bytes[0] // width),
        "backward_elements": -(-segment.traffic_bytes[1] // width),
        "forward_kernels": segment.kernels[0],
        "backward_kernels": segment.kernels[1],
        "attention_flops": segment.attention_flops,
        "modules": _modules(calls, unit),
    }


def workspaces(
    segments: Sequence[Segment], unsaved: Sequence[Segment], outputs: int, width: int
) -> list[tuple[int, int, int]]:
    """Elements that live only in a layer's forward, its backward, and a forward that keeps nothing.

    Of a peak, all that has been kept for the backward, the answer (`outputs` bytes) and its own
    gradients are counted elsewhere. Below 0 for a backward: when most is alive, so much of what was
    kept is gone.
    """
    found, kept = [], 0
    for i, (segment, bare) in enumerate(zip(segments, unsaved, strict=True)):
        kept += sum(kind.itemsize * n for kind, n in segment.kept.items())
        known = kept + (outputs if i == len(segments) - 1 else 0)
        forward = segment.peak_bytes[0] - known
        backward = segment.peak_bytes[1] - known - segment.gradient_bytes
        alone = bare.peak_bytes[0] - segment.inputs * width
        found.append(
            (max(0, -(-forward // width)), -(-backward // width), max(0, -(-alone // width)))
        )
    return found


def _modules(calls: Sequence[Call], unit: Wrapped) -> list[Json]:
    """Modules with parameters of this unit, in order; FLOPs of others go to the one before."""
    places = {id(parameter): i for i, parameter in enumerate(unit.parameters.values())}
    found: list[Json] = []
    waiting: list[Call] = []
    for call in calls:
        own = () if call.module is None else call.module.parameters(recurse=False)
        held = sorted({places[id(p)] for p in own if id(p) in places})
        if held:
            inside = call.path.removeprefix(f"{unit.path}.") if unit.path else call.path
            name = inside if inside and inside != unit.path else _UNNAMED
            record = {"name": name, "parameters": held, "forward_flops": 0, "backward_flops": 0}
            found.append(record | {"masked_flops": 0})
            for waited in (*waiting, call):
                _add(found[-1], waited)
            waiting = []
        elif found:
            _add(found[-1], call)
        else:
            waiting.append(call)
    return found


def _add(record: Json, call: Call) -> None:
    for name in ("forward_flops", "backward_flops", "masked_flops"):
        record[name] += getattr(call, name)


def _sum(parts: Sequence[Segment], like: Segment) -> Segment:
    kept: Tally[torch.dtype] = Tally()
    for part in parts:
        kept.update(part.kept)
    return replace(
        like,
        calls=[call for part in parts for call in part.calls],
        used=set().union(*(part.used for part in parts)),
        kept=dict(kept),
        traffic_bytes=[sum(part.traffic_bytes[i] for part in parts) for i in (0, 1)],
        kernels=[sum(part.kernels[i] for part in parts) for i in (0, 1)],
        attention_flops=sum(part.attention_flops for part in parts),
        peak_bytes=[max(part.peak_bytes[i] for part in parts) for i in (0, 1)],
        gradient_bytes=sum(part.gradient_bytes for part in parts),
    )
