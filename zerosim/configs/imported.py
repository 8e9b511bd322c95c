"""From files to a scenario: what each says, what is left to defaults, and where every field is from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from zerosim.configs.accelerate import is_accelerate, read_accelerate
from zerosim.configs.deepspeed import is_deepspeed, read_deepspeed, trainer_autos
from zerosim.configs.document import Document, Place, read_document
from zerosim.configs.draft import Draft, Origin
from zerosim.configs.huggingface import is_model, read_model
from zerosim.configs.torchtitan import is_torchtitan, read_torchtitan
from zerosim.errors import InputError, ScenarioError
from zerosim.hardware import MACHINES
from zerosim.models.extracted import FORMAT
from zerosim.scenario import Scenario, load_scenario
from zerosim.scenario.files import parted, with_file
from zerosim.scenario.model_file import with_model

_MACHINE: Final = "dgx-h100"
_OURS: Final = "default of zerosim"


@dataclass(frozen=True, slots=True)
class Imported:
    """A scenario, the origin of each of its fields, and keys without bearing on it."""

    scenario: Scenario
    origins: tuple[Origin, ...]
    no_effect: tuple[Place, ...]


def from_files(
    config: Path,
    *,
    model: Path | None = None,
    base: str | None = None,
    words: Sequence[str] = (),
) -> Imported:
    """The scenario that `config` describes.

    `model`: a config.json of Hugging Face, or what `zerosim extract` wrote. `base`: a scenario for
    what the files do not say, such as the machine. `words` (`--set`) decide last.
    Raises UnknownNameError, ScenarioError.
    """
    named, rest = parted(words)
    asked = {w.partition("=")[0].rpartition(".")[2]: w.partition("=")[2] for w in rest}
    draft = Draft(asked)
    _start(draft, base)
    for field, name in named:
        if field != "workload.file":
            _machine_file(draft, field, name)
    models = [Path(name) for field, name in named if field == "workload.file"]
    for path in [*([model] if model is not None else []), *models]:
        _model(draft, path)
    _config(draft, read_document(config))
    if draft.get("workload.model") is None:
        raise ScenarioError(
            f"{config.name}: it names no model: give one with --model-config or a scenario"
        )
    record = {"name": config.stem, **draft.record}
    return Imported(*_finished(draft, record, rest), tuple(draft.quiet))


def _start(draft: Draft, base: str | None) -> None:
    """What holds where the files say nothing: the base scenario, or a machine of ours."""
    if base is not None:
        record = load_scenario(base).to_dict()
        for section in ("workload", "schedule", "cluster", "numerics", "run"):
            for name, value in record[section].items():
                draft.put(f"{section}.{name}", value, f"scenario {base}")
    machine = draft.asked.get("cluster")
    if machine is not None or base is None:
        draft.record["cluster"] = {}
        name = machine or _MACHINE
        ranks = MACHINES[name].ranks_per_node
        draft.put("cluster.name", name, _OURS if machine is None else "--set")
        draft.put("cluster.world_size", ranks, f"{_OURS}: a node of {name}")
    ranks_asked = draft.number_asked("world_size")
    if ranks_asked is not None:
        draft.put("cluster.world_size", ranks_asked, "--set")


def _machine_file(draft: Draft, field: str, name: str) -> None:
    """A machine or a calibration: what it changes about the cluster so far."""
    before = draft.record["cluster"]
    draft.record["cluster"] = dict(with_file({"cluster": before}, field, name, Path())["cluster"])
    for key, value in draft.record["cluster"].items():
        if value != before.get(key):
            draft.put(f"cluster.{key}", value, Path(name).name)
    if field == "cluster.file" and "world_size" not in draft.asked:
        ranks = draft.record["cluster"]["machine"]["ranks_per_node"]
        draft.put("cluster.world_size", ranks, f"{_OURS}: a node of {Path(name).name}")


def _model(draft: Draft, path: Path) -> None:
    document = read_document(path)
    if document.tree.get("format") == FORMAT:
        record = with_model({"workload": {}}, str(path), Path())
        draft.record["workload"] = {}
        for name, value in record["workload"].items():
            draft.put(f"workload.{name}", value, f"{document.name}: extracted")
    elif is_model(document.tree):
        read_model(document, draft)
    else:
        raise ScenarioError(
            f"{document.name} describes no model: give a config.json of Hugging Face, or a file "
            "of `zerosim extract`"
        )


def _config(draft: Draft, document: Document) -> None:
    tree = document.tree
    if is_accelerate(tree):
        _own_schedule(draft)
        read_accelerate(document, draft)
    elif is_torchtitan(tree):
        _own_schedule(draft)
        read_torchtitan(document, draft)
    elif is_model(tree):
        read_model(document, draft)
    elif is_deepspeed(tree):
        _own_schedule(draft)
        read_deepspeed(document, draft, trainer_autos(draft))
    else:
        known = "a ds_config.json, an Accelerate YAML, a torchtitan TOML or a config.json"
        first = next(iter(tree), "nothing")
        raise ScenarioError(
            f"{document.place((str(first),))}: zerosim knows no such configuration: give {known}"
        )


def _own_schedule(draft: Draft) -> None:
    """A configuration decides schedule and numerics itself, whatever the base has."""
    for section in ("schedule", "numerics"):
        draft.record.pop(section, None)
        for where in [w for w in draft.origins if w.startswith(f"{section}.")]:
            del draft.origins[where]


def _finished(
    draft: Draft, record: Mapping[str, Any], words: Sequence[str]
) -> tuple[Scenario, tuple[Origin, ...]]:
    scenario = _placed(draft, record)
    changed = scenario.with_set(words) if words else scenario
    before, after = scenario.to_dict(), changed.to_dict()
    origins = []
    for section in ("workload", "schedule", "cluster", "numerics", "run"):
        for name, value in after[section].items():
            where = f"{section}.{name}"
            known = draft.origins.get(where)
            origin = _OURS if known is None else known.origin
            if value != before[section].get(name):
                picked = section == "schedule" and name != "name" and name not in draft.asked
                origin = f"default of {after[section]['name']}" if picked else "--set"
            origins.append(Origin(where, value, origin))
    return changed, tuple(origins)


def _placed(draft: Draft, record: Mapping[str, Any]) -> Scenario:
    """The scenario; what an engine refuses of it is told with its place in the file."""
    try:
        return Scenario.from_dict(record)
    except InputError as error:
        for where, origin in draft.origins.items():
            if where in str(error) and " line " in origin.origin:
                raise ScenarioError(f"{origin.origin}: {error}") from None
        raise
