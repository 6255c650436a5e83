"""Option values as text: methods with their settings, covariances, groups."""

import ast
import dataclasses
import difflib
from collections.abc import Sequence
from typing import Any, NamedTuple, get_args

from probreg.arguments.types import DataArray
from probreg.errors import DataError
from probreg.fits.fit import Fit
from probreg.inference import METHODS, Method
from probreg.inference.uncertainty.covariance import DEFINITIONS
from probreg.model.group_effects import Groups

COVARIANCES = tuple(DEFINITIONS)


def parse_method(text: str) -> Method:
    """Return the method that a name, or a call with its settings, describes.

    >>> parse_method("nuts(draws=2000, progress=false)").progress
    False
    >>> parse_method("nuts(drws=2000)")
    Traceback (most recent call last):
    probreg.errors.DataError: nuts has no setting 'drws'; did you mean 'draws'? It has: draws, tune, chains, target_accept, progress
    """
    name, bracket, _ = text.partition("(")
    cls = METHODS[name.strip()]
    if not bracket:
        return cls()
    names = [f.name for f in dataclasses.fields(cls) if f.init]  # type: ignore[arg-type]
    try:
        call: Any = ast.parse(text.strip(), mode="eval").body
        settings = {k.arg: _parse_value(k.value) for k in call.keywords}
        plain = not call.args and len(settings) == len(call.keywords)
    except (SyntaxError, ValueError, AttributeError):
        plain = False
    if not plain:
        raise DataError(
            f"{text!r}: expected a method and its settings, such as nuts(draws=2000)"
        )
    for setting in settings:
        if setting not in names:
            raise DataError(
                f"{name} has no setting {setting!r}{_suggest(str(setting), names)} It has: {', '.join(names) or 'none'}"
            )
    return cls(**settings)


def _parse_value(node: ast.expr) -> Any:
    """A number, True or true, False or false, or the text itself."""
    if not isinstance(node, ast.Name):
        return ast.literal_eval(node)
    return {"true": True, "false": False}.get(node.id, node.id)


def _suggest(name: str, candidates: Sequence[str]) -> str:
    matches = difflib.get_close_matches(name, candidates, n=1)
    return f"; did you mean {matches[0]!r}?" if matches else "."


class CovarianceOption(NamedTuple):
    """The kind of covariance, and for "cluster" the columns or for "HAC" the lags."""

    kind: str
    argument: str

    def of_fit(self, fit: Fit, rows: Any) -> DataArray:
        """The covariance of a fit to these rows."""
        if self.kind == "HAC":
            lags = int(self.argument) if self.argument else None
            return fit.covariance(self.kind, lags=lags)
        if self.kind != "cluster":
            return fit.covariance(self.kind)
        groups: Any = self.argument
        if groups not in rows.columns and "," in groups:
            groups = tuple(column.strip() for column in groups.split(","))
        return fit.covariance(self.kind, groups=groups, data=rows)


def parse_covariance(text: str) -> CovarianceOption:
    """A covariance such as "HC3", "cluster:COLUMN", "cluster:COLUMN,COLUMN" or "HAC:LAGS".

    >>> parse_covariance("HC4")
    Traceback (most recent call last):
    probreg.errors.DataError: no covariance is called 'HC4'; did you mean 'HC3'? There are: classical, ...
    """
    kind, colon, argument = text.partition(":")
    if kind not in COVARIANCES:
        raise DataError(
            f"no covariance is called {kind!r}{_suggest(kind, COVARIANCES)} There are: {', '.join(COVARIANCES)}"
        )
    if kind == "cluster" and not (argument and argument.count(",") <= 1):
        raise DataError(
            f"{text}: expected the column of the groups, cluster:COLUMN, or cluster:ONE,OTHER for two ways"
        )
    if kind == "HAC" and colon and not argument.isdecimal():
        raise DataError(f"{text}: expected a whole number of lags, such as HAC:4")
    if colon and kind not in ("cluster", "HAC"):
        raise DataError(f"{text}: {kind} takes nothing after a colon")
    return CovarianceOption(kind, argument)


def parse_groups(text: str) -> Any:
    """One word for all grouping factors, or one for each.

    >>> parse_groups("new"), parse_groups("s=known,s:c=new")
    ('new', {'s': 'known', 's:c': 'new'})
    """
    if "=" not in text:
        pairs = {"": text}
    else:
        pairs = dict(part.partition("=")[::2] for part in text.split(","))
    for factor, word in pairs.items():
        if word not in get_args(Groups) or ("=" in text and not factor):
            raise DataError(
                f"{word!r} is not one of {', '.join(get_args(Groups))}; write one of them, or FACTOR=WORD for each factor"
            )
    return pairs if "=" in text else text
