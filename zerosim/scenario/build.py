"""From a scenario to what it names: workload, cluster, numerics, plan, and the simulated trace."""

from __future__ import annotations

from typing import Final

from zerosim.engine import Variation, moments, simulate
from zerosim.errors import ScenarioError
from zerosim.memory.conventions import Convention
from zerosim.memory.conventions import convention_of as matching
from zerosim.memory.foreach import with_update_workspace
from zerosim.memory.rows import SCHEDULES as BUFFERED
from zerosim.memory.rows import with_rows
from zerosim.models import Sizes, Use, extracted, listed, transformer, uniform
from zerosim.models.kept import as_booked, uniform_as_booked
from zerosim.numerics import Numerics
from zerosim.plan import Plan
from zerosim.scenario.machinery import chosen, cluster_of
from zerosim.scenario.scenario import Scenario
from zerosim.scenario.sections import WorkloadSection
from zerosim.scenario.variation import variation_between
from zerosim.schedules import SCHEDULES
from zerosim.trace import ModelFacts, Trace
from zerosim.units import dtype_bytes
from zerosim.workload import Workload

MAX_OPS: Final = 200_000
"""So many ops a rank are written and run in about ten seconds."""
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
            bias=chosen(w.bias, True),
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
        bias=chosen(w.bias, True),
        compiled=w.compile,
        loss=w.loss,
        width=width,
    )


def numerics_of(scenario: Scenario) -> Numerics:
    """The byte convention of a scenario. Raises UnknownNameError."""
    n = scenario.numerics
    return Numerics(
        n.dtype,
        chosen(n.grad_dtype, n.dtype),
        n.optimizer,
        reduce_dtype=chosen(n.reduce_dtype, ""),
        storage_dtype=chosen(n.storage_dtype, ""),
        master=chosen(n.master, True),
        foreach=chosen(n.foreach, False),
        clipping=chosen(n.clipping, False),
    )


def convention_of(scenario: Scenario) -> Convention:
    """What a scenario's numerics are called, with their bytes."""
    return matching(numerics_of(scenario), scenario.numerics.convention)


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
