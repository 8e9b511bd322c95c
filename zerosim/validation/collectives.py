"""Measured collectives beside predicted ones: the simulator's own costs, scored series by series.

# Note [Launching]
A benchmark issues its collectives one after another, so the slower of two sets the pace: the device,
with what a launch adds to each (`issue_s`), or the host. A process that drives all GPUs of a node
issues to one after another, and NCCL's set-up for each grows with the channels it uses
(NVIDIA/nccl src/enqueue.cc: work is written channel by channel).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from zerosim.cluster import Cluster
from zerosim.collectives import Transfer, transfer
from zerosim.errors import ScenarioError
from zerosim.hardware import MACHINES
from zerosim.hardware.calibration import Calibration, merged, shipped
from zerosim.hardware.constants import launcher_constants
from zerosim.kinds import Kind
from zerosim.units import NS_PER_S, dtype_bytes
from zerosim.validation.collective_rows import Row
from zerosim.validation.measured import Timing
from zerosim.validation.settings import Setting, setting_of

SMALL: Final = 2**15
"""Bytes; below, a collective is a launch and nothing else."""
LARGE: Final = 2**26
BARS: Final = {"calib": (0.10, 0.06), "test": (0.15, 0.10)}
"""Mean |error| that a series may have from SMALL up, and from LARGE up, by split."""


@dataclass(frozen=True, slots=True)
class Predicted:
    """One measured collective, and what the simulator says it takes.

    `by`: algorithm and protocol, where the model chooses one. `assumed`: what the row does not say.
    """

    row_id: str
    series: str
    split: str
    kind: str
    n_ranks: int
    nbytes: int
    predicted_s: float
    measured_s: float
    cluster: str
    launcher: str
    by: str = ""
    assumed: tuple[str, ...] = ()

    @property
    def error(self) -> float:
        """How far off, as a share of what was measured; above 0: predicted too long."""
        return self.predicted_s / self.measured_s - 1


@dataclass(frozen=True, slots=True)
class SeriesScore:
    """Mean |error| of a series from SMALL up (`mean`) and from LARGE up; None: no such rows.

    `bias`: mean error from SMALL up. `worst`: the row that is furthest off. `kinds`: its collectives.
    """

    series: str
    split: str
    kinds: tuple[str, ...]
    cluster: str
    n: int
    mean: float | None
    n_large: int
    mean_large: float | None
    bias: float | None
    worst: str

    @property
    def meets(self) -> bool | None:
        """Whether it is within BARS; None where its split has none."""
        if self.split not in BARS:
            return None
        means = zip((self.mean, self.mean_large), BARS[self.split], strict=True)
        return all(mean is None or mean <= bar for mean, bar in means)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A row that cannot be predicted, and why."""

    row_id: str
    series: str
    split: str
    why: str


@dataclass(frozen=True, slots=True)
class CollectiveScores:
    """All rows with their predictions, the series worst first, what was left out and why.

    `kinds` are the same scores with each collective of a series apart.
    """

    rows: tuple[Predicted, ...]
    series: tuple[SeriesScore, ...]
    kinds: tuple[SeriesScore, ...]
    left_out: tuple[LeftOut, ...]

    def of(self, split: str) -> tuple[SeriesScore, ...]:
        """The series of one split, worst first."""
        return tuple(score for score in self.series if score.split == split)


def collective_scores(
    rows: Iterable[Row], calibration: Calibration | None = None
) -> CollectiveScores:
    """Predict measured collectives and score them. `calibration` goes before the shipped one.

    The time is what `zerosim.collectives.transfer` gives on the machine of `setting_of`, and what
    its launcher adds (`launched_s`); rows whose machine cannot be told are left out with the reason.
    """
    known = shipped() if calibration is None else merged(shipped(), calibration)
    predicted, left_out = list[Predicted](), list[LeftOut]()
    for row in rows:
        found = predict(row, known)
        if isinstance(found, str):
            left_out.append(LeftOut(row.row_id, row.series, row.split, found))
        else:
            predicted.append(found)
    return CollectiveScores(
        tuple(predicted),
        _scores(predicted, kinds=False),
        _scores(predicted, kinds=True),
        tuple(left_out),
    )


def predict(row: Row, known: Calibration) -> Predicted | str:
    """What the simulator says about a row, or why it cannot."""
    moved = moved_by(row, known)
    return moved if isinstance(moved, str) else launched(row, *moved, known)


