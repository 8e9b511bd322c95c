"""FSDP2's groups: what belongs to which, what the padding costs, and how much is sent."""

from __future__ import annotations

import pytest

from zerosim.kinds import COMMUNICATION, Kind
from zerosim.numerics import Numerics
from zerosim.plan import at_rank
from zerosim.scenario import load_scenario, numerics_of, plan_of, workload_of
from zerosim.schedules.fsdp2 import Fsdp2Options, fsdp2, fsdp2_padded
from zerosim.schedules.fsdp2.groups import Calls, wrapping
from zerosim.workload import Layer, Module, Parameter, Unit, Workload


# semantics.md D: measured on torch's fake backend, 36,069,376 instead of 30,740,800 elements.
@pytest.mark.parametrize(
    ("n_ranks", "percent"), [(256, 5.3), (512, 14.7), (1024, 17.3), (4096, 92)]
)
def test_the_padding_of_a_gpt2_xl_block(n_ranks: int, percent: float) -> None:
    workload = workload_of(load_scenario("gpt2-1.5b", []))
    group = wrapping(workload, Calls(n_ranks, 0, n_ranks, n_ranks, wrap_layers=True)).inner[0]
    assert group.gathered.numel == 30_740_800
    if n_ranks == 1024:
        assert group.gathered.elements == 36_069_376
    assert 100 * (group.gathered.elements / group.gathered.numel - 1) == pytest.approx(
        percent, abs=0.5
    )


@pytest.mark.parametrize("shards", [None, 8])
def test_the_padding_that_is_told_is_that_of_the_gathers(shards: int | None) -> None:
    words = ["schedule=fsdp2", "world_size=64", f"shard_mesh_size={shards}"]
    scenario = load_scenario("gpt2-1.5b", words)
    gathers = {op.unit: op.elements for op in plan_of(scenario).ops if op.kind is Kind.ALL_GATHER}
    options = Fsdp2Options(shard_mesh_size=shards)
    told = fsdp2_padded(workload_of(scenario), 64, numerics_of(scenario), options)
    assert told == sum(elements or 0 for elements in gathers.values())


def test_a_unit_used_here_and_there_belongs_to_the_root() -> None:
    units = tuple(Unit(name, (Parameter("p", (4,)),)) for name in ("shared", "a", "b"))
    layers = tuple(Layer(str(i), unit, 1, 1, 1) for i, unit in enumerate((0, 1, 1, 0, 2)))
    found = wrapping(Workload("w", units, layers, 1), Calls(2, 0, 2, 2, wrap_layers=True))
    assert found.root is not None
    assert found.root.label == "shared"
    assert [group.label for group in found.inner] == ["a", "b"]


def made_of(*layers: tuple[int, tuple[int, ...]]) -> Workload:
    """Units a, b and c of parameters of 4 and 8; layers of (unit, what they compute with)."""
    units = tuple(Unit(name, (Parameter("p", (4,)), Parameter("q", (8,)))) for name in "abc")
    return Workload(
        "w",
        units,
        tuple(
            Layer(str(i), unit, 1, 1, 1, modules=(Module("m", used, 1, 1),))
            for i, (unit, used) in enumerate(layers)
        ),
        tokens=1,
    )


def carried_out(workload: Workload) -> list[tuple[str, int | None]]:
    found = fsdp2(workload, 2, Numerics("float32", "float32"), Fsdp2Options())
    return [(op.name, op.elements) for op in found.ops if op.kind in COMMUNICATION]


def test_a_parameter_without_a_gradient_is_gathered_and_not_reduced() -> None:
    assert carried_out(made_of((0, (0, 1)), (1, (1,)))) == [
        *(("AGa", 12), ("AGb", 12), ("AGb", 12), ("AGa", 12)),
        *(("RSb", 8), ("RSa", 12)),
    ]


def test_a_unit_that_no_layer_uses_is_stored_and_never_gathered() -> None:
    workload = made_of((0, (0, 1)), (1, (0, 1)))
    assert {name for name, _ in carried_out(workload)} == {"AGa", "AGb", "RSa", "RSb"}
    parameters, optimizer = fsdp2(
        workload, 2, Numerics("float32", "float32"), Fsdp2Options()
    ).persistent
    assert parameters.nbytes == 3 * 12 // 2 * 4
    assert optimizer.nbytes == 2 * 12 // 2 * 8


def test_a_first_layer_without_parameters_makes_the_next_one_reduce_at_the_end() -> None:
    units = (
        Unit("none", ()),
        Unit("a", (Parameter("p", (4,)),)),
        Unit("root", (Parameter("p", (8,)),)),
    )
    layers = tuple(Layer(str(i), unit, 1, 1, 1) for i, unit in enumerate((0, 1, 2)))
    # Torch's last callback runs the hooks that did not fire, the root's first.
    assert [name for name, _ in carried_out(Workload("w", units, layers, 1))] == [
        *("AGroot", "AGa", "AGa", "RSroot", "RSa")
    ]


def test_only_real_rows_have_optimizer_states_and_replicas_have_the_same() -> None:
    words = [
        "schedule=fsdp2",
        "hidden=3",
        "layers=1",
        "world_size=8",
        "shard_mesh_size=4",
        "dtype=float32",
    ]
    found = plan_of(load_scenario("lesson-zero3", words))
    parameters, optimizer = found.persistent
    # A row of the weight (3) and of the bias (1) each for three ranks; the fourth stores padding.
    assert [parameters.at(rank) // 4 for rank in range(8)] == [4] * 8
    assert [optimizer.at(rank) // 8 for rank in range(8)] == [4, 4, 4, 0, 4, 4, 4, 0]
    update = found.ops[-1].memory_bytes_by_rank
    assert update is not None
    assert [at_rank(update, rank) for rank in (2, 3, 7)] == [4 * 24, 0, 0]


# Check case C4: 3Ψ(N-1)/N where the padding is nothing.
def test_a_step_sends_three_times_the_parameters() -> None:
    found = plan_of(load_scenario("lesson-zero3", ["schedule=fsdp2", "hidden=64", "world_size=8"]))
    sent = sum((op.elements or 0) * 7 / 8 for op in found.ops if op.kind in COMMUNICATION)
    assert sent == 3 * (3 * (64 * 64 + 64)) * 7 / 8


# Check case C7.
@pytest.mark.parametrize(
    ("word", "gathers", "reductions"),
    [
        ("steps=1", 2 * 3 * 3, 3 * 3),
        ("set_requires_gradient_sync=false", 2 * 3 * 3, 3),
        # After the first forward only the backward gathers, once a micro-batch.
        ("set_reshard_after_backward=false", 3 + 3 * 3, 3 * 3),
    ],
)
def test_three_micro_batches_gather_and_reduce_so_often(
    word: str, gathers: int, reductions: int
) -> None:
    ops = plan_of(load_scenario("lesson-zero3", ["schedule=fsdp2", "micro_batches=3", word])).ops
    assert sum(op.kind is Kind.ALL_GATHER for op in ops) == gathers
    assert sum(op.kind is Kind.REDUCE_SCATTER for op in ops) == reductions
