"""What a command writes: text to read, or JSON and CSV for a program; progress, notes and warnings on the standard error."""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import typer

import probreg
from probreg.errors import ProbregWarning
from probreg.show.cli.spelling import as_options
from probreg.system.terminal import visible
from probreg.tables.data import json_text


def write_lines(*things: object) -> None:
    """Each on a line of its own of the standard output."""
    for thing in things:
        typer.echo(str(thing))


def tell(kind: str, text: str) -> None:
    """A note or a warning, as one line on the standard error."""
    typer.echo(
        f"probreg: {kind}: {visible(' '.join(as_options(text).split()))}", err=True
    )


@contextmanager
def show_progress(what: str) -> Iterator[None]:
    """A spinner on a terminal, nothing elsewhere; warnings as lines on the standard error."""
    from rich.console import Console

    console = Console(stderr=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        if console.is_terminal:
            with console.status(f"{what} …"):
                yield
        else:
            yield
    for text in dict.fromkeys(
        str(w.message) for w in caught if issubclass(w.category, ProbregWarning)
    ):
        tell("warning", text)


def write_json(command: str, content: Mapping[str, Any]) -> None:
    """One JSON object with the command and the version on the standard output."""
    typer.echo(command_json(command, content), nl=False)


def command_json(command: str, content: Mapping[str, Any]) -> str:
    """The object that `write_json` writes."""
    return json_text({"command": command, "version": probreg.__version__, **content})
