"""The command line as other programs see it: exact keys, exit codes, nothing on stdout but the answer."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from zerosim import __version__
from zerosim.cli import VERBS, run

Json = Callable[..., dict[str, Any]]
ROOT = Path(__file__).parents[3]
PEERS = ROOT / "tests" / "golden" / "peer"
GLOO = ROOT / "tests" / "golden" / "gloo_ddp"

SUMMARY = {
    *["name", "source", "world_size", "step_ns", "compute_ns", "comm_ns", "exposed_ns", "overlap"],
    *["tokens_per_s_per_rank", "mfu", "mfu_causal", "peak_bytes", "peak_reserved_bytes"],
    *["bytes_sent", "order", "engine", "ranks", "skew", "quality"],
}
RANK = {"rank", "steps", "whole", "by_step", "collectives", "peak_bytes", "states_bytes"}
LAYER = (768 * 768 + 768) * 4  # bytes of a layer of the lesson, which divides by 3


@pytest.fixture
def answer(capsys: pytest.CaptureFixture[str]) -> Json:
    """The JSON object that a command prints; it must be all of stdout."""

    def ask(*arguments: str) -> dict[str, Any]:
        capsys.readouterr()  # what a fixture printed before
        assert run([*arguments, "--json"]) == 0
        printed: dict[str, Any] = orjson.loads(capsys.readouterr().out)
        return printed

    return ask


@pytest.fixture
def two_runs(tmp_path: Path) -> tuple[Path, Path]:
    """A stored run, and one of the same lesson on a slower machine."""
    a, b = tmp_path / "a", tmp_path / "b"
    assert run(["simulate", "lesson-zero3", "-o", str(a), "--json"]) == 0
    words = ["--set", "intra_busbw=5e8", "--set", "keep_last=false"]
    assert run(["simulate", "lesson-zero3", *words, "-o", str(b), "--json"]) == 0
    return a, b


def test_simulate_answers_with_the_keys_of_the_contract(answer: Json) -> None:
    summary = answer("simulate", "lesson-zero3")
    assert summary.keys() == SUMMARY | {"error_band"}
    assert [rank.keys() for rank in summary["ranks"]] == [RANK] * 3
    rank = summary["ranks"][0]
    assert rank["steps"] == [{"step": 1, "start_ns": 0, "step_ns": summary["step_ns"]}]
    assert rank["whole"].keys() == {"compute_ns", "comm_ns", "mem_ns", "exposed_ns"}
    assert rank["by_step"][0].keys() == {"step", "compute_ns", "comm_ns", "exposed_ns"}
    assert rank["collectives"] == [
        {
            "kind": "all_gather",
            "dtype": "float32",
            "group_size": 3,
            "count": 5,
            "elements": 5 * LAYER // 4,
            "nbytes": 5 * LAYER,
        },
        {
            "kind": "reduce_scatter",
            "dtype": "float32",
            "group_size": 3,
            "count": 3,
            "elements": 3 * LAYER // 4,
            "nbytes": 3 * LAYER,
        },
    ]
    assert rank["states_bytes"] == {
        "parameters": LAYER,
        "gradients": LAYER,
        "optimizer": 2 * LAYER,
    }
    assert summary["skew"].keys() == {
        *["aligned", "n", "wait_ns_per_rank", "arrived_last_count", "straggler"]
    }
    assert summary["quality"] == {
        **dict.fromkeys(["events", "repaired", "skipped", "lost", "before_window", "unsized"], 0),
        "warnings": [],
    }


def test_the_lesson_runs_in_the_textbook_order(answer: Json) -> None:
    summary = answer("simulate", "lesson-zero3")
    assert summary["order"] == "AG0 F0 AG1 F1 AG2 F2 B2 RS2 AG1 B1 RS1 AG0 B0 RS0 OPT"
    assert (summary["name"], summary["source"]) == ("lesson-zero3", "simulated")


@pytest.mark.parametrize(
    ("words", "layers_sent"),
    [
        (["lesson-zero3"], 8),  # 3Ψ - P_last
        (["lesson-zero3", "--set", "keep_last=false"], 9),  # 3Ψ
        (["lesson-ddp"], 6),  # 2Ψ
        (["lesson-zero1"], 6),
        (["lesson-zero2"], 6),
        (["lesson-zero3", "--set", "micro_batches=2"], 16),
    ],
)
def test_bytes_sent_are_the_textbooks(answer: Json, words: list[str], layers_sent: int) -> None:
    assert answer("simulate", *words)["bytes_sent"] == layers_sent * LAYER * 2 // 3


def test_a_stored_run_shows_what_its_simulation_said(
    answer: Json, two_runs: tuple[Path, Path]
) -> None:
    simulated = answer("simulate", "lesson-zero3")
    assert simulated.pop("error_band") is None
    assert answer("show", str(two_runs[0])) == simulated


def test_several_steps_are_shown_by_their_last_one(answer: Json) -> None:
    summary = answer("simulate", "lesson-zero3", "--set", "steps=3")
    assert [s["step"] for s in summary["ranks"][0]["steps"]] == [1, 2, 3]
    assert summary["step_ns"] == summary["ranks"][0]["steps"][2]["step_ns"]
    assert summary["order"].split()[-1] == "OPT"


def test_compare_accounts_for_every_nanosecond_of_both(
    answer: Json, two_runs: tuple[Path, Path]
) -> None:
    result = answer("compare", *map(str, two_runs))
    assert result.keys() == {
        *["a", "b", "matched", "only_a", "only_b", "matched_share", "step_ratio"],
        *["accounting", "residuals"],
    }
    for side, path in zip("ab", two_runs, strict=True):
        step_ns = answer("show", str(path))["step_ns"]
        account = result["accounting"][side]
        assert account.keys() == {
            *["compute_ns", "exposed_ns", "wait_ns", "launch_ns", "optimizer_ns", "idle_ns"]
        }
        parts = [v if isinstance(v, int) else sum(v.values()) for v in account.values()]
        assert sum(parts) == step_ns
    assert result["step_ratio"] > 1
    assert result["only_b"] >= 1  # the second gather of the last layer
    assert result["residuals"][0].keys() == {"unit", "kind", "rank", "a_ns", "b_ns", "delta_ns"}


def test_a_run_compared_with_itself_differs_nowhere(
    answer: Json, two_runs: tuple[Path, Path]
) -> None:
    result = answer("compare", str(two_runs[0]), str(two_runs[0]))
    assert (result["only_a"], result["only_b"], result["matched_share"]) == (0, 0, 1.0)
    assert result["step_ratio"] == 1.0
    assert all(r["delta_ns"] == 0 for r in result["residuals"])


def test_parity_says_what_was_expected_and_what_came_out(answer: Json) -> None:
    (file,) = answer("parity", str(PEERS / "ring_8_4.json"))["files"]
    assert file.keys() == {
        *["name", "expected_ns", "got_ns", "equal", "expected_by_rank", "got_by_rank"]
    }
    assert (file["expected_ns"], file["got_ns"], file["equal"]) == (54382016, 54382016, True)


def test_parity_fails_when_a_program_differs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = orjson.loads((PEERS / "ring_8_4.json").read_bytes())
    path = tmp_path / "other.json"
    path.write_bytes(orjson.dumps(record | {"expected_step_ns": 1}))
    assert run(["parity", str(path), "--json"]) == 1
    assert orjson.loads(capsys.readouterr().out)["files"][0]["equal"] is False


@pytest.mark.parametrize(
    ("what", "name"),
    [
        ("presets", "lesson-zero3"),
        ("schedules", "zero2"),
        ("clusters", "dgx-h100"),
        ("engines", "auto"),
        ("conventions", "fsdp2-mixed"),
    ],
)
def test_list_names_what_there_is(answer: Json, what: str, name: str) -> None:
    assert name in [row["name"] for row in answer("list", what)[what]]


def test_runs_are_listed_renamed_and_deleted(
    answer: Json, two_runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    library = ["--library", str(two_runs[0].parent)]
    assert [row["name"] for row in answer("list", "runs", *library)["runs"]] == ["a", "b"]
    assert run(["runs", "rename", "a", "first", *library]) == 0
    assert run(["runs", "delete", "b", *library]) == 0
    capsys.readouterr()
    assert [row["name"] for row in answer("runs", "list", *library)["runs"]] == ["first"]


def test_without_json_people_read_lines_of_names_and_values(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["simulate", "lesson-zero3", "--set", "world_size=5"]) == 0
    printed = capsys.readouterr()
    lines = dict(line.split(maxsplit=1) for line in printed.out.splitlines())
    assert lines["order"] == "AG0 F0 AG1 F1 AG2 F2 B2 RS2 AG1 B1 RS1 AG0 B0 RS0 OPT"
    # 768² is 1 short of a multiple of 5, and 768 is 2 short of one: 3 elements a layer.
    assert lines["padding"].startswith("9 of 1.772 M parameters")


def test_a_command_answers_on_stdout_and_logs_to_stderr(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["simulate", "lesson-zero3", "-o", str(tmp_path / "r"), "--json"]) == 0
    printed = capsys.readouterr()
    assert orjson.loads(printed.out)["name"] == "lesson-zero3"
    assert printed.err == f"stored {tmp_path / 'r'}\n"


def test_the_version_is_the_packages(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"zerosim {__version__}\n"


def test_an_import_without_a_place_lies_in_runs_under_its_name(
    answer: Json, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    summary = answer("import", *(str(path) for path in sorted(GLOO.iterdir())))
    assert summary.keys() == SUMMARY | {"report"}
    assert (summary["name"], summary["source"]) == ("gloo_ddp", "imported")
    assert [rank["rank"] for rank in summary["ranks"]] == [0, 1]
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["gloo_ddp"]


@pytest.mark.parametrize("verb", list(VERBS))
def test_every_verb_explains_itself(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([verb, "--help"]) == 0
    assert "Usage: zerosim" in capsys.readouterr().out


@pytest.mark.parametrize(("closed", "code"), [(">&-", 0), ("2>&-", 0), (">&- 2>&- <&-", 0)])
def test_a_caller_that_closes_its_streams_gets_the_exit_code(closed: str, code: int) -> None:
    command = f'"{sys.executable}" -m zerosim list engines {closed}'
    done = subprocess.run(["/bin/sh", "-c", command], cwd=ROOT, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (code, b"")


STOPPED = """
import os, signal, sys, tempfile
from zerosim import cli
signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever pytest was started with
signal.signal(signal.SIGHUP, signal.SIG_DFL)
def work(arguments):
    with tempfile.TemporaryDirectory(dir=sys.argv[1]):
        os.kill(os.getpid(), int(sys.argv[2]))
cli.run = work
try:
    cli.main()
except KeyboardInterrupt:
    sys.exit(130)
"""


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_who_is_told_to_stop_cleans_up_first(stop: signal.Signals, tmp_path: Path) -> None:
    command = [sys.executable, "-c", STOPPED, str(tmp_path), str(int(stop))]
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == 130
    assert list(tmp_path.iterdir()) == []


PROBE = """
import sys
from zerosim.cli import run
code = run(["simulate", "lesson-zero3", "--json"])
heavy = {"torch", "dash", "plotly", "dash_mantine_components", "zerosim_app", "zerosim_runtime"}
sys.stderr.write(f"{code} {sorted(heavy & set(sys.modules))}")
"""


def test_simulating_imports_neither_torch_nor_dash_nor_plotly() -> None:
    path = os.pathsep.join(str(ROOT / part) for part in (".", "app", "runtime"))
    done = subprocess.run(
        [sys.executable, "-c", PROBE],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == "0 []"
    assert orjson.loads(done.stdout)["world_size"] == 3
