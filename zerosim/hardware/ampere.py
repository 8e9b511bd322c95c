"""Machines with A100s and NVLink: DGX, AWS, Oracle, Perlmutter, Jean Zay, and those of published runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from zerosim.hardware.devices import A100_SXM4_40GB, A100_SXM4_80GB
from zerosim.hardware.fabrics import EFA_V1, INFINIBAND, NVLINK_3, OMNI_PATH, ROCE, SLINGSHOT
from zerosim.hardware.machine import NCCL_BASE_S, Machine
from zerosim.hardware.parts import AMPERE, NVSWITCH2, RINGS, ampere, cards
from zerosim.hardware.published import Published
from zerosim.kinds import Kind

_INTRA: Final = "derived: 12 rings x 20 GB/s (NVIDIA/nccl src/graph/search.cc @5067397)"
_ML_ENGINEERING: Final = "stas00/ml-engineering network/README.md @744d01e"

_SUPERBENCH: Final = "microsoft/superbenchmark tests/data/nccl_*.log @700d650"
_AWS_TESTS: Final = (
    "aws-samples/awsome-distributed-training micro-benchmarks/nccl-tests/README.md @7217859"
)

DGX_A100: Final = Machine(
    name="dgx-a100",
    says="8 A100 80 GB on NVSwitch, 8 InfiniBand HDR cards",
    device=A100_SXM4_80GB,
    ranks_per_node=8,
    intra=NVSWITCH2,
    inter=cards(8, 200),
    fabric=INFINIBAND,
    inside=NVLINK_3,
    base_s=NCCL_BASE_S,
    topology=ampere(cpu="amd"),
    sources=AMPERE
    | {
        "intra_busbw": f"{_INTRA}; "
        "measured all-reduce 234.9 GB/s at 16 GiB (stas00/ml-engineering @744d01e)",
        "inter_busbw": "8 HDR cards x 25 GB/s (datasheet)",
    },
    published=(Published(Kind.ALL_REDUCE, 8, 16 * 2**30, 234.9e9, _ML_ENGINEERING),),
)
DGX_A100_40GB: Final = replace(
    DGX_A100,
    name="dgx-a100-40gb",
    says="8 A100 40 GB on NVSwitch, 8 InfiniBand HDR cards",
    device=A100_SXM4_40GB,
    sources=DGX_A100.sources
    | {
        "intra_busbw": f"{_INTRA}; measured all-gather 223-230, reduce-scatter 231.5, all-reduce "
        "235.3 GB/s (microsoft/superbenchmark tests/data @700d650)"
    },
    published=(
        Published(Kind.ALL_GATHER, 8, 8 * 2**30, 223.4e9, _SUPERBENCH, within=0.08),
        Published(Kind.REDUCE_SCATTER, 8, 8 * 2**30, 231.5e9, _SUPERBENCH),
        Published(Kind.ALL_REDUCE, 8, 8 * 2**30, 235.3e9, _SUPERBENCH),
    ),
)
AWS_P4D: Final = replace(
    DGX_A100,
    name="aws-p4d",
    says="8 A100 40 GB on NVSwitch, 4 EFA cards",
    device=A100_SXM4_40GB,
    inter=cards(4, 100, "efa"),
    fabric=EFA_V1,
    topology=replace(ampere(), low_latency=False),
    sources=AMPERE
    | {
        "intra_busbw": _INTRA,
        "inter_busbw": f"4 cards x 12.5 GB/s ({_ML_ENGINEERING}: 400 Gbit/s)",
        "protocols": "aws/aws-ofi-nccl platform-aws sets NCCL_PROTO=simple on p4d and p4de",
    },
    published=(),
)
AWS_P4DE: Final = replace(
    AWS_P4D,
    name="aws-p4de",
    says="8 A100 80 GB on NVSwitch, 4 EFA cards",
    device=A100_SXM4_80GB,
    sources=AWS_P4D.sources | {"inter_busbw": "datasheet p4de.24xlarge: 4 cards x 12.5 GB/s"},
    published=(Published(Kind.ALL_REDUCE, 16, 2 * 2**30, 78.3e9, _AWS_TESTS, within=0.12),),
)
OCI_A100_40GB: Final = replace(
    DGX_A100,
    name="oci-a100-40gb",
    says="8 A100 40 GB on NVSwitch (OCI BM.GPU.B4.8), 16 RoCE ports",
    device=A100_SXM4_40GB,
    inter=cards(16, 100, "roce"),
    fabric=ROCE,
    sources=AMPERE
    | {
        "intra_busbw": _INTRA,
        "inter_busbw": "16 ports x 12.5 GB/s: NCCL_IB_HCA of OCI's own scripts names 16; 100 Gbit/s "
        "each (public shape: 1,600 Gbit/s)",
    },
    published=(
        Published(
            Kind.ALL_REDUCE,
            16,
            8 * 2**30,
            189.6e9,
            "oracle-quickstart/oci-hpc-oke docs/running-nccl-rccl-tests-from-slurm-operator.md @61d210a",
            within=0.12,
        ),
        Published(
            Kind.ALL_REDUCE,
            16,
            10 * 2**30,
            222.9e9,
            "OCI's example of NCCL on A100 40 GB (public)",
            "test",
            within=0.15,
        ),
    ),
)
PERLMUTTER: Final = Machine(
    name="perlmutter",
    says="4 A100 40 GB, four NVLinks a pair, 4 Slingshot 11 cards",
    device=A100_SXM4_40GB,
    ranks_per_node=4,
    intra=replace(NVSWITCH2, name="nvlink"),
    inter=cards(4, 200, "slingshot"),
    fabric=SLINGSHOT,
    inside=NVLINK_3,
    base_s=NCCL_BASE_S,
    topology=ampere(cpu="amd"),
    sources=AMPERE
    | {
        "intra_busbw": f"derived: 12 NVLinks a GPU, four a pair, so 12 rings x 20 GB/s; {RINGS}",
        "inter_busbw": "docs.nersc.gov/systems/perlmutter/architecture: 4 Slingshot 11 cards x 25 GB/s",
    },
    published=(
        Published(
            Kind.ALL_REDUCE,
            8,
            4 * 2**30,
            72.2e9,
            "a report of NCCL on Perlmutter (public)",
            "test",
            off="the tuner takes a tree, which the four cards would carry at 160 GB/s: a ring's bound "
            "is 100, and whether NCCL's libfabric plug-in was there is not said",
        ),
    ),
)
JEAN_ZAY_A100: Final = replace(
    DGX_A100,
    name="jean-zay-a100",
    says="8 A100 80 GB on NVSwitch, 4 Omni-Path links",
    inter=cards(4, 100, "omni-path"),
    fabric=OMNI_PATH,
    sources=AMPERE
    | {
        "intra_busbw": f"{_INTRA}; assumed: an NVSwitch board",
        "inter_busbw": "4 Omni-Path links (bigscience/bloom model card) x 12.5 GB/s (datasheet "
        "Omni-Path 100)",
    },
    published=(
        Published(
            Kind.ALL_REDUCE,
            32,
            4 * 10**9,
            5.07e9,
            "bigscience-workshop/bigscience experiments/bandwidth/all_reduce_bench-a100-n4.txt "
            "@9e64ede",
            "test",
            off="as Jean Zay's V100: a tenth of its four links, and only figures for testing",
        ),
    ),
)
MOSAICML_A100_40GB: Final = replace(
    OCI_A100_40GB,
    name="mosaicml-a100-40gb",
    says="8 A100 40 GB on NVSwitch, 1,600 Gbit/s RoCE (MosaicML's benchmarks)",
    sources=AMPERE
    | {
        "intra_busbw": f"{_INTRA}; assumed: an NVSwitch board",
        "inter_busbw": "mosaicml/llm-foundry scripts/train/benchmarking/README.md: 1600 Gbps RoCE; "
        "assumed: 16 ports of 100",
    },
    published=(),
)
MOSAICML_A100_80GB: Final = replace(
    MOSAICML_A100_40GB,
    name="mosaicml-a100-80gb",
    says="8 A100 80 GB on NVSwitch, 1,600 Gbit/s RoCE (MosaicML's benchmarks)",
    device=A100_SXM4_80GB,
    inter=cards(8, 200, "roce"),
    sources=MOSAICML_A100_40GB.sources
    | {
        "inter_busbw": "mosaicml/llm-foundry scripts/train/benchmarking/README.md: 1600 Gbps RoCE; "
        "assumed: 8 cards of 200"
    },
)
IBM_VELA_A100: Final = replace(
    DGX_A100,
    name="ibm-vela-a100",
    says="8 A100 80 GB on NVSwitch, 400 Gbit/s RoCE (IBM's FSDP runs)",
    inter=cards(4, 100, "roce"),
    fabric=ROCE,
    topology=ampere(),
    published=(),
    sources=AMPERE
    | {
        "intra_busbw": f"{_INTRA}; assumed: an NVSwitch board",
        "inter_busbw": "pytorch.org blog 2024-03-13 (Maximizing training throughput): 400 Gbps between "
        "nodes; assumed: 4 cards of 100",
    },
)
INTERNEVO_A100: Final = replace(
    IBM_VELA_A100,
    name="internevo-a100",
    says="8 A100 80 GB on NVSwitch, 4 RoCE cards of 100 Gbit/s (InternEvo's runs)",
    sources=IBM_VELA_A100.sources
    | {
        "inter_busbw": "InternLM/InternEvo doc/en/train_performance.md @c628a8c: 4x100 Gb RoCE",
    },
)
ATORCH_A100: Final = replace(
    IBM_VELA_A100,
    name="atorch-a100",
    says="8 A100 80 GB on NVSwitch, 800 Gbit/s RDMA (ATorch's runs)",
    inter=cards(4, 200, "roce"),
    sources=IBM_VELA_A100.sources
    | {
        "inter_busbw": "intelligent-machine-learning/dlrover atorch/examples/llama2/README.md: "
        "800 Gb/s RDMA; assumed: 4 RoCE cards of 200",
    },
)
