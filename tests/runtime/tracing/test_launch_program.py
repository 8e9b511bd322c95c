"""`zerosim trace -- PROGRAM`: what becomes of it when all is well, and when it is not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from zerosim.store import load_run
from zerosim.trace import Trace

ALONE = str(Path(__file__).with_name("alone.py"))


def command(out: Path, *words: str) -> list[str]:
    options = [*words[: words.index("--")]] if "--" in words else []
    program = [*words[words.index("--") + 1 :]] if "--" in words else [*words]
    verb = [sys.executable, "-m", "zerosim", "trace", "-o", str(out), *options, "--"]
    return [*verb, sys.executable, *program]


def environment() -> dict[str, str]:
    loopback = {"GLOO_SOCKET_IFNAME": "lo"} if Path("/sys/class/net/lo").exists() else {}
    return os.environ | loopback | {"PYTHONPATH": os.pathsep.join(sys.path)}


def traced(out: Path, *words: str) -> tuple[int, str]:
    done = subprocess.run(
        command(out, *words),
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return done.returncode, done.stderr


def kept(out: Path) -> Trace:
    assert not out.with_name(f"{out.name}.parts").exists()
    return load_run(out)


@pytest.mark.runtime
def test_a_program_that_forks_is_traced_and_its_child_is_not(tmp_path: Path) -> None:
    code, said = traced(tmp_path / "run", ALONE, "fork")
    assert code == 0, said
    trace = kept(tmp_path / "run")
    assert (trace.meta.name, trace.meta.finished, trace.spans.height) == ("alone", True, 2)
    assert trace.spans["flags"].to_list() == [0, 0]


@pytest.mark.runtime
def test_what_torch_records_lies_in_the_same_run(tmp_path: Path) -> None:
    out = tmp_path / "run"
    code, said = traced(out, "--kineto", "--flight-recorder", "--", ALONE, "well")
    assert code == 0, said
    trace = kept(out)
    assert trace.spans.height == 2
    events = orjson.loads((out / "kineto" / "rank-0.json").read_bytes())["traceEvents"]
    assert "gloo:all_reduce" in {event.get("name") for event in events}
    recorded = orjson.loads((out / "flight-recorder" / "rank-0.json").read_bytes())
    assert len(recorded["entries"]) == 2
    assert trace.provenance["files"] == [
        *("flight-recorder/rank-0.json", "kineto/rank-0.json", "program.log"),
    ]
    assert not (out / "tracer.log").exists()


@pytest.mark.runtime
def test_a_rank_that_raises_is_named_and_the_run_is_kept(tmp_path: Path) -> None:
    out = tmp_path / "run"
    code, said = traced(out, ALONE, "raise")
    assert code == 1
    last = said.splitlines()[-1]
    assert last.startswith("zerosim: rank 0 failed (ValueError: boom) ")
    assert last.endswith(f"what was recorded is kept as the unfinished run '{out}'")
    assert "(seq 0 of group 'world')" in last
    assert not kept(out).meta.finished
    assert "ValueError: boom" in (out / "program.log").read_text()


@pytest.mark.runtime
def test_a_rank_that_leaves_without_a_word_is_named(tmp_path: Path) -> None:
    out = tmp_path / "run"
    code, said = traced(out, ALONE, "exit")
    assert code == 1
    assert "zerosim: rank 0 ended with exit code 3 " in said
    assert kept(out).spans["kind"].to_list() == ["all_reduce"]


@pytest.mark.runtime
def test_ctrl_c_ends_all_and_keeps_what_was_recorded(tmp_path: Path) -> None:
    out = tmp_path / "run"
    process = subprocess.Popen(
        command(out, ALONE, "sleep"), env=environment(), stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    while process.stderr.readline() not in ("asleep\n", ""):
        pass
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130
    assert f"stopped: what was recorded is kept as the unfinished run '{out}'" in said
    trace = kept(out)
    assert (trace.meta.finished, trace.spans.height) == (False, 1)


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        ("pass", "no collective was issued by 'python': it never called init_process_group"),
        (
            "import sys; sys.exit(3)",
            "'python' ended with exit code 3 before its process group was made",
        ),
        ("if True print(1)", "before its process group was made (SyntaxError: invalid syntax)"),
    ],
)
def test_a_program_without_ranks_says_so_and_leaves_nothing(
    tmp_path: Path, code: str, sentence: str
) -> None:
    failed, said = traced(tmp_path / "run", "-c", code)
    assert failed == 1
    assert sentence in said
    assert [*tmp_path.iterdir()] == []


def test_what_an_earlier_run_left_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "run.parts").mkdir()
    code, said = traced(tmp_path / "run", "-c", "pass")
    assert code == 2
    assert "is left from an earlier run: `zerosim merge" in said
