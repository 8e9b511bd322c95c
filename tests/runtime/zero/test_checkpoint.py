"""Checkpoints: training goes on as if never interrupted; what does not fit is refused untouched."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
import torch
from torch import nn

from zerosim.errors import InputError, RuntimeFailedError
from zerosim_runtime.optimizer import Settings
from zerosim_runtime.zero import Options, Trainer, checkpoint, shard
from zerosim_runtime.zero.tensors import open_tensors, write_tensors

pytestmark = pytest.mark.usefixtures("alone")
SETTINGS = Settings(lr=0.1)


def _net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))


def _train(trainer: Trainer, steps: range) -> None:
    for step in steps:
        inputs = torch.arange(6.0).view(2, 3) * step
        trainer.backward(trainer.model(inputs).square().mean())
        trainer.step()


def _open(stage: int = 2, **other: Any) -> Trainer:
    return shard(_net(), Options(stage, settings=SETTINGS, **other))


@pytest.mark.parametrize(("saved", "loaded"), [(1, 2), (2, 1)])
@pytest.mark.parametrize("dtype", [None, torch.float16])
def test_training_goes_on_from_a_checkpoint_as_if_never_interrupted(
    tmp_path: Path, saved: int, loaded: int, dtype: torch.dtype | None
) -> None:
    other: dict[str, Any] = {"dtype": dtype, "loss_scale": 0 if dtype else None}
    with _open(saved, **other) as trainer:
        _train(trainer, range(1, 4))
        trainer.save(tmp_path / "there")
        _train(trainer, range(4, 7))
        buffers = [b.clone() for b in trainer.model.buffers()]
        expected, scale = trainer.whole(), trainer.scale
    with _open(loaded, partition="whole", **other) as trainer:
        _train(trainer, range(7, 8))
        trainer.load(tmp_path / "there")
        _train(trainer, range(4, 7))

        assert all(torch.equal(expected[name], now) for name, now in trainer.whole().items())
        assert all(map(torch.equal, trainer.model.buffers(), buffers))
        assert trainer.scale == scale


def test_a_checkpoint_is_replaced_as_a_whole_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    with _open() as trainer:
        trainer.save(tmp_path / "there")
        (tmp_path / "there" / "rank-7.safetensors").write_text("of a larger world")
        trainer.save(tmp_path / "there")
    assert [path.name for path in tmp_path.iterdir()] == ["there"]
    assert sorted(path.name for path in (tmp_path / "there").iterdir()) == [
        "buffers.safetensors",
        "index.json",
        "rank-0.safetensors",
    ]


def test_a_directory_that_holds_something_else_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    with _open() as trainer, pytest.raises(InputError, match=r"is no checkpoint .*: give another"):
        trainer.save(tmp_path)
    assert (tmp_path / "thesis.tex").read_text() == "mine"


def test_a_full_disk_leaves_the_checkpoint_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with _open() as trainer:
        trainer.save(tmp_path / "there")
        before = (tmp_path / "there" / "rank-0.safetensors").read_bytes()
        _train(trainer, range(1, 2))
        monkeypatch.setattr(checkpoint, "write_tensors", full)
        with pytest.raises(RuntimeFailedError, match=r"No space left on device\): make room"):
            trainer.save(tmp_path / "there")
    assert (tmp_path / "there" / "rank-0.safetensors").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


Edit = Callable[[dict[str, Any]], object]


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        (lambda i: i.update(format="zip"), "is no checkpoint of zerosim's: give another"),
        (lambda i: i.update(version=9), "has version 9: this zerosim reads 1"),
        (lambda i: i.update(world_size=0), "world_size is 0: give a number of ranks"),
        (lambda i: i.update(world_size="../1"), "world_size is ../1: give a number"),
        (lambda i: i.update(world_size=2), "there is no file '.*rank-1.safetensors'"),
        (lambda i: i.update(optimizer="sgd"), "holds states of 'sgd': give that optimizer"),
        (lambda i: i.update(scale=[0.0, 1]), r"scale is \[0.0, 1\]: give a positive factor"),
        (lambda i: i.update(scale=7), "scale is 7: give a positive factor"),
        (lambda i: i.update(parameters=[]), "only the module has '0.bias': build the module"),
        (lambda i: i["parameters"].update(x=[1]), "only the checkpoint has 'x': build"),
        (
            lambda i: i["parameters"].update({"0.bias": [5]}),
            r"'0.bias' has shape \[5\], the module's has \[4\]: build the module",
        ),
    ],
)
def test_an_index_that_does_not_fit_is_refused(tmp_path: Path, edit: Edit, why: str) -> None:
    with _open() as trainer:
        trainer.save(tmp_path / "there")
        index = orjson.loads((tmp_path / "there/index.json").read_bytes())
        edit(index)
        (tmp_path / "there/index.json").write_bytes(orjson.dumps(index))
        _refused(trainer, tmp_path / "there", why)


@pytest.mark.parametrize(
    ("notes", "why"),
    [
        ({"0.bias": "0 3 0"}, "lacks '0.bias/master': save again"),
        ({"0.bias": "1 4 0"}, "elements of '0.bias' do not join up: save again"),
        ({"0.bias": "0 4 -1"}, "elements of '0.bias' do not join up: save again"),
        ({"0.bias": "0 4"}, "no place of '0.bias': save again"),
        ({"0.bias": None}, "has 0 of 4 elements of '0.bias': save again"),
    ],
)
def test_rows_that_do_not_join_up_are_refused(
    tmp_path: Path, notes: dict[str, str | None], why: str
) -> None:
    with _open() as trainer:
        trainer.save(tmp_path / "there")
        _rewrite(tmp_path / "there/rank-0.safetensors", notes)
        _refused(trainer, tmp_path / "there", why)


def test_another_precision_is_refused(tmp_path: Path) -> None:
    with _open() as trainer:
        trainer.save(tmp_path / "there")
    with _open(dtype=torch.float64) as trainer:
        _refused(
            trainer,
            tmp_path / "there",
            "'0.weight/master' is torch.float32, here it is torch.float64",
        )


def test_what_is_no_checkpoint_is_refused(tmp_path: Path) -> None:
    with _open() as trainer:
        _refused(trainer, tmp_path, "is no checkpoint .*: give another")
        (tmp_path / "index.json").write_text("{")
        _refused(trainer, tmp_path, "is no checkpoint .*: give another")


def _refused(trainer: Trainer, directory: Path, why: str) -> None:
    before = trainer.whole()
    with pytest.raises(InputError, match=why):
        trainer.load(directory)
    assert all(torch.equal(before[name], now) for name, now in trainer.whole().items())


def _rewrite(path: Path, notes: dict[str, str | None]) -> None:
    file = open_tensors(path)
    tensors = {
        name: file.read(name, 0, stored.nbytes // stored.dtype.itemsize).view(stored.shape)
        for name, stored in file.tensors.items()
    }
    path.unlink()
    new = {**file.notes, **notes}
    write_tensors(path, tensors, {name: note for name, note in new.items() if note is not None})
