"""A configuration file as a tree whose keys know their lines: JSON, TOML or YAML, found by content."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, Final

from zerosim.configs.jsontext import read_json
from zerosim.errors import InputError, ScenarioError
from zerosim.toml_text import read_toml

MAX_BYTES: Final = 2**18
"""A configuration is a page or two."""
_MAX_DEPTH: Final = 50
Keys = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """Where something stands: file, line (None: unknown) and key."""

    file: str
    line: int | None
    key: str

    def __str__(self) -> str:
        """`ds_config.json line 12: zero_optimization.overlap_comm`."""
        line = "" if self.line is None else f" line {self.line}"
        return f"{self.file}{line}: {self.key}"


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed file: nested tables, and the lines of their keys."""

    name: str
    tree: Mapping[str, Any]
    lines: Mapping[Keys, int]
    home: Path

    def place(self, keys: Keys) -> Place:
        """The place of a key."""
        return Place(self.name, self.lines.get(keys), ".".join(keys))

    def table(self, key: str) -> Mapping[str, Any]:
        """A table of the file, empty if it has none. Raises ScenarioError for anything else."""
        found = self.tree.get(key, {})
        if not isinstance(found, Mapping):
            raise ScenarioError(
                f"{self.place((key,))} is {str(found)[:60]}: give a table of its keys"
            )
        return found

    def leaves(self) -> Iterator[tuple[Keys, Any]]:
        """Every key that holds no table, in the order of the file; an empty table is a leaf, too."""
        yield from _leaves((), self.tree)


def read_document(path: Path) -> Document:
    """Read a file whatever its suffix says. Raises ScenarioError with line and key."""
    try:
        if not path.is_file():
            raise ScenarioError(f"no configuration '{path}': check the path")
        if path.stat().st_size > MAX_BYTES:
            raise ScenarioError(f"'{path}' is over {MAX_BYTES} bytes, so no configuration")
        text = path.read_bytes().decode()
    except OSError as error:
        reason = error.strerror or error
        raise ScenarioError(f"cannot read '{path}': {reason}; check the path") from None
    except UnicodeDecodeError:
        raise ScenarioError(f"'{path}' is no text: give JSON, TOML or YAML") from None
    tree, lines = _parsed(path.name, text)
    if not isinstance(tree, Mapping):
        raise ScenarioError(f"{path.name} line 1: holds no table: give keys and values")
    return Document(path.name, tree, lines, path.parent)


def _leaves(keys: Keys, value: Any) -> Iterator[tuple[Keys, Any]]:  # noqa: ANN401 - any parsed value
    if len(keys) > _MAX_DEPTH:
        raise ScenarioError(
            f"'{'.'.join(keys[:3])}' goes over {_MAX_DEPTH} levels deep: give a flatter file"
        )
    if isinstance(value, Mapping) and (value or not keys):
        for name, inner in value.items():
            yield from _leaves((*keys, str(name)), inner)
    else:
        yield keys, value


def _parsed(name: str, text: str) -> tuple[Any, Mapping[Keys, int]]:
    code = [line for line in text.splitlines() if line.strip() and not _is_comment(line)]
    if text.lstrip().startswith(("{", "//", "/*")) or (code and code[0].lstrip().startswith("{")):
        return read_json(name, text)
    # A TOML file has tables or `key = value`; neither is YAML.
    if any(re.match(r"\s*(\[[\w.\"' -]+\]\s*(#.*)?$|[\w.\"'-]+\s*=)", line) for line in code):
        return _toml(name, text)
    return _yaml(name, text)


def _is_comment(line: str) -> bool:
    return line.lstrip().startswith("#")


def _toml(name: str, text: str) -> tuple[Any, Mapping[Keys, int]]:
    try:
        tree = read_toml(text)
    except (ValueError, RecursionError) as error:
        said = re.search(r"\(at line (\d+), column \d+\)", str(error))
        line = int(said[1]) if said else text.count("\n") + 1
        inside = _toml_lines("\n".join(text.splitlines()[:line]))
        key = f" at '{'.'.join(list(inside)[-1])}'" if inside else ""
        words = str(error).split(" (at ")[0]
        raise ScenarioError(f"{name} line {line}{key}: {words}: mend the file") from None
    return tree, _toml_lines(text)


def _toml_lines(text: str) -> dict[Keys, int]:
    """The lines of keys that stand first in a line: all of a file that people write."""
    table: Keys = ()
    found: dict[Keys, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        header = re.match(r"\s*\[\[?([^\[\]]+)\]", line)
        pair = re.match(r"\s*([\w\"'.-]+(?:\s*\.\s*[\w\"'-]+)*)\s*=", line)
        if header:
            table = _toml_keys(header[1])
            found[table] = number
        elif pair:
            found[(*table, *_toml_keys(pair[1]))] = number
    return found


def _toml_keys(text: str) -> Keys:
    return tuple(part.strip().strip("\"'") for part in text.split("."))


def _yaml(name: str, text: str) -> tuple[Any, Mapping[Keys, int]]:
    try:
        import yaml  # noqa: PLC0415 - only this format needs it, and a command's start is cold
    except ModuleNotFoundError:
        raise InputError(
            f"reading '{name}' needs 'yaml', which is not installed: pip install pyyaml"
        ) from None
    if _brackets(text) > _MAX_DEPTH:  # PyYAML takes a time that grows with their square
        raise ScenarioError(f"{name}: over {_MAX_DEPTH} levels deep: give a flatter file")
    lines: dict[Keys, int] = {}
    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            if isinstance(event, yaml.AliasEvent):
                mark = event.start_mark
                line = 1 if mark is None else mark.line + 1
                raise ScenarioError(f"{name} line {line}: alias '*{event.anchor}': write it out")
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        _yaml_lines(name, root, (), lines)
        return yaml.safe_load(text), lines
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = 1 if mark is None else mark.line + 1
        words = getattr(error, "problem", None) or "is no YAML"
        key = _last_yaml_key(text, line)
        raise ScenarioError(f"{name} line {line}{key}: {words}: mend the file") from None
    except RecursionError:
        raise ScenarioError(f"{name}: over {_MAX_DEPTH} levels deep: give a flatter file") from None


def _brackets(text: str) -> int:
    """How many brackets are open at once, at most."""
    steps = (1 if bracket in "[{" else -1 for bracket in re.findall(r"[\[\]{}]", text))
    return max(accumulate(steps), default=0)


def _last_yaml_key(text: str, line: int) -> str:
    keys = re.findall(r"^\s*([\w-]+)\s*:", "\n".join(text.splitlines()[:line]), re.MULTILINE)
    return f" at '{keys[-1]}'" if keys else ""


def _yaml_lines(name: str, node: Any, keys: Keys, lines: dict[Keys, int]) -> None:  # noqa: ANN401 - PyYAML's nodes
    if len(keys) > _MAX_DEPTH:
        raise ScenarioError(f"{name}: over {_MAX_DEPTH} levels deep: give a flatter file")
    if type(node).__name__ != "MappingNode":
        return
    for key, value in node.value:
        inner = (*keys, str(key.value))
        line = key.start_mark.line + 1
        if inner in lines:
            raise ScenarioError(
                f"{name} line {line} at '{'.'.join(inner)}': it stands twice: keep one"
            )
        lines[inner] = line
        _yaml_lines(name, value, inner, lines)
