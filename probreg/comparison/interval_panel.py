"""Every interval of one quantity side by side, and the coverage of each by simulation."""

import warnings
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from probreg.arguments.scalars import (
    ArrayLike,
    Count,
    DataFrame,
    Flag,
    Probability,
    Seed,
    Workers,
    check_arguments,
    shown_value,
    with_article,
)
from probreg.comparison.same_question import fits_by_name
from probreg.diagnostics.simulation.simulate import (
    Truth,
    as_coefficients,
    simulate_response,
    with_known_aux,
)
from probreg.errors import DataError, Incompatible, ProbregError
from probreg.fits.fit import Fit, fit as fit_model
from probreg.fits.inference_data import parameter_names, reported_coefficients
from probreg.inference import METHODS, Auto, Bootstrap, Method, Status
from probreg.linalg import one_blas_thread
from probreg.model.model import Model
from probreg.system.terminal import each_of
from probreg.tables import PrintsTable, Table

Array = np.ndarray
# kinds of `Fit.interval`, and HC3: the default kind with the covariance HC3
INTERVALS = ("t", "wald", "HC3", "profile", "score", "bootstrap", "eti", "hdi")


@dataclass(frozen=True, eq=False, repr=False)
class IntervalPanel(PrintsTable):
    """Intervals of one coefficient; the result of `interval_panel`.

    `table` has a row per (fit, kind) with estimate, lower, upper, width and `reason`, which
    explains why an interval is missing and is empty otherwise."""

    quantity: str
    prob: float
    table: DataFrame

    @property
    def _display_table(self) -> Table:
        head = f"{100 * self.prob:g} % intervals of {self.quantity}"
        is_missing = self.table["reason"] != ""
        missing = self.table[is_missing]
        notes = []
        for reason, rows in missing.groupby("reason", sort=False).groups.items():
            names = ", ".join([" ".join(row) for row in rows])
            notes.append(f"no interval: {names}: {reason}")
        columns = ["estimate", "lower", "upper", "width"]
        shown = self.table.loc[~is_missing, columns]
        return Table.from_pandas(shown, head=(head,), notes=tuple(notes))


@check_arguments
def interval_panel(
    fits: Fit | Mapping[str, Fit],
    coef: str,
    *,
    prob: Probability = 0.95,
    kinds: Iterable[str] = INTERVALS,
) -> IntervalPanel:
    """Return every available interval of each fit for one coefficient.

    Kinds that a fit does not have are in the table with the reason. `fit.predict` has the intervals of the mean at a row.

    Parameters
    ----------
    fits : Fit or mapping from str to Fit
        One fit, or several by name.
    coef : str
        A name of `fit.parameter_names` ("x", or "x: b" for class b).
    prob : float
        Probability of every interval, between 0 and 1.
    kinds : iterable of str
        Names of `INTERVALS`.

    Returns
    -------
    IntervalPanel
        `table` with the ends and widths.

    Raises
    ------
    DataError
        For an unknown coefficient or kind.

    Examples
    --------
    >>> import probreg as pr
    >>> found = interval_panel(pr.ols([[0.0], [1.0], [2.0], [4.0]], [1.0, 3.0, 6.0, 8.0], columns=["x"]), "x", kinds=["t", "wald", "eti"])
    >>> found.table["width"].round(3).tolist()
    [2.555, 1.164, nan]
    """
    import pandas as pd

    if not isinstance(coef, str):
        raise DataError(
            f"interval_panel: coef is the name of a coefficient, not {with_article(type(coef).__name__)}"
        )
    several = fits_by_name([fits] if isinstance(fits, Fit) else fits, "interval_panel")
    names_of_kinds = _check_kinds(kinds)
    rows = {}
    for name, fit in several.items():
        names = fit.parameter_names
        if coef not in names:
            raise DataError(
                f"no coefficient is called {coef!r}; there are: {', '.join(names[:20])}"
            )
        j = names.index(coef)
        estimate = float(fit.coef.values.ravel()[j])
        for kind in names_of_kinds:
            lower = upper = np.nan
            reason = ""
            try:
                lower, upper = _interval_ends(fit, kind, prob)[:, j]
            except ProbregError as error:
                reason = str(error)
            rows[name, kind] = estimate, lower, upper, upper - lower, reason
    table = pd.DataFrame.from_dict(
        rows, orient="index", columns=["estimate", "lower", "upper", "width", "reason"]
    )
    table.index = pd.MultiIndex.from_tuples(list(rows), names=["fit", "kind"])
    return IntervalPanel(coef, prob, table)


# ---- the kinds of intervals ------------------------------------------------------------------------------------------


