"""From a scenario to what it names: workload, cluster, numerics, plan, and the simulated trace."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, TypeVar

from zerosim.cluster import Cluster, Contention, Link
from zerosim.collectives import COLLECTIVES, GLOO, GLOO_ALL_TO_ALL, LATENCIES
from zerosim.engine import Variation, moments, simulate
from zerosim.errors import ScenarioError
from zerosim.hardware import MACHINES, Machine
from zerosim.hardware.calibration import Calibration, calibration_from, merged
from zerosim.hardware.machine_file import machine_from
from zerosim.memory.conventions import Convention
from zerosim.memory.conventions import convention_of as matching
from zerosim.memory.foreach import with_update_workspace
from zerosim.memory.rows import SCHEDULES as BUFFERED
from zerosim.memory.rows import with_rows
from zerosim.models import Sizes, Use, extracted, listed, transformer, uniform
from zerosim.models.kept import as_booked, uniform_as_booked
from zerosim.numerics import Numerics
from zerosim.plan import Plan
from zerosim.scenario.scenario import Scenario
from zerosim.scenario.sections import ClusterSection, WorkloadSection
from zerosim.scenario.variation import variation_between
from zerosim.schedules import SCHEDULES
from zerosim.trace import ModelFacts, Trace
from zerosim.units import dtype_bytes, read_rate
from zerosim.workload import Workload

T = TypeVar("T")
MAX_OPS: Final = 200_000
"""So many ops a rank are written and run in about ten seconds."""
MAX_RANKS: Final = 2**20
"""Ten times the largest machines; folding keeps an array over ranks."""
MAX_BYTES: Final = 2**62
"""All that a plan takes, before it drops any, fits 64 bits."""
MAX_COUNT: Final = 2**58
"""FLOPs and elements up to here, times the bytes of one, fit 64 bits."""


def workload_of(scenario: Scenario) -> Workload:
    """The model of a scenario. Raises ScenarioError for sizes that do not fit together."""
    workload = _workload(scenario)
    kept = sum(layer.activations + layer.logits for layer in workload.layers)
    if max(workload.model_flops(), kept) >= MAX_COUNT:
        raise ScenarioError(
            f"model '{workload.name}' has more parameters or tokens than can be counted: "
            "lower layers, hidden, vocab, seq or micro_batch"
        )
    return workload


def _workload(scenario: Scenario) -> Workload:
    w = scenario.workload
    if w.record is not None:
        width = dtype_bytes(scenario.numerics.dtype)
        loss = w.loss or "eager"
        return extracted(
            w.record, Use(w.micro_batch, w.micro_batches, width, w.checkpointing, loss)
        )
    if w.model == "uniform":
        squares = uniform(
            layers=w.layers,
            hidden=w.hidden,
            tokens=w.micro_batch * w.seq,
            micro_batches=w.micro_batches,
            checkpointing=w.checkpointing,
            bias=_or(w.bias, True),
        )
        return uniform_as_booked(squares) if scenario.run.ledger else squares
    if w.model == "parameters":
        return listed(
            w.sizes or "",
            tokens=w.micro_batch * w.seq,
            micro_batches=w.micro_batches,
            checkpointing=w.checkpointing,
        )
    if w.vocab is None:
        raise ScenarioError(f"workload.vocab is missing for model '{w.model}': give its vocabulary")
    sizes = _sizes(w, w.vocab, dtype_bytes(scenario.numerics.dtype))
    decoder = transformer(sizes)
    return as_booked(decoder, sizes) if scenario.run.ledger else decoder


def _sizes(w: WorkloadSection, vocab: int, width: int) -> Sizes:
    return Sizes(
        layers=w.layers,
        hidden=w.hidden,
        heads=w.heads,
        kv_heads=w.kv_heads or w.heads,
        ffn=w.ffn or 4 * w.hidden,
        vocab=vocab,
        seq=w.seq,
        micro_batch=w.micro_batch,
        micro_batches=w.micro_batches,
        llama=w.model == "llama",
        tied=w.tied,
        qkv_bias=w.qkv_bias,
        attention=w.attention,
        checkpointing=w.checkpointing,
        checkpointed_layers=w.checkpointed_layers,
        early_stop=w.early_stop,
        bias=_or(w.bias, True),
        compiled=w.compile,
        loss=w.loss,
        width=width,
    )


def numerics_of(scenario: Scenario) -> Numerics:
    """The byte convention of a scenario. Raises UnknownNameError."""
    n = scenario.numerics
    return Numerics(
        n.dtype,
        _or(n.grad_dtype, n.dtype),
        n.optimizer,
        reduce_dtype=_or(n.reduce_dtype, ""),
        storage_dtype=_or(n.storage_dtype, ""),
        master=_or(n.master, True),
        foreach=_or(n.foreach, False),
        clipping=_or(n.clipping, False),
    )


def convention_of(scenario: Scenario) -> Convention:
    """What a scenario's numerics are called, with their bytes."""
    return matching(numerics_of(scenario), scenario.numerics.convention)


