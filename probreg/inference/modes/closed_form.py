"""Least squares and ridge in one triangular solve."""

from dataclasses import dataclass

import numpy as np

from probreg.errors import Incompatible
from probreg.inference.base import METHODS, Array, Method, Solution, Status, kinds, sigma_note
from probreg.inference.modes.linear import (
    Conditional,
    PriorRows,
    combinations,
    posterior_given_sigma,
    refined,
    touched,
    unidentified,
)
from probreg.inference.modes.wide import rotated
from probreg.likelihoods import Gaussian
from probreg.model.model import Model
from probreg.priors import GaussianPrior

SIGMA_FREE = "closed_form with a normal prior needs sigma: its mode moves with sigma. Hold it (aux={'sigma': ...}), state the prior in units of sigma (Normal(..., sigma_units=True)), or use newton, which finds the joint mode of beta and log sigma"


@METHODS.register
@dataclass(frozen=True)
class ClosedForm(Method):
    """The mode argmin ||y - X beta||^2 + (beta - b)'P(beta - b) by QR: Gaussian likelihood, flat or normal priors.

    With flat priors this is least squares. sigma is then estimated by maximum likelihood, sqrt(RSS/n), and standard
    errors use the unbiased sqrt(RSS/(n - rank)) with n - rank degrees of freedom; both are reported. With a normal
    prior sigma has to be given, or to scale the prior: its joint mode over log sigma is sqrt((RSS + penalty)/(n + q)).
    Columns that are combinations of others have the coefficients of least norm; those involved are marked as not
    identified.

    Examples
    --------
    >>> from probreg.model.model import Model
    >>> model = Model.from_arrays([[0.0], [1.0], [2.0]], [1.0, 3.0, 6.0], columns=["x"])
    >>> found = ClosedForm().solve(model, np.random.default_rng(0))
    >>> found.beta[:, 0].round(6), round(found.stats["rss"], 6)
    (array([0.833333, 2.5     ]), 0.166667)
    """

    name = "closed_form"
    pseudo = True
    likelihood = Gaussian
    prior = GaussianPrior

    def obstacle(self, model: Model) -> str | None:
        if why := kinds(self, model):
            return why
        if model.unknown and (model.joint.informative & ~model.joint.sigma_units).any():
            return SIGMA_FREE
        if model.unknown and model.noise_prior.name != "reference":
            return f"closed_form estimates sigma under p(sigma) ∝ 1/sigma only, and this model has {model.noise_prior.name}; use newton"
        return None

    def solve(self, model: Model, rng: np.random.Generator) -> Solution:
        wide = rotated(model)
        model, unseen = (model, 0) if wide is None else (wide.model, wide.unseen)
        moments, prior = model.design.moments, PriorRows.of(model.joint)
        size = (
            prior.size + unseen
        )  # those that no row sees are at their centre: they add to the count, not to the penalty
        sigma = model.noise()
        given = refined(posterior_given_sigma(moments, prior, sigma), model.design, prior, sigma)
        beta, unscaled, N = _coefficients(given, moments.p)
        rank = given.rank.rank
        # With no prior rows the moments' own RSS also counts what deficient columns left behind.
        rss = given.rss if prior.size or given.exact is not None else moments.rss
        n, df = moments.weight, moments.weight - rank if not prior.size else None
        # d/d log sigma of -(n + q) log sigma - (RSS + penalty) / (2 sigma^2) vanishes at sigma^2 = (RSS + penalty) / (n
        # + q).
        ml = float(np.sqrt(rss / (n + size)))
        unbiased = float(np.sqrt(rss / df)) if df and df > 0 else np.nan
        error = sigma if not model.unknown else (ml if prior.size else unbiased)
        stats = {
            "n": n,
            "rank": float(rank + unseen),
            "rss": moments.rss if prior.size else rss,
            "sigma_unbiased": unbiased,
        }
        how = f"sigma is the joint mode sqrt((RSS + penalty)/(n + {size})) = {ml:.6g}"
        if not prior.size:
            errors = f"standard errors use the unbiased sqrt(RSS/(n - {rank})) = {unbiased:.6g}"
            none = "there are no standard errors, since no degrees of freedom are left"
            how = f"sigma is the maximum likelihood estimate sqrt(RSS/n) = {ml:.6g}; {errors if df else none}"
        deficient = bool(given.rank.dropped)
        found = Solution(
            beta=beta[:, None],
            scale=error**2 * unscaled,
            aux={model.noise_scale: ml} if model.unknown else {},
            # -d^2 / d (log sigma)^2 = 2 (n + q) there, and sd(sigma) = sigma sd(log sigma).
            aux_sd={model.noise_scale: ml / np.sqrt(2.0 * (n + size))} if model.unknown else {},
            df=df if model.unknown else None,
            status=Status.NOT_IDENTIFIED if deficient else Status.EXACT,
            detail=combinations(given.rank, model.design.columns) if deficient else "",
            not_estimable=touched(N)[:, None] if deficient else None,
            null_space=N if deficient else None,
            stats={k: v for k, v in stats.items() if not np.isnan(v)},
            notes=sigma_note(model, how),
        )
        return found if wide is None else wide.back(found, error if wide.relative else 1.0)


def _coefficients(given: Conditional, p: int) -> tuple[Array, Array, Array]:
    """Coefficients of least norm, their covariance at sigma = 1, and the directions (p, k) that are not identified."""
    rank = given.rank
    if not rank.dropped:
        return given.mean, given.unscaled, np.zeros((p, 0))
    kept = list(rank.kept)
    # The kept columns of the triangular factor, reduced once more, are the model without the dropped columns.
    F = np.linalg.qr(np.asarray(given.factor, dtype=float)[:, [*kept, p]], mode="r")
    part = Conditional(F[: len(kept) + 1, : len(kept) + 1])
    beta, cov = np.zeros(p), np.zeros((p, p))
    beta[kept], cov[np.ix_(kept, kept)] = part.mean, part.unscaled
    N = unidentified(rank, p)
    # (1 - N N^+) beta is the member of least norm, with covariance (1 - N N^+) V (1 - N N^+)'.
    project = np.eye(p) - N @ np.linalg.pinv(N)
    return project @ beta, project @ cov @ project.T, N


def require_full_rank(given: Conditional, model: Model, method: str) -> None:
    """Incompatible when the posterior is improper for want of identified columns."""
    if given.rank.dropped:
        raise Incompatible(
            f"{method}: the posterior is improper, because columns are not identified: "
            f"{combinations(given.rank, model.design.columns)}. Drop one, or give these columns a proper prior."
        )
