"""`zerosim extract`: a user's nn.Module in, a workload out, without a GPU and without its weights."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

import zerosim
from zerosim.cli.files import check_out, write_out
from zerosim.cli.options import Json
from zerosim.cli.output import log, print_json, print_rows
from zerosim.errors import InputError, RuntimeFailedError
from zerosim.models import Use, extracted
from zerosim.units import dtype_bytes, format_bytes, format_count
from zerosim.workload import Workload

Target = Annotated[
    str, typer.Argument(metavar="MODULE:FACTORY", help="A callable that returns an nn.Module.")
]
Out = Annotated[Path | None, typer.Option("-o", "--out", metavar="FILE", help="Write it here.")]
Batch = Annotated[int | None, typer.Option("--batch", help="Sequences of a micro-batch (1).")]
Seq = Annotated[int | None, typer.Option("--seq", help="Token ids of a sequence (1024).")]
Wrap = Annotated[
    str,
    typer.Option("--wrap", metavar="CLASS,…", help="Classes that make a unit (repeated blocks)."),
]
Dtype = Annotated[str, typer.Option("--dtype", help="Of new tensors, by torch's name.")]
Causal = Annotated[
    bool, typer.Option("--causal", help="Leave out FLOPs that a causal mask makes needless.")
]


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("extract")(extract)


def extract(
    target: Target,
    out: Out = None,
    batch: Batch = None,
    seq: Seq = None,
    wrap: Wrap = "",
    dtype: Dtype = "bfloat16",
    causal: Causal = False,
    json: Json = False,
) -> None:
    """Turn an nn.Module into a workload: parameters, order, FLOPs, activations.

    Use it with --set workload.file=FILE.
    """
    sizes = [f"--{n}={v}" for n, v in (("batch", batch), ("seq", seq)) if v is not None]
    extra = [f"--wrap={wrap}", f"--dtype={dtype}", *(["--causal"] if causal else [])]
    if out is not None:
        check_out(out)
    answer = _answer(target, [*sizes, *extra])
    record = answer["workload"]
    facts = _facts(answer)
    if out is not None:
        write_out(out, orjson.dumps(record, option=orjson.OPT_INDENT_2) + b"\n")
        log(f"stored {out}")
    if json:
        print_json(facts | {"workload": record})
    else:
        print_rows(_rows(facts))


def _answer(target: str, options: list[str]) -> dict[str, Any]:
    """What the fresh process says. Raises InputError, RuntimeFailedError."""
    for needed in ("zerosim_runtime", "torch"):
        if importlib.util.find_spec(needed) is None:
            raise InputError(
                f"extracting needs '{needed}', which is not installed: "
                "pip install torch, then zerosim[runtime]"
            )
    with tempfile.TemporaryDirectory(prefix="zerosim-") as scratch:
        place = Path(scratch) / "answer.json"
        command = [sys.executable, "-m", "zerosim_runtime.extract", *options]
        command += ["--", target, str(place)]
        with (Path(scratch) / "log").open("w+b") as said:
            child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, env=_environment()
            )
            try:
                code = child.wait()
            finally:
                child.kill()
                child.wait()
            said.seek(0)
            words = said.read()[-4096:].decode(errors="replace").strip().splitlines()
        if not place.is_file():
            last = f" ({words[-1]})" if words else ""
            raise RuntimeFailedError(f"extracting '{target}' {_ended(code)}{last}: mend it")
        answer: dict[str, Any] = orjson.loads(place.read_bytes())
    if "error" in answer:
        raise InputError(answer["error"])
    return answer


def _ended(code: int) -> str:
    """How a process ended that left no answer."""
    if code >= 0:
        return f"ended with code {code}"
    known = {s.value: s.name for s in signal.Signals}
    return f"was stopped by {known.get(-code, f'signal {-code}')}"


def _environment() -> dict[str, str]:
    homes = [Path(zerosim.__file__).parents[1]]
    spec = importlib.util.find_spec("zerosim_runtime")
    if spec is not None and spec.origin is not None:
        homes.append(Path(spec.origin).parents[1])
    paths = [*map(str, homes), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths)}


def _facts(answer: dict[str, Any]) -> dict[str, Any]:
    """What a reader asks first; FLOPs and bytes are of one micro-batch on one rank."""
    record = answer["workload"]
    parameters = [p for unit in record["units"] for p in unit["parameters"]]
    workload = _workload(record)
    full, causal = workload.counted_flops or (0, 0)
    width = dtype_bytes(record["dtype"])
    return {
        **{k: v for k, v in answer.items() if k != "workload"},
        "name": record["name"],
        "unused": [p["name"] for p in parameters if p.get("unused")],
        "frozen": [p["name"] for p in parameters if p.get("frozen")],
        "units": [unit.name for unit in workload.units],
        "layers": [layer.name for layer in workload.layers],
        "batch": record["batch"],
        "scales": record["scales"],
        "dtype": record["dtype"],
        "tokens": workload.tokens,
        "forward_flops": sum(layer.forward_flops for layer in workload.layers),
        "backward_flops": sum(layer.backward_flops for layer in workload.layers),
        "model_flops": full,
        "model_flops_causal": causal,
        "activations_bytes": width * sum(layer.activations for layer in workload.layers),
        "logits_bytes": width * sum(layer.logits for layer in workload.layers),
    }


def _workload(record: dict[str, Any]) -> Workload:
    """The workload with every parameter trainable: frozen ones are facts here, no obstacle."""
    units = [
        {**unit, "parameters": [{**p, "frozen": False} for p in unit["parameters"]]}
        for unit in record["units"]
    ]
    use = Use(record["batch"], 1, dtype_bytes(record["dtype"]), "none")
    return extracted({**record, "units": units}, use)


def _rows(facts: dict[str, Any]) -> list[tuple[str, str]]:
    units = facts["units"]
    shown = units if len(units) <= 6 else [*units[:3], "…", units[-1]]  # noqa: PLR2004 - a line
    grows = "any batch" if facts["scales"] else "no other batch"
    rows = [
        ("model", facts["name"]),
        ("parameters", _parameters(facts)),
        ("units", f"{len(units)}: {' '.join(shown)}"),
        ("micro-batch", f"{facts['batch']} ({facts['tokens']:,} tokens); {grows}"),
        ("forward", f"{format_count(facts['forward_flops'])} FLOPs"),
        ("backward", f"{format_count(facts['backward_flops'])} FLOPs"),
        ("activations", f"{format_bytes(facts['activations_bytes'])} in {facts['dtype']}"),
        ("scores", format_bytes(facts["logits_bytes"])),
    ]
    for name, what in (("frozen", "frozen"), ("unused", "in no op of the forward")):
        if facts[name]:
            rows.append((name, f"{len(facts[name])} tensors {what}: {', '.join(facts[name][:4])}"))
    return rows


def _parameters(facts: dict[str, Any]) -> str:
    tied = f", {facts['tied_tensors']} tied" if facts["tied_tensors"] else ""
    return f"{facts['n_params']:,} in {facts['tensors']} tensors{tied}"
