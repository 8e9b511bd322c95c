"""What a machine with GPUs can tell that others cannot: equality on NCCL, times, memory, rates; one report.

python benchmarks/gpu_check.py -o gpu-report.md          # every GPU of this machine, eight minutes at most
python benchmarks/gpu_check.py --cpu                     # what needs no GPU, on Gloo: does the check work?

It also works with a single GPU, and says what it could not check there.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import orjson
import polars as pl
import torch

from zerosim.store import load_run
from zerosim.trace import Flag

HOME = Path(__file__).parents[1]
BUDGET_S = 480
PROOF_S = 75
"""For the trainings of the proof of one world size."""
ENDING_S = 20
"""For what is under way then, and to end."""
MAX_RANKS = 4
"""The proof has cases for up to so many."""


@dataclass(frozen=True)
class Found:
    """One line of the report. `verdict`: pass, FAIL, seen (a figure without a bar), or not checked."""

    check: str
    verdict: str
    figure: str


@dataclass(frozen=True)
class Here:
    """Where it runs: on how many ranks, for how long, and where files go."""

    cpu: bool
    n_ranks: int
    until: float
    directory: Path

    @property
    def backend(self) -> str:
        """What ranks talk by."""
        return "gloo" if self.cpu else "nccl"

    def left_s(self, most: float) -> float:
        """Seconds that a check may take."""
        return max(1.0, min(most, self.until - time.monotonic()))


def main() -> int:
    """0 if nothing fails, 1 if something does, 2 if there is nothing to check."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--out", type=Path, default=Path("gpu-report.md"))
    parser.add_argument("--cpu", action="store_true", help="without a GPU: 2 ranks on Gloo")
    parser.add_argument("--seconds", type=int, default=BUDGET_S, help="all in all, at most")
    asked = parser.parse_args()
    n_gpus = torch.cuda.device_count()
    if not n_gpus and not asked.cpu:
        print(
            "gpu_check: torch sees no GPU here: give --cpu to check the check itself",
            file=sys.stderr,
        )
        return 2
    n_ranks = 2 if asked.cpu else min(n_gpus, MAX_RANKS)
    found: list[Found] = []
    with tempfile.TemporaryDirectory(prefix="zerosim-gpu-") as directory:
        here = Here(asked.cpu, n_ranks, time.monotonic() + asked.seconds, Path(directory))
        for check in CHECKS:
            began = time.monotonic()
            for each in _guarded(check, here):
                found.append(each)
                print(f"{each.verdict:12} {each.check:44} {each.figure}", flush=True)
            print(f"{'':12} ({time.monotonic() - began:.0f} s)", flush=True)
            asked.out.write_text(_report(found, here))
    print(f"report: {asked.out}")
    return 1 if any(each.verdict == "FAIL" for each in found) else 0


def _guarded(check: Callable[[Here], Iterator[Found]], here: Here) -> Iterator[Found]:
    """A check that breaks is a line of the report, and the next one runs."""
    name = check.__name__.removeprefix("check_").replace("_", " ")
    if time.monotonic() >= here.until:
        yield Found(name, "not checked", "the time was up")
        return
    try:
        yield from check(here)
    except subprocess.TimeoutExpired as late:
        yield Found(name, "FAIL", f"not done after {late.timeout:.0f} s")
    except (OSError, RuntimeError, ValueError, KeyError, orjson.JSONDecodeError) as error:
        yield Found(name, "FAIL", f"{type(error).__name__}: {error}"[:300])


def check_machine(here: Here) -> Iterator[Found]:
    """What it is."""
    yield Found("torch", "seen", torch.__version__)
    for i in range(0 if here.cpu else torch.cuda.device_count()):
        known = torch.cuda.get_device_properties(i)
        yield Found(f"GPU {i}", "seen", f"{known.name}, {known.total_memory / 2**30:.0f} GiB")
    if not here.cpu:
        nccl = ".".join(map(str, torch.cuda.nccl.version()))
        yield Found("CUDA, NCCL", "seen", f"{torch.version.cuda}, {nccl}")
    if here.n_ranks == 1:
        yield Found("several ranks", "not checked", "one GPU: collectives of one rank move nothing")


def check_equality(here: Here) -> Iterator[Found]:
    """The library beside DDP: `zerosim_runtime.zero.proof`, at all ranks and at one, as far as time goes."""
    for n in sorted({1, here.n_ranks}, reverse=True):
        seconds = here.left_s(PROOF_S)
        words = ["-m", "zerosim_runtime.zero.proof", "--ranks", str(n), "--seconds", str(seconds)]
        words += ["--steps", "4", "--only", "plain/zero"] if here.cpu else ["--device", "cuda"]
        done = _python(words, seconds + ENDING_S)
        *rows, last = done.stdout.strip().splitlines() or [done.stderr.strip()[-300:]]
        failed = [row for row in rows if row.startswith("FAIL")]
        yield Found(f"ZeRO library = DDP, {n} ranks", _verdict(done.returncode == 0), last)
        yield from (Found("  " + row.split()[2], "FAIL", row[:200]) for row in failed[:10])
        same = sum(" same bits " in row for row in rows)
        yield Found(f"  with the same bits, {n} ranks", "seen", f"{same} of {len(rows)}")
        if "not begun" in last:
            yield Found(f"  the other trainings, {n} ranks", "not checked", last)


