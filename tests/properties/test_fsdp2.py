"""FSDP2's buffers come and go in any combination of knobs and dtypes."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.properties.scenarios import records
from zerosim.kinds import COMMUNICATION, Kind
from zerosim.scenario import Scenario, plan_of

DTYPES = st.sampled_from([None, "float32", "bfloat16", "float16"])


@given(data=st.data())
@settings(max_examples=100)
def test_all_memory_is_dropped_by_the_end_of_every_step(data: st.DataObject) -> None:
    record = data.draw(records("fsdp2"))
    record["numerics"] |= {"storage_dtype": data.draw(DTYPES), "reduce_dtype": data.draw(DTYPES)}
    live: dict[str, int] = {}
    for op in plan_of(Scenario.from_dict(record)).ops:
        live.update({a.key: a.nbytes for a in op.allocates})
        for key in op.frees:
            del live[key]
        if op.kind is Kind.OPTIMIZER:
            assert live == {}


@given(data=st.data())
@settings(max_examples=100)
def test_every_gather_is_as_large_as_the_reduction_of_its_group(data: st.DataObject) -> None:
    plan = plan_of(Scenario.from_dict(data.draw(records("fsdp2"))))
    sizes: dict[tuple[str | None, str], set[int | None]] = {}
    for op in plan.ops:
        if op.kind in COMMUNICATION:
            sizes.setdefault((op.unit, op.kind), set()).add(op.elements)
    for (unit, kind), found in sizes.items():
        assert len(found) == 1
        if kind == Kind.ALL_GATHER:
            assert sizes[unit, Kind.REDUCE_SCATTER] == found
