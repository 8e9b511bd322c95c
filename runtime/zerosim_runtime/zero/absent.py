"""A parameter while it is not gathered: it tells its shape, and refuses to compute."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import torch
from torch import nn

from zerosim.errors import RuntimeFailedError

_TOLD: Final = frozenset(
    {
        *("shape", "dtype", "device", "layout", "requires_grad", "grad", "is_leaf", "ndim"),
        *("size", "dim", "numel", "nelement", "is_floating_point", "element_size", "__len__"),
        *("register_hook", "register_post_accumulate_grad_hook"),
    }
)


class Absent(nn.Parameter):
    """The class that a parameter has while its storage is empty.

    torch does not check that memory is there: some kernels would read beyond it and end the process.
    """

    def __repr__(self) -> str:  # type: ignore[override] # torch's takes contents to print
        return f"<{getattr(self, 'absent_from', 'a parameter')}, not gathered>"

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401 - whatever torch's function gives
        """Let through what only asks about the parameter. Raises RuntimeFailedError for the rest."""
        asked, changes = func.__name__, func.__name__ == "__set__"
        if asked in ("__get__", "__set__"):
            asked = getattr(getattr(func, "__self__", None), "__name__", asked)
        if asked == "grad" or (asked in _TOLD and not changes):
            with torch._C.DisableTorchFunctionSubclass():  # noqa: SLF001 - torch's documented way
                return func(*args, **(kwargs or {}))
        absent: Any = next((each for each in args if isinstance(each, Absent)), None)
        named = getattr(absent, "absent_from", "a parameter")
        raise RuntimeFailedError(
            f"{named} is not gathered where '{asked}' uses it: call its unit, not its parts, or name "
            "other units; outside the forward use trainer.whole() or trainer.save()"
        )


def leave(parameter: nn.Parameter, unit: str, name: str) -> None:
    """From now on the parameter's storage may be empty."""
    hidden: Any = parameter  # an attribute of ours on torch's object
    hidden.absent_from = f"parameter '{name}' of unit '{unit}'"
    hidden.__class__ = Absent


def come_back(parameter: nn.Parameter) -> None:
    """The parameter's storage is there again, and filled."""
    hidden: Any = parameter
    hidden.__class__ = nn.Parameter
