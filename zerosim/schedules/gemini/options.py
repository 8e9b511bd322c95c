"""The arguments of ColossalAI's Gemini (GeminiDDP, GeminiPlugin) that change what it sends, and when."""

from __future__ import annotations

from dataclasses import dataclass

from zerosim.errors import ScenarioError
from zerosim.schedules.knobs import knob


@dataclass(frozen=True, slots=True)
class GeminiOptions:
    """Arguments of GeminiDDP, with its defaults; `chunk_size` is that of `chunk_config_dict`."""

    placement_policy: str = knob(
        "static",
        "which chunks stay; auto goes by measured memory and is not modelled",
        choices=("static",),
    )
    chunk_size: int | None = knob(
        None, "elements of a chunk; none: searched for", "elements", tries=(1, 60, 700)
    )
    min_chunk_size_m: float = knob(
        32.0,
        "where the search begins; a model smaller than this is one chunk that stays gathered",
        "Mi elements",
        tries=(0.0, 0.0005),
    )
    search_range_m: int = knob(
        32, "how much larger than the smallest size the search looks", "Mi elements", tries=(0, 1)
    )
    hidden_dim: int | None = knob(
        None, "the search tries every multiple of this; none: 1024", "elements", tries=(64,)
    )
    shard_param_frac: float = knob(
        1.0,
        "the share of parameters that may be given up again; 0 keeps what was gathered",
        tries=(0.0, 0.5),
    )
    max_prefetch: int = knob(
        0,
        "how many chunks are gathered ahead, once a backward has shown the order",
        "chunks",
        tries=(1, 3),
        hides=True,
    )
    enable_gradient_accumulation: bool = knob(
        False, "gradients have chunks of their own; several micro-batches turn it on"
    )
    enable_async_reduce: bool = knob(
        True, "reduce on a stream of its own; the host waits for it after the backward"
    )
    max_norm: float = knob(0.0, "largest gradient norm; 0: no norm is taken", tries=(1.0,))

    def __post_init__(self) -> None:
        """Refuse what the engine refuses, and the policy that goes by measured memory."""
        if self.placement_policy != "static":
            raise ScenarioError(
                f"schedule.placement_policy is '{self.placement_policy}': Gemini knows static and "
                "auto, and auto goes by the memory it measures, which is not modelled; give static"
            )
        if not 0 <= self.shard_param_frac <= 1:
            raise ScenarioError(
                f"schedule.shard_param_frac is {self.shard_param_frac}: give a share from 0 to 1"
            )
        for name in ("chunk_size", "hidden_dim"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise ScenarioError(f"schedule.{name} is {getattr(self, name)}: give at least 1")
        for name in ("min_chunk_size_m", "search_range_m", "max_prefetch", "max_norm"):
            if getattr(self, name) < 0:
                raise ScenarioError(f"schedule.{name} is {getattr(self, name)}: give 0 or more")
