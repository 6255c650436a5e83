"""Hypotheses on coefficients under a posterior: probabilities of inequalities, credible levels and Bayes factors of equalities."""

import numpy as np
from scipy.special import chdtr, fdtr, logsumexp

from probreg.comparison.hypotheses.restricted import (
    Belief,
    Hypothesis,
    describe_null,
    independent,
    over_own,
    restriction_table,
)
from probreg.errors import Incompatible
from probreg.fits.fit import Fit
from probreg.fits.inference_data import coefficient_draws
from probreg.fits.prediction import closed_error
from probreg.formula.hypothesis import Restriction, matrix
from probreg.inference.base import has_exact_law, reported_marginals
from probreg.inference.exact.quadrature import (
    NormalsGivenSigma,
    predictors_given_sigma,
)
from probreg.inference.uncertainty.intervals.arithmetic import (
    equal_tail,
    mean_and_sd,
    quantile,
    student_cdf,
)
from probreg.inference.uncertainty.intervals.marginals import (
    above_zero,
    of_coefficients,
)
from probreg.linalg import triangular_log_det

Array = np.ndarray


def _elliptical(fit: Fit, L: Array) -> tuple[Array, Array]:
    """Centre (q,) and scale (q,) of combinations that are Student-t or normal by a formula."""
    internal = over_own(fit, L)
    s = fit.solution
    return internal @ s.beta.ravel(), np.linalg.norm(s.scale.half(internal), axis=1)


def _mixtures(fit: Fit, L: Array) -> dict[str, Array] | None:
    """Weight (K,), mean (K, q) and sd (K, q) of combinations that are mixtures of normals over nodes; None for others."""
    marginals = reported_marginals(fit.model, fit.solution.posterior)
    if marginals is None:
        return None
    weight = marginals["weight"]
    if (np.count_nonzero(L, axis=1) == 1).all():
        mean, sd = (marginals[k].reshape(len(weight), -1) for k in ("mean", "sd"))
        return {"weight": weight, "mean": mean @ L.T, "sd": sd @ np.abs(L).T}
    conditional = _given_sigma(fit, over_own(fit, L))
    if conditional is None:
        return None
    return {"weight": weight, "mean": conditional.mean, "sd": conditional.sd}


def _given_sigma(fit: Fit, internal: Array) -> NormalsGivenSigma | None:
    """Return combinations at the nodes of sigma, where they are normal; None for other posteriors."""
    marginals = reported_marginals(fit.model, fit.solution.posterior) or {}
    if "log_sigma" not in marginals or fit.model.design.recipe.processes:
        return None
    return predictors_given_sigma(fit.model, internal, np.exp(marginals["log_sigma"]))


def described_combinations(fit: Fit, L: Array, prob: float) -> dict[str, Array]:
    """Mean, standard deviation and equal-tailed interval of each row of L beta: by formula if there is one, otherwise from draws."""
    s = fit.solution
    if s.posterior.elliptical:
        value, scale = _elliptical(fit, L)
        half = quantile(prob, s.df) * scale
        return {
            "estimate": value,
            "sd": closed_error(scale, s.df, posterior=True),
            "lower": value - half,
            "upper": value + half,
        }
    m = _mixtures(fit, L)
    if m is not None:
        value = m["weight"] @ m["mean"]
        sd = np.sqrt(m["weight"] @ (np.square(m["sd"]) + np.square(m["mean"] - value)))
        lower, upper = of_coefficients(m, prob, "eti")
    else:
        theta = combinations_drawn(fit, L).reshape(-1, len(L))
        value, sd = mean_and_sd(theta)
        lower, upper = equal_tail(theta, prob)
    return {"estimate": value, "sd": sd, "lower": lower, "upper": upper}