def moved_by(row: Row, known: Calibration) -> tuple[Setting, Transfer] | str:
    """A row's collective on its machine, without a launch, or why that cannot be said."""
    setting = setting_of(row)
    if isinstance(setting, str):
        return setting
    timing = row.timing
    if not _even(timing):
        return f"{timing.nbytes} bytes are no equal pieces of whole elements for its ranks"
    try:
        cluster = cluster_for(setting, timing.n_ranks, timing.n_nodes or 1, known)
        return setting, transfer(timing.kind, timing.nbytes, timing.n_ranks, cluster)
    except ScenarioError as error:
        return str(error)


def launched(row: Row, setting: Setting, moved: Transfer, known: Calibration) -> Predicted:
    """A row's collective as its launcher gets it. Raises ScenarioError for an unknown launcher."""
    timing = row.timing
    gpus = timing.n_ranks // (timing.n_nodes or 1)
    seconds = launched_s(moved.alone_ns / NS_PER_S, moved.ctas, gpus, setting.launcher, known)
    return Predicted(
        row_id=row.row_id,
        series=row.series,
        split=row.split,
        kind=str(timing.kind),
        n_ranks=timing.n_ranks,
        nbytes=timing.nbytes,
        predicted_s=seconds,
        measured_s=timing.seconds,
        cluster=setting.cluster,
        launcher=setting.launcher,
        by=moved.by,
        assumed=setting.assumed,
    )


def _even(timing: Timing) -> bool:
    """Whether each rank's piece of an all-to-all is as large, in whole elements, as any other's."""
    width = dtype_bytes(timing.dtype) if timing.dtype else 1
    return timing.kind is not Kind.ALL_TO_ALL or timing.nbytes % (timing.n_ranks * width) == 0


def cluster_for(setting: Setting, n_ranks: int, n_nodes: int, known: Calibration) -> Cluster:
    """The cluster of a setting. Raises ScenarioError where the ranks do not fit its nodes."""
    machine = MACHINES[setting.cluster]
    if n_nodes == 1 and n_ranks > machine.ranks_per_node:
        raise ScenarioError(
            f"{n_ranks} ranks on one node of {machine.name}: it has {machine.ranks_per_node}"
        )
    cluster = machine.cluster(n_ranks, "float32", known)
    if setting.per_node is not None:
        cluster = replace(cluster, ranks_per_node=setting.per_node)
    if setting.inter_gbps is not None:
        share = cluster.inter.busbw / machine.inter.busbw
        busbw = setting.inter_gbps * 1e9 / 8 * share
        cluster = replace(cluster, inter=replace(cluster.inter, busbw=busbw))
    if cluster.topology is None:
        return cluster
    topology = replace(cluster.topology, sharp=setting.sharp)
    if not setting.nvls:
        topology = replace(topology, nvls_heads=0)
    return replace(cluster, topology=topology)


def launched_s(
    device_s: float, channels: int, gpus: int, launcher: str, known: Calibration
) -> float:
    """Seconds from one call to the next, of a collective that takes `device_s` once it runs.

    See Note [Launching]. `gpus`: those of one node. Raises ScenarioError for an unknown launcher.
    """
    costs = launcher_constants(launcher, known)
    host_s = gpus * (costs.each_s + channels * costs.channel_s)
    return max(host_s, device_s + costs.issue_s)


def _scores(rows: Sequence[Predicted], *, kinds: bool) -> tuple[SeriesScore, ...]:
    groups: dict[tuple[str, str, str], list[Predicted]] = {}
    for row in rows:
        groups.setdefault((row.series, row.split, row.kind if kinds else ""), []).append(row)
    scores = [_score(group) for group in groups.values()]
    return tuple(sorted(scores, key=lambda s: -max(s.mean or 0.0, s.mean_large or 0.0)))


def _score(rows: Sequence[Predicted]) -> SeriesScore:
    counted = [row for row in rows if row.nbytes >= SMALL]
    large = [row for row in counted if row.nbytes >= LARGE]
    return SeriesScore(
        series=rows[0].series,
        split=rows[0].split,
        kinds=tuple(sorted({row.kind for row in rows})),
        cluster=rows[0].cluster,
        n=len(counted),
        mean=_mean([abs(row.error) for row in counted]),
        n_large=len(large),
        mean_large=_mean([abs(row.error) for row in large]),
        bias=_mean([row.error for row in counted]),
        worst=max(rows, key=lambda row: abs(row.error)).row_id,
    )


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
