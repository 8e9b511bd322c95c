"""Which machine a row ran on: by its GPU, its source, and the network between its nodes.

A row stands in the first of `PLACES` that it agrees with. Sources that say which network they had have
a machine of their own; others stand in the usual machine of their GPU, and at what they state of the
network, else at that machine's, which is counted as a default.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from zerosim.hardware import MACHINES
from zerosim.validation.cells import Default, short
from zerosim.validation.rows import StepRow


@dataclass(frozen=True, slots=True)
class Place:
    """Rows whose GPU has all `gpu` words, and one of the `sources` (none: any), and a `link` word.

    `why` is the reason to think that they ran there; `own`: the machine has the network they state.
    """

    gpu: tuple[str, ...]
    machine: str
    why: str
    sources: tuple[str, ...] = ()
    link: str = ""
    own: bool = False

    def takes(self, row: StepRow) -> bool:
        """Whether the row agrees with all that is asked."""
        named = (row.gpu or "").lower()
        network = f"{row.raw.text('inter_link') or ''} {row.raw.text('intra_link') or ''}".lower()
        return (
            bool(named)
            and all(word in named for word in self.gpu)
            and (not self.sources or row.source_id.startswith(self.sources))
            and self.link in network
        )


def _source(gpu: tuple[str, ...], machine: str, why: str, *sources: str) -> Place:
    return Place(gpu, machine, why, sources, own=True)


PLACES: Final = (
    _source(("a100", "40gb"), "mosaicml-a100-40gb", "its tables' network", "llmfoundry"),
    _source(("a100",), "mosaicml-a100-80gb", "its tables' network", "llmfoundry"),
    _source(("h100",), "mosaicml-h100", "its tables' network", "llmfoundry"),
    _source(("h100",), "torchtitan-h100", "its H100s of 500 W", "torchtitan"),
    _source(("a100",), "ibm-vela-a100", "400 Gbit/s a node, as the text says", "fms-", "ibm-"),
    _source(("h100",), "ibm-vela-h100", "800 Gbit/s a node, as the text says", "fms-", "ibm-"),
    _source(("a100",), "internevo-a100", "4x100 Gb RoCE, as the text says", "internevo"),
    _source(("a100",), "atorch-a100", "800 Gb/s RDMA, as the text says", "atorch"),
    _source(("v100",), "jean-zay-v100", "all of bigscience ran on Jean Zay", "bigscience"),
    Place(("h100", "500w"), "torchtitan-h100", "the H100 of 500 W"),
    Place(("v100", "dgx-2h"), "dgx-2h", "the GPU's name says it"),
    Place(("v100", "dgx-2"), "dgx-2", "the GPU's name says it"),
    Place(("v100", "dgx-1", "32gb"), "dgx-1-32gb", "the GPU's name says it"),
    Place(("v100", "dgx-1"), "dgx-1", "the GPU's name says it"),
    Place(("v100", "sxm3"), "dgx-2", "SXM3 is the DGX-2's V100"),
    Place(("v100",), "jean-zay-v100", "a network of Omni-Path", link="omni-path", own=True),
    Place(("v100", "32gb"), "dgx-1-32gb", "the usual node of its GPU"),
    Place(("v100",), "dgx-1", "the usual node of its GPU"),
    Place(("a100", "40gb", "pcie"), "a100-pcie", "A100s without NVLink"),
    Place(("a100", "pcie"), "a100-pcie", "A100s without NVLink"),
    Place(("a100", "40gb"), "perlmutter", "a network of Slingshot", link="slingshot", own=True),
    Place(("a100", "40gb"), "aws-p4d", "a network of EFA", link="efa", own=True),
    Place(("a100",), "aws-p4de", "a network of EFA", link="efa", own=True),
    Place(("a100", "40gb"), "dgx-a100-40gb", "the usual node of its GPU"),
    Place(("a100",), "dgx-a100", "the usual node of its GPU"),
    Place(("h200",), "aws-p5en", "a network of EFA", link="efa", own=True),
    Place(("h200",), "hgx-h200", "the usual node of its GPU"),
    Place(("h100",), "aws-p5", "a network of EFA", link="efa", own=True),
    Place(("h100",), "gcp-a3-mega", "a network of TCPXO", link="tcpxo", own=True),
    Place(("h100",), "dgx-h100", "the usual node of its GPU"),
    Place(("gb200",), "gb200-nvl72", "the usual rack of its GPU"),
    Place(("b200",), "dgx-b200", "the usual node of its GPU"),
    Place(("l40s",), "l40s", "the usual node of its GPU"),
    Place(("4090",), "rtx-4090", "the usual node of its GPU"),
)


def cluster_fields(row: StepRow) -> tuple[dict[str, Any], list[Default]]:
    """The `[cluster]` of a row. Raises MeasurementError for a GPU that no machine has."""
    place = next((p for p in PLACES if p.takes(row)), None)
    if place is None:
        said = f"gpu is '{short(row.gpu)}'" if row.gpu else "gpu is blank"
        known = ", ".join(dict.fromkeys(p.gpu[0] for p in PLACES))
        raise row.refused(f"{said}: no machine has it, known are {known}")
    fields: dict[str, Any] = {
        "name": place.machine,
        "world_size": row.n_gpus,
        "ranks_per_node": row.gpus_per_node,
    }
    defaults: list[Default] = []
    rate = row.raw.positive("inter_gbps_per_node_stated")
    if row.n_gpus > row.gpus_per_node and not place.own:
        if rate is None:
            defaults.append(Default("inter_link", place.machine, "that machine's own network"))
        else:
            fields["inter_busbw"] = rate * 1e9 / 8 * _reached(place.machine)
    tf32 = MACHINES[place.machine].device.peak_flops.get("tf32")
    if "tf32" in row.precision.lower() and tf32 is not None:
        fields["peak_flops"] = tf32
    return fields, defaults


def _reached(machine: str) -> float:
    """The share of the network cards' rate that a machine's network reaches."""
    kind = MACHINES[machine]
    return kind.cluster(1, "float32").inter.busbw / kind.inter.busbw
