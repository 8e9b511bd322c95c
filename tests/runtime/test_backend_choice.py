"""NCCL where each rank has a GPU of its own, Gloo elsewhere; what is said of it, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed as dist

from tests.runtime.played import Device
from zerosim.errors import InputError, RuntimeFailedError
from zerosim.scenario import load_scenario
from zerosim_runtime import cuda
from zerosim_runtime.assignment import Assignment, digest
from zerosim_runtime.launch import why_gloo
from zerosim_runtime.rank import agree
from zerosim_runtime.zero.channels import open_channels


def test_one_gpu_and_several_ranks_is_said_to_run_on_cpu_tensors() -> None:
    assert why_gloo("auto", "gloo", n_gpus=1, n_ranks=4) == (
        "1 GPU cannot serve 4 ranks, one each: they ran on CPU tensors, by gloo "
        "(--nproc 1 would use a GPU each)"
    )


def test_nothing_is_said_where_nobody_could_expect_a_gpu() -> None:
    assert why_gloo("auto", "gloo", n_gpus=0, n_ranks=4) is None
    assert why_gloo("gloo", "gloo", n_gpus=8, n_ranks=4) is None
    assert why_gloo("auto", "nccl", n_gpus=8, n_ranks=4) is None


def test_nodes_with_gpus_and_nodes_without_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = load_scenario("lesson-zero3", ["world_size=4"])
    assignment = Assignment(scenario.to_dict(), "auto", 60.0)
    same = digest(assignment)

    def gather(told: list[Any], _: object) -> None:
        told[:] = [(same, "nccl", 1), (same, "nccl", 2), (same, "gloo", 3), (same, "gloo", 4)]

    monkeypatch.setattr(dist, "get_world_size", lambda: 4)
    monkeypatch.setattr(dist, "all_gather_object", gather)

    with pytest.raises(RuntimeFailedError) as refused:
        agree(assignment, scenario, "nccl")
    assert str(refused.value) == (
        "rank 2 would talk by gloo, rank 0 by nccl, as their GPUs allow: give every node --backend gloo"
    )


@pytest.mark.usefixtures("alone")
def test_a_module_on_another_gpu_than_its_rank_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "_cuda", Device())

    with pytest.raises(InputError) as refused:
        open_channels(torch.device("cuda", 3), 1.0)
    assert str(refused.value) == (
        "the module is on cuda:3, this rank on another GPU: call torch.cuda.set_device(3)"
    )
