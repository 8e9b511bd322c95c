"""The model of collectives as a field of a scenario, and the knobs that belong to it."""

from __future__ import annotations

import pytest

from zerosim.collectives import transfer
from zerosim.errors import ScenarioError, UnknownNameError
from zerosim.kinds import Kind
from zerosim.scenario import cluster_of, load_scenario

GIB = 2**30


def took(*words: str, kind: Kind = Kind.ALL_GATHER) -> int:
    """Nanoseconds of a GiB over all ranks of two DGX H100."""
    cluster = cluster_of(load_scenario("gpt2-1.5b", words))
    return transfer(kind, GIB, cluster.world_size, cluster).alone_ns


def test_a_machine_whose_topology_is_known_has_nccls_times_and_the_classroom_a_ring() -> None:
    assert cluster_of(load_scenario("gpt2-1.5b")).collectives.startswith("nccl")
    assert cluster_of(load_scenario("lesson-zero3")).collectives == "ring"
    assert cluster_of(load_scenario("lesson-zero3", ["cluster=cpu-gloo"])).collectives == "ring"


def test_a_scenario_picks_the_model() -> None:
    # 15/16 of a GiB at 360 GB/s, before any latency.
    assert took("collectives=alpha-beta", "base_s=0") == 2_796_203
    models = ("ring", "nccl", "hierarchical", "alpha-beta")
    assert len({took(f"collectives={model}", kind=Kind.ALL_REDUCE) for model in models}) == 4
    with pytest.raises(
        UnknownNameError, match="no model of collectives 'ncc': did you mean 'nccl'"
    ):
        load_scenario("gpt2-1.5b", ["collectives=ncc"])


def test_the_network_and_nvswitch_are_one_knob_each() -> None:
    for model in ("nccl", "ring", "hierarchical", "alpha-beta"):
        base = took(f"collectives={model}")
        assert took(f"collectives={model}", "inter_busbw=1e11") > 1.5 * base
        assert took(f"collectives={model}", "intra_busbw=1e11") > 1.5 * base
    # A network as fast as a ring of NVSwitch leaves only latency between one node and two.
    inside = took("collectives=nccl", "world_size=8")
    assert took("collectives=nccl", "inter_busbw=3.6e11") == pytest.approx(inside, rel=0.1)


@pytest.mark.parametrize(
    ("words", "refused"),
    [
        (["collectives=nccl", "base_s=1e-6"], "cluster.base_s is 1e-06, but collectives 'nccl'"),
        (["intra_hop_s=1e-6"], "cluster.intra_hop_s is 1e-06, but collectives 'nccl"),
        (["collectives=alpha-beta", "inter_hop_s=1e-6"], "cluster.inter_hop_s is 1e-06, but"),
        (["collectives=hierarchical", "base_s=0"], "leave it out, or set cluster.collectives=ring"),
    ],
)
def test_a_latency_that_the_model_would_not_read_is_refused(words: list[str], refused: str) -> None:
    with pytest.raises(ScenarioError) as error:
        cluster_of(load_scenario("gpt2-1.5b", words))
    assert refused in str(error.value)


def test_a_machine_without_nccl_refuses_its_model() -> None:
    with pytest.raises(ScenarioError, match="runs gloo: give ring, alpha-beta or table"):
        took("cluster=cpu-gloo", "collectives=nccl")
    with pytest.raises(ScenarioError, match="nothing is known of the topology of 'classroom'"):
        took("cluster=classroom", "collectives=nccl")
