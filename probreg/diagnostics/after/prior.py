"""Sensitivity of a posterior to its prior, and conflicts of prior and data.

The posterior with the prior (or the likelihood) to the power alpha is the posterior of the fit with importance weights p^(alpha - 1).
The sensitivity of a parameter is the slope of the distance between both over log2 alpha at alpha = 1. The distance is
the root of the cumulative Jensen-Shannon divergence, between 0 and 1 in any units of the parameter (Kallioinen,
Paananen, Bürkner & Vehtari 2024).
"""

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import chdtrc, fdtrc

from probreg.arguments.scalars import DataFrame, check_arguments
from probreg.diagnostics.after.base import DIAGNOSTICS, Diagnostic
from probreg.diagnostics.findings import Finding, HypothesisTest, NotApplicable, Verdict
from probreg.errors import ProbregError
from probreg.fits.fit import Fit
from probreg.fits.inference_data import reported_coefficients
from probreg.fits.leave_one_out import FEWEST, leave_rows_out
from probreg.inference import Auto, Solution
from probreg.linalg.vec import vec_entries
from probreg.model.draws import log_prior_of_draws, needed_hyper
from probreg.model.model import Model
from probreg.priors import Flat
from probreg.system.terminal import shorten_names

Array = np.ndarray

SENSITIVE = 0.05  # Kallioinen et al.: look at larger ones; a normal mean moves by 1/6 sd for alpha = 2
_BOTH, _ALONE = "prior and data both decide", "the prior alone decides"


def sensitivity(draws: Array, log_density: Array) -> Array:
    """Return the slope over log2 alpha, at alpha = 1, of the distance between each parameter's distributions with and without p^(alpha - 1).

    `draws` (S, k) come from the posterior, and `log_density` (S,) is log p of the scaled part at each draw; returns (k,).

    >>> z = np.random.default_rng(0).normal(size=(4000, 2))
    >>> bool(sensitivity(z, -2.0 * (z[:, 0] - 1.0) ** 2)[0] > 10 * sensitivity(z, -2.0 * (z[:, 0] - 1.0) ** 2)[1])
    True
    """
    from arviz_stats.base import array_stats

    h = 0.01  # of alpha, to both sides
    if not np.ptp(log_density) > 0:
        return np.zeros(draws.shape[1])
    values = draws.T[:, None]  # (parameter, chain, draw)
    lower, upper = (
        np.broadcast_to(
            np.exp(_log_weights(step * log_density, log_density)), values.shape
        )
        for step in (-h, h)
    )
    varied = np.ptp(draws, axis=0) > 0
    slopes = np.full(draws.shape[1], np.nan)
    slopes[varied] = array_stats.power_scale_sense(
        values[varied], lower[varied], upper[varied], 1.0 - h, 1.0 + h
    )
    return slopes


def _log_weights(log_w: Array, log_density: Array) -> Array:
    """Logarithms of importance weights (S,) up to a constant, with the largest ones Pareto-smoothed if there are enough of them."""
    if len(log_w) < FEWEST:
        return log_w - log_w.max()
    from arviz_stats.base import array_stats

    ess = array_stats.ess(log_density[None], method="tail", prob=(0.05, 0.95))
    efficiency = float(ess) / len(log_w)
    return leave_rows_out(
        -log_w[:, None], efficiency=efficiency, weights=True
    ).log_weights[0]


