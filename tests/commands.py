"""Runs the command line in this process."""

import contextlib
import io
import sys
from dataclasses import dataclass
from unittest import mock

from probreg.show.cli import main


@dataclass
class Result:
    """What a command wrote, also in the order of both streams, and its exit code."""

    exit_code: int
    stdout: str
    stderr: str
    output: str


class _Stream(io.StringIO):
    def __init__(self, shared: io.StringIO) -> None:
        super().__init__()
        self.shared = shared

    def write(self, text: str) -> int:
        self.shared.write(text)
        return super().write(text)


def run(*arguments: str, input: str | bytes | None = None) -> Result:
    """The result of `probreg ARGUMENTS`, with `input` on the standard input."""
    shared = io.StringIO()
    out, err = _Stream(shared), _Stream(shared)
    content = input.encode() if isinstance(input, str) else input or b""
    stdin = io.TextIOWrapper(io.BytesIO(content))
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        mock.patch.object(sys, "stdin", stdin),
    ):
        try:
            main(arguments)
        except SystemExit as stop:
            code = int(stop.code or 0)
    return Result(code, out.getvalue(), err.getvalue(), shared.getvalue())
