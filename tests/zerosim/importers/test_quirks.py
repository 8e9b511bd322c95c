"""Files that broke other tools: each is read as it should be or refused, and so are its siblings."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from zerosim.analysis.summary import summarize
from zerosim.errors import TraceFileError
from zerosim.importers import read
from zerosim.importers.choice import Choice
from zerosim.trace import Flag, Trace, flagged

QUIRKS = Path(__file__).parents[2] / "golden" / "quirks"
EXPECTED = {entry["file"]: entry for entry in json.loads((QUIRKS / "EXPECTED.json").read_text())}
US = 1000

STEP_5 = (5, 400 * US, 500 * US, 300 * US)
STEP_6 = (6, 400 * US, 500 * US, 300 * US)


def steps(trace: Trace) -> list[tuple[int | None, ...]]:
    (rank,) = summarize(trace)["ranks"]
    return [tuple(entry.values()) for entry in rank["by_step"]]


def quirk(name: str, choice: Choice | None = None) -> Trace:
    return read([QUIRKS / name], choice=choice or Choice())


@pytest.mark.parametrize("name", list(EXPECTED))
def test_every_quirk_becomes_a_trace_or_a_sentence(name: str) -> None:
    try:
        trace = quirk(name)
    except TraceFileError as refusal:
        assert name in str(refusal)  # noqa: PT017 - either outcome is right
        assert "\n" not in str(refusal)  # noqa: PT017 - either outcome is right
    else:
        assert (trace.spans["end_ns"] >= trace.spans["start_ns"]).all()


@pytest.mark.parametrize(
    ("name", "repaired"),
    [
        ("00_base.json", 0),
        ("04_gzip_two_members.json.gz", 0),
        ("05_plain_named_gz.json.gz", 0),
        ("06_gz_named_json.json", 0),
        ("07_backslash_paths.json", 1),
        ("08_control_char.json", 1),
        ("11_bare_NA_nan.json", 6),
        ("12_trailing_comma.json", 1),
        ("14_array_unclosed.json", 0),
        ("15_no_rank.json", 0),
        ("20_epoch_us_ints.json", 0),
        ("26_string_ts.json", 0),
        ("31_nccl_kernel_without_metadata.json", 0),
        ("34_cuda_sync_and_gpu_annotations.json", 0),
        ("36_uint64_ids.json", 0),
        ("37_string_pids.json", 0),
        ("42_device_not_rank.json", 0),
        ("43_memory_events.json", 0),
        ("46_bom.json", 0),
    ],
)
def test_the_figures_are_those_of_the_reference(name: str, repaired: int) -> None:
    trace = quirk(name)
    assert trace.ranks == (0,)
    assert steps(trace) == [STEP_5, STEP_6]
    quality = trace.meta.quality
    assert (quality.repaired, quality.skipped, quality.lost) == (repaired, 0, 0)
    assert len(quality.places) == repaired
    assert all(place.byte is not None for place in quality.places)


@pytest.mark.parametrize(
    "name", ["07_backslash_paths.json", "08_control_char.json", "11_bare_NA_nan.json"]
)
def test_strict_refuses_what_had_to_be_mended(name: str) -> None:
    with pytest.raises(
        TraceFileError, match=rf"repaired, the first in '{name}' at byte \d+: import"
    ):
        quirk(name, Choice(strict=True))


def test_strict_refuses_bytes_after_a_gzip(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes((QUIRKS / "04_gzip_two_members.json.gz").read_bytes() + b"rubbish")
    assert steps(read([path])) == [STEP_5, STEP_6]
    with pytest.raises(TraceFileError, match="bytes after its gzip end: ignored: import without"):
        read([path], choice=Choice(strict=True))


def test_strict_takes_what_is_sound() -> None:
    assert steps(quirk("00_base.json", Choice(strict=True))) == [STEP_5, STEP_6]


def test_a_cut_file_is_refused_with_the_byte_or_its_whole_events_are_kept() -> None:
    with pytest.raises(
        TraceFileError, match=r"01_truncated.json' ends inside an event at byte 6222"
    ):
        quirk("01_truncated.json")
    trace = quirk("01_truncated.json", Choice(salvage=True))
    assert (trace.meta.quality.events, trace.meta.quality.lost) == (24, 1)
    assert trace.meta.quality.warnings[0] == (
        "'01_truncated.json' ends at byte 6222 before its events do:"
        " 24 whole events kept, 1 cut, any number missing"
    )
    assert steps(trace)[0] == STEP_5
    with pytest.raises(TraceFileError, match=r"1 lost, the first in '01_truncated.json'"):
        quirk("01_truncated.json", Choice(strict=True, salvage=True))


def test_a_cut_gzip_is_named_and_salvaged() -> None:
    with pytest.raises(TraceFileError, match=r"02_truncated.json.gz' is a truncated gzip file"):
        quirk("02_truncated.json.gz")
    trace = quirk("02_truncated.json.gz", Choice(salvage=True))
    assert trace.meta.quality.lost == 1
    assert steps(trace)[0] == STEP_5


def test_an_event_with_bare_quotes_is_left_out_and_its_byte_named() -> None:
    trace = quirk("10_unescaped_quotes_newline.json")
    assert steps(trace) == [STEP_5, STEP_6]
    quality = trace.meta.quality
    assert (quality.skipped, [(p.byte, p.what) for p in quality.places]) == (
        1,
        [(847, "event left out")],
    )


def test_two_files_without_a_rank_do_not_both_become_rank_0(tmp_path: Path) -> None:
    raw = (QUIRKS / "15_no_rank.json").read_bytes()
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_bytes(raw)
    trace = read([tmp_path / "a.json", tmp_path / "b.json"])
    assert trace.ranks == (0, 1)
    assert "'a.json' does not say its rank: 0 by its place in line" in trace.meta.quality.warnings


def test_a_file_without_a_rank_is_of_the_rank_that_is_given() -> None:
    trace = quirk("15_no_rank.json", Choice(rank=3))
    assert trace.ranks == (3,)
    assert trace.meta.quality.warnings == ()
    with pytest.raises(
        TraceFileError, match="says itself that it is of rank 0: leave out --rank 3"
    ):
        quirk("00_base.json", Choice(rank=3))


def test_a_trace_without_events_has_no_figures() -> None:
    summary = summarize(quirk("17_no_events.json"))
    assert (summary["step_ns"], summary["overlap"], summary["ranks"]) == (None, None, [])


def test_without_steps_there_are_the_figures_of_the_whole() -> None:
    trace = quirk("18_no_profilerstep.json")
    (rank,) = summarize(trace)["ranks"]
    assert (rank["steps"], rank["by_step"]) == ([], [])
    whole = rank["whole"]
    assert (whole["compute_ns"], whole["comm_ns"]) == (800 * US, 1000 * US)
    assert whole["exposed_ns"] == 600 * US
    assert "steps: nothing marks them (no ProfilerStep)" in trace.meta.quality.unknown


def test_without_a_device_exposure_is_unknown_not_0() -> None:
    trace = quirk("19_cpu_only.json")
    assert steps(trace) == [(5, None, None, None), (6, None, None, None)]
    assert "durations of collectives, and what of them is exposed: no device was timed" in (
        trace.meta.quality.unknown
    )
    assert trace.spans["kind"].value_counts().height == 2


def test_decimals_are_read_as_decimals_however_few() -> None:
    first = (5, 400 * US + 700, 500 * US, 300 * US + 500)
    assert steps(quirk("23_fraction_not_zero_padded.json")) == [first, STEP_6]


def test_an_overlap_of_one_nanosecond_stays_one() -> None:
    spans = quirk("22_sub_us_overlap.json").spans.filter(pl.col("step") == 5)
    gather = spans.filter(pl.col("kind").cast(pl.String) == "all_gather")["end_ns"][0]
    gemm = spans.filter(pl.col("name").cast(pl.String).str.contains("(?i)gemm"))["start_ns"][0]
    assert gather - gemm == 1


def test_a_kernel_at_time_0_is_untimed_and_does_not_stretch_the_run() -> None:
    trace = quirk("25_ts_zero.json")
    assert trace.spans.filter(flagged(Flag.UNTIMED)).height == 1
    last = trace.spans["end_ns"].max()
    assert isinstance(last, int)
    assert last - trace.begin_ns < 3000 * US


def test_two_compute_streams_are_busy_together() -> None:
    assert steps(quirk("28_two_compute_streams.json"))[0] == (5, 410 * US, 500 * US, 300 * US)


def test_kernels_of_one_launch_belong_to_its_step() -> None:
    trace = quirk("29_duplicate_correlation.json")
    assert trace.spans.height == 6
    assert trace.spans["step"].unique().to_list() == [5]


def test_a_kernel_from_before_the_window_counts_by_time_alone() -> None:
    trace = quirk("32_spillover_kernel.json")
    assert trace.meta.quality.before_window == 1
    assert steps(trace) == [STEP_5, STEP_6]
    (rank,) = summarize(trace)["ranks"]
    assert rank["whole"]["comm_ns"] == (580 + 500) * US


def test_a_last_step_that_is_cut_is_incomplete() -> None:
    trace = quirk("39_last_step_cut.json")
    assert steps(trace)[1] == (6, 400 * US, 300 * US, 100 * US)
    assert any("its last step is incomplete" in w for w in trace.meta.quality.warnings)
    assert summarize(trace)["exposed_ns"] == 300 * US


def test_ranks_of_two_quarters_coincide() -> None:
    names = ("41_base_time_differs_rank0.json", "41_base_time_differs_rank1.json")
    trace = read([QUIRKS / name for name in names])
    starts = [trace.spans.filter(pl.col("rank") == rank)["start_ns"].to_list() for rank in (0, 1)]
    assert starts[0] == starts[1]
    assert trace.meta.clock.aligned


def test_memory_is_that_of_the_gpu() -> None:
    assert summarize(quirk("43_memory_events.json"))["peak_bytes"] == 1536


def test_a_malicious_pickle_runs_nothing() -> None:
    with pytest.raises(TraceFileError, match="50_malicious_pickle_0"):
        quirk("50_malicious_pickle_0")
    assert not Path("/tmp/zerosim_pickle_pwned").exists()  # noqa: S108 - what the pickle would write
