"""The files that a scenario names: a model, a machine, a calibration, each read and put in its place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from zerosim.errors import ScenarioError
from zerosim.hardware.calibration import changed, read_calibration, shipped
from zerosim.hardware.machine_file import machine_to, read_machine
from zerosim.scenario.model_file import with_model

Tables = Mapping[str, Any]
_FIELDS: Final = {
    "file": "workload.file",
    "workload.file": "workload.file",
    "cluster.file": "cluster.file",
    "calibration": "cluster.calibration",
    "cluster.calibration": "cluster.calibration",
}
"""The fields that hold a file's name, by what a `--set` word may call them."""


def parted(words: Iterable[str]) -> tuple[list[tuple[str, str]], list[str]]:
    """The files that `--set` words name, each with its field (`cluster.file`), and the other words."""
    files, rest = [], []
    for word in words:
        name, _, value = word.partition("=")
        if name in _FIELDS and value.lower() not in ("none", "null"):
            files.append((_FIELDS[name], value))
        else:
            rest.append(word)
    if any(field == "cluster.file" for field, _ in files):
        for word in rest:
            if word.startswith("cluster="):
                raise ScenarioError(f"--set {word}: cluster.file names the machine, too: give one")
    return files, rest


def inlined(record: Tables, home: Path) -> Tables:
    """A scenario's tables with the files that they name, relative to `home`, read into them."""
    for field in _PUT:
        section, _, name = field.partition(".")
        table = record.get(section)
        if isinstance(table, Mapping) and isinstance(table.get(name, {}), str):
            if field == "cluster.file" and "name" in table:
                raise ScenarioError("cluster.name and cluster.file both name the machine: give one")
            rest = {k: v for k, v in table.items() if k != name}
            record = with_file({**record, section: rest}, field, table[name], home)
        elif isinstance(table, Mapping) and name == "file" and name in table:
            raise ScenarioError(f"{field} is {table[name]!r}: give a file")
    return record


def with_file(record: Tables, field: str, name: str, home: Path) -> Tables:
    """A scenario's tables with a file, relative to `home`, in the place of a field. Raises InputError."""
    if not name:
        raise ScenarioError(f"{field} is '': give a file")
    return _PUT[field](record, name, home)


def _with_machine(record: Tables, name: str, home: Path) -> Tables:
    """With another machine: what the scenario changed about the one before it goes."""
    machine = read_machine(home / name)
    before = record.get("cluster", {})
    kept = {k: before[k] for k in ("world_size", "calibration") if k in before}
    if "name" not in before:
        kept = {**before}
    return {**record, "cluster": {**kept, "name": machine.name, "machine": machine_to(machine)}}


def _with_calibration(record: Tables, name: str, home: Path) -> Tables:
    """With the constants of a calibration that differ from those that zerosim comes with."""
    found = changed(shipped(), read_calibration(home / name)).to_dict()
    before = {k: v for k, v in record.get("cluster", {}).items() if k != "calibration"}
    return {**record, "cluster": {**before, **({"calibration": found} if found else {})}}


_PUT: Final[dict[str, Callable[[Tables, str, Path], Tables]]] = {
    "workload.file": with_model,
    "cluster.file": _with_machine,
    "cluster.calibration": _with_calibration,
}
