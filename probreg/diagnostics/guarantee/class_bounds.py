"""Bounds by the number of columns, and PAC-Bayes bounds for draws around the estimate."""

from dataclasses import replace

import numpy as np

from probreg.data.rows import plus_offset
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
from probreg.scores.bounds.classes import Of

_NUMBERS = 2_000_000  # predictions held at once
_OF_DRAWS = "it is for predictions of draws and, for a convex loss, their mean; not for the fit itself"
_MOST = 2000  # coefficients of a normal distribution


def dimension_lines(judged: Judged) -> list[BoundLine]:
    """Return the bounds by pseudo-dimension: p for x'beta over p columns, and for any increasing function of it."""
    design = judged.design
    p = len(design.columns)
    name = "pseudo-dimension"
    reason = None
    if judged.fit.model.likelihood.width > 1:
        reason = "a row has several linear predictors"
    elif (
        judged.fit.target != "mode" and judged.fit.model.likelihood.link is not IDENTITY
    ):
        reason = "a posterior mean under a nonlinear link is not a function of one linear predictor"
    elif design.recipe.learned or any(
        t.basis.holds_rows for t in design.recipe.processes.values()
    ):
        reason = "columns of smooth functions and processes depend on these rows, and so does the class"
    elif judged.n < p:
        reason = f"fewer rows ({judged.n}) than columns ({p})"
    if reason is not None:
        return [BoundLine(name, judged.losses[0].name, None, reason)]
    lines = []
    for loss in judged.losses:
        # the call of a class by a threshold has the dimension of the predictor itself
        bounded: Of = "predictions" if loss.of_probabilities else "loss"
        bound = pseudo_dimension(
            risk=judged.risk(loss),
            n=judged.n,
            dimension=p,
            delta=judged.delta,
            most=loss.most,
            of=bounded,
        )
        bound = replace(bound, theorem=f"{name} {p}")
        lines.append(
            BoundLine(
                bound.theorem,
                loss.name,
                bound,
                notes=("it holds for any choice of the prior",),
            )
        )
    return lines


def draw_lines(judged: Judged) -> list[BoundLine]:
    """PAC-Bayes for rho the normal distribution with the estimate and covariance of the fit, pi the prior."""
    reason = draws_obstacle(judged)
    name = "PAC-Bayes, the mean risk of draws"
    if reason is not None:
        return [BoundLine(name, judged.losses[0].name, None, reason)]
    model = judged.fit.model
    s = judged.fit.solution
    m = model.shape[1]
    P = model.joint.precision_of_entries(m, float(model.noise(judged.fit.aux)))
    S = s.covariance
    offset_from_center = s.beta.ravel() - np.repeat(model.joint.center, m)
    # KL(N(b, S) || N(c, P^-1)) = [tr(P S) + (b - c)'P (b - c) - k - log|P| - log|S|] / 2
    (sign, log_det_P), log_det = np.linalg.slogdet(P), S.log_det()
    if not (sign > 0 and np.isfinite(log_det)):
        return [
            BoundLine(
                name,
                judged.losses[0].name,
                None,
                "the covariance of the estimate is singular",
            )
        ]
    divergence = max(
        0.0,
        0.5
        * float(
            np.sum(P * S.matrix())
            + offset_from_center @ P @ offset_from_center
            - len(offset_from_center)
            - log_det_P
            - log_det
        ),
    )
    risks = _risks_of_draws(judged, S)
    lines = []
    for loss, risk in zip(judged.losses, risks):
        bound = pac_bayes(
            risk=risk,
            n=judged.n,
            divergence=divergence,
            delta=judged.share,
            most=loss.most,
            draws=judged.draws,
        )
        note = f"KL = {divergence:.4g}; {judged.draws} draws of N(estimate, covariance), which use half of delta"
        lines.append(
            BoundLine(
                name, loss.name, bound, notes=(note, _OF_DRAWS, *judged.selection_cost)
            )
        )
    return lines


def draws_obstacle(judged: Judged) -> str | None:
    """Return why there is no finite divergence from a prior that was fixed before the rows, or None."""
    fit = judged.fit
    model = fit.model
    joint = fit.model.joint
    ratios = fit.solution.stats.get("ratios_found")
    flat = flat_columns(fit)
    if flat:
        return f"the divergence from the flat prior of {flat} is infinite"
    if not (joint.gaussian and joint.proper) or relative_prior(fit):
        return "the prior is not a normal one on the raw columns"
    if ratios or judged.chosen_from is None:
        return "the scale of the prior was estimated on these rows: fix it, or give the size of a grid as chosen_from="
    name = scale_name(model.likelihood)
    in_units = joint.sigma_units.any() or model.likelihood.insensitive is not None
    if (joint.sigma_units.any() and name in model.unknown) or (
        in_units and ratios is not None
    ):
        return f"the prior is in units of {name}, which was estimated on these rows: fix it"
    if judged.design.recipe.learned:
        return f"the columns of {', '.join(judged.design.recipe.learned)} depend on these rows, and so does the prior"
    if fit.solution.beta.size > _MOST:
        return f"{fit.solution.beta.size} coefficients, and the limit is {_MOST}"
    return None


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
    remaining = judged.draws
    total = np.zeros(len(judged.losses))
    while remaining:
        count = min(remaining, size)
        beta = (
            fit.solution.beta.ravel() + rng.standard_normal((count, p * m)) @ L.T
        ).reshape(count, p, m)
        eta = plus_offset(
            np.einsum("np,spm->snm", design.X, beta, optimize=True), design.offset
        )
        h = lik.mean(eta, **fit.aux, **fit.model.given(design))
        total += [
            float(loss.function(h, judged.response).mean(-1).sum())
            for loss in judged.losses
        ]
        remaining -= count
    return list(total / judged.draws)
