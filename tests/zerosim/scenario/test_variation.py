"""What differs between ranks, as a scenario says it: what names nothing, or makes no sense, is one sentence."""

from __future__ import annotations

import pytest

from zerosim.errors import ScenarioError
from zerosim.scenario import load_scenario, run, variation_of


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("stragglers=²:1.5", "run.stragglers has '²:1.5': write RANK:FACTOR, e.g. 3:1.3"),
        ("network_jitter=-1", "run.network_jitter is -1.0: give a share from 0 to 1"),
        ("slow_links=node", "run.slow_links has 'node': write nodeNODE:SHARE or RANK:SHARE"),
        ("slow_links=3:0.5", "run.slow_links names rank 3: ranks are 0 to 2"),
        ("slow_links=node0:0.5", "run.slow_links names node 0, but all ranks are on one node"),
        ("slow_links=1:2", "run.slow_links has share 2.0: give what a link has left of its rate"),
        ("slow_links=1:0", "run.slow_links has share 0.0: give what a link has left of its rate"),
        ("slow_links=1:nan", "run.slow_links has share nan: give what a link has left"),
        ("overlap_tax=1", "cluster.overlap_tax is 1.0: give a share from 0, below 1"),
        ("sm_contention=true", "cluster.sm_contention is true, but nobody knows how many SMs"),
        ("link_sharing=perhaps", "cluster.link_sharing is 'perhaps': give true or false"),
    ],
)
def test_a_difference_that_makes_no_sense_is_one_sentence_with_a_remedy(
    word: str, sentence: str
) -> None:
    with pytest.raises(ScenarioError) as error:
        run(load_scenario("lesson-zero3", [word]))
    assert str(error.value).startswith(sentence)
    assert "\n" not in str(error.value)


def test_a_rank_alone_on_its_node_has_no_link_inside_it() -> None:
    alone = load_scenario("lesson-zero3", ["ranks_per_node=1", "slow_links=1:0.5"])
    with pytest.raises(
        ScenarioError, match=r"rank 1, which is alone on its node: write node1:SHARE"
    ):
        variation_of(alone)
    far = load_scenario("lesson-zero3", ["ranks_per_node=1", "slow_links=node3:0.5"])
    with pytest.raises(ScenarioError, match=r"slow_links names node 3: nodes are 0 to 2"):
        variation_of(far)
