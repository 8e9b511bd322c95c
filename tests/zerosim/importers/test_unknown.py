"""Files of no known format are called by what they are, and the sentence says what to do."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from tests.zerosim.importers.told import SHARED, TRUTH, held
from zerosim.errors import TraceFileError
from zerosim.importers import read
from zerosim.importers.unknown import describe

LOG = "text without a line of a known log (NCCL_DEBUG=INFO, nccl-tests, DeepSpeed's comms logger)"
TIMELINE = "a memory timeline of torch.profiler, not a trace"


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "an empty file"),
        (b"  \n", "an empty file"),
        (
            pickle.dumps({"version": "2.9"}),
            "a Python pickle, but no flight recorder dump or memory snapshot, and others are never loaded",
        ),
        (b"PK\x03\x04rest", "a zip archive"),
        (b"SQLite format 3\x00rest", "an SQLite database (an Nsight Systems export?)"),
        (b"x" * 257 + b"ustar", "a damaged or cut tar archive"),
        (b"\x28\xb5\x2f\xfdrest", "a Zstandard file (unpack it first)"),
        (
            "1 NCCL INFO".encode("utf-16"),
            "text in UTF-16 (save it as UTF-8: `iconv -f UTF-16 -t UTF-8`)",
        ),
        ("1 NCCL INFO".encode("utf-32"), "text in UTF-32 (save it as UTF-8)"),
        (b"\xfd7zXZ\x00rest", "an xz file (unpack it first)"),
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:0",
            "a Git LFS pointer, not the file itself (run `git lfs pull`)",
        ),
        (b"\n<!DOCTYPE HTML><title>Sign in</title>", "a web page (a download that failed?)"),
        (b'{"schema": "1.1.1", "nodes": []}', "a PyTorch execution trace (ET), not a Kineto trace"),
        (b'{"workload_graph": []}', "a Chakra trace"),
        (b'{"pg_config": {}, "entries": 5}', "a flight recorder dump"),
        (b'{"header": {}, "coll_perf": {}}', "an NCCL Inspector log"),
        (
            b'{"1": {"total": 7.5, "fwd_start": [0.1], "bwd_start": [0.2]}}',
            "a table of pipeline timings (Primus), not a trace",
        ),
        (
            b"[[-1, 1, 37888, 7], [1690000000, 2, 512, 7]]",
            f"{TIMELINE} (export the trace itself, with profile_memory=True)",
        ),
        (b"[[1, 2], [3, 4]]", "JSON without trace events"),
        (b"[]", "JSON without trace events"),
        (
            b'{"events": [], "format": "commcanary.trace.v1"}',
            "JSON of the format 'commcanary.trace.v1'",
        ),
        (b'{"format": "a\\nb\\u001b[31m"}', "JSON of the format 'a b [31m'"),
        (b'{"a": 1, "b\\n": 2}', "JSON without trace events (its keys are a, b )"),
        (
            b'{"1": 0, "2": 0, "3": 0, "4": 0, "5": 0, "6": 0, "7": 0, "8": 0, "9": 0}',
            "JSON without trace events (its keys are 1, 2, 3, 4, 5, 6, 7, 8, …)",
        ),
        (b"step 1 loss 2.5", LOG),
        (b"[2024-01-01 10:00] step 1", LOG),
        (b"[INFO] step 1", LOG),
        (b"{rank 1} loss 2.5", LOG),
        ("ein Protokoll für später".encode("latin-1"), LOG),
        (b"\x01\x00\x02", "a binary file of unknown format"),
        (b"\xff" * 99, "a binary file of unknown format"),
    ],
)
def test_unknown_files_are_called_by_what_they_are(data: bytes, what: str) -> None:
    assert describe(data) == what


def test_damaged_json_says_where() -> None:
    for data in (b'{"a": [', b"[1, 2", b'\xef\xbb\xbf {"a" 1}'):
        assert describe(data).startswith("no JSON, or damaged (")


def test_a_report_of_nsight_systems_has_to_be_exported_first() -> None:
    said = "an Nsight Systems report (run `nsys export --type sqlite` first)"
    assert describe(b"\x00\x01NVIDIA", "run.NSYS-REP") == said


REFUSED = {
    "AMD-AGI+Primus/*__config.json": "JSON without trace events (its keys are world_size, dp_size",
    "AMD-AGI+Primus/*__pp_rank_?.json": "a table of pipeline timings (Primus), not a trace",
    "iemAnshuman+CommCanary/*": "JSON of the format 'commcanary.trace.v1'",
    "facebookresearch+Holistic*/*memory_timeline.raw.gz": "a memory timeline of torch.profiler",
    "microsoft+superbenchmark/*megatron_deepspeed.log": LOG,
    "NVIDIA+nvidia-resiliency-ext/*.log": LOG,
    "NVIDIA+nvidia-resiliency-ext/*.txt": LOG,
    "*.md": LOG,
    "MANIFEST.json": "JSON without trace events",
    "truth_give.json": "JSON without trace events (its keys are about, kineto, other)",
    "quirks/EXPECTED.json": "JSON without trace events",
}


@pytest.mark.parametrize("pattern", REFUSED)
def test_files_beside_the_real_traces_are_refused_by_what_they_are(
    shared: Path, pattern: str
) -> None:
    paths = sorted(shared.glob(pattern))
    assert paths
    for path in paths:
        with pytest.raises(TraceFileError) as refusal:
            read([path])
        assert str(refusal.value).startswith(f"'{path}' is {REFUSED[pattern]}")
        assert ": known formats are exported, nccl-profiler, kineto" in str(refusal.value)


LEFT_OUT = ("10_unescaped_quotes_newline.json",)
"""Files of which an event cannot be read."""
DAMAGED = ("01_truncated.json", "02_truncated.json.gz", "50_malicious_pickle_0")
FOLDERS = sorted(path.name for path in SHARED.iterdir() if path.is_dir()) if TRUTH else []


@pytest.mark.parametrize("folder", held(FOLDERS))
def test_all_other_files_are_read_and_an_empty_run_says_why(shared: Path, folder: str) -> None:
    refused = {path for pattern in REFUSED for path in shared.glob(pattern)}
    paths = {path for path in (shared / folder).rglob("*") if path.is_file()} - refused
    for path in sorted(path for path in paths if path.name not in DAMAGED):
        trace = read([path])
        assert trace.spans.height or trace.meta.quality.warnings, path
        assert (trace.meta.quality.skipped > 0) == (path.name in LEFT_OUT), path
