"""What a measured series ran on: its machine by what its row says, or a reason why that is unknown."""

from __future__ import annotations

from dataclasses import replace

import pytest

from zerosim.hardware import MACHINES
from zerosim.kinds import Kind
from zerosim.validation.collective_rows import Row
from zerosim.validation.measured import Timing
from zerosim.validation.settings import _RULES, ONE_PROCESS, PER_GPU, Setting, setting_of


def row(hardware: str, gpu: str, n_nodes: int | None = 1, link: str = "", **rest: str) -> Row:
    timing = Timing(Kind.ALL_REDUCE, 16, n_nodes, 2**20, 1e-4)
    made = Row("r", "s", timing, hardware=hardware, gpu=gpu, inter_link=link)
    return replace(made, **rest)  # type: ignore[arg-type]


def test_every_rule_names_a_machine_that_there_is() -> None:
    assert [rule.cluster for rule in _RULES if rule.cluster not in MACHINES] == []


@pytest.mark.parametrize(
    ("hardware", "gpu", "n_nodes", "link", "cluster"),
    [
        ("2x AWS p4de.24xlarge", "A100-SXM4-80GB", 2, "EFA", "aws-p4de"),
        ("2x AWS p5.48xlarge", "H100-80GB", 2, "EFA", "aws-p5"),
        ("8x H200 (p5en) single node", "H200", 1, "", "aws-p5en"),
        ("4x AWS P6-B200", "B200", 4, "EFA v4 8x 50 GB/s", "aws-p6-b200"),
        ("2x GCP a3-megagpu-8g", "H100-80GB", 2, "GPUDirect-TCPXO", "gcp-a3-mega"),
        ("2x GCP a3-ultragpu-8g", "H200", 2, "RoCE (A3 Ultra)", "gcp-a3-ultra"),
        ("2x OCI BM.GPU.B4.8", "A100-SXM4-40GB", 2, "RDMA (RoCE)", "oci-a100-40gb"),
        ("2 nodes x 4 A100 Perlmutter", "A100", 2, "Slingshot", "perlmutter"),
        ("4 nodes x 8 A100", "A100", 4, "Omni-Path (Jean Zay)", "jean-zay-a100"),
        ("16 nodes x 4 V100-SXM2-32GB", "V100-SXM2-32GB", 16, "Omni-Path", "jean-zay-v100"),
        ("1 rack NVL72", "GB200", 18, "", "gb200-nvl72"),
        ("8x A100-SXM4-40GB single node", "A100-SXM4-40GB", 1, "", "dgx-a100-40gb"),
        ("12 nodes x 8 H100", "H100", 12, "InfiniBand, SHARP manifest", "dgx-h100"),
        ("8 of 8 B200", "B200", 1, "", "dgx-b200"),
    ],
)
def test_a_row_is_of_the_machine_that_it_describes(
    hardware: str, gpu: str, n_nodes: int, link: str, cluster: str
) -> None:
    found = setting_of(row(hardware, gpu, n_nodes, link))
    assert isinstance(found, Setting)
    assert found.cluster == cluster


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (row("8 GPUs, model not stated", ""), "its GPU is not stated"),
        (row("H100 SKU", "H100", None), "its number of nodes is not stated"),
        (
            row("2x8 H100 RoCE (mis-tuned per issue)", "H100", 2),
            "its source calls the machine badly",
        ),
        (row("8x MI355X", "MI355X"), "no machine of this kind is known here"),
        (
            row("2x8 H200", "H200", 2, "Ethernet"),
            "no machine here has H200 and the network 'Ethernet'",
        ),
    ],
)
def test_a_row_whose_machine_cannot_be_told_has_a_reason(made: Row, why: str) -> None:
    found = setting_of(made)
    assert isinstance(found, str)
    assert found.startswith(why)


def test_who_launched_it_is_read_from_the_notes_or_the_source() -> None:
    alone = setting_of(row("8x A100", "A100"))
    together = setting_of(row("8x A100", "A100", notes="one process driving 8 GPUs"))
    known = setting_of(row("8x A100", "A100", series="a100_x8_stas"))
    assert [s.launcher for s in (alone, together, known) if isinstance(s, Setting)] == [
        PER_GPU,
        ONE_PROCESS,
        ONE_PROCESS,
    ]


def test_a_run_with_nvls_off_a_stated_rate_and_sharp_is_set_so() -> None:
    off = setting_of(row("8 of 8 H200", "H200", algo="Ring (NCCL_NVLS_ENABLE=0)"))
    rate = setting_of(row("2x8 A100", "A100", 2, "4x HDR IB, SHARP"))
    stated = setting_of(replace(row("2x8 A100", "A100", 2, "4x HDR IB"), inter_gbps=800.0))
    assert isinstance(off, Setting)
    assert isinstance(rate, Setting)
    assert isinstance(stated, Setting)
    assert (off.nvls, rate.sharp, stated.inter_gbps) == (False, True, 800.0)


def test_what_is_taken_for_granted_is_said() -> None:
    found = setting_of(row("256x H100", "H100", 32))
    assert isinstance(found, Setting)
    assert found.assumed == ("network: 8 InfiniBand NDR cards, as a DGX H100",)
