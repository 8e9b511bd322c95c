"""What FSDP2 keeps between its hooks: which groups are gathered, and which events a stream waits for."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from zerosim.numerics import Numerics
from zerosim.plan import Axis, PlanWriter
from zerosim.schedules.fsdp2.groups import Group, Wrapping


@dataclass(frozen=True, slots=True)
class Mesh:
    """The device mesh: replicas of `shards` ranks; `reshard_to` is the smaller mesh after a forward.

    `separate`: reduce-scatters have a communicator of their own.
    """

    n_ranks: int
    shards: int
    reshard_to: int
    separate: bool

    @property
    def replicas(self) -> int:
        """Copies of the parameters (more than one: HSDP)."""
        return self.n_ranks // self.shards

    @property
    def shard_axis(self) -> str:
        """The name of the groups that shard the parameters."""
        return "shard" if self.replicas > 1 else "world"

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The process groups of the mesh."""
        made = [Axis("world", self.n_ranks)]
        if self.replicas > 1:
            made.append(Axis("shard", self.shards))
            made.append(Axis("replicate", self.replicas, self.shards))
        if self.reshard_to not in (0, self.shards):
            made.append(Axis("post_forward", self.reshard_to))
        return tuple(made)


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """What the training loop has set for this backward."""

    reduce: bool
    all_reduce: bool
    reshard: bool


@dataclass(slots=True)
class State:
    """The state of all groups and the communication context they share, by group label.

    `pending`: gathers not waited for yet; `unsharded`: groups whose parameters are whole; `smaller`:
    the copy that resharded a group to the smaller mesh; `held`: the group whose all-gather output is
    kept, and its copy-out. `gather_waits` and `compute_waits`: events the gather streams and the
    compute stream wait for before their next op. `order` and `indices`: torch's post-forward order.
    `inputs`: reduce-scatters whose inputs are retained; `ends`: the last reduction op of each stream.
    `gradients`, `accumulated`, `partial`, `reduced`, `sharded`: keys of gradients that are alive, as
    made by the backward, in the reduce dtype, reduced in the shard mesh only, waiting for the end of
    the backward, and sharded for the optimizer. `done`: groups whose post-backward ran. `buckets`:
    numbers of the groups' inputs of reduce-scatters.
    """

    writer: PlanWriter
    numerics: Numerics
    wrapping: Wrapping
    mesh: Mesh
    max_input_buffers: int
    pending: dict[str, int | None] = field(default_factory=dict)
    unsharded: set[str] = field(default_factory=set)
    smaller: dict[str, int] = field(default_factory=dict)
    held: tuple[str, int] | None = None
    gather_waits: list[int] = field(default_factory=list)
    compute_waits: list[int] = field(default_factory=list)
    order: list[Group] = field(default_factory=list)
    indices: dict[str, list[int]] = field(default_factory=dict)
    inputs: deque[tuple[str, int]] = field(default_factory=deque)
    ends: dict[str, int] = field(default_factory=dict)
    gradients: dict[str, list[str]] = field(default_factory=dict)
    accumulated: dict[str, str] = field(default_factory=dict)
    partial: dict[str, str] = field(default_factory=dict)
    reduced: dict[str, str] = field(default_factory=dict)
    sharded: dict[str, str] = field(default_factory=dict)
    done: set[str] = field(default_factory=set)
    buckets: dict[str, int] = field(default_factory=dict)


def taken(waits: list[int]) -> tuple[int, ...]:
    """The events a stream waits for, in order and once each; they are then waited for."""
    found = tuple(dict.fromkeys(waits))
    waits.clear()
    return found


def drop(state: State, keys: Iterable[str]) -> None:
    """The host drops memory now: after the op it has issued last."""
    last = state.writer.ops[-1]
    state.writer.ops[-1] = replace(last, frees=(*last.frees, *keys))
