"""Checkpoints: each rank writes the rows it owns; they are read by any number of ranks, at any stage.

    DIRECTORY/index.json           what all have in common
    DIRECTORY/rank-R.safetensors   masters and moments of rank R's rows, without padding
    DIRECTORY/buffers.safetensors  the module's buffers, from rank 0

All ranks see the same directory. It is there whole or not at all.
"""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson
import torch

from zerosim.disk import flush, put_in_place
from zerosim.errors import InputError, RuntimeFailedError
from zerosim.plan import Allocation
from zerosim_runtime.memory import Memory
from zerosim_runtime.zero.channels import Channels
from zerosim_runtime.zero.scale import Scale
from zerosim_runtime.zero.stage import Share
from zerosim_runtime.zero.states import Owned
from zerosim_runtime.zero.tensors import TensorFile, open_tensors, write_tensors

_FORMAT: Final = "zerosim.zero"
_VERSION: Final = 1
_INDEX: Final = "index.json"
_BUFFERS: Final = "buffers.safetensors"
_MOST_RANKS: Final = 1 << 20
_MOST_STEPS: Final = 1 << 53
_WORD: Final = "checkpoint"


@dataclass(frozen=True, slots=True)
class State:
    """What a checkpoint holds of one rank, by reference: loading writes into it.

    `shapes` are those of all sharded parameters, `shares` and `owned` this rank's.
    """

    optimizer: str
    shapes: Mapping[str, tuple[int, ...]]
    shares: Mapping[str, Share]
    owned: Mapping[str, Owned]
    buffers: Mapping[str, torch.Tensor]
    scale: Scale | None


def save(directory: Path, state: State, channels: Channels, memory: Memory) -> None:
    """Write a checkpoint; all ranks must save together. One that stood there is replaced at the end.

    Raises InputError if something else stands there, RuntimeFailedError if any rank cannot write.
    """
    scratch = directory.parent / f".{directory.name}.saving"
    together = _together(channels, memory)

    def make() -> None:
        if directory.exists() and any(directory.iterdir()):
            _read_format(directory / _INDEX)
        directory.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()

    def write() -> None:
        notes = {
            name: f"{share.start} {share.end} {state.owned[name].step}"
            for name, share in state.shares.items()
        }
        write_tensors(_file(scratch, channels.rank), dict(_tensors(state)), notes)

    def finish() -> None:
        write_tensors(scratch / _BUFFERS, state.buffers, {})
        _write_index(scratch / _INDEX, state, channels.n_ranks)
        flush(scratch)
        put_in_place(scratch, directory)
        flush(directory.parent)

    first = channels.rank == 0
    try:
        together(make if first else _nothing)
        together(write)
        together(finish if first else _nothing)
    finally:
        if first:
            shutil.rmtree(scratch, ignore_errors=True)


def load(directory: Path, state: State, channels: Channels, memory: Memory) -> None:
    """Read what any number of ranks have saved at any stage; all ranks must load together.

    Everything is checked before anything is changed. Raises InputError.
    """
    together = _together(channels, memory)
    files: list[TensorFile] = []
    index: dict[str, Any] = {}

    def check() -> None:
        index.update(_read_index(directory / _INDEX, state))
        files.extend(open_tensors(_file(directory, r)) for r in range(index["world_size"]))
        for name in state.owned:
            _check(name, state, files)
        _check_buffers(state, open_tensors(directory / _BUFFERS))

    def read() -> None:
        for name, share in state.shares.items():
            _read(name, share, state.owned[name], files)
        stored = open_tensors(directory / _BUFFERS)
        for name, buffer in state.buffers.items():
            buffer.copy_(stored.read(name, 0, buffer.numel()).view(buffer.shape))
        if state.scale is not None and index["scale"] is not None:
            state.scale.value, state.scale.good = index["scale"]

    together(check)
    together(read)


def _tensors(state: State) -> Iterator[tuple[str, torch.Tensor]]:
    for name, share in state.shares.items():
        owned = state.owned[name]
        for part, tensor in _parts(owned):
            yield f"{name}/{part}", tensor[: share.end - share.start]


def _parts(owned: Owned) -> Iterator[tuple[str, torch.Tensor]]:
    yield "master", owned.master
    for i, moment in enumerate(owned.moments):
        yield f"moment{i}", moment


def _write_index(path: Path, state: State, n_ranks: int) -> None:
    scale = None if state.scale is None else [state.scale.value, state.scale.good]
    index = {
        "format": _FORMAT,
        "version": _VERSION,
        "world_size": n_ranks,
        "optimizer": state.optimizer,
        "scale": scale,
        "parameters": {name: list(shape) for name, shape in state.shapes.items()},
    }
    with path.open("xb") as file:
        file.write(orjson.dumps(index, option=orjson.OPT_INDENT_2))
        file.flush()
        os.fsync(file.fileno())


def _read_format(path: Path) -> dict[str, Any]:
    """The index, if it is of a checkpoint."""
    try:
        index = orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError) as error:
        raise InputError(f"'{path.parent}' is no checkpoint ({error}): give another") from error
    if not isinstance(index, dict) or index.get("format") != _FORMAT:
        raise InputError(f"'{path.parent}' is no checkpoint of zerosim's: give another")
    return index


