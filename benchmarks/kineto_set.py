"""Synthetic Kineto files of any size: a ZeRO-3 run of several ranks, in the mix of events of a real one.

`python benchmarks/kineto_set.py DIRECTORY --megabytes 1000 --ranks 8` writes one file a rank.
Mix, layout and lengths follow a torch.compile trace of H100s: 31 % operators with shapes, 19 % calls of
the CUDA runtime, 33 % flows, 15 % kernels, copies and fills, collectives with their metadata.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Final

BASE_NS: Final = 1_759_300_074_000_000_000
LAYERS: Final = 12
KERNELS: Final = 60
"""Kernels a layer and step, forward and backward together."""
HOST: Final = 78
COMPUTE, COMMUNICATION = 7, 20
OPS: Final = (
    ("aten::linear", "[[8, 1024, 768], [768, 768], [768]]"),
    ("aten::addmm", "[[768], [8192, 768], [768, 768], [], []]"),
    ("aten::view", "[[8192, 768], []]"),
    ("autograd::engine::evaluate_function: AddmmBackward0", "[]"),
    ("AddmmBackward0", "[[8, 1024, 768]]"),
    ("aten::empty_strided", "[[], [], [], [], [], []]"),
)
GRID: Final = (
    '     "registers per thread": 96,      "shared memory": 103808,      "blocks per SM": 17.454546,'
    '      "warps per SM": 69.818184,      "grid": [2304, 1, 1],      "block": [128, 1, 1],'
    '      "est. achieved occupancy %": 0'
)
"""What a kernel says of its launch, blanks as the profiler writes them."""
NAMES: Final = (
    "triton_red_fused__to_copy_add_mul_native_layer_norm_backward_sum_7",
    "void at::native::vectorized_elementwise_kernel<8, at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char*, 3ul>)",
    "nvjet_tst_192x192_64x4_1x2_h_bz_coopA_NNT",
)
COLLECTIVES: Final = (
    ("_allgather_base", "AllGather", 589_824, 4_718_592),
    ("_reduce_scatter_base", "ReduceScatter", 4_718_592, 589_824),
)


def write_set(folder: Path, nbytes: int, ranks: int) -> list[Path]:
    """One file a rank in `folder`, `nbytes` together (a step more or less)."""
    folder.mkdir(parents=True, exist_ok=True)
    return [_write(folder / f"rank{r}.json", r, ranks, nbytes // ranks) for r in range(ranks)]


def _write(path: Path, rank: int, ranks: int, nbytes: int) -> Path:
    run, host, device, size = _Run(rank, ranks), [], [], 0
    while size < nbytes:
        calls, work = run.step()
        host += calls
        device += work
        size += sum(map(len, calls)) + sum(map(len, work)) + 2 * (len(calls) + len(work))
    with path.open("w") as file:
        file.write(_header(rank, ranks))
        file.write(",\n".join(host + device + _threads(rank)))
        file.write('\n  ],\n  "traceName": "synthetic.json"\n}\n')
    return path


def _header(rank: int, ranks: int) -> str:
    members = list(range(ranks))
    return f"""{{
  "schemaVersion": 1,
  "deviceProperties": [
    {{"id": {rank}, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85028372480, "numSms": 132}}
  ],
  "distributedInfo": {{"backend": "nccl", "rank": {rank}, "world_size": {ranks}, "pg_count": 1, "pg_config": [{{"pg_name": "0", "pg_desc": "default_pg", "backend_config": "cuda:nccl", "pg_size": {ranks}, "ranks": {members}}}], "nccl_version": "2.28.9"}},
  "record_shapes": 1,
  "displayTimeUnit": "ms",
  "baseTimeNanoseconds": {BASE_NS},
  "traceEvents": [
"""


def _threads(rank: int) -> list[str]:
    names = ((HOST, HOST, "thread 78 (python)"), (rank, COMPUTE, f"stream {COMPUTE}"))
    return [
        f'  {{\n    "name": "thread_name", "ph": "M", "ts": 0.000, "pid": {pid}, "tid": {tid},\n'
        f'    "args": {{\n      "name": "{name}"\n    }}\n  }}'
        for pid, tid, name in names
    ]


class _Run:
    """One rank, step by step. The host issues; streams of compute and communication follow."""

    def __init__(self, rank: int, ranks: int) -> None:
        self.rank, self.ranks = rank, ranks
        self.random = random.Random(rank)  # noqa: S311 - durations, no secrets
        self.now = 6_322_354_000_000.0 + rank
        self.free = {COMPUTE: self.now, COMMUNICATION: self.now}
        self.number, self.steps, self.sequence = 1, 0, 0

    def step(self) -> tuple[list[str], list[str]]:
        """The events of the next step: those of the host, and those tied to the device."""
        began = self.now
        calls: list[str] = []
        work: list[str] = []
        for layer in range(LAYERS):
            for collective in COLLECTIVES:
                for piece in self._collective(layer, *collective):
                    (calls if '"cpu_op"' in piece or "annotation" in piece else work).append(piece)
            for index in range(KERNELS):
                calls += self._ops(index)
                work += self._kernel(NAMES[index % len(NAMES)], index)
        self.now = max(self.now, *self.free.values())
        length = self.now - began
        self.steps += 1
        step = self._slice(
            "user_annotation", f"ProfilerStep#{self.steps}", began, length, self._id()
        )
        return [step, *calls], work

    def _id(self) -> str:
        self.number += 1
        return f'"External id": {self.number},"Record function id": 0, "Ev Idx": {self.number}'

    def _slice(self, category: str, name: str, start: float, length: float, args: str) -> str:
        return self._on(f'"pid": {HOST}, "tid": {HOST}', category, name, start, length, args)

    @staticmethod
    def _on(thread: str, category: str, name: str, start: float, length: float, args: str) -> str:
        return (
            f'  {{\n    "ph": "X", "cat": "{category}", "name": "{name}", {thread},\n'
            f'    "ts": {start:.3f}, "dur": {length:.3f},\n'
            f'    "args": {{\n      {args}\n    }}\n  }}'
        )

    def _ops(self, index: int) -> Iterator[str]:
        n = 3 if index % 3 else 2
        for i in range(n):
            name, dims = OPS[(index + i) % len(OPS)]
            shaped = (
                f'{self._id()}, "Concrete Inputs": ["", "", "", "1", "1"], "Input type": '
                f'["c10::BFloat16", "c10::BFloat16", "c10::BFloat16", "Scalar", "Scalar"], '
                f'"Input Strides": [[1], [768, 1], [1, 768], [], []], "Input Dims": {dims}'
            )
            yield self._slice("cpu_op", name, self.now, 30.0 - 10 * i, shaped)
            self.now += 1.25

    def _launch(self, stream: int, length: float) -> tuple[str, float, list[str]]:
        """The thread of new work on `stream`, its start, and the call and flows that it comes from."""
        self.number += 1
        call = self.now
        self.now += 4.125
        start = max(self.now + 3, self.free[stream])
        self.free[stream] = start + length
        thread = f'"pid": {self.rank}, "tid": {stream}'
        tied = f'"External id": {self.number}, "cbid": 211, "correlation": {self.number}'
        events = [
            self._slice("cuda_runtime", "cudaLaunchKernelExC", call, 4.125, tied),
            self._flow("s", f'"pid": {HOST}, "tid": {HOST}', call, ""),
            self._flow("f", thread, start, ', "bp": "e"'),
        ]
        return thread, start, events

    def _flow(self, phase: str, thread: str, moment: float, more: str) -> str:
        return (
            f'  {{\n    "ph": "{phase}", "id": {self.number}, {thread}, "ts": {moment:.3f},\n'
            f'    "cat": "ac2g", "name": "ac2g"{more}\n  }}'
        )

    def _kernel(self, name: str, index: int) -> list[str]:
        length = self.random.randrange(1000, 90_000) / 1000
        thread, start, events = self._launch(COMPUTE, length)
        if not index % 8:
            args = f'{self._placed(COMPUTE)},      "bytes": 4096, "memory bandwidth (GB/s)": 0.25'
            events.append(self._on(thread, "gpu_memset", "Memset (Device)", start, length, args))
        else:
            args = f"{self._placed(COMPUTE)}, {GRID}"
            events.append(self._on(thread, "kernel", name, start, length, args))
        if index % 2:
            events.append(
                self._slice("cuda_runtime", "cudaStreamIsCapturing", self.now, 0.5, '"cbid": 317')
            )
            events.append(self._flow("f", f'"pid": {HOST}, "tid": {HOST}', self.now, ', "bp": "e"'))
        return events

    def _placed(self, stream: int) -> str:
        return (
            f'"queued": 0, "device": {self.rank}, "context": 2,      "stream": {stream}, '
            f'"correlation": {self.number}'
        )

    def _collective(
        self, layer: int, name: str, kernel: str, given: int, got: int
    ) -> Iterator[str]:
        self.sequence += 1
        facts = (
            f'"Collective name": "{name}", "In msg nelems": {given}, "Out msg nelems": {got}, '
            f'"Group size": {self.ranks}, "dtype": "BFloat16", "In split size": "[]", '
            f'"Out split size": "[]", "Process Group Name": "0", "Process Group Description": '
            f'"default_pg", "Process Group Ranks": "{list(range(self.ranks))}", "Seq": {self.sequence}'
        )
        verb = "all_gather" if kernel == "AllGather" else "post_backward_reduce"
        mark = f"FSDP::{verb} (blocks.{layer})"
        yield self._slice("user_annotation", mark, self.now, 60, self._id())
        self.now += 5
        yield self._slice("cpu_op", "record_param_comms", self.now, 40, f"{self._id()}, {facts}")
        self.now += 5
        yield self._slice("user_annotation", f"nccl:{name}", self.now, 30, self._id())
        self.now += 5
        thread, start, events = self._launch(COMMUNICATION, 441.631)
        yield from events
        args = f"{self._placed(COMMUNICATION)}, {GRID}, {facts}"
        full = f"ncclDevKernel_{kernel}_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
        yield self._on(thread, "kernel", full, start, 441.631, args)
        self.now += 50


def main() -> None:
    """Write a set and say how big it became."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--megabytes", type=int, default=160)
    parser.add_argument("--ranks", type=int, default=8)
    asked = parser.parse_args()
    files = write_set(asked.folder, asked.megabytes * 10**6, asked.ranks)
    print(f"{len(files)} files, {sum(f.stat().st_size for f in files) / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
