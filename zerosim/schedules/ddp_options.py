"""The arguments of torch's DistributedDataParallel, and the bucket limits they come to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from zerosim.errors import ScenarioError
from zerosim.schedules import reducer
from zerosim.schedules.knobs import knob

_MB: Final = 2**20
_MAX_CAP_MB: Final = 2**43
"""Bytes of 64 bits, as torch's reducer has them."""


@dataclass(frozen=True, slots=True)
class DdpOptions:
    """The arguments of torch's DistributedDataParallel; `no_sync` and `bucket_bytes` are ours."""

    bucket_cap_mb: float | None = knob(
        None,
        "a bucket closes when it reaches or passes this; none: 25, and 1 for the first one",
        "MiB",
        tries=(0.0001, 0.001, 1.0),
        hides=True,
    )
    bucket_cap_mb_list: str | None = knob(
        None,
        "one cap a bucket, the last for all that follow, from step 1 on (`1,25`)",
        "MiB",
        tries=("0.0001", "0.0001,0.001"),
    )
    bucket_bytes: int | None = knob(
        None,
        "one cap for every bucket from step 1 on, as bucket_cap_mb_list, in bytes",
        "bytes",
        tries=(1, 200, 2000),
    )
    find_unused_parameters: bool = knob(
        False,
        "search the graph for unused parameters: buckets stay as defined, a map of use is reduced",
    )
    static_graph: bool = knob(
        False, "the graph never changes: buckets are made anew one reduction later"
    )
    gradient_as_bucket_view: bool = knob(
        False, "gradients are views of their buckets: no second copy in memory"
    )
    no_sync: bool = knob(True, "micro-batches before the last only add up; else each one reduces")

    def __post_init__(self) -> None:
        """Refuse caps that torch cannot use, and two ways to give them."""
        given = [n for n in ("bucket_cap_mb_list", "bucket_bytes") if getattr(self, n) is not None]
        if len(given) > 1 or (self.bucket_bytes is not None and self.bucket_cap_mb is not None):
            other = given[0] if len(given) > 1 else "bucket_cap_mb"
            raise ScenarioError(f"schedule.bucket_bytes and {other} are both given: give one")
        if self.bucket_bytes is not None and self.bucket_bytes < 1:
            raise ScenarioError(f"schedule.bucket_bytes is {self.bucket_bytes}: give at least 1")
        for cap in (self.bucket_cap_mb or 0, *self.caps_mb):
            if not 0 <= cap < _MAX_CAP_MB:
                raise ScenarioError(
                    f"a bucket cap of {cap:g} MiB: torch's reducer takes sizes of 0 or more, in 64 bits"
                )

    @property
    def caps_mb(self) -> tuple[float, ...]:
        """The caps of the list. Raises ScenarioError for one that is no number."""
        if self.bucket_cap_mb_list is None:
            return ()
        try:
            return tuple(float(cap) for cap in self.bucket_cap_mb_list.split(","))
        except ValueError:
            raise ScenarioError(
                f"schedule.bucket_cap_mb_list is '{self.bucket_cap_mb_list}': "
                "give numbers of MiB with commas between them, e.g. 1,25"
            ) from None

    @property
    def limits(self) -> reducer.Limits:
        """When buckets close, in bytes (torch's _BucketCapacityConfig)."""
        listed = tuple(int(cap * _MB) for cap in self.caps_mb)
        if self.bucket_bytes is not None:
            listed = (self.bucket_bytes,)
        if listed:
            return reducer.Limits(listed, listed)
        cap = self.bucket_cap_mb
        first = reducer.FIRST_BUCKET_BYTES if cap is None else int(cap * _MB)
        every = int((reducer.DEFAULT_CAP_MB if cap is None else cap) * _MB)
        rebuilt = (first, every)
        one_bucket = self.static_graph or not self.find_unused_parameters
        return reducer.Limits((None,) if one_bucket else rebuilt, rebuilt)

    @property
    def rebuilds_after(self) -> int | None:
        """After how many reductions buckets are made anew; None: never."""
        if self.static_graph:
            return 2
        return None if self.find_unused_parameters else 1