def _read_index(path: Path, state: State) -> dict[str, Any]:
    """The index, if this trainer can go on from it."""
    index = _read_format(path)
    if index.get("version") != _VERSION:
        raise InputError(
            f"'{path}' has version {index.get('version')}: this zerosim reads {_VERSION}"
        )
    n_ranks, scale = index.get("world_size"), index.get("scale")
    if type(n_ranks) is not int or not 1 <= n_ranks <= _MOST_RANKS:
        raise InputError(f"'{path}': world_size is {n_ranks}: give a number of ranks")
    if scale is not None and not _is_scale(scale):
        raise InputError(f"'{path}': scale is {scale}: give a positive factor and a count")
    if index.get("optimizer") != state.optimizer:
        raise InputError(
            f"'{path}' holds states of '{index.get('optimizer')}': "
            f"give that optimizer instead of '{state.optimizer}'"
        )
    found = index.get("parameters")
    _same(path, found if isinstance(found, dict) else {}, state.shapes)
    return {"world_size": n_ranks, "scale": scale}


def _is_scale(scale: object) -> bool:
    match scale:
        case [float(value), int(good)]:
            return math.isfinite(value) and value > 0 and good >= 0
        case _:
            return False


def _same(path: Path, found: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]) -> None:
    for name in sorted(found.keys() ^ shapes.keys()):
        where = "the checkpoint" if name in found else "the module"
        raise InputError(f"'{path}': only {where} has '{name}': build the module that was saved")
    for name, shape in shapes.items():
        if found[name] != list(shape):
            raise InputError(
                f"'{path}': '{name}' has shape {found[name]}, the module's has {list(shape)}: "
                "build the module that was saved"
            )


def _stretches(name: str, files: list[TensorFile]) -> Iterator[tuple[int, int, int, TensorFile]]:
    """Who has which elements of a parameter, and how often it was stepped."""
    for file in files:
        if name in file.notes:
            try:
                start, end, step = map(int, file.notes[name].split())
            except ValueError as error:
                raise InputError(f"'{file.path}': no place of '{name}': save again") from error
            yield start, end, step, file


def _check(name: str, state: State, files: list[TensorFile]) -> None:
    """The files hold every element of this parameter once, in its dtype."""
    numel, reached, steps = math.prod(state.shapes[name]), 0, set[int]()
    for start, end, step, file in sorted(_stretches(name, files), key=lambda each: each[:2]):
        if start != reached or not start <= end <= numel or not 0 <= step < _MOST_STEPS:
            raise InputError(f"'{file.path}': elements of '{name}' do not join up: save again")
        reached = end
        steps.add(step)
        for part, tensor in _parts(state.owned[name]):
            stored = file.tensors.get(f"{name}/{part}")
            if stored is None or stored.shape != (end - start,):
                raise InputError(f"'{file.path}' lacks '{name}/{part}': save again")
            if stored.dtype is not tensor.dtype:
                raise InputError(
                    f"'{file.path}': '{name}/{part}' is {stored.dtype}, here it is {tensor.dtype}: "
                    "train in the dtype that was saved"
                )
    if reached != numel or len(steps) != 1:
        raise InputError(
            f"the checkpoint has {reached} of {numel} elements of '{name}': save again"
        )


def _check_buffers(state: State, file: TensorFile) -> None:
    found = {name: list(stored.shape) for name, stored in file.tensors.items()}
    _same(file.path, found, {name: tuple(b.shape) for name, b in state.buffers.items()})


@torch.no_grad()
def _read(name: str, share: Share, owned: Owned, files: list[TensorFile]) -> None:
    """Take over what lies in this rank's share of a parameter."""
    for start, end, step, file in _stretches(name, files):
        owned.step = step
        first, last = max(start, share.start), min(end, share.end)
        if first >= last:
            continue
        for part, tensor in _parts(owned):
            row = file.read(f"{name}/{part}", first - start, last - start)
            tensor[first - share.start : last - share.start].copy_(row)
    if owned.master is not owned.weight:
        owned.weight.copy_(owned.master)


def _together(channels: Channels, memory: Memory) -> Callable[[Callable[[], None]], None]:
    """Runs a part on this rank, then asks the others: if one failed, all raise, and nobody hangs."""

    def run(part: Callable[[], None]) -> None:
        failure: Exception | None = None
        try:
            part()
        except Exception as error:  # noqa: BLE001 - it is raised again once the others know
            failure = error
        failed = memory.new(Allocation(_WORD, "buckets", 4), 1, torch.int32)
        failed.fill_(failure is not None)
        channels.all_reduce(_WORD, failed).wait()
        memory.drop(_WORD)
        if isinstance(failure, OSError):
            raise RuntimeFailedError(
                f"cannot write a checkpoint ({failure}): make room, or give another directory"
            ) from failure
        if failure is not None:
            raise failure
        if failed.item():
            raise RuntimeFailedError(
                "another rank could not go on with the checkpoint: see what it says"
            )

    return run


def _nothing() -> None:
    """What the other ranks do while the first does something."""


def _file(directory: Path, rank: int) -> Path:
    return directory / f"rank-{rank}.safetensors"
