"""`zerosim import`: other people's traces become a run, with a report on their quality first."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress

from zerosim.analysis.report import assess
from zerosim.analysis.report_text import report_rows
from zerosim.analysis.summary import summarize
from zerosim.cli.options import Json
from zerosim.cli.output import log, plain, print_json, print_rows
from zerosim.cli.summary import imported_rows
from zerosim.cli.wanted import kinds_of, ranks_of, steps_of, window_of
from zerosim.importers import Watch, read
from zerosim.importers.choice import Choice
from zerosim.store import check_place, free_name, run_path, save_run
from zerosim.trace import MAX_RANKS

_LIBRARY: Final = Path("runs")

Files = Annotated[
    list[Path],
    typer.Argument(metavar="FILE…", help="Traces: files, folders, archives, 'patterns*'."),
]
Out = Annotated[
    Path | None,
    typer.Option(
        "-o",
        "--out",
        metavar="RUN",
        help="Store it here, in the place of a run there (runs/NAME, numbered if taken).",
    ),
]
Name = Annotated[str | None, typer.Option("--name", help="What to call the run.")]
Strict = Annotated[
    bool, typer.Option("--strict", help="Refuse files that had to be mended in any way.")
]
Salvage = Annotated[
    bool, typer.Option("--salvage", help="Keep the whole events of a file that ends early.")
]
Rank = Annotated[
    int | None,
    typer.Option(
        "--rank", min=0, max=MAX_RANKS - 1, help="Whose file it is, where it does not say."
    ),
]
Ranks = Annotated[
    str | None, typer.Option("--ranks", metavar="0-3,7", help="Load these ranks alone.")
]
Steps = Annotated[
    str | None, typer.Option("--steps", metavar="FIRST:LAST", help="Load these steps alone.")
]
Window = Annotated[
    str | None,
    typer.Option(
        "--window", metavar="FROM:TO", help="Load what runs then: 10ms:1.5s from the start."
    ),
]
Only = Annotated[
    str | None, typer.Option("--only", metavar="KIND,…", help="Load spans of these kinds alone.")
]
Align = Annotated[
    bool,
    typer.Option("--align-clocks", help="Move the ranks' clocks to where collectives end."),
]


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("import")(import_)


def import_(
    files: Files,
    out: Out = None,
    name: Name = None,
    strict: Strict = False,
    salvage: Salvage = False,
    rank: Rank = None,
    ranks: Ranks = None,
    steps: Steps = None,
    window: Window = None,
    only: Only = None,
    align_clocks: Align = False,
    json: Json = False,
) -> None:
    """Read traces of several ranks into one run.

    The format is told by content. A report on the quality of the files comes before any figure.
    """
    choice = Choice(
        strict=strict,
        salvage=salvage,
        rank=rank,
        ranks=ranks_of(ranks),
        steps=steps_of(steps),
        window=window_of(window),
        kinds=kinds_of(only),
        align=align_clocks,
    )
    if out is not None:
        check_place(out)
    with _progress() as watch:
        trace = read(files, name=name or (out.name if out else None), choice=choice, watch=watch)
    # Another run of that name may be of other files: rank0.json is what many are called.
    out = out or run_path(_LIBRARY, free_name(_LIBRARY, trace.meta.name))
    save_run(trace, out)
    log(f"stored {out}")
    told, summary = assess(trace), summarize(trace)
    if json:
        print_json({"report": told, **summary})
    else:
        print_rows(report_rows(told) + imported_rows({**summary, "quality": None}))


@contextmanager
def _progress() -> Iterator[Watch]:
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("reading", total=1.0)

        def watch(name: str, share: float) -> None:
            bar.update(task, completed=share, description=escape(plain(name)))

        yield watch
