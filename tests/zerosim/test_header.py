"""run.json: a header comes back as it was written, and what is none is refused."""

from __future__ import annotations

import orjson
import pytest

from zerosim.errors import TraceFileError
from zerosim.header import meta_from_dict, meta_to_dict
from zerosim.quality import Quality
from zerosim.trace import (
    Clock,
    Group,
    Meta,
    ModelFacts,
    RankClass,
    StateBytes,
    StepWindow,
)

FULL = Meta(
    name="full",
    source="measured",
    world_size=2,
    scenario={"name": "s", "run": {"steps": 2}},
    engine="gloo",
    device="cpu",
    clock=Clock(aligned=True, error_ns=900, offsets_ns=((0, 0), (1, -50))),
    quality=Quality(events=4, warnings=("one",)),
    groups=(Group("world", 2, (0, 1)), Group("tp", 1)),
    steps=(StepWindow(0, 1, 0, 9),),
    classes=(RankClass(0, ((0, 1),)),),
    states=(StateBytes(0, 1, 2, 3),),
    model=ModelFacts(10, None, None, 5, 1e12),
    finished=False,
)


def test_a_header_survives_json() -> None:
    assert meta_from_dict(orjson.loads(orjson.dumps(meta_to_dict(FULL)))) == FULL


@pytest.mark.parametrize("field", ["clock", "groups", "steps", "classes", "states", "quality"])
def test_a_header_that_lacks_a_field_is_refused(field: str) -> None:
    record = meta_to_dict(FULL)
    del record[field]
    with pytest.raises(TraceFileError, match=r"run\.json does not describe a run"):
        meta_from_dict(record)


@pytest.mark.parametrize(
    ("field", "value"),
    [("clock", 3), ("groups", [1]), ("steps", [{}]), ("classes", {"a": 1}), ("colour", "red")],
)
def test_a_header_with_a_field_that_makes_no_sense_is_refused(field: str, value: object) -> None:
    record = meta_to_dict(FULL) | {field: value}
    with pytest.raises(TraceFileError, match=r"run\.json does not describe a run"):
        meta_from_dict(record)


def test_a_header_with_a_step_that_ends_before_it_starts_is_refused() -> None:
    record = orjson.loads(orjson.dumps(meta_to_dict(FULL)))
    record["steps"][0]["end_ns"] = -1
    with pytest.raises(TraceFileError, match="step 1 of rank 0 ends before it starts"):
        meta_from_dict(record)


def test_a_header_of_no_ranks_is_refused() -> None:
    record = orjson.loads(orjson.dumps(meta_to_dict(FULL)))
    assert meta_from_dict(record | {"world_size": None}).world_size is None
    with pytest.raises(TraceFileError, match="the world size is 0: it is at least 1, or null"):
        meta_from_dict(record | {"world_size": 0})
