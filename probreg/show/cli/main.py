"""Runs one command: errors become one line on the standard error, and an exit code for scripts.

0: success. 1: the command fails (a file that cannot be read or written, data that do not fit the model, a method that cannot
fit it), or `check` or `diagnose` finds a problem. 2: an unknown option, value or name.
"""

import io
import os
import sys
from collections.abc import Sequence
from contextlib import suppress

from probreg.errors import ProbregError
from probreg.show.cli.output import write_message
from probreg.show.cli.parser import build_parser

FAILURE, INTERRUPTED = 1, 130


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command in `arguments`, by default the arguments of the process, and exit with its code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal without ✓ or ° prints ?
            stream.reconfigure(errors="replace")
    try:
        parser = build_parser()
        options = parser.parse_args(arguments)
        if options.command is None:
            parser.print_help()
            code = 0
        else:
            code = options.command(options)
        sys.stdout.flush()  # a full disk is an error here, not at the very end
    except ProbregError as error:
        code = _fail(error.command_line_text)
    except KeyboardInterrupt:
        code = _fail("interrupted", INTERRUPTED)
    except BrokenPipeError:  # the reader, such as head, has stopped
        _discard_output()
        code = FAILURE
    except OSError as error:
        _discard_output()
        name = error.filename or "the output"
        code = _fail(f"{name} cannot be written or read: {error.strerror or error}")
    except Exception as error:
        if os.environ.get("PROBREG_TRACEBACK"):
            raise
        code = _fail(
            f"internal error, {type(error).__name__}: {error}; set PROBREG_TRACEBACK=1 to see where, and report it"
        )
    sys.exit(code)


def _fail(message: str, code: int = FAILURE) -> int:
    write_message(message)
    return code


def _discard_output() -> None:
    """Send the rest of the buffer nowhere."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
