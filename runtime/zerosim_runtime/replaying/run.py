"""A stored run, replayed by this rank on the process group that there is."""

from __future__ import annotations

from pathlib import Path

import torch.distributed as dist

from zerosim.errors import RuntimeFailedError
from zerosim.replay import replay_of
from zerosim.store import load_run
from zerosim_runtime.clock import one_clock
from zerosim_runtime.rank import note_offsets
from zerosim_runtime.recorder import Recorder
from zerosim_runtime.replaying.ranks import carry_out
from zerosim_runtime.replaying.traffic import traffic_of


def replay_run(run: Path, recorder: Recorder, backend: str, timeout_s: float) -> None:
    """Issue the collectives of the run at `run` with the ranks of the default group.

    Raises RuntimeFailedError if there are more or fewer of them than the run has, PeerLostError.
    """
    replay = replay_of(load_run(run))
    rank, n_ranks = dist.get_rank(), dist.get_world_size()
    if n_ranks != replay.plan.world_size:
        raise RuntimeFailedError(
            f"the run has {replay.plan.world_size} ranks, here are {n_ranks}: start as many"
        )
    traffic = traffic_of(replay, rank, backend, recorder.memory.device, timeout_s)
    shared = one_clock()
    note_offsets(recorder, shared=shared)
    dist.barrier()
    carry_out(replay, rank, traffic, recorder)
    recorder.flush()
    note_offsets(recorder, shared=shared)
    recorder.close("finished")
