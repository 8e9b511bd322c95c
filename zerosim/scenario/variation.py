"""What a scenario says differs between ranks: stragglers, slow links, jitter."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from zerosim.cluster import Cluster
from zerosim.engine import Variation
from zerosim.errors import ScenarioError
from zerosim.scenario.sections import RunSection

MAX_STRETCH: Final = 100
"""A rank a hundred times slower is no straggler but broken, and so is a link."""


def variation_between(section: RunSection, cluster: Cluster) -> Variation:
    """What differs between the ranks of `cluster`. Raises ScenarioError for what does not exist."""
    return Variation(
        speed=_stragglers(section.stragglers, cluster.world_size),
        jitter=section.jitter,
        seed=section.seed,
        slow=_slow_links(section.slow_links or "", cluster),
        network_jitter=section.network_jitter or 0.0,
    )


def _stragglers(text: str, world_size: int) -> tuple[tuple[int, float], ...]:
    found: list[tuple[int, float]] = []
    for _, rank, factor in _parts("stragglers", text, "RANK:FACTOR, e.g. 3:1.3"):
        _check_rank("stragglers", rank, world_size)
        if not 0 < factor <= MAX_STRETCH:
            raise ScenarioError(
                f"run.stragglers has factor {factor}: give a number above 0, at most {MAX_STRETCH}"
            )
        found.append((rank, factor))
    return tuple(sorted(found))


def _slow_links(text: str, cluster: Cluster) -> tuple[tuple[str, int, float], ...]:
    found: list[tuple[str, int, float]] = []
    form = "nodeNODE:SHARE or RANK:SHARE, e.g. node3:0.5"
    for what, number, share in _parts("slow_links", text, form, ("node", "rank")):
        if not 1 / MAX_STRETCH <= share <= 1:
            raise ScenarioError(
                f"run.slow_links has share {share}: give what a link has left of its rate, "
                f"{1 / MAX_STRETCH} to 1"
            )
        if what == "node":
            found += [(cluster.inter.name, rank, share) for rank in _ranks_of(number, cluster)]
        else:
            found.append((cluster.intra.name, _inside(number, cluster), share))
    return tuple(sorted(found))


def _ranks_of(node: int, cluster: Cluster) -> range:
    """The ranks behind the network cards of a node."""
    if cluster.n_nodes == 1:
        raise ScenarioError(
            f"run.slow_links names node {node}, but all ranks are on one node, which uses no network: "
            "name a rank, e.g. 0:0.5"
        )
    if not 0 <= node < cluster.n_nodes:
        raise ScenarioError(
            f"run.slow_links names node {node}: nodes are 0 to {cluster.n_nodes - 1}"
        )
    first = node * cluster.ranks_per_node
    return range(first, min(first + cluster.ranks_per_node, cluster.world_size))


def _inside(rank: int, cluster: Cluster) -> int:
    """A rank that has a link inside its node."""
    _check_rank("slow_links", rank, cluster.world_size)
    if cluster.ranks_per_node == 1:
        raise ScenarioError(
            f"run.slow_links names rank {rank}, which is alone on its node: write node{rank}:SHARE"
        )
    return rank


def _check_rank(field: str, rank: int, world_size: int) -> None:
    if not 0 <= rank < world_size:
        raise ScenarioError(f"run.{field} names rank {rank}: ranks are 0 to {world_size - 1}")


def _parts(
    field: str, text: str, form: str, words: tuple[str, ...] = ("",)
) -> Iterator[tuple[str, int, float]]:
    """`WORD NUMBER:FACTOR,…` part by part; the word is empty where there is none."""
    for part in filter(None, text.replace(" ", "").split(",")):
        name, _, factor = part.partition(":")
        word = next((word for word in words if name.startswith(word)), "")
        try:
            yield word, int(name.removeprefix(word)), float(factor)
        except ValueError:
            raise ScenarioError(f"run.{field} has '{part}': write {form}") from None
