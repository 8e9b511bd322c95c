"""Clusters: sizes and rates that make no sense are refused where they are given."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from zerosim.cluster import Cluster
from zerosim.errors import ScenarioError
from zerosim.hardware import MACHINES

BASE = MACHINES["dgx-h100"].cluster(16, "bfloat16")


@pytest.mark.parametrize(("world_size", "nodes"), [(1, 1), (8, 1), (9, 2), (16384, 2048)])
def test_nodes_are_as_many_as_the_ranks_need(world_size: int, nodes: int) -> None:
    assert replace(BASE, world_size=world_size).n_nodes == nodes


def test_sizes_below_one_are_refused() -> None:
    with pytest.raises(ScenarioError, match=r"cluster\.world_size is 0: give at least 1"):
        replace(BASE, world_size=0)
    with pytest.raises(ScenarioError, match=r"cluster\.ranks_per_node is -1: give at least 1"):
        replace(BASE, ranks_per_node=-1)


@pytest.mark.parametrize("rate", [0.0, -1.0, math.nan, math.inf])
def test_a_rate_that_is_no_finite_positive_number_is_refused(rate: float) -> None:
    with pytest.raises(
        ScenarioError, match=r"cluster\.intra_busbw is .*: give a finite number above"
    ):
        replace(BASE, intra=replace(BASE.intra, busbw=rate))
    with pytest.raises(ScenarioError, match=r"cluster\.peak_flops is"):
        replace(BASE, device=replace(BASE.device, peak_flops=rate))


def test_more_than_the_peak_is_never_reached() -> None:
    with pytest.raises(ScenarioError, match=r"cluster\.efficiency is 1\.5: give a share above 0"):
        replace(BASE, device=replace(BASE.device, efficiency=1.5))


@pytest.mark.parametrize("seconds", [-1e-9, math.nan, math.inf])
def test_a_latency_that_is_no_duration_is_refused(seconds: float) -> None:
    with pytest.raises(ScenarioError, match=r"cluster\.inter_hop_s is"):
        replace(BASE, inter=replace(BASE.inter, hop_s=seconds))


def test_a_cluster_is_a_value() -> None:
    assert isinstance(BASE, Cluster)
    assert MACHINES["dgx-h100"].cluster(16, "bfloat16") == BASE
