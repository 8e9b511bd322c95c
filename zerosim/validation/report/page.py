"""docs/accuracy.md from the published scores: what comes first is what nothing was fitted on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from zerosim.hardware.calibration import Calibration
from zerosim.validation.ablation import Ablated
from zerosim.validation.board import Scoreboard
from zerosim.validation.published import Published
from zerosim.validation.report import others, steps
from zerosim.validation.report.aims import aims
from zerosim.validation.report.markdown import share, table

BEGIN: Final = "<!-- by hand: why it falls short -->"
END: Final = "<!-- end -->"
_HEAD: Final = """\
# Accuracy

How far off the simulator is, on runs that others measured and published.
Made by `make accuracy` from the scores in `zerosim/validation/facts/`; [validation.md](validation.md) says how rows are scored.

Constants were fitted on rows marked `calib` alone.
Rows marked `test` were only ever predicted: no constant was fitted on them.
Two readings were settled after their errors had been seen, for reasons from outside them: llm.c's kernels count as fused (its code), and Omni-Path reaches 135 of 400 Gbit/s (stas00/ml-engineering).
The two are never mixed in a figure below.
The error of a row is `|ln(predicted / measured)|`; a source with many rows weighs as much as one with few; *bias* below 0 means predicted too fast.
"""
_NULL: Final = """\
The null model is what one would say without a simulator: every FLOP takes the same time, one constant for each GPU, fitted on the same `calib` rows.
"""
_PLOT: Final = """\
![Predicted against measured steps](accuracy.svg)

Filled: nothing was fitted on them; hollow: constants are; bands of 5 % and 20 %.
The dashboard has [the same with every row](dashboard.md), under Accuracy.
"""


def page(
    found: Published,
    ablated: Sequence[Ablated],
    calibration: Calibration,
    *,
    by_hand: str = "",
) -> str:
    """The page. `by_hand` is the part that people write: why it falls short where it does."""
    board = found.steps
    return "\n".join(
        [
            _HEAD,
            f"## Rows that nothing was fitted on\n\n{_NULL}\n{steps.unseen(board)}",
            f"## Beside others\n\n{_others(board)}",
            f"## What was aimed at\n\n{aims(found)}\n{BEGIN}\n{by_hand}{END}\n",
            f"## Predicted against measured\n\n{_PLOT}",
            f"## Where it errs\n\nOf the rows that nothing was fitted on.\n\n{steps.cuts(board)}",
            f"## The worst rows\n\n{steps.worst(board)}",
            steps.seen(board),
            f"## Scaling efficiency\n\n{_SCALING}\n{steps.scaling(board)}",
            f"## Collectives\n\n{others.collectives(found.collectives)}",
            f"## Memory\n\n{others.memory(found.memory)}",
            f"## What each mechanism is worth\n\n{others.mechanisms(ablated)}",
            f"## Constants\n\n{_CONSTANTS}\n{others.constants(calibration)}",
            f"## Blanks that were filled\n\n{_FILLED}\n{others.filled(board, found.memory)}",
            f"## Rows left out\n\n{others.left_out(found.left_out)}",
        ]
    )


_SCALING: Final = """\
Of runs that differ only in GPU count: tokens a second and GPU at the largest count over those at the smallest.
"""
_CONSTANTS: Final = """\
What no data sheet says, a handful for each GPU; never one for a model, a row or a GPU count.
A GPU or a network that is not here takes those of a stand-in, which `zerosim list clusters` names ([machines.md](machines.md)).
"""
_FILLED: Final = """\
A blank in a source is filled by a documented default alone, which is listed with its row in the dashboard and in `zerosim validate --json`.
"""


def _others(board: Scoreboard) -> str:
    """Mean errors over several nodes: ours, the null model's, and what was known of others."""
    suite = board.suite("multi-node-fsdp")
    rows = []
    if suite is not None:
        of = f"{suite.errors.n_rows} rows of {suite.errors.n_sources} sources"
        rows.append(("zerosim", of, share(suite.errors.mean), "here"))
        if suite.null is not None:
            rows.append(("null model", of, share(suite.null.mean), "here"))
    rows += [(peer.name, peer.rows, share(peer.mean), peer.source) for peer in board.peers]
    head = ("FSDP over several nodes", "on", "mean error", "from")
    return f"{table(head, rows)}\nThe rows of others need not be the same as ours.\n"
