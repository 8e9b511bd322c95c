"""Why rows are left out: reasons that are alike but for their numbers stand together."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from zerosim.validation.cells import fact_rows
from zerosim.validation.rows import LeftOut

_NUMBER: Final = re.compile(r"[\d.e+]+")


@dataclass(frozen=True, slots=True)
class Reason:
    """Rows of one source that are left out alike; `sentence` is the first row's, without its name.

    `wanted`: they were meant to be scored.
    """

    source_id: str
    row_id: str
    sentence: str
    n: int
    wanted: bool

    @property
    def line(self) -> str:
        """As a line for people."""
        more = f", and {self.n - 1} more like it" if self.n > 1 else ""
        return f"row {self.row_id}: {self.sentence} ({self.source_id}{more})"


def reasons(every: Sequence[LeftOut]) -> tuple[Reason, ...]:
    """The reasons, in the order of their first rows."""
    alike: dict[tuple[str, bool, str], list[LeftOut]] = {}
    for left in every:
        why = _NUMBER.sub("#", _without_name(left))
        alike.setdefault((left.source_id, left.wanted, why), []).append(left)
    return tuple(
        Reason(source, some[0].row_id, _without_name(some[0]), len(some), wanted)
        for (source, wanted, _), some in alike.items()
    )


@cache
def carried_reasons() -> tuple[Reason, ...]:
    """Why measured steps that were read are not among those that zerosim carries."""
    return tuple(
        Reason(row["from"], row["first"], row["why"], int(row["rows"]), row["wanted"] == "yes")
        for row in fact_rows("left_out.csv")
    )


def reasons_table(every: Sequence[Reason]) -> str:
    """The text of that table."""
    written = io.StringIO(newline="")
    lines = csv.writer(written, lineterminator="\n")
    lines.writerow(("from", "rows", "first", "wanted", "why"))
    for one in every:
        wanted = "yes" if one.wanted else "no"
        lines.writerow((one.source_id, one.n, one.row_id, wanted, one.sentence))
    return written.getvalue()


def _without_name(left: LeftOut) -> str:
    return left.sentence.removeprefix(f"row {left.row_id}: ")
