"""A flat parameter of FSDP1: its sizes, and the ops that cast, gather, flatten and reduce it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from zerosim.kinds import Kind
from zerosim.numerics import Numerics
from zerosim.plan import Allocation, PlanWriter, spread
from zerosim.schedules.norm import clipped
from zerosim.units import dtype_bytes


@dataclass(frozen=True, slots=True)
class Flat:
    """All parameters of one unit in one tensor of `numel` elements; `padded` of them travel."""

    unit: int
    label: str
    numel: int
    padded: int
    shard: int

    @property
    def gathered(self) -> str:
        """The key of the whole parameter in the dtype it computes in."""
        return f"gathered.{self.unit}"


@dataclass(frozen=True, slots=True)
class Gradient:
    """A flat gradient, or a shard of one, that stays: its key and its dtype."""

    key: str
    dtype: str


@dataclass(frozen=True, slots=True)
class Mesh:
    """Who reduces with whom. NO_SHARD: nothing is `sharded`; HYBRID: shards are `replicated`.

    `divides`: whether gradients are divided before, and after, they are reduced.
    """

    sharded: bool
    replicated: bool
    divides: tuple[bool, bool]

    @property
    def group(self) -> str:
        """The process group (and the communicator) of gathers and reduce-scatters."""
        return "shard" if self.replicated else "world"


@dataclass(slots=True)
class FlatOps:
    """Writes the ops of flat parameters on FSDP1's streams, and keeps what they wait for.

    Ids of ops: `awaited`, what the compute stream waits for before its next op; `begun`, what the
    other streams waited for when the forward began; `unshards`, the last of the unshard stream;
    `computed`, the last of the compute stream; `ends`, the last of each stream that reduces.
    By unit: `whole`, gradients that are not reduced yet (or never sharded), and `shards` of those
    that are. Streams: compute; copy (torch's pre-unshard stream); all_gather (its unshard stream);
    reduce_scatter (its post-backward stream, called all_reduce if nothing is sharded); all_reduce.
    """

    writer: PlanWriter
    numerics: Numerics
    mesh: Mesh
    awaited: tuple[int, ...] = ()
    begun: tuple[int, ...] = ()
    unshards: tuple[int, ...] = ()
    computed: tuple[int, ...] = ()
    ends: dict[str, int] = field(default_factory=dict)
    whole: dict[int, Gradient] = field(default_factory=dict)
    shards: dict[int, Gradient] = field(default_factory=dict)

    @property
    def casts(self) -> bool:
        """Mixed precision: parameters are stored in one dtype and compute in another."""
        return self.numerics.storage_dtype != self.numerics.dtype

    def waits(self) -> tuple[int, ...]:
        """What the next op of the compute stream has to wait for, once."""
        awaited, self.awaited = self.awaited, ()
        return awaited

    def cast(self, flat: Flat) -> None:
        """Mixed precision copies what this rank stores into the dtype it computes in."""
        if not self.casts:
            return
        numerics = self.numerics
        key, kind = (
            (f"cast.{flat.unit}", "buckets") if self.mesh.sharded else (flat.gathered, "gathered")
        )
        op = self.writer.compute(
            Kind.COPY,
            flat.label,
            stream="copy",
            after=self.begun,
            memory_bytes=flat.shard * (numerics.storage_bytes + numerics.param_bytes),
            allocates=(Allocation(key, kind, flat.shard * numerics.param_bytes),),
        )
        self.unshards = (op,)

    def gather(self, flat: Flat) -> None:
        """AG of the whole parameter, out of the shards or their casts."""
        op = self.writer.collective(
            Kind.ALL_GATHER,
            flat.label,
            elements=flat.padded,
            dtype=self.numerics.dtype,
            after=self.unshards if self.casts else self.begun,
            group=self.mesh.group,
            communicator=self.mesh.group,
            allocates=(
                Allocation(flat.gathered, "gathered", flat.padded * self.numerics.param_bytes),
            ),
            frees=(f"cast.{flat.unit}",) if self.casts else (),
        )
        self.unshards = (op,)

    def free(self, op: int, *keys: str) -> None:
        """Drop `keys` once the host has issued `op`."""
        ops = self.writer.ops
        ops[op] = replace(ops[op], frees=(*ops[op].frees, *keys))

    def flatten(self, flat: Flat, parts: tuple[str, ...]) -> None:
        """The gradients `parts` become one flat gradient, which is added to an earlier one."""
        width, earlier = self.numerics.grad_bytes, self.whole.get(flat.unit)
        new = Gradient(f"flat.{flat.unit}.{self.writer.micro_batch}", self.numerics.grad_dtype)
        op = self.writer.compute(
            Kind.FILL,
            flat.label,
            after=self.waits(),
            memory_bytes=2 * flat.numel * width,
            elements=flat.numel,
            dtype=new.dtype,
            bucket=flat.unit if earlier is None else None,
            allocates=(Allocation(new.key, "gradients", flat.numel * width),),
            frees=parts,
        )
        if earlier is None:
            self.whole[flat.unit] = new
        else:
            op = self.writer.compute(
                Kind.COPY,
                flat.label,
                name=f"add{flat.label}",
                memory_bytes=flat.numel * (width + 2 * dtype_bytes(earlier.dtype)),
                frees=(new.key,),
            )
        self.computed = (op,)

    def reduce(self, flat: Flat) -> None:
        """RS of the flat gradient (AR of it, if nothing is sharded), and AR of the shard if HYBRID."""
        mesh, dtype = self.mesh, self.numerics.reduce_dtype
        made = self.whole.pop(flat.unit)
        stream = "reduce_scatter" if mesh.sharded else "all_reduce"
        sent, after = self._prepare(flat, made, stream)
        done, dropped = Gradient(sent[-1], dtype), sent
        if mesh.sharded:
            done = Gradient(f"reduced.{flat.unit}.{self.writer.micro_batch}", dtype)
            nbytes = flat.shard * self.numerics.reduce_bytes
            op = self._collective(
                Kind.REDUCE_SCATTER,
                flat,
                flat.padded,
                after,
                Allocation(done.key, "gradients", nbytes),
            )
            if mesh.replicated:
                stream = "all_reduce"
                op = self._collective(Kind.ALL_REDUCE, flat, flat.shard, (op,))
        else:
            op, dropped = self._collective(Kind.ALL_REDUCE, flat, flat.numel, after), sent[:-1]
        op, spent = self._keep(flat, done, op, stream)
        self.free(op, *dropped, *spent)
        self.ends[stream] = op

    def update(self, loads: list[int]) -> None:
        """OPT of the `loads[rank]` elements that each rank owns; drops the gradients."""
        moved = [n * self.numerics.update_bytes for n in loads]
        kept = (*self.whole.values(), *self.shards.values())
        gradients = [n * self.numerics.reduce_bytes for n in loads]
        after = clipped(
            self.writer,
            self.numerics,
            max(gradients),
            after=self.waits(),
            group=self.mesh.group if self.mesh.sharded else None,
            nbytes_by_rank=spread(gradients) if min(gradients) < max(gradients) else None,
        )
        op = self.writer.compute(
            Kind.OPTIMIZER,
            "",
            after=after,
            memory_bytes=max(moved),
            memory_bytes_by_rank=spread(moved) if min(moved) < max(moved) else None,
            frees=tuple(gradient.key for gradient in kept),
        )
        self.whole.clear()
        self.shards.clear()
        self.computed = (op,)

    def _prepare(
        self, flat: Flat, made: Gradient, stream: str
    ) -> tuple[tuple[str, ...], tuple[int, ...]]:
        """Cast, pad and divide a gradient; returns the keys it went through, and what to wait for."""
        numerics, width, work = self.numerics, self.numerics.reduce_bytes, 0
        allocates: list[Allocation] = []
        size = flat.numel
        if made.dtype != numerics.reduce_dtype:
            work += size * (dtype_bytes(made.dtype) + width)
            allocates.append(Allocation(f"lowered.{flat.unit}", "buckets", size * width))
        if self.mesh.sharded and flat.padded > size:
            work += (2 * size + flat.padded) * width
            size = flat.padded
            allocates.append(Allocation(f"padded.{flat.unit}", "buckets", size * width))
        work += 2 * size * width * self.mesh.divides[0]
        keys = (made.key, *(a.key for a in allocates))
        if not work:
            return keys, self.computed
        op = self.writer.compute(
            Kind.COPY,
            flat.label,
            stream=stream,
            after=self.computed,
            memory_bytes=work,
            allocates=tuple(allocates),
        )
        return keys, (op,)

    def _collective(
        self, kind: Kind, flat: Flat, elements: int, after: tuple[int, ...], *made: Allocation
    ) -> int:
        over_replicas = self.mesh.replicated and kind is Kind.ALL_REDUCE
        group = "replicate" if over_replicas else self.mesh.group
        return self.writer.collective(
            kind,
            flat.label,
            elements=elements,
            dtype=self.numerics.reduce_dtype,
            after=after,
            group=group,
            communicator=group,
            bucket=flat.unit,
            allocates=made,
        )

    def _keep(self, flat: Flat, done: Gradient, op: int, stream: str) -> tuple[int, list[str]]:
        """Divide what is reduced, cast it to the stored dtype and add it to an earlier one.

        Returns the last op, and the keys that are left over.
        """
        numerics, kept = self.numerics, self.shards if self.mesh.sharded else self.whole
        width, stored = numerics.reduce_bytes, numerics.storage_bytes
        size = flat.shard
        work = 2 * size * width * self.mesh.divides[1]
        spent: list[str] = []
        allocates: tuple[Allocation, ...] = ()
        if done.dtype != numerics.storage_dtype:
            work += size * (width + stored)
            spent.append(done.key)
            done = Gradient(f"kept.{flat.unit}.{self.writer.micro_batch}", numerics.storage_dtype)
            allocates = (Allocation(done.key, "gradients", size * stored),)
        if flat.unit in kept:
            work += 3 * size * stored
            spent.append(done.key)
        else:
            kept[flat.unit] = done
        if work:
            op = self.writer.compute(
                Kind.COPY,
                flat.label,
                stream=stream,
                after=(op,),
                memory_bytes=work,
                allocates=allocates,
            )
        return op, spent
