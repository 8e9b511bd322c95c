"""What the dashboard assumes unless told otherwise: where examples lie, how much may be dropped."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import zerosim
from zerosim.importers.archive import MAX_UNPACKED
from zerosim.importers.content import MAX_BYTES

MAX_UPLOAD_BYTES: Final = MAX_BYTES
"""Of one file: what importers take."""
MAX_DROP_BYTES: Final = MAX_UNPACKED
"""Of all files of a drop: what they take of an archive."""
GRAPH: Final[Any] = {
    "showSendToCloud": False,
    "displaylogo": False,
    "displayModeBar": False,
}
"""Options of every Plotly graph: nothing leaves the machine, and no bar hides the figure."""


def examples_path() -> Path:
    """The directory of example runs that is shipped inside the package."""
    return Path(next(iter(zerosim.__path__))) / "examples"
