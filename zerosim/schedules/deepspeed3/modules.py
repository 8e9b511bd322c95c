"""A workload as DeepSpeed's hooks see it: a tree of modules, and parameters numbered by first use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from zerosim.errors import ScenarioError, UnknownNameError
from zerosim.partition import padded
from zerosim.schedules.arrival import handed
from zerosim.workload import Cost, Layer, Module, Workload

_LARGEST_LEAF = 10**9
"""Elements above which a module is never made a leaf by its granularity (parameter_offload.py)."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """One parameter. `layer`, `label`: the layer and the module that use it first; `padded`: as sent."""

    name: str
    layer: str
    label: str
    numel: int
    padded: int


@dataclass(frozen=True, slots=True)
class Piece:
    """What one of the `n_pieces` modules of a layer computes; `first` and `last` in forward order.

    `handed`: its parameters as its backward hands out their gradients. `forward` and `backward` say by
    which kernels, where the model knows.
    """

    layer: Layer
    label: str
    parameters: tuple[int, ...]
    handed: tuple[int, ...]
    forward_flops: int
    backward_flops: int
    n_pieces: int
    first: bool
    last: bool
    forward: Cost
    backward: Cost


@dataclass(frozen=True, slots=True)
class Node:
    """One nn.Module: the parameters of its `own`, all `below` it (its own too), its children.

    A `leaf` is gathered whole, without hooks inside. `on_data`: its input needs no gradient, so the
    hook that should run after its backward never does.
    """

    name: str
    own: tuple[int, ...]
    below: tuple[int, ...]
    children: tuple[Node, ...] = ()
    piece: Piece | None = None
    leaf: bool = False
    on_data: bool = False

    def ids(self, *, recurse: bool) -> tuple[int, ...]:
        """Its own parameters, or all below it."""
        return self.below if recurse else self.own

    @property
    def fetched(self) -> tuple[int, ...]:
        """What its hooks gather and release."""
        return self.ids(recurse=self.leaf)

    @property
    def ends_layer(self) -> bool:
        """Whether the last computation of its layer is inside."""
        here = self.piece is not None and self.piece.last
        return here or any(child.ends_layer for child in self.children)


@dataclass(frozen=True, slots=True)
class Model:
    """The root module, whose children are the layers, and the parameters in the engine's order."""

    root: Node
    tensors: tuple[Tensor, ...]


def model(
    workload: Workload, n_ranks: int, *, leaves: Sequence[str], granularity: int, reentrant: bool
) -> Model:
    """The module tree of a workload; `leaves` and those of at most `granularity` become leaves.

    Each layer is a module, with its modules inside if it has several; a dotted name stands inside the
    module that its beginning names, if there is one. Raises UnknownNameError for an unknown leaf,
    ScenarioError for one that DeepSpeed fails on.
    """
    # A reentrant checkpoint needs an input with a gradient, or its parameters get none.
    on_data = not (reentrant and workload.layers[0].recompute_flops)
    ids: dict[tuple[int, int], int] = {}
    tensors: list[Tensor] = []
    for layer in workload.layers:
        for module in _modules(workload, layer):
            for index in module.parameters:
                if (layer.unit, index) not in ids:
                    ids[layer.unit, index] = len(tensors)
                    p = workload.units[layer.unit].parameters[index]
                    label = _label(layer, module)
                    sent = padded(p.numel, n_ranks)
                    tensors.append(Tensor(p.name, layer.name, label, p.numel, sent))
    children = tuple(
        _layer(workload, layer, ids, on_data=on_data and layer is workload.layers[0])
        for layer in workload.layers
    )
    root = _node("", None, children, on_data=on_data)
    names = {node.name for node in _every(root)} - {""}
    for name in leaves:
        if name not in names:
            raise UnknownNameError("leaf_module", name, names)
    numel = tuple(tensor.numel for tensor in tensors)
    root = _with_leaves(root, frozenset(leaves), granularity, numel)
    for node in _every(root):
        if node.leaf and node.on_data:
            # Its backward hook, which reduces and drops, comes before its gradients (observed).
            raise ScenarioError(
                f"module '{node.name or 'root'}' would be a leaf, and its input has no gradient: "
                "DeepSpeed's backward fails there; take it out of leaf_module, or lower "
                "stage3_module_granularity_threshold"
            )
    return Model(root, tuple(tensors))


