"""Runs FSDP2 cases on fake ranks under torch's FSDPMemTracker; prints its snapshots as JSON.

By case, then `layer state` (`3 After Post-Backward`): bytes by the tracker's own kinds.
"""

from __future__ import annotations

import sys
import warnings
from dataclasses import replace
from typing import Any

import orjson
import torch
import torch.distributed as dist
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.fsdp2_mem_tracker import FSDPMemTracker
from torch.testing._internal.distributed.fake_pg import FakeStore

from zerosim.scenario import workload_of
from zerosim_runtime.equality.case import Case, scenario_of
from zerosim_runtime.equality.fsdp2 import CASES, mesh_of, options_of, train, wrapped
from zerosim_runtime.equality.watch import Record


def tracked(case: Case) -> dict[str, dict[str, int]]:
    # The tracker wants one step.
    case = replace(case, scenario=case.scenario | {"run": {"steps": 1}})
    scenario, options, record = scenario_of(case), options_of(case), Record()
    mesh = mesh_of(options, case.world_size)
    with FakeTensorMode():
        model = wrapped(case, mesh, record)
        tracker = FSDPMemTracker(model)  # type: ignore[arg-type] # an FSDPModule is an nn.Module too
        with tracker:
            train(model, scenario, options, record, 0)
    # The tracker puts the class of the root before its layers: FSDPModel.layers.3.
    names = {f"layers.{i}": layer.name for i, layer in enumerate(workload_of(scenario).layers)}
    found: dict[str, dict[str, int]] = {}
    for stats in tracker.memory_tracking.values():
        layer = names.get(stats.mod_fqn.partition(".")[2], "root")
        for state, snapshots in stats.snapshots.items():
            by_kind: dict[Any, int] = snapshots[-1][torch.device("cpu")]
            found[f"{layer} {state.value}"] = {
                str(getattr(kind, "value", kind)): nbytes for kind, nbytes in by_kind.items()
            }
    return found


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    written = {}
    for chosen in CASES:
        if chosen.name in sys.argv[1:]:
            dist.init_process_group("fake", rank=0, world_size=chosen.world_size, store=FakeStore())
            written[chosen.name] = tracked(chosen)
            dist.destroy_process_group()
    sys.stdout.buffer.write(orjson.dumps(written))
