"""Variance of the response given its mean, number of zeros among counts, and calibration of class probabilities."""

import warnings
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.special import chdtr, chdtrc

from probreg.diagnostics.after.base import (
    DIAGNOSTICS,
    Diagnostic,
    other_spread,
    require_counts,
)
from probreg.diagnostics.after.fit_arrays import (
    FitArrays,
    arrays_of_fit,
    with_simulated_p,
)
from probreg.diagnostics.findings import (
    SIGNIFICANT,
    STRONG,
    Finding,
    HypothesisTest,
    NotApplicable,
    Verdict,
    chi2_test,
    normal_test,
)
from probreg.errors import ProbregError
from probreg.fits.fit import Fit, fit as fit_model
from probreg.fits.leave_out.rows import refit_rows
from probreg.fits.prediction import predictive
from probreg.fits.residuals import predictor
from probreg.inference import Newton
from probreg.inference.base import hold_at_limits
from probreg.likelihoods import (
    CountLikelihood,
    Hurdle,
    Likelihood,
    NegativeBinomial,
    OfClasses,
    OfTrials,
    SoftmaxLikelihood,
    ZeroInflated,
)
from probreg.likelihoods.base import class_probabilities
from probreg.system.terminal import each_of, format_number

Array = np.ndarray


class Dispersion(NamedTuple):
    """The ratio of observed to expected variance, and the tests of 1."""

    ratio: float
    tests: tuple[HypothesisTest, ...]


@DIAGNOSTICS.register
class DispersionDiagnostic(Diagnostic):
    """Counts: the score test against a variance mu + phi mu^2 (Dean & Lawless 1989) and Pearson's statistic, with simulated
    p-values for few rows. Trials, of successes or by class: Pearson's statistic of the rows. Two levels: the same for groups of
    rows with equal columns.

    >>> import probreg as pr
    >>> counts = {"y": [0, 0, 12, 1, 15, 0, 9, 0, 2, 20, 0, 0, 7, 1, 0, 18, 3, 0, 0, 11]}
    >>> fit = pr.fit(pr.Model.from_formula("y ~ 1", counts, likelihood="poisson"))
    >>> DispersionDiagnostic().run(fit)[0].verdict.name
    'WARNING'
    """

    name = "dispersion"
    title = "Dispersion test"
    when = "counts; successes of trials; two levels with several trials per group of equal rows"
    picture = "plot.diagnose"

    def find(self, fit: Fit) -> list[Finding]:
        weak_p = 0.05  # p-value below which a test is not called negative
        ratio, tests = dispersion(fit)
        kind = "overdispersion" if ratio > 1 else "underdispersion"
        least = min(test.p_value for test in tests)
        significant = [test for test in tests if test.p_value < SIGNIFICANT]
        result = kind
        if not significant:
            result = f"weak sign of {kind}" if least < weak_p else f"no sign of {kind}"
        elif len(significant) < len(tests):
            result = f"{kind} by one of two tests"
        numbers = "; ".join(map(str, tests))
        sentence = f"{result}, variance ratio {ratio:.3g}, {numbers}"
        verdict = Verdict.OK
        remedy = ""
        p = min(1.0, len(tests) * least)  # Bonferroni
        if significant:
            verdict = Verdict.WARNING if p < STRONG else Verdict.NOTE
            remedy = f"standard errors should be {np.sqrt(ratio):.2g} times as large; {other_spread(fit, overdispersed=ratio > 1)}"
        statistic = tests[0].statistic
        return self.report(sentence, verdict, remedy, statistic=statistic, p_value=p)


def dispersion(fit: Fit) -> Dispersion:
    """Return the tests of the variance of counts, trials or two classes. NotApplicable for other responses."""
    # per group of equal rows, on average, for a chi-square distribution
    fewest_trials = 5.0
    likelihood = fit.model.likelihood
    if not isinstance(likelihood, CountLikelihood | OfClasses):
        raise NotApplicable(
            f"the mean of {likelihood.named} response does not determine its variance"
        )
    require_counts(fit)
    pieces = fit.once(arrays_of_fit)
    if isinstance(likelihood, CountLikelihood):
        return count_dispersion(fit)
    _refuse_dependent_trials(likelihood)
    unit = "row" if isinstance(likelihood, OfTrials) else "set of equal rows"
    if len(likelihood.classes) > 2 and unit != "row":
        raise NotApplicable("the probabilities of classes determine their variance")
    y, p = count_classes_by_group(fit)
    if y.sum(1).mean() < fewest_trials or len(y) <= fit.model.shape[0]:
        raise NotApplicable(
            f"it needs {fewest_trials:g} trials per {unit} on average, and more rows than coefficients"
        )
    return grouped_dispersion(y, p, pieces.size)


