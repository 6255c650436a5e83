"""Tests of L beta = r on a maximum likelihood fit, by Wald, by the likelihood ratio and by the score, and the result of a hypothesis test.

With b the estimate and V its covariance: W = (L b - r)'(L V L')^-1 (L b - r), over q against F(q, df) if the noise of
least squares is estimated; LR = 2 (l(b) - l(b0)) and S = g(b0)' I(b0)^-1 g(b0) with b0 the restricted estimate, g and I the
gradient and the information of the log-likelihood (`score_information`). All are chi-square on q degrees of freedom in large samples
(Rao 1948; Wald 1943; Wilks 1938).
"""

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.special import chdtrc, fdtrc, ndtr, stdtr

from probreg.errors import DataError, Incompatible, NotConverged
from probreg.fits.fit import Fit
from probreg.formula.hypothesis import Restriction
from probreg.inference import ClosedForm
from probreg.inference.base import Status, hold_at_limits, split_parameters
from probreg.inference.covariance import ParameterCovariance
from probreg.inference.uncertainty.profile import (
    Surface,
    has_expected_information,
    score_information,
)
from probreg.linalg.vec import map_of_columns
from probreg.model.model import LocalModel, Model
from probreg.system.terminal import clean_lines, format_probability
from probreg.tables import Table
from probreg.tables.render import notebook_html


@dataclass(frozen=True)
class Test:
    """A statistic, its null distribution, and p, the probability of a statistic at least as extreme."""

    __test__ = False  # its name is not for pytest

    name: str
    statistic: float
    law: str  # "chi2", "F", "t", "normal" or "simulated"
    df: tuple[float, ...]
    p: float


@dataclass(frozen=True)
class Belief:
    """A posterior probability, or a level of a credible region, and its Monte Carlo standard error (0 if exact)."""

    name: str
    value: float
    mcse: float
    how: str


@dataclass(frozen=True, eq=False)
class Hypothesis:
    """The result of `hypothesis`: the null, the estimates of the restrictions, and tests or probabilities.

    `null` is the null in words; `estimates` a DataFrame with one row per restriction: value (of the right side), estimate of the
    left one, std_error or sd, lower, upper (of smooth functions edf and columns); `tests` by name for a point estimate ("Wald", "F", "t" or "z", "LR", "score");
    `beliefs` for a posterior: the probability of an inequality or the credible level that reaches an equality;
    `log_bayes_factor` of an equality if it is exact.
    """

    text: str
    null: str
    estimates: Any
    tests: Mapping[str, Test]
    beliefs: tuple[Belief, ...] = ()
    log_bayes_factor: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def table(self) -> Any:
        """The tests, or the posterior probabilities, one row each: DataFrame, unrounded."""
        import pandas as pd

        if not self.tests:
            names = ["what", "value", "mcse", "how"]
            return pd.DataFrame(list(map(astuple, self.beliefs)), columns=names)
        tests = self.tests.values()
        names = ["test", "statistic", "law", "df", "p"]
        table = pd.DataFrame(list(map(astuple, tests)), columns=names)
        return table.assign(df=[", ".join([f"{d:g}" for d in t.df]) for t in tests])

    def __getitem__(self, name: str) -> Test:
        """Return the test of this name; raise KeyError with the available names."""
        if name not in self.tests:
            raise KeyError(
                f"no test is called {name!r} here; there are: {', '.join(self.tests) or 'none'}"
            )
        return self.tests[name]

    def __repr__(self) -> str:
        head, *lines_below = self._head_lines
        estimates, table = self._tables
        notes = (f"note: {note}" for note in self.notes)
        return clean_lines(
            head, *estimates.lines(25), *table.lines(25), *lines_below, *notes
        )

    def _repr_html_(self) -> str:
        head, *lines_below = self._head_lines
        return notebook_html([head], self._tables, [*lines_below, *self.notes])

    @property
    def _tables(self) -> tuple[Table, Table]:
        """The combinations, and the tests or probabilities; a probability is never 0 or 1."""
        formats = {} if self.tests else {"value": format_probability}
        return (
            Table.from_pandas(self.estimates, index=False, source=".estimates"),
            Table.from_pandas(self.table, index=False, formats=formats),
        )

    @property
    def _head_lines(self) -> list[str]:
        """Return the null or the claim, and the Bayes factor if it is exact."""
        bayes = self.log_bayes_factor
        word = "null" if self.tests or bayes is not None or self.notes else "claim"
        lines = [f"{word}: {self.null}"]
        if bayes is not None:
            lines.append(
                f"log Bayes factor of the null, exact (Savage-Dickey): {bayes:.4g}"
            )
        return lines


