"""The output of a command: text, JSON or CSV on the standard output; progress, notes and warnings on the standard error."""

import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import probreg
from probreg.errors import ProbregWarning
from probreg.system.terminal import visible
from probreg.tables.table import json_text


def write_message(text: str) -> None:
    """One line on the standard error."""
    print(f"probreg: {visible(' '.join(text.split()))}", file=sys.stderr)


def command_json(command: str, content: Mapping[str, Any]) -> str:
    """One JSON object with the command and the version."""
    return json_text({"command": command, "version": probreg.__version__, **content})


@contextmanager
def show_progress(task: str) -> Iterator[None]:
    """A spinner on a terminal; warnings become lines on the standard error."""
    from rich.console import Console

    console = Console(stderr=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        if console.is_terminal:
            with console.status(f"{task} …"):
                yield
        else:
            yield
    messages = (w.message for w in caught if issubclass(w.category, ProbregWarning))
    for text in dict.fromkeys(map(str, messages)):
        write_message(f"warning: {text}")