def _above(fit: Fit, L: Array, r: Array, sign: float) -> tuple[float, str] | None:
    """P(sign (L beta - r) > 0) of one row by formula, and the method; None if there are only draws."""
    s = fit.solution
    if s.posterior.elliptical:
        value, scale = _elliptical(fit, L)
        t = sign * (value - r) / scale
        how = (
            "exact"
            if has_exact_law(fit.model, fit.solution)
            else "of the normal posterior"
        )
        return float(student_cdf(t, s.df)[0]), how
    m = _mixtures(fit, L)
    if m is None:
        return None
    z = sign * (m["mean"][:, 0] - r[0]) / m["sd"][:, 0]
    return float(above_zero(m["weight"], z)), "exact"


def combinations_drawn(fit: Fit, L: Array) -> Array:
    """L beta of the reported coefficients, draw by draw, (chain, draw, q)."""
    return coefficient_draws(fit) @ L.T


def probability_of_inequalities(fit: Fit, L: Array, r: Array, sign: Array) -> Belief:
    """P(sign (L beta - r) > 0 for all rows)."""
    closed = _above(fit, L, r, float(sign[0])) if len(r) == 1 else None
    if closed is not None:
        return Belief("P(hypothesis)", closed[0], 0.0, closed[1])
    return share_of_draws(((combinations_drawn(fit, L) - r) * sign > 0).all(-1))


def share_of_draws(holds: Array) -> Belief:
    """The probability of a hypothesis, from whether it is true in each of the draws (chain, draw)."""
    how = f"share of {holds.size} draws"
    return Belief("P(hypothesis)", float(holds.mean()), error_of_draws(holds), how)


def level_of_equalities(fit: Fit, L: Array, r: Array) -> Belief:
    """Return the level of the smallest credible region, of the usual shape, that contains L beta = r.

    For one restriction it is the equal-tailed interval that ends at r. For several it is the ellipse of the posterior covariance
    through r, with the share of draws inside as its level. With a Student-t posterior by formula both are exact, and with a flat
    prior 1 - level is the p-value of the F test.
    """
    s = fit.solution
    q = len(r)
    name = "credible level that reaches the null"
    if has_exact_law(fit.model, fit.solution):
        internal = over_own(fit, L)
        gap = internal @ s.beta.ravel() - r
        W = s.scale.wald(internal, gap)
        level = float(chdtr(q, W) if s.df is None else fdtr(q, s.df, W / q))
        return Belief(name, level, 0.0, "exact, the region of highest density")
    closed = _above(fit, L, r, 1.0) if q == 1 else None
    if closed is not None:
        level = abs(1.0 - 2.0 * closed[0])
        return Belief(name, level, 0.0, f"equal-tailed interval, {closed[1]}")
    theta = combinations_drawn(fit, L)
    if q == 1:
        above = theta[..., 0] > r[0]
        level = abs(1.0 - 2.0 * float(above.mean()))
        how = f"equal-tailed interval, from {above.size} draws"
        return Belief(name, level, 2.0 * error_of_draws(above), how)
    flat = theta.reshape(-1, q)
    centre = flat.mean(0)
    if len(flat) <= q:
        raise Incompatible(
            f"the credible level of {q} restrictions needs more than {q} draws, got {len(flat)}: fit with more draws"
        )
    V = np.cov(flat.T)
    reach = float((centre - r) @ np.linalg.solve(V, centre - r))
    inside = (((theta - centre) @ np.linalg.inv(V)) * (theta - centre)).sum(-1) < reach
    how = f"ellipse of the posterior covariance, from {inside.size} draws"
    return Belief(name, float(inside.mean()), error_of_draws(inside), how)


def error_of_draws(values: Array) -> float:
    """Standard error of a share of draws (chain, draw), by their effective sample size; a bound if all draws are equal."""
    from arviz_stats.base import array_stats

    p = float(values.mean())
    if p in (0.0, 1.0):
        return 1.0 / values.size
    ess = array_stats.ess(values.astype(float), method="mean")
    return float(np.sqrt(p * (1.0 - p) / ess))


# ---- the Bayes factor of an equality -----------------------------------------------------------------------------------


