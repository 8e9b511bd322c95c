"""What the operating system says a process holds (RSS), which is not what it has asked for.

# Note [Why RSS lies]
glibc serves large blocks by mmap, and gives them back when they are freed; but each such block that is
freed raises the threshold above which it does so, up to 32 MiB. From then on buffers come from the heap,
which keeps its pages: ZeRO-3 looks as large as DDP. A threshold that is set stays, so that what is freed
is gone, at the price of system calls. Python, torch and Gloo are part of it all the same.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

RSS: Final = "rss"
"""The kind of a change that is not booked, but was seen: the counter is `memory.rss`."""
STEADY_MALLOC: Final = (("MALLOC_MMAP_THRESHOLD_", "131072"),)
"""The environment in which RSS can be compared. See Note [Why RSS lies]."""
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


def resident_bytes() -> int:
    """Resident bytes of this process; 0 where there is no /proc."""
    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * _PAGE
    except OSError:
        return 0
