"""One micro-batch of DeepSpeed's ZeRO-3: forward and backward module by module, with its hooks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from zerosim.kinds import Kind
from zerosim.numerics import Numerics
from zerosim.plan import Allocation, PlanWriter
from zerosim.schedules import layers, loss
from zerosim.schedules.deepspeed3.coordinator import Coordinator
from zerosim.schedules.deepspeed3.gathers import Gathers
from zerosim.schedules.deepspeed3.gradients import Gradients
from zerosim.schedules.deepspeed3.modules import Model, Node, Piece, pieces_of
from zerosim.schedules.deepspeed3.options import DeepSpeed3Options
from zerosim.workload import Cost, Layer


@dataclass(slots=True)
class Walk:
    """Walks through the modules as the forward and autograd do.

    `last`: the last computation; `uses`: backwards still to come of each parameter; `made`: those
    whose gradient has memory; `whole`: gradients that are complete, of a leaf that is not.
    """

    writer: PlanWriter
    numerics: Numerics
    options: DeepSpeed3Options
    model: Model
    coordinator: Coordinator
    gathers: Gathers
    gradients: Gradients
    last: int = 0
    uses: Counter[int] = field(default_factory=Counter)
    made: set[int] = field(default_factory=set)
    whole: list[int] = field(default_factory=list)

    def micro_batch(self) -> None:
        """Forward and backward; every micro-batch reduces its gradients."""
        root = self.model.root
        self.coordinator.restart()
        self._forward(root, self._compute_forward)
        self.uses = Counter(p for piece in pieces_of(root) for p in piece.parameters)
        self.made.clear()
        self._backward(root)
        self.gradients.finish()
        self.gathers.drop(self.coordinator.leftovers(), len(self.writer.ops) - 1)

    def _forward(
        self,
        node: Node,
        compute: Callable[[Piece], None],
        *,
        hooked: bool = True,
        stops: bool = False,
    ) -> None:
        """A module's forward. If it `stops`, the layer's last module never comes to its end."""
        if hooked:
            self._fetch(node, forward=True)
        if node.piece is not None:
            compute(node.piece)
        for child in node.children:
            self._forward(child, compute, hooked=hooked and not node.leaf, stops=stops)
        if hooked and not (stops and node.ends_layer):
            self.gathers.drop(self.coordinator.release(node, forward=True), self.last)

    def _backward(self, node: Node, layer: Node | None = None, *, hooked: bool = True) -> None:
        """A module's backward; `layer` is the module of the layer that it is in."""
        if node is layer and self.options.use_reentrant and _checkpointed(node):
            self._forward(node, self._compute_again, hooked=hooked)
        if hooked:
            self._fetch(node, forward=False)
        for child in reversed(node.children):
            self._backward(child, layer or child, hooked=hooked and not node.leaf)
        if node.piece is not None:
            if node.piece.last:
                self._recompute(node.piece.layer, layer or node)
            self._compute_backward(node.piece)
            if hooked and not node.leaf:
                self._reduce(self.whole)
        if hooked and node.leaf:
            self._reduce(sorted(self.whole))
        if hooked and not node.on_data:
            self.gathers.drop(self.coordinator.release(node, forward=False), self.last)

    def _fetch(self, node: Node, *, forward: bool) -> None:
        """The hook before a module runs: gather and wait, then gather ahead."""
        needed, ahead = self.coordinator.fetch(node, forward=forward)
        fast = node.leaf and self.options.stage3_module_granularity_threshold > 0
        self.gathers.start(needed)
        self.gathers.wait(node.fetched, counted=not fast)
        self.gathers.start(ahead)

    def _recompute(self, layer: Layer, node: Node) -> None:
        """What the backward of a layer's last module finds missing: the whole layer, or a part."""
        if _checkpointed(node):
            if not self.options.use_reentrant:
                # torch stops the recomputation once it has what was saved (early_stop).
                hooked = not self.model.root.leaf
                self._forward(node, self._compute_until_stop, hooked=hooked, stops=True)
        elif layer.recompute_flops:
            cost = Cost(layer.recompute_work, layers.computed_again(layer))
            self._again(layer, layer.name, layer.recompute_flops, cost, first=True)

    def _compute_forward(self, piece: Piece) -> None:
        layer, width = piece.layer, self.numerics.param_bytes
        kept = [Allocation(layers.activations(layer), "activations", layer.activations * width)]
        if layer.logits:
            kept.append(Allocation(layers.logits(layer), "logits", layer.logits * width))
        self.last = self.writer.compute(
            Kind.FORWARD,
            layer.name,
            name=f"F{piece.label}",
            after=self.gathers.passed,
            flops=piece.forward_flops,
            work=piece.forward.work,
            memory_bytes=piece.forward.elements * width,
            allocates=tuple(kept) if piece.first else (),
            frees=self.gathers.settle(),
        )
        if piece.last:
            loss.loss(self.writer, layer, self.numerics)

    def _compute_again(self, piece: Piece) -> None:
        self._again(piece.layer, piece.label, piece.forward_flops, piece.forward, first=piece.first)

    def _compute_until_stop(self, piece: Piece) -> None:
        """As torch's early stop: a last module that keeps nothing is not computed again."""
        early = piece.layer.recompute_flops < piece.layer.forward_flops
        if not (early and piece.last and not piece.first):
            self._compute_again(piece)

    def _again(self, layer: Layer, label: str, flops: int, cost: Cost, *, first: bool) -> None:
        width = self.numerics.param_bytes
        again = Allocation(_recomputed(layer), "activations", layer.recomputed * width)
        self.last = self.writer.compute(
            Kind.RECOMPUTE,
            layer.name,
            name=f"R{label}",
            after=self.gathers.passed,
            flops=flops,
            work=cost.work,
            memory_bytes=cost.elements * width,
            allocates=(again,) if first else (),
            frees=self.gathers.settle(),
        )

    def _compute_backward(self, piece: Piece) -> None:
        layer = piece.layer
        if piece.last:
            loss.loss_gradient(self.writer, layer, self.numerics)
        new = [p for p in piece.parameters if p not in self.made]
        self.made.update(new)
        self.last = self.writer.compute(
            Kind.BACKWARD,
            layer.name,
            name=f"B{piece.label}",
            after=self.gathers.passed,
            flops=piece.backward_flops,
            work=piece.backward.work,
            memory_bytes=piece.backward.elements * self.numerics.param_bytes,
            allocates=tuple(map(self.gradients.made, new)),
            frees=(*(_kept(layer) if piece.first else ()), *self.gathers.settle()),
        )
        self.uses.subtract(piece.parameters)
        forwards = self.options.memory_efficient_linear
        handed = piece.parameters if forwards else piece.handed
        self.whole += [p for p in handed if not self.uses[p]]

    def _reduce(self, complete: list[int]) -> None:
        for p in complete:
            self.gradients.add(p, after=self.last)
        self.whole = []


def _checkpointed(node: Node) -> bool:
    """Whether a layer's module runs again before its backward: all of it, but perhaps its last module."""
    layers_in = {piece.layer for piece in pieces_of(node)}
    return len(layers_in) == 1 and all(
        0 < layer.recompute_flops >= _least_again(layer) for layer in layers_in
    )


def _least_again(layer: Layer) -> int:
    """FLOPs of what is computed again if torch stops early."""
    return layer.forward_flops - (layer.modules[-1].forward_flops if len(layer.modules) > 1 else 0)


def _recomputed(layer: Layer) -> str:
    return f"recomputed.{layer.name}"


def _kept(layer: Layer) -> tuple[str, ...]:
    """What a layer kept for its backward."""
    keys = (layers.activations(layer), *loss.kept_logits(layer))
    return (*keys, *((_recomputed(layer),) if layer.recompute_flops else ()))
