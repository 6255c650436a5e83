"""Sections of a report: texts of models and fits, findings of checks, and the table of predictions."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from probreg.data.formula.columns import read_table
from probreg.data.formula.variables import read_by, variables
from probreg.diagnostics.before import Finding
from probreg.errors import DataError, NotConverged
from probreg.fits.fit import Fit
from probreg.likelihoods import OfClasses
from probreg.system.terminal import format_probability
from probreg.tables import Table
from probreg.tables.render import Format, format_digits


def model_texts(fits: Mapping[str, Fit]) -> list[tuple[str, str]]:
    """Return each model as it prints itself, with its formula and the names of its fits."""
    texts = {}
    for name, fit in fits.items():
        text = repr(fit.stated_model)
        formula = getattr(fit.model.design.recipe, "formula", None)
        texts[name] = text if formula is None else f"{text}\n  formula {formula}"
    return _join_equal(texts)


def fit_texts(fits: Mapping[str, Fit]) -> list[tuple[str, str]]:
    """Return each fit as it prints itself, with the seed of a posterior."""
    texts = {}
    for name, fit in fits.items():
        seed = f"\nseed {fit.seed}" if fit.target == "posterior" else ""
        texts[name] = repr(fit) + seed
    return _join_equal(texts)


def _join_equal(texts: Mapping[str, str]) -> list[tuple[str, str]]:
    names: dict[str, list[str]] = {}
    for name, text in texts.items():
        names.setdefault(text, []).append(name)
    return [(", ".join(of), text) for text, of in names.items()]


class SharedFindings(NamedTuple):
    """Findings that need attention, the worst first, each with its fits unless it applies to all; and checks that passed."""

    attention: list[tuple[str, Finding]]
    passed: list[tuple[str, Finding]]


def findings(
    fits: Mapping[str, Fit], run: Callable[[Fit], Iterable[Finding]]
) -> SharedFindings:
    """Run the checks of several fits, and put equal findings together."""
    names: dict[tuple[str, str], list[str]] = {}
    first: dict[tuple[str, str], Finding] = {}
    for name, fit in fits.items():
        for finding in filter(attrgetter("applies"), run(fit)):
            key = finding.check, finding.sentence
            names.setdefault(key, []).append(name)
            first.setdefault(key, finding)
    pairs = [
        ("" if len(names[key]) == len(fits) else ", ".join(names[key]), finding)
        for key, finding in sorted(first.items(), key=lambda item: -item[1].verdict)
    ]
    return SharedFindings(
        [p for p in pairs if p[1].verdict], [p for p in pairs if not p[1].verdict]
    )


_COLUMNS = (
    "fit",
    "level",
    "mean",
    "mean_lower",
    "mean_upper",
    "new_lower",
    "new_upper",
)


class Predictions(NamedTuple):
    """The table, the name and values of each row, and warnings about rows outside the data."""

    table: Table
    rows: list[tuple[str, str]]
    remarks: list[str]


def predictions_table(fits: Mapping[str, Fit], rows: Any, prob: float) -> Predictions:
    """The mean at each row with its interval, and the interval of a new observation if there is one.

    `rows` is a mapping from names to rows, each a mapping from variables to values, or a table with the names as its labels.
    """
    import pandas as pd

    table, names = named_rows(rows)
    frames = []
    for fit_name, fit in fits.items():
        try:
            frame = fit.predict(table, prob, output="pandas").reset_index()
        except NotConverged:
            frame = pd.DataFrame({"obs": range(len(names)), "mean": "does not exist"})
        frames.append(frame.assign(fit=fit_name))
    frame = pd.concat(frames).sort_values("obs", kind="stable")
    frame.index = pd.Index([names[i] for i in frame["obs"]], name="row")
    number: Format = format_digits(4)
    means = number
    if any(isinstance(fit.model.likelihood, OfClasses) for fit in fits.values()):
        means = format_probability
    formats = {c: means if c.startswith("mean") else number for c in _COLUMNS[2:]}
    columns = [
        c for c in _COLUMNS if c in frame and not (c == "fit" and len(fits) == 1)
    ]
    content = Table.from_pandas(
        frame[columns].rename(columns=_column_heading),
        formats={_column_heading(c): f for c, f in formats.items()},
    )
    described = [
        (name, ", ".join(f"{k} = {v[i]:g}" if isinstance(v[i], float) else f"{k} = {v[i]}" for k, v in table.items()))
        for i, name in enumerate(names)
    ]  # fmt: skip
    remarks = _rows_outside(next(iter(fits.values())), table, names)
    return Predictions(content, described, remarks)


def named_rows(rows: Any) -> tuple[dict[str, list[Any]], list[str]]:
    """The columns of the rows, and the names of the rows."""
    if isinstance(rows, Mapping) and all(isinstance(v, Mapping) for v in rows.values()):
        import pandas as pd

        rows = pd.DataFrame.from_dict(rows, orient="index")
    table = read_table(rows)
    columns = {str(k): np.asarray(table.columns[k]).tolist() for k in table.columns}
    return columns, [*map(str, table.rows)]


def _column_heading(name: str) -> str:
    """Return the heading of a column of `Fit.predict`."""
    return name.replace("_", " ")


def _rows_outside(
    fit: Fit, table: Mapping[str, list[Any]], names: Sequence[str]
) -> list[str]:
    """The rows with a number outside the range of the data, variable by variable."""
    try:
        data = variables(fit.model.design) if fit.model.design.n else {}
    except DataError:
        return []
    remarks = []
    for name in read_by(fit.model.design):
        x = np.asarray(data.get(name, []))
        if x.dtype.kind not in "iuf" or not len(x):
            continue
        values = zip(names, table.get(name, []))
        outside = [row for row, v in values if not x.min() <= v <= x.max()]
        if outside:
            remarks.append(
                f"{', '.join(outside)}: {name} lies outside the data ({x.min():g} to {x.max():g}), so this is extrapolation."
            )
    return remarks
