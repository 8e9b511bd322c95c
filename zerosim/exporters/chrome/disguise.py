"""What a real profiler would have called a span: kernel names, categories, metadata of collectives."""

from __future__ import annotations

from typing import Any, Final

from zerosim.kinds import COMMUNICATION, GATHERED, HOST_SIDE, MEMORY, Kind
from zerosim.trace import Group

_KERNELS: Final = {
    Kind.ALL_GATHER: "AllGather",
    Kind.REDUCE_SCATTER: "ReduceScatter",
    Kind.ALL_REDUCE: "AllReduce",
    Kind.REDUCE: "Reduce",
    Kind.BROADCAST: "Broadcast",
    Kind.GATHER: "Gather",
    Kind.SCATTER: "Scatter",
    Kind.ALL_TO_ALL: "AllToAll",
    Kind.P2P: "SendRecv",
    Kind.BARRIER: "Barrier",
    Kind.COLLECTIVE: "Generic",
}
_CALLS: Final = {
    Kind.ALL_GATHER: "_allgather_base",
    Kind.REDUCE_SCATTER: "_reduce_scatter_base",
    Kind.ALL_REDUCE: "allreduce",
    Kind.REDUCE: "reduce",
    Kind.BROADCAST: "broadcast",
    Kind.GATHER: "gather",
    Kind.SCATTER: "scatter",
    Kind.ALL_TO_ALL: "all_to_all",
    Kind.P2P: "send",
    Kind.BARRIER: "barrier",
}
_DTYPES: Final = {
    "float32": "Float",
    "bfloat16": "BFloat16",
    "float16": "Half",
    "float64": "Double",
    "int64": "Long",
    "int32": "Int",
    "int16": "Short",
    "int8": "Char",
    "uint8": "Byte",
    "bool": "Bool",
}
_LISTED_RANKS: Final = 30
"""The profiler cuts lists of ranks after so many."""
_MEMORY_NAMES: Final = ("Memcpy", "Memset")


def category(kind: Kind, name: str) -> str:
    """The `cat` of an event: what decides for its readers whether it is work of the GPU."""
    if kind in HOST_SIDE:
        return "cuda_sync" if kind is Kind.WAIT else "cpu_op"
    if kind in MEMORY:
        return "gpu_memset" if name.startswith("Memset") else "gpu_memcpy"
    return "kernel"


def shown_name(kind: Kind, name: str) -> str:
    """The name by which readers tell communication from computation; ours stands in brackets."""
    if kind in COMMUNICATION and not (name.startswith("nccl") and "Kernel" in name):
        return f"ncclDevKernel_{_KERNELS[kind]}({name})"
    if kind in MEMORY and not name.startswith(_MEMORY_NAMES):
        return f"Memcpy DtoD ({name})"
    return name


def metadata(kind: Kind, row: dict[str, Any], group: Group | None) -> dict[str, Any]:
    """The arguments that tell of a collective; empty for any other span, and what is unknown absent."""
    if kind not in _CALLS:
        return {}
    told = {
        "Collective name": _CALLS[kind],
        **_sizes(kind, row["elements"], group),
        "dtype": _DTYPES.get(row["dtype"], row["dtype"]),
        "Process Group Name": row["group"],
        "Process Group Description": row["group"],
        "Group size": group.size if group else None,
        "Process Group Ranks": _listed(group),
        "Seq": row["collective"],
    }
    return {key: value for key, value in told.items() if value is not None}


def _sizes(kind: Kind, elements: int | None, group: Group | None) -> dict[str, int]:
    if elements is None:
        return {}
    full, part = elements, elements // group.size if group and group.size else None
    given = part if kind in GATHERED else full
    received = part if kind in (Kind.REDUCE_SCATTER, Kind.SCATTER) else full
    sizes = {"In msg nelems": given, "Out msg nelems": received}
    return {key: size for key, size in sizes.items() if size is not None}


def _listed(group: Group | None) -> str | None:
    if group is None or group.ranks is None:
        return None
    shown = ", ".join(map(str, group.ranks[:_LISTED_RANKS]))
    return f"[{shown}, ...]" if len(group.ranks) > _LISTED_RANKS else f"[{shown}]"
