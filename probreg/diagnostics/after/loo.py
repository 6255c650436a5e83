"""Leave-one-out diagnostics of a posterior: Pareto k and probability integral transforms (LOO-PIT)."""

from typing import Any

import numpy as np

from probreg.data import Design
from probreg.data.rows import plus_offset
from probreg.diagnostics.after.base import (
    DIAGNOSTICS,
    Diagnostic,
    heavier_tails,
    other_likelihood,
    require_counts,
)
from probreg.diagnostics.findings import (
    Finding,
    HypothesisTest,
    NotApplicable,
    Verdict,
)
from probreg.diagnostics.simulation.uniform import describe_departure
from probreg.fits.fit import Fit
from probreg.fits.inference_data import observation_rows
from probreg.fits.leave_one_out import FEWEST, leave_rows_out
from probreg.fits.residuals import uniforms
from probreg.likelihoods import UnivariateLikelihood
from probreg.model.model import Model

Array = np.ndarray
_MOST = 20_000_000  # pointwise log-likelihoods that are computed within seconds
_SHOWN = 5  # rows in a sentence


def require_loo(fit: Fit, *, continuous: bool = False) -> None:
    """Raise NotApplicable if observations cannot be left out one by one."""
    draws = fit.solution.draws
    count = FEWEST if draws is None else draws.count
    size = 0 if draws is None else count * fit.model.design.total
    if count < FEWEST:
        raise NotApplicable(
            f"leave-one-out by weights needs at least {FEWEST} draws, got {count}"
        )
    if size > _MOST:
        raise NotApplicable(f"{size:,.0f} log-likelihoods take long; use fit.loo()")
    require_counts(fit, 0, continuous=continuous)


@DIAGNOSTICS.register
class LeaveOneOutDiagnostic(Diagnostic):
    """Reports observations with a Pareto shape k above ArviZ's limit (0.7, less for few draws), for which leave-one-out by weights
    and the expected log predictive density (elpd) are unreliable."""

    name = "loo"
    title = "Leave-one-out (Pareto k)"
    target = "posterior"
    picture = "plot.diagnose"

    def find(self, fit: Fit) -> list[Finding]:
        require_loo(fit)
        loo = fit.loo()
        k = np.asarray(loo.pareto_k, dtype=float)
        size = int(np.prod(fit.model.shape)) + len(fit.model.unknown)
        score = f"elpd {loo.elpd:.1f} (SE {loo.se:.1f}), {loo.p:.1f} effective of {size} parameters"
        bad = np.flatnonzero(~(k <= float(loo.good_k)))
        if not len(bad):
            sentence = f"no influential rows, Pareto k at most {k.max():.2f}. {score}"
            return self.report(sentence, statistic=k.max())
        order = bad[np.argsort(-k[bad])]
        # the label of the row behind every observation
        names = fit.model.design.row_names[observation_rows(fit.model)[0]][order]
        first = ", ".join(f"{n} ({k[i]:.2f})" for n, i in zip(names[:_SHOWN], order))
        suffix = f" and {len(bad) - _SHOWN} more" if len(bad) > _SHOWN else ""
        sentence = f"unreliable for row{'s' * (len(bad) > 1)} {first}{suffix}. {score}"
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


_AT_ONCE = 2_000_000  # numbers of one block of rows


def loo_pit(fit: Fit) -> Array:
    """P(Y_i <= y_i | y without row i) of each observation, (n,): the distribution function averaged over draws with their
    leave-one-out weights; for counts a uniform draw between its values at y_i - 1 and y_i (Czado, Gneiting & Held 2009)."""
    model = fit.model
    draws = fit.solution.posterior.flat
    beta = draws["beta"]
    parameters = {**model.fixed, **{a: draws[a][:, None] for a in model.unknown}}
    # log p - log q (S, 1) of draws from an approximation q, else 0: added to the weights of every observation.
    stats = fit.solution.posterior.stats
    if "log_q" not in stats:
        log_ratio = np.zeros((len(beta), 1))
    else:
        log_w = np.asarray(fit.tree["sample_stats"]["lp"]) - np.asarray(stats["log_q"])
        log_ratio = log_w.reshape(-1, 1) - log_w.max()
    rows = observation_rows(model)[0]
    correction = log_ratio
    parts = np.array_split(np.arange(len(rows)), 1 + len(rows) * len(beta) // _AT_ONCE)
    ends = [
        _left_out(model, model.design.take(rows[part]), beta, parameters, correction)
        for part in parts
    ]
    lower, upper = (np.concatenate(e) for e in zip(*ends))
    return np.clip(lower + uniforms(fit, rows) * (upper - lower), 1e-12, 1.0 - 1e-12)


def _left_out(
    model: Model,
    rows: Design,
    beta: Array,
    parameters: dict[str, Any],
    correction: Array,
) -> tuple[Array, Array]:
    """P(Y_i < y_i) and P(Y_i <= y_i) of these rows, each left out of the posterior; equal for a continuous response."""
    likelihood = model.likelihood
    assert isinstance(likelihood, UnivariateLikelihood)  # as in `applies`
    eta = plus_offset(rows.X @ beta, rows.offset)
    parameters = likelihood.at_rows(parameters, rows.precision)
    log_lik = likelihood.log_prob(rows.observed, eta, **parameters)
    w = np.exp(leave_rows_out(log_lik, correction[:, 0], weights=True).log_weights.T)
    upper = (w * likelihood.cdf(rows.observed, eta, **parameters)).sum(0)
    if not likelihood.is_discrete:
        return upper, upper
    y = rows.observed
    below = likelihood.joined(likelihood.drawn(y) - 1.0, **likelihood.given(y))
    return (w * likelihood.cdf(below, eta, **parameters)).sum(0), upper


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
        if not isinstance(likelihood, UnivariateLikelihood):
            raise NotApplicable(
                "classes have no order; predictive_checks compares their rates"
            )
        if likelihood.levels:
            raise NotApplicable("two classes have no distribution; see calibration")
        require_loo(fit, continuous=True)
        u = loo_pit(fit)
        p = float(array_stats.uniformity_test(u, method="pot_c")[0])
        spread = float(12.0 * u.var())
        rejected = describe_departure("predictions", u.mean(), spread, len(u))
        test = HypothesisTest("12 Var(PIT)", spread, p)
        accepted = "the predictive distributions are calibrated"
        return self.report_test(test, accepted, rejected, other_likelihood(fit))
