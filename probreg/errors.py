"""Errors and warnings. Every message has the wrong value, the expected value, and a remedy."""

import contextlib
import difflib
import functools
import os
import warnings
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

# this package, and modules with decorators that it uses, such as np.errstate
_NOT_THE_CALLER = (
    *(
        os.path.dirname(os.path.abspath(path)) + os.sep
        for path in (__file__, np.__file__)
    ),
    # without the suffix .py: Python ignores a prefix that is the whole name of the file
    *(str(module.__file__).removesuffix(".py") for module in (contextlib, functools)),
)


@dataclass(frozen=True)
class Remedy:
    """An argument that resolves an error.

    >>> Remedy("missing", "drop").argument_text, Remedy("missing", "drop").option_text
    ("missing='drop'", '--missing drop')
    """

    argument: str
    value: str

    @property
    def argument_text(self) -> str:
        return f"{self.argument}={self.value!r}"

    @property
    def option_text(self) -> str:
        return f"--{self.argument} {self.value}"


class ProbregError(Exception):
    """Base class of every error raised on purpose, so that callers can catch them all at once.

    Parameters
    ----------
    problem : str
        The wrong value and the expected value.
    remedy : Remedy, optional
        An argument that resolves it.

    Examples
    --------
    >>> raise DataError("3 rows have missing values", remedy=Remedy("missing", "drop"))
    Traceback (most recent call last):
        ...
    probreg.errors.DataError: 3 rows have missing values; try missing='drop'
    """

    def __init__(self, problem: str = "", *, remedy: Remedy | None = None) -> None:
        super().__init__(problem)
        self.remedy = remedy

    def __str__(self) -> str:
        problem = super().__str__()
        if self.remedy is None:
            return problem
        return f"{problem}; try {self.remedy.argument_text}"

    @property
    def command_line_text(self) -> str:
        """The message with the remedy as an option of the command line."""
        problem = super().__str__()
        if self.remedy is None:
            return problem
        return f"{problem}; try {self.remedy.option_text}"


class DataError(ProbregError, ValueError):
    """The data do not fit the model: a missing column, a value outside the support, ragged lengths."""

    # of `row_error`: the words before the row, its name, those after it
    of_row: tuple[str, Any, str] | None = None


class Incompatible(ProbregError, TypeError):  # noqa: N818  the field's word for it is not "...Error"
    """This method cannot fit this likelihood with this prior."""


class NotConverged(ProbregError, RuntimeError):  # noqa: N818
    """The method stopped before it converged, and the caller requested an error for this."""


class ProbregWarning(UserWarning):
    """A warning about a computed result that users should know."""


def row_error(before: str, row: Any, after: str) -> DataError:
    """A DataError about one row. It has the row's number, until `rows_named` replaces it by the caller's row label.

    >>> with rows_named(["a", "c"]):
    ...     raise row_error("", 1, " holds -3")
    Traceback (most recent call last):
        ...
    probreg.errors.DataError: row c holds -3
    """
    error = DataError(f"{before}row {row}{after}")
    error.of_row = before, row, after
    return error


@contextlib.contextmanager
def prefix_errors(prefix: str) -> Iterator[None]:
    """Put a text before the errors of this package, such as the term or the file that they are about."""
    try:
        yield
    except ProbregError as error:
        raise type(error)(f"{prefix}: {error}") from None


@contextlib.contextmanager
def rows_named(names: Sequence[Any] | np.ndarray | None) -> Iterator[None]:
    """Name the row of an error by its entry in `names`; None keeps its number."""
    try:
        yield
    except DataError as error:
        if names is None or error.of_row is None:
            raise
        before, place, after = error.of_row
        raise row_error(before, names[place], after) from None


def such_rows(count: int) -> str:
    """How many rows an error is about.

    >>> such_rows(1), such_rows(6)
    ('1 such row', '6 such rows')
    """
    return f"{count} such row{'s' * (count != 1)}"


def require_rows(
    valid: np.ndarray, before: str, after: str, *values: np.ndarray
) -> None:
    """Raise the `row_error` about the first row that is not valid; `after` has braces for its values and {rows} for `such_rows`.

    >>> require_rows(np.array([True, False]), "", " holds {:g} ({rows})", np.array([2, -3]))
    Traceback (most recent call last):
        ...
    probreg.errors.DataError: row 1 holds -3 (1 such row)
    """
    bad = np.flatnonzero(~valid)
    if len(bad):
        first = (value[bad[0]] for value in values)
        raise row_error(before, bad[0], after.format(*first, rows=such_rows(len(bad))))


def warn_caller(message: str) -> None:
    """A ProbregWarning at the line that called this package, however many of its functions and decorators lie between."""
    warnings.warn(message, ProbregWarning, skip_file_prefixes=_NOT_THE_CALLER)


def require_unicode(text: str, place: str = "") -> None:
    """Raise DataError for text with half of a surrogate pair, which cannot be written to a file or a terminal."""
    if not text.isascii() and any("\ud800" <= c <= "\udfff" for c in text):
        raise DataError(
            f"the text {text!a}{place} holds half of a surrogate pair, which is no character: decode the column again, or replace it"
        )


def suggestion(name: str, candidates: Collection[str]) -> str:
    """Return the end of a sentence on an unknown name: a similar one, if there is one."""
    plain_names = {candidate.strip().lower(): candidate for candidate in candidates}
    near = difflib.get_close_matches(name.strip().lower(), plain_names, n=1)
    return f"; did you mean {plain_names[near[0]]!r}?" if near else "."