def _check_kinds(kinds: Iterable[str]) -> list[str]:
    """Return the names as a list, each once. DataError for an unknown name."""
    is_list = isinstance(kinds, Iterable) and getattr(kinds, "ndim", 1) == 1
    if isinstance(kinds, str) or not is_list:
        raise DataError(
            f"kinds is a list of names, such as ['t'], got {shown_value(kinds)}"
        )
    names = list(kinds)
    wrong = [n for n in names if not isinstance(n, str) or n not in INTERVALS]
    if wrong or not names:
        problem = f"no interval is called {wrong[0]!r}" if wrong else "kinds is empty"
        raise DataError(f"{problem}; there are: {', '.join(INTERVALS)}")
    return list(dict.fromkeys(names))


def _interval_ends(fit: Fit, kind: str, prob: float) -> Array:
    """Return the lower and the upper ends of all coefficients, (2, k); errors as in `Fit.interval`."""
    if kind == "HC3":
        interval = fit.interval(prob, covariance=kind)
    else:
        interval = fit.interval(prob, kind=kind)
    return np.array([interval[end].values.ravel() for end in ("lower", "upper")])


# the methods of the fits in a simulation, by kind of interval; "auto" for other kinds
_METHOD_OF_KIND: dict[str, str | Method] = {
    "bootstrap": Bootstrap(reps=199),
    "eti": "posterior",
    "hdi": "posterior",
}


Ends = Mapping[str, Array | str]  # by kind: lower and upper, or why there are none


@dataclass(frozen=True, eq=False, repr=False)
class Coverage(PrintsTable):
    """The simulated coverage of each interval; the result of `coverage`.

    `table` has a row per (coefficient, kind) with `covered`, the share of intervals that contain the truth among the
    data sets with an interval, its Monte Carlo error `mcse`, `above` and `below`, the shares with the truth above or below,
    the median `width`, and `count`, the data sets with an interval. `failures` count the others, by kind and cause."""

    prob: float
    reps: int
    rows: int
    truth: Mapping[str, float]
    table: Any
    failures: Mapping[str, Mapping[str, int]]

    @property
    def off(self) -> Any:
        """(covered - prob) in Monte Carlo errors of the claimed share, a Series as the table."""
        error = np.sqrt(self.prob * (1 - self.prob) / self.table["count"].clip(lower=1))
        return (self.table["covered"] - self.prob) / error

    @property
    def _display_table(self) -> Table:
        head = f"{100 * self.prob:g} % intervals, {self.reps} data sets of {self.rows} rows drawn at the truth"
        notes = []
        for kind, causes in self.failures.items():
            counts = [f"{n} {cause}" for cause, n in causes.items()]
            notes.append(f"{kind}, no interval: {', '.join(counts)}")
        return Table.from_pandas(
            self.table, number="{:.4g}".format, head=(head,), notes=tuple(notes)
        )


@check_arguments
def coverage(
    model: Model,
    truth: Fit | ArrayLike | Truth,
    *,
    kinds: Iterable[str] | None = None,
    reps: Count = 500,
    n: Count | None = None,
    prob: Probability = 0.95,
    seed: Seed = 0,
    workers: Workers = 1,
    progress: Flag | None = None,
) -> Coverage:
    """Simulate the coverage of intervals: the share of data sets where they contain the truth, with its Monte Carlo error.

    Responses are drawn from the likelihood of `model` at `truth`, and each data set is fitted under the model's prior.
    A row of weight w counts as w rows. Data set k has its own seed, so that `workers` does not change the result. Data sets without
    an interval (separated, collinear) are left out of the shares and counted by cause.

    Parameters
    ----------
    model : Model
        A model.
    truth : Fit, array (p,) or (p, m), or Truth
        A Fit (its estimate), or coefficients, with nuisance parameters as in `Truth([0.0, 1.0], {"sigma": 0.5})`.
    kinds : iterable of str, optional
        As in `interval_panel`; by default t (or wald), HC3, profile and score. HC3 is left out for censored or truncated responses
        and for formulas of several parameters, which have no leverages. Fits for eti and hdi use the method `posterior`.
    reps : int
        Number of data sets.
    n : int, optional
        Number of rows of each data set, drawn from the model's rows; by default the model's own rows.
    prob : float
        Probability of every interval, between 0 and 1.
    seed : int
        Seed of all random numbers.
    workers : int
        Threads.
    progress : bool, optional
        Whether a bar is shown; by default after a second, at a terminal or in a notebook.

    Returns
    -------
    Coverage
        `table` with `covered`, the share, and its error, over (param, kind).

    Raises
    ------
    DataError
        For a truth without a nuisance parameter, or with other columns.
    Incompatible
        For an interval that this model cannot have.

    Examples
    --------
    >>> import probreg as pr
    >>> model = pr.Model.from_arrays(np.arange(8.0), [0.0, 1.0, 1.0, 3.0, 4.0, 4.0, 7.0, 7.0], columns=["x"])
    >>> found = coverage(model, pr.Truth([0.0, 1.0], {"sigma": 0.5}), kinds=["t", "wald"], reps=200)
    >>> bool(found.table.loc[("x", "wald"), "covered"] < found.table.loc[("x", "t"), "covered"])
    True
    """
    model.design.refuse_sampling("coverage")
    if kinds is None:
        is_least_squares = Auto().choose(model)[0].name == "closed_form" and model.flat
        first = "t" if is_least_squares else "wald"
        kinds = [first, "HC3", "profile", "score"]
    names_of_kinds = _check_kinds(kinds)
    for kind in names_of_kinds:
        reason = METHODS.resolve(_METHOD_OF_KIND.get(kind, "auto")).obstacle(model)
        if reason:
            raise Incompatible(f"{kind}: {reason}")
    if callable(truth.mean if isinstance(truth, Truth) else truth):
        raise DataError("truth is a Fit or coefficients, got a function")
    known = with_known_aux(truth, model)
    beta = _true_coefficients(known, model)
    model.design.need_rows("a simulation of responses")
    repeated = replace(model, design=model.design.repeat_rows())
    work = partial(_once, repeated, beta, known.aux, names_of_kinds, prob, n)
    with one_blas_thread():
        ends = each_of(
            work,
            [np.random.default_rng([seed, k]) for k in range(reps)],
            "coverage, data sets",
            workers=workers,
            show=progress,
        )
    names = parameter_names(model)
    values = dict(zip(names, map(float, reported_coefficients(model, beta).ravel())))
    found = {}
    failures = {}
    for kind in names_of_kinds:
        found[kind] = [e[kind] for e in ends if not isinstance(e[kind], str)]
        causes = Counter([str(e[kind]) for e in ends if isinstance(e[kind], str)])
        if causes:
            failures[kind] = dict(causes)
    table = _coverage_table(values, found)
    rows = repeated.design.n if n is None else n
    return Coverage(prob, reps, rows, values | dict(known.aux), table, failures)


