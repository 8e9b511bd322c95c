"""Random programs of ops in issue order, and what may differ between the ranks that run them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from zerosim.cluster import Contention
from zerosim.collectives import Transfer
from zerosim.engine import Variation
from zerosim.engine.contention import Kernels, Taken
from zerosim.engine.program import Program, Ring, Timed
from zerosim.plan import Axis

GIGABYTE_A_SECOND = 1_000_000_000  # a byte a nanosecond: loads are their own times
Draw = Callable[[st.SearchStrategy[Any]], Any]

SIZES = st.sampled_from([(1, 1), (2, 1), (3, 1), (2, 2), (2, 3), (4, 2), (2, 4), (3, 3)])
"""Ranks a node, and nodes: the two axes of hybrid sharding."""

KERNELS = st.sampled_from(
    [Kernels(0.0, ((0, 1.0),)), Kernels(0.3, ((16, 0.4), (40, 0.2))), Kernels(1.0, ())]
)
"""Many tiles; a bit of everything; a copy."""
TAKEN = st.builds(Taken, st.integers(0, 20), st.sampled_from([0, 300_000, 700_000]))
CONTENTION = st.sampled_from([Contention(sms=True, memory=True), Contention(tax=0.15)])


@st.composite
def programs(
    draw: Draw, *, loads: bool = False, rings: bool = False, beside: bool = False
) -> Program:
    """Any program: up to 4 streams and 2 communicators an axis, waits, host costs, blocking ops.

    `loads`: collectives load a link; `rings`: they are message-level rings; `beside`: kernels are
    slower beside them.
    """
    inner, outer = draw(SIZES)
    n = inner * outer
    axes = (Axis("world", n), Axis("inner", inner), Axis("outer", outer, inner))
    last: dict[object, int] = {}
    ops: list[Timed] = []
    for i in range(draw(st.integers(1, 16))):
        axis = draw(st.sampled_from([None, None, 0, 0, 1, 2]))
        stream = draw(st.integers(0, 3))
        keys: list[object] = [("stream", stream)]
        if axis is not None:
            keys.append(("communicator", axis, draw(st.integers(0, 1))))
        waits = draw(st.lists(st.integers(0, i - 1), max_size=3)) if i else []
        after = dict.fromkeys([*waits, *(last[key] for key in keys if key in last)])
        duration, latency = draw(st.integers(0, 20)), draw(st.integers(0, 3))
        ring = None
        if rings and axis is not None and draw(st.booleans()):
            phase = (axes[axis].size, axes[axis].stride, duration)
            ring = Ring((phase,) * draw(st.integers(1, 2)), latency, draw(st.integers(0, 5)))
        moved = Transfer(latency, (("link", duration),)) if loads and axis is not None else None
        if ring is not None:
            duration = ring.together_ns
        ops.append(
            Timed(
                stream=stream,
                after=tuple(after),
                issue_ns=draw(st.integers(0, 4)),
                duration_ns=duration + (latency if moved else 0),
                axis=axis,
                transfer=moved,
                ring=ring,
                blocks=draw(st.integers(0, 5)) == 0,
                kernels=draw(KERNELS) if beside and axis is None else None,
                taken=draw(TAKEN) if beside and axis is not None else None,
            )
        )
        last.update(dict.fromkeys(keys, i))
    contention = draw(CONTENTION) if beside else Contention()
    link = {"link": float(GIGABYTE_A_SECOND)}
    return Program(n, tuple(ops), axes, link, contention=contention, sms=16)


@st.composite
def variations(draw: Draw, program: Program) -> Variation:
    """Equal ranks, stragglers, slow links, jitter of kernels or collectives, or given durations."""
    kind = draw(st.sampled_from(["equal", "speed", "jitter", "both", "given", "slow", "network"]))
    ranks = st.lists(st.integers(0, program.n_ranks - 1), max_size=3, unique=True)
    factors = st.sampled_from([0.5, 1.3, 2.0])
    speed = tuple((r, draw(factors)) for r in draw(ranks)) if kind in ("speed", "both") else ()
    jitter = draw(st.sampled_from([0.05, 0.5])) if kind in ("jitter", "both") else 0.0
    local = [i for i, op in enumerate(program.ops) if op.axis is None]
    rows = st.lists(st.integers(0, 30), min_size=program.n_ranks, max_size=program.n_ranks)
    given_rows = tuple((i, tuple(draw(rows))) for i in local) if kind == "given" else ()
    shares = st.sampled_from([0.1, 0.5, 1.0])
    links = tuple(("link", r, draw(shares)) for r in draw(ranks)) if kind == "slow" else ()
    return Variation(
        speed=speed,
        jitter=jitter,
        seed=7,
        durations=given_rows,
        slow=links,
        network_jitter=0.4 if kind == "network" else 0.0,
    )


@st.composite
def cases(draw: Draw, /, **kinds: bool) -> tuple[Program, Variation]:
    """A program and what differs between its ranks."""
    program = draw(programs(**kinds))
    return program, draw(variations(program))
