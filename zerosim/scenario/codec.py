"""Scenarios as plain dictionaries: TOML files, `--set` words, URLs, run headers. One codec for all."""

from __future__ import annotations

import math
import types
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

from zerosim.errors import ScenarioError, UnknownNameError
from zerosim.hardware import MACHINES
from zerosim.memory.conventions import CONVENTIONS
from zerosim.scenario.sections import (
    EXTRACTED_FIELDS,
    ClusterSection,
    NumericsSection,
    RunSection,
    ScheduleSection,
    WorkloadSection,
)
from zerosim.schedules import SCHEDULES
from zerosim.schedules.knobs import knobs

_MAX_NUMBER: Final = 1e300
"""Larger ones overflow a float as soon as something is multiplied."""
_PICKS: Final = ("schedule", "schedule.name", "cluster", "convention", "numerics.convention")
_FILES: Final = {"workload.record": "workload.file", "cluster.machine": "cluster.file"}
SECTIONS: Final[dict[str, type[Any]]] = {
    "workload": WorkloadSection,
    "cluster": ClusterSection,
    "numerics": NumericsSection,
    "run": RunSection,
}


def section_from(name: str, record: object) -> Any:  # noqa: ANN401 - one of SECTIONS
    """Build a section, checking names and types. Raises UnknownNameError, ScenarioError.

    A byte convention stands for the fields it names; those given beside it override it.
    """
    if name == "numerics" and isinstance(record, Mapping) and record.get("convention") is not None:
        record = dict(CONVENTIONS[str(record["convention"])].numerics) | _present(record)
    return _record(SECTIONS[name], name, record)


def schedule_from(record: object) -> ScheduleSection:
    """Build the schedule section: its `name`, and options that this schedule has."""
    if not isinstance(record, Mapping):
        raise ScenarioError(f"[schedule] is {record!r}: give a table of fields")
    rest = {k: v for k, v in record.items() if v is not None}
    name = rest.pop("name", ScheduleSection.__dataclass_fields__["name"].default)
    options = SCHEDULES[str(name)].options
    rest = _named(rest, _canonical(options))
    built = _record(options, f"{name} option", rest, section="schedule")
    defaults = asdict(options())
    return ScheduleSection(str(name), {k: v for k, v in asdict(built).items() if v != defaults[k]})


def section_to(section: Any) -> dict[str, Any]:  # noqa: ANN401 - any section record
    """A section as a dictionary, without what is None (TOML has no null)."""
    if isinstance(section, ScheduleSection):
        options = SCHEDULES[section.name].options(**section.options)
        return {"name": section.name} | _present(asdict(options))
    if isinstance(section, WorkloadSection) and section.record is not None:
        return _present({name: getattr(section, name) for name in EXTRACTED_FIELDS})
    return _present(asdict(section))


def section_told(section: Any) -> dict[str, Any]:  # noqa: ANN401 - any section record
    """Those fields of a section that are not at their default."""
    every = ((field.name, getattr(section, field.name), field.default) for field in fields(section))
    return {name: value for name, value, default in every if value != default}


def apply(record: Mapping[str, Any], words: Iterable[str]) -> dict[str, Any]:
    """A scenario dictionary with `--set` words applied: `section.field=value` or `field=value`.

    `schedule=NAME`, `cluster=NAME` and `convention=NAME` pick another one, with its own fields; they
    come first, wherever they stand, so that no word is dropped for the place it stands at.
    Raises UnknownNameError, ScenarioError.
    """
    changed = {k: dict(v) if isinstance(v, Mapping) else v for k, v in record.items()}
    for word in sorted(words, key=_picks_nothing):
        path, sign, text = word.partition("=")
        if not sign or not path:
            raise ScenarioError(f"--set {word}: write it as section.field=value")
        if path in ("schedule", "schedule.name", "cluster"):
            _pick(changed, path.partition(".")[0], text)
            continue
        section, name = _locate(path, str(changed["schedule"]["name"]))
        if name == "convention":
            changed[section] = {}
        changed[section][name] = text
        if text.lower() in ("none", "null"):
            _unset(changed, section, name)
    return changed


def _picks_nothing(word: str) -> bool:
    return word.partition("=")[0] not in _PICKS


def _unset(changed: dict[str, Any], section: str, name: str) -> None:
    """Back to the default, unless the engine's own None is a value of its own."""
    del changed[section][name]
    if section == "schedule" and name != "name":
        options = knobs(SCHEDULES[str(changed[section]["name"])].options)
        meant = next(knob.none for knob in options if knob.name == name)
        if meant is not None:
            changed[section][name] = meant


