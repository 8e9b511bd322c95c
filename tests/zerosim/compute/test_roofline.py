"""The additive roofline, held against measured A100 matrix products and sums that can be done by hand."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zerosim.cluster import Device
from zerosim.compute import FORMULA, compute_ns, table_of
from zerosim.compute.shapes import shapes_of
from zerosim.workload import Matmul, Work

# 1 FLOP/s would take years: 1 GFLOP/s, 1 GB/s, so that a FLOP or a byte takes 1 ns.
PLAIN = Device("plain", 1e9, 10**9, 1e9, efficiency=0.5, launch_s=10e-9)
A100_PCIE = Device("A100 PCIe 80GB", 312e12, 80 * 10**9, 1.94e12, efficiency=0.775, launch_s=14e-6)


def test_an_op_is_one_kernel_whose_flops_go_at_the_rate_of_matrix_products() -> None:
    # 10 to launch, 100 / 0.5, 30 bytes.
    assert compute_ns(100, 30, PLAIN) == 10 + 200 + 30


def test_nothing_to_do_takes_no_time() -> None:
    assert compute_ns(0, 0, PLAIN, Work(kernels=3)) == 0


def test_the_least_work_takes_a_launch() -> None:
    assert compute_ns(1, 0, A100_PCIE) == 14_001


def test_every_kernel_is_launched() -> None:
    assert compute_ns(100, 30, PLAIN, Work(kernels=4)) == 40 + 200 + 30


def test_attention_goes_at_a_rate_of_its_own() -> None:
    device = replace(PLAIN, attention_efficiency=0.25)
    # 60 of attention at 0.25, the other 40 at 0.5.
    assert compute_ns(100, 0, device, Work(attention_flops=60)) == 10 + 240 + 80


def test_attention_without_a_rate_of_its_own_goes_at_that_of_matrix_products() -> None:
    assert compute_ns(100, 0, PLAIN, Work(attention_flops=60)) == 10 + 200


def test_a_backward_that_computes_more_than_the_model_counts_takes_what_it_computes() -> None:
    assert compute_ns(100, 0, PLAIN, Work(attention_flops=120)) == 10 + 240


def test_memory_traffic_reaches_a_share_of_the_bandwidth() -> None:
    assert compute_ns(0, 30, replace(PLAIN, memory_efficiency=0.75)) == 10 + 40


def test_operands_of_a_matrix_product_pass_at_1_62_bandwidths() -> None:
    matmul = Matmul(2, 3, 9)
    # 108 FLOPs at 0.5; 6 + 27 + 18 = 51 elements of 2 bytes, / 1.62 = 62.96.
    assert compute_ns(108, 0, PLAIN, Work((matmul,))) == 10 + 216 + 63
    assert compute_ns(108, 0, PLAIN, Work((matmul,), width=4)) == 10 + 216 + 126


def test_a_result_that_is_added_to_float32_moves_8_bytes_an_element() -> None:
    matmul = Matmul(2, 3, 9, "NT", result_bytes=8)
    # 33 elements of 2 bytes, 18 of 8: 210 / 1.62 = 129.6.
    assert compute_ns(108, 0, PLAIN, Work((matmul,))) == 10 + 216 + 130


def test_a_measured_gemm_takes_2231_microseconds() -> None:
    # Check case H7: m 4096, k 5120, n 12288 on an A100-PCIe: 14 µs + F/(0.775·312e12) + B/(1.62·1.94e12).
    matmul = Matmul(4096, 5120, 12288, "NN")
    took = compute_ns(matmul.flops, 0, A100_PCIE, Work((matmul,)))
    assert took / 1000 == pytest.approx(2230.9, abs=0.1)


def test_a_shape_of_the_table_takes_what_was_measured_launch_included() -> None:
    # Check case H7: SimuMax measured an efficiency of 0.7403.
    matmul = Matmul(4096, 5120, 12288, "NN")
    device = replace(A100_PCIE, shapes="a100-pcie")
    took = compute_ns(matmul.flops, 0, device, Work((matmul,)))
    assert took / 1000 == pytest.approx(2231.4, abs=0.1)


def test_a_shape_that_nobody_measured_takes_what_the_formula_says() -> None:
    matmul = Matmul(4096, 5120, 12289, "NN")
    device = replace(A100_PCIE, shapes="a100-pcie")
    work = Work((matmul,))
    assert compute_ns(matmul.flops, 0, device, work) == compute_ns(matmul.flops, 0, A100_PCIE, work)


def test_a_table_of_bfloat16_says_nothing_of_float32() -> None:
    work = Work((Matmul(4096, 5120, 12288, "NN"),), width=4)
    device = replace(A100_PCIE, shapes="a100-pcie")
    assert compute_ns(1, 0, device, work) == compute_ns(1, 0, A100_PCIE, work)


def test_the_formula_errs_by_3_7_percent_on_the_a100_table() -> None:
    errors = []
    for (m, k, n, layout), efficiency in shapes_of("A100 PCIe 80GB").items():
        # A gradient of a weight was added to one in float32: 4 bytes read, 4 written.
        matmul = Matmul(m, k, n, layout, result_bytes=8 if layout == "NT" else None)
        took = compute_ns(matmul.flops, 0, A100_PCIE, Work((matmul,)))
        errors.append(abs(took / (matmul.flops / (efficiency * 312e3)) - 1))
    assert len(errors) == 183
    assert sum(errors) / 183 == pytest.approx(0.037, abs=0.001)
    assert max(errors) == pytest.approx(0.28, abs=0.01)


def test_the_tables_are_what_was_published() -> None:
    path = Path(__file__).parents[4] / "shared" / "measured" / "gemm_efficiency.csv"
    if not path.exists():
        pytest.skip("needs the shared measurements")
    names = {"A100-PCIe-80GB": "A100 PCIe 80GB", "B200": "B200 SXM 180GB"}
    with path.open() as file:
        rows = [row for row in csv.DictReader(file) if row["op"] == "matmul"]
    published: dict[tuple[str, str, str, str, str], set[float]] = {}
    for r in rows:
        key = (names[r["gpu"]], r["m"], r["k"], r["n"], r["layout"])
        published.setdefault(key, set()).add(float(r["efficiency"]))
    carried = {
        (device, str(m), str(k), str(n), layout): efficiency
        for device in names.values()
        for (m, k, n, layout), efficiency in shapes_of(device).items()
    }
    assert carried.keys() == published.keys()
    assert all(carried[key] in found for key, found in published.items())


def test_a_device_uses_the_table_that_was_measured_on_it() -> None:
    assert table_of("A100 PCIe 80GB") == "a100-pcie"
    assert table_of("B200 SXM 180GB") == "b200"
    assert table_of("A100 SXM4 80GB") == FORMULA


def test_an_adam_step_of_a_shard_of_7_5b_on_2_tb_per_second_takes_1_8_ms() -> None:
    device = replace(A100_PCIE, memory_bandwidth=2.0e12, launch_s=0.0)
    # Check case H5: 30 bytes a parameter, 64 ranks; unsharded 112.5 ms.
    assert compute_ns(0, 30 * 7_500_000_000 // 64, device) / 1e6 == pytest.approx(1.758, abs=0.001)
    assert compute_ns(0, 30 * 7_500_000_000, device) / 1e6 == pytest.approx(112.5, abs=0.001)


works = st.builds(
    Work,
    st.lists(
        st.builds(Matmul, *[st.integers(1, 300)] * 3, st.sampled_from(["TN", "NN", "NT"])),
        max_size=3,
    ).map(tuple),
    st.integers(0, 10**6),
    st.integers(1, 20),
)


def test_the_first_flash_attention_reaches_half_the_rate_of_the_second() -> None:
    device = replace(PLAIN, attention_efficiency=0.25, launch_s=0.0)
    second, first = Work(attention_flops=10**6), Work(attention_flops=10**6, attention="flash1")
    assert compute_ns(10**6, 0, device, first) == 2 * compute_ns(10**6, 0, device, second)


@given(works, st.integers(1, 10**7), st.integers(0, 10**7), st.integers(0, 10**6))
def test_more_work_never_takes_less(work: Work, flops: int, nbytes: int, more: int) -> None:
    took = compute_ns(flops, nbytes, PLAIN, work)
    assert compute_ns(flops + more, nbytes, PLAIN, work) >= took
    assert compute_ns(flops, nbytes + more, PLAIN, work) >= took
    assert compute_ns(flops, nbytes, PLAIN, replace(work, kernels=work.kernels + 1)) >= took
    attends = replace(work, attention_flops=work.attention_flops + more)
    assert compute_ns(flops, nbytes, PLAIN, attends) >= took
    multiplies = replace(work, matmuls=(*work.matmuls, Matmul(8, 8, 8)), kernels=work.kernels + 1)
    assert compute_ns(flops, nbytes, PLAIN, multiplies) >= took


@given(works, st.integers(1, 10**7), st.integers(0, 10**7))
def test_a_faster_device_never_takes_longer(work: Work, flops: int, nbytes: int) -> None:
    took = compute_ns(flops, nbytes, PLAIN, work)
    for faster in (
        replace(PLAIN, peak_flops=2e9),
        replace(PLAIN, efficiency=1.0),
        replace(PLAIN, attention_efficiency=0.6),
        replace(PLAIN, memory_bandwidth=2e9),
        replace(PLAIN, launch_s=0.0),
    ):
        assert compute_ns(flops, nbytes, faster, work) <= took
