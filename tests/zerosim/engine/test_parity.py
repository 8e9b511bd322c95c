"""Parity: programs that ASTRA-sim ran, reproduced to the nanosecond; files that are none, refused.

`tests/golden/peer` holds copies of three of the peer's files, made with ASTRA-sim 2's analytical,
congestion-unaware backend: a ring, a two-level ring, and one with a straggler.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import orjson
import pytest

from zerosim.engine.parity import run_parity
from zerosim.errors import InputError

COPIES = Path(__file__).parents[2] / "golden" / "peer"
SHARED = Path(__file__).parents[4] / "shared" / "peer_golden"
PEERS = sorted(SHARED.glob("*.json"))


@pytest.mark.parametrize(
    ("name", "step_ns"),
    [("ring_8_4", 54_382_016), ("r2d_64_4", 29_147_450), ("strag_1.0", 131_182_016)],
)
def test_a_peer_program_takes_the_time_the_peer_printed(name: str, step_ns: int) -> None:
    result = run_parity(COPIES / f"{name}.json")
    assert (result.got_ns, result.expected_ns) == (step_ns, step_ns)
    assert result.equal


def test_ranks_beside_a_straggler_end_when_the_peers_did() -> None:
    result = run_parity(COPIES / "strag_1.0.json")
    assert result.expected_by_rank is not None
    assert len(set(result.expected_by_rank)) > 1
    assert result.got_by_rank == result.expected_by_rank


@pytest.mark.skipif(not PEERS, reason="../shared/peer_golden is not beside the repository")
@pytest.mark.parametrize("path", PEERS, ids=lambda path: path.stem)
def test_every_peer_program_is_reproduced_to_the_nanosecond(path: Path) -> None:
    result = run_parity(path)
    assert result.equal, f"{result.name}: {result.got_ns} instead of {result.expected_ns}"


def changed(tmp_path: Path, **fields: Any) -> Path:
    record = orjson.loads((COPIES / "ring_8_4.json").read_bytes())
    (tmp_path / "peer.json").write_bytes(orjson.dumps(record | fields))
    return tmp_path / "peer.json"


def test_more_ranks_than_fit_are_refused_before_they_are_made(tmp_path: Path) -> None:
    path = changed(tmp_path, n_ranks=4 * 10**9, topology=["ring:4000000000"])
    with pytest.raises(InputError, match="n_ranks is 4000000000: give 1 to 1048576"):
        run_parity(path)


def test_a_wrong_expectation_is_not_met(tmp_path: Path) -> None:
    assert not run_parity(changed(tmp_path, expected_step_ns=54_382_017)).equal


def test_a_program_without_an_expectation_says_what_it_got(tmp_path: Path) -> None:
    record = orjson.loads((COPIES / "ring_8_4.json").read_bytes())
    del record["expected_step_ns"]
    (tmp_path / "peer.json").write_bytes(orjson.dumps(record))
    assert run_parity(tmp_path / "peer.json").got_ns == 54_382_016


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"3", b'{"name": 1}', b"\x80\x04K\x01."])
def test_a_file_that_is_no_program_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "peer.json").write_bytes(content)
    with pytest.raises(InputError, match="peer program"):
        run_parity(tmp_path / "peer.json")


def test_an_absent_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read peer program"):
        run_parity(tmp_path / "absent.json")


@pytest.mark.parametrize("name", ["/dev/zero", "pipe", "."])
def test_what_is_no_file_is_refused_at_once(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="is not a file: give a peer program"):
        run_parity(tmp_path / name)


def test_a_whole_number_may_be_written_with_a_point(tmp_path: Path) -> None:
    assert run_parity(changed(tmp_path, latency_ns=500.0)).equal


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("n_ranks", 0),
        ("n_ranks", 7),
        ("n_ranks", 10**12),
        ("topology", ["mesh:8"]),
        ("topology", [[8]]),
        ("topology", 8),
        ("latency_ns", 2**62),
        ("latency_ns", 1e300),
        ("endpoint_delay_ns", -1),
        ("topology", []),
        ("bandwidth_bytes_per_s", 0),
        ("bandwidth_bytes_per_s", -5),
        ("latency_ns", -1),
        ("unit_bytes", -1),
        ("ops", [{"id": 0, "kind": "AR", "deps": []}]),
        ("ops", [{"id": 0, "kind": "F", "deps": [1]}]),
        ("ops", [{"id": 0, "kind": "F", "deps": [], "dur_us": -4}]),
        ("ops", []),
        ("dur_us_by_rank", [[1.0]]),
        ("n_ranks", "8"),
        ("topology", ["ring:8", *["ring:1"] * 20]),
        ("latency_ns", -0.5),
        ("latency_ns", 1.5),
        ("endpoint_delay_ns", True),
        ("unit_bytes", None),
        ("ops", [{"id": 0, "kind": "F", "deps": []}, {"id": 1, "kind": "F", "deps": ["0"]}]),
        ("expected_step_ns", "soon"),
        ("expected_finish_ns_by_rank", [1.5]),
    ],
)
def test_a_program_that_makes_no_sense_is_refused(tmp_path: Path, field: str, value: Any) -> None:
    with pytest.raises(InputError):
        run_parity(changed(tmp_path, **{field: value}))