@check_arguments
def power_scaling(fit: Fit) -> DataFrame:
    """Sensitivity of each coefficient and nuisance parameter to the powers of prior and likelihood.

    Hyperparameters of a process are included; columns of smooth functions are left out. Only proper parts of the prior are
    scaled. It does not need the rows if the model has its moments.

    Parameters
    ----------
    fit : Fit
        A posterior.

    Returns
    -------
    DataFrame
        `prior` and `likelihood`, slopes as in `sensitivity`, and `reading`: "" if the prior has little effect, "the
        prior alone decides" if it changes the parameter and the data hardly do, "prior and data both decide" if both do.

    Raises
    ------
    Incompatible
        For a point estimate and for a model without a proper prior.

    Examples
    --------
    >>> import probreg as pr
    >>> model = pr.Model.from_arrays([1.0, 2.0, 3.0, 4.0], [1.1, 1.9, 3.2, 3.9], columns=["x"], aux={"sigma": 0.2})
    >>> power_scaling(pr.fit(model.with_prior(pr.Normal(0.02)), "conjugate")).loc["x", "reading"]
    'prior and data both decide'
    """
    import pandas as pd

    model = fit.model
    if fit.solution.draws is None:
        raise NotApplicable(
            f"power scaling needs draws of a posterior, and {fit.method.name} gives a mode; use laplace"
        )
    if not has_prior(fit):
        raise NotApplicable(
            "every prior of this model is flat or improper: there is no prior to scale"
        )
    draws = fit.solution.draws.flat
    design = model.design
    beta = draws["beta"]
    aux = {a: draws[a] for a in model.unknown}
    aux_and_hyper = aux | {
        name: draws[name]
        for names in needed_hyper(model).values()
        for name in names.values()
    }
    alone = np.repeat(
        ~design.of_terms[design.ungrouped],
        len(fit.parameter_names) // len(design.ungrouped),
    )
    reported = reported_coefficients(model, beta).reshape(len(beta), -1)[:, alone]
    values = np.column_stack([reported, *aux_and_hyper.values()])
    if not values.shape[1]:
        raise NotApplicable("every coefficient belongs to a smooth function")
    prior = sensitivity(values, log_prior_of_draws(model, draws, proper=True))
    likelihood = sensitivity(values, model.log_lik(beta, **aux))
    index = pd.Index(
        [*np.array(fit.parameter_names)[alone], *aux_and_hyper], name="parameter"
    )
    table = pd.DataFrame({"prior": prior, "likelihood": likelihood}, index=index)
    by_both = np.where(likelihood >= SENSITIVE, _BOTH, _ALONE)
    table["reading"] = np.where(prior < SENSITIVE, "", by_both).astype(object)
    return table


def has_prior(fit: Fit) -> bool:
    """Return whether some part of the prior is proper."""
    model = fit.model
    return any(b.prior.proper for b in model.joint.blocks) or any(
        model.aux_prior(a).proper for a in model.unknown
    )


@DIAGNOSTICS.register
class PowerScalingDiagnostic(Diagnostic):
    """Reports parameters with a sensitivity to the power of the prior of 0.05 or more, and whether they are also sensitive to the
    power of the likelihood (Kallioinen et al. 2024). `power_scaling(fit)` has the numbers; `prior_data_conflict` tests
    whether prior and data contradict each other."""

    name = "power_scaling"
    title = "Prior sensitivity"
    target = "posterior"
    rows = False
    picture = "plot.coefficients"

    def find(self, fit: Fit) -> list[Finding]:
        design = fit.model.design
        # moments are enough for least squares
        if not (design.has_rows or fit.model.likelihood.least_squares):
            raise NotApplicable(design.rows_absent)
        table = power_scaling(fit).sort_values("prior", ascending=False, kind="stable")
        hyper = {
            name
            for names in needed_hyper(fit.model).values()
            for name in names.values()
        }
        alone = table["reading"] == _ALONE
        governing = table.index.isin(list(hyper))
        findings = []
        for rows, verdict, meaning, remedy in (
            (
                table["reading"] == _BOTH,
                Verdict.NOTE,
                "prior and data both determine",
                "justify the prior, and report the result under a wider one too",
            ),
            (
                alone & ~governing,
                Verdict.WARNING,
                "the prior alone determines",
                "report it as an assumption, or collect data on it",
            ),
            (
                alone & governing,
                Verdict.NOTE,
                "the prior alone determines the hyperparameters",
                "justify their prior, and compare the function under another one",
            ),
        ):
            sensitive = table[rows]
            if len(sensitive):
                sentence = f"{meaning} {_list_parameters(sensitive)}"
                columns = [str(name) for name in sensitive.index]
                largest = sensitive["prior"].max()
                findings += self.report(
                    sentence, verdict, remedy, columns, statistic=largest
                )
        worst = float(table["prior"].max())
        sentence = (
            f"largest sensitivity to the prior {worst:.2g} (good below {SENSITIVE})"
        )
        return findings or self.report(sentence, statistic=worst)


