"""What a rank holds: every tensor by its plan's key, and a ledger of when each came and went."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from zerosim.errors import RuntimeFailedError
from zerosim.plan import Allocation
from zerosim_runtime.records import Change
from zerosim_runtime.resident import RSS, resident_bytes


@dataclass(slots=True)
class Memory:
    """The live tensors by key, and the changes since the last time they were taken away.

    `live` bytes are booked now, `peak` is the most there ever were.

    With `poison`, new floating-point memory is NaN until it is filled, so that a use before the
    gather that should fill it shows. `resident`: how much of this process was when it was looked at
    last, None: nobody looks.
    """

    device: torch.device
    poison: bool = False
    now: Callable[[], int] = field(default=time.perf_counter_ns, repr=False)
    tensors: dict[str, torch.Tensor] = field(default_factory=dict, repr=False)
    booked: dict[str, tuple[str, int]] = field(default_factory=dict, repr=False)
    changes: list[Change] = field(default_factory=list, repr=False)
    live: int = 0
    peak: int = 0
    resident: int | None = None

    def by_kind(self) -> dict[str, int]:
        """Bytes that are booked now, by kind."""
        totals: dict[str, int] = {}
        for kind, nbytes in self.booked.values():
            totals[kind] = totals.get(kind, 0) + nbytes
        return totals

    def look(self) -> None:
        """Note how much of this process is resident, if that was asked for."""
        if self.resident is not None:
            before, self.resident = self.resident, resident_bytes()
            self.changes.append(Change(self.now(), RSS, self.resident - before))

    def new(
        self, allocation: Allocation, elements: int, dtype: torch.dtype, *, zero: bool = False
    ) -> torch.Tensor:
        """A flat tensor of `elements`, held until its key is dropped."""
        make = torch.zeros if zero else torch.empty
        tensor = make(elements, dtype=dtype, device=self.device)
        if self.poison and not zero and dtype.is_floating_point:
            tensor.fill_(float("nan"))
        self.hold(allocation, tensor, tensor.untyped_storage().nbytes())
        return tensor

    def refill(self, allocation: Allocation, tensor: torch.Tensor) -> None:
        """Give an emptied tensor its storage back; views of it come back to life with it.

        The storage is resized, never replaced: autograd keeps views of it (a transposed weight).
        """
        storage = tensor.untyped_storage()
        storage.resize_(tensor.numel() * tensor.element_size())
        if self.poison:
            tensor.fill_(float("nan"))
        self.hold(allocation, tensor, storage.nbytes())

    def hold(self, allocation: Allocation, tensor: torch.Tensor, nbytes: int) -> None:
        """Book a tensor that takes `nbytes`. Raises RuntimeFailedError if the plan says otherwise."""
        if nbytes != allocation.nbytes:
            raise RuntimeFailedError(
                f"'{allocation.key}' takes {nbytes} B, the plan says {allocation.nbytes} B: "
                "the model and its workload do not match"
            )
        self.tensors[allocation.key] = tensor
        self.book(allocation.key, allocation.kind, nbytes)

    def book(self, key: str, kind: str, nbytes: int) -> None:
        """Write down memory that somebody else holds (autograd, its saved tensors)."""
        if key in self.booked:
            raise RuntimeFailedError(f"'{key}' is allocated twice: the plan must free it first")
        self.booked[key] = (kind, nbytes)
        self.changes.append(Change(self.now(), kind, nbytes))
        self.live += nbytes
        self.peak = max(self.peak, self.live)

    def drop(self, key: str) -> None:
        """Let a tensor go. Whoever still moves it (a collective under way) keeps it until then."""
        self.tensors.pop(key, None)
        kind, nbytes = self.booked.pop(key)
        self.changes.append(Change(self.now(), kind, -nbytes))
        self.live -= nbytes

    def empty(self, key: str) -> None:
        """Free a tensor's storage but keep the tensor, so that it can be refilled."""
        self.tensors[key].untyped_storage().resize_(0)
        self.drop(key)