def over_own(fit: Fit, L: np.ndarray) -> np.ndarray:
    """Convert combinations L (q, reported) of the reported coefficients beta D' to combinations of vec(beta), (q, p m)."""
    D, (p, m) = fit.model.likelihood.contrast_matrix, fit.model.shape
    expanded = np.zeros((len(L), p, m))
    expanded[:, fit.model.design.ungrouped] = L.reshape(len(L), -1, len(D)) @ D
    return expanded.reshape(len(L), p * m)


def restriction_table(
    fit: Fit, read: Sequence[Restriction], columns: Mapping[str, np.ndarray]
) -> Any:
    """One row for each restriction: its combination, the value of its right side, and these columns."""
    import pandas as pd

    names = fit.parameter_names
    first_columns = {
        "combination": [restriction.format_combination(names) for restriction in read],
        "value": [restriction.value for restriction in read],
    }
    return pd.DataFrame(first_columns | dict(columns))


def describe_null(fit: Fit, read: Sequence[Restriction]) -> str:
    """The restrictions in words."""
    return ", ".join(restriction.words(fit.parameter_names) for restriction in read)


Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Restrictions:
    """L (q, p m) of full row rank over vec(beta), r (q,)."""

    L: Array
    r: Array

    @property
    def q(self) -> int:
        return len(self.r)


def independent(L: Array, r: Array) -> Restrictions:
    """Return the restrictions without redundant ones. DataError for restrictions that contradict one another."""
    from scipy.linalg import qr

    size = np.linalg.norm(L, axis=1)
    if (size == 0).any():
        raise DataError(
            f"restriction {int(np.argmin(size)) + 1} tests nothing: its sum of coefficients is 0 in every fit, because the coefficients of "
            "the classes sum to 0"
        )
    A = L / size[:, None]
    b = r / size
    _, R, order = qr(A.T, mode="economic", pivoting=True)
    d = np.abs(np.diagonal(R))
    rows = np.sort(order[: int((d > 1e-10 * d[0]).sum())])
    beta = np.linalg.lstsq(A[rows], b[rows])[0]
    off = np.abs(A @ beta - b)
    if (off > 1e-8 * (1.0 + np.abs(b))).any():
        raise DataError(
            f"restriction {int(off.argmax()) + 1} contradicts the others: no coefficients meet them all"
        )
    return Restrictions(L[rows], r[rows])


# share of |L| |null|: a combination that changes less along a direction without an estimate has an estimate
UNIDENTIFIED = 1e-7


def is_unidentified(fit: Fit, L: Array) -> Array:
    """Return which combinations L (q, p m) of coefficients the rows do not identify, (q,) bool (Searle 1971)."""
    if fit.solution.null_space is None:
        return np.zeros(len(L), bool)
    N = map_of_columns(fit.solution.null_space, fit.model.shape[1])
    bound = UNIDENTIFIED * (np.abs(L) @ np.abs(N)) + 1e-300
    return (np.abs(L @ N) > bound).any(1)


# ---- the tests ---------------------------------------------------------------------------------------------------------


def wald(
    restrictions: Restrictions, beta: Array, V: ParameterCovariance, df: float | None
) -> list[Test]:
    """Chi-square, and F if there are degrees of freedom; for one restriction also the signed root."""
    gap = restrictions.L @ beta - restrictions.r
    q = restrictions.q
    try:
        W = V.wald(restrictions.L, gap)
    except np.linalg.LinAlgError:
        raise Incompatible(
            "the tested combinations of coefficients have a singular covariance: test fewer of them, or fit with another covariance"
        ) from None
    tests = [Test("Wald", W, "chi2", (q,), float(chdtrc(q, W)))]
    if df is not None:
        tests.append(Test("F", W / q, "F", (q, df), float(fdtrc(q, df, W / q))))
    if q == 1:
        t = float(gap[0] / np.linalg.norm(V.half(restrictions.L)))
        tests.append(root(t, df))
    return tests


def root(t: float, df: float | None, tail: int = 0) -> Test:
    """z, or t on df degrees of freedom; `tail` +1 or -1 counts only statistics as large or as small."""
    cdf = ndtr if df is None else partial(stdtr, df)
    below, above = float(cdf(t)), float(cdf(-t))
    p = {0: 2.0 * min(below, above), 1: above, -1: below}[tail]
    if df is None:
        return Test("z", t, "normal", (), p)
    return Test("t", t, "t", (df,), p)


