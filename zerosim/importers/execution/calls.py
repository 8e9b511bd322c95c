"""What an execution trace tells of collectives and of the ops between them, in order of call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from zerosim.importers.counts import count
from zerosim.importers.execution import linked
from zerosim.importers.execution.nodes import Node, dtype, elements
from zerosim.importers.execution.steps import Steps, step_of
from zerosim.importers.kineto.facts import Facts, dtype_of, kind_of
from zerosim.importers.kineto.marks import unit_of
from zerosim.kinds import GATHERED, Kind

COMMS: Final = "record_param_comms"
_CALL: Final = "c10d::"
_INPUT_IS_SECOND: Final = (Kind.REDUCE_SCATTER, Kind.ALL_TO_ALL, Kind.SCATTER)


@dataclass(frozen=True, slots=True)
class Op:
    """One row to be; `place` is the rank within the group, where the call says it.

    Times in ns, where a linker has added them.
    """

    name: str
    unit: str | None
    step: int | None
    facts: Facts
    stream: str
    place: int | None = None
    issued_ns: int | None = None
    span: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class _Around:
    """What holds within a node: the step, the unit, the collective that is being called and when, and
    whether an op of a row is open already.
    """

    step: int | None = None
    unit: str | None = None
    covered: bool = False
    call: Facts | None = None
    issued_ns: int | None = None


# Note [Who calls]: NCCL notes each call as `record_param_comms` below the call `c10d::…`; Gloo notes
# the call alone. So a `c10d::` node counts where no such note is below it.


def ops(nodes: Sequence[Node], only_group: str | None, steps: Steps) -> list[Op]:
    """Collectives and the outermost aten ops, in order of call. See Note [Who calls].

    `only_group`: the name of the group that calls without one belong to, if there is but one.
    """
    noted = _above(nodes, lambda node: node.name == COMMS)
    launching = _above(nodes, linked.is_transfer)
    calling = _above(nodes, lambda node: node.name == COMMS or node.name.startswith(_CALL))
    around: dict[int, _Around] = {}
    found = []
    for node in nodes:
        outer = around.get(node.parent, _Around())
        if linked.is_device_op(node):
            found.append(_device_op(node, outer, steps))
            continue
        step = outer.step if (mark := step_of(node.name)) is None else mark
        unit = unit_of(node.name) or outer.unit
        op = None if outer.covered else _op(node, noted, calling, only_group)
        host = op is not None and op[0].kind is Kind.HOST
        call = op[0] if op is not None and not host else outer.call
        issued = linked.moment(node) or outer.issued_ns
        if op is not None and (host or node.id not in launching):
            called = steps.at(node.id, issued) if step is None else step
            found.append(_host_op(node, op, _Around(called, unit, issued_ns=issued)))
        around[node.id] = _Around(step, unit, outer.covered or op is not None, call, issued)
    if all(op.issued_ns is not None for op in found):
        found.sort(key=lambda op: op.issued_ns or 0)
    return found


def _device_op(node: Node, outer: _Around, steps: Steps) -> Op:
    times = linked.span(node)
    facts = linked.facts_of(node, outer.call)
    # Clocks of host and device may differ by a little: nothing starts before it was issued.
    issued = min(outer.issued_ns, times[0]) if times and outer.issued_ns else outer.issued_ns
    stream = linked.stream_of(node)
    step = steps.at(node.parent, outer.issued_ns) if outer.step is None else outer.step
    return Op(node.name, outer.unit, step, facts, stream, issued_ns=issued, span=times)


def _host_op(node: Node, op: tuple[Facts, int | None, str], within: _Around) -> Op:
    facts, place, name = op
    if facts.kind is Kind.HOST:
        times = linked.span(node)
        return Op(
            *(name, within.unit, within.step, facts, "host"), issued_ns=within.issued_ns, span=times
        )
    return Op(
        *(name, within.unit, within.step, facts, "calls"), place=place, issued_ns=within.issued_ns
    )


def sequences(found: Sequence[Op]) -> list[int | None]:
    """The number of each collective within its group; None for those that share one, or have none."""
    keys = [(op.facts.group, op.facts.sequence) for op in found]
    seen = Counter(key for key in keys if key[1] is not None)
    return [key[1] if seen[key] == 1 else None for key in keys]


def _above(nodes: Sequence[Node], wanted: Callable[[Node], bool]) -> set[int]:
    """The ids of all that have a `wanted` node below them."""
    parents = {node.id: node.parent for node in nodes}
    found: set[int] = set()
    for node in nodes:
        above = node.parent if wanted(node) else None
        while above is not None and above not in found:
            found.add(above)
            above = parents.get(above)
    return found


def _op(
    node: Node, noted: set[int], calling: set[int], only_group: str | None
) -> tuple[Facts, int | None, str] | None:
    if node.name == COMMS:
        return _from_note(node)
    if node.name.startswith(_CALL) and node.id not in noted:
        facts = _from_call(node, only_group)
        return (facts, None, node.name) if facts else None
    if node.name.startswith("aten::") and node.id not in calling:
        return Facts(Kind.HOST), None, node.name
    return None


def _from_note(node: Node) -> tuple[Facts, int | None, str] | None:
    values = node.inputs
    place = next((i for i, value in enumerate(values) if isinstance(value, str)), None)
    name = node.attrs.get("collective_name", values[place] if place is not None else None)
    if not isinstance(name, str) or name in ("wait", "init"):
        return None
    kind = kind_of(name)
    before = values[:place] if place is not None else []
    # The root stands there for a broadcast, a reduce, a gather or a scatter.
    mutual = kind in (Kind.ALL_REDUCE, Kind.ALL_GATHER, Kind.REDUCE_SCATTER, Kind.ALL_TO_ALL)
    facts = Facts(
        kind=kind,
        group=_group(node, before),
        group_size=count(node.attrs.get("pg_size", values[-1] if values else None)),
        elements=_noted_elements(node, kind),
        dtype=dtype_of(node.attrs.get("dtype")) or dtype(node.input_types, 0),
        sequence=_sequence(node.attrs.get("seq"), before),
    )
    return facts, count(before[-1]) if mutual and before else None, name


def _group(node: Node, before: Sequence[Any]) -> str | None:
    named = node.attrs.get("pg_name")
    if isinstance(named, str) and named:
        return named
    for value in before:
        if isinstance(value, list) and len(value) == 2 and all(isinstance(v, str) for v in value):  # noqa: PLR2004 - a name and what it is for
            return value[0] or None
    numbers = [value for value in before if type(value) is int]
    return str(numbers[-2]) if len(numbers) > 2 else None  # noqa: PLR2004 - request, group, rank


def _sequence(attribute: object, before: Sequence[Any]) -> int | None:
    for value in (attribute, *before):
        first = value[0] if isinstance(value, list) and len(value) == 2 else value  # noqa: PLR2004 - a number and whether it is of point to point
        if type(first) is int:
            return count(first)
    return None


def _noted_elements(node: Node, kind: Kind) -> int | None:
    if kind is Kind.BARRIER:
        return None
    full = "out_msg_nelems" if kind in GATHERED else "in_msg_nelems"
    if full in node.attrs:
        return count(node.attrs[full])
    values = node.outputs if kind in GATHERED else node.inputs
    return elements(values[0]) if values else None


def _from_call(node: Node, only_group: str | None) -> Facts | None:
    kind = kind_of(node.name.removeprefix(_CALL))
    if kind is Kind.COLLECTIVE:
        return None
    index = 1 if kind in _INPUT_IS_SECOND else 0
    sized = kind is not Kind.BARRIER and index < len(node.inputs)
    return Facts(
        kind=kind,
        group=only_group,
        elements=elements(node.inputs[index]) if sized else None,
        dtype=dtype(node.input_types, index) if sized else None,
    )