def machine_of(scenario: Scenario) -> Machine:
    """The machine of a scenario: its own, or one that zerosim knows. Raises UnknownNameError."""
    c = scenario.cluster
    return MACHINES[c.name] if c.machine is None else machine_from(c.machine, "cluster.machine")


def cluster_of(scenario: Scenario, given: Calibration | None = None) -> Cluster:
    """The cluster of a scenario: the machine, with what the scenario changes about it.

    `given` constants go before the scenario's, and those before the ones that the machine has.
    """
    c = scenario.cluster
    if not 1 <= c.world_size <= MAX_RANKS:
        raise ScenarioError(f"cluster.world_size is {c.world_size}: give 1 to {MAX_RANKS}")
    dtype_bytes(scenario.numerics.dtype)
    if c.calibration is not None:
        given = merged(calibration_from(c.calibration), given or Calibration())
    machine = machine_of(scenario)
    base = machine.cluster(c.world_size, scenario.numerics.dtype, given)
    share = base.inter.busbw / machine.inter.busbw
    rate = None if c.inter is None else share * read_rate(c.inter)
    model = _or(c.collectives, base.collectives)
    _refuse_unread(c, model)
    return replace(
        base,
        collectives=model,
        ranks_per_node=_or(c.ranks_per_node, base.ranks_per_node),
        device=replace(
            base.device,
            peak_flops=_or(c.peak_flops, base.device.peak_flops),
            efficiency=_or(c.efficiency, base.device.efficiency),
            memory_bytes=_or(c.memory_bytes, base.device.memory_bytes),
            memory_bandwidth=_or(c.memory_bandwidth, base.device.memory_bandwidth),
            launch_s=_or(c.launch_s, base.device.launch_s),
            shapes=_or(c.shapes, base.device.shapes),
        ),
        intra=_link(base.intra, c.intra_busbw, c.intra_hop_s),
        inter=_link(base.inter, c.inter_busbw if rate is None else rate, c.inter_hop_s),
        host=replace(
            base.host,
            issue_s=_or(c.issue_s, base.host.issue_s),
            collective_s=_or(c.collective_issue_s, base.host.collective_s),
        ),
        base_s=_or(c.base_s, base.base_s),
        contention=_contention(c, base),
        backend=_backend(c, base),
    )


def _backend(c: ClusterSection, base: Cluster) -> str:
    """What moves bytes: Gloo may reduce-scatter in two ways."""
    if c.scatter is None:
        return base.backend
    if base.backend not in (GLOO, GLOO_ALL_TO_ALL):
        raise ScenarioError(
            f"cluster.scatter is {c.scatter}, but '{base.name}' has no Gloo: leave it out, or take "
            "cluster lab or cpu-gloo"
        )
    return GLOO if c.scatter == "native" else GLOO_ALL_TO_ALL


