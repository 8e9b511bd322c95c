"""The answer of `zerosim memory --params`: states of every ZeRO stage, what the paper prints beside it."""

from __future__ import annotations

from typing import Any, Final

from zerosim.cli.output import print_rows, print_table
from zerosim.kinds import MEMORY_KINDS
from zerosim.memory.conventions import CONVENTIONS, Convention
from zerosim.memory.quoted import LARGEST, MEASURED, STATES, TABLE_2_BYTES, TABLE_2_RANKS, Quote
from zerosim.memory.states import STAGES, largest_model, states
from zerosim.units import format_bytes, format_count

_PAPER: Final = "paper"


def states_record(
    n_params: int, n_ranks: int, convention: Convention, stage: int, memory_bytes: int
) -> dict[str, Any]:
    """What `--json` prints; kinds that states are not of are None."""
    held = states(n_params, convention, stage, n_ranks)
    return {
        "convention": convention.name,
        "states_bytes": held.nbytes,
        "peak_bytes": None,
        "by_kind": {kind: held.by_kind.get(kind) for kind in MEMORY_KINDS},
        "fits": held.nbytes <= memory_bytes,
        "largest_model_params": largest_model(memory_bytes, convention, stage, n_ranks),
        "stage": stage,
        "n_params": n_params,
        "n_ranks": n_ranks,
        "memory_bytes": memory_bytes,
        "stages": stage_records(n_params, n_ranks, convention, memory_bytes),
        "conventions": [
            _beside(n_params, n_ranks, other) for other in CONVENTIONS.entries.values()
        ],
    }


def stage_records(
    n_params: int, n_ranks: int, convention: Convention, memory_bytes: int
) -> list[dict[str, Any]]:
    """Closed forms of each ZeRO stage, and what the paper prints for them."""
    rows: list[dict[str, Any]] = []
    for stage in STAGES:
        held = states(n_params, convention, stage, n_ranks)
        most = largest_model(memory_bytes, convention, stage, n_ranks)
        known = convention.name == _PAPER
        table_2 = known and (n_ranks, memory_bytes) == (TABLE_2_RANKS, TABLE_2_BYTES)
        rows.append(
            {
                "stage": stage,
                "states_bytes": held.nbytes,
                "by_kind": held.by_kind,
                "fits": held.nbytes <= memory_bytes,
                "largest_model_params": most,
                "quoted_bytes": _quoted(
                    STATES.get((n_params, n_ranks, stage), ()) if known else (), held.nbytes
                ),
                "quoted_params": _quoted(LARGEST.get((1, stage), ()) if table_2 else (), most),
                "measured_params": _quoted(MEASURED.get((1, stage), ()) if table_2 else (), most),
            }
        )
    return rows


def _quoted(quotes: tuple[Quote, ...], value: int) -> list[dict[str, Any]]:
    return [
        {
            "value": int(float(q.text) * q.unit),
            "text": q.text,
            "source": q.source,
            "agrees": q.agrees(value),
        }
        for q in quotes
    ]


def _beside(n_params: int, n_ranks: int, convention: Convention) -> dict[str, Any]:
    return {
        "name": convention.name,
        "says": convention.says,
        "bytes": [convention.parameters, convention.gradients, convention.optimizer],
        "states_bytes": [states(n_params, convention, s, n_ranks).nbytes for s in STAGES],
        "offers": list(convention.offers),
        "source": convention.source,
        "note": convention.note or None,
    }


def print_states(record: dict[str, Any]) -> None:
    """The same as text."""
    convention = CONVENTIONS[record["convention"]]
    ranks = f"{record['n_ranks']:,} rank{'s' if record['n_ranks'] > 1 else ''}"
    print_rows(
        [
            ("model", f"{format_count(record['n_params'])} parameters on {ranks}, states only"),
            ("convention", f"{convention.line} ({convention.source})"),
            *([("", convention.note)] if convention.note else []),
        ]
    )
    memory = format_bytes(record["memory_bytes"])
    print_table(
        ("ZeRO stage", "a rank", *_KINDS, "printed", f"fits {memory}", "largest", "printed", "ran"),
        [_stage_row(row) for row in record["stages"]],
    )
    print_table(
        ("convention", "bytes", *(f"stage {s}" for s in STAGES), "what"),
        [_convention_row(row) for row in record["conventions"]],
    )
    print_rows(_LEGEND)


_KINDS: Final = ("parameters", "gradients", "optimizer")
_LEGEND: Final = [
    ("printed", "what arXiv 1910.02054 prints for it; Δ: not the rounded arithmetic"),
    ("ran", "what it prints as measured: the rest is activations, buffers, fragmentation"),
    ("*", "arithmetic alone: the system has no such stage"),
]


def _stage_row(row: dict[str, Any]) -> tuple[str, ...]:
    return (
        str(row["stage"]),
        format_bytes(row["states_bytes"]),
        *(format_bytes(row["by_kind"][kind]) for kind in _KINDS),
        _printed(row["quoted_bytes"], "GB"),
        "yes" if row["fits"] else "no",
        format_count(row["largest_model_params"]),
        _printed(row["quoted_params"], "B"),
        ", ".join(f"{q['text']} B" for q in row["measured_params"]) or "-",
    )


def _printed(quotes: list[dict[str, Any]], unit: str) -> str:
    """Each printed figure, with a Δ where it is not the rounded arithmetic."""
    return ", ".join(f"{q['text']} {unit}{'' if q['agrees'] else ' Δ'}" for q in quotes) or "-"


def _convention_row(row: dict[str, Any]) -> tuple[str, ...]:
    held = [
        format_bytes(nbytes) + ("" if stage in row["offers"] else " *")
        for stage, nbytes in zip(STAGES, row["states_bytes"], strict=True)
    ]
    return (row["name"], " + ".join(map(str, row["bytes"])), *held, row["says"])
