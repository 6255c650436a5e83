"""Bounds by the number of columns, and PAC-Bayes bounds for draws around the estimate."""

from dataclasses import replace

import numpy as np

from probreg.data.rows import plus_offset
from probreg.diagnostics.findings import NotApplicable
from probreg.diagnostics.guarantee.judged import (
    BoundLine,
    Judged,
    flat_columns,
    relative_prior,
    scale_name,
)
from probreg.inference.covariance import ParameterCovariance
from probreg.likelihoods.links import IDENTITY
from probreg.linalg import factor_of
from probreg.scores.bounds import pac_bayes, pseudo_dimension

DRAWS = "PAC-Bayes, the mean risk of draws"
_NUMBERS = 2_000_000  # predictions held at once
_OF_DRAWS = "it is for predictions of draws and, for a convex loss, their mean; not for the fit itself"
_MOST = 2000  # coefficients of a normal distribution


def dimension_lines(judged: Judged) -> list[BoundLine]:
    """Return the bounds by pseudo-dimension: p for x'beta over p columns, and for any increasing function of it."""
    design = judged.design
    recipe = design.recipe
    likelihood = judged.fit.model.likelihood
    p = len(design.columns)
    if likelihood.width > 1:
        raise NotApplicable("a row has several linear predictors")
    if judged.fit.target != "mode" and likelihood.link is not IDENTITY:
        raise NotApplicable(
            "a posterior mean under a nonlinear link is not a function of one linear predictor"
        )
    if recipe.learned or any(t.basis.holds_rows for t in recipe.processes.values()):
        raise NotApplicable(
            "columns of smooth functions and processes depend on these rows, and so does the class"
        )
    if judged.n < p:
        raise NotApplicable(f"fewer rows ({judged.n}) than columns ({p})")
    lines = []
    for loss in judged.losses:
        # the call of a class by a threshold has the dimension of the predictor itself
        bound = pseudo_dimension(
            risk=judged.risk(loss),
            n=judged.n,
            dimension=p,
            delta=judged.delta,
            most=loss.most,
            of="predictions" if loss.of_probabilities else "loss",
        )
        bound = replace(bound, theorem=f"pseudo-dimension {p}")
        note = "it holds for any choice of the prior"
        lines.append(BoundLine(bound.theorem, loss.name, bound, notes=(note,)))
    return lines


def draw_lines(judged: Judged) -> list[BoundLine]:
    """PAC-Bayes for rho the normal distribution with the estimate and covariance of the fit, pi the prior."""
    require_stated_prior(judged)
    model = judged.fit.model
    s = judged.fit.solution
    m = model.shape[1]
    P = model.joint.precision_of_entries(m, float(model.noise(judged.fit.aux)))
    S = s.covariance
    shift = s.beta.ravel() - np.repeat(model.joint.center, m)
    # KL(N(b, S) || N(c, P^-1)) = [tr(P S) + (b - c)'P (b - c) - k - log|P| - log|S|] / 2
    sign, log_det_P = np.linalg.slogdet(P)
    log_det = S.log_det()
    if not (sign > 0 and np.isfinite(log_det)):
        raise NotApplicable("the covariance of the estimate is singular")
    twice = (
        np.sum(P * S.matrix()) + shift @ P @ shift - len(shift) - log_det_P - log_det
    )
    divergence = max(0.0, 0.5 * float(twice))
    note = f"KL = {divergence:.4g}; {judged.draws} draws of N(estimate, covariance), which use half of delta"
    lines = []
    for loss, risk in zip(judged.losses, _risks_of_draws(judged, S)):
        bound = pac_bayes(
            risk=risk,
            n=judged.n,
            divergence=divergence,
            delta=judged.share,
            most=loss.most,
            draws=judged.draws,
        )
        lines.append(judged.line(DRAWS, loss, bound, note, _OF_DRAWS))
    return lines


def require_stated_prior(judged: Judged) -> None:
    """Raise NotApplicable without a finite divergence from a prior that was fixed before the rows."""
    fit = judged.fit
    model = fit.model
    joint = model.joint
    ratios = fit.solution.stats.get("ratios_found")
    learned = ", ".join(judged.design.recipe.learned)
    flat = flat_columns(fit)
    if flat:
        raise NotApplicable(f"the divergence from the flat prior of {flat} is infinite")
    if not (joint.gaussian and joint.proper) or relative_prior(fit):
        raise NotApplicable("the prior is not a normal one on the raw columns")
    if ratios or judged.chosen_from is None:
        raise NotApplicable(
            "the scale of the prior was estimated on these rows: fix it, or give the size of a grid as chosen_from="
        )
    name = scale_name(model.likelihood)
    in_units = joint.sigma_units.any() or model.likelihood.insensitive is not None
    if (joint.sigma_units.any() and name in model.unknown) or (
        in_units and ratios is not None
    ):
        raise NotApplicable(
            f"the prior is in units of {name}, which was estimated on these rows: fix it"
        )
    if learned:
        raise NotApplicable(
            f"the columns of {learned} depend on these rows, and so does the prior"
        )
    if fit.solution.beta.size > _MOST:
        raise NotApplicable(
            f"{fit.solution.beta.size} coefficients, and the limit is {_MOST}"
        )


def _risks_of_draws(judged: Judged, S: ParameterCovariance) -> list[float]:
    """The mean loss on the rows of independent draws beta ~ N(estimate, S), for each loss."""
    fit = judged.fit
    design = judged.design
    lik = judged.fit.model.likelihood
    p, m = fit.model.shape
    # a lower triangular root, so that a seed gives the same draws in any coordinates
    L = np.asarray(factor_of(S.raw_root()[: S.coefficients].T)).T
    rng = np.random.default_rng([judged.seed, 1])
    size = max(1, _NUMBERS // (design.n * m))
    total = np.zeros(len(judged.losses))
    for start in range(0, judged.draws, size):
        count = min(size, judged.draws - start)
        z = rng.standard_normal((count, p * m))
        beta = (fit.solution.beta.ravel() + z @ L.T).reshape(count, p, m)
        eta = np.einsum("np,spm->snm", design.X, beta, optimize=True)
        h = lik.mean(
            plus_offset(eta, design.offset), **fit.aux, **fit.model.given(design)
        )
        losses = [loss.function(h, judged.response) for loss in judged.losses]
        total += [float(values.mean(-1).sum()) for values in losses]
    return list(total / judged.draws)
