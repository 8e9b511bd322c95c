"""A scenario carried out in the lab: an agent a node, one run, with what its links counted."""

from __future__ import annotations

from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl

from zerosim.scenario import Scenario, plan_of
from zerosim.trace import SAMPLES, Trace, make_trace
from zerosim_runtime.agents import Node
from zerosim_runtime.lab.counters import Count, Counter, Reading, between, counting
from zerosim_runtime.lab.expected import expected
from zerosim_runtime.lab.links import UPLINK, Lab, congestion_control, open_lab
from zerosim_runtime.lab.shape import MTU, PORT, Shape, patience_s, payload_share
from zerosim_runtime.launch import Progress, measure, prepare, program, working_directory
from zerosim_runtime.rendezvous import Rendezvous


def run_lab(
    scenario: Scenario,
    shape: Shape,
    *,
    steps: int = 4,
    out: Path | None = None,
    progress: Progress | None = None,
    timeout_s: float | None = None,
    scatter: str = "native",
    **options: Any,  # noqa: ANN401 - those of `prepare`
) -> Trace:
    """Run a scenario on the ranks of a lab, and return what they and the links recorded.

    `scatter`: how they reduce-scatter, native or all-to-all (messages then go in pieces).

    The run is stored as `out` if that is given, also when a rank fails: then as an unfinished one.
    Raises InputError for what cannot be run, LabError if this machine can make no lab,
    RuntimeFailedError if a rank dies or nothing has moved for `timeout_s` (None: as long as its links may
    need); no process and no namespace stays behind.
    """
    asked = prepare(
        scenario, nproc=shape.world_size, steps=steps, backend="gloo", scatter=scatter, **options
    )
    asked = replace(asked, machine=machine_of(shape, scatter))
    with (
        working_directory() as directory,
        open_lab(shape) as lab,
        counting(lab) as counter,
    ):
        nodes = [_node(lab, index, directory) for index in range(shape.nodes)]
        return measure(
            asked,
            nodes,
            directory,
            out,
            progress,
            finish=lambda trace: with_links(trace, shape, counter),
            timeout_s=timeout_s or patience_s(plan_of(Scenario.from_dict(asked.scenario)), shape),
        )


def machine_of(shape: Shape, scatter: str = "native") -> dict[str, Any]:
    """The cluster section of a lab: what a program gets of a link once packets have their headers.

    Of packets of 1500 bytes the machine `lab` knows it, or a calibration does.
    """
    share = payload_share(shape.mtu)
    rate: dict[str, Any] = {"inter": f"{shape.inter * 8 / 1e6:.6g}Mbit"}
    return {
        "name": "lab",
        "world_size": shape.world_size,
        "ranks_per_node": shape.ranks_per_node,
        "scatter": scatter,
        **(rate if shape.mtu == MTU else {"inter_busbw": shape.inter * share}),
        **({} if shape.intra is None else {"intra_busbw": shape.intra}),
        **({} if not shape.latency_s else {"inter_hop_s": shape.latency_s}),
    }


def with_links(trace: Trace, shape: Shape, counter: Counter) -> Trace:
    """The run with its links: bytes a second as samples, totals beside what they should be."""
    origin = int(trace.provenance["origin_perf_ns"])
    readings = [Reading(r.time_ns - origin, r.counts) for r in counter.readings]
    samples = pl.concat([trace.samples, _samples(readings, shape)])
    links = _totals(trace, readings, shape)
    lab = asdict(shape) | {"congestion_control": congestion_control() or "default"}
    return make_trace(
        trace.spans, trace.meta, samples, trace.provenance | {"lab": lab, "links": links}
    )


def _node(lab: Lab, index: int, directory: Path) -> Node:
    place, shape = directory / f"node-{index}", lab.shape
    place.mkdir()
    return Node(
        program(place),
        place,
        shape.ranks_per_node,
        Rendezvous(shape.address(0), PORT, shape.nodes, index),
        address=shape.address(index),
        interface=UPLINK,
        prefix=lab.nodes[index].prefix,
        n_here=shape.world_size,
    )


def _totals(trace: Trace, readings: list[Reading], shape: Shape) -> list[dict[str, Any]]:
    """From the first op to the last one's end, node by node. Bytes; `…_payload` without headers."""
    times = trace.spans.select(pl.col("issued_ns").min(), pl.col("end_ns").max()).row(0)
    counted = between(readings, *times)
    return [
        {
            "node": node,
            "ranks": [node * shape.ranks_per_node, (node + 1) * shape.ranks_per_node - 1],
            **_columns("sent", counts.sent),
            **_columns("received", counts.received),
            **_columns("inside", counts.inside),
            "expected_sent": round(wanted.sent),
            "expected_inside": round(wanted.inside),
            "left_out": wanted.unknown,
        }
        for node, (counts, wanted) in enumerate(
            zip(counted, expected(trace, shape.ranks_per_node), strict=True)
        )
    ]


def _columns(name: str, count: Count) -> dict[str, int]:
    return {f"{name}_bytes": count.nbytes, f"{name}_payload": count.payload}


def _samples(readings: list[Reading], shape: Shape) -> pl.DataFrame:
    """Counters `link.node-K.sent`, `.received` and `.inside` in bytes a second, on the node's first rank."""
    rows: list[tuple[int, int, str, int]] = []
    told: dict[str, int] = {}
    for before, after in pairwise(readings):
        if after.time_ns < 0:
            continue
        seconds = (after.time_ns - before.time_ns) / 1e9
        pairs = zip(before.counts, after.counts, strict=True)
        for node, (first, last) in enumerate(pairs):
            passed = last.since(first)
            for name in ("sent", "received", "inside"):
                counter, rate = (
                    f"link.node-{node}.{name}",
                    round(getattr(passed, name).nbytes / seconds),
                )
                if told.get(counter, 0) != rate:
                    told[counter] = rate
                    rows.append(
                        (max(0, before.time_ns), node * shape.ranks_per_node, counter, rate)
                    )
    return pl.DataFrame(rows, schema=SAMPLES, orient="row")
