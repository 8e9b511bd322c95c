"""What the sources of memory rows say beyond the columns: their scripts' options, and slips of the table.

Every entry is about a source, or the runs of one engine in it, and has the place where it is said.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from zerosim.validation.cells import Cells, Default


@dataclass(frozen=True, slots=True)
class Said:
    """Of the rows of a source with all `words` in their columns: cells that are otherwise, and options.

    `cells` replace the row's, `times` multiplies what was measured; `schedule`, `numerics` and
    `workload` are fields of the scenario. `where` it is said.
    """

    source_id: str
    where: str
    words: tuple[tuple[str, str], ...] = ()
    cells: Mapping[str, str] = field(default_factory=dict)
    times: float = 1.0
    schedule: Mapping[str, Any] = field(default_factory=dict)
    numerics: Mapping[str, Any] = field(default_factory=dict)
    workload: Mapping[str, Any] = field(default_factory=dict)

    def of(self, cells: Cells) -> bool:
        """Whether the row is one of them."""
        own = all(word in (cells.text(column) or "") for column, word in self.words)
        return cells.text("source_id") == self.source_id and own


_MINI: Final = "canghaiX/MiniTrainBench@c7eb2e7:src/minitrainbench"
_TITAN: Final = "pytorch/torchtitan pull request 165, its description"
_DS_OPTIONS: Final = {"reduce_bucket_size": 500_000_000, "overlap_comm": True}
SAID: Final = (
    Said(
        "minitrainbench",
        f"{_MINI}/deepspeed_benchmark.py",
        (("framework", "DeepSpeed"),),
        schedule=_DS_OPTIONS,
        numerics={"foreach": True},
    ),
    Said(
        "minitrainbench",
        f"{_MINI}/deepspeed_benchmark.py",
        (("sharding", "zero3"),),
        schedule={
            "stage3_prefetch_bucket_size": 50_000_000,
            "stage3_param_persistence_threshold": 100_000,
        },
    ),
    Said(
        "minitrainbench",
        f"{_MINI}/strategy.py",
        (("framework", "FSDP1"),),
        schedule={"use_orig_params": True},
    ),
    Said(
        "minitrainbench",
        f"{_MINI}/strategy.py: one rank is not wrapped",
        (("sharding", "ddp"), ("n_gpus", "1")),
        schedule={"gradient_as_bucket_view": True},
    ),
    Said(
        "torchtitan-pr165",
        "pytorch/torchtitan@010d71a:torchtrain/models/llama/model.py: output(h).float()",
        workload={"loss": "upcast"},
    ),
    Said(
        "torchtitan-h100",
        "pytorch/torchtitan pull request 755, a week before the runs: the loss is not compiled",
        workload={"loss": "eager"},
    ),
    Said(
        "torchtitan-pr165",
        f"{_TITAN}: percent of 95.0396 GiB",
        (("compile", "no"),),
        times=0.950396,
    ),
    Said(
        "torchtitan-pr165",
        f"{_TITAN}: peak reserved",
        (("compile", "yes"),),
        cells={"mem_kind": "peak reserved"},
    ),
    Said(
        "deepspeed-estimator",
        "deepspeedai/DeepSpeed@edaa722:docs/code-docs/source/memory.rst: 32M largest layer params",
        (("model_id", "t5-3b"),),
        cells={"largest_layer": "32000000"},
    ),
    Said(
        "torchtitan-h100",
        "pytorch/torchtitan@b5bcd76:benchmarks/llama3_h100_202412_torchtitan.md: Table 2 is FSDP and "
        "context parallel, of 2, 4 and 8",
        (("locator", "Table 2"),),
        cells={"cp": "2"},
    ),
    Said(
        "bigscience-1b3",
        "bigscience-workshop/bigscience@08f504f:train/tr3-1B3-baseline/"
        "tr3m-1B3-emb-norm-pile.slurm: ZERO_STAGE=1",
        cells={"zero_stage": "1", "framework": "DeepSpeed ZeRO", "shard_group": "8"},
    ),
)


@dataclass(frozen=True, slots=True)
class Corrected:
    """A row as its source has it, the scenario's fields that the source names, and what changed."""

    cells: Cells
    schedule: dict[str, Any]
    numerics: dict[str, Any]
    workload: dict[str, Any]
    notes: tuple[Default, ...]


def corrected(cells: Cells) -> Corrected:
    """What the source of a row says beyond it; a row marked `corrected` has its cells as they are."""
    schedule: dict[str, Any] = {}
    numerics: dict[str, Any] = {}
    workload: dict[str, Any] = {}
    notes: list[Default] = []
    for said in (said for said in SAID if said.of(cells)):
        as_it_is = cells.text("corrected") == "yes"
        changes = {} if as_it_is else dict(said.cells)
        measured = cells.positive("mem_gib")
        if said.times != 1 and measured is not None and not as_it_is:
            changes["mem_gib"] = f"{measured * said.times:.4f}"
        cells = replace(cells, filled={**cells.filled, **changes})
        schedule |= said.schedule
        numerics |= said.numerics
        workload |= said.workload
        every = {**changes, **said.schedule, **said.numerics, **said.workload}
        notes += [Default(name, str(value), said.where) for name, value in every.items()]
    return Corrected(cells, schedule, numerics, workload, tuple(notes))
