"""Sections of a report: texts of models and fits, findings of checks, the table of predictions, pictures, and versions of libraries."""

import base64
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from io import BytesIO
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from probreg.arguments.scalars import Figure
from probreg.data.formula.columns import read_table
from probreg.data.formula.functions import variables
from probreg.diagnostics.before import Finding
from probreg.errors import DataError, Incompatible, NotConverged
from probreg.fits.fit import Fit
from probreg.inference.base import has_effects
from probreg.inference.varying import effects_of_groups
from probreg.likelihoods import OfClasses
from probreg.show.plot.chains import rank, trace
from probreg.show.plot.coefficients import coefficients, columns_to_draw, prior_weight
from probreg.show.plot.diagnose import diagnose
from probreg.show.plot.effects import effects
from probreg.show.plot.fitted import fitted
from probreg.system.terminal import format_probability
from probreg.tables import Table
from probreg.tables.render import Format


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
    number: Format = "{:.4g}".format
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
    design = fit.model.design
    try:
        data = variables(design) if design.n else {}
    except DataError:
        return []
    remarks = []
    for name in design.recipe.all_variables:
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


# ---- the pictures of a report, each as an image inside the page with a caption and alternative text -----------------


_LIBRARIES = (
    "probreg",
    "numpy",
    "scipy",
    "xarray",
    "pymc",
    "nutpie",
    "arviz",
    "matplotlib",
)


def versions() -> list[tuple[str, str]]:
    """Return each library with its version."""
    numbers = [("Python", platform.python_version())]
    return numbers + [(name, version(name)) for name in _LIBRARIES]


class ReportPicture(NamedTuple):
    """A picture, or the reason why there is none; title and caption are the alternative text."""

    title: str
    caption: str
    source: str = ""
    width: float = 0.0  # inches


def curve_picture(
    fits: Mapping[str, Fit], prob: float, data: Any, variable: str | None
) -> ReportPicture:
    """Draw the fitted curve over the data, along `variable` or the first numeric one."""
    likelihood = next(iter(fits.values())).model.likelihood
    quantity = likelihood.centre.capitalize()
    if isinstance(likelihood, OfClasses):
        quantity = "Probability"
    caption = f"{quantity} with its {100 * prob:g} % interval, over the data."
    draw = partial(fitted, fits, variable, data=data, prob=prob)
    return draw_picture("Fitted curve", caption, draw)


def coefficients_picture(fits: Mapping[str, Fit], prob: float) -> ReportPicture:
    """Draw the estimates of all fits with their intervals."""
    caption = f"Estimates with {100 * prob:g} % intervals, one panel per parameter, each with its own axis."
    return draw_picture("Coefficients", caption, partial(coefficients, fits, prob))


def effects_pictures(fits: Mapping[str, Fit], prob: float) -> list[ReportPicture]:
    """Draw the effects of each grouping factor of the main fit among those with effects by group."""
    grouped = {name: fit for name, fit in fits.items() if has_effects(fit.model)}
    if not grouped:
        return []
    name, fit = main_fit(grouped)
    caption = f"{name}: deviations from the coefficient that all groups share, with {100 * prob:g} % intervals."
    return [
        draw_picture(f"Effects of {group}", caption, partial(effects, fit, group, prob))
        for group in effects_of_groups(fit.model)
    ]


def influence_picture(fits: Mapping[str, Fit]) -> list[ReportPicture]:
    """Draw prior, likelihood and posterior of the main fit, if some prior is informative and no effect varies by a group."""
    name, fit = main_fit(fits)
    if not columns_to_draw(fit.model).any() or has_effects(fit.model):
        return []
    caption = f"{name}: prior, likelihood and posterior density of each coefficient."
    title = "Prior, likelihood, posterior"
    return [draw_picture(title, caption, partial(prior_weight, fit))]


def diagnostic_pictures(fits: Mapping[str, Fit]) -> list[ReportPicture]:
    """Draw the diagnostics of the main fit, and the chains of each fit that has them."""
    name, fit = main_fit(fits)
    caption = f"{name}, at the rows of the fit: residuals are level at zero when the mean is right, quantiles and calibration on the line when the distribution is right."
    pictures = [draw_picture("Diagnostics", caption, partial(diagnose, fit))]
    for name, each_fit in fits.items():
        if each_fit.method.makes_chains:
            pictures += [
                draw_picture(
                    f"Chains of {name}",
                    "Density and trace of each chain: chains that mix lie on top of one another, without trend.",
                    partial(trace, each_fit),
                ),
                draw_picture(
                    f"Ranks of {name}",
                    "Ranks of the draws of each chain among all draws, as differences from uniform: inside the band when the chains mix.",
                    partial(rank, each_fit),
                ),
            ]
    return pictures


def main_fit(fits: Mapping[str, Fit]) -> tuple[str, Fit]:
    """Return the fit that the answer and the diagnostic pictures are about: the last posterior, else the last fit with an estimate."""
    candidates = list(fits.items())
    candidates = [c for c in candidates if c[1].solution.status.good] or candidates
    posteriors = [c for c in candidates if c[1].target == "posterior"]
    return (posteriors or candidates)[-1]


def draw_picture(title: str, caption: str, draw: Callable[[], Figure]) -> ReportPicture:
    """Return the picture from `draw`, or the reason why there is none."""
    try:
        figure = draw()
    except (DataError, Incompatible, NotConverged) as error:
        return ReportPicture(title, f"No picture: {error}")
    return ReportPicture(title, caption, figure_address(figure), figure.get_figwidth())


def figure_address(figure: Figure) -> str:
    """Return the figure as an SVG data address; the same figure gives the same text."""
    import matplotlib

    dpi = 120.0  # of rasterized parts
    buffer = BytesIO()
    metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with matplotlib.rc_context({"svg.fonttype": "path", "svg.hashsalt": "probreg"}):
        figure.savefig(buffer, format="svg", dpi=dpi, metadata=metadata)
    text = base64.b64encode(buffer.getvalue()).decode("ascii")
    return f"data:image/svg+xml;base64,{text}"
