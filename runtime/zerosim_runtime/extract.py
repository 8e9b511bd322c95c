"""`python -m zerosim_runtime.extract MODULE:FACTORY ANSWER …`: the fresh process of `zerosim extract`."""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from pathlib import Path
from typing import Any, Final

import orjson
import torch
from torch import nn

from zerosim.errors import ScenarioError, UnknownNameError, ZerosimError
from zerosim_runtime.extraction.factory import make
from zerosim_runtime.extraction.record import Asked, record_of

DTYPES: Final = ("bfloat16", "float16", "float32", "float64")

_SEQ: Final = 1024


def main(arguments: list[str]) -> int:
    """Extract what `arguments` say and write the answer: a record and facts, or one sentence."""
    given = _parser().parse_args(arguments)
    warnings.simplefilter("ignore")  # of the user's code, which is not what was asked about
    try:
        answer = extract(
            given.target,
            batch=given.batch,
            seq=given.seq,
            wrap=tuple(filter(None, given.wrap.split(","))),
            dtype=given.dtype,
            causal=given.causal,
        )
    except ZerosimError as error:
        answer = {"error": str(error)}
    # Put in place whole: the caller reads it, however this process ends.
    scratch = given.answer.with_suffix(".part")
    scratch.write_bytes(orjson.dumps(answer))
    scratch.replace(given.answer)
    return 0


def extract(
    target: str,
    *,
    batch: int | None = None,
    seq: int | None = None,
    wrap: tuple[str, ...] = (),
    dtype: str = "bfloat16",
    causal: bool = False,
) -> dict[str, Any]:
    """The record of a user's model under `workload`, and beside it facts about the module.

    Raises ScenarioError, UnknownNameError.
    """
    if dtype not in DTYPES:
        raise UnknownNameError("dtype", dtype, DTYPES)
    for name, value in (("batch", batch), ("seq", seq)):
        if value is not None and value < 1:
            raise ScenarioError(f"--{name} is {value}: give at least 1")
    kind: torch.dtype = getattr(torch, dtype)
    made = make(target, kind)
    if made.has_inputs and (batch or seq):
        raise ScenarioError(
            f"'{target}' gives its own inputs, so --batch and --seq would do nothing: leave them out"
        )
    facts = _facts(made.module)
    asked = Asked(batch=batch or 1, seq=seq or _SEQ, wrap=wrap, dtype=kind, causal=causal)
    return {"workload": record_of(made, asked), **facts}


def _facts(module: nn.Module) -> dict[str, int]:
    parameters = list(module.parameters())
    places = sum(
        p is not None
        for part in module.modules()
        for p in part._parameters.values()  # noqa: SLF001 - no public way that shows ties
    )
    return {
        "n_params": sum(p.numel() for p in parameters),
        "trainable_params": sum(p.numel() for p in parameters if p.requires_grad),
        "tensors": len(parameters),
        "tied_tensors": places - len(parameters),
        "buffers_bytes": sum(b.numel() * b.element_size() for b in module.buffers()),
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="zerosim_runtime.extract")
    parser.add_argument("target")
    parser.add_argument("answer", type=Path)
    parser.add_argument("--batch", type=int)
    parser.add_argument("--seq", type=int)
    parser.add_argument("--wrap", default="")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--causal", action="store_true")
    return parser


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # the user's code may have left threads that never end
