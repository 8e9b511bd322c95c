"""The faults: what is run, what is planted or done to it, and how it must end."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PROGRAMS: Final = Path(__file__).with_name("programs")
PLAN: Final = ("--steps", "4000", "lesson-zero3")
_LAST: Final = r"\(seq \d+ of group '[^']+'\)"


@dataclass(frozen=True, slots=True)
class Target:
    """A run under way: the process that was typed, and the pids of its ranks."""

    launcher: int
    ranks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Fault:
    """`words`: what follows `zerosim trace …`; empty: `program` is run instead.

    `plant`: what a rank is told to do; else `strike` is done to a run that is going well. `says`: a
    pattern of the last sentence. `rows`: whether a run with ops must be there. `leaves`: what ranks
    recorded may stay where they wrote it. `small`: bytes of the file system of the ranks' (`tmp`) or the
    run's (`out`) files.
    """

    name: str
    words: tuple[str, ...]
    says: str
    plant: str = ""
    strike: Callable[[Target], None] | None = None
    program: str = ""
    code: int = 1
    rows: bool = True
    leaves: bool = False
    small: tuple[str, int] | None = None


def _script(*words: str) -> tuple[str, ...]:
    return ("--", str(PROGRAMS / words[0]), *words[1:])


def _to_rank(number: signal.Signals) -> Callable[[Target], None]:
    return lambda target: os.kill(target.ranks[1], number)


def _to_launcher(number: signal.Signals) -> Callable[[Target], None]:
    return lambda target: os.kill(target.launcher, number)


FAULTS: Final = (
    Fault(
        "killed", PLAN, f"rank 1 was killed by SIGKILL .*{_LAST}", strike=_to_rank(signal.SIGKILL)
    ),
    Fault(
        "stopped",
        PLAN,
        f"rank 1 is stopped by a signal.* its last is .*{_LAST}",
        strike=_to_rank(signal.SIGSTOP),
    ),
    Fault(
        "hangs",
        PLAN,
        f"rank 1 hangs, asleep.*its last is .*{_LAST}, and rank 0 waits in .*{_LAST}",
        plant="hang:1:3",
    ),
    Fault("spins", PLAN, f"rank 1 hangs, computing.*its last is .*{_LAST}", plant="spin:1:3"),
    Fault("raises", PLAN, rf"rank 1 failed \(ValueError: no luck\).*{_LAST}", plant="raise:1:3"),
    Fault(
        "slow",
        ("--steps", "8", "lesson-zero3"),
        "",
        plant="slow:1:3",
        code=0,
    ),
    Fault(
        "shapes",
        PLAN,
        "ranks disagree: rank 0 issued 'RS2' of .* elements and rank 1 'RS2' of .* as seq",
        plant="shapes:1:3",
    ),
    Fault(
        "absent",
        PLAN,
        "rank 1 has not joined and hangs, asleep.*'barrier init_process_group'",
        plant="absent:1:0",
        rows=False,
    ),
    Fault(
        "swapped",
        _script("train.py", "swap", "3"),
        r"rank 0 issued 'AGblocks\.\d' and rank 1 'AGblocks\.\d' as seq \d+",
        plant="program",
    ),
    Fault(
        "dropped",
        _script("train.py", "drop", "3"),
        r"rank 0 issued 'AGblocks\.\d' and rank 1 'AGblocks\.\d' as seq \d+",
        plant="program",
    ),
    Fault(
        "script hangs",
        _script("train.py", "hang", "3"),
        f"rank 1 hangs, asleep.*its last is .*{_LAST}",
        plant="program",
    ),
    Fault(
        "script forks",
        _script("train.py", "fork", "2"),
        f"rank 1 ended with exit code 3 .*{_LAST}",
        plant="program",
    ),
    Fault(
        "script killed",
        _script("train.py", "kill", "1"),
        f"rank 1 was killed by SIGKILL .*{_LAST}",
        plant="program",
    ),
    Fault("never joins", _script("alone.py"), "never called init_process_group", rows=False),
    Fault(
        "Ctrl-C",
        PLAN,
        "stopped after .* steps: .* is kept",
        strike=_to_launcher(signal.SIGINT),
        code=130,
    ),
    Fault("hang-up", PLAN, "stopped after .* steps", strike=_to_launcher(signal.SIGHUP), code=130),
    Fault(
        "launcher killed",
        PLAN,
        "",
        strike=_to_launcher(signal.SIGKILL),
        code=-9,
        rows=False,
        leaves=True,
    ),
    Fault("disk full", PLAN, "rank . failed .*No space left on device", small=("tmp", 2**20)),
    Fault(
        "disk of the run full",
        ("--steps", "40", "lesson-zero3"),
        "cannot write run .*: what the ranks recorded is kept",
        small=("out", 2**14),
        rows=False,
        leaves=True,
    ),
    Fault(
        "cable pulled",
        (),
        f"nothing has arrived for .*: rank 0 in .*{_LAST}",
        plant="program",
        program="unplugged.py",
    ),
)
