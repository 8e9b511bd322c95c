"""The document of a fit: constants with what they were fitted on, and what is left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from zerosim.hardware.calibration import Calibration
from zerosim.validation.constants import Constant, with_values
from zerosim.validation.predict import Predicted


def document(
    start: Calibration,
    every: Sequence[Constant],
    values: Sequence[float],
    found: Sequence[Predicted],
    ln: Sequence[float],
) -> Calibration:
    """The calibration with each fitted table's source, and the provenance of the whole."""
    fitted = with_values(start, every, values)
    devices, launchers = dict(fitted.device), dict(fitted.launcher)
    for name in {constant.of for constant in every if constant.kind == "device"}:
        mine = [i for i, one in enumerate(found) if one.device == name]
        devices[name] = replace(devices[name], source=_source(name, every, mine, found, ln))
    for name in {constant.of for constant in every if constant.kind == "launcher"}:
        mine = list(range(len(found)))
        launchers[name] = replace(launchers[name], source=_source(name, every, mine, found, ln))
    total = np.abs(np.asarray(ln))
    provenance = {
        "what": "constants fitted by zerosim validate --fit",
        "rows": f"{len(found)} rows marked calib, none marked test",
        "sources": _counted(one.row.source_id for one in found),
        "constants": f"{len(every)}: " + ", ".join(dict.fromkeys(c.name for c in every)),
        "left": f"mean |ln(predicted / measured)| {total.mean():.1%}, median {np.median(total):.1%}",
    }
    return replace(fitted, device=devices, launcher=launchers, provenance=provenance)


def _source(
    name: str,
    every: Sequence[Constant],
    mine: Sequence[int],
    found: Sequence[Predicted],
    ln: Sequence[float],
) -> str:
    names = ", ".join(constant.name for constant in every if constant.of == name)
    rows = _counted(found[i].row.source_id for i in mine)
    error = sum(abs(ln[i]) for i in mine) / max(1, len(mine))
    return f"{names} fitted on {len(mine)} measured steps ({rows}): mean error {error:.1%}"


def _counted(sources: Iterable[str]) -> str:
    return ", ".join(f"{source} {n}" for source, n in sorted(Counter(sources).items()))
