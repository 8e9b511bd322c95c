"""torch's DDP: buckets of the first and of later steps, views, maps of unused parameters, refusals."""

from __future__ import annotations

import pytest

from zerosim.errors import ScenarioError, UnknownNameError
from zerosim.kinds import Kind
from zerosim.plan import Plan
from zerosim.scenario import Scenario, load_scenario, plan_of, workload_of
from zerosim.schedules.arrival import arrived

MIB = 2**20
MIB_LAYER = 512 * 512  # elements of 4 bytes; the check cases' layers have no bias
PSI = 3 * (768 * 768 + 768)


def plan(*words: str, preset: str = "lesson-ddp") -> Plan:
    return plan_of(load_scenario(preset, ["bucket_bytes=none", *words]))


def order(step: int, *words: str) -> str:
    return plan(*words).order_of(step)


def reduced(step: int, *words: str) -> list[int | None]:
    """Bytes of each all-reduced bucket of a step."""
    ops = plan(*words).ops
    return [
        op.nbytes
        for op in ops
        if op.step == step and op.kind is Kind.ALL_REDUCE and op.bucket is not None
    ]


def weights(n: int, mib: int = 1) -> list[str]:
    """`n` layers of one tensor: the model of the check cases."""
    return ["model=parameters", f"sizes={';'.join([str(mib * MIB_LAYER)] * n)}", "steps=4"]


