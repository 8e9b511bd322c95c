"""Tensors in files: what is written is read; what is broken or hostile is refused in a sentence."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import orjson
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from zerosim.errors import InputError
from zerosim_runtime.zero.tensors import open_tensors, write_tensors


def _write(path: Path, header: Any, content: bytes = b"") -> Path:
    text = header if isinstance(header, bytes) else orjson.dumps(header)
    path.write_bytes(struct.pack("<Q", len(text)) + text + content)
    return path


def _entry(**other: Any) -> dict[str, Any]:
    return {"dtype": "F32", "shape": [2], "data_offsets": [0, 8], **other}


@pytest.mark.parametrize(
    "dtype",
    [torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.bool],
)
def test_a_stretch_of_a_tensor_comes_back(tmp_path: Path, dtype: torch.dtype) -> None:
    tensor = torch.tensor([[1, 0, 3], [0, 5, 6]]).to(dtype)
    write_tensors(tmp_path / "x", {"none": torch.empty(0), "x": tensor.t()}, {"why": "test"})

    file = open_tensors(tmp_path / "x")

    assert file.notes == {"why": "test"}
    assert file.tensors["x"].shape == (3, 2)
    assert torch.equal(file.read("x", 1, 4), torch.tensor([0, 0, 5]).to(dtype))
    assert file.read("none", 0, 0).numel() == 0


def test_a_file_is_never_overwritten(tmp_path: Path) -> None:
    write_tensors(tmp_path / "x", {}, {})
    with pytest.raises(FileExistsError):
        write_tensors(tmp_path / "x", {}, {})


def test_a_complex_tensor_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"'x' is torch.complex64: give a real"):
        write_tensors(tmp_path / "x", {"x": torch.zeros(1, dtype=torch.complex64)}, {})


@pytest.mark.parametrize(
    ("header", "content", "why"),
    [
        (b"[1", b"", "unexpected end"),
        (b"[]", b"", "its header is no table"),
        ({"__metadata__": {"a": 1}}, b"", "its notes are no texts"),
        ({"x": 7}, b"", "'x' is no table"),
        ({"x": _entry(dtype="F8")}, bytes(8), "'x' has no known dtype"),
        ({"x": _entry(dtype=[1])}, bytes(8), "'x' has no known dtype"),
        ({"x": _entry(shape=[-2])}, bytes(8), "'x' has no shape"),
        ({"x": _entry(shape=[True, 2])}, bytes(8), "'x' has no shape"),
        ({"x": _entry(data_offsets=[4, 12])}, bytes(12), "'x' does not lie where"),
        ({"x": _entry(data_offsets=[-8, 0])}, bytes(8), "'x' does not lie where"),
        ({"x": _entry()}, bytes(7), "it has"),
        ({"x": _entry()}, bytes(9), "it has"),
    ],
)
def test_a_header_that_lies_is_refused(
    tmp_path: Path, header: Any, content: bytes, why: str
) -> None:
    with pytest.raises(InputError, match=f"is broken \\(.*{why}.*\\): save again"):
        open_tensors(_write(tmp_path / "x", header, content))


def test_a_header_longer_than_its_file_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(struct.pack("<Q", 1 << 60) + b"{}")
    (tmp_path / "y").write_bytes(b"123")
    for name in "xy":
        with pytest.raises(InputError, match="its header is longer than the file"):
            open_tensors(tmp_path / name)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"there is no file '.*/x': give a whole checkpoint"):
        open_tensors(tmp_path / "x")


@given(place=st.integers(0, 10_000), byte=st.integers(0, 255), end=st.integers(0, 10_000))
def test_a_damaged_file_is_read_or_refused_but_never_worse(
    tmp_path_factory: pytest.TempPathFactory, place: int, byte: int, end: int
) -> None:
    path = tmp_path_factory.mktemp("damaged") / "x"
    write_tensors(path, {"a": torch.ones(5), "b": torch.ones(2, 2)}, {"a": "0 5 1"})
    content = bytearray(path.read_bytes())
    content[place % len(content)] = byte
    path.write_bytes(content[: end % len(content) + 1] if end % 2 else content)
    try:
        file = open_tensors(path)
        for name, stored in file.tensors.items():
            file.read(name, 0, stored.nbytes // stored.dtype.itemsize)
    except InputError as error:
        assert "save again" in str(error)  # noqa: PT017 - both ends are right