def _pick(changed: dict[str, Any], section: str, name: str) -> None:
    if section == "cluster":
        MACHINES[name]
        kept = {k: v for k, v in changed["cluster"].items() if k in ("world_size", "calibration")}
        changed["cluster"] = {"name": name} | kept
        return
    known = {f.name for f in fields(SCHEDULES[name].options)}
    before = changed["schedule"]
    defaults = asdict(SCHEDULES[str(before["name"])].options())
    # What the other engine does by default is not what this one is asked to do.
    kept = {k: v for k, v in before.items() if k in known and str(v) != str(defaults.get(k))}
    changed["schedule"] = kept | {"name": name}


def _locate(path: str, schedule: str) -> tuple[str, str]:
    known = [(section, f.name) for section, cls in SECTIONS.items() for f in fields(cls)]
    aliases = _canonical(SCHEDULES[schedule].options)
    known += [("schedule", f.name) for f in fields(SCHEDULES[schedule].options)]
    known += [("schedule", "name")]
    path = aliases.get(path.removeprefix("schedule."), path)
    places = {f"{section}.{name}": (section, name) for section, name in known}
    if path in places:
        return places[path]
    found = [(section, name) for section, name in known if name == path and name != "name"]
    if len(found) == 1:
        return found[0]
    bare = {name for _, name in known if name != "name"}
    if path in {f.name for other in SCHEDULES for f in fields(SCHEDULES[other].options)}:
        bare &= {f.name for f in fields(SCHEDULES[schedule].options)}  # another schedule has it
    raise UnknownNameError("field", path, places if "." in path else bare)


def _named(record: Mapping[str, Any], aliases: Mapping[str, str]) -> dict[str, Any]:
    """Options by the names that they go by here. Raises ScenarioError where two are the same."""
    for alias, name in aliases.items():
        if alias in record and name in record:
            raise ScenarioError(f"schedule.{alias} and schedule.{name} are the same: give one")
    return {aliases.get(k, k): v for k, v in record.items()}


def _canonical(options: type[Any]) -> dict[str, str]:
    """The other names of options, each with the one they go by here."""
    return {knob.alias: knob.name for knob in knobs(options) if knob.alias is not None}


def _record(cls: type[Any], what: str, record: object, section: str | None = None) -> Any:  # noqa: ANN401 - an instance of cls
    if not isinstance(record, Mapping):
        raise ScenarioError(f"[{what}] is {record!r}: give a table of fields")
    hints = get_type_hints(cls)
    for name in record:
        if name not in hints:
            raise UnknownNameError(f"{what} field" if section is None else what, str(name), hints)
    place = section or what
    return cls(**{k: _value(hints[k], f"{place}.{k}", v) for k, v in record.items()})


def _value(hint: Any, place: str, value: Any) -> Any:  # noqa: ANN401 - types are data here
    """`value` as the field's type; text (from the command line) is read as that type."""
    optional = get_origin(hint) in (Union, types.UnionType)
    kinds = [a for a in get_args(hint) if a is not type(None)] if optional else [hint]
    if value is None and optional:
        return None
    wanted = kinds[0]
    if get_origin(wanted) is dict:
        if not isinstance(value, Mapping):
            raise ScenarioError(
                f"{place} is {value!r}: give a table ({_FILES.get(place, place)}=FILE reads one)"
            )
        return dict(value)
    if bool in kinds and len(kinds) > 1:
        truth = isinstance(value, bool) or str(value).lower() in ("true", "false")
        wanted = bool if truth else next(kind for kind in kinds if kind is not bool)
    if isinstance(value, str) and wanted is not str:
        value = _parsed(wanted, place, value)
    if wanted is bool and isinstance(value, bool):
        return value
    if wanted in (int, float) and isinstance(value, int | float) and not isinstance(value, bool):
        if not abs(value) < _MAX_NUMBER:
            shown = value if isinstance(value, float) else f"over {_MAX_NUMBER:g}"
            raise ScenarioError(f"{place} is {shown}: give a finite number")
        if wanted is int and value != int(value):
            raise ScenarioError(f"{place} is {value}: give a whole number")
        return wanted(value)
    if wanted is str and isinstance(value, str):
        return value
    raise ScenarioError(f"{place} is {value!r}: give a value of type {wanted.__name__}")


def _parsed(wanted: type[Any], place: str, text: str) -> Any:  # noqa: ANN401 - types are data here
    if wanted is bool:
        if text.lower() in ("true", "false"):
            return text.lower() == "true"
        raise ScenarioError(f"{place} is '{text}': give true or false")
    try:
        number = float(text.replace("_", ""))
    except ValueError:
        raise ScenarioError(f"{place} is '{text}': give a number") from None
    if not math.isfinite(number):
        raise ScenarioError(f"{place} is {text}: give a finite number")
    return int(text.replace("_", "")) if text.lstrip("+-").replace("_", "").isdigit() else number


def _present(record: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in record.items() if v is not None}
