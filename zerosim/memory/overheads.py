"""What a process takes of a device beside its tensors: the CUDA context, cuBLAS's scratch, NCCL's buffers."""

from __future__ import annotations

from typing import Final

from zerosim.memory.residual import NCCL_BUFFER_BYTES

CONTEXT_BYTES: Final = 1113 * 2**20
"""Kernels and the context of one torch process, by nvidia-smi. Measured on V100s of 16 and 32 GB
(bigscience-workshop/bigscience @1dee360, experiments/tr3m-1B3.md, "calibration"), assumed of others."""
NCCL_CHANNELS: Final = 24
"""As many as NCCL opens at most between the GPUs of a node."""
USABLE: Final = 0.99
"""Of a device's nominal GiB, what CUDA says there is: 95.04 of 96 GiB (pytorch/torchtitan pull request 165),
79.3 of 80, 39.6 of 40."""
_HANDLES: Final = 2
"""The forward's thread and the backward's have a cuBLAS handle each."""
_LARGE: Final = ("h100", "h200", "gh200", "h800")


def cublas_bytes(device: str) -> int:
    """What torch allocates for cuBLAS on a device of this name, for both threads.

    32 MiB a handle on Hopper, 8.125 MiB elsewhere (aten/src/ATen/cuda/CublasHandlePool.cpp, torch 2.13).
    """
    named = device.lower()
    each = 32 * 2**20 if any(word in named for word in _LARGE) else 2 * 4 * 2**20 + 2**17
    return _HANDLES * each


def nccl_bytes(n_communicators: int) -> int:
    """Buffers of so many communicators: every channel has one for the next rank of its ring."""
    return n_communicators * NCCL_CHANNELS * NCCL_BUFFER_BYTES