def savage_dickey(fit: Fit, L: Array, r: Array) -> float | None:
    """Return the log Bayes factor of the equality L beta = r against the unrestricted model; None unless it is known exactly.

    Given sigma it is the ratio p(L beta = r | y, sigma) / p(L beta = r | sigma) (Dickey 1971). The mean of this ratio over sigma
    given y is the ratio of the evidences of the two models under the same prior of sigma.
    """
    model = fit.model
    joint = model.joint
    s = fit.solution
    if not model.likelihood.least_squares or not joint.gaussian:
        return None
    involved = np.abs(L).max(0) > 0
    if not joint.informative[involved].all():
        return None
    is_exact_law = has_exact_law(model, s)
    if is_exact_law and s.df is not None:
        # the priors are in units of sigma, and sigma^2 given y is InverseGamma(a, b)
        unit = s.stats["sigma2_scale"]
        a, b = s.df / 2.0, s.df / 2.0 * unit
        after, root = _distance(r, L @ s.beta.ravel(), s.scale.half(L) / unit**0.5)
        prior_half = _prior_half(fit, L, np.ones(1))[0]
        before, prior_root = _distance(r, L @ joint.center, prior_half)
        return float(prior_root - root - a * np.log1p((after - before) / (2.0 * b)))
    if is_exact_law:
        weight, sigma = np.ones(1), np.array([model.noise()])
        centre, half = (L @ s.beta.ravel())[None], s.scale.half(L)[None]
    else:
        conditional = _given_sigma(fit, L)
        if conditional is None:
            return None
        marginals = s.posterior.marginals or {}
        weight, sigma = marginals["weight"], np.exp(marginals["log_sigma"])
        centre, half = conditional.mean, conditional.half
    after, root = _distance(r, centre, half)
    prior_half = _prior_half(fit, L, sigma)
    before, prior_root = _distance(r, L @ joint.center, prior_half)
    ratio = prior_root - root - 0.5 * (after - before)
    return float(logsumexp(ratio, b=weight))


def _prior_half(fit: Fit, L: Array, sigma: Array) -> Array:
    """Return F (S, q, k) with F F' the covariance of L beta under the prior given each sigma (S,)."""
    joint = fit.model.joint
    informative = np.flatnonzero(joint.informative)
    precision = joint.precision(1.0)[np.ix_(informative, informative)]
    scale = np.where(joint.sigma_units[informative], sigma[:, None], 1.0)
    root = np.linalg.cholesky(np.linalg.inv(precision))
    return (L[:, informative] * scale[:, None]) @ root


def _distance(x: Array, centre: Array, half: Array) -> tuple[Array, Array]:
    """Return W = (x - centre)' S^-1 (x - centre) and log det(S) / 2, with S = half half', of centres (..., q) and halves (..., q, k)."""
    R = np.linalg.qr(half.mT, mode="r")
    d = np.broadcast_to(x - centre, R.shape[:-1])[..., None]
    return np.square(np.linalg.solve(R.mT, d)).sum((-1, -2)), triangular_log_det(R)


def posterior_hypothesis(
    fit: Fit, text: str, read: list[Restriction], *, prob: float
) -> Hypothesis:
    L, r = matrix(read, len(fit.parameter_names))
    estimates = restriction_table(fit, read, described_combinations(fit, L, prob))
    if read[0].relation != "=":
        sign = np.array(
            [1.0 if restriction.relation == ">" else -1.0 for restriction in read]
        )
        beliefs = (probability_of_inequalities(fit, L, r, sign),)
        return Hypothesis(text, describe_null(fit, read), estimates, {}, beliefs)
    D = over_own(fit, np.eye(L.shape[1]))
    internal = independent(L @ D, r)
    mapped = internal.L @ np.linalg.pinv(D)
    note = "an equality has posterior probability zero; what is given is how wide a credible region must be to reach it"
    belief = level_of_equalities(fit, mapped, internal.r)
    return Hypothesis(
        text,
        describe_null(fit, read),
        estimates,
        {},
        (belief,),
        savage_dickey(fit, internal.L, internal.r),
        (note,),
    )
