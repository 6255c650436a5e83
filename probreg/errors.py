"""The few ways things go wrong. Every message says what was met, what was expected, and what to do."""


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
