"""Posterior predictive checks, and leave-one-out diagnostics of a posterior."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial, singledispatch
from typing import Any, NamedTuple

import numpy as np

from probreg.data import Design
from probreg.diagnostics.after.base import (
    DIAGNOSTICS,
    Diagnostic,
    heavier_tails,
    other_likelihood,
    other_spread,
    require_counts,
)
from probreg.diagnostics.findings import (
    SIGNIFICANT,
    Finding,
    HypothesisTest,
    NotApplicable,
    Verdict,
)
from probreg.diagnostics.simulation.sbc import describe_departure
from probreg.errors import Incompatible
from probreg.fits.fit import Fit
from probreg.fits.leave_one_out import (
    FEWEST,
    leave_rows_out,
    log_importance_ratio,
)
from probreg.fits.residuals import canonical_order, uniforms
from probreg.inference.varying import number_of_scales
from probreg.likelihoods import (
    Bernoulli,
    Binomial,
    Categorical,
    Gaussian,
    Likelihood,
    Multinomial,
    StudentT,
)
from probreg.system.terminal import format_p, shorten_names

Array = np.ndarray

Aux = Mapping[str, Any]
_NONLINEAR = "add nonlinear effects or an interaction"
_DISPERSION = "dispersion (mean squared Pearson residual)"
_RATES = "use a weaker prior, or an intercept"


class Statistic(NamedTuple):
    """A test statistic: its name, its value, and the remedy if it differs between data and replicates, "" for another variance.

    The model must not reproduce it by construction: the skewness of Gaussian residuals is useful, their mean is not. `value` maps the
    response, (S, n) or (S, n, K) of replicates and (1, n) or (1, n, K) of data, its mean (S, n) or (S, n, K) and the nuisance
    parameters (S, 1), with the trials (n,) of rows that count them and the "variance" of counts, to (S,), or to (1,) if it
    depends only on y.
    """

    name: str
    value: Callable[[Array, Array, Aux], Array]
    remedy: str = ""


@singledispatch
def statistics(likelihood: Likelihood, fitted: Array) -> list[Statistic]:
    """Return the statistics of a likelihood; `fitted` (n, m) are the linear predictors at the posterior mean, which group the rows.

    The default for an ordered response is mean, standard deviation, smallest and largest value; for counts also zeros and dispersion.
    """
    if likelihood.is_count:
        return [
            Statistic("share of zeros", lambda y, mean, aux: (y == 0).mean(-1)),
            # 1 in expectation if the likelihood has the right variance
            Statistic(
                _DISPERSION,
                lambda y, mean, aux: ((y - mean) ** 2 / aux["variance"]).mean(-1),
            ),
            Statistic("largest count", lambda y, mean, aux: y.max(-1)),
        ]
    if not likelihood.has_scalar_mean:
        return []
    remedy = "use another likelihood, or add terms to the mean"
    return [
        Statistic("mean", lambda y, mean, aux: y.mean(-1), remedy),
        Statistic("standard deviation", lambda y, mean, aux: y.std(-1), remedy),
        Statistic("smallest value", lambda y, mean, aux: y.min(-1), remedy),
        Statistic("largest value", lambda y, mean, aux: y.max(-1), remedy),
    ]


@statistics.register
def _(likelihood: Gaussian | StudentT, fitted: Array) -> list[Statistic]:
    def add(name: str, function: Callable[[Array], Array], remedy: str) -> None:
        def value(y: Array, mean: Array, aux: Aux) -> Array:
            return function((y - mean) / likelihood.noise(aux))

        chosen.append(Statistic(name, value, remedy))

    chosen: list[Statistic] = []
    is_gaussian = isinstance(likelihood, Gaussian)
    tails = "use other degrees of freedom nu"
    if is_gaussian:
        tails = "use likelihood=StudentT() for heavy tails, or check these rows"
    add("smallest residual", lambda r: r.min(-1), tails)
    add("largest residual", lambda r: r.max(-1), tails)
    sigma = "estimate sigma"
    if is_gaussian:
        from scipy.stats import skew

        skewed = "transform the response, such as log(y)"
        add("skewness of residuals", partial(skew, axis=-1), skewed)
        add("standard deviation of residuals", lambda r: r.std(-1), sigma)
    else:
        name = "interquartile range of residuals"
        add(name, lambda r: np.subtract(*np.quantile(r, [0.75, 0.25], -1)), sigma)
    return chosen


@statistics.register
def _(likelihood: Bernoulli, fitted: Array) -> list[Statistic]:
    value = _misfit(likelihood.mean(fitted))
    return [Statistic("misfit of rates by fitted decile", value, _NONLINEAR)]


@statistics.register
def _(likelihood: Categorical, fitted: Array) -> list[Statistic]:
    p = likelihood.mean(fitted)
    classes = list(enumerate(likelihood.levels))
    rates = [
        Statistic(
            f"rate of class {c}",
            lambda y, mean, aux, k=k: (y == k).mean(-1),  # type: ignore[misc]
            _RATES,
        )
        for k, c in classes
    ]
    name = "misfit of the rate of class {} by fitted decile"
    return rates + [
        Statistic(name.format(c), _misfit(p[:, k], k), _NONLINEAR) for k, c in classes
    ]


@statistics.register
def _(likelihood: Binomial, fitted: Array) -> list[Statistic]:
    def dispersion(y: Array, p: Array, aux: Aux) -> Array:
        # mean of (k - n p)^2 / (n p (1 - p)): 1 in expectation for a binomial.
        n = aux["trials"]
        return ((y - n * p) ** 2 / (n * p * (1.0 - p))).mean(-1)

    return [
        Statistic(_DISPERSION, dispersion),
        Statistic(
            "smallest share of successes",
            lambda y, mean, aux: (y / aux["trials"]).min(-1),
        ),
        Statistic(
            "largest share of successes",
            lambda y, mean, aux: (y / aux["trials"]).max(-1),
        ),
    ]


@statistics.register
def _(likelihood: Multinomial, fitted: Array) -> list[Statistic]:
    def dispersion(y: Array, p: Array, aux: Aux) -> Array:
        # sum_k (y_k - n p_k)^2 / (n p_k) per row and degree of freedom
        mean = aux["trials"][:, None] * p
        return ((y - mean) ** 2 / mean).sum(-1).mean(-1) / (y.shape[-1] - 1.0)

    rates = []
    for k, c in enumerate(likelihood.levels):

        def rate(y: Array, mean: Array, aux: Aux, k: int = k) -> Array:
            return y[..., k].sum(-1) / y.sum((-1, -2))

        rates.append(Statistic(f"rate of class {c}", rate, _RATES))
    return [*rates, Statistic(_DISPERSION, dispersion)]


def _misfit(
    fitted: Array, level: int | None = None
) -> Callable[[Array, Array, Aux], Array]:
    """Return the statistic of Hosmer & Lemeshow at given parameters, sum of (rate - mean p)^2 / variance over tenths of `fitted` (n,).

    It is for the event, or for the class number `level`."""
    most_groups = 10  # of rows with similar fitted rates
    # (n, groups) with 1 / size if a row belongs to a group; rows with equal fitted values stay together
    groups = min(most_groups, max(2, len(fitted) // 5))
    p = fitted.round(12)
    number = np.searchsorted(np.sort(p), p) * groups // len(p)
    member = (number[:, None] == np.unique(number)).astype(float)
    share = member / member.sum(0)

    def value(y: Array, mean: Array, aux: Aux) -> Array:
        hit = y
        p = mean
        if level is not None:
            hit = (y == level).astype(float)
            p = mean[..., level]
        # expected rate of each group and its variance, sum_i p_i (1 - p_i) / size^2, (S, groups)
        variance = (p * (1.0 - p)) @ np.square(share)
        gap = hit @ share - p @ share
        return (gap**2 / np.maximum(variance, 1e-300)).sum(-1)

    return value


_REPLICATES = 2000


class PredictiveCheck(NamedTuple):
    """One statistic: its mean at the data and at replicates, and p = P(T(y_rep, theta) >= T(y, theta) | y), ties halved."""

    statistic: Statistic
    observed: float
    replicated: float
    p_value: float

    @property
    def two_sided(self) -> float:
        return 2.0 * min(self.p_value, 1.0 - self.p_value)


def predictive_checks(fit: Fit) -> list[PredictiveCheck]:
    """Posterior predictive p-values of the statistics of the likelihood (Gelman, Meng & Stern 1996).

    Up to 2,000 replicates, one for each draw. A p-value near 0 or 1 is a misfit; one near 1/2 is weak evidence, because the data
    are used twice and p-values concentrate around 1/2 (Bayarri & Berger 2000).
    """
    design = fit.model.design
    fit.model.likelihood.require_exact(
        design.observed,
        "a posterior predictive check",
        "residuals(kind='quantile') and the LOO-PIT test allow for it",
    )
    if design.weights is not None:
        design = design.take(design.row_of_observations)
    # replicates do not depend on the order of the rows
    design = design.take(canonical_order(design))
    fitted = design.eta(fit.solution.beta)
    likelihood = fit.model.likelihood
    chosen = statistics(likelihood, fitted)
    sums = np.zeros((len(chosen), 3))
    total = 0
    for replicate, mean, aux in _replicate_blocks(fit, design):
        y = likelihood.drawn(design.observed)[None]
        for statistic, into in zip(chosen, sums):
            replicated = statistic.value(replicate, mean, aux)
            seen = np.broadcast_to(statistic.value(y, mean, aux), replicated.shape)
            tie = np.isclose(replicated, seen, rtol=1e-12, atol=0.0)
            exceeds = np.where(tie, 0.5, replicated > seen)
            into += [seen.sum(), replicated.sum(), exceeds.sum()]
        total += len(replicate)
    means = (sums / total).tolist()
    return [PredictiveCheck(t, *row) for t, row in zip(chosen, means)]


def _replicate_blocks(fit: Fit, design: Design) -> Iterator[tuple[Array, Array, Aux]]:
    """Yield replicates of y (S, n), their mean and the nuisance parameters of each row, by blocks of draws."""
    block_size = 100_000  # replicated observations in one block
    most_numbers = 20_000_000  # replicated observations in all
    fewest = 200  # replicates of many rows
    model = fit.model
    likelihood = model.likelihood
    flat = fit.solution.posterior.flat
    count = int(np.clip(most_numbers // design.n, fewest, _REPLICATES))
    # draws are repeated if there are fewer
    chosen = np.linspace(0, len(flat["beta"]) - 1, count).round().astype(int)
    rng = np.random.default_rng([fit.seed, 4])
    parts = min(count, 1 + count * design.n // block_size)
    for indices in np.array_split(chosen, parts):
        eta = design.eta(flat["beta"][indices])
        aux = {**model.fixed, **{a: flat[a][indices, None] for a in model.unknown}}
        aux = likelihood.at_rows(aux, design.precision) | model.given(design)
        y = likelihood.drawn(likelihood.sample(rng, eta, **aux))
        if likelihood.is_count:
            aux = {**aux, "variance": likelihood.response_variance(eta, **aux)}
        yield y, likelihood.mean(eta, **aux), aux


@DIAGNOSTICS.register
class PredictiveDiagnostic(Diagnostic):
    """Reports test statistics of the likelihood with two-sided Bayesian p-values below 0.01."""

    name = "predictive_checks"
    title = "Posterior predictive check"
    target = "posterior"
    picture = "plot.ppc"

    def find(self, fit: Fit) -> list[Finding]:
        rare_p = 1e-3  # two-sided; the smallest p-value that 2,000 replicates resolve
        require_counts(fit, 0, continuous=True)
        try:
            checks = predictive_checks(fit)
        except Incompatible as error:
            raise NotApplicable(str(error)) from None
        if not checks:
            raise NotApplicable(
                f"no test statistics for {fit.model.likelihood.named} likelihood"
            )
        findings = []
        for c in checks:
            if c.two_sided < SIGNIFICANT:
                p = max(c.two_sided, 1.0 / _REPLICATES)
                sign = "=" if c.two_sided >= p else "<"
                verdict = Verdict.WARNING if c.two_sided <= rare_p else Verdict.NOTE
                findings += self.report(
                    f"{c.statistic.name} {c.observed:.4g} in the data, {c.replicated:.4g} in replicated data, p {sign} {p:.2g}",
                    verdict,
                    c.statistic.remedy or other_spread(fit),
                    statistic=c.observed,
                    p_value=p,
                )
        smallest = min(checks, key=lambda c: c.two_sided)
        sentence = f"replicated data agree with the data in {len(checks)} statistics; smallest p-value: {smallest.statistic.name} ({format_p(smallest.p_value)})"
        return findings or self.report(sentence, p_value=smallest.two_sided)


def require_loo(fit: Fit, *, continuous: bool = False) -> None:
    """Raise NotApplicable if observations cannot be left out one by one."""
    most_logs = 20_000_000  # pointwise log-likelihoods that are computed within seconds
    draws = fit.solution.draws
    if draws is not None:
        if draws.count < FEWEST:
            raise NotApplicable(
                f"leave-one-out by weights needs at least {FEWEST} draws, got {draws.count}"
            )
        size = draws.count * fit.model.design.total
        if size > most_logs:
            raise NotApplicable(f"{size:,.0f} log-likelihoods take long; use fit.loo()")
    require_counts(fit, 0, continuous=continuous)


@DIAGNOSTICS.register
class LeaveOneOutDiagnostic(Diagnostic):
    """Reports observations with a Pareto shape k above ArviZ's limit (0.7, or less for few draws), because leave-one-out by weights
    and the expected log predictive density (elpd) are unreliable."""

    name = "loo"
    title = "Leave-one-out (Pareto k)"
    target = "posterior"
    picture = "plot.diagnose"

    def find(self, fit: Fit) -> list[Finding]:
        require_loo(fit)
        loo = fit.loo()
        k = np.asarray(loo.pareto_k, dtype=float)
        size = fit.model.n_coefficients + number_of_scales(fit.model)
        score = f"elpd {loo.elpd:.1f} (SE {loo.se:.1f}), {loo.p:.1f} effective of {size} parameters"
        bad = np.flatnonzero(~(k <= loo.good_k))
        if not len(bad):
            sentence = f"no influential rows, Pareto k at most {k.max():.2f}. {score}"
            return self.report(sentence, statistic=k.max())
        order = bad[np.argsort(-k[bad])]
        # the label of the row of every observation
        design = fit.model.design
        names = design.row_names[design.row_of_observations][order]
        listed = [f"{n} ({k[i]:.2f})" for n, i in zip(names, order)]
        sentence = f"unreliable for row{'s' * (len(bad) > 1)} {shorten_names(listed, 5)}. {score}"
        remedy = "look at these rows and refit without them"
        if "log_q" in fit.solution.posterior.stats:
            remedy = f"fit with nuts first; then {remedy}"
        remedy += f". If they are correct, {heavier_tails(fit)}"
        if loo.p > size:
            remedy += (
                ". More effective parameters than parameters: the model may not fit"
            )
        return self.report(
            sentence,
            Verdict.WARNING,
            remedy,
            rows=list(dict.fromkeys(names.tolist())),
            statistic=k[order[0]],
        )


def loo_pit(fit: Fit) -> Array:
    """P(Y_i <= y_i | y without row i) of each observation, (n,): the distribution function averaged over draws with their
    leave-one-out weights; for counts a uniform draw between its values at y_i - 1 and y_i (Czado, Gneiting & Held 2009)."""
    block_size = 2_000_000  # numbers of one block of rows
    model = fit.model
    likelihood = model.likelihood
    draws = fit.solution.posterior.flat
    beta = draws["beta"]
    parameters = {**model.fixed, **{a: draws[a][:, None] for a in model.unknown}}
    log_ratio = log_importance_ratio(fit)
    rows = model.design.row_of_observations
    parts = np.array_split(
        np.arange(len(rows)), 1 + len(rows) * len(beta) // block_size
    )

    def ends(part: Array) -> tuple[Array, Array]:
        """P(Y_i < y_i) and P(Y_i <= y_i) of these rows; equal for a continuous response."""
        design = model.design.take(rows[part])
        y = design.observed
        eta = design.eta(beta)
        aux = likelihood.at_rows(parameters, design.precision)
        log_lik = likelihood.log_prob(y, eta, **aux)
        w = np.exp(leave_rows_out(log_lik, log_ratio, weights=True).log_weights.T)
        upper = (w * likelihood.cdf(y, eta, **aux)).sum(0)
        below = likelihood.lower_end(y)
        if below is y:
            return upper, upper
        return (w * likelihood.cdf(below, eta, **aux)).sum(0), upper

    lower, upper = (np.concatenate(e) for e in zip(*map(ends, parts)))
    return np.clip(lower + uniforms(fit, rows) * (upper - lower), 1e-12, 1.0 - 1e-12)


@DIAGNOSTICS.register
class LooPitDiagnostic(Diagnostic):
    """Null: LOO-PIT values are uniform. Each order statistic has a p-value from its Beta distribution; Cauchy's rule combines
    them, which allows dependent values (Tesso & Vehtari 2026)."""

    name = "loo_pit"
    title = "LOO-PIT uniformity test"
    target = "posterior"
    picture = "plot.diagnose"

    def find(self, fit: Fit) -> list[Finding]:
        from arviz_stats.base import array_stats

        likelihood = fit.model.likelihood
        if not likelihood.has_cdf:
            raise NotApplicable(
                "classes have no order; predictive_checks compares their rates"
            )
        if likelihood.binary:
            raise NotApplicable("two classes have no distribution; see calibration")
        require_loo(fit, continuous=True)
        u = loo_pit(fit)
        p = float(array_stats.uniformity_test(u, method="pot_c")[0])
        spread = float(12.0 * u.var())
        rejected = describe_departure("predictions", u.mean(), spread, len(u))
        test = HypothesisTest("12 Var(PIT)", spread, p)
        accepted = "the predictive distributions are calibrated"
        return self.report_test(test, accepted, rejected, other_likelihood(fit))
