"""One launch of real ranks a world size and session; the tests look at what they left."""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest
import torch.distributed as dist

from tests.runtime.cases import cases_of
from tests.runtime.rank_program import judge
from zerosim_runtime.collectives import start_group
from zerosim_runtime.launch import run_ranks

PROGRAM = Path(__file__).with_name("rank_program.py")


@dataclass(frozen=True, slots=True)
class Ranks:
    """What the ranks of one launch wrote: a report each, and a directory of records a case."""

    directory: Path
    reports: list[dict[str, Any]]

    def verdicts(self, name: str) -> list[dict[str, Any]]:
        return [report["cases"][name] for report in self.reports]


@pytest.fixture(scope="session")
def alone() -> Iterator[None]:
    """This process as the only rank of a group."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "RANK": "0", "WORLD_SIZE": "1"}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in place.items():
            patch.setenv(name, value)
        patch.setenv("GLOO_SOCKET_IFNAME", os.environ.get("GLOO_SOCKET_IFNAME", "lo"))
        start_group(60)
        yield
        dist.destroy_process_group()


@pytest.fixture(scope="session")
def single(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Ranks:
    """The cases of world size 1, trained in this process."""
    request.getfixturevalue("alone")
    directory = tmp_path_factory.mktemp("ranks-1")
    verdicts = {c.name: asdict(judge(c, directory / c.name)) for c in cases_of(1)}
    return Ranks(directory, [{"cases": verdicts}])


@pytest.fixture(scope="session")
def ranks(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Callable[[int], Ranks]:
    """The launch of `n` ranks, made when it is first asked for, by whichever worker that is."""
    made: dict[int, Ranks] = {}
    mine = tmp_path_factory.getbasetemp()
    everyones = mine if worker_id == "master" else mine.parent

    def of(n_ranks: int) -> Ranks:
        if n_ranks not in made:
            directory = everyones / f"ranks-{n_ranks}"
            with (everyones / f"ranks-{n_ranks}.lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                if not directory.exists():
                    directory.mkdir()
                    words = [str(PROGRAM), str(directory), str(n_ranks)]
                    code = run_ranks(words, directory, n_ranks)
                    (directory / "code").write_text(f"{code}")
            assert (directory / "code").read_text() == "0", (directory / "torchrun.log").read_text()
            reports = [
                orjson.loads((directory / f"report-{rank}.json").read_bytes())
                for rank in range(n_ranks)
            ]
            made[n_ranks] = Ranks(directory, reports)
        return made[n_ranks]

    return of