def _refuse_dependent_trials(likelihood: Likelihood) -> None:
    if isinstance(likelihood, OfTrials) and likelihood.dependent_trials:
        raise NotApplicable(
            f"the trials of a row of {likelihood.named} likelihood depend on each other, and phi fits their variance; see distribution"
        )


def count_dispersion(fit: Fit) -> Dispersion:
    """Tests against Var(y) = V(mu), with leverages h: for a Poisson response with an intercept the score test of
    V(mu) + phi mu^2 (Dean & Lawless 1989),

        z = sum_i [(y - mu)^2 - (1 - h) V(mu)] / sqrt(2 sum_i V(mu)^2),

    which gives weight to large means, and Pearson's X^2 = sum_i (y - mu)^2 / V(mu) over n - k, which gives all rows equal weight.
    With an estimated nuisance parameter, which already fits phi, only Pearson's statistic is used; its error takes the estimation
    of this parameter into account.
    """
    pieces = fit.once(arrays_of_fit)
    df = pieces.w.sum() - pieces.size
    x2 = float(pieces.w @ pieces.scores.u[0, :, 0] ** 2)
    likelihood, eta = pieces.likelihood, pieces.eta[0]
    assert isinstance(likelihood, CountLikelihood)
    mu = likelihood.mean(eta)
    # Var (y - mu)^2 / V = 2 + kappa_4 / V^2, with 2 df for the sum of the twos
    fourth = pieces.w @ likelihood.excess_kurtosis(mu, **pieces.aux)
    # E (y - mu)^2 / V = 1 at every parameter, so that its covariance with the scores is d log V
    V = likelihood.variance(mu, **pieces.aux)
    slope = likelihood.variance_slope(mu, **pieces.aux) * likelihood.link.slope(
        eta[:, 0]
    )
    unknown = hold_at_limits(fit.model, fit.solution).unknown
    # V = mu + alpha mu^k: d log V / d log alpha = 1 - mu / V
    over_alpha = [1.0 - mu / V] * len(unknown)
    c = np.stack([slope / V, *over_alpha], -1)
    variance = 2.0 * df + fourth
    error = _error_of_sum(pieces, unknown, variance, c)
    # the first-order error of few rows may be 0: without a limit 11 % of correct models of 20 rows have p < 0.01, and none with it
    least = 0.1  # of the variance without an estimated parameter
    error = max(error, float(np.sqrt(least * variance)))
    # the log of the ratio is nearer to a normal distribution
    with np.errstate(divide="ignore"):  # residuals of 0
        z = float(df * np.log(x2 / df) / error)
    name = f"Pearson chi2({format_number(df, 4)})"
    pearson = normal_test(z, name)._replace(statistic=x2, how=", asymptotic")
    tests = [pearson]
    if not fit.model.unknown:  # replicates would keep an estimated parameter
        tests = [with_simulated_p(fit, pearson, partial(_pearson_ratio, df=df))]
        z = float(dispersion_score(pieces)[0])
        score = normal_test(z, "score z")
        score = with_simulated_p(fit, score, lambda d: np.abs(dispersion_score(d)))
        tests.insert(0, score)
    return Dispersion(x2 / df, tuple(tests))


def dispersion_score(data_sets: FitArrays) -> Array:
    """z of each data set, (S,)."""
    # E (y - mu)^2 = (1 - h) V to first order where mu was fitted. For a Poisson response and maximum likelihood with an
    # intercept sum mu = sum y: this is sum (y - mu)^2 - y + h mu, of variance 2 sum mu^2   (Dean & Lawless 1989).
    likelihood = data_sets.likelihood
    assert isinstance(likelihood, CountLikelihood)
    mu = likelihood.mean(data_sets.eta)
    v = likelihood.variance(mu, **data_sets.aux)
    leverage = data_sets.hat[2][..., 0, 0]
    excess = (data_sets.y - mu) ** 2 - (1.0 - leverage) * v
    return (excess @ data_sets.w) / np.sqrt(2.0 * (v**2 @ data_sets.w))


