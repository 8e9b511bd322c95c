"""The `zerosim` command. Only the module of the verb that was typed is imported: the start is cold."""

from __future__ import annotations

import functools
import signal
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from io import StringIO
from typing import Annotated, Any, Final

import typer

from zerosim import __version__
from zerosim.cli.output import log
from zerosim.errors import InputError, UnknownNameError, ZerosimError

VERBS: Final[dict[str, str]] = {
    "simulate": "zerosim.cli.simulate",
    "memory": "zerosim.cli.memory",
    "trace": "zerosim.cli.trace",
    "merge": "zerosim.cli.merge",
    "lab": "zerosim.cli.lab",
    "extract": "zerosim.cli.extract",
    "import": "zerosim.cli.importing",
    "export": "zerosim.cli.exporting",
    "show": "zerosim.cli.show",
    "compare": "zerosim.cli.compare",
    "replay": "zerosim.cli.replay",
    "calibrate": "zerosim.cli.calibrate",
    "list": "zerosim.cli.listing",
    "runs": "zerosim.cli.runs",
    "dashboard": "zerosim.cli.dashboard",
    "validate": "zerosim.cli.validate",
    "parity": "zerosim.cli.parity",
}
"""Each verb and the module that registers it, in the order of the help."""


_FORESEEN: Final = (ZerosimError, typer.Abort, typer.TyperException, OSError)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; exits 0, 1 (failed) or 2 (bad input, one sentence on stderr)."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # the caller closed it: nobody wants to read
            setattr(sys, name, StringIO())
    for stop in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(stop) == signal.SIG_DFL:
            # As Ctrl-C, so that nothing half-written and no rank stays behind.
            signal.signal(stop, signal.default_int_handler)
    sys.exit(run(sys.argv[1:] if arguments is None else list(arguments)))


def run(arguments: Sequence[str]) -> int:
    """Run the command line and return its exit code."""
    try:
        command = typer.main.get_command(application(arguments))
        code = command.main(list(arguments), prog_name="zerosim", standalone_mode=False)
    except typer.Exit as stop:
        return stop.exit_code
    except (*_FORESEEN, _StoppedError, KeyboardInterrupt) as error:
        sentence, failed = _explained(error)
        log(f"zerosim: {sentence}")
        return failed
    return code if isinstance(code, int) else 0


def _explained(error: BaseException) -> tuple[str, int]:
    """The sentence and the exit code of an error; anything else is raised again."""
    match error:
        case InputError():
            return str(error), 2
        case ZerosimError():
            return str(error), 1
        case _StoppedError() | KeyboardInterrupt() | typer.Abort():
            return str(error) or "stopped", 130
        case typer.TyperException():
            context = getattr(error, "ctx", None)
            verb = "zerosim" if context is None else context.command_path
            return f"{str(error.format_message()).rstrip('.')}: see `{verb} --help`", 2
        case OSError():
            return f"{error.filename or 'system'}: {error.strerror or error}", 1
    raise error


def application(arguments: Sequence[str]) -> typer.Typer:
    """The command-line application with the verb of `arguments`, or with all of them for the help.

    Raises UnknownNameError for a verb there is not.
    """
    app = typer.Typer(
        name="zerosim",
        add_completion=False,
        no_args_is_help=True,
        rich_markup_mode=None,
        help="Simulate, run for real, and compare ZeRO data parallelism.",
    )
    app.callback()(_root)
    verb = next((a for a in arguments if not a.startswith("-")), None)
    if verb is not None and verb not in VERBS:
        raise UnknownNameError("command", verb, VERBS)
    for name in VERBS if verb is None else (verb,):
        import_module(VERBS[name]).register(app)
    for command in app.registered_commands:
        if command.callback is not None:
            command.callback = _stoppable(command.callback)
    return app


class _StoppedError(Exception):
    """Ctrl-C, with what there is to say of it: typer keeps only the exit code of a KeyboardInterrupt."""


def _stoppable(verb: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(verb)
    def run_verb(*words: Any, **options: Any) -> Any:  # noqa: ANN401 - the verb's own
        try:
            return verb(*words, **options)
        except KeyboardInterrupt as stop:
            raise _StoppedError(str(stop) or "stopped") from None

    return run_verb


def _version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"zerosim {__version__}\n")
        raise typer.Exit


_VERSION: Final = typer.Option(
    "--version", is_eager=True, callback=_version, help="Print the version and exit."
)


def _root(*, version: Annotated[bool, _VERSION] = False) -> None:
    del version  # the option's callback has done it
