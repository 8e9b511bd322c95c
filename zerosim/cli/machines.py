"""The machines as `zerosim list` shows them: all in a table, one with the source of each number."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from zerosim.cli.output import print_rows, print_table
from zerosim.hardware import GENERATIONS, MACHINES, Machine
from zerosim.hardware.published import busbw
from zerosim.units import format_bytes

_GB: Final = 1e9


def machine_rows(_library: Path) -> list[dict[str, Any]]:
    """Every machine, generation by generation, in base units."""
    return [_row(MACHINES[name]) for name in MACHINES]


def _row(machine: Machine) -> dict[str, Any]:
    cluster = machine.cluster(machine.ranks_per_node, "bfloat16")
    device = cluster.device
    return {
        "name": machine.name,
        "says": machine.says,
        "generation": GENERATIONS[machine.device.architecture],
        "device": device.name,
        "ranks_per_node": machine.ranks_per_node,
        "backend": machine.backend,
        "collectives": cluster.collectives,
        "peak_flops": device.peak_flops,
        "memory_bytes": device.memory_bytes,
        "memory_bandwidth": device.memory_bandwidth,
        "efficiency": device.efficiency,
        "intra_busbw": cluster.intra.busbw,
        "inter_busbw": cluster.inter.busbw,
        "sources": cluster.sources,
        "published": _figures(machine),
    }


def _figures(machine: Machine) -> list[dict[str, Any]]:
    return [
        {
            "kind": figure.kind.value,
            "n_ranks": figure.n_ranks,
            "nbytes": figure.nbytes,
            "busbw": figure.busbw,
            "predicted": busbw(figure, machine.cluster(figure.n_ranks, "bfloat16")),
            "split": figure.split,
            "source": figure.source,
            "off": figure.off,
        }
        for figure in machine.published
    ]


def print_machines(rows: list[dict[str, Any]]) -> None:
    """A line a machine: what a node is, and its links in GB/s."""
    print_table(
        ("name", "inside, GB/s", "between, GB/s", "a node"),
        [
            (
                row["name"],
                f"{row['intra_busbw'] / _GB:g}",
                f"{row['inter_busbw'] / _GB:g}",
                row["says"],
            )
            for row in rows
        ],
    )


def print_machine(row: dict[str, Any]) -> None:
    """What one machine is, where each number is from, and what was published of it."""
    print_rows(
        [
            ("machine", f"{row['name']}: {row['says']}"),
            ("device", f"{row['device']}, {format_bytes(row['memory_bytes'])}"),
            (
                "peak",
                f"{row['peak_flops'] / 1e12:g} TFLOP/s in 16 bits, {row['efficiency']:g} reached",
            ),
            ("inside", f"{row['intra_busbw'] / _GB:g} GB/s a rank"),
            ("between", f"{row['inter_busbw'] / _GB:g} GB/s a node"),
            ("collectives", f"{row['backend']}, model {row['collectives']}"),
            *((f"source of {name}", source) for name, source in row["sources"].items()),
            *(("published", _sentence(figure)) for figure in row["published"]),
        ]
    )


def _sentence(figure: dict[str, Any]) -> str:
    missed = f"; missed: {figure['off']}" if figure["off"] else ""
    return (
        f"{figure['kind']} of {format_bytes(figure['nbytes'])} over {figure['n_ranks']} ranks at "
        f"{figure['busbw'] / _GB:g} GB/s, here {figure['predicted'] / _GB:.1f} "
        f"({figure['source']}; {figure['split']}{missed})"
    )
