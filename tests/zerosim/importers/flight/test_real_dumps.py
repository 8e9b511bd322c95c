"""Real flight recorder dumps: they load as plain values, and give the figures of the truth."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from zerosim.analysis.report import assess
from zerosim.errors import TraceFileError
from zerosim.importers import flight, read
from zerosim.importers.choice import ALL
from zerosim.importers.content import read_content
from zerosim.importers.loose_json import parse_json
from zerosim.importers.pickled import is_pickle, parse_pickle
from zerosim.trace import Flag, Trace


def rows(trace: Trace) -> list[dict[str, Any]]:
    columns = ("rank", "kind", "group", "elements", "nbytes", "dtype", "issued_ns", "flags")
    return trace.spans.select(columns).to_dicts()


REAL = ("NVIDIA+nvidia-resiliency-ext/*_dump_*", "own-gloo-*/fr_rank_*")


def real_dumps(shared: Path) -> list[Path]:
    return sorted(path for pattern in REAL for path in shared.glob(pattern))


def truth_of(path: Path, truth: dict[str, Any]) -> dict[str, Any]:
    folder, name = path.parent.name, path.name.removesuffix(".json")
    key = f"{folder.replace('+', '/', 1)}:{name.replace('___', '/_').replace('__', '/')}@"
    own = f"own-gloo:{folder.removeprefix('own-gloo-')}/{name}"
    found: dict[str, Any] = next(
        value for known, value in truth["other"].items() if known == own or known.startswith(key)
    )
    return found


def test_every_real_dump_loads_as_the_real_machine_would_load_it(shared: Path) -> None:
    pickled = [p for p in real_dumps(shared) if is_pickle(p.read_bytes())]
    assert len(pickled) == 44
    for path in pickled:
        expected = pickle.loads(path.read_bytes())  # noqa: S301 - known to be plain
        assert parse_pickle(read_content(path)) == expected


def test_every_real_dump_gives_the_figures_of_the_truth(shared: Path) -> None:
    truth = json.loads((shared / "truth_give.json").read_text())
    paths = real_dumps(shared)
    assert len(paths) == 56
    for path in paths:
        expected = truth_of(path, truth)
        content = read_content(path)
        plain = parse_pickle(content) if is_pickle(content.raw) else parse_json(content).document
        (found,) = flight.parse(content, ALL)
        spans = found.spans
        purpose = {e["process_group"][0]: e["process_group"][1] for e in plain["entries"]}
        by_op = Counter(
            f"{name.split(' ')[0]}|{purpose[group]}"
            for name, group in spans.select("name", "group").iter_rows()
        )
        assert spans.height == expected["entries"]
        assert dict(by_op) == expected["by_op"]
        assert spans.filter(spans["kind"] == "p2p").height == expected["p2p"]
        assert spans["issued_ns"].min() == expected["first_time_created_ns"]
        assert spans["issued_ns"].max() == expected["last_time_created_ns"]
        named = {g.name: list(g.ranks or ()) for g in found.groups}
        assert sorted(named.values()) == sorted(
            ranks for _, ranks in expected["pg_config"].values()
        )
        assert found.rank == int(path.name.removesuffix(".json").rpartition("_")[2])
        lag = {
            key: status_of(status, "last_enqueued") - status_of(status, "last_completed")
            for key, status in plain["pg_status"].items()
        }
        # A JSON twin was dumped a moment before the pickle that the truth was computed from.
        assert path.suffix or lag == expected["pg_status_lag"]
        ended = spans.height - sum(f & int(Flag.UNFINISHED) > 0 for f in spans["flags"])
        assert ended >= expected["retired"]


def status_of(status: dict[str, Any], which: str) -> int:
    return int(status[f"{which}_collective"])


def test_quirks_of_dumps(shared: Path) -> None:
    quirks = shared / "quirks"
    pickled = read([quirks / "49_flight_recorder_0"])
    twin = read([quirks / "51_flight_recorder_json_0.json"])
    assert pickled.spans["flags"].to_list() == [1, 1, 3]
    assert rows(pickled) == rows(twin)
    with pytest.raises(TraceFileError, match="names a global"):
        read([quirks / "50_malicious_pickle_0"])
    assert not Path("/tmp/zerosim_pickle_pwned").exists()  # noqa: S108 - what the trap would write


def test_ranks_that_called_nothing_any_more_are_not_missing(shared: Path) -> None:
    """The two ranks whose interpreter hung are those whose dumps are empty."""
    trace = read(sorted((shared / "NVIDIA+nvidia-resiliency-ext").glob("*lock_gil*_dump_*")))
    told = assess(trace)
    assert set(range(16)) - set(trace.ranks) == {10, 15}
    assert (told["ranks_present"], told["ranks_missing"]) == ([[0, 15]], [])
    assert [w.rpartition("___")[2] for w in told["warnings"] if "no calls" in w] == [
        *("dump_10' has no calls", "dump_15' has no calls")
    ]
    assert not any("clock" in w for w in told["warnings"])


def test_all_ranks_of_a_real_run_are_tied(shared: Path) -> None:
    trace = read(sorted((shared / "own-gloo-zero1").glob("fr_rank_?")))
    assert trace.meta.world_size == 4
    assert Counter(trace.spans["collective"].to_list()) == dict.fromkeys(range(123), 4)
