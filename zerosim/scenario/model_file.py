"""A scenario's `workload.file`: the extracted model it names, read and put in, so that it stands alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import orjson

from zerosim.errors import ScenarioError
from zerosim.models.extracted import batch_of

MAX_MODEL_BYTES: Final = 32 * 2**20
"""Equal blocks are written once: the largest models take some kilobytes."""


def with_model(record: Mapping[str, Any], name: str, home: Path) -> Mapping[str, Any]:
    """A scenario's tables with another model: the sizes of the one before it go.

    Raises ScenarioError for a file that cannot be read.
    """
    model = _read(home / name)
    before = record.get("workload", {})
    kept = {k: before[k] for k in ("micro_batches", "checkpointing") if k in before}
    if "model" not in before and "micro_batch" in before:
        kept["micro_batch"] = before["micro_batch"]
    workload = {"micro_batch": batch_of(model), **kept, "model": "extracted", "record": model}
    return {**record, "workload": workload}


def _read(path: Path) -> dict[str, Any]:
    try:
        if not path.is_file():
            raise ScenarioError(f"no file '{path}': give one that `zerosim extract -o` wrote")
        if path.stat().st_size > MAX_MODEL_BYTES:
            raise ScenarioError(f"'{path}' is over {MAX_MODEL_BYTES} bytes, so no extracted model")
        model = orjson.loads(path.read_bytes())
    except OSError as error:
        reason = error.strerror or error
        raise ScenarioError(f"cannot read '{path}': {reason}; check the path") from None
    except (ValueError, RecursionError) as error:
        raise ScenarioError(
            f"'{path}' is no extracted model ({error}): give one that `zerosim extract -o` wrote"
        ) from None
    if not isinstance(model, dict):
        raise ScenarioError(f"'{path}' holds no object: give one that `zerosim extract -o` wrote")
    return model
