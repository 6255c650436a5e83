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


def methods_of(names: Sequence[str], settings: Sequence[str]) -> dict[str, Method]:
    """Return methods by name, each with the settings NAME=VALUE that apply to it.

    >>> methods_of(["nuts", "newton"], ["draws=2000", "chains=2"])["nuts"].draws
    2000
    >>> methods_of(["nuts"], ["drws=2000"])
    Traceback (most recent call last):
    probreg.errors.DataError: nuts has no setting 'drws'; did you mean 'draws'? It has: draws, tune, chains, target_accept, progress
    """
    values: dict[str, Any] = {}
    for text in settings:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not (equals and name and value):
            raise DataError(
                f"--set {text}: expected a setting and its value, such as draws=2000"
            )
        if name in values:
            raise DataError(f"--set {name} is given twice")
        values[name] = _parse_value(value)
    settings_by_method = {name: _settings(METHODS[name]) for name in names}
    setting_names = list(
        dict.fromkeys(
            s
            for method_settings in settings_by_method.values()
            for s in method_settings
        )
    )
    for name in values:
        if name not in setting_names:
            raise DataError(
                f"{' or '.join(settings_by_method)} has no setting {name!r}{_suggest(name, setting_names)} It has: {', '.join(setting_names) or 'none'}"
            )
    return {
        method: METHODS[method](
            **{k: v for k, v in values.items() if k in method_settings}
        )
        for method, method_settings in settings_by_method.items()
    }


def _settings(cls: type[Method]) -> list[str]:
    if not dataclasses.is_dataclass(cls):
        return []
    return [f.name for f in dataclasses.fields(cls) if f.init]


def _parse_value(text: str) -> Any:
    """A number, True, False, or the text itself."""
    try:
        return ast.literal_eval(
            text.capitalize() if text in ("true", "false") else text
        )
    except (ValueError, SyntaxError):
        return text


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
