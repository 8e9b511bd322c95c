"""Real PyTorch execution traces of every schema, against independently computed figures."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path

from zerosim.importers import execution, read
from zerosim.importers.choice import ALL
from zerosim.importers.content import read_content
from zerosim.importers.execution.calls import COMMS
from zerosim.importers.execution.nodes import read_nodes
from zerosim.importers.loose_json import parse_json


def real_traces(shared: Path) -> dict[str, Path]:
    """By what the truth calls them."""
    param, tests = "facebookresearch+param/et_replay__tests__inputs__", "my_test__inputs__workload"
    hta = "facebookresearch+HolisticTraceAnalysis/tests__data__execution_trace__"
    files = {
        "resnet_2gpu_et": f"{param}1.1.0-chakra.0.0.4__resnet_2gpu_et.json.gz",
        "linear_et": f"{param}linear_et.json.gz",
        "megatron_et_0": f"astra-sim+astra-sim/{tests}__megatron-tp8__megatron_et_0.json.gz",
        "megatron_et_1": f"astra-sim+astra-sim/{tests}__megatron-tp8__megatron_et_1.json.gz",
        "benchmark_simple_add_et": f"{hta}benchmark_simple_add_et.json.gz",
    }
    return {name: shared / file for name, file in files.items()}


def test_every_real_trace_gives_the_figures_of_the_truth(shared: Path) -> None:
    truth = json.loads((shared / "truth_give.json").read_text())["other"]
    for name, path in real_traces(shared).items():
        (told,) = [value for key, value in truth.items() if f"/{name}.json" in key]
        content = read_content(path)
        nodes, lost = read_nodes(parse_json(content).document["nodes"])
        names = Counter(n.name for n in nodes)
        (found,) = execution.parse(content, ALL)
        assert lost == ()
        assert found.quality.events == told["nodes"]
        assert names[COMMS] == told["record_param_comms"]
        assert (len({n.id for n in nodes}) == len(nodes)) == told["ids_unique"]
        aten = sum(count for op, count in names.items() if op.startswith("aten::"))
        assert aten == told["aten_nodes"]
        calls = {k: n for k, n in told["c10d_and_nccl_nodes"].items() if k.startswith("c10d::")}
        spans = found.spans.filter(found.spans["kind"] != "host")
        assert spans.height == sum(calls.values())
        assert found.quality.unsized == 0


def test_collectives_of_a_real_trace_have_the_names_dtypes_and_groups_of_the_truth(
    shared: Path,
) -> None:
    (found,) = execution.parse(read_content(real_traces(shared)["resnet_2gpu_et"]), ALL)
    spans = found.spans.filter(found.spans["kind"] != "host")
    assert Counter(spans.select("name", "dtype", "group").iter_rows()) == {
        ("allreduce", "float32", "0"): 15,
        ("broadcast", "float32", "0"): 3,
        ("broadcast", "int64", "0"): 3,
    }
    assert (found.rank, found.world_size) == (1, 2)


def test_archives_of_real_traces_load(shared: Path) -> None:
    pt2 = read([shared / "facebookresearch+param/et_replay__tests__inputs__pt2_et.json.tar.gz"])
    assert pt2.meta.quality.events == 20
    chakra = read([shared / "mlcommons+chakra/tests__data__1.0.2-chakra.0.0.4.tgz"])
    assert chakra.meta.quality.events == 263
    assert Counter(chakra.spans["kind"])["all_gather"] == 10


def test_a_real_fsdp_trace_on_gloo_has_units_and_steps(shared: Path) -> None:
    trace = read(sorted((shared / "own-gloo-fsdp2_rs").glob("et_rank?.json.gz")))
    spans = trace.spans.filter(trace.spans["kind"].is_in(["all_gather", "reduce_scatter"]))
    assert trace.ranks == (0, 1)
    assert Counter(spans["kind"]) == {"all_gather": 48, "reduce_scatter": 24}
    assert set(spans["unit"]) == {"root", "blocks.0", "blocks.1", "blocks.2"}
    assert Counter(spans["step"]) == {2: 24, 3: 24, 4: 24}


def test_the_quirk_of_a_trace_given_for_another(shared: Path, tmp_path: Path) -> None:
    quirk = shared / "quirks" / "45_execution_trace_instead.json"
    assert read([quirk]).meta.quality.unknown[0].startswith("when anything ran")
    zipped = tmp_path / "kineto.json"
    zipped.write_bytes(gzip.compress(quirk.read_bytes()))
    assert read([zipped]).spans.height == read([quirk]).spans.height
