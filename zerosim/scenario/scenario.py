"""A scenario: model, schedule, machine, numerics and how to run it, in one frozen record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import orjson

from zerosim.errors import ScenarioError, UnknownNameError
from zerosim.scenario.codec import (
    SECTIONS,
    apply,
    schedule_from,
    section_from,
    section_to,
    section_told,
)
from zerosim.scenario.files import inlined, parted, with_file
from zerosim.scenario.presets import PRESETS
from zerosim.scenario.sections import (
    ClusterSection,
    NumericsSection,
    RunSection,
    ScheduleSection,
    WorkloadSection,
)
from zerosim.toml_text import read_toml

MAX_HEADER_BYTES: Final = 64 * 2**20
"""The header of a large run may be some megabytes."""
MAX_TOML_BYTES: Final = 2**20
"""A scenario is a page; Python reads a megabyte of TOML in a second."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """What to simulate or run. Every field has a default; `to_dict` writes all of them out."""

    name: str
    workload: WorkloadSection = field(default_factory=WorkloadSection)
    schedule: ScheduleSection = field(default_factory=ScheduleSection)
    cluster: ClusterSection = field(default_factory=ClusterSection)
    numerics: NumericsSection = field(default_factory=NumericsSection)
    run: RunSection = field(default_factory=RunSection)

    def to_dict(self) -> dict[str, Any]:
        """As tables of plain values: the TOML file, the URL, the header of a run."""
        sections = ("workload", "schedule", "cluster", "numerics", "run")
        return {"name": self.name} | {s: section_to(getattr(self, s)) for s in sections}

    def told(self) -> dict[str, Any]:
        """As `to_dict`, without what is at its default: the shortest record of this scenario."""
        parts = {section: section_told(getattr(self, section)) for section in SECTIONS}
        schedule = {"name": self.schedule.name, **self.schedule.options}
        return {"name": self.name, "schedule": schedule} | {k: v for k, v in parts.items() if v}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Scenario:
        """The inverse of `to_dict`. Raises UnknownNameError, ScenarioError."""
        known = ("name", "schedule", *SECTIONS)
        for key in record:
            if key not in known:
                raise UnknownNameError("scenario section", str(key), known)
        name = record.get("name", "scenario")
        if not isinstance(name, str) or not name:
            raise ScenarioError(f"name is {name!r}: give some text")
        return cls(
            name=name,
            schedule=schedule_from(record.get("schedule", {})),
            **{section: section_from(section, record.get(section, {})) for section in SECTIONS},
        )

    def with_set(self, words: Iterable[str]) -> Scenario:
        """This scenario with `--set` words applied (`section.field=value`, `schedule=ddp`, …)."""
        return Scenario.from_dict(apply(self.to_dict(), words))


def load_scenario(source: str, words: Iterable[str] = ()) -> Scenario:
    """A scenario from a preset's name, a TOML file, a `run.json` or a run directory.

    `words` are `--set` words; `workload.file=FILE` puts an extracted model in, `cluster.file=FILE` a
    machine, `cluster.calibration=FILE` constants. Raises UnknownNameError, ScenarioError.
    """
    named, rest = parted(words)
    if source in PRESETS:
        record: Mapping[str, Any] = {"name": source, **PRESETS[source]}
    else:
        try:
            record = _file(Path(source))
        except OSError as error:
            reason = error.strerror or error
            raise ScenarioError(
                f"cannot read scenario '{source}': {reason}; check the path"
            ) from None
    for field_, name in named:
        record = with_file(record, field_, name, Path())
        if field_ == "workload.file":
            record = {**record, "name": record["workload"]["record"].get("name")}
    return Scenario.from_dict(record).with_set(rest)


def _file(path: Path) -> Mapping[str, Any]:
    if path.is_dir():
        path = path / "run.json"
    if not path.is_file():
        if path.suffix in (".toml", ".json") or len(path.parts) > 1:
            raise ScenarioError(f"no scenario file '{path}': give a preset, TOML file or run.json")
        raise UnknownNameError("scenario preset", str(path), PRESETS)
    if path.suffix in (".yaml", ".yml"):
        raise _foreign(path)
    is_header = path.suffix == ".json"
    limit = MAX_HEADER_BYTES if is_header else MAX_TOML_BYTES
    if path.stat().st_size > limit:
        raise ScenarioError(
            f"'{path}' is over {limit} bytes, so no scenario: give a TOML file or run.json"
        )
    text = path.read_bytes()
    try:
        if is_header:
            return _from_run(orjson.loads(text), path)
        record = read_toml(text.decode())
        _check_ours(record, path)
        return inlined({"name": path.stem, **record}, path.parent)
    except (ValueError, RecursionError) as error:  # what both parsers and the decoder raise
        raise ScenarioError(f"cannot read scenario '{path}' ({error}): mend the file") from None


def _check_ours(record: Mapping[str, Any], path: Path) -> None:
    if len(record) > 1 and not record.keys() & {"name", "schedule", *SECTIONS}:
        raise _foreign(path)


def _foreign(path: Path) -> ScenarioError:
    return ScenarioError(
        f"'{path}' is no scenario: if it configures another system, give it with --from"
    )


def _from_run(record: Any, path: Path) -> Mapping[str, Any]:  # noqa: ANN401 - parsed JSON
    if not isinstance(record, dict):
        raise ScenarioError(f"'{path}' holds no object: give a run.json")
    scenario = record.get("scenario", record)
    if scenario is record:
        _check_ours(record, path)
    if not isinstance(scenario, dict):
        raise ScenarioError(
            f"run '{path}' has no scenario (it is of a program, or imported): give a preset or TOML"
        )
    return scenario