def _true_coefficients(truth: Truth, model: Model) -> Array:
    """Return beta (p, m)."""
    if not isinstance(truth.mean, Fit):
        return as_coefficients(truth.mean, model)
    theirs = truth.mean.model
    if theirs.shape != model.shape or theirs.design.columns != model.design.columns:
        raise DataError("truth is a fit with other columns than the model")
    return truth.mean.solution.beta


def _once(
    model: Model,
    beta: Array,
    aux: Mapping[str, float],
    kinds: list[str],
    prob: float,
    n: int | None,
    rng: np.random.Generator,
) -> Ends:
    """Return the intervals of one data set."""
    if n is not None:
        design = model.design.take(rng.integers(model.design.n, size=n))
        model = replace(model, design=design)
    data = simulate_response(model, model.eta(beta), aux, rng)
    fits: dict[Any, Fit | str] = {}
    seed = int(rng.integers(2**31))
    ends: dict[str, Array | str] = {}
    for kind in kinds:
        method = _METHOD_OF_KIND.get(kind, "auto")
        if method not in fits:
            fits[method] = _fit_or_error(data, method, seed)
        estimate = fits[method]
        if isinstance(estimate, str):
            ends[kind] = estimate
            continue
        status = estimate.solution.status
        try:
            ends[kind] = _interval_ends(estimate, kind, prob)
        except Incompatible:
            raise  # every data set raises this error: the arguments are wrong
        except ProbregError as error:
            ends[kind] = _CAUSES.get(status, type(error).__name__)
    return ends


def _fit_or_error(model: Model, method: str | Method, seed: int) -> Fit | str:
    with warnings.catch_warnings(action="ignore"):  # failures are counted
        try:
            return fit_model(model, METHODS.resolve(method), seed=seed)
        except (ProbregError, np.linalg.LinAlgError) as error:
            return type(error).__name__


_CAUSES = {
    Status.NO_MAXIMUM: "separated",
    Status.NOT_IDENTIFIED: "collinear",
    Status.STEP_LIMIT: "not converged",
    Status.STALLED: "not converged",
    Status.SADDLE: "not converged",
}


def _coverage_table(truth: Mapping[str, float], ends: Mapping[str, list[Any]]) -> Any:
    import pandas as pd

    frames = {}
    names = list(truth)
    value = np.array(list(truth.values()))
    for kind, pairs in ends.items():
        ends_of_kind = np.array(pairs, float).reshape(-1, 2, len(names))
        low, high = [
            pd.DataFrame(end, columns=names) for end in ends_of_kind.swapaxes(0, 1)
        ]
        count = len(low)
        covered = ((low <= value) & (value <= high)).mean()
        columns = {
            "covered": covered,
            "mcse": np.sqrt(covered * (1.0 - covered) / count),
            "above": (high < value).mean(),
            "below": (low > value).mean(),
            "width": (high - low).median(),
            "count": count,
        }
        frames[kind] = pd.DataFrame(columns).rename_axis("coef")
    table = pd.concat(frames, names=["kind"]).swaplevel()
    return table.loc[[(name, kind) for name in names for kind in ends]]
