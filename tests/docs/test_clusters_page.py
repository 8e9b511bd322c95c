"""The page of the clusters: an overview, then a section for each machine, with its sources."""

from __future__ import annotations

from pathlib import Path

from zerosim.hardware import GENERATIONS, MACHINES, Machine
from zerosim.hardware.published import busbw

INTRO = """\
# Clusters

Generated from `zerosim/hardware/`: `make docs` writes it anew.
Rates are per second; a scenario's `[cluster]` fields change them.
`zerosim list machines` prints them, and [machines.md](machines.md) tells how to add your own.
Inside a node: a rank's bus bandwidth, as nccl-tests prints it; between nodes: all network cards of a node together.
"""


def test_the_clusters_page_is_what_the_machines_say(docs: Path, update_docs: bool) -> None:
    parts = [INTRO, overview(), *(section(MACHINES[name]) for name in MACHINES)]
    page, text = docs / "clusters.md", "\n".join(parts)
    if update_docs:
        page.write_text(text)
    assert page.read_text() == text, f"{page.name} is old: run `make docs`"


def overview() -> str:
    parts = []
    for architecture, label in GENERATIONS.items():
        machines = [m for m in MACHINES.entries.values() if m.device.architecture == architecture]
        rows = [
            f"| [{m.name}](#{m.name}) | {m.says} | {m.device.memory_bytes / 1e9:.0f} GB "
            f"| {m.intra.busbw / 1e9:g} | {m.inter.busbw / 1e9:g} |"
            for m in machines
        ]
        head = (
            f"| {label} | a node | memory | inside, GB/s | between, GB/s |\n|---|---|---|---|---|"
        )
        parts.append("\n".join([head, *rows]) + "\n")
    return "\n".join(parts)


def section(machine: Machine) -> str:
    cluster = machine.cluster(machine.ranks_per_node, "bfloat16")
    device, host = cluster.device, cluster.host
    rows = [
        ("device", device.name),
        ("ranks per node", str(machine.ranks_per_node)),
        ("backend", machine.backend),
        ("peak, 16 bit", f"{device.peak_flops / 1e12:g} TFLOP/s"),
        ("peak, float32", f"{machine.device.peak_flops['float32'] / 1e12:g} TFLOP/s"),
        ("efficiency, launch", f"{device.efficiency:g}, {device.launch_s * 1e6:g} µs"),
        ("memory", f"{device.memory_bytes / 1e9:g} GB at {device.memory_bandwidth / 1e9:g} GB/s"),
        (
            f"{machine.intra.name}, a rank",
            f"{machine.intra.busbw / 1e9:g} GB/s busbw, {machine.intra.hop_s * 1e6:g} µs a hop",
        ),
        (
            f"{machine.inter.name}, a node",
            f"{cluster.inter.busbw / 1e9:g} GB/s busbw, {machine.inter.hop_s * 1e6:g} µs a hop",
        ),
        ("collectives", cluster.collectives),
        (
            "host",
            f"{host.issue_s * 1e6:g} µs a kernel, {host.collective_s * 1e6:g} µs a collective",
        ),
    ]
    table = "\n".join(f"| {k} | {v} |" for k, v in rows)
    sources = "\n".join(f"- {k}: {v}" for k, v in cluster.sources.items())
    return (
        f"## {machine.name}\n\n{machine.says[:1].upper()}{machine.says[1:]}.\n\n"
        f"| what | value |\n|---|---|\n{table}\n\nSources:\n\n{sources}\n{figures(machine)}"
    )


def figures(machine: Machine) -> str:
    """What was published of it, and what the model gives: to be fitted (calib) or only compared."""
    if not machine.published:
        return ""
    rows = [
        f"| {f.kind} | {f.n_ranks} | {f.nbytes / 1e9:.3g} GB | {f.busbw / 1e9:g} "
        f"| {busbw(f, machine.cluster(f.n_ranks, 'bfloat16')) / 1e9:.1f} "
        f"| {f.split} | {f.source}{f'; missed: {f.off}' if f.off else ''} |"
        for f in machine.published
    ]
    head = "| published | ranks | bytes | GB/s | here | split | source |\n|---|---|---|---|---|---|---|"
    return "\n".join(["", head, *rows]) + "\n"