def _contention(c: ClusterSection, base: Cluster) -> Contention:
    """What the scenario says of contention; a tax stands for what is taken from kernels."""
    default = base.contention
    if c.overlap_tax:
        default = replace(default, sms=False, memory=False)
    elif c.sm_contention or c.memory_contention:
        default = replace(default, tax=0.0)
    if c.sm_contention and not base.device.sms:
        raise ScenarioError(
            f"cluster.sm_contention is true, but nobody knows how many SMs '{base.name}' has: "
            "take another machine, or set cluster.overlap_tax"
        )
    return Contention(
        sms=_or(c.sm_contention, default.sms),
        memory=_or(c.memory_contention, default.memory),
        links=_or(c.link_sharing, default.links),
        communicators=_or(c.serial_communicators, default.communicators),
        tax=_or(c.overlap_tax, default.tax),
    )


def _refuse_unread(section: ClusterSection, model: str) -> None:
    """A latency that the model of collectives has of its own would change nothing."""
    for name in LATENCIES:
        given = getattr(section, name)
        if given is not None and name not in COLLECTIVES[model].latencies:
            raise ScenarioError(
                f"cluster.{name} is {given}, but collectives '{model}' have latencies of their own: "
                "leave it out, or set cluster.collectives=ring"
            )


def _link(base: Link, busbw: float | None, hop_s: float | None) -> Link:
    return replace(base, busbw=_or(busbw, base.busbw), hop_s=_or(hop_s, base.hop_s))


def _or(given: T | None, default: T) -> T:
    return default if given is None else given


def plan_of(scenario: Scenario) -> Plan:
    """The plan of one rank. Raises ScenarioError if it would be larger than can be simulated."""
    workload = workload_of(scenario)
    expected = 8 * len(workload.layers) * workload.micro_batches * scenario.run.steps
    if expected > MAX_OPS:
        raise ScenarioError(
            f"the scenario has about {expected} ops a rank, over {MAX_OPS}: "
            "lower layers, micro_batches or steps"
        )
    section = scenario.schedule
    schedule = SCHEDULES[section.name]
    numerics = numerics_of(scenario)
    plan = schedule.write(
        workload,
        cluster_of(scenario).world_size,
        numerics,
        schedule.options(**section.options),
        scenario.run.steps,
    )
    plan = with_update_workspace(plan, (numerics.update_workspace, numerics.optimizer_bytes))
    if scenario.run.ledger and section.name in BUFFERED:
        plan = with_rows(plan)
    taken = sum(a.nbytes for op in plan.ops for a in op.allocates)
    if taken + sum(a.nbytes for a in plan.persistent) >= MAX_BYTES:
        raise ScenarioError(
            f"schedule '{section.name}' takes more bytes than can be counted: "
            "lower its buckets, or hidden"
        )
    return plan


def variation_of(scenario: Scenario) -> Variation:
    """Stragglers, slow links and jitter of a scenario. Raises ScenarioError for what does not exist."""
    return variation_between(scenario.run, cluster_of(scenario))


def run(scenario: Scenario) -> Trace:
    """Simulate a scenario: same scenario, same trace, byte for byte."""
    return simulate(
        plan_of(scenario),
        cluster_of(scenario),
        variation_of(scenario),
        engine=scenario.run.engine,
        name=scenario.name,
        scenario=scenario.to_dict(),
        model=facts_of(scenario),
        allocator=scenario.run.allocator or "none",
        arrivals=scenario.run.arrivals or "barrier",
    )


def moments_of(scenario: Scenario, plan: Plan, rank: int) -> tuple[list[int], list[int]]:
    """When the host of `rank` issues each op of a scenario's plan, and when it ends, in ns."""
    return moments(
        plan,
        cluster_of(scenario),
        variation_of(scenario),
        rank,
        engine=scenario.run.engine,
        arrivals=scenario.run.arrivals or "barrier",
    )


def facts_of(scenario: Scenario) -> ModelFacts:
    """What turns the step time of a scenario into tokens per second and MFU."""
    workload = workload_of(scenario)
    return ModelFacts(
        n_params=workload.n_params,
        tokens=workload.tokens * workload.micro_batches,
        flops=workload.model_flops(),
        flops_causal=workload.model_flops(causal=True),
        peak_flops=cluster_of(scenario).device.peak_flops,
    )
