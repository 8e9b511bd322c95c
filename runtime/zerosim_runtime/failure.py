"""Who failed first, in one clause, from what the ranks left behind."""

from __future__ import annotations

import re
import signal
from pathlib import Path
from typing import Final

from zerosim.plan import Plan
from zerosim.scenario import Scenario, plan_of
from zerosim_runtime.places import Where, content_of, places, ranks_in
from zerosim_runtime.records import Record, read_record

_FIRST: Final = re.compile(r"failed \(exitcode: (?P<code>-?\d+)\) local_rank: (?P<rank>\d+)")
_RAISED: Final = re.compile(
    r"^(?:\[rank\d+\]: *)?(?:[a-z_]\w*\.)*(?P<error>\w*Error: .+)$", re.MULTILINE
)
_EVERY: Final = re.compile(r"\(local_rank: (?P<rank>\d+)\)\s+exitcode\s*: (?P<code>-?\d+)")


def describe_failure(where: Where, scenario: Scenario) -> str:
    """Names the rank that failed, why, and its last op.

    A rank that left no last word was killed; one that says `failed` broke by itself; those that say
    `peer_lost` or `terminated` only followed.
    """
    n_ranks = scenario.cluster.world_size
    records = [read_record(where, rank) for rank in range(n_ranks)]
    exits = _exits(where)
    broken = [r for r in records if r is not None and r.status == "failed"]
    killed = [r for r in records if r is not None and r.status is None]
    plan = plan_of(scenario)
    if broken:
        first = min(broken, key=lambda r: r.ended_ns or 0)
        return f"rank {first.rank} failed ({first.message}) {_place(first, plan)}"
    if killed:
        first = next((r for r in killed if r.rank in exits), killed[0])
        return f"rank {first.rank} {_how(exits.get(first.rank))} {_place(first, plan)}"
    ended = [r for r in records if r is not None and r.status in ("peer_lost", "terminated")]
    if ended:
        first = min(ended, key=lambda r: r.ended_ns or 0)
        told = first.status == "terminated"
        how = "was told to stop" if told else f"lost its peers ({first.message})"
        return f"rank {first.rank} {how} {_place(first, plan)}"
    return f"the ranks did not start ({_first_error(where)})"


def _how(code: int | None) -> str:
    if code is None or code >= 0:
        return "died"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


def _place(record: Record, plan: Plan) -> str:
    if not 0 <= record.last_op < len(plan.ops):
        return "before its first op"
    op = plan.ops[record.last_op]
    return f"in '{op.name}' of step {op.step}"


def _exits(where: Where) -> dict[int, int]:
    """Exit codes by rank, as torchrun reports them: the first failure, then a list of all.

    It numbers the ranks of its own node, so what they wrote themselves says who they are.
    """
    codes: dict[int, int] = {}
    for place in places(where):
        records = (read_record(place, rank) for rank in ranks_in(place))
        first = min((r.first_rank for r in records if r is not None), default=0)
        text = _log(place)
        matches = (*_EVERY.finditer(text), *_FIRST.finditer(text))
        codes |= {first + int(match["rank"]): int(match["code"]) for match in matches}
    return codes


def _first_error(where: Where) -> str:
    found = [m["error"].strip() for p in places(where) for m in _RAISED.finditer(_log(p))]
    return found[0] if found else "torchrun said nothing"


def _log(place: Path) -> str:
    content = content_of(place / "torchrun.log") or b""
    return content.decode("utf-8", errors="replace")
