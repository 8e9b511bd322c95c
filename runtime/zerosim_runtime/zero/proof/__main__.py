"""`python -m zerosim_runtime.zero.proof`: train every case in every mode beside DDP, and print a table."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from zerosim.errors import InputError, ZerosimError
from zerosim_runtime.zero.proof.cases import Training, gpu_trainings_of, trainings_of
from zerosim_runtime.zero.proof.harness import FOREVER_S, Outcome, outcomes

RANKS = (1, 2, 3, 4)


def main(words: Sequence[str]) -> int:
    """0 if every training is equal (and every planted bug noticed), 1 if not, 2 for bad input."""
    parser = argparse.ArgumentParser(prog="zerosim_runtime.zero.proof", description=__doc__)
    parser.add_argument(
        "--ranks", type=int, action="append", choices=RANKS, help="only so many (may be repeated)"
    )
    parser.add_argument("--only", action="append", help="only trainings whose name has this in it")
    parser.add_argument("--steps", type=int, help="so many steps instead of 20")
    parser.add_argument(
        "--device", choices=("cpu", "cuda"), default="cpu", help="cuda: a GPU a rank, and NCCL"
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=FOREVER_S,
        help="begin no training of a world size after so many",
    )
    asked = parser.parse_args(words)
    try:
        chosen = {n: _chosen(n, asked) for n in sorted(asked.ranks or RANKS, reverse=True)}
        if not any(chosen.values()):
            raise InputError(
                f"no training has {' or '.join(asked.only)} in its name: see docs/zero.md"
            )
        _check_device(asked.device, max(chosen))
        failed = _run(chosen, asked.device, asked.seconds)
    except ZerosimError as error:
        sys.stderr.write(f"zerosim: {error}\n")
        return 2
    return 1 if failed else 0


def _check_device(device: str, n_ranks: int) -> None:
    if device == "cuda" and torch.cuda.device_count() < n_ranks:
        raise InputError(
            f"{n_ranks} ranks need a GPU each, here are {torch.cuda.device_count()}: give fewer --ranks"
        )


def _chosen(n_ranks: int, asked: argparse.Namespace) -> list[Training]:
    trainings = trainings_of(n_ranks, asked.steps)
    if asked.device == "cuda":
        trainings = [
            replace(training, steps=asked.steps or training.steps)
            for training in gpu_trainings_of(n_ranks)
        ]
    return [
        training
        for training in trainings
        if not asked.only or any(part in training.name for part in asked.only)
    ]


def _run(chosen: dict[int, list[Training]], device: str, seconds: float) -> int:
    """Most ranks first: what they save, fewer load."""
    n_failed = 0
    with tempfile.TemporaryDirectory(prefix="zerosim-proof-saved-") as checkpoints:
        for n_ranks, trainings in chosen.items():
            if not trainings:
                continue
            began = time.monotonic()
            found = outcomes(
                trainings, n_ranks, Path(checkpoints), _tell, device=device, seconds=seconds
            )
            for outcome in found:
                print(_row(outcome), flush=True)  # noqa: T201 - its answer
            failed = [outcome for outcome in found if not outcome.passed]
            n_failed += len(failed)
            print(  # noqa: T201 - same
                f"{n_ranks} ranks: {len(found) - len(failed)} of {len(found)} trainings pass"
                f"{_left(len(trainings) - len(found))}, {time.monotonic() - began:.0f} s",
                flush=True,
            )
    return n_failed


def _left(n_left: int) -> str:
    return f", {n_left} not begun: time was up" if n_left else ""


def _row(outcome: Outcome) -> str:
    word = "pass" if outcome.passed else "FAIL"
    if outcome.error is not None:
        return f"{word}  {outcome.n_ranks}  {outcome.training.name:58} {outcome.error}"
    bits = "same bits" if outcome.bitwise else "other bits"
    return (
        f"{word}  {outcome.n_ranks}  {outcome.training.name:58} {bits:10}  "
        f"loss {outcome.loss_error:.1e}  parameters {outcome.parameter_error:.1e}"
    )


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - progress


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