def check_plans(here: Here) -> Iterator[Found]:
    """Plans carried out: the same losses whatever the schedule, and what the steps take."""
    losses: dict[str, list[float]] = {}
    sized = ["hidden=256", "layers=4"] if here.cpu else ["hidden=2048", "layers=8", "seq=1024"]
    for schedule in ("ddp", "zero1", "zero2", "zero3"):
        run = here.directory / schedule
        words = [w for s in (*sized, f"schedule={schedule}") for w in ("--set", s)]
        words = ["trace", "--nproc", str(here.n_ranks), "--backend", here.backend, *words]
        done = _zerosim([*words, "lesson-zero3", "-o", str(run), "--json"], here.left_s(45))
        if done.returncode:
            yield Found(f"plan {schedule}", "FAIL", done.stderr.strip()[-300:])
            continue
        answer = orjson.loads(done.stdout)
        figure = f"step {answer['step_ns'] / 1e6:.2f} ms, overlap {answer['overlap']}"
        yield Found(f"plan {schedule}", "pass", figure)
        kept = orjson.loads((run / "provenance.json").read_bytes())
        losses[schedule] = kept["losses"]["0"]
    if "ddp" in losses:
        worst = max(
            abs(a - b) / abs(b)
            for each in losses.values()
            for a, b in zip(each, losses["ddp"], strict=True)
        )
        yield Found("losses of all plans agree", _verdict(worst < 1e-5), f"worst {worst:.1e}")


def check_ranks(here: Here) -> Iterator[Found]:
    """Streams, events, memory and rates, by ranks of their own: `gpu_ranks.py`."""
    answer = here.directory / "ranks.json"
    words = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={here.n_ranks}"]
    words += [str(HOME / "benchmarks" / "gpu_ranks.py"), here.backend, str(answer)]
    done = _python(words, here.left_s(120))
    if done.returncode:
        yield Found("ranks", "FAIL", done.stderr.strip()[-300:])
        return
    yield from (Found(**each) for each in orjson.loads(answer.read_bytes()))


def check_traced_script(here: Here) -> Iterator[Found]:
    """A script with nothing of zerosim in it, traced from outside."""
    script, run = here.directory / "train.py", here.directory / "script"
    script.write_text(SCRIPT)
    words = ["trace", "--nproc", str(here.n_ranks), "-o", str(run), "--json"]
    words += [] if here.cpu else ["--kineto"]
    done = _zerosim([*words, "--", str(script)], here.left_s(60))
    if done.returncode:
        yield Found("FSDP2 script traced", "FAIL", done.stderr.strip()[-300:])
        return
    answer = orjson.loads(done.stdout)
    kinds = [word for word in (answer["order"] or "").split() if word.startswith(("AG", "RS"))]
    figure = f"{len(kinds)} collectives in a step, step {answer['step_ns']} ns"
    yield Found("FSDP2 script traced", _verdict(bool(kinds)), figure)
    spans = load_run(run).spans.filter(pl.col("kind").is_in(["all_gather", "reduce_scatter"]))
    timed = spans.filter((pl.col("flags") & int(Flag.UNTIMED)) == 0)
    figure = f"{timed.height} of {spans.height} gathers and reduce-scatters have start and end"
    yield Found(
        "times of traced collectives", _verdict(timed.height >= 0.99 * spans.height), figure
    )


CHECKS = (check_machine, check_ranks, check_plans, check_equality, check_traced_script)
SCRIPT = """
import os
import torch, torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

gpu = torch.cuda.is_available() and torch.cuda.device_count() >= int(os.environ["WORLD_SIZE"])
if gpu:
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl" if gpu else "gloo")
kind = "cuda" if gpu else "cpu"
mesh = init_device_mesh(kind, (dist.get_world_size(),))
model = nn.Sequential(*(nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256)) for _ in range(4))).to(kind)
for block in model:
    fully_shard(block, mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for _ in range(4):
    model(torch.randn(32, 256, device=kind)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
"""


def _verdict(holds: bool) -> str:
    return "pass" if holds else "FAIL"


def _zerosim(words: list[str], timeout_s: float) -> subprocess.CompletedProcess[str]:
    return _python(["-m", "zerosim", *words], timeout_s)


def _python(words: list[str], timeout_s: float) -> subprocess.CompletedProcess[str]:
    """Run Python with those words; after so many seconds it and all that it started are stopped."""
    paths = os.pathsep.join(str(HOME / part) for part in ("", "app", "runtime"))
    env = os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    # cuBLAS has the same bits every time only with a workspace of its own.
    env |= {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
    command = [sys.executable, *words]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=env,
        start_new_session=True,
    ) as process:
        try:
            out, err = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGTERM)  # torchrun and zerosim end their ranks
            with suppress(subprocess.TimeoutExpired):
                process.wait(ENDING_S / 2)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def _report(found: list[Found], here: Here) -> str:
    n = {
        word: sum(each.verdict == word for each in found)
        for word in ("pass", "FAIL", "not checked")
    }
    rows = "\n".join(f"| {e.check.strip()} | {e.verdict} | {e.figure} |" for e in found)
    where = f"{here.n_ranks} ranks on {here.backend}"
    counts = ", ".join(f"{count} {word}" for word, count in n.items())
    return f"# GPU check\n\n{where}: {counts}.\n\n| check | verdict | figure |\n|---|---|---|\n{rows}\n"


if __name__ == "__main__":
    sys.exit(main())
