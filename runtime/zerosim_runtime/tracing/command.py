"""What to start for the words that a person typed after `--`."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from zerosim.errors import InputError
from zerosim_runtime.rendezvous import Rendezvous, address_towards, torchrun_words

_SECRET: Final = re.compile(r"(token|secret|passw|credential|auth|api[-_]?key)", re.IGNORECASE)


def command_of(words: Sequence[str], nproc: int, rendezvous: Rendezvous | None = None) -> list[str]:
    """The command line of a program: a script or a module is started by torchrun as `nproc` ranks.

    With a `rendezvous`, these are the ranks of one node of several. Whatever else there is (torchrun,
    python, accelerate, deepspeed, srun) is started as it is. Raises InputError for a script or a program
    that there is not.
    """
    if words[0] == "-m" or words[0].endswith(".py"):
        if words[0] == "-m" and len(words) == 1:
            raise InputError("-m names no module: give one, as in `-- -m package.train`")
        if words[0] != "-m" and not Path(words[0]).is_file():
            raise InputError(f"no script '{words[0]}': give a file that is there")
        return [*_torchrun(nproc, rendezvous), *words]
    if rendezvous is not None:
        raise InputError(
            f"'{words[0]}' starts its ranks itself: leave --nnodes, --node-rank and --rendezvous out, "
            "and tell it"
        )
    if shutil.which(words[0]) is None:
        raise InputError(f"no program '{words[0]}': give a script (.py), -m MODULE or a command")
    return list(words)


def starts_ranks(words: Sequence[str]) -> bool:
    """Whether `command_of` starts the ranks itself, all on this machine."""
    return words[0] == "-m" or words[0].endswith(".py")


def _torchrun(nproc: int, rendezvous: Rendezvous | None) -> list[str]:
    """The words of torchrun with this Python; a Python command line follows."""
    meeting = ["--standalone"]
    if rendezvous is not None:
        meeting = torchrun_words(rendezvous, address_towards(rendezvous))
    return [
        *(sys.executable, "-m", "torch.distributed.run", *meeting, "--max-restarts=0"),
        *(f"--nproc-per-node={nproc}", "--monitor-interval=0.1", "--no-python", sys.executable),
    ]


def name_of(words: Sequence[str]) -> str:
    """What to call the run: the script's name, else the module's or the program's."""
    script = next((word for word in words if word.endswith(".py")), None)
    if script is not None:
        return Path(script).stem
    module = words[words.index("-m") + 1] if "-m" in words[:-1] else words[0]
    return Path(module).name.rpartition(".")[2]


def told(words: Sequence[str]) -> list[str]:
    """The words as they may be kept: no value that looks secret, no path outside of this directory."""
    kept: list[str] = []
    hide = False
    for word in words:
        option, equals, _ = word.partition("=")
        secret = _SECRET.search(option) is not None
        if hide:
            kept.append("***")
        elif secret and equals:
            kept.append(f"{option}=***")
        else:
            kept.append(_short(word))
        hide = secret and not equals and word.startswith("-")
    return kept


def _short(word: str) -> str:
    option, equals, value = word.rpartition("=")
    path = Path(value)
    if not path.is_absolute():
        return word
    here = Path.cwd()
    inside = path.relative_to(here) if path.is_relative_to(here) else Path(path.name)
    return f"{option}{equals}{inside}"
