"""The families of engines that are compared: one line each; their modules are loaded when asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from zerosim.registry import Registry
from zerosim_runtime.equality.case import Case
from zerosim_runtime.equality.recording import Replay
from zerosim_runtime.equality.seen import Seen

FAMILIES: Final = Registry(
    "family",
    {
        "colossalai": "zerosim_runtime.equality.colossalai",
        "colossalai-old": "zerosim_runtime.equality.colossalai_old",
        "ddp": "zerosim_runtime.equality.ddp",
        "deepspeed": "zerosim_runtime.equality.deepspeed",
        "fsdp1": "zerosim_runtime.equality.fsdp1",
        "fsdp2": "zerosim_runtime.equality.fsdp2",
        "megatron": "zerosim_runtime.equality.megatron",
        "zero-redundancy": "zerosim_runtime.equality.zero_redundancy",
    },
)


@dataclass(frozen=True, slots=True)
class Family:
    """Its cases, what a rank is seen to do in one, and the distributions it takes.

    With a `replay`, what was seen is written down and compared from there.
    """

    name: str
    cases: tuple[Case, ...]
    observe: Callable[[Case, int], list[Seen]]
    needs: tuple[str, ...]
    replay: Replay | None = None


def family_of(name: str) -> Family:
    """A family by name. Raises UnknownNameError."""
    module = import_module(FAMILIES[name])
    return Family(name, module.CASES, module.observe, module.NEEDS, vars(module).get("REPLAY"))


def versions_of(family: Family) -> dict[str, str | None]:
    """The installed versions of what a family takes; None: not installed."""
    return {name: _version(name) for name in family.needs}


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
