"""The hooks of FSDP1 as torch runs them: who gathers, frees, prefetches and reduces, and when."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from itertools import groupby

from zerosim.plan import Allocation
from zerosim.schedules import layers
from zerosim.schedules.flat import Flat, FlatOps
from zerosim.workload import Layer, Workload


@dataclass(slots=True, eq=False)
class Handle:
    """What torch's FlatParamHandle remembers of a flat parameter.

    `forward_due`, `backward_due`: it may be prefetched (torch's `_needs_pre_..._unshard`).
    `at_forward`, `at_backward`: its place in the recorded orders of the forward. `parts`: gradients
    that this backward has made, by key; `made`: of which parameters (unit, index).
    """

    flat: Flat
    gathered: bool = False
    prefetched: bool = False
    viewed: bool = False
    forward_due: bool = False
    backward_due: bool = False
    in_backward: bool = False
    at_forward: int | None = None
    at_backward: int | None = None
    parts: tuple[str, ...] = ()
    made: frozenset[tuple[int, int]] = frozenset()


# Note [Gradients are complete when autograd says so]
# A unit's parameters are views of the flat one, made when it is gathered for the forward. Autograd
# runs what was made last first. So the views' backward, which makes the flat gradient, runs right
# after the unit's own layers if the unit was gathered on demand, but one unit later if it was
# prefetched: then the layers of the unit before come first, and the reduction after them.


@dataclass(slots=True)
class Hooks:
    """The state that FSDP1's hooks share, from step to step.

    `handles`: by unit. `root`: that of the outermost module. `reshard`: units are freed after the forward, and not
    only after the backward. `views`: by layer, the units whose views were made just before it.
    `freed`: the ops after which a freed unit is out of use, while nobody has waited for them.
    """

    ops: FlatOps
    workload: Workload
    handles: dict[int, Handle]
    root: Handle | None
    reshard: bool
    backward_prefetch: str
    forward_prefetch: bool
    limit: int | None
    sync: bool = True
    recorded: bool = False
    layer: int = 0
    forward_order: list[Handle] = field(default_factory=list)
    backward_order: list[Handle] = field(default_factory=list)
    views: dict[int, list[Handle]] = field(default_factory=dict)
    freed: deque[tuple[int, ...]] = field(default_factory=deque)

    def iterate(self, *, sync: bool) -> None:
        """One forward and backward; without `sync`, under no_sync()."""
        self.sync = sync
        self._forward()
        self._backward()
        self.recorded = True
        if sync:
            self.ops.awaited = (*self.ops.awaited, *self.ops.ends.values())
            self.ops.ends.clear()

    def _forward(self) -> None:
        self.ops.begun = (*self.ops.computed, *self.ops.awaited)
        self.backward_order.clear()
        self.views.clear()
        for each in self.handles.values():
            each.forward_due = self.forward_prefetch
            each.prefetched, each.viewed, each.at_backward = False, False, None
        self.layer = 0
        self._pre_forward(self.root)
        for unit, run in groupby(enumerate(self.workload.layers), lambda pair: pair[1].unit):
            handle = self._own(unit)
            for i, layer in run:
                if i == 0 or self.workload.layers[i - 1].unit != unit:
                    self.layer = i
                    self._pre_forward(handle)
                op = layers.forward(
                    self.ops.writer, layer, self.ops.numerics, after=self.ops.waits()
                )
                self.ops.computed = (op,)
            self._post_forward(handle)
        self._post_forward(self.root)

    def _backward(self) -> None:
        self._pre_backward(self.root)
        for i, layer in reversed(list(enumerate(self.workload.layers))):
            self._pre_backward(self._own(layer.unit))
            self.ops.computed = (self._compute(layer),)
            for complete in reversed(self.views.get(i, [])):
                self._post_backward(complete)

    def _own(self, unit: int) -> Handle | None:
        """The handle of a unit that is wrapped itself: neither in the root nor without parameters."""
        handle = self.handles.get(unit)
        return None if handle is self.root else handle

    def _compute(self, layer: Layer) -> int:
        """B: makes the gradients of the layer's parameters; one that is there already is added to."""
        handle, unit = self.handles.get(layer.unit), self.workload.units[layer.unit]
        used = {i for module in layer.modules for i in module.parameters}
        needs = {(layer.unit, i) for i in used or range(len(unit.parameters))}
        before = frozenset() if handle is None else handle.made
        numels = {(layer.unit, i): p.numel for i, p in enumerate(unit.parameters)}
        width, key = self.ops.numerics.grad_bytes, f"gradient.{layer.unit}.{layer.name}"
        new = sum(numels[p] for p in needs - before) * width
        # A second gradient of a parameter and the sum of both are new tensors.
        again = 2 * sum(numels[p] for p in needs & before) * width
        made = (Allocation(key, "gradients", new),) if new else ()
        added = (Allocation(f"{key}.added", "gradients", again),) if again else ()
        if handle is not None:
            handle.parts = (*handle.parts, *(a.key for a in made))
            handle.made = before | needs
        return layers.backward(
            self.ops.writer,
            layer,
            self.ops.numerics,
            after=self.ops.waits(),
            allocates=(*made, *added),
            frees=tuple(a.key for a in added),
        )

    def _unshard(self, handle: Handle, *, forward: bool) -> None:
        sharded = self.ops.mesh.sharded
        missing = sharded and not handle.gathered
        if missing or not sharded:
            self.ops.cast(handle.flat)
        if self.limit is not None and len(self.freed) >= self.limit:
            self.ops.writer.wait(self.freed.popleft(), handle.flat.label)
        if missing:
            self.ops.gather(handle.flat)
            handle.gathered = True
        if forward and not handle.viewed:
            self.views.setdefault(self.layer, []).append(handle)
            handle.viewed = True

    def _reshard(self, handle: Handle, *, free: bool) -> None:
        if self.ops.mesh.sharded and free:
            self.ops.free(self.ops.computed[0], handle.flat.gathered)
            handle.gathered = False
            if self.limit is not None:
                self.freed.append(self.ops.computed)
        elif not self.ops.mesh.sharded and self.ops.casts:
            self.ops.free(self.ops.computed[0], handle.flat.gathered)
        handle.prefetched = False

    def _pre_forward(self, handle: Handle | None) -> None:
        if handle is None:
            return
        if not self.recorded and handle.at_forward is None:
            handle.at_forward = len(self.forward_order)
            self.forward_order.append(handle)
        if not handle.prefetched:
            self._unshard(handle, forward=True)
        handle.forward_due = False
        self.ops.awaited = (*self.ops.awaited, *self.ops.unshards)
        if self.forward_prefetch and handle.at_forward is not None:
            coming = self.forward_order[handle.at_forward + 1 : handle.at_forward + 2]
            for following in coming:
                if following.forward_due and not following.prefetched:
                    self._unshard(following, forward=True)
                    following.prefetched = True

    def _post_forward(self, handle: Handle | None) -> None:
        if handle is None:
            return
        # torch takes place 0 for none yet, so a unit that runs first and again moves to its later place.
        if not handle.at_backward:
            handle.at_backward = len(self.backward_order)
        self.backward_order.append(handle)
        self._reshard(handle, free=self.reshard and handle is not self.root)
        handle.backward_due, handle.in_backward = True, False

    def _pre_backward(self, handle: Handle | None) -> None:
        if handle is None or handle.in_backward:
            return
        if handle.backward_due:
            if not handle.prefetched:
                self._unshard(handle, forward=False)
            self.ops.awaited = (*self.ops.awaited, *self.ops.unshards)
        handle.backward_due, handle.in_backward = False, True
        if self.backward_prefetch == "BACKWARD_PRE":
            self._prefetch_before(handle)

    def _prefetch_before(self, handle: Handle) -> None:
        """Gather the unit whose forward ended before that of `handle`."""
        if not handle.at_backward:
            return
        coming = self.backward_order[handle.at_backward - 1]
        if coming.backward_due and not coming.prefetched:
            self._unshard(coming, forward=False)
            coming.prefetched = True

    def _post_backward(self, handle: Handle) -> None:
        self.ops.flatten(handle.flat, handle.parts)
        handle.parts, handle.made = (), frozenset()
        self._reshard(handle, free=self.sync or self.reshard)
        if self.backward_prefetch == "BACKWARD_POST":
            self._prefetch_before(handle)
        if self.sync:
            self.ops.reduce(handle.flat)
