"""DeepSpeed ZeRO-1 and ZeRO-2: parameters in one flat buffer, gradients reduced bucket by bucket."""

from __future__ import annotations

from zerosim.kinds import Kind, Reuse
from zerosim.numerics import Numerics
from zerosim.plan import Allocation, Axis, Plan
from zerosim.schedules import layers
from zerosim.schedules.deepspeed12.buckets import Run, buffers, enter, epilogue
from zerosim.schedules.deepspeed12.layout import Layout, layout
from zerosim.schedules.deepspeed12.options import DeepSpeedOptions
from zerosim.schedules.norm import FLOAT32, gradient_norm, scalar
from zerosim.workload import Workload


def deepspeed1(
    workload: Workload, n_ranks: int, numerics: Numerics, options: DeepSpeedOptions, steps: int = 1
) -> Plan:
    """ZeRO-1: gradients stay whole and are reduced in the last micro-batch only."""
    return _plan(layout(workload, n_ranks, numerics, options, 1), steps)


def deepspeed2(
    workload: Workload, n_ranks: int, numerics: Numerics, options: DeepSpeedOptions, steps: int = 1
) -> Plan:
    """ZeRO-2: every micro-batch reduces its gradients; a rank keeps those that touch its slice."""
    return _plan(layout(workload, n_ranks, numerics, options, 2), steps)


def _plan(of: Layout, steps: int) -> Plan:
    run = Run(of)
    for run.writer.step in range(1, steps + 1):
        for run.writer.micro_batch in range(of.workload.micro_batches):
            _forward(run)
            _backward(run)
        _step(run)
    master = FLOAT32 if of.numerics.storage_bytes >= FLOAT32 else 0
    each = of.numerics.optimizer_bytes + master  # a float32 master beside float32 parameters, too
    held = (
        Allocation("parameters", "parameters", of.slice * of.n_ranks * of.numerics.param_bytes),
        Allocation("optimizer", "optimizer", of.slice * each),
    )
    ops = layers.steps_end(run.writer.ops)
    return Plan(
        f"deepspeed-{of.stage}",
        of.n_ranks,
        ops,
        (Axis("world", of.n_ranks),),
        held,
        reuse=Reuse.RECORDED,
    )


def _forward(run: Run) -> None:
    for layer in run.layout.workload.layers:
        run.computed = layers.forward(run.writer, layer, run.layout.numerics, after=run.taken())


def _backward(run: Run) -> None:
    """B of all layers; gradients enter buckets in hooks, or all of them once it has ended."""
    of, micro_batch = run.layout, run.writer.micro_batch
    reduces = of.stage > 1 or micro_batch == of.workload.micro_batches - 1
    for i, layer in reversed(list(enumerate(of.workload.layers))):
        made = of.made.get(i, ()) if of.stage > 1 or micro_batch == 0 else ()
        run.computed = layers.backward(
            run.writer,
            layer,
            of.numerics,
            after=run.taken(),
            allocates=(*made, *(buffers(run) if i == len(of.workload.layers) - 1 else ())),
        )
        if reduces and of.in_backward:
            enter(run, of.entering.get(i, ()))
    if reduces and not of.in_backward:
        enter(run, of.groups)
    if reduces:
        epilogue(run)


def _step(run: Run) -> None:
    """Two scalars, the slice's gradients in float32, Adam on the slice, and one gather of all."""
    of, numerics = run.layout, run.layout.numerics
    if numerics.dtype != "float32":
        scalar(run.writer, "overflow", after=(run.computed,), dtype="uint8")
    if of.options.compute_grad_norm:
        gradient_norm(run.writer, of.slice * numerics.grad_bytes, after=(run.computed,))
    gradients = tuple(f"partition.{i}" for i, kept in enumerate(of.kept) if kept)
    if not of.compact:
        gradients = _flattened(run, gradients)
    moved = FLOAT32 + 2 * numerics.optimizer_bytes + numerics.param_bytes
    run.computed = run.writer.compute(
        Kind.OPTIMIZER, "", after=run.taken(), memory_bytes=of.slice * moved, frees=gradients
    )
    gather = run.writer.collective(
        Kind.ALL_GATHER,
        _ends(of.workload),
        elements=of.slice * of.n_ranks,
        dtype=numerics.dtype,
        after=(run.computed,),
    )
    run.blocked = (gather,)


def _ends(workload: Workload) -> str:
    first, last = workload.layers[0].name, workload.layers[-1].name
    return first if first == last else f"{first}-{last}"


def _flattened(run: Run, gradients: tuple[str, ...]) -> tuple[str, ...]:
    """The slice's gradients as one tensor, then in float32; returns what holds them."""
    of, width = run.layout, run.layout.numerics.param_bytes
    flat = Allocation("slice", "gradients", of.slice * width)
    casts = width < FLOAT32
    run.computed = run.writer.compute(
        Kind.COPY,
        "",
        name="flatten",
        after=run.taken(),
        memory_bytes=2 * flat.nbytes,
        allocates=(flat,),
        frees=() if casts else gradients,
    )
    if not casts:
        return ("slice",)
    master = Allocation("slice.float32", "gradients", of.slice * FLOAT32)
    run.computed = run.writer.compute(
        Kind.COPY,
        "",
        name="cast",
        memory_bytes=flat.nbytes + master.nbytes,
        allocates=(master,),
        frees=("slice", *gradients),
    )
    return ("slice.float32",)