def _list_parameters(table: Any) -> str:
    listed = [
        f"{name} ({row.prior:.2f}, {row.likelihood:.2f})"
        for name, row in table.iterrows()
    ]
    return f"{shorten_names(listed, 5)} (sensitivities to prior and data)"


def conflict(shift: Array, prior: Array, data: Array) -> float:
    """D^2 = d'(P + V)^-1 d for d = maximum likelihood estimate - prior mean, P the covariance of the prior and V the covariance of
    the estimate: chi-square on len(d) degrees of freedom if both are normal and the prior is right.

    >>> round(conflict(np.array([2.0]), np.array([[3.0]]), np.array([[1.0]])), 12)
    1.0
    """
    return float(shift @ np.linalg.solve(prior + data, shift))


@DIAGNOSTICS.register
class ConflictDiagnostic(Diagnostic):
    """Null: the coefficients with a proper prior are drawn from it. D^2 of `conflict` is then chi-square, or q F
    on the degrees of freedom of least squares: a prior predictive test of the estimate (Evans & Moshonov 2006), exact for
    Gaussian noise with sigma given or with priors in its units, otherwise for many rows."""

    name = "prior_data_conflict"
    title = "Prior-data conflict test"
    target = "posterior"
    picture = "plot.coefficients"

    def find(self, fit: Fit) -> list[Finding]:
        if not fit.model.joint.informative.any():
            raise NotApplicable("every prior of a coefficient is flat")
        if not fit.model.joint.gaussian:
            raise NotApplicable("the test is for normal priors; see power_scaling")
        model = fit.model
        alone = _data_alone(fit.model)
        if alone is None:
            return self.report("no test, because maximum likelihood does not exist")
        where = np.flatnonzero(model.joint.informative)
        m = model.shape[1]
        slots = vec_entries(where, m)
        default = alone.stats.get("sigma_unbiased", model.noise(alone.aux))
        sigma = model.noise(default=default)
        precision = model.joint.precision_of_entries(m, sigma)
        prior = np.linalg.inv(precision[np.ix_(slots, slots)])
        shift = (alone.beta - model.joint.center[:, None]).ravel()[slots]
        d2 = conflict(shift, prior, alone.scale.block(slots))
        q = len(slots)
        p = float(chdtrc(q, d2) if alone.df is None else fdtrc(q, alone.df, d2 / q))
        test = HypothesisTest(f"D2({q})", d2, p)
        standardised = np.abs(shift) / np.sqrt(np.diagonal(prior))
        name = model.design.columns[where[int(standardised.argmax()) // m]]
        details = f"; the estimate from the data of {name} is {standardised.max():.2g} prior standard deviations from the prior's centre"
        remedy = "check units, coding and rows, then use a wider prior"
        accepted = "no sign of a conflict"
        rejected = "prior and data contradict each other"
        return self.report_test(test, accepted, rejected, remedy, details)


def _data_alone(model: Model) -> Solution | None:
    """Return the maximum likelihood estimate, None if it does not exist."""
    flat = replace(model, prior=Flat(), aux=model.fixed)
    try:
        solution = Auto().solve(flat, np.random.default_rng(0))
    except ProbregError:
        return None
    usable = solution.status.good and not (
        solution.not_estimable is not None and solution.not_estimable.any()
    )
    if usable and np.isfinite(solution.scale.diagonal()).all():
        return solution
    return None
