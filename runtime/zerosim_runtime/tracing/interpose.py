"""Seeing every collective of a program: a kernel of our own before each c10d op's.

# Note [Before the backend]
All of torch.distributed ends in the ops of `c10d`: the Python functions, functional collectives, the
reducer of DDP, FSDP, compiled graphs. A kernel at the dispatch key BackendSelect runs right before
CPU's or CUDA's and hands on the very same arguments, so that nothing of a call changes: reduce ops,
timeouts, the Work, its errors. Modes (FakeTensorMode, CommDebugMode) come earlier and see what they saw.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch

from zerosim_runtime.tracing.asked import OPS, Arguments

Proceed = Callable[[], Any]
Watch = Callable[[str, Arguments, Proceed], Any]
"""Gets the op, its arguments and what carries it out; returns what that returned."""

_KEY: Final[Any] = torch._C.DispatchKey.BackendSelect  # noqa: SLF001 - torch has no public way


def interpose(watch: Watch) -> Callable[[], None]:
    """From now on, `watch` sees each c10d op of this process. Returns what ends that."""
    library = torch.library.Library("c10d", "IMPL")
    for op in OPS:
        library.impl(op, _kernel(op, watch), "BackendSelect", with_keyset=True)
    return library._destroy  # noqa: SLF001 - torch has no public way


def _kernel(name: str, watch: Watch) -> Callable[..., Any]:
    op = getattr(torch.ops.c10d, name).default
    after = torch._C._dispatch_keyset_full_after(_KEY)  # noqa: SLF001 - torch has no public way

    def kernel(keys: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - any op's
        return watch(name, args, lambda: op.redispatch(keys & after, *args, **kwargs))

    return kernel
