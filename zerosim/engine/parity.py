"""Parity with a peer: programs that ASTRA-sim ran, on its conventions, to the nanosecond.

Conventions (ASTRA-sim 2, analytical backend): an integer clock; a ring collective over n ranks of S
bytes moves n-1 messages, each floor(latency + bytes / bandwidth) ns; n endpoint delays; a two-level
ring all-gathers on the outer dimension first and reduce-scatters on the inner first; all collectives
share one communicator.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from zerosim.engine.folding import fold
from zerosim.engine.maxplus import solve
from zerosim.engine.program import MAX_NS, Program, Ring, Timed
from zerosim.engine.variation import Variation, durations
from zerosim.errors import InputError
from zerosim.plan import Axis
from zerosim.units import NS_PER_S, NS_PER_US

MAX_BYTES: Final = 256 * 2**20
"""A program is text: 4,096 ranks with 500 durations each are some 20 MB."""
MAX_RANKS: Final = 2**20
"""As many as a scenario may have."""
MAX_DIMENSIONS: Final = 20
"""More than log2 of the ranks are rings of one."""
_COMPUTE: Final = ("F", "B", "OPT")
_COLLECTIVE: Final = ("AG", "RS")


@dataclass(frozen=True, slots=True)
class Parity:
    """Expected against simulated: the step in ns, and each rank's end where the file gives it."""

    name: str
    expected_ns: int | None
    got_ns: int
    expected_by_rank: tuple[int, ...] | None
    got_by_rank: tuple[int, ...]

    @property
    def equal(self) -> bool:
        """Whether everything the file expects came out to the nanosecond."""
        steps = self.expected_ns is None or self.expected_ns == self.got_ns
        return steps and self.expected_by_rank in (None, self.got_by_rank)


def run_parity(path: Path) -> Parity:
    """Run one peer program. Raises InputError for a file that is none."""
    try:
        if path.exists() and not path.is_file():
            raise InputError(f"'{path}' is not a file: give a peer program (JSON)")
        if path.stat().st_size > MAX_BYTES:
            raise InputError(f"'{path}' is over {MAX_BYTES} bytes: it is no peer program")
        record = orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError) as error:
        raise InputError(f"cannot read peer program '{path}' ({error}): give a JSON file") from None
    try:
        return _run(record)
    except (KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
        raise InputError(
            f"'{path}' is no peer program ({type(error).__name__}: {error}): see docs/parity.md"
        ) from None


def _run(record: dict[str, Any]) -> Parity:
    n = _whole("n_ranks", record["n_ranks"])
    program, variation = _program(record, n)
    folded = fold(program, variation)
    times = solve(program, folded, durations(program, variation, folded.representatives))
    by_class = times.end.max(axis=0)
    by_rank = tuple(int(x) for x in by_class[folded.class_of])
    step = record.get("expected_step_ns")
    expected = record.get("expected_finish_ns_by_rank")
    return Parity(
        name=str(record["name"]),
        expected_ns=None if step is None else _whole("expected_step_ns", step),
        got_ns=max(by_rank),
        expected_by_rank=(
            None
            if expected is None
            else tuple(_whole("expected_finish_ns_by_rank", ns) for ns in expected)
        ),
        got_by_rank=by_rank,
    )


def _program(record: dict[str, Any], n: int) -> tuple[Program, Variation]:
    if len(record["topology"]) > MAX_DIMENSIONS:
        raise InputError(f"the topology has over {MAX_DIMENSIONS} dimensions: give fewer")
    sizes = [int(str(dimension).removeprefix("ring:")) for dimension in record["topology"]]
    if not 1 <= n <= MAX_RANKS:
        raise InputError(f"n_ranks is {n}: give 1 to {MAX_RANKS}")
    if any(size < 1 for size in sizes) or math.prod(sizes) != n:
        raise InputError(f"topology {record['topology']} is not of {n} ranks: make them agree")
    rings = {kind: _ring(kind, sizes, record) for kind in _COLLECTIVE}
    ops: list[Timed] = []
    last_collective: int | None = None
    for position, op in enumerate(record["ops"]):
        kind = op["kind"]
        if kind not in (*_COMPUTE, *_COLLECTIVE):
            raise InputError(f"op kind '{kind}': known are {', '.join((*_COMPUTE, *_COLLECTIVE))}")
        after = [_whole("deps", before) for before in op["deps"]]
        if op["id"] != position or any(not 0 <= before < position for before in after):
            raise InputError(f"op {op['id']} waits for {after}: ops may wait for earlier ones only")
        ring = rings.get(kind)
        if ring is not None:
            after += [] if last_collective is None else [last_collective]
            last_collective = position
        ops.append(
            Timed(
                stream=position,
                after=tuple(dict.fromkeys(after)),
                issue_ns=0,
                duration_ns=_ns(op.get("dur_us") or 0) if ring is None else ring.together_ns,
                axis=None if ring is None else 0,
                ring=ring,
            )
        )
    by_rank = record.get("dur_us_by_rank")
    given: list[tuple[int, tuple[int, ...]]] = []
    if by_rank is not None:
        if len(by_rank) != n or any(len(row) != len(ops) for row in by_rank):
            raise InputError(f"dur_us_by_rank is not {n} rows of {len(ops)} durations: make it so")
        given = [
            (i, tuple(_ns(row[i]) for row in by_rank))
            for i, op in enumerate(ops)
            if op.axis is None
        ]
    longest = sum(op.duration_ns for op in ops) + sum(max(row) for _, row in given)
    if longest > MAX_NS:
        raise InputError(f"the program lasts up to {longest} ns, over {MAX_NS}: give shorter ops")
    program = Program(n, tuple(ops), (Axis("world", n),), {})
    return program, Variation(durations=tuple(given))


def _ring(kind: str, sizes: list[int], record: dict[str, Any]) -> Ring:
    fields = ("latency_ns", "bandwidth_bytes_per_s", "unit_bytes", "endpoint_delay_ns")
    latency, bandwidth, full, endpoint = (_whole(name, record[name]) for name in fields)
    if min(latency, full, endpoint) < 0 or bandwidth <= 0:
        raise InputError(
            f"latency {latency} ns, endpoint delay {endpoint} ns, bandwidth {bandwidth} B/s, {full} B: "
            "give 0 or more, and a bandwidth above 0"
        )
    dimensions = list(range(len(sizes)))
    moved = full // math.prod(sizes)
    phases = []
    for dimension in reversed(dimensions) if kind == "AG" else dimensions:
        stride = math.prod(sizes[:dimension])
        nbytes = moved if kind == "AG" else full // sizes[dimension]
        phases.append((sizes[dimension], stride, latency + nbytes * NS_PER_S // bandwidth))
        moved, full = moved * sizes[dimension], full // sizes[dimension]
    return Ring(tuple(phases), endpoint)


def _whole(name: str, value: Any) -> int:  # noqa: ANN401 - parsed JSON
    """`value` as the whole number that it is. Raises InputError."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
        raise InputError(f"{name} is {str(value)[:40]!r}: give a whole number")
    return int(value)


def _ns(duration_us: float) -> int:
    if not math.isfinite(duration_us) or duration_us < 0:
        raise InputError(f"a duration of {duration_us} µs: give a finite number, 0 or more")
    return round(duration_us * NS_PER_US)
