"""Real Chakra files give the figures that others counted in them."""

from __future__ import annotations

import json
import tarfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from zerosim.importers import read
from zerosim.importers.chakra.rows import COMM_KINDS
from zerosim.kinds import COMMUNICATION
from zerosim.trace import Trace

NAMES = {
    kind.value: told.name for told, kind in COMM_KINDS.items() if not told.name.endswith("BLOCK")
}
FIRST_OF_RESNET_US = 13_003
"""Two files begin with a node, not with metadata; who counted them took it for that."""


@pytest.fixture
def truth(shared: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((shared / "truth_give.json").read_text())["other"]
    return {key.rpartition("@")[0].partition(":")[2]: value for key, value in found.items()}


def counted(trace: Trace) -> dict[str, int]:
    """How many collectives there are of each kind and size, by Chakra's names."""
    rows = trace.spans.select("kind", "nbytes").rows()
    found = Counter(f"{NAMES[k]}|{n}" for k, n in rows if k in COMMUNICATION and k != "p2p")
    return dict(found)


def lasted_us(trace: Trace) -> int:
    return int((trace.spans["end_ns"] - trace.spans["start_ns"]).sum()) // 1000


@pytest.mark.parametrize("rank", range(8))
def test_each_rank_of_the_all_gather_example(
    truth: dict[str, Any], shared: Path, rank: int
) -> None:
    folder = "examples/workload/microbenchmarks/all_gather/8npus_1MB"
    told = truth[f"{folder}/all_gather.{rank}.et"]
    name = f"{folder.replace('/', '__')}__all_gather.{rank}.et"
    trace = read([shared / "astra-sim+astra-sim" / name])
    assert trace.ranks == (rank,)
    assert trace.meta.quality.events == told["nodes"] == 1
    assert counted(trace) == told["collectives"] == {"ALL_GATHER|1048576": 1}


def test_the_custom_ring(truth: dict[str, Any], shared: Path) -> None:
    folder = "examples/system/custom_collectives/custom_ring_allreduce_8npus_1MB"
    told = truth[f"{folder}/custom_allreduce.0.et"]
    name = f"{folder.replace('/', '__')}__custom_allreduce.0.et"
    trace = read([shared / "astra-sim+astra-sim" / name])
    assert trace.meta.quality.events == told["nodes"] == 35
    assert Counter(trace.spans.select("kind", "nbytes").rows()) == {
        ("p2p", 131_072): told["types"]["COMM_SEND"] + told["types"]["COMM_RECV"],
        ("other", None): told["types"]["COMP"],
    }
    assert lasted_us(trace) == told["sum_duration_micros_field7"] == 49


@pytest.mark.parametrize("rank", [0, 1])
def test_resnet_begins_with_a_node(truth: dict[str, Any], shared: Path, rank: int) -> None:
    told = truth[f"runs/example/workload/resnet50_DataParallel.{rank}.et"]
    name = f"runs__example__workload__resnet50_DataParallel.{rank}.et"
    trace = read([shared / "astra-sim+astra-sim" / name])
    assert trace.meta.quality.events == told["nodes"] + 1 == 215
    assert counted(trace) == told["collectives"]
    assert lasted_us(trace) == told["sum_duration_micros_field7"] + FIRST_OF_RESNET_US


def test_the_feeder_trace(truth: dict[str, Any], shared: Path, tmp_path: Path) -> None:
    told = next(v for key, v in truth.items() if "feeder_tests_trace" in key)
    trace = read([_member(shared, "feeder_tests_trace.tar.gz", "tests/data/chakra.0.et", tmp_path)])
    assert trace.meta.quality.events == told["nodes"] == 3664
    assert lasted_us(trace) == told["sum_duration_micros_field7"] == 381_795
    # 14 calls on the host have neither kind nor size: they are no collectives here.
    sized = {key: n for key, n in told["collectives"].items() if not key.endswith("None")}
    assert counted(trace) == sized
    assert trace.meta.quality.warnings == ("'chakra.0.et' has 157 ops without a time",)


def test_the_json_form_says_the_same_as_the_protobuf(shared: Path, tmp_path: Path) -> None:
    binary = _member(shared, "feeder_tests_trace.tar.gz", "tests/data/chakra.0.et", tmp_path)
    text = _member(shared, "json_trace.tar.gz", "jsonData/chakra.0.json", tmp_path)
    one, other = read([binary]).spans, read([text]).spans
    for column in ("start_ns", "end_ns", "kind"):
        assert one[column].to_list() == other[column].to_list()


def test_an_archive_is_read_as_it_is(shared: Path) -> None:
    trace = read([shared / "mlcommons+chakra" / "tests__data__feeder_tests_trace.tar.gz"])
    assert (trace.ranks, lasted_us(trace)) == ((0,), 381_795)


def test_the_small_json(shared: Path, tmp_path: Path) -> None:
    trace = read([_member(shared, "json_trace.tar.gz", "jsonData/small_chakra.0.json", tmp_path)])
    assert (trace.spans.height, lasted_us(trace)) == (7, 318 + 28 + 4 + 85 + 79 + 28 + 153)


def _member(shared: Path, archive: str, name: str, tmp_path: Path) -> Path:
    with tarfile.open(shared / "mlcommons+chakra" / f"tests__data__{archive}") as tar:
        file = tar.extractfile(name)
        assert file is not None
        path = tmp_path / Path(name).name
        path.write_bytes(file.read())
    return path
