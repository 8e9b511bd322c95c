"""`python -m benchmarks.faults [NAME…] [--timeout S]`: strike real runs, and print how each ended."""

from __future__ import annotations

import argparse
import os
import signal
import sys

from benchmarks.faults.cases import FAULTS, Fault
from benchmarks.faults.strike import Ended, strike
from zerosim_runtime.watchdog import TIMEOUT_S

BAR_S = 30.0


def main() -> int:
    """Strike all, or those that are named; returns 1 if one did not end as it should."""
    parser = argparse.ArgumentParser(prog="benchmarks.faults", description=__doc__)
    parser.add_argument("names", nargs="*", help="of faults; all, if none is named")
    parser.add_argument("--timeout", type=float, default=TIMEOUT_S)
    asked = parser.parse_args()
    # Whoever starts this in the background may have it ignore them, and so what it starts.
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    chosen = [f for f in FAULTS if not asked.names or f.name in asked.names]
    failed = 0
    _say("fault                 ends   code  rows  left  sentence")
    for fault in chosen:
        if fault.small is not None and os.geteuid() != 0:
            _say(f"{fault.name:20}  skipped: a small file system can only be mounted by root")
            continue
        ended = strike(fault, asked.timeout)
        failed += not _is_good(ended)
        _say(_row(ended))
    _say(f"{len(chosen) - failed} of {len(chosen)} as they should, load {os.getloadavg()[0]:.1f}")
    return int(failed > 0)


def _is_good(ended: Ended) -> bool:
    return not ended.problem and (ended.fault.leaves or not ended.litter) and _in_time(ended)


def _in_time(ended: Ended) -> bool:
    return ended.seconds < BAR_S or _survives(ended.fault)


def _survives(fault: Fault) -> bool:
    return fault.code == 0


def _row(ended: Ended) -> str:
    rows = "-" if ended.rows is None else str(ended.rows)
    mark = "" if _is_good(ended) else f"  WRONG: {ended.problem or 'litter or time'} {ended.litter}"
    return (
        f"{ended.fault.name:20} {ended.seconds:5.1f}s  {ended.code:4}  {rows:>4}  "
        f"{len(ended.left):4}  {ended.sentence}{mark}"
    )


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
