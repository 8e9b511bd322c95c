"""FSDP1's hooks: what waits for what, the rate limiter, and who is freed when."""

from __future__ import annotations

from typing import Any

import pytest

from tests.zerosim.schedules.test_fsdp1 import GPT, LAYERS, plan
from zerosim.kinds import Kind
from zerosim.numerics import Numerics
from zerosim.plan import Op, Plan
from zerosim.schedules.fsdp1 import Fsdp1Options, fsdp1
from zerosim.workload import Layer, Parameter, Unit, Workload


def step(made: Plan, number: int = 2) -> list[Op]:
    return [op for op in made.ops if op.step == number]


def waits(made: Plan) -> str:
    """Gathers and the host's waits of a steady step: `AG2<F0` was issued once F0 had ended."""
    shown, awaited = [], ""
    for op in step(made):
        if op.kind is Kind.WAIT:
            awaited = f"<{made.ops[op.after[0]].name}"
        elif op.kind is Kind.ALL_GATHER:
            shown.append(op.name + awaited)
            awaited = ""
    return " ".join(shown)


def test_the_host_waits_until_one_of_the_units_freed_before_is_out_of_use() -> None:
    # fill2, fill1 and fill0, of the step before, are the last ops that use those units.
    assert waits(plan()) == "AG0<fill2 AG1<fill1 AG2<fill0 AG2<F0 AG1<F1 AG0<F2"


def test_nobody_waits_without_the_limit() -> None:
    assert waits(plan(limit_all_gathers=False)) == "AG0 AG1 AG2 AG2 AG1 AG0"


def test_nothing_is_freed_and_so_nothing_awaited_if_nothing_is_sharded() -> None:
    assert all(op.kind is not Kind.WAIT for op in plan(sharding_strategy="NO_SHARD").ops)


def test_the_first_gather_waits_for_the_update_of_the_step_before() -> None:
    made = plan()
    first = next(op for op in step(made) if op.kind is Kind.ALL_GATHER)
    assert [made.ops[i].name for i in first.after] == ["OPT"]


def test_a_backward_waits_for_its_own_gather_and_not_for_the_prefetched_one() -> None:
    made = plan()
    gathers = [op.id for op in step(made) if op.name == "AG2"]
    backward = next(op for op in step(made) if op.name == "B2")
    assert backward.after == (gathers[1],)


def test_the_update_waits_for_the_last_reduction_of_each_stream() -> None:
    made = plan(n_ranks=4, sharding_strategy="HYBRID_SHARD", shard_mesh_size=2)
    update = next(op for op in step(made) if op.kind is Kind.OPTIMIZER)
    last = max(op.id for op in step(made) if op.stream == "all_reduce")
    assert last in update.after


@pytest.mark.parametrize(
    ("options", "alive"),
    [({}, 2), ({"forward_prefetch": True}, 3), ({"sharding_strategy": "SHARD_GRAD_OP"}, 4)],
)
def test_units_that_are_gathered_at_once(options: dict[str, Any], alive: int) -> None:
    now = most = 0
    for op in plan(LAYERS | {"layers": 4}, **options).ops:
        now += sum(a.kind == "gathered" for a in op.allocates)
        most = max(most, now)
        now -= sum(key.startswith("gathered.") for key in op.frees)
    assert most == alive
    assert now == 0


def test_the_root_stays_gathered_from_the_first_forward_to_the_last_backward() -> None:
    made = plan(GPT)
    (freed,) = [op.name for op in step(made) if "gathered.0" in op.frees]
    assert freed == "fillroot"
    assert [op.name for op in step(made) if op.kind is Kind.BACKWARD][-1] == "Bemb"


def test_a_parameter_used_twice_makes_two_gradients_and_their_sum() -> None:
    made = plan(GPT | {"tied": True})
    last = next(op for op in step(made) if op.name == "Bemb")
    sizes = {a.key: a.nbytes for a in last.allocates}
    assert sizes == {
        "gradient.0.emb": 4 * 8 * 4,  # positions; the head has made the table's already
        "gradient.0.emb.added": 2 * 11 * 8 * 4,
    }


def test_a_unit_without_parameters_is_neither_gathered_nor_reduced() -> None:
    weight = (Parameter("weight", (8, 8)),)
    workload = Workload(
        "gaps",
        (Unit("a", weight), Unit("none", ()), Unit("b", weight)),
        tuple(Layer(name, unit, 1, 2, 3) for unit, name in enumerate(("0", "1", "2"))),
        tokens=1,
    )
    made = fsdp1(workload, 2, Numerics(), Fsdp1Options())
    assert made.order == "AGa F0 F1 AGb F2 AGb AGa B2 RSb B1 B0 RSa OPT"