def likelihood_tests(fit: Fit, restrictions: Restrictions) -> list[Test]:
    """LR and score, by fitting the restricted model; least squares by its sums of squares."""
    if fit.model.likelihood.least_squares:
        score: float | None
        lr, score = _least_squares_statistics(fit, restrictions)
    else:
        if not fit.model.design.has_rows:
            return []
        fit = replace(fit, model=hold_at_limits(fit.model, fit.solution))
        theta, local = restricted_mode(fit, restrictions)
        lr = 2.0 * (likelihood_limit(fit) - _log_likelihood(fit.model, theta))
        is_regular = (
            has_expected_information(fit.model)
            and fit.solution.status is not Status.NO_MAXIMUM
            and fit.solution.null_space is None
        )
        information = score_information(fit.model, theta, local)
        g = local.gradient[: len(information)]
        if is_regular and np.linalg.matrix_rank(information) == len(g):
            score = float(g @ np.linalg.solve(information, g))
        else:
            held = directions_of_restrictions(fit.model, restrictions)[: len(g)]
            score = _score_statistic(g, information, held, fit.model.design.total)
    q = restrictions.q
    statistics = {"LR": max(lr, 0.0)}
    if score is not None:
        statistics["score"] = score
    return [
        Test(name, v, "chi2", (q,), float(chdtrc(q, v)))
        for name, v in statistics.items()
    ]


def likelihood_limit(fit: Fit) -> float:
    """The log-likelihood at the estimate. If coefficients go to infinity, its limit, where Newton steps gain nothing."""
    if fit.solution.status is not Status.NO_MAXIMUM:
        return fit.log_likelihood
    theta, _ = Surface(fit.model, fit.solution).top
    return _log_likelihood(fit.model, theta)


def _log_likelihood(model: Model, theta: Array) -> float:
    """The log-likelihood at (vec gamma, log aux)."""
    gamma, aux = split_parameters(model, theta)
    return float(model.log_lik(model.design.frame.to_raw(gamma), **aux))


def _least_squares_statistics(
    fit: Fit, restrictions: Restrictions
) -> tuple[float, float]:
    """With the increase D of RSS: n log(1 + D / RSS) and n D / (RSS + D), or D / sigma^2 where sigma is given."""
    # for any method of the fit
    s = ClosedForm().solve(fit.model, np.random.default_rng(0))
    n = fit.model.design.total
    gap = restrictions.L @ s.beta.ravel() - restrictions.r
    W = s.scale.wald(restrictions.L, gap)
    if not fit.model.unknown:
        return W, W
    assert s.df is not None
    growth = W / s.df  # the scale contains RSS / df
    return n * float(np.log1p(growth)), n * growth / (1.0 + growth)


def restricted_mode(fit: Fit, restrictions: Restrictions) -> tuple[Array, LocalModel]:
    """Return the argmax theta of the log posterior under L beta = r, with the log posterior there.

    By Newton steps along the directions that keep the restrictions, from the point that meets them nearest to the estimate in
    standard errors.

    NotConverged if the restricted model has no maximum, or the search did not find it.
    """
    model = fit.model
    s = fit.solution
    (p, m), T = model.shape, model.design.frame.T
    unbounded = s.status is Status.NO_MAXIMUM
    over_T = map_of_columns(T, m)
    beta = s.beta.ravel()
    gap = restrictions.L @ s.beta.ravel() - restrictions.r
    if unbounded:
        # coefficients go to infinity: start at the point nearest to zero, in standard deviations of the columns
        nearest = over_T @ np.linalg.lstsq(restrictions.L @ over_T, restrictions.r)[0]
    else:
        nearest = beta - np.nan_to_num(s.scale.change(restrictions.L, gap))
    local_surface = Surface(model, s)
    held = directions_of_restrictions(model, restrictions)
    top = local_surface.maximise(
        local_surface.start(nearest.reshape(p, m)), local_surface.across(held)
    )
    if top is None:
        raise NotConverged(
            "the model under the hypothesis has no maximum that Newton steps find, so there is no likelihood ratio. "
            "Give a prior and ask the posterior"
        )
    return top


def directions_of_restrictions(model: Model, restrictions: Restrictions) -> Array:
    """Return the restrictions as columns over (vec gamma, log aux), (d, q)."""
    T = map_of_columns(model.design.frame.T, model.shape[1])
    over_aux = np.zeros((len(model.unknown), restrictions.q))
    return np.vstack([T.T @ restrictions.L.T, over_aux])


def _score_statistic(
    g: Array, information: Array, held: Array, n: float
) -> float | None:
    """g' I^-1 g at the restricted maximum on standardised columns, where the information may be singular or not positive.

    It is singular if columns are combinations of others, and in a limit, because rows with a certain response have no information.
    I^-1 is a pseudo-inverse, and there is no test (None) unless I has q dimensions more than the information along the directions that keep
    the restrictions.
    """
    q = held.shape[1]
    value, vector = np.linalg.eigh(information)
    least_information = 1e-8  # of the largest information: a row below it has none, because its response is certain in the limit
    is_identified = value > least_information * value[-1]
    free = np.linalg.qr(held, mode="complete")[0][:, q:]
    is_free = (
        np.linalg.eigvalsh(free.T @ information @ free) > least_information * value[-1]
    )
    if value[-1] <= least_information * n or is_identified.sum() - is_free.sum() != q:
        return None
    return float(((vector[:, is_identified].T @ g) ** 2 / value[is_identified]).sum())
