"""JSON with line numbers: values, the line of every key, and errors that name both."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any, Final

from zerosim.errors import ScenarioError

Path = tuple[str, ...]
_MAX_DEPTH: Final = 50
_SPACE: Final = re.compile(r"[ \t\r\n]*")
_SCALAR: Final = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"|[^\s,:{}\[\]"]+')


@dataclass(slots=True)
class _Scanner:
    """One pass over a text; `lines` gets the line of each key as it is met."""

    name: str
    text: str
    at: int = 0
    lines: dict[Path, int] = field(default_factory=dict)

    def wrong(self, what: str, path: Path) -> ScenarioError:
        """What is wrong, with its line and the key it belongs to."""
        line = self.text.count("\n", 0, self.at) + 1
        place = f" at '{'.'.join(path)}'" if path else ""
        return ScenarioError(f"{self.name} line {line}{place}: {what}")

    def peek(self, path: Path) -> str:
        """The next character that is no space. A comment is an error of its own."""
        found = _SPACE.match(self.text, self.at)
        self.at = self.at if found is None else found.end()
        if self.text.startswith(("//", "/*", "#"), self.at):
            raise self.wrong("JSON has no comments: take it out", path)
        return self.text[self.at : self.at + 1]

    def value(self, path: Path) -> Any:  # noqa: ANN401 - JSON
        """The value that starts here."""
        if len(path) > _MAX_DEPTH:
            raise self.wrong(f"over {_MAX_DEPTH} levels deep: give a flatter file", path[:3])
        opening = self.peek(path)
        if opening == "{":
            return self.members(path)
        if opening == "[":
            return self.items(path)
        return self.scalar(path)

    def members(self, path: Path) -> dict[str, Any]:
        """The members of an object, whose brace comes next."""
        found: dict[str, Any] = {}
        last = path
        self.at += 1
        while self.more("}", found, last):
            name = self.scalar(last) if self.peek(last) == '"' else None
            if not isinstance(name, str):
                raise self.wrong('expected a key in "quotes"', last)
            last = (*path, name)
            if name in found:
                raise self.wrong("the key stands twice: keep one", last)
            self.lines[last] = self.text.count("\n", 0, self.at) + 1
            if self.peek(last) != ":":
                raise self.wrong("expected ':' after the key", last)
            self.at += 1
            found[name] = self.value(last)
        return found

    def items(self, path: Path) -> list[Any]:
        """The items of a list, whose bracket comes next."""
        found: list[Any] = []
        self.at += 1
        while self.more("]", found, path):
            found.append(self.value((*path, str(len(found)))))
        return found

    def more(self, closing: str, found: Any, path: Path) -> bool:  # noqa: ANN401 - a list or a dictionary
        """Whether another entry follows; steps over the comma or the closing bracket."""
        following = self.peek(path)
        if following == closing:
            self.at += 1
            return False
        if not found:
            return True
        if following != ",":
            raise self.wrong(f"expected ',' or '{closing}'", path)
        comma = self.at
        self.at += 1
        if self.peek(path) == closing:
            self.at = comma
            raise self.wrong(f"a comma before '{closing}': take it out", path)
        return True

    def scalar(self, path: Path) -> Any:  # noqa: ANN401 - JSON
        """A string, a number, true, false or null."""
        found = _SCALAR.match(self.text, self.at)
        if found is None:
            raise self.wrong("expected a value", path)
        try:
            value = json.loads(found[0])
        except ValueError:
            raise self.wrong(f"{found[0][:40]!r} is no JSON value", path) from None
        self.at = found.end()
        return value


def read_json(name: str, text: str) -> tuple[Any, dict[Path, int]]:
    """The value of a JSON text, and the line of each key. Raises ScenarioError."""
    scanner = _Scanner(name, text)
    value = scanner.value(())
    if scanner.peek(()):
        raise scanner.wrong("expected the end of the file", ())
    return value, scanner.lines