def _modules(workload: Workload, layer: Layer) -> tuple[Module, ...]:
    """The modules of a layer, one for all of it if it names none."""
    everything = tuple(range(len(workload.units[layer.unit].parameters)))
    whole = Module("", everything, layer.forward_flops, layer.backward_flops)
    return layer.modules or (whole,)


def _label(layer: Layer, module: Module) -> str:
    """How a module is called in names of ops: as its layer if that has no other."""
    return layer.name if len(layer.modules) <= 1 else f"{layer.name}.{module.name}"


def _layer(
    workload: Workload, layer: Layer, ids: dict[tuple[int, int], int], *, on_data: bool
) -> Node:
    modules, unit = _modules(workload, layer), workload.units[layer.unit]
    # What the modules do not account for (a loss, a residual) is computed with the last one.
    rest = (
        layer.forward_flops - sum(module.forward_flops for module in modules),
        layer.backward_flops - sum(module.backward_flops for module in modules),
    )
    pieces = [
        Piece(
            layer,
            _label(layer, module),
            tuple(ids[layer.unit, i] for i in module.parameters),
            tuple(ids[layer.unit, i] for i in handed(unit, module.parameters)),
            module.forward_flops + (max(0, rest[0]) if module is modules[-1] else 0),
            module.backward_flops + (max(0, rest[1]) if module is modules[-1] else 0),
            len(modules),
            module is modules[0],
            module is modules[-1],
            *_costs(layer, module, len(modules)),
        )
        for module in modules
    ]
    if len(pieces) == 1:
        return _node(layer.name, pieces[0], (), on_data=on_data)
    children = _nested(pieces, on_data=on_data)
    if on_data and not layer.forward_flops:
        # Look-ups side by side (embeddings of tokens and positions) all take indices.
        children = tuple(replace(child, on_data=True) for child in children)
    return _node(layer.name, None, children, on_data=on_data)


def _costs(layer: Layer, module: Module, n_modules: int) -> tuple[Cost, Cost]:
    """What a module's passes move; an even share of its layer's where nobody says."""
    if module.forward is not None and module.backward is not None:
        return module.forward, module.backward
    whole = n_modules == 1
    return (
        Cost(layer.forward_work if whole else None, layer.forward_elements // n_modules),
        Cost(layer.backward_work if whole else None, layer.backward_elements // n_modules),
    )


def _nested(pieces: Sequence[Piece], *, on_data: bool) -> tuple[Node, ...]:
    """The modules of a layer, those inside another under it; the first one sees the layer's input."""
    nodes: list[Node] = []
    rest = list(pieces)
    while rest:
        piece, *rest = rest
        inside = [other for other in rest if other.label.startswith(f"{piece.label}.")]
        rest = [other for other in rest if other not in inside]
        here = on_data and not nodes
        nodes.append(_node(piece.label, piece, _nested(inside, on_data=here), on_data=here))
    return tuple(nodes)


def _node(name: str, piece: Piece | None, children: tuple[Node, ...], *, on_data: bool) -> Node:
    own = piece.parameters if piece is not None else ()
    below = sorted({*own, *(i for child in children for i in child.below)})
    return Node(name, own, tuple(below), children, piece, on_data=on_data)


def pieces_of(node: Node) -> Iterator[Piece]:
    """What is computed inside a module, in forward order."""
    return (inner.piece for inner in _every(node) if inner.piece is not None)


def _every(node: Node) -> Iterator[Node]:
    yield node
    for child in node.children:
        yield from _every(child)


def _with_leaves(
    node: Node, leaves: frozenset[str], threshold: int, numel: tuple[int, ...]
) -> Node:
    """Outer modules first; nothing inside a leaf becomes one, since it has no hooks."""
    if node.name in leaves or (threshold and _granularity(node, numel) <= threshold):
        return replace(node, leaf=True)
    children = tuple(_with_leaves(child, leaves, threshold, numel) for child in node.children)
    return replace(node, children=children)


def _granularity(node: Node, numel: tuple[int, ...]) -> float:
    """Parameters for each module in it, itself too; modules without modules inside never count."""
    elements = sum(numel[i] for i in node.below)
    if not node.children or not elements or elements > _LARGEST_LEAF:
        return float("inf")
    return elements // sum(bool(inner.below) for inner in _every(node))
