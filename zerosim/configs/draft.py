"""A scenario in the making: each field with where its value is from, and what of a file has no bearing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from difflib import get_close_matches
from typing import Any, Final

from zerosim.configs.document import Document, Keys, Place
from zerosim.errors import ScenarioError
from zerosim.schedules import SCHEDULES

AUTO: Final = "auto"


@dataclass(frozen=True, slots=True)
class Origin:
    """A field of the scenario (`schedule.overlap_comm`), its value, and where that is from."""

    field: str
    value: Any
    origin: str


@dataclass(slots=True)
class Draft:
    """What several files say together.

    `asked`: fields that the user sets with `--set`, by bare name, which decide before a default does.
    """

    asked: Mapping[str, str]
    record: dict[str, dict[str, Any]] = field(default_factory=dict)
    origins: dict[str, Origin] = field(default_factory=dict)
    quiet: list[Place] = field(default_factory=list)

    def put(self, where: str, value: Any, origin: object) -> None:  # noqa: ANN401 - any field's value
        """Set `section.field`, and note where from."""
        section, _, name = where.partition(".")
        self.record.setdefault(section, {})[name] = value
        self.origins[where] = Origin(where, value, str(origin))

    def get(self, where: str) -> Any:  # noqa: ANN401 - any field's value
        """What `section.field` is so far, None if nothing."""
        section, _, name = where.partition(".")
        return self.record.get(section, {}).get(name)

    def number_asked(self, name: str) -> int | None:
        """A whole number that `--set` gives to a field."""
        text = self.asked.get(name, "")
        return int(text) if text.isdigit() else None

    def schedule(self, name: str, origin: object, engine: str) -> None:
        """Pick the schedule; every option starts at the engine's default."""
        self.put("schedule.name", name, origin)
        for option, value in asdict(SCHEDULES[name].options()).items():
            if value is not None:
                self.put(f"schedule.{option}", value, f"default of {engine}")

    def numerics(self, fields: Mapping[str, str], origin: object) -> None:
        """Set fields of `numerics` that one choice of the file decides."""
        for name, value in fields.items():
            self.put(f"numerics.{name}", value, origin)


@dataclass(frozen=True, slots=True)
class Leaf:
    """A key of a file, being read into a draft."""

    draft: Draft
    keys: Keys
    value: Any
    place: Place

    def wrong(self, reason: str) -> ScenarioError:
        """An error with line and key."""
        return ScenarioError(f"{self.place} is {shown(self.value)}: {reason}")


Rule = Callable[[Leaf], None]


def quiet(leaf: Leaf) -> None:
    """A key with no bearing on schedule, time or memory."""
    leaf.draft.quiet.append(leaf.place)


def elsewhere(leaf: Leaf) -> None:
    """A key that is read together with those it hangs together with."""


def only(*values: object, why: str = "zerosim does not model it") -> Rule:
    """A key that is fine at these values, such as its default, and refused at others."""

    def rule(leaf: Leaf) -> None:
        if not any(leaf.value == value and type(leaf.value) is type(value) for value in values):
            allowed = " or ".join(shown(value) for value in values)
            raise leaf.wrong(f"{why}; it reads {allowed}" if allowed else why)
        quiet(leaf)

    return rule


def into(where: str, kind: type[Any] = int) -> Rule:
    """A key whose value becomes a field as it is; a number at least 1."""

    def rule(leaf: Leaf) -> None:
        leaf.draft.put(where, checked(leaf, kind), leaf.place)

    return rule


def checked(leaf: Leaf, kind: type[Any] = int, least: int = 1) -> Any:  # noqa: ANN401 - of that kind
    """The value of a key, which must be of a kind, and a number not below `least`."""
    value = leaf.value
    if kind is int and isinstance(value, float) and value.is_integer():
        value = int(value)  # 5e8 is how people write it
    if type(value) is not kind:
        raise leaf.wrong(f"give {'a whole number' if kind is int else f'a {kind.__name__}'}")
    if kind is int and value < least:
        raise leaf.wrong(f"give at least {least}")
    return value


def read(document: Document, draft: Draft, rules: Mapping[str, Rule]) -> None:
    """Read every key of a document by its rule: `a.b`, or `a` for all below it.

    Raises ScenarioError for a key that has none, with its line.
    """
    seen: set[Keys] = set()
    for keys, value in document.leaves():
        found = _rule(keys, rules)
        if found is None and value == {} and _is_above(keys, rules):
            continue
        if found is None:
            raise unknown(document, keys, rules)
        rule, length = found
        if keys[:length] not in seen:
            seen.add(keys[:length])
            whole = value if length == len(keys) else _inside(document.tree, keys[:length])
            rule(Leaf(draft, keys[:length], whole, document.place(keys[:length])))


def unknown(document: Document, keys: Keys, known: Iterable[str]) -> ScenarioError:
    """The error for a key that nobody knows: file, line and key, and what it may have meant."""
    known = tuple(known)
    if _is_above(keys, known):
        value = shown(_inside(document.tree, keys))
        return ScenarioError(f"{document.place(keys)} is {value}: give a table of its keys")
    prefixes = {".".join(k.split(".")[:n]) for k in known for n in range(1, k.count(".") + 2)}
    length = next(n for n in range(1, len(keys) + 1) if ".".join(keys[:n]) not in prefixes)
    place = document.place(keys[:length])
    above = ".".join(keys[: length - 1])
    beside = [name for name in prefixes if name.rpartition(".")[0] == above]
    close = get_close_matches(place.key, sorted(beside), n=1)
    hint = f"did you mean '{close[0]}'?" if close else "take it out if it has no bearing"
    return ScenarioError(f"{place}: zerosim knows no such key: {hint}")


def _is_above(keys: Keys, known: Iterable[str]) -> bool:
    """Whether these keys name a table that holds known ones."""
    return any(k.startswith(f"{'.'.join(keys)}.") for k in known)


def shown(value: object) -> str:
    """A value as a file writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    text = f"'{value}'" if isinstance(value, str) else str(value)
    return text[:60]


def _rule(keys: Keys, rules: Mapping[str, Rule]) -> tuple[Rule, int] | None:
    for length in range(len(keys), 0, -1):
        rule = rules.get(".".join(keys[:length]))
        if rule is not None:
            return rule, length
    return None


def _inside(tree: Mapping[str, Any], keys: Keys) -> Any:  # noqa: ANN401 - any parsed value
    value: Any = tree
    for key in keys:
        value = value[key]
    return value
