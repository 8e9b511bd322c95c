"""Tensors in a file, in the safetensors format: a length, a header of JSON, raw bytes. No pickle.

Nothing a file says is believed before it is checked: where each tensor lies, and that it fits.
"""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson
import torch

from zerosim.errors import InputError

_LENGTH: Final = struct.Struct("<Q")
_LONGEST: Final = 100_000_000  # bytes of a header, as safetensors allows
_NOTES: Final = "__metadata__"
_DTYPES: Final = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
_WORDS: Final = {dtype: word for word, dtype in _DTYPES.items()}


@dataclass(frozen=True, slots=True)
class Stored:
    """A tensor in a file; its bytes begin at `offset` of the file."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    offset: int

    @property
    def nbytes(self) -> int:
        """How many bytes it takes."""
        return math.prod(self.shape) * self.dtype.itemsize


@dataclass(frozen=True, slots=True)
class TensorFile:
    """A file whose header has been read and checked; `notes` are what its writer remarked."""

    path: Path
    notes: Mapping[str, str]
    tensors: Mapping[str, Stored]

    def read(self, name: str, start: int, end: int) -> torch.Tensor:
        """Elements `start` to `end` of a tensor, flat. Raises InputError."""
        stored = self.tensors[name]
        size = stored.dtype.itemsize
        try:
            with self.path.open("rb") as file:
                file.seek(stored.offset + start * size)
                content = bytearray(file.read((end - start) * size))
        except OSError as error:
            raise InputError(f"cannot read '{self.path}' ({error}): save again") from error
        if len(content) != (end - start) * size:
            raise _broken(self.path, f"'{name}' ends early")
        if not content:
            return torch.empty(0, dtype=stored.dtype)
        return torch.frombuffer(content, dtype=stored.dtype)


def write_tensors(
    path: Path, tensors: Mapping[str, torch.Tensor], notes: Mapping[str, str]
) -> None:
    """Write a new file and wait until it is on the disk. Raises InputError for a dtype, OSError."""
    header: dict[str, Any] = {_NOTES: dict(notes)}
    end = 0
    for name, tensor in tensors.items():
        if tensor.dtype not in _WORDS:
            raise InputError(f"'{name}' is {tensor.dtype}: give a real, whole or boolean dtype")
        start, end = end, end + tensor.nbytes
        header[name] = {
            "dtype": _WORDS[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [start, end],
        }
    text = orjson.dumps(header)
    with path.open("xb") as file:
        file.write(_LENGTH.pack(len(text)))
        file.write(text)
        for tensor in tensors.values():
            file.write(_bytes(tensor))
        file.flush()
        os.fsync(file.fileno())


def open_tensors(path: Path) -> TensorFile:
    """Read a file's header and check it against its size. Raises InputError."""
    try:
        if not path.is_file():
            raise InputError(f"there is no file '{path}': give a whole checkpoint")
        size = path.stat().st_size
        with path.open("rb") as file:
            first = file.read(_LENGTH.size)
            length = _LENGTH.unpack(first)[0] if len(first) == _LENGTH.size else size
            if length > min(_LONGEST, size - _LENGTH.size):
                raise _broken(path, "its header is longer than the file")
            header = orjson.loads(file.read(length))
    except (OSError, orjson.JSONDecodeError) as error:
        raise _broken(path, str(error)) from error
    if not isinstance(header, dict):
        raise _broken(path, "its header is no table")
    notes = header.pop(_NOTES, {})
    if not isinstance(notes, dict) or not all(isinstance(v, str) for v in notes.values()):
        raise _broken(path, "its notes are no texts")
    tensors: dict[str, Stored] = {}
    end = begin = _LENGTH.size + length
    for name, entry in header.items():
        tensors[name] = stored = _stored(path, name, entry, end - begin, begin)
        end += stored.nbytes
    if end != size:
        raise _broken(path, f"it has {size} B, its header says {end} B")
    return TensorFile(path, notes, tensors)


def _stored(path: Path, name: str, entry: object, start: int, begin: int) -> Stored:
    """An entry of a header, whose bytes must begin at `start` behind the header."""
    if not isinstance(entry, dict):
        raise _broken(path, f"'{name}' is no table")
    word, shape, offsets = (entry.get(key) for key in ("dtype", "shape", "data_offsets"))
    if not isinstance(word, str) or word not in _DTYPES:
        raise _broken(path, f"'{name}' has no known dtype")
    if not isinstance(shape, list) or not all(type(n) is int and n >= 0 for n in shape):
        raise _broken(path, f"'{name}' has no shape")
    stored = Stored(_DTYPES[word], tuple(shape), begin + start)
    if offsets != [start, start + stored.nbytes]:
        raise _broken(path, f"'{name}' does not lie where its shape says")
    return stored


def _bytes(tensor: torch.Tensor) -> memoryview:
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().data


def _broken(path: Path, why: str) -> InputError:
    return InputError(f"'{path}' is broken ({why}): save again, or copy it again")
