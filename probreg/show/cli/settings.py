"""A method with its settings, and a covariance, from the words of the command line."""

import dataclasses
import difflib
from collections.abc import Sequence
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from probreg.arguments.types import DataArray
from probreg.errors import DataError
from probreg.fits.fit import Fit
from probreg.inference import METHODS, Method
from probreg.model.group_effects import Groups

_TRUTH = {"true": True, "false": False, "yes": True, "no": False}
KINDS = (
    "classical", "ml", "observed", "expected", "conditional", "joint", "sampling", "HC0", "HC1", "HC2", "HC3", "cluster", "HAC",
)  # fmt: skip


def method_of(name: str, settings: Sequence[str] = ()) -> Method:
    """A method by name, with the settings that its class declares.

    >>> method_of("nuts", ["draws=2000", "engine=pymc"]).draws
    2000
    >>> method_of("nuts", ["drws=2000"])
    Traceback (most recent call last):
    probreg.errors.DataError: nuts has no setting 'drws'; did you mean 'draws'? It has: draws, tune, chains, target_accept, progress, engine
    """
    cls = METHODS[name]
    known = settings_on_a_line(cls)
    given: dict[str, Any] = {}
    for text in settings:
        key, value = _split_setting(text)
        if key not in known:
            raise DataError(_unknown_setting_message(name, key, list(known)))
        if key in given:
            raise DataError(f"--set {key} is given twice")
        given[key] = _parse_value(key, value, known[key])
    return cls(**given)


def methods_of(names: Sequence[str], settings: Sequence[str]) -> dict[str, Method]:
    """Several methods, each with the settings that it has. DataError for a setting that none of them has."""
    known = {name: settings_on_a_line(METHODS[name]) for name in names}
    for text in settings:
        key, _ = _split_setting(text)
        if not any(key in each for each in known.values()):
            raise DataError(
                _unknown_setting_message(
                    " or ".join(known),
                    key,
                    list(dict.fromkeys(k for each in known.values() for k in each)),
                )
            )
    return {
        name: method_of(
            name, [s for s in settings if _split_setting(s)[0] in known[name]]
        )
        for name in known
    }


def settings_on_a_line(cls: type[Method]) -> dict[str, Any]:
    """What a method can be told on one line, with its type: a number, a word, a truth, or the name of a method."""
    if not dataclasses.is_dataclass(cls):
        return {}
    hints = get_type_hints(cls)
    found = {f.name: hints[f.name] for f in dataclasses.fields(cls) if f.init}
    return {
        name: hint
        for name, hint in found.items()
        if any(get_origin(t) is not tuple for t in _kinds(hint))
    }


def covariance_of(fit: Fit, text: str, rows: Any) -> DataArray:
    """The covariance that is meant by "HC3", "cluster:COLUMN", "cluster:COLUMN,COLUMN" or "HAC:LAGS"."""
    kind, _, of = text.partition(":")
    if kind == "HAC":
        return fit.covariance(kind, lags=int(of) if of else None)
    if kind == "cluster":
        if of in rows.columns:
            columns = [of]
        else:
            columns = [c.strip() for c in of.split(",")]
        for column in columns:
            if column not in rows.columns:
                raise DataError(_no_column(column, list(map(str, rows.columns))))
        return fit.covariance(
            kind,
            groups=columns[0] if len(columns) == 1 else (columns[0], columns[1]),
            data=rows,
        )
    return fit.covariance(kind)


def read_groups(text: str | None) -> Any:
    """What `--groups` says: one word for all grouping factors, or `s=known,s:c=new`.

    >>> read_groups("new"), read_groups("s=known,s:c=new")
    ('new', {'s': 'known', 's:c': 'new'})
    """
    if text is None:
        return None
    pairs = [
        part.partition("=")[::2] if "=" in text else ("", part)
        for part in text.split(",")
    ]
    for factor, how in pairs:
        if how not in get_args(Groups) or ("=" in text and not factor):
            kinds = ", ".join(get_args(Groups))
            raise DataError(
                f"--groups {text!r}: {how!r} is not one of {kinds}; write one of them, or FACTOR=WORD for each factor"
            )
    return dict(pairs) if "=" in text else text


def check_covariance(text: str) -> None:
    """DataError for a covariance that is not written as one.

    >>> check_covariance("HC4")
    Traceback (most recent call last):
    probreg.errors.DataError: no covariance is called 'HC4'; did you mean 'HC3'? There are: classical, ...
    """
    kind, colon, of = text.partition(":")
    if kind not in KINDS:
        near = difflib.get_close_matches(kind, KINDS, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else "."
        shown = ", ".join(
            {"cluster": "cluster:COLUMN", "HAC": "HAC:LAGS"}.get(k, k) for k in KINDS
        )
        raise DataError(f"no covariance is called {kind!r}{hint} There are: {shown}")
    if kind == "cluster" and not (of and of.count(",") <= 1):
        raise DataError(
            "--covariance cluster names the column of the groups: cluster:COLUMN, or cluster:ONE,OTHER for two ways"
        )
    if kind == "HAC" and colon and not of.isdecimal():
        raise DataError(
            f"--covariance HAC takes a whole number of lags, such as HAC:4, got {of!r}"
        )
    if colon and kind not in ("cluster", "HAC"):
        raise DataError(f"--covariance {kind} takes nothing after a colon, got {of!r}")


def _split_setting(text: str) -> tuple[str, str]:
    key, equals, value = (part.strip() for part in text.partition("="))
    if not (equals and key and value):
        raise DataError(
            f"--set takes a setting and its value, such as draws=2000, got {text!r}"
        )
    return key, value


def _unknown_setting_message(method: str, key: str, known: list[str]) -> str:
    near = difflib.get_close_matches(key, known, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else "."
    return f"{method} has no setting {key!r}{hint} It has: {', '.join(known) or 'none'}"


def _no_column(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"the table has no column {name!r}" + (
        f"; did you mean {near[0]!r}?" if near else f"; it has: {', '.join(known)}"
    )


def _kinds(hint: Any) -> tuple[Any, ...]:
    """The types that a union is of, None left out."""
    if get_origin(hint) in (Union, UnionType):
        return tuple(
            t for one in get_args(hint) if one is not NoneType for t in _kinds(one)
        )
    return (hint,)


def _parse_value(key: str, text: str, hint: Any) -> Any:
    """The text as the first of the types that takes it."""
    kinds = _kinds(hint)
    words = [
        word for kind in kinds if get_origin(kind) is Literal for word in get_args(kind)
    ]
    if text in words:
        return text
    if bool in kinds and text.lower() in _TRUTH:
        return _TRUTH[text.lower()]
    for number in (int, float):
        if number in kinds:
            try:
                return number(text)
            except ValueError:
                pass
    wanted = {int: "a whole number", float: "a number", bool: "true or false"}
    if words:
        said = [f"one of {', '.join(map(repr, words))}"]
    else:
        said = [wanted[k] for k in kinds if k in wanted]
    raise DataError(f"--set {key} takes {' or '.join(said)}, got {text!r}")
