"""The orders that the page of DeepSpeed ZeRO-1 and ZeRO-2 shows are those of the plans."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tests.zerosim.schedules.deepspeed12.models import P, layers_of, plan

PAGE = Path(__file__).parents[2] / "docs/schedules/deepspeed-1-2.md"
OWNERS: dict[str, Any] = {"reduce_bucket_size": P, "use_multi_rank_bucket_allreduce": False}
SHOWN: tuple[dict[str, Any], ...] = (
    {},
    {"reduce_bucket_size": P},
    OWNERS,
    OWNERS | {"round_robin_gradients": True},
)


def test_the_orders_on_the_page_are_those_of_the_plans() -> None:
    orders = re.findall(r"`(F0 [^`]* OPT [^`]*)`", PAGE.read_text())
    assert orders == [plan(2, layers_of(P, P, P), **knobs).order for knobs in SHOWN]
