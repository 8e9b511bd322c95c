"""`python -m zerosim_runtime.equality`: compare plans with real engines, and write docs/equality.md."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from zerosim.errors import InputError, ZerosimError
from zerosim_runtime.equality.case import Case
from zerosim_runtime.equality.families import FAMILIES, Family, family_of, versions_of
from zerosim_runtime.equality.harness import Outcome, outcomes
from zerosim_runtime.equality.recording import Replay
from zerosim_runtime.equality.replay import record, replayed
from zerosim_runtime.equality.report import write_report


def main(words: Sequence[str]) -> int:
    """Run the families asked for; 0 if every case is equal, 1 if not, 2 for bad input."""
    asked = _parser().parse_args(words)
    try:
        if asked.report is not None and (asked.case or asked.reduced):
            raise InputError(
                f"--report {asked.report} with --case or --reduced would drop the other cases from "
                "the page: leave them out"
            )
        families = [family_of(name) for name in asked.family or FAMILIES]
        if not any(_cases(family, asked) for family in families):
            raise InputError(f"no case has {' or '.join(asked.case or ['any'])} in its name")
        equal = [_compare(family, asked) for family in families]
    except ZerosimError as error:
        _tell(str(error))
        return 2
    return 0 if all(equal) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="zerosim_runtime.equality", description=__doc__)
    parser.add_argument("--family", action="append", help="only this one (may be repeated)")
    parser.add_argument("--case", action="append", help="only cases whose name has this in it")
    parser.add_argument("--reduced", action="store_true", help="only the short set of the tests")
    parser.add_argument("--report", type=Path, help="the page to write; none if left out")
    return parser


def _compare(family: Family, asked: argparse.Namespace) -> bool:
    versions = versions_of(family)
    missing = ", ".join(name for name, version in versions.items() if version is None)
    if missing and family.replay is None:
        _tell(f"{family.name}: left out, {missing} is not installed")
        return True
    cases = _cases(family, asked)
    if family.replay is None:
        found = outcomes(cases, lambda text: _tell(f"{family.name}: {text}"))
    else:
        versions, found = _replay(family, family.replay, cases, missing)
    for outcome in found:
        _show(outcome)
    equal = sum(outcome.difference is None for outcome in found)
    print(f"{family.name}: {equal} of {len(found)} cases are equal")  # noqa: T201 - its answer
    if asked.report is not None:
        write_report(asked.report, family.name, versions, found)
    return equal == len(found)


def _cases(family: Family, asked: argparse.Namespace) -> list[Case]:
    cases = [case for case in family.cases if case.reduced or not asked.reduced]
    if not asked.case:
        return cases
    return [case for case in cases if any(part in case.name for part in asked.case)]


def _replay(
    family: Family, replay: Replay, cases: Sequence[Case], missing: str
) -> tuple[dict[str, str | None], list[Outcome]]:
    """Record anew if everything is installed; then compare from the recordings in any case."""
    if missing:
        _tell(f"{family.name}: from recordings, as {missing} is not installed")
    else:
        versions = {name: str(version) for name, version in versions_of(family).items()}
        record(replay, cases, versions, lambda text: _tell(f"{family.name}: {text}"))
    return replayed(replay, cases)


def _show(outcome: Outcome) -> None:
    case = outcome.case
    word = "equal" if outcome.difference is None else "DIFFERENT"
    print(  # noqa: T201 - its answer
        f"{case.family}/{case.name}: {word}, {outcome.collectives} collectives a rank, "
        f"{case.world_size} {'fake' if case.fake else 'real'} ranks"
    )
    if outcome.difference is not None:
        print(outcome.difference)  # noqa: T201 - same


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - progress


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
