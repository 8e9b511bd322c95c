"""What the dashboard assumes unless told otherwise: where examples lie, how much may be dropped."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import zerosim

MAX_UPLOAD_BYTES: Final = 200 * 10**6
GRAPH: Final[Any] = {
    "showSendToCloud": False,
    "displaylogo": False,
    "displayModeBar": False,
}
"""Options of every Plotly graph: nothing leaves the machine, and no bar hides the figure."""


def examples_path() -> Path:
    """The directory of example runs that is shipped inside the package."""
    return Path(next(iter(zerosim.__path__))) / "examples"
