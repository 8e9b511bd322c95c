"""The user's factory: found by MODULE:FACTORY, called on the meta device, its answer checked."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, Final

import torch
from torch import nn
from torch.nn.parameter import UninitializedParameter

from zerosim.errors import ScenarioError, UnknownNameError, ZerosimError

_MAX_REASON: Final = 300


@dataclass(frozen=True, slots=True)
class Made:
    """A module on the meta device, and the inputs its factory gave (None: token ids are tried)."""

    module: nn.Module
    args: tuple[Any, ...] | None = None
    kwargs: Mapping[str, Any] | None = None

    @property
    def has_inputs(self) -> bool:
        """Whether the factory gave example inputs."""
        return self.args is not None


def make(target: str, dtype: torch.dtype) -> Made:
    """Call the factory that `target` names, with new tensors on the meta device in `dtype`.

    Raises ScenarioError, UnknownNameError: in one sentence, whatever the user's code does.
    """
    factory = _factory(target)
    torch.set_default_dtype(dtype)
    try:
        with torch.device("meta"):
            answer = factory()
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever the user's code raises
        raise ScenarioError(f"factory '{target}' failed {reason(error)}: mend it") from None
    finally:
        torch.set_default_dtype(torch.float32)
    return _checked(target, answer)


def reason(error: BaseException) -> str:
    """An error of the user's code in brackets: what it says, and where it was raised."""
    said = " ".join(str(error).split())[:_MAX_REASON]
    words = f"{type(error).__name__}: {said}" if said else type(error).__name__
    return f"({words}{_place(error.__traceback__)})"


def _place(traceback: TracebackType | None) -> str:
    """The innermost line of the user's own code, which is neither torch nor ours."""
    place = ""
    ours = (str(Path(torch.__file__).parent), str(Path(__file__).parents[1]), "<")
    while traceback is not None:
        name = traceback.tb_frame.f_code.co_filename
        if not name.startswith(ours):
            place = f", {Path(name).name} line {traceback.tb_lineno}"
        traceback = traceback.tb_next
    return place


def _factory(target: str) -> Callable[[], object]:
    place, colon, name = target.rpartition(":")
    if not colon or not place or not name:
        raise ScenarioError(f"'{target}' names no factory: write MODULE:FACTORY or FILE.py:FACTORY")
    module = _imported(place)
    found = getattr(module, name, None)
    if found is None:
        known = [n for n, v in vars(module).items() if callable(v) and not n.startswith("_")]
        raise UnknownNameError(f"factory in '{place}'", name, known)
    if not callable(found):
        raise ScenarioError(
            f"'{target}' is a {type(found).__name__}: name a function that returns an nn.Module"
        )
    made: Callable[[], object] = found
    return made


def _imported(place: str) -> ModuleType:
    try:
        if place.endswith(".py"):
            return _from_file(Path(place))
        return importlib.import_module(place)
    except ModuleNotFoundError as error:
        if error.name is not None and (place == error.name or place.startswith(f"{error.name}.")):
            raise ScenarioError(
                f"no module '{place}': run where it can be imported, or name a file.py"
            ) from None
        raise ScenarioError(f"'{place}' needs '{error.name}': install it") from None
    except ZerosimError:
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever the user's code raises
        raise ScenarioError(f"importing '{place}' failed {reason(error)}: mend it") from None


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise ScenarioError(f"no file '{path}': check the path")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ScenarioError(f"'{path}' cannot be imported: give a Python file")
    sys.path.insert(0, str(path.parent.resolve()))
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _checked(target: str, answer: object) -> Made:
    inputs: object = None
    if isinstance(answer, tuple) and len(answer) == 2:  # noqa: PLR2004 - (module, inputs)
        answer, inputs = answer
    if not isinstance(answer, nn.Module):
        raise ScenarioError(
            f"factory '{target}' returned {type(answer).__name__}: "
            "return an nn.Module, or (module, example_inputs)"
        )
    if not any(True for _ in answer.parameters()):
        raise ScenarioError(f"the module of '{target}' has 0 parameters: return a model")
    if any(isinstance(p, UninitializedParameter) for p in answer.parameters()):
        raise ScenarioError(
            f"the module of '{target}' has lazy parameters, whose shapes nobody knows yet: "
            "give layers their sizes"
        )
    if inputs is None:
        return Made(answer)
    if isinstance(inputs, Mapping):
        return Made(answer, (), inputs)
    args = inputs if isinstance(inputs, tuple | list) else (inputs,)
    return Made(answer, tuple(args), {})
