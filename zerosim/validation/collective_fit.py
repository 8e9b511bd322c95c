"""Launcher and network constants fitted on calibrated series of collectives, and on nothing else.

# Note [What is fitted]
A launcher has one latency; a process that drives all GPUs of a node has beside it what each GPU and
each channel takes its host. A network has a latency a step, a latency once, and the share of its
cards' rate that large tensors reach. Nothing is fitted for a series, a size or a collective. Between
two nodes a step's latency and the one latency cannot be told apart for trees: where the network's
own tuner names the former, that one is taken. What the rows do not show stays nominal: latencies
where all are of 64 MiB and more, a share where the network is never what a collective waits for.
Fitted is the sum of two means of |error|: from 32 KiB and from 64 MiB up, by steps that halve.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from zerosim.hardware import MACHINES
from zerosim.hardware.calibration import (
    Calibration,
    FabricConstants,
    LauncherConstants,
    merged,
    shipped,
)
from zerosim.validation.collective_rows import Row
from zerosim.validation.collectives import LARGE, SMALL, Predicted, launched, moved_by, predict
from zerosim.validation.settings import ONE_PROCESS, Setting, setting_of

SPLIT: Final = "calib"
NAMED_STEP_S: Final = {"EFA v1": 20e-6, "EFA v2": 20e-6}
"""Latency of a step that aws/aws-ofi-nccl src/tuner/nccl_ofi_model.cpp names (net_lat of p5, p5e);
EFA v1 has none of its own and takes the same."""
_HALVINGS: Final = 6
_STARTS: Final = (1.0, 0.85)
"""Shares to start from: a share counts for nothing as long as another link is slower."""
_US: Final = 1e-6
Values = tuple[float, ...]


def fit_collectives(rows: Iterable[Row], known: Calibration | None = None) -> Calibration:
    """The constants of launchers and networks that rows of the split calib tell.

    Others stay as `known` has them (as shipped). See Note [What is fitted]. Sources say what each was
    fitted on, and how well it does there.
    """
    found = shipped() if known is None else known
    usable = [(row, s) for row in rows if isinstance(s := setting_of(row), Setting)]
    calib = [(row, s) for row, s in usable if row.split == SPLIT and row.timing.nbytes >= SMALL]
    for name, group in _grouped(calib, crossing=False).items():
        found = merged(found, _launcher(name, group, found))
    for name, group in _grouped(calib, crossing=True).items():
        found = merged(found, _network(name, group, found))
    return found


def _grouped(calib: Sequence[tuple[Row, Setting]], *, crossing: bool) -> dict[str, list[Row]]:
    """Rows by launcher inside a node, by network between nodes."""
    groups: dict[str, list[Row]] = {}
    for row, setting in calib:
        name = MACHINES[setting.cluster].fabric if crossing else setting.launcher
        if ((row.timing.n_nodes or 1) > 1) == crossing and name:
            groups.setdefault(name, []).append(row)
    return groups


def _launcher(name: str, rows: list[Row], known: Calibration) -> Calibration:
    def made(values: Values, source: str = "being fitted") -> Calibration:
        hosts = dict(zip(("each_s", "channel_s"), values[1:], strict=False))
        kernel_s = known.launcher[name].kernel_s
        constants = LauncherConstants(values[0], source, kernel_s, **hosts)
        return Calibration(launcher={name: constants})

    start: Values = (20 * _US,)
    steps: Values = (10 * _US,)
    if name == ONE_PROCESS:
        start, steps = (*start, 3 * _US, 0.2 * _US), (*steps, _US, 0.1 * _US)
    moved = [(row, m) for row in rows if not isinstance(m := moved_by(row, known), str)]

    def error(values: Values) -> float:
        hosts = made(values)
        return _both([launched(row, *m, hosts) for row, m in moved])

    values = descend(error, start, steps)
    rounded = tuple(round(value, 8) for value in values)
    return made(rounded, _source(rows, merged(known, made(rounded))))


def _network(name: str, rows: list[Row], known: Calibration) -> Calibration:
    shown = min(row.timing.nbytes for row in rows) < LARGE
    named = NAMED_STEP_S.get(name) if shown else 0.0

    def made(values: Values, source: str = "being fitted") -> Calibration:
        share, once_s, step_s = (*values, 0.0, 0.0)[:3]
        step_s = step_s if named is None else named
        return Calibration(fabric={name: FabricConstants(step_s, share, source, once_s)})

    def error(values: Values) -> float:
        return _both(_predicted(rows, merged(known, made(values))))

    n = 1 + shown + (named is None)
    steps = (0.05, 20 * _US, 10 * _US)[:n]
    ends = [descend(error, (share, 20 * _US, 10 * _US)[:n], steps) for share in _STARTS]
    share, *latencies = min(ends, key=lambda values: round(error(values), 4))
    rounded = (round(share, 3), *(round(value, 7) for value in latencies))
    return made(rounded, _source(rows, merged(known, made(rounded))))


def descend(error: Callable[[Values], float], start: Values, steps: Values) -> Values:
    """The values, 0 to 1, of least error that moves along one at a time find, each step halved in turn."""
    best, least = start, error(start)
    for halving in range(_HALVINGS):
        moved = True
        while moved:
            moved = False
            for index, step in enumerate(steps):
                for way in (step, -step):
                    tried = best[index] + way / 2**halving
                    if not 0 <= tried <= 1:
                        continue
                    values = (*best[:index], tried, *best[index + 1 :])
                    found = error(values)
                    if found < least - 1e-9:
                        best, least, moved = values, found, True
    return best


def _both(predicted: Sequence[Predicted]) -> float:
    return _mean(predicted) + _mean([p for p in predicted if p.nbytes >= LARGE])


def _predicted(rows: Sequence[Row], known: Calibration) -> list[Predicted]:
    return [p for p in (predict(row, known) for row in rows) if isinstance(p, Predicted)]


def _mean(predicted: Sequence[Predicted]) -> float:
    return sum(abs(p.error) for p in predicted) / len(predicted) if predicted else 0.0


def _source(rows: Sequence[Row], known: Calibration) -> str:
    series = ", ".join(sorted({row.series for row in rows}))
    mean = _mean(_predicted(rows, known))
    return f"fitted on calib series {series}: mean error {mean:.1%}"