def _pearson_ratio(data_sets: FitArrays, df: float) -> Array:
    """|log(X^2 / df)| of each data set, (S,), for overdispersion and underdispersion."""
    with np.errstate(divide="ignore"):
        # |log| makes a ratio and its inverse equally far from 1.
        return np.abs(np.log((data_sets.scores.u[..., 0] ** 2).sum(1) / df))


def count_classes_by_group(fit: Fit) -> tuple[Array, Array]:
    """Return the count and the fitted probability of each class, (g, K), per row of trials or per set of rows with
    equal columns."""
    design = fit.model.design
    eta = predictor(fit)
    likelihood = fit.model.likelihood
    assert isinstance(likelihood, OfClasses)  # checked by `dispersion`
    p = class_probabilities(likelihood.mean(eta))
    tally = likelihood.tally(design.observed)
    if isinstance(likelihood, OfTrials):
        rows = design.row_of_observations
        return tally[rows], p[rows]
    offset = np.zeros(design.n) if design.offset is None else design.offset
    columns = np.c_[design.X, offset]
    _, first, group = np.unique(columns, axis=0, return_index=True, return_inverse=True)
    tally = design.row_weights[:, None] * tally
    y = np.stack([np.bincount(group.ravel(), k) for k in tally.T], 1)
    used = y.sum(1) > 0
    return y[used], p[first][used]


def grouped_dispersion(y: Array, p: Array, coefficients: float) -> Dispersion:
    """X^2 = sum_g sum_k (y_gk - n_g p_gk)^2 / (n_g p_gk), chi-square on groups (K - 1) - coefficients (McCullagh & Nelder 1989,
    section 4.5); for two classes sum_g (s_g - n_g p_g)^2 / (n_g p_g (1 - p_g))."""
    # E_gk = n_g p_gk, and X^2 / df estimates the ratio of the variances to the multinomial's.
    expected = y.sum(1, keepdims=True) * p
    df = len(y) * (p.shape[1] - 1) - coefficients
    x2 = float(np.sum((y - expected) ** 2 / expected))
    # Two-sided: twice the smaller tail of chi^2 on df.
    p_value = min(1.0, 2.0 * min(float(chdtr(df, x2)), float(chdtrc(df, x2))))
    name = f"Pearson chi2({format_number(df, 4)})"
    test = HypothesisTest(name, x2, p_value, ", asymptotic")
    return Dispersion(x2 / df, (test,))


