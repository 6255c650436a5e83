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
from probreg.inference.base import reported_marginals
from probreg.inference.exact.quadrature import (
    NormalsGivenSigma,
    log_mean_over,
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
from probreg.special import student_log_density

Array = np.ndarray


def has_exact_law(fit: Fit) -> bool:
    """Return whether linear combinations of the coefficients are Student-t or normal by a formula."""
    return fit.model.likelihood.least_squares and fit.solution.posterior.elliptical


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
        how = "exact" if has_exact_law(fit) else "of the normal posterior"
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
    """The level of the smallest credible region, of the usual shape, that reaches L beta = r.

    One restriction: the equal-tailed interval that ends there. Several: the ellipse of the posterior covariance through it,
    its level the share of draws inside. With a Student-t posterior by formula both are exact, and 1 - level is then the p
    value of the F test when the prior is flat.
    """
    s = fit.solution
    q = len(r)
    name = "credible level that reaches the null"
    if has_exact_law(fit):
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
    """Return the log Bayes factor of an equality against the unrestricted model, log p(L beta = r | y) - log p(L beta = r).

    It is None unless both densities are known exactly (Dickey 1971). The restricted model has the prior of the
    other parameters given L beta = r."""
    model = fit.model
    s = fit.solution
    if not model.likelihood.least_squares or not model.joint.gaussian:
        return None
    involved = np.abs(L).max(0) > 0
    informative = np.flatnonzero(model.joint.informative)
    if not set(np.flatnonzero(involved)) <= set(informative):
        return None
    if has_exact_law(fit):
        after = _log_density(r, L @ s.beta.ravel(), s.scale.half(L), s.df)
    else:
        conditional = _given_sigma(fit, L)
        if conditional is None:
            return None
        at_nodes = _log_density(r, conditional.mean, conditional.half, None)
        weight = (s.posterior.marginals or {})["weight"]
        after = logsumexp(at_nodes, b=weight)
    before = _log_prior_density(fit, L, r)
    return None if before is None else float(after - before)


def _log_prior_density(fit: Fit, L: Array, r: Array) -> float | None:
    """Return log p(L beta = r) under the prior, integrated over sigma if the prior is in its units; None if it is not finite."""
    model = fit.model
    joint = model.joint
    informative = np.flatnonzero(model.joint.informative)
    centre = L @ joint.center
    root = np.linalg.cholesky(
        np.linalg.inv(joint.precision(1.0)[np.ix_(informative, informative)])
    )

    def conditional_log_density(u: Array) -> Array:
        """Return log p(L beta = r | sigma) at each log sigma."""
        scale = np.where(joint.sigma_units[informative], np.exp(u)[:, None], 1.0)
        return _log_density(
            r, centre, (L[:, informative] * scale[:, None, :]) @ root, None
        )

    in_units = joint.sigma_units[np.abs(L).max(0) > 0].any()
    if not in_units or not model.unknown:
        log_sigma = np.log(model.noise()) if in_units else 0.0
        return float(conditional_log_density(np.array([log_sigma]))[0])
    sigma = model.noise_prior
    if sigma.proper:
        return log_mean_over(sigma, conditional_log_density)
    return None


def _log_density(x: Array, centre: Array, half: Array, df: float | None) -> Array:
    """Return the log density at x (q,) of a normal, or of a Student t with df degrees of freedom, with scale matrix half half', of
    centres (..., q) and halves (..., q, k)."""
    q = len(x)
    d = x - centre
    R = np.linalg.qr(half.mT, mode="r")
    W = np.square(
        np.linalg.solve(R.mT, np.broadcast_to(d, R.shape[:-1])[..., None])
    ).sum((-1, -2))
    root = triangular_log_det(R)
    return student_log_density(W, q, np.inf if df is None else df) - root


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
