"""The most that a rank holds under the library, byte for byte as its closed formula says."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from tests.runtime.zero.peak_program import BLOCK_BYTES, BLOCKS
from zerosim_runtime.launch import run_ranks

pytestmark = pytest.mark.runtime
PROGRAM = Path(__file__).with_name("peak_program.py")
ALL = BLOCKS * BLOCK_BYTES


@pytest.mark.parametrize(
    ("n_ranks", "written_out"),
    [(2, [22_654_464, 16_859_136, 14_751_744]), (4, [17_912_832, 12_117_504, 8_692_992])],
)
def test_each_stage_holds_what_its_formula_says_and_less_than_the_one_before(
    tmp_path: Path, n_ranks: int, written_out: list[int]
) -> None:
    code = run_ranks([str(PROGRAM), str(tmp_path)], tmp_path, n_ranks)
    assert code == 0, (tmp_path / "torchrun.log").read_text()

    found = [orjson.loads((tmp_path / f"report-{r}.json").read_bytes()) for r in range(n_ranks)]
    row, bucket = ALL // n_ranks, BLOCK_BYTES

    assert found == [written_out] * n_ranks
    ddp = 4 * ALL
    zero1 = 2 * ALL + 3 * row + bucket
    zero2 = ALL + 3 * row + 2 * bucket
    zero3 = 3 * row + 5 * bucket + (BLOCKS - 2) * bucket // n_ranks
    assert [zero1, zero2, zero3] == written_out
    assert ddp > zero1 > zero2 > zero3
