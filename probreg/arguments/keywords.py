"""Errors for unknown keywords: they name the closest keyword, or the model if the keyword belongs to it."""

import difflib
import functools
import inspect
from collections.abc import Callable, Iterable

from probreg.errors import Incompatible
from probreg.peers import KEYWORDS

_KEYWORDS_OF_MODEL = (
    "likelihood",
    "prior",
    "aux",
    "weights",
    "offset",
    "event",
    "reference",
    "missing",
)


def list_names(names: str | Iterable[str] | None) -> list[str]:
    """Return the names that an argument lists; one name may be given as a text.

    >>> list_names("x"), list_names(("x", "z")), list_names(None)
    (['x'], ['x', 'z'], [])
    """
    if isinstance(names, str):
        return [names]
    if names is None:
        return []
    return list(names)


def with_article(word: str) -> str:
    """Return a name with its indefinite article.

    >>> with_article("gaussian"), with_article("absolute")
    ('a gaussian', 'an absolute')
    """
    return f"{'an' if word[:1] in tuple('aeiouAEIOU') else 'a'} {word}"


def only_known[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function to raise Incompatible for an unknown keyword, with the closest known one."""
    keywords = keywords_of(inspect.signature(function))

    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        refuse_unknown(function.__name__, kwargs, keywords)
        return function(*args, **kwargs)

    return wrapper


def keywords_of(signature: inspect.Signature) -> list[str]:
    """Return the names by which arguments can be given."""
    return [name for name in signature.parameters if name not in ("cls", "self")]


def refuse_unknown(function: str, names: Iterable[str], keywords: list[str]) -> None:
    """Raise Incompatible for the first keyword that the function does not take."""
    for name in names:
        if name in keywords:
            continue
        close = difflib.get_close_matches(name, keywords, n=1, cutoff=0.75)
        if name in ("groups", "lags") and "covariance" in keywords:
            advice = f"write covariance=fit.covariance(..., {name}=...)"
        elif name in KEYWORDS:
            advice = f"use {KEYWORDS[name]}"
        elif close:
            advice = f"did you mean {close[0]}=?"
        elif name in _KEYWORDS_OF_MODEL:
            advice = f"{name}= belongs to the model, such as Model.from_formula(..., {name}=...)"
        else:
            advice = f"it takes {', '.join(keywords) or 'nothing'}"
        raise Incompatible(f"{function} takes no {name}=: {advice}") from None


def normalised_name(word: str) -> str:
    """Return a name in lower case with underscores, as in the registries.

    >>> normalised_name("Log-Normal")
    'log_normal'
    """
    return "_".join(word.lower().replace("-", " ").split())