def mib(sizes: list[int | None]) -> list[int]:
    return [size // MIB for size in sizes if size is not None]


# Check case D18.
def test_thirty_layers_are_one_bucket_first_and_1_25_and_4_mib_from_then_on() -> None:
    assert mib(reduced(1, *weights(30))) == [30]
    assert [mib(reduced(step, *weights(30))) for step in (2, 3)] == [[1, 25, 4]] * 2


def test_the_three_buckets_leave_after_the_first_the_twenty_sixth_and_the_last_layer() -> None:
    words = order(2, *weights(30)).split()
    before = {word: words[i - 1] for i, word in enumerate(words) if word.startswith("AR")}
    assert before == {"AR29": "B29", "AR28-4": "B4", "AR3-0": "B0"}


# Check case D19.
def test_forty_layers_are_1_25_and_14_mib() -> None:
    assert reduced(2, *weights(40)) == [1_048_576, 26_214_400, 14_680_064]


# Check case D20.
def test_with_unused_parameters_to_find_the_small_bucket_is_the_last_and_stays() -> None:
    found = [mib(reduced(s, *weights(30), "find_unused_parameters=true")) for s in (1, 2, 3)]
    assert found == [[4, 25, 1]] * 3


# Check case D21.
def test_three_layers_are_one_bucket_and_then_two() -> None:
    assert order(1, *weights(3)) == "F0 F1 F2 B2 B1 B0 AR2-0 OPT BCbuckets BCbuckets"
    assert order(2, *weights(3)) == "F0 F1 F2 B2 AR2 B1 B0 AR1-0 OPT"
    assert mib(reduced(2, *weights(3))) == [1, 2]


# Check case D22.
def test_a_static_graph_has_one_bucket_in_two_steps() -> None:
    found = [mib(reduced(s, *weights(30), "static_graph=true")) for s in (1, 2, 3)]
    assert found == [[30], [30], [1, 25, 4]]


# Check case D23.
def test_a_bucket_overshoots_its_cap_by_the_tensor_that_reaches_it() -> None:
    assert mib(reduced(2, *weights(4, mib=20))) == [20, 40, 20]


def test_the_first_backward_of_a_static_graph_reduces_its_map_first() -> None:
    words = [*weights(3), "static_graph=true"]
    assert order(1, *words) == "F0 F1 F2 B2 B1 B0 ARused AR2-0 OPT"
    assert order(2, *words) == "F0 F1 F2 B2 B1 B0 AR2-0 OPT BCbuckets BCbuckets"
    assert order(3, *words) == "F0 F1 F2 B2 AR2 B1 B0 AR1-0 OPT"


def test_a_map_of_the_used_parameters_is_reduced_in_every_step() -> None:
    # Weights and biases as they are defined: the last bias is a bucket, and reduced at once.
    words = ["find_unused_parameters=true", "bucket_cap_mb=2", "steps=3"]
    assert order(3, *words) == "F0 F1 F2 B2 AR2 B1 AR2-1 B0 AR1-0 AR0 ARused OPT"
    used = [op for op in plan(*words).ops if op.name == "ARused"]
    assert [(op.elements, op.dtype, op.step) for op in used] == [(6, "int32", s) for s in (1, 2, 3)]


def test_new_buckets_are_broadcast_once_by_parameter_and_by_size() -> None:
    told = [op for op in plan(*weights(3)).ops if op.kind is Kind.BROADCAST]
    # Three parameters and the number of buckets; then the sizes of two buckets.
    assert [(op.step, op.elements, op.dtype) for op in told] == [(1, 4, "int32"), (1, 2, "int32")]


@pytest.mark.parametrize(
    ("words", "steady_from"),
    [
        ([], 2),
        (["static_graph=true"], 3),
        (["find_unused_parameters=true"], 1),
        (["micro_batches=2", "no_sync=false"], 2),
        (["micro_batches=2", "no_sync=false", "static_graph=true"], 2),
    ],
)
def test_a_plan_says_from_which_step_on_it_is_steady(words: list[str], steady_from: int) -> None:
    assert plan("steps=4", *words).steady_from == steady_from


def test_micro_batches_before_the_last_do_not_reduce() -> None:
    words = ["micro_batches=2", "bucket_cap_mb=2", "steps=2"]
    assert order(2, *words) == "F0 F1 F2 B2 B1 B0 F0 F1 F2 B2 AR2 B1 AR1 B0 AR0 OPT"


def test_without_no_sync_every_micro_batch_reduces_and_the_second_has_new_buckets() -> None:
    words = ["micro_batches=2", "no_sync=false", "bucket_cap_mb=2"]
    assert order(1, *words) == (
        "F0 F1 F2 B2 B1 B0 AR2-0 BCbuckets BCbuckets F0 F1 F2 B2 AR2 B1 AR1 B0 AR0 OPT"
    )


def test_a_list_of_caps_holds_from_the_first_step_on() -> None:
    words = ["bucket_cap_mb_list=2,100", "steps=2"]
    # As defined: the first weight (2.25 MiB), then all others; they go the other way round.
    assert order(1, *words) == "F0 F1 F2 B2 B1 B0 AR2-0 AR0 OPT BCbuckets BCbuckets"
    assert order(2, *words) == "F0 F1 F2 B2 AR2 B1 B0 AR1-0 OPT"


def test_a_cap_of_0_makes_a_bucket_of_every_parameter() -> None:
    words = ["bucket_cap_mb=0", "steps=2"]
    assert order(2, *words) == "F0 F1 F2 B2 AR2 AR2 B1 AR1 AR1 B0 AR0 AR0 OPT"


def test_a_tied_embedding_is_ready_with_the_embedding_and_not_with_the_head() -> None:
    words = ["model=gpt", "layers=1", "hidden=8", "heads=2", "vocab=11", "seq=4", "tied=true"]
    assert order(2, *words, "steps=2", "bucket_cap_mb=0.0000001").split()[4:] == (
        ["ARhead"] * 2 + ["B0"] + ["AR0"] * 12 + ["Bemb"] + ["ARemb"] * 2 + ["OPT"]
    )


def persistent(*words: str) -> dict[str, int]:
    return {a.kind: a.nbytes for a in plan(*words).persistent}


# Check case I3.
def test_buckets_are_a_second_copy_of_the_gradients() -> None:
    assert persistent()["buckets"] == 4 * PSI
    made = [a for op in plan().ops for a in op.allocates if a.kind == "gradients"]
    assert sum(a.nbytes for a in made) == 4 * PSI


def test_with_views_the_buckets_are_the_gradients() -> None:
    words = ["gradient_as_bucket_view=true"]
    assert persistent(*words)["gradients"] == 4 * PSI
    assert "buckets" not in persistent(*words)
    made = [a for op in plan(*words).ops for a in op.allocates if a.kind == "gradients"]
    assert made == []


def test_with_views_gradients_that_only_add_up_have_their_own_memory_until_they_are_reduced() -> (
    None
):
    ops = plan("gradient_as_bucket_view=true", "micro_batches=2").ops
    made = [op for op in ops if any(a.kind == "gradients" for a in op.allocates)]
    assert [(op.name, op.micro_batch) for op in made] == [("B2", 0), ("B1", 0), ("B0", 0)]
    moved = [op for op in ops if op.kind is Kind.FILL and op.frees]
    assert {op.micro_batch for op in moved} == {1}


def test_a_bucket_is_copied_back_once_it_is_reduced_unless_gradients_are_views() -> None:
    ops = plan("bucket_cap_mb=2", "steps=2").ops
    copies = [op for op in ops if op.kind is Kind.COPY and op.step == 2]
    assert [[ops[i].name for i in op.after] for op in copies] == [["AR2"], ["AR1"], ["AR0"]]
    assert copies[0].memory_bytes == 2 * 4 * PSI // 3
    views = plan("bucket_cap_mb=2", "gradient_as_bucket_view=true").ops
    assert [op for op in views if op.kind is Kind.COPY] == []


def test_gradients_arrive_module_by_module_backwards_and_a_norm_as_it_is_defined() -> None:
    record = {"model": "gpt", "layers": 1, "hidden": 8, "heads": 2, "vocab": 11, "seq": 4}
    scenario = Scenario.from_dict({"name": "one", "workload": record})
    workload = workload_of(scenario)
    names = [workload.units[unit].parameters[index].name for unit, index in arrived(workload)]
    assert names == [
        *("head.weight", "norm.weight", "norm.bias"),
        *("mlp.down.bias", "mlp.down.weight", "mlp.up.bias", "mlp.up.weight"),
        *("norm2.weight", "norm2.bias", "attention.out.bias", "attention.out.weight"),
        *("attention.qkv.bias", "attention.qkv.weight", "norm1.weight", "norm1.bias"),
        *("position.weight", "embedding.weight"),
    ]


def test_a_static_graph_that_only_adds_up_first_is_refused_as_torch_does() -> None:
    with pytest.raises(ScenarioError, match=r"'expect_autograd_hooks_'.*give no_sync=false"):
        plan("static_graph=true", "micro_batches=2")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["bucket_bytes=0"], r"schedule\.bucket_bytes is 0: give at least 1"),
        (["bucket_cap_mb=-1"], "a bucket cap of -1 MiB: torch's reducer takes sizes of 0 or more"),
        (["bucket_cap_mb_list=1,-2"], "a bucket cap of -2 MiB"),
        (["bucket_cap_mb_list=inf"], "a bucket cap of inf MiB"),
        (["bucket_cap_mb_list=1,nan"], "a bucket cap of nan MiB"),
        (["bucket_cap_mb=1e18"], r"a bucket cap of 1e\+18 MiB"),
        (["bucket_cap_mb_list=1,x"], r"is '1,x': give numbers of MiB with commas"),
        (["bucket_bytes=9", "bucket_cap_mb=1"], "bucket_bytes and bucket_cap_mb are both given"),
        (
            ["bucket_bytes=9", "bucket_cap_mb_list=1"],
            "bucket_bytes and bucket_cap_mb_list are both",
        ),
    ],
)
def test_caps_that_torch_cannot_use_are_refused(words: list[str], message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        plan(*words)


def test_an_argument_that_is_not_modelled_is_refused_by_name() -> None:
    with pytest.raises(UnknownNameError, match="no field 'broadcast_buffers'"):
        plan("broadcast_buffers=true")
