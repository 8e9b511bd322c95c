"""Which machine, network and launcher a measured series of collectives ran on, as its row says."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from zerosim.validation.cells import short
from zerosim.validation.collective_rows import Row

ONE_PROCESS: Final = "one process for all GPUs"
PER_GPU: Final = "one process a GPU"
"""torch: each call is issued by itself."""
QUEUED: Final = "nccl-tests, one process a GPU"
"""Calls are issued ahead of the device."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What a collective was measured on. `cluster` is a machine's name.

    `per_node`: ranks in a node (None: as the machine). `inter_gbps`: Gbit/s of a node's network cards
    (None: as the machine). `nvls`: whether NVLS may be chosen; `sharp`: whether switches reduce.
    `assumed`: what the row does not say and is taken so.
    """

    cluster: str
    launcher: str
    per_node: int | None = None
    inter_gbps: float | None = None
    nvls: bool = True
    sharp: bool = False
    assumed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Rule:
    """The machine of rows whose hardware and GPU, and the link between nodes, match."""

    cluster: str
    hardware: str
    link: str = ""
    nodes: bool | None = None
    assumed: str = ""


_RULES: Final = (
    _Rule("aws-p4de", r"p4de"),
    _Rule("aws-p4d", r"p4d\b"),
    _Rule("aws-p5en", r"p5en"),
    _Rule("aws-p5", r"p5\.48|p5e?\b"),
    _Rule("aws-p6-b200", r"p6-b200"),
    _Rule("gcp-a3-mega", r"a3-?mega"),
    _Rule("gcp-a3-high", r"a3-?high"),
    _Rule("gcp-a3-ultra", r"a3-?ultra"),
    _Rule("oci-a100-40gb", r"BM\.GPU\.B4\.8|A100-40GB OCI"),
    _Rule("perlmutter", r"perlmutter"),
    _Rule("gb200-nvl72", r"GB200|NVL72"),
    _Rule("jean-zay-v100", r"V100", link=r"Jean Zay|Omni-?Path"),
    _Rule("jean-zay-a100", r"A100", link=r"Jean Zay|Omni-?Path"),
    _Rule("v100-pcie-pair", r"2x V100-PCIE", nodes=False),
    _Rule(
        "jean-zay-v100",
        r"\b4 V100-SXM2",
        nodes=False,
        assumed="machine: four V100-SXM2 a node, two NVLinks a pair, as at Jean Zay",
    ),
    _Rule("dgx-1", r"8x? V100-SXM2", nodes=False, assumed="machine: eight V100-SXM2 as in a DGX-1"),
    _Rule("dgx-2", r"16x? V100|V100-SXM3"),
    _Rule("a100-pcie", r"A100[- ]PCIe", nodes=False),
    _Rule("dgx-a100-40gb", r"A100-SXM4-40GB", nodes=False),
    _Rule("dgx-a100", r"A100", nodes=False, assumed="GPU: A100 SXM4 80 GB on NVSwitch"),
    _Rule("dgx-a100-40gb", r"A100-SXM4-40GB", link=r"\bIB\b|InfiniBand|Gb/s"),
    _Rule("dgx-a100", r"A100", link=r"\bIB\b|InfiniBand|Gb/s"),
    _Rule("hgx-h200", r"H200", nodes=False),
    _Rule("hgx-h200", r"H200", link=r"\bIB\b|InfiniBand|NDR"),
    _Rule("dgx-h100", r"H100", nodes=False),
    _Rule("dgx-h100", r"H100", link=r"\bIB\b|InfiniBand|NDR"),
    _Rule(
        "dgx-h100", r"H100", link=r"^$", assumed="network: 8 InfiniBand NDR cards, as a DGX H100"
    ),
    _Rule("dgx-b200", r"B200", nodes=False),
    _Rule("dgx-b200", r"B200", link=r"\bIB\b|InfiniBand|NDR"),
)
"""First match counts. The machines' own sources stand in zerosim.hardware."""
_NOT_KNOWN: Final = (
    (r"mis-?tuned|mis-?configured|broken|not good", "its source calls the machine badly set up"),
    (r"MI3\d\d|GB300|GB10|RTX 6000D", "no machine of this kind is known here"),
    (r"NVLink bridge|NV12|H100-PCIe", "GPUs joined by bridges are not known here"),
)
_DROVE_ALL: Final = {
    "a100_x8_stas": "stas00/ml-engineering network/README.md: all_reduce_perf … -g 8 -n 50",
    "h200_16GiB_stas": "stas00/ml-engineering network/README.md: nccl-tests -g 8",
    "h200_subsets_stas": "stas00/ml-engineering network/README.md: nccl-tests -g N",
    "b200_subsets_stas": "stas00/ml-engineering network/README.md: nccl-tests -g N",
}
"""Series that one process measured, as their source says though no column does, and where."""
_ONE_PROCESS: Final = re.compile(r"one process driving|nGpus ([2-9]|\d\d)|-g ([2-9]|\d\d)\b")


def setting_of(row: Row) -> Setting | str:
    """What a row was measured on, or why that cannot be told."""
    text = f"{row.hardware} {row.gpu}".strip()
    for pattern, why in _NOT_KNOWN:
        if re.search(pattern, f"{text} {row.intra_link}", re.IGNORECASE):
            return why
    if not row.gpu:
        return "its GPU is not stated"
    if row.timing.n_nodes is None:
        return "its number of nodes is not stated"
    for rule in _RULES:
        if _fits(rule, text, row):
            return _setting(rule, row, row.timing.n_nodes)
    network = short(row.inter_link or "not stated")
    return f"no machine here has {short(row.gpu)} and the network '{network}'"


def _launcher(row: Row) -> str:
    if row.series in _DROVE_ALL or _ONE_PROCESS.search(row.notes) is not None:
        return ONE_PROCESS
    return QUEUED if "nccl-tests" in row.tool else PER_GPU


def _fits(rule: _Rule, text: str, row: Row) -> bool:
    if rule.nodes is not None and rule.nodes != ((row.timing.n_nodes or 1) > 1):
        return False
    if re.search(rule.hardware, text, re.IGNORECASE) is None:
        return False
    return not rule.link or re.search(rule.link, row.inter_link, re.IGNORECASE) is not None


def _setting(rule: _Rule, row: Row, n_nodes: int) -> Setting:
    per_node = row.timing.n_ranks // n_nodes if n_nodes > 1 else None
    return Setting(
        cluster=rule.cluster,
        launcher=_launcher(row),
        per_node=None if rule.cluster == "gb200-nvl72" else per_node,
        inter_gbps=row.inter_gbps,
        nvls="NVLS_ENABLE=0" not in row.algo,
        sharp="sharp" in row.inter_link.lower(),
        assumed=tuple(filter(None, (rule.assumed,))),
    )
