"""The sections of a scenario: workload, schedule, cluster, numerics, run. Frozen; None = the default."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Final

from zerosim.collectives import COLLECTIVES, SCATTERS
from zerosim.errors import ScenarioError, UnknownNameError
from zerosim.hardware.calibration import calibration_from
from zerosim.hardware.machine_file import machine_from
from zerosim.units import read_rate
from zerosim.workload import LOSSES

MODELS: Final = ("uniform", "gpt", "llama", "parameters", "extracted")
EXTRACTED_FIELDS: Final = (
    *("model", "micro_batch", "micro_batches", "checkpointing", "loss", "record"),
)
"""What can be said about an extracted model; the rest is in its record."""
ATTENTIONS: Final = ("flash", "flash1", "eager")
COMPILED: Final = ("gpt", "llama")
"""Models whose kernels are counted one by one, so that it is known which of them are fused."""
CHECKPOINTING: Final = ("none", "full", "selective", "ops")
_MAX_LAYERS: Final = 100_000
"""A hundred times the deepest models; checked before a workload is built of them."""


@dataclass(frozen=True, slots=True)
class WorkloadSection:
    """Which model. `micro_batch` is sequences a rank (tokens for `uniform`, whose seq is 1).

    `attention`: flash (FlashAttention-2) and flash1 (its first version) keep no scores, eager does.
    `checkpointing` drops activations and computes them again: full keeps a layer's input alone,
    selective drops the scores of an eager attention, ops keeps what attention and every second matrix
    product give (torchtitan's selective by op).
    `record`: what `zerosim extract` wrote about the model `extracted`. `bias`: whether the layers of
    `uniform` have one (else true). `compile`: torch.compile, which fuses kernels of gpt and llama.
    `loss`: their cross-entropy, and that of extracted scores, as eager kernels, as a fused one (what it is if compiled), or upcast:
    eager, of float32 logits that the model gives.
    `early_stop`: what full checkpointing computes again ends with the last tensor that was kept, as
    torch's does unless it is reentrant: the last matrix product of a block is spared.
    """

    model: str = "uniform"
    layers: int = 3
    hidden: int = 768
    micro_batch: int = 1
    micro_batches: int = 1
    seq: int = 1
    heads: int = 1
    kv_heads: int | None = None
    ffn: int | None = None
    vocab: int | None = None
    tied: bool = False
    qkv_bias: bool = False
    bias: bool | None = None
    sizes: str | None = None
    attention: str = "flash"
    checkpointing: str = "none"
    checkpointed_layers: int | None = None
    early_stop: bool = False
    compile: bool = False
    loss: str | None = None
    record: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        """Refuse sizes below one, and what an extracted model cannot be told."""
        for name in ("layers", "hidden", "micro_batch", "micro_batches", "seq", "heads"):
            _at_least_one("workload", name, getattr(self, name))
        for name in ("kv_heads", "ffn", "vocab"):
            if getattr(self, name) is not None:
                _at_least_one("workload", name, getattr(self, name))
        _one_of("model", self.model, MODELS)
        _one_of("attention", self.attention, ATTENTIONS)
        _one_of("checkpointing", self.checkpointing, CHECKPOINTING)
        if self.bias is not None and self.model not in ("uniform", "gpt"):
            raise ScenarioError(
                f"workload.bias is {str(self.bias).lower()}, but model '{self.model}' has its own "
                "biases: leave it out, or take the model uniform"
            )
        if self.checkpointing == "ops" and self.model in ("uniform", "parameters"):
            raise ScenarioError(
                f"workload.checkpointing is ops, but the layers of model '{self.model}' are one "
                "product each: give none or full"
            )
        if self.early_stop and self.model not in COMPILED:
            raise ScenarioError(
                f"workload.early_stop is true, but a layer of model '{self.model}' is computed again as "
                f"a whole: leave it out, or take {' or '.join(COMPILED)}"
            )
        if self.compile and self.model not in COMPILED:
            raise ScenarioError(
                f"workload.compile is true, but nobody knows what that makes of model '{self.model}': "
                f"leave it out, or take {' or '.join(COMPILED)}"
            )
        _refuse_loss(self)
        if self.layers > _MAX_LAYERS:
            raise ScenarioError(f"workload.layers is {self.layers}: give at most {_MAX_LAYERS}")
        _refuse_some_layers(self)
        if (self.model == "extracted") != (self.record is not None):
            raise ScenarioError(
                f"workload.model is '{self.model}' {'with' if self.record else 'without'} a record: "
                "set workload.file=FILE, as `zerosim extract` wrote it, for the model 'extracted'"
            )
        if self.record is not None:
            _refuse_sizes(self)


@dataclass(frozen=True, slots=True)
class ScheduleSection:
    """Which schedule, and those of its options that are not at their default."""

    name: str = "zero3"
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClusterSection:
    """Which machine, how many ranks, and what to change about the machine (base units).

    `collectives`: the model of their time (else the machine's). Latencies (`base_s`, hops) belong to
    the model that reads them.
    What work that runs at once takes from each other, each by itself: `serial_communicators`,
    `link_sharing`, `sm_contention`, `memory_contention`, and `overlap_tax` in place of the last two.
    `scatter`: how Gloo's ranks reduce-scatter, native (an all-reduce inside) or all-to-all.
    `inter`: the rate of the link between nodes, e.g. 200Mbit, of which the share that the network's
    constants say is reached (`inter_busbw` is what is reached).
    `machine`: a machine of one's own, as `cluster.file` reads it. `calibration`: constants that go
    before those that zerosim comes with.
    """

    name: str = "classroom"
    world_size: int = 3
    ranks_per_node: int | None = None
    peak_flops: float | None = None
    efficiency: float | None = None
    memory_bytes: int | None = None
    memory_bandwidth: float | None = None
    launch_s: float | None = None
    intra_busbw: float | None = None
    inter_busbw: float | None = None
    intra_hop_s: float | None = None
    inter_hop_s: float | None = None
    base_s: float | None = None
    issue_s: float | None = None
    collective_issue_s: float | None = None
    serial_communicators: bool | None = None
    link_sharing: bool | None = None
    sm_contention: bool | None = None
    memory_contention: bool | None = None
    overlap_tax: float | None = None
    collectives: str | None = None
    scatter: str | None = None
    inter: str | None = None
    shapes: str | None = None
    machine: dict[str, Any] | None = None
    calibration: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        """Refuse a model of collectives that does not exist, a machine or constants without sense."""
        if self.collectives is not None:
            COLLECTIVES[self.collectives]
        if self.inter is not None:
            read_rate(self.inter)
            if self.inter_busbw is not None:
                raise ScenarioError(
                    f"cluster.inter is {self.inter} beside inter_busbw {self.inter_busbw}: give one"
                )
        if self.scatter is not None:
            _one_of("scatter", self.scatter, tuple(SCATTERS))
        if self.calibration is not None:
            calibration_from(self.calibration, "cluster.calibration")
        if (
            self.machine is not None
            and machine_from(self.machine, "cluster.machine").name != self.name
        ):
            raise ScenarioError(
                f"cluster.name is '{self.name}', but the scenario has a machine of its own, "
                f"'{self.machine.get('name')}': pick another with --set cluster={self.name}"
            )


@dataclass(frozen=True, slots=True)
class NumericsSection:
    """Dtypes and optimizer; gradients have the parameters' dtype unless said otherwise.

    `reduce_dtype`: gradients as reduced (else grad_dtype); `storage_dtype`: parameters as stored
    between steps (else dtype); `master`: whether 16-bit parameters have a float32 copy (else true);
    `foreach`: whether an update works on all parameters at once, with a temporary (else false);
    `clipping`: whether gradients are clipped by their norm (else false, but where an engine always does).
    `convention`: a byte convention, which sets all of them but those that
    are given beside it.
    """

    dtype: str = "bfloat16"
    grad_dtype: str | None = None
    reduce_dtype: str | None = None
    storage_dtype: str | None = None
    convention: str | None = None
    master: bool | None = None
    foreach: bool | None = None
    clipping: bool | None = None
    optimizer: str = "adam"


@dataclass(frozen=True, slots=True)
class RunSection:
    """How to run it. `stragglers`: `RANK:FACTOR,…`, a factor of 1.3 computes 30 % longer.

    `slow_links`: `nodeNODE:SHARE` or `RANK:SHARE,…`, the share of its rate that the network of a node,
    or the link of a rank inside its node, has left. `jitter`: relative spread of each kernel on each
    rank (lognormal), `network_jitter` of each collective, both drawn from `seed`. `allocator`:
    caching follows what PyTorch's caching allocator reserves. `arrivals`: ring follows the messages
    of collectives that run as a ring, barrier (else) lets them begin when all ranks have come.
    `ledger`: memory as real ranks book it (Note [What a ledger sees]), as `trace` sets it.
    """

    steps: int = 1
    seed: int = 0
    engine: str = "auto"
    stragglers: str = ""
    jitter: float = 0.0
    allocator: str | None = None
    arrivals: str | None = None
    slow_links: str | None = None
    network_jitter: float | None = None
    ledger: bool | None = None

    def __post_init__(self) -> None:
        """Refuse no steps, and a spread that is no share."""
        _at_least_one("run", "steps", self.steps)
        if self.seed < 0:
            raise ScenarioError(f"run.seed is {self.seed}: give 0 or more")
        for name, spread in (("jitter", self.jitter), ("network_jitter", self.network_jitter)):
            if not 0 <= (spread or 0) <= 1:
                raise ScenarioError(f"run.{name} is {spread}: give a share from 0 to 1")


def _refuse_loss(section: WorkloadSection) -> None:
    if section.loss is None:
        return
    _one_of("loss", section.loss, LOSSES)
    if section.model not in (*COMPILED, "extracted"):
        raise ScenarioError(
            f"workload.loss is {section.loss}, but model '{section.model}' has no cross-entropy of its "
            f"own: leave it out, or take {' or '.join(COMPILED)}"
        )


def _refuse_some_layers(section: WorkloadSection) -> None:
    some = section.checkpointed_layers
    if some is None:
        return
    if section.model not in ("gpt", "llama"):
        raise ScenarioError(
            f"workload.checkpointed_layers is {some}, but model '{section.model}' has no blocks to "
            "count: leave it out, or take the model gpt or llama"
        )
    if section.checkpointing == "none" or not 1 <= some <= section.layers:
        raise ScenarioError(
            f"workload.checkpointed_layers is {some} with checkpointing '{section.checkpointing}' "
            f"and {section.layers} layers: give 1 to all of them, and checkpointing full or selective"
        )


def _refuse_sizes(section: WorkloadSection) -> None:
    for field_ in fields(section):
        value = getattr(section, field_.name)
        if field_.name not in EXTRACTED_FIELDS and value != field_.default:
            raise ScenarioError(
                f"workload.{field_.name} is {value}, but the model was extracted with its own: "
                "extract it again with another"
            )
    if section.checkpointing in ("selective", "ops"):
        raise ScenarioError(
            f"workload.checkpointing is {section.checkpointing}, which needs to know the scores and "
            "products of an extracted model's blocks: give none or full"
        )


def _one_of(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise UnknownNameError(name, value, known)


def _at_least_one(section: str, name: str, value: int) -> None:
    if value < 1:
        raise ScenarioError(f"{section}.{name} is {value}: give at least 1")
