"""Hand-made Chakra files: nodes as a simulator's generator writes them."""

from __future__ import annotations

from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import proto

from zerosim import chakra_schema as schema


@dataclass
class Chakra:
    """A file of one rank in the making; `version` None leaves the metadata away."""

    version: str | None = "0.0.4"
    nodes: list[Any] = field(default_factory=list)

    def node(self, kind: int, name: str = "op", **facts: object) -> Any:
        """Add a node; `facts` are fields of it, else attributes: int64, bool or text."""
        node = schema.Node(id=len(self.nodes), name=name.encode(), type=kind)
        for key, value in facts.items():
            if key in ("id", "start_time_micros", "duration_micros"):
                setattr(node, key, value)
            elif key in ("data_deps", "ctrl_deps"):
                getattr(node, key).extend(value)
            else:
                self.say(node, key, value)
        self.nodes.append(node)
        return node

    def say(self, node: Any, key: str, value: object) -> None:
        """Add an attribute."""
        attribute = node.attr.add(name=key.encode())
        if isinstance(value, bool):
            attribute.bool_val = value
        elif isinstance(value, str):
            attribute.string_val = value.encode()
        else:
            attribute.int64_val = value

    def raw(self) -> bytes:
        """The file as bytes."""
        out = BytesIO()
        if self.version is not None:
            proto.serialize_length_prefixed(
                schema.GlobalMetadata(version=self.version.encode()), out
            )
        for node in self.nodes:
            proto.serialize_length_prefixed(node, out)
        return out.getvalue()

    def write(self, path: Path) -> Path:
        """Write it."""
        path.write_bytes(self.raw())
        return path


@pytest.fixture
def chakra() -> type[Chakra]:
    """The class that makes Chakra files."""
    return Chakra
