"""How the command line answers: one line on the standard error for what is wrong, and an exit code that a script reads.

0 is fine. 1 is refused: a file that cannot be read or written, data that do not fit the model, a method that cannot fit it, or
a problem that `check` or `diagnose` found. 2 is usage: an option, a value or a name that is not known.
"""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import typer
from typer.core import TyperGroup

from probreg.errors import ProbregError
from probreg.show.cli.spelling import as_options
from probreg.system.terminal import visible

REFUSED, USAGE, STOPPED = 1, 2, 130
_UsageError: Any = typer.BadParameter.__mro__[
    1
]  # the base of every complaint about options; typer does not export it


class WrongWords(typer.BadParameter):
    """An option, an argument or a value that is not understood."""

    def format_message(self) -> str:
        return str(self.message)


class Commands(TyperGroup):
    """A group of commands that answers whatever is wrong in one line, with its exit code."""

    def main(self, *args: Any, **options: Any) -> Any:
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(
                    errors="replace"
                )  # a terminal without ✓ or ° shows a question mark
        try:
            code = super().main(*args, **{**options, "standalone_mode": False})
            sys.stdout.flush()  # a full disk says so here, and not in a traceback at the very end
        except ProbregError as error:
            _stop(as_options(str(error)), REFUSED)
        except _UsageError as error:
            _stop(error.format_message(), USAGE)
        except typer.Abort:
            _stop("stopped", STOPPED)
        except BrokenPipeError:  # the reader, such as head, has seen enough
            _forget_output()
            sys.exit(REFUSED)
        except OSError as error:
            _forget_output()
            _stop(
                f"{error.filename or 'the output'} cannot be written or read: {error.strerror or error}",
                REFUSED,
            )
        except Exception as error:
            if os.environ.get("PROBREG_TRACEBACK"):
                raise
            said = f"a fault of probreg itself, {type(error).__name__}: {error}"
            _stop(
                f"{said}; PROBREG_TRACEBACK=1 before the command shows where, for a report",
                REFUSED,
            )
        sys.exit(code if isinstance(code, int) else 0)


@contextmanager
def usage() -> Iterator[None]:
    """What is wrong with the words of the command line itself, which has its own exit code."""
    try:
        yield
    except ProbregError as error:
        raise WrongWords(as_options(str(error))) from None


def _stop(said: str, code: int) -> None:
    typer.echo(f"probreg: {visible(' '.join(said.split()))}", err=True)
    sys.exit(code)


def _forget_output() -> None:
    """What is left in the buffer has no place to go."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
