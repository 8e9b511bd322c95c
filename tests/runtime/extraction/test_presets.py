"""Presets say of a GPT what an extraction counts: what its layers keep, and what lives only while they run."""

from __future__ import annotations

import pytest

from zerosim.memory.footprint import heaviest
from zerosim.models import Sizes, Use, extracted, transformer
from zerosim.scenario import Scenario, load_scenario, plan_of
from zerosim.workload import Layer, Workload
from zerosim_runtime.extract import extract

TOKENS = 2 * 1024
WIDTH, VOCAB = 768, 50257


def preset(checkpointing: str = "none") -> Workload:
    return transformer(
        Sizes(
            layers=12,
            hidden=WIDTH,
            heads=12,
            kv_heads=12,
            ffn=4 * WIDTH,
            vocab=VOCAB,
            seq=1024,
            micro_batch=2,
            micro_batches=1,
            llama=False,
            tied=True,
            checkpointing=checkpointing,
        )
    )


@pytest.fixture(scope="module")
def record() -> dict[str, object]:
    found: dict[str, object] = extract("zerosim_runtime.examples_models:gpt2")["workload"]
    return found


def model(record: dict[str, object], checkpointing: str = "none") -> Workload:
    return extracted(record, Use(2, 1, 2, checkpointing, "eager"))


def scratch(layer: Layer) -> tuple[int, int, int, int]:
    return (
        layer.forward_workspace,
        layer.recompute_workspace,
        layer.backward_workspace,
        layer.gone_early,
    )


@pytest.mark.parametrize("checkpointing", ["none", "full"])
def test_what_lives_only_while_a_block_runs_is_what_is_extracted(
    record: dict[str, object], checkpointing: str
) -> None:
    mine, counted = preset(checkpointing).layers[1], model(record, checkpointing).layers[1]
    assert scratch(mine) == scratch(counted)
    # The last two sums; of the block's gradients the last product's alone is there.
    absent = 8 * WIDTH**2 + 12 * WIDTH
    forward = 13 if checkpointing == "full" else 2
    again = 2 if checkpointing == "full" else 0
    assert scratch(mine) == (
        forward * TOKENS * WIDTH,
        again * TOKENS * WIDTH,
        5 * TOKENS * WIDTH - absent,
        0,
    )


def test_a_block_keeps_the_masks_of_two_dropouts_beside_what_is_extracted(
    record: dict[str, object],
) -> None:
    mine, counted = preset().layers[1], model(record).layers[1]
    # Statistics of norms and attention's sums of exponents are not in the formula.
    masks = mine.activations - counted.activations
    assert masks == pytest.approx(TOKENS * WIDTH, rel=0.05)


def test_the_root_s_layers_are_what_is_extracted(record: dict[str, object]) -> None:
    mine, counted = preset().layers, model(record).layers
    assert scratch(mine[-1]) == scratch(counted[-1]) == (0, 0, TOKENS * WIDTH, 0)
    assert mine[-1].logits == counted[-1].logits == TOKENS * VOCAB
    assert mine[0].forward_workspace == counted[0].forward_workspace == 2 * TOKENS * WIDTH
    # Schedules know how their engine adds up the table's two gradients; an extraction counts both.
    assert mine[0].backward_workspace == 0
    assert counted[0].backward_workspace == pytest.approx(2 * VOCAB * WIDTH, rel=1e-3)


@pytest.mark.parametrize("schedule", ["fsdp2", "ddp"])
@pytest.mark.parametrize("checkpointing", ["none", "full"])
def test_a_preset_and_its_extraction_hold_the_same_within_a_percent(
    record: dict[str, object], schedule: str, checkpointing: str
) -> None:
    words = [f"schedule={schedule}", f"checkpointing={checkpointing}", "micro_batch=2"]
    words += ["world_size=8", "convention=fsdp2-mixed"] if schedule == "fsdp2" else ["world_size=8"]
    sizes = ["layers=12", f"hidden={WIDTH}", "heads=12", "seq=1024"]
    mine = heaviest(plan_of(load_scenario("gpt2-1.5b", [*sizes, *words])))
    told = load_scenario("gpt2-1.5b", [*sizes, *words]).to_dict()
    told["workload"] = {
        "model": "extracted",
        "record": record,
        "micro_batch": 2,
        "checkpointing": checkpointing,
    }
    counted = heaviest(plan_of(Scenario.from_dict(told)))
    masks = 12 * TOKENS * WIDTH * 2 if checkpointing == "none" else 0
    assert mine.peak_bytes - masks == pytest.approx(counted.peak_bytes, rel=0.01)
