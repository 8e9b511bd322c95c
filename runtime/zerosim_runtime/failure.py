"""Who failed first, in one clause, from what the ranks left behind."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from zerosim.plan import Plan
from zerosim.scenario import Scenario, plan_of
from zerosim_runtime.disagreement import disagreement
from zerosim_runtime.exits import ending_of, errors_in, exits_in
from zerosim_runtime.places import Where, content_of, places, ranks_in
from zerosim_runtime.records import read_record
from zerosim_runtime.ring import Noted, read_life
from zerosim_runtime.watchdog import last_collective

_NO_ROOM: Final = 2**16
"""Bytes; with less the ranks cannot even begin their files."""


@dataclass(frozen=True, slots=True)
class _Left:
    """What a rank left of its end: from its record, else from its ring, where there is always room."""

    rank: int
    status: str | None
    message: str
    ended_ns: int | None
    last_op: int
    collective: Noted | None


def describe_failure(where: Where, scenario: Scenario, plan: Plan | None = None) -> str:
    """Names the rank that failed, why, its last op and collective; ops are `plan`'s (None: the scenario's).

    If ranks took a collective for different ones, that is why. Else: a rank that left no last word was
    killed; one that says `failed` broke by itself; those that say `peer_lost` or `terminated` only
    followed.
    """
    n_ranks = scenario.cluster.world_size
    if (apart := disagreement(where, n_ranks)) is not None:
        return apart.reason
    left = [each for rank in range(n_ranks) if (each := _left(where, rank)) is not None]
    exits = _exits(where)
    broken = [each for each in left if each.status == "failed"]
    killed = [each for each in left if each.status is None]
    plan = plan or plan_of(scenario)
    if broken:
        first = min(broken, key=lambda each: each.ended_ns or 0)
        return f"rank {first.rank} failed ({first.message}) {_place(first, plan)}"
    if killed:
        first = next((each for each in killed if each.rank in exits), killed[0])
        return f"rank {first.rank} {ending_of(exits.get(first.rank))} {_place(first, plan)}"
    ended = [each for each in left if each.status in ("peer_lost", "terminated")]
    if ended:
        first = min(ended, key=lambda each: each.ended_ns or 0)
        told = first.status == "terminated"
        how = "was told to stop" if told else f"lost its peers ({first.message})"
        return f"rank {first.rank} {how} {_place(first, plan)}"
    return f"the ranks did not start ({_first_error(where)})"


def _left(where: Where, rank: int) -> _Left | None:
    record, life = read_record(where, rank), read_life(where, rank)
    if record is None and life is None:
        return None
    status = (record.status if record is not None else None) or (life.status if life else None)
    message = (record.message if record is not None else "") or (life.message if life else "")
    return _Left(
        rank,
        status or None,
        message,
        None if record is None else record.ended_ns,
        -1 if record is None else record.last_op,
        last_collective(where, rank),
    )


def _place(left: _Left, plan: Plan) -> str:
    last = left.collective
    if not 0 <= left.last_op < len(plan.ops):
        return "before its first op" if last is None or last.ended_ns else f"in {last.place}"
    op = plan.ops[left.last_op]
    where = f"in '{op.name}' of step {op.step}"
    return where if last is None else f"{where}, its last collective {last.place}"


def _exits(where: Where) -> dict[int, int]:
    """Exit codes by rank. What ranks wrote themselves says which ones a node has."""
    codes: dict[int, int] = {}
    for place in places(where):
        records = (read_record(place, rank) for rank in ranks_in(place))
        first = min((r.first_rank for r in records if r is not None), default=0)
        codes |= exits_in(_log(place), first)
    return codes


def _first_error(where: Where) -> str:
    for place in places(where):
        if shutil.disk_usage(place).free < _NO_ROOM:
            return f"no space is left in '{place.parent}': make some, or set TMPDIR"
    found = [error for place in places(where) for error in errors_in(_log(place))]
    return found[0] if found else "torchrun said nothing"


def _log(place: Path) -> str:
    content = content_of(place / "torchrun.log") or b""
    return content.decode("utf-8", errors="replace")
