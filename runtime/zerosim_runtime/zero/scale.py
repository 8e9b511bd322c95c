"""Loss scaling: 16-bit gradients are computed larger than they are, so that small ones do not vanish."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

FIRST: Final = 2.0**16
GROW_AFTER: Final = 2000
"""Steps without an overflow after which a dynamic scale doubles (torch.amp.GradScaler)."""


@dataclass(slots=True)
class Scale:
    """The factor of the loss; a dynamic one halves at an overflow."""

    value: float
    dynamic: bool
    good: int = 0

    def after(self, *, overflow: bool) -> None:
        """Note how a step went."""
        if not self.dynamic:
            return
        self.good = 0 if overflow else self.good + 1
        if overflow:
            self.value /= 2
        elif self.good == GROW_AFTER:
            self.value, self.good = self.value * 2, 0


def scale_of(loss_scale: float | None) -> Scale | None:
    """The scale that an option asks for: none, a fixed one, or (0) a dynamic one."""
    if loss_scale is None:
        return None
    return Scale(loss_scale or FIRST, dynamic=loss_scale == 0)
