"""A model extracted from a user's nn.Module: its record, read with no trust, as a workload.

# Note [Numbers that grow with the batch]
A number n of a layer stands for n a `batch`; `[fixed, each]` for fixed + each a `batch`. That holds
for other batches only if `scales` is true, which was tried with two and three times the batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from zerosim.errors import ScenarioError
from zerosim.models.fields import (
    MAX_NUMBER,
    list_of,
    names_of,
    shown,
    table_of,
    text_of,
    whole_of,
)
from zerosim.units import dtype_bytes
from zerosim.workload import Layer, Module, Parameter, Unit, Work, Workload

FORMAT: Final = "zerosim-workload"
VERSION: Final = 1
_MAX_TENSORS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Use:
    """How an extracted model is used: its batch, micro-batches, element size, checkpointing.

    `loss`: the cross-entropy of its scores, if it has any (None: nobody takes one).
    """

    micro_batch: int
    micro_batches: int
    param_bytes: int
    checkpointing: str
    loss: str | None = None


@dataclass(frozen=True, slots=True)
class _Scale:
    """How the numbers of a record are read: so many times its `batch`, as kernels that skip a mask."""

    use: Use
    batch: int
    dtype: str
    causal: bool

    def at(self, value: object, place: str, *, signed: bool = False) -> int:
        """A number of the record at this batch; see Note [Numbers that grow with the batch].

        Unless it is `signed` it may not be below 0.
        """
        pair: list[Any] = value if isinstance(value, list) else [0, value]
        if len(pair) != 2 or not all(  # noqa: PLR2004 - [fixed, each]
            type(n) is int and abs(n) < MAX_NUMBER for n in pair
        ):
            raise ScenarioError(f"{place} is {shown(value)}: give a whole number or [fixed, each]")
        fixed, each = pair
        product = each * self.use.micro_batch
        if product % self.batch:
            raise ScenarioError(
                f"workload.micro_batch is {self.use.micro_batch}, extracted was {self.batch}: "
                f"{place} does not divide; extract with --batch {self.use.micro_batch}"
            )
        found: int = fixed + product // self.batch
        if not (-MAX_NUMBER if signed else 0) <= found < MAX_NUMBER:
            raise ScenarioError(f"{place} is {found}: give 0 or more, below 2^58")
        return found


def extracted(record: Mapping[str, Any], use: Use) -> Workload:
    """The workload of a record. Raises ScenarioError for one that is broken, or cannot be used so."""
    _check_version(record)
    scale = _scale(record, use)
    units = tuple(_units(list_of(record, "units", "record")))
    layers = tuple(_layers(record, units, scale))
    full, causal = _counted(record, scale)
    return Workload(
        name=text_of(record, "name", "record"),
        units=units,
        layers=layers,
        tokens=scale.at(record.get("tokens"), "record.tokens"),
        micro_batches=use.micro_batches,
        counted_flops=(full, causal),
    )


def batch_of(record: Mapping[str, Any]) -> int:
    """The batch that a record was extracted with. Raises ScenarioError."""
    _check_version(record)
    return whole_of(record, "batch", "record", least=1)


def _check_version(record: Mapping[str, Any]) -> None:
    if record.get("format") != FORMAT:
        raise ScenarioError(
            f"the record's format is {shown(record.get('format'))}: give a file of `zerosim extract`"
        )
    if record.get("version") != VERSION:
        raise ScenarioError(
            f"the record has version {shown(record.get('version'))}, this zerosim reads {VERSION}: "
            "extract the model again"
        )


def _scale(record: Mapping[str, Any], use: Use) -> _Scale:
    batch = whole_of(record, "batch", "record", least=1)
    if use.micro_batch != batch and record.get("scales") is not True:
        raise ScenarioError(
            f"workload.micro_batch is {use.micro_batch}, the model was extracted with {batch} and "
            f"does not grow with its batch in a line: extract it with --batch {use.micro_batch}"
        )
    return _Scale(use, batch, text_of(record, "dtype", "record"), record.get("causal") is True)


def _units(entries: list[Any]) -> Iterator[Unit]:
    left = _MAX_TENSORS
    for i, entry in enumerate(entries):
        place = f"record.units[{i}]"
        names, tensors = names_of(entry, place), list_of(entry, "parameters", place)
        left -= len(names) * len(tensors)
        if left < 0:
            raise ScenarioError(f"the record has over {_MAX_TENSORS} parameters: give fewer")
        own = tuple(_parameter(p, f"{place}.parameters[{k}]") for k, p in enumerate(tensors))
        yield from (Unit(name, own) for name in names)


def _parameter(record: object, place: str) -> Parameter:
    table = table_of(record, place)
    name = text_of(table, "name", place)
    if table.get("frozen") is True:
        raise ScenarioError(
            f"parameter '{name}' is frozen, and every schedule gives each parameter a gradient: "
            "extract the model with its parameters trainable (requires_grad_)"
        )
    shape = list_of(table, "shape", place)
    if not all(type(n) is int and 0 < n < MAX_NUMBER for n in shape):
        raise ScenarioError(f"{place}.shape is {shown(shape)}: give sizes of 1 or more")
    return Parameter(name, tuple(shape))


def _layers(record: Mapping[str, Any], units: tuple[Unit, ...], scale: _Scale) -> Iterator[Layer]:
    seen: set[str] = set()
    for i, entry in enumerate(list_of(record, "layers", "record")):
        place = f"record.layers[{i}]"
        names, first = names_of(entry, place), whole_of(entry, "unit", place)
        if first + len(names) > len(units):
            raise ScenarioError(
                f"{place} names unit {first + len(names) - 1}: there are {len(units)}"
            )
        if any(u.parameters != units[first].parameters for u in units[first : first + len(names)]):
            raise ScenarioError(f"{place} stands for units that differ: give each its own entry")
        modules = _modules(entry, place, units[first], scale)
        costs = _costs(entry, place, scale)
        if costs["logits"] and scale.use.loss is not None:
            # The extraction handed the scores' gradient in; the loss makes it.
            left = max(0, costs["backward_workspace"] - costs["logits"])
            costs |= {"loss": scale.use.loss, "backward_workspace": left}
        for k, name in enumerate(names):
            if name in seen:
                raise ScenarioError(f"{place} has the name '{name}' again: give each layer its own")
            seen.add(name)
            yield Layer(name=name, unit=first + k, modules=modules, **costs)


def _costs(entry: Mapping[str, Any], place: str, scale: _Scale) -> dict[str, Any]:
    def at(name: str) -> int:
        return scale.at(entry.get(name), f"{place}.{name}")

    masked = at("masked_flops") if scale.causal else 0
    forward = at("forward_flops") - masked
    kept = _kept(entry, place, scale)
    backward = _highest(entry, "backward_workspace", place, scale)
    costs: dict[str, Any] = {
        "forward_flops": max(0, forward),
        "backward_flops": max(0, at("backward_flops") - 2 * masked),
        "activations": kept,
        "logits": at("logits"),
        "forward_elements": at("forward_elements"),
        "backward_elements": at("backward_elements"),
        "forward_workspace": max(0, _highest(entry, "forward_workspace", place, scale)),
        "backward_workspace": max(0, backward),
        "gone_early": min(kept, max(0, -backward)),
        **_works(entry, place, scale, masked),
    }
    if scale.use.checkpointing == "none" or not at("inputs"):
        return costs
    recomputed = max(0, kept - at("inputs"))
    return costs | {
        "forward_workspace": max(0, _highest(entry, "unsaved_workspace", place, scale)),
        "recompute_workspace": costs["forward_workspace"],
        "activations": min(kept, at("inputs")),
        "recompute_flops": costs["forward_flops"],
        "recompute_work": costs.get("forward_work"),
        "recomputed": recomputed,
        "gone_early": min(recomputed, costs["gone_early"]),
    }


def _works(
    entry: Mapping[str, Any], place: str, scale: _Scale, masked: int
) -> dict[str, Work | None]:
    """How many kernels, and what attention is of it, where the record says so (older ones do not).

    A fused kernel's backward makes the scores again: 5 products against the forward's 2.
    """
    if "forward_kernels" not in entry:
        return {}
    forward, backward, attention = (
        scale.at(entry.get(name), f"{place}.{name}")
        for name in ("forward_kernels", "backward_kernels", "attention_flops")
    )
    attention = max(0, attention - masked)
    return {
        "forward_work": Work((), attention, forward),
        "backward_work": Work((), 5 * attention // 2, backward),
    }


def _highest(entry: Mapping[str, Any], name: str, place: str, scale: _Scale) -> int:
    """The highest of several lines over the batch: what lives only while a layer runs, in elements.

    Below 0, so much of what is kept is gone when most is alive.
    """
    lines = list_of(entry, name, place)
    return max((scale.at(line, f"{place}.{name}", signed=True) for line in lines), default=0)


def _kept(entry: Mapping[str, Any], place: str, scale: _Scale) -> int:
    """Elements kept for the backward, each as large as a parameter's; those of its dtype follow it."""
    kept = table_of(entry.get("kept"), f"{place}.kept")
    param_bytes, nbytes = scale.use.param_bytes, 0
    for dtype, value in kept.items():
        size = param_bytes if dtype == scale.dtype else dtype_bytes(str(dtype))
        nbytes += size * scale.at(value, f"{place}.kept.{dtype}")
    return -(-nbytes // param_bytes)


def _modules(entry: Mapping[str, Any], place: str, unit: Unit, scale: _Scale) -> tuple[Module, ...]:
    found = []
    for i, record in enumerate(list_of(entry, "modules", place)):
        inside = f"{place}.modules[{i}]"
        table, own = (
            table_of(record, inside),
            list_of(table_of(record, inside), "parameters", inside),
        )
        if not all(type(n) is int and 0 <= n < len(unit.parameters) for n in own):
            raise ScenarioError(
                f"{inside}.parameters is {shown(own)}: give indices into its unit's"
            )
        masked = scale.at(table.get("masked_flops"), f"{inside}.masked_flops")
        masked = masked if scale.causal else 0
        forward = scale.at(table.get("forward_flops"), f"{inside}.forward_flops")
        backward = scale.at(table.get("backward_flops"), f"{inside}.backward_flops")
        found.append(
            Module(
                text_of(table, "name", inside),
                tuple(own),
                max(0, forward - masked),
                max(0, backward - 2 * masked),
            )
        )
    return tuple(found)


def _counted(record: Mapping[str, Any], scale: _Scale) -> tuple[int, int]:
    """Model FLOPs of a micro-batch, in full and with causal attention, as counted."""
    full = masked = 0
    for i, entry in enumerate(list_of(record, "layers", "record")):
        place, n = f"record.layers[{i}]", len(names_of(entry, f"record.layers[{i}]"))
        full += n * scale.at(entry.get("forward_flops"), f"{place}.forward_flops")
        full += n * scale.at(entry.get("backward_flops"), f"{place}.backward_flops")
        masked += 3 * n * scale.at(entry.get("masked_flops"), f"{place}.masked_flops")
    return full, max(0, full - masked)
