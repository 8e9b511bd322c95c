"""The devices there are: what their data sheets say, once, for all machines that have them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final


@dataclass(frozen=True, slots=True)
class Datasheet:
    """A device as it is sold. `peak_flops` is by dtype (torch's names, and tf32), dense, a second.

    `like` names the device whose fitted constants stand in where it has none (else one of the same
    architecture). `sources` say where `peak_flops`, `memory` and `sms` are from. `sms`: streaming
    multiprocessors, 0 if none.
    """

    name: str
    architecture: str
    peak_flops: dict[str, float]
    memory_bytes: int
    memory_bandwidth: float
    sms: int = 0
    like: str = ""
    sources: dict[str, str] = field(default_factory=dict)


def _peaks(  # rates in TFLOP/s, as data sheets print them
    bit16: float, float32: float, float64: float, tf32: float = 0, bit8: float = 0
) -> dict[str, float]:
    rates = {"bfloat16": bit16, "float16": bit16, "float32": float32, "float64": float64}
    if tf32:
        rates["tf32"] = tf32
    if bit8:
        rates |= {"float8_e4m3fn": bit8, "float8_e5m2": bit8}
    return {dtype: rate * 1e12 for dtype, rate in rates.items()}


_TABLE: Final = "stas00/ml-engineering compute/accelerator/README.md @744d01e"
_NO_BF16: Final = "bfloat16 does not exist there, float16's rate is used"

V100_SXM2_16GB: Final = Datasheet(
    name="V100 SXM2 16GB",
    architecture="volta",
    peak_flops=_peaks(125, 15.7, 7.8),
    memory_bytes=16 * 10**9,
    memory_bandwidth=900e9,
    sms=80,
    sources={
        "peak_flops": f"datasheet V100 SXM2; {_NO_BF16}",
        "memory": "datasheet V100 SXM2 16GB",
        "sms": "datasheet V100",
    },
)
V100_SXM2_32GB: Final = replace(
    V100_SXM2_16GB,
    name="V100 SXM2 32GB",
    memory_bytes=32 * 10**9,
    sources=V100_SXM2_16GB.sources | {"memory": "datasheet V100 SXM2 32GB"},
)
V100_SXM3_32GB: Final = replace(
    V100_SXM2_32GB,
    name="V100 SXM3 32GB",
    sources=V100_SXM2_16GB.sources
    | {
        "peak_flops": f"datasheet V100 (DGX-2: 2 PFLOPS / 16); {_NO_BF16}",
        "memory": "datasheet V100",
    },
)
V100_SXM3_32GB_450W: Final = replace(
    V100_SXM3_32GB,
    name="V100 SXM3 32GB 450W",
    peak_flops=_peaks(131.25, 16.4, 8.2),
    sources=V100_SXM3_32GB.sources
    | {
        "peak_flops": "datasheet DGX-2H (2.1 PFLOPS / 16; float32 and float64 derived: as much more "
        f"than an SXM2's); {_NO_BF16}"
    },
)
V100_PCIE_16GB: Final = replace(
    V100_SXM2_16GB,
    name="V100 PCIe 16GB",
    peak_flops=_peaks(112, 14, 7),
    sources=V100_SXM2_16GB.sources
    | {
        "peak_flops": f"datasheet V100 PCIe; {_NO_BF16}",
        "memory": "datasheet V100 PCIe",
    },
)

A100_SXM4_80GB: Final = Datasheet(
    name="A100 SXM4 80GB",
    architecture="ampere",
    peak_flops=_peaks(312, 19.5, 9.7, tf32=156),
    memory_bytes=80 * 10**9,
    memory_bandwidth=2039e9,
    sms=108,
    sources={
        "peak_flops": "datasheet A100, dense; float32 without TF32",
        "memory": "datasheet A100 80GB",
        "sms": "datasheet A100",
    },
)
A100_SXM4_40GB: Final = replace(
    A100_SXM4_80GB,
    name="A100 SXM4 40GB",
    memory_bytes=40 * 10**9,
    memory_bandwidth=1555e9,
    sources=A100_SXM4_80GB.sources | {"memory": "datasheet A100 40GB"},
)
A100_PCIE_80GB: Final = replace(
    A100_SXM4_80GB,
    name="A100 PCIe 80GB",
    memory_bandwidth=1935e9,
    sources=A100_SXM4_80GB.sources | {"memory": "datasheet A100 80GB PCIe"},
)

H100_SXM5_80GB: Final = Datasheet(
    name="H100 SXM5 80GB",
    architecture="hopper",
    peak_flops=_peaks(989, 67, 34, tf32=494.5, bit8=1979),
    memory_bytes=80 * 10**9,
    memory_bandwidth=3350e9,
    sms=132,
    sources={
        "peak_flops": "datasheet H100 SXM, dense; float32 without TF32",
        "memory": "datasheet H100 SXM",
        "sms": "datasheet H100 SXM",
    },
)
H100_96GB_500W: Final = replace(
    H100_SXM5_80GB,
    name="H100 96GB HBM2e 500W",
    memory_bytes=96 * 10**9,
    memory_bandwidth=2400e9,
    sources={
        "peak_flops": "assumed: datasheet H100 SXM; at 500 W it holds less of it (a fitted constant)",
        "memory": "pytorch/torchtitan benchmarks/llama3_h100_202412_torchtitan.md @b5bcd76: "
        "96 GB HBM2e, 2.4 TB/s, 500 W",
        "sms": "assumed: as the H100 SXM",
    },
)
H200_SXM_141GB: Final = replace(
    H100_SXM5_80GB,
    name="H200 SXM 141GB",
    memory_bytes=141 * 10**9,
    memory_bandwidth=4800e9,
    sources={
        "peak_flops": "datasheet H200 SXM, dense; float32 without TF32",
        "memory": "datasheet H200 SXM",
        "sms": "datasheet H200: as the H100 SXM",
    },
)

B200_SXM_180GB: Final = Datasheet(
    name="B200 SXM 180GB",
    architecture="blackwell",
    peak_flops=_peaks(2250, 80, 40, tf32=1125, bit8=4500),
    memory_bytes=180 * 10**9,
    memory_bandwidth=8000e9,
    sms=148,
    sources={
        "peak_flops": f"datasheet DGX B200 / 8, dense ({_TABLE}); float32 without TF32",
        "memory": "datasheet DGX B200: 1,440 GB, 64 TB/s / 8",
        "sms": "public device listings: 148 of 160 are on",
    },
)
GB200_186GB: Final = replace(
    B200_SXM_180GB,
    name="GB200 186GB",
    peak_flops=_peaks(2500, 80, 40, tf32=1250, bit8=5000),
    memory_bytes=186 * 10**9,
    sources={
        "peak_flops": f"datasheet GB200 NVL72 / 72, dense ({_TABLE}); float32 without TF32",
        "memory": "datasheet GB200 NVL72: 13.4 TB, 576 TB/s / 72",
        "sms": "as the B200",
    },
)

L40S_48GB: Final = Datasheet(
    name="L40S 48GB",
    architecture="ada",
    peak_flops=_peaks(362, 91.6, 1.43, tf32=183, bit8=733),
    memory_bytes=48 * 10**9,
    memory_bandwidth=864e9,
    sms=142,
    like="A100 PCIe 80GB",
    sources={
        "peak_flops": f"datasheet L40S, dense ({_TABLE}); float64 derived: 1/64 of float32",
        "memory": "datasheet L40S",
        "sms": "datasheet L40S: 18,176 CUDA cores / 128",
    },
)
RTX_4090_24GB: Final = Datasheet(
    name="RTX 4090 24GB",
    architecture="ada",
    peak_flops=_peaks(165.2, 82.6, 1.29, tf32=82.6, bit8=330.3),
    memory_bytes=24 * 10**9,
    memory_bandwidth=1008e9,
    sms=128,
    like="A100 PCIe 80GB",
    sources={
        "peak_flops": "waredb.com nvidia-geforce-rtx-4090: dense, sums in float32 (165.15 and 82.58)",
        "memory": "waredb.com nvidia-geforce-rtx-4090: 24 GB, 1008 GB/s",
        "sms": "waredb.com nvidia-geforce-rtx-4090: 16,384 CUDA cores / 128",
    },
)

CPU_CORES: Final = Datasheet(
    name="2 CPU cores",
    architecture="cpu",
    peak_flops=_peaks(0.08, 0.08, 0.04),
    memory_bytes=24 * 2**30,
    memory_bandwidth=10e9,
    sources={"peak_flops": "assumed, 0.05-0.1 TFLOP/s", "memory": "assumed"},
)
CLASSROOM_GPU: Final = Datasheet(
    name="classroom GPU",
    architecture="classroom",
    peak_flops=_peaks(0.05, 0.05, 0.05),
    memory_bytes=10**9,
    memory_bandwidth=100e9,
    sources={"peak_flops": "assumed: round", "memory": "assumed: round"},
)

DEVICES: Final = {
    sheet.name: sheet
    for sheet in (
        V100_PCIE_16GB,
        V100_SXM2_16GB,
        V100_SXM2_32GB,
        V100_SXM3_32GB,
        V100_SXM3_32GB_450W,
        A100_PCIE_80GB,
        A100_SXM4_40GB,
        A100_SXM4_80GB,
        H100_SXM5_80GB,
        H100_96GB_500W,
        H200_SXM_141GB,
        B200_SXM_180GB,
        GB200_186GB,
        L40S_48GB,
        RTX_4090_24GB,
        CPU_CORES,
        CLASSROOM_GPU,
    )
}
"""By name, family by family: the order in which they stand in for each other."""
