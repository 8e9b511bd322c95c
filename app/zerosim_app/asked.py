"""The scenario that a page asks for: a preset and words, never a file of the machine that serves it."""

from __future__ import annotations

from collections.abc import Sequence

from zerosim.errors import ScenarioError, UnknownNameError
from zerosim.scenario import PRESETS, Scenario, load_scenario
from zerosim.scenario.files import parted


def scenario_asked(preset: str, words: Sequence[str]) -> Scenario:
    """A preset with `--set` words. Raises ScenarioError, UnknownNameError.

    Both come from an address or a request, so nothing in them may name a file.
    """
    if preset not in PRESETS:
        raise UnknownNameError("scenario preset", preset, PRESETS)
    files, _ = parted(words)
    if files:
        raise ScenarioError(
            f"{files[0][0]} is '{files[0][1]}', and no page reads files of this machine: "
            "use `zerosim simulate` in the shell"
        )
    return load_scenario(preset, words)
