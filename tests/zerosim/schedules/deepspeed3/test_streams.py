"""DeepSpeed ZeRO-3: what waits for what, on which stream, and how far the host runs ahead."""

from __future__ import annotations

import re
from pathlib import Path

from tests.zerosim.schedules.deepspeed3.models import P, model, on_demand, order, plan
from zerosim.kinds import Kind
from zerosim.plan import Op, Plan

PAGE = Path(__file__).parents[4] / "docs" / "schedules" / "deepspeed-3.md"


def op(made: Plan, name: str, step: int = 3) -> Op:
    """The first op of that name in a step."""
    return next(op for op in made.ops if op.name == name and op.step == step)


def waits(made: Plan, what: str) -> list[str]:
    """`F3<AG0`: before it issues F3 the host waits for AG0 (in step 3)."""
    found: list[str] = []
    for wait in made.ops:
        if wait.name == f"wait{what}" and wait.step == 3:
            following = next(op for op in made.ops[wait.id + 1 :] if op.kind is not Kind.WAIT)
            found += [f"{following.name}<{made.ops[before].name}" for before in wait.after]
    return found


def test_a_layer_waits_for_its_parameter_and_not_for_the_one_gathered_ahead() -> None:
    made = plan(stage3_prefetch_bucket_size=P, stage3_max_reuse_distance=0)
    names = [[made.ops[before].name for before in op(made, f"F{i}").after] for i in range(3)]
    assert names == [["AG0"], ["AG1"], ["AG2"]]


def test_several_parameters_are_packed_gathered_and_copied_out_before_their_layer() -> None:
    made = plan(model(bias=True), **on_demand())
    gathered = op(made, "AG0")
    assert made.ops[gathered.after[-1]].name == "pack0"
    copied = op(made, "copy0")
    assert (copied.stream, copied.after) == ("gather_copy", (gathered.id,))
    assert op(made, "F0").after == (copied.id, gathered.id)


def test_a_reduction_waits_for_the_backward_of_its_gradients_on_a_stream_of_its_own() -> None:
    made = plan(**on_demand(reduce_bucket_size=P))
    reduced, filled = op(made, "RS2"), op(made, "fill2")
    assert {reduced.stream, filled.stream} == {"reduce_scatter"}
    assert reduced.after == filled.after == (op(made, "B2").id,)
    assert reduced.id > op(made, "B1").id  # issued only when the next gradient does not fit


def test_the_next_step_gathers_what_the_last_one_updated() -> None:
    made = plan(**on_demand())
    assert op(made, "OPT", step=2).id in op(made, "AG0").after


def test_the_host_waits_for_the_third_fetch_before_the_one_it_needs() -> None:
    # Nine fetches: six in the forward, all but the last layer's again in the backward.
    made = plan(model(6), **on_demand())
    assert waits(made, "fetch")[:3] == ["F3<AG0", "F4<AG1", "F5<AG2"]
    assert waits(made, "fetch")[3:] == ["B4<AG3", "B3<AG4", "B2<AG5", "B1<AG4", "B0<AG3"]


def test_the_host_waits_for_the_third_reduction_before_the_next_and_for_all_at_the_end() -> None:
    made = plan(model(5), **on_demand(reduce_bucket_size=P))
    assert waits(made, "reduce") == ["RS1<copy4", "RS0<copy3", "ARnorm<copy0"]


def test_the_host_knows_the_norm_before_it_updates() -> None:
    assert waits(plan(), "norm") == ["cast<ARnorm"]


def test_the_orders_of_the_page_are_those_of_the_plans() -> None:
    rows = re.findall(r"^\| (0|P|default) \| (.+?) \| `(.+)` \|$", PAGE.read_text(), re.MULTILINE)
    assert len(rows) == 5
    prefetches = {"0": 0, "P": P, "default": 50_000_000}
    reuses = {"0": 0, "1": 1, "0 or 1": 1, "2P + 1": 2 * P + 1, "default": 1_000_000_000}
    for prefetch, reuse, text in rows:
        made = plan(
            stage3_prefetch_bucket_size=prefetches[prefetch],
            stage3_max_reuse_distance=reuses[reuse],
        )
        assert order(made, 2) == text
        assert f"step 1 is always `{order(made, 1)}`" in PAGE.read_text()