@DIAGNOSTICS.register
class CalibrationDiagnostic(Diagnostic):
    """The test of Hosmer and Lemeshow (1980) over tenths of the predictions, and for several classes its generalisation
    (Fagerland, Hosmer & Bofin 2008).

    >>> import probreg as pr
    >>> x = np.linspace(-2.0, 2.0, 300)
    >>> fit = pr.fit(pr.Model.from_arrays(x, (np.abs(x - 0.5) < 1).astype(int), likelihood="bernoulli"))
    >>> CalibrationDiagnostic().run(fit)[0].verdict.name
    'WARNING'
    """

    name = "calibration"
    title = "Hosmer-Lemeshow test"
    when = "two levels and classes"
    picture = "plot.reliability"

    def find(self, fit: Fit) -> list[Finding]:
        model = fit.model
        group_size = 10  # observations in each of at most ten groups
        fewest_rows = 40  # observations in all
        likelihood = model.likelihood
        if not isinstance(likelihood, OfClasses):
            raise NotApplicable(
                f"{likelihood.named} response has no class probabilities; see distribution"
            )
        _refuse_dependent_trials(likelihood)
        require_counts(fit, fewest_rows)
        rows = model.design.row_of_observations
        mean = predictive(fit, model.design, at_most=500).mean()
        p = class_probabilities(mean)[rows]
        if len(np.unique(p[:, -1].round(12))) <= 3:
            raise NotApplicable("three different predictions or fewer")
        y = likelihood.tally(model.design.observed[rows])
        reference = 0
        if (
            isinstance(likelihood, SoftmaxLikelihood)
            and likelihood.reference is not None
        ):
            reference = likelihood.levels.index(likelihood.reference)
        groups = min(10, len(rows) // group_size)
        test = hosmer_lemeshow(p, y, reference=reference, groups=groups)
        if test.df < 1:
            return self.report("too few different predictions")
        return self.report_test(
            test,
            "the probabilities are calibrated",
            "the probabilities are not calibrated",
            "look for nonlinear effects and interactions; recalibrate on new rows",
        )


def hosmer_lemeshow(
    p: Array, y: Array, *, reference: int = 0, groups: int = 10
) -> HypothesisTest:
    """sum over groups and classes of (observed - expected)^2 / expected, chi-square on (groups - 2)(K - 1).

    p (n, K) class probabilities, y (n, K) counts of each class in a row. The probability of not being the reference class divides the rows into groups of
    about equal size; equal predictions stay together, so there may be fewer groups.

    >>> p = np.repeat([0.2, 0.4, 0.8], 10)
    >>> y = np.tile([1, 0, 0, 0, 1], 6)
    >>> print(hosmer_lemeshow(np.c_[1 - p, p], np.c_[1 - y, y], groups=3))
    chi2(1) = 12.5, p = 0.00041
    """
    trials = y.sum(1)
    group = _groups_of_equal_weight(1.0 - p[:, reference], groups, trials)
    # E_gk = sum_{i in g} n_i p_ik and O_gk = sum_{i in g} y_ik, n_i the trials of a row.
    member = (group[:, None] == np.unique(group)).astype(float)
    expected = member.T @ (trials[:, None] * p)
    happened = member.T @ y
    with np.errstate(all="ignore"):  # a class with probability 0
        parts = np.where(expected > 0, (happened - expected) ** 2 / expected, 0.0)
    # X^2 = sum_g sum_k (O_gk - E_gk)^2 / E_gk ~ chi^2 on (G - 2)(K - 1)   (Fagerland, Hosmer & Bofin 2008).
    df = max(len(expected) - 2, 0) * (p.shape[1] - 1)
    return chi2_test(float(parts.sum()), df)


def _groups_of_equal_weight(value: Array, groups: int, w: Array) -> Array:
    """Return groups 0, 1, ... of about equal weight in the order of the values, equal values together."""
    level, place = np.unique(value.round(12), return_inverse=True)
    weight = np.bincount(place, w, len(level))
    # The place of a value is (weight of smaller values + half of its own weight) / W; its group is floor(G place).
    middle = (np.cumsum(weight) - weight / 2) / weight.sum()
    cut = np.minimum((middle * groups).astype(int), groups - 1)
    return np.unique(cut, return_inverse=True)[1][place]


@DIAGNOSTICS.register
class ZerosDiagnostic(Diagnostic):
    """The number of zeros among counts against its expectation under the fit; the remedy has leave-one-out differences of other models.

    >>> import probreg as pr
    >>> y = np.r_[np.zeros(30), np.random.default_rng(0).poisson(4.0, 60)]
    >>> fit = pr.fit(pr.Model.from_formula("y ~ 1", {"y": y}, likelihood="poisson"))
    >>> ZerosDiagnostic().run(fit)[0].verdict.name
    'WARNING'
    """

    name = "zeros"
    title = "Zero inflation test"
    when = "counts"
    picture = "plot.rootogram"

    def find(self, fit: Fit) -> list[Finding]:
        if not isinstance(fit.model.likelihood, CountLikelihood):
            raise NotApplicable(
                f"the test is for Poisson and NegativeBinomial, and not for {fit.model.likelihood.named} likelihood"
            )
        require_counts(fit)
        pieces = fit.once(arrays_of_fit)
        zeros = float(pieces.w @ (pieces.y[0] == 0))
        surplus = float(zero_surplus(pieces)[0])
        unknown = hold_at_limits(fit.model, fit.solution).unknown
        z = surplus / _zero_error(pieces, unknown)
        test = normal_test(z)
        if not fit.model.unknown:
            test = with_simulated_p(fit, test, lambda d: np.abs(zero_surplus(d)))
        sentence = f"{zeros:g} zeros, {zeros - surplus:.3g} expected, {test}"
        verdict, remedy = Verdict.OK, ""
        if test.p_value < SIGNIFICANT:
            verdict = Verdict.WARNING if test.p_value < STRONG else Verdict.NOTE
            gains = _describe_gains(fit, more=surplus > 0)
            remedy = f"model the zeros, with leave-one-out differences from this fit: {gains}"
        return self.report(sentence, verdict, remedy, statistic=z, p_value=test.p_value)


def _log_zero(data_sets: FitArrays) -> Array:
    """log P(Y = 0) (S, n)."""
    zero = np.zeros(data_sets.eta.shape[1])
    return data_sets.likelihood.log_prob(zero, data_sets.eta, **data_sets.aux)


def zero_surplus(data_sets: FitArrays) -> Array:
    """The number of zeros minus its expectation, of each data set (S,)."""
    return ((data_sets.y == 0) - np.exp(_log_zero(data_sets))) @ data_sets.w


def _zero_error(pieces: FitArrays, unknown: tuple[str, ...]) -> float:
    """Return the standard error of `zero_surplus`: of a zero Var = p0 (1 - p0), and E 1(y = 0) u = p0 u(0), p0 = P(Y = 0)."""
    p0 = np.exp(_log_zero(pieces)[0])
    zero, eta = np.zeros(len(p0)), pieces.eta[0]
    at_zero = pieces.likelihood.derivatives_over(
        unknown, zero, eta, pieces.aux, None
    ).gradient
    variance = pieces.w @ (p0 * (1.0 - p0))
    return _error_of_sum(pieces, unknown, variance, p0[:, None] * at_zero)


def _error_of_sum(
    pieces: FitArrays, unknown: tuple[str, ...], variance: float, c: Array
) -> float:
    """Return the standard error of a sum of statistics t_i of the rows at estimated parameters, with E t_i = 0 at the true ones.

    Var = sum Var t_i - c' I^-1 c, c = sum E t_i u_i, where `variance` is the first term, and `c` (n, 1 + a) has the covariances with
    the scores u_i over the linear predictor and the logs of the `unknown` nuisance parameters.
    """
    likelihood, eta, w = pieces.likelihood, pieces.eta[0], pieces.w
    Z = pieces.Z[:, 0]
    total = np.r_[(w * c[:, 0]) @ Z, w @ c[:, 1:]]
    # the expected information of nuisance parameters is the mean of products of scores of simulated responses. The observed
    # information may leave no variance, and `joint_information` takes seconds for large counts
    rng = np.random.default_rng(0)
    n_draws = 1 + 20_000 // len(eta)  # so that there are enough scores in all
    products = np.zeros((len(eta), 1 + len(unknown), len(unknown)))
    for _ in range(n_draws if unknown else 0):
        y = likelihood.sample(rng, eta, **pieces.aux)
        u = likelihood.derivatives_over(unknown, y, eta, pieces.aux, None).gradient
        products += u[:, :, None] * u[:, None, 1:] / n_draws
    cross = (w[:, None] * Z).T @ products[:, 0]
    among = np.tensordot(w, products[:, 1:], 1)
    information = np.block([[pieces.hat[0][0], cross], [cross.T, among]])
    explained = total @ np.linalg.pinv(information) @ total
    return float(np.sqrt(max(variance - explained, 1e-12)))


def _describe_gains(fit: Fit, *, more: bool) -> str:
    """Return models with another number of zeros, with their leave-one-out differences at modes of the same priors."""
    base = fit.model.likelihood
    others: list[Likelihood] = [Hurdle(base)]
    if more:
        others = [ZeroInflated(base), *others]
        if not base.nuisance:
            others.append(NegativeBinomial())
    elpd, *elpd_of_others = each_of(
        partial(_elpd, fit), [base, *others], "models of zeros"
    )
    gains = []
    for other, value in zip(others, elpd_of_others):
        gain = value - elpd
        error = np.sqrt(len(gain)) * gain.std()
        words = f"{gain.sum():+.1f} (SE {error:.1f})"
        gains.append(f"{other} {words if np.isfinite(error) else '(no estimate)'}")
    return "; ".join(gains)


def _elpd(fit: Fit, likelihood: Likelihood) -> Array:
    """Return the leave-one-out log densities with another likelihood; nan without an estimate."""
    model = replace(fit.model, likelihood=likelihood)
    method = fit.method if fit.target == "mode" else Newton()
    try:
        with warnings.catch_warnings(action="ignore"):
            mode = fit_model(model, method)
        # an error of a nat in the sum is small compared with a relevant difference
        return refit_rows(mode, refit_all=0, allowed=1.0).elpd
    except ProbregError:
        return np.full(1, np.nan)
