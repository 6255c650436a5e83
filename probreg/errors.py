"""The few ways things go wrong. Every message says what was met, what was expected, and what to do."""

import contextlib
import functools
import os
import warnings

import numpy as np

# this package, and the decorators by which it calls itself, such as np.errstate
_NOT_THE_CALLER = (
    *(os.path.dirname(os.path.abspath(path)) + os.sep for path in (__file__, np.__file__)),
    contextlib.__file__,
    functools.__file__,
)


class ProbregError(Exception):
    """Base class of every error raised on purpose, so that callers can catch them all at once."""


class DataError(ProbregError, ValueError):
    """The data do not fit the model: a missing column, a value outside the support, ragged lengths."""


class Incompatible(ProbregError, TypeError):  # noqa: N818  the field's word for it is not "...Error"
    """This method cannot fit this likelihood with this prior."""


class NotConverged(ProbregError, RuntimeError):  # noqa: N818
    """The method stopped before it was done, and the caller asked for that to be an error."""


class ProbregWarning(UserWarning):
    """Something an analyst has to know about an answer that was nevertheless computed."""


def warn_caller(message: str) -> None:
    """A ProbregWarning at the line that called this package, however many of its functions and decorators lie between."""
    warnings.warn(message, ProbregWarning, skip_file_prefixes=_NOT_THE_CALLER)
