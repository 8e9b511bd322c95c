"""comm_group.json says who is in a group, wherever it lies beside the traces: on disk or in an archive."""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from zerosim.chakra_schema import NodeType
from zerosim.importers import archive, read
from zerosim.trace import Trace

FOUR = b'{"3": [0, 1, 2, 3]}'
TWO = b'{"3": [0, 1]}'


@pytest.fixture
def raw(chakra: Any) -> bytes:
    """An all-gather to which each rank of group 3 gives 1024 bytes."""
    trace = chakra()
    given = {"comm_type": 2, "comm_size": 1024, "pg_name": "3", "duration_micros": 8}
    trace.node(NodeType.COMM_COLL, "gather", is_cpu_op=False, **given)
    packed: bytes = trace.raw()
    return packed


def tarred(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as packed:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            packed.addfile(member, io.BytesIO(content))
    return out.getvalue()


def tarred_and_gzipped(files: dict[str, bytes]) -> bytes:
    return gzip.compress(tarred(files))


def zipped(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in files.items():
            packed.writestr(name, content)
    return out.getvalue()


pack = pytest.mark.parametrize("pack", [tarred, tarred_and_gzipped, zipped])


def of(tmp_path: Path, content: bytes) -> Trace:
    path = tmp_path / "run.archive"
    path.write_bytes(content)
    return read([path])


def sizes(trace: Trace) -> list[int]:
    return trace.spans["nbytes"].to_list()


@pack
def test_in_an_archive_it_may_stand_behind_the_traces(
    pack: Any, raw: bytes, tmp_path: Path
) -> None:
    trace = of(tmp_path, pack({"a/run.0.et": raw, "a/run.1.et": raw, "a/comm_group.json": FOUR}))
    assert sizes(trace) == [4096, 4096]
    assert [(g.name, g.ranks) for g in trace.meta.groups] == [("3", (0, 1, 2, 3))]
    assert not any("who" in text or "how many" in text for text in trace.meta.quality.warnings)


@pack
def test_that_of_another_folder_says_nothing(pack: Any, raw: bytes, tmp_path: Path) -> None:
    files = {
        "a/run.0.et": raw,
        "b/run.1.et": raw,
        "b/comm_group.json": TWO,
        "comm_group.json": FOUR,
    }
    assert sizes(of(tmp_path, pack(files))) == [1024, 2048]


@pack
def test_an_archive_in_an_archive_has_its_own(pack: Any, raw: bytes, tmp_path: Path) -> None:
    inner = pack({"run.0.et": raw, "comm_group.json": TWO})
    assert sizes(of(tmp_path, pack({"inner": inner, "comm_group.json": FOUR}))) == [2048]


@pack
def test_one_that_is_damaged_or_too_big_is_as_if_it_were_not_there(
    pack: Any, raw: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    damaged = {"run.0.et": raw, "comm_group.json": FOUR[:-5]}
    assert sizes(of(tmp_path, pack(damaged))) == [1024]
    monkeypatch.setattr(archive, "MAX_COMPANIONS", len(FOUR) - 1)
    assert sizes(of(tmp_path, pack({"run.0.et": raw, "comm_group.json": FOUR}))) == [1024]


def test_a_gzipped_trace_has_that_of_its_folder(raw: bytes, tmp_path: Path) -> None:
    (tmp_path / "run.0.et.gz").write_bytes(gzip.compress(raw))
    (tmp_path / "comm_group.json").write_bytes(FOUR)
    assert sizes(read([tmp_path / "run.0.et.gz"])) == [4096]
