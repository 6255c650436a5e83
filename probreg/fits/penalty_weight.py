"""Modes at a penalty weight lam, or in a ball of given radius, by the prior with that mode.

The mode minimises D + lam R(b) over the penalised coefficients b, with D = RSS of a Gaussian model and D = -2 log L of others:
-log p = w R(b) + constant with w = lam / (2 sigma^2) or w = lam / 2. The least D in the ball R(b) <= r is the mode at the lam
with R(b) = r, or maximum likelihood if that is in the ball (Lagrange duality: R is convex, and R at the mode falls as lam grows).
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from probreg.errors import Incompatible, NotConverged, ProbregWarning
from probreg.fits.fit import Fit, fit
from probreg.inference.notes import Topic, important_note
from probreg.inference.penalized.ridge_modes import RidgeModes
from probreg.model.model import Model
from probreg.priors import Reference

Array = np.ndarray


@dataclass(frozen=True)
class Penalty:
    """R(b) = ratio |b|_q^q + (1 - ratio) |b|_2^2 / 2, and for each w the prior with -log p(b) = w R(b) + constant.

    `name` is the name of R^(1/q): the norm |b|_q if the ratio is 1.
    """

    name: str
    q: float
    prior: Callable[[float], Any]
    ratio: float = 1.0

    def norm(self, unit: Model, beta: Array) -> float:
        """R^(1/q) of the coefficients of a model under the prior of scale 1."""
        if unit.joint.contrast is not None:
            beta = unit.joint.scores(beta)
        R = 0.0
        for block in unit.joint.blocks:
            if block.stated:
                prior: Any = block.prior
                b = prior.standardise(beta[list(block.columns)])[0]
                R += self.ratio * np.sum(np.abs(b) ** self.q)
                R += (1.0 - self.ratio) * np.sum(b**2) / 2.0
        return float(R ** (1.0 / self.q))

    def fit_at(self, model: Model, lam: float, sigma: float = 1.0) -> Fit:
        """Fit under the prior of lam, which is in units of this sigma if the model is Gaussian."""
        prior = self.prior(lam / (2.0 * sigma**2))
        units = model.likelihood.least_squares
        return fit(
            model.with_prior(
                replace(prior, scale=prior.scale / sigma, sigma_units=units)
            )
        )


def fit_penalised(
    model: Model, penalty: Penalty, scale: Any, lam: float | None, radius: float | None
) -> Fit:
    """Fit a model that states the scale of its prior, or the same model at lam or in the ball."""
    name = only_one(scale=scale, lam=lam, radius=radius)
    if scale is not None:
        return fit(model)
    if model.joint.sigma_units.any() or model.design.recipe.terms:
        raise Incompatible(
            f"{name}= is for models without sigma_units=, smooth functions and random effects: use scale="
        )
    least_squares = model.likelihood.least_squares
    unit = model
    if least_squares:
        # the coefficients at lam are the same for every sigma
        prior = replace(model.prior, sigma_units=True)  # type: ignore[type-var]
        unit = model.with_prior(prior).with_aux(**{model.noise_scale: 1.0})
    if lam is None:
        assert radius is not None
        with warnings.catch_warnings(action="ignore", category=ProbregWarning):
            fitted = fit(model.with_prior({}))
            identified = fitted.solution.status.good
            lam = 0.0
            if not identified or penalty.norm(unit, fitted.solution.beta) > radius:
                lam = lam_of_radius(
                    lambda v: penalty.norm(unit, penalty.fit_at(unit, v).solution.beta),
                    radius,
                    identified=identified,
                )
        if lam:
            fitted = fit_penalised(model, penalty, None, lam, None)
        return with_dual(fitted, penalty.name, radius, lam)
    sigma = 1.0
    if least_squares and penalty.q != 2.0:
        beta = penalty.fit_at(unit, lam).solution.beta
        sigma = model.noise_held or joint_sigma(model, beta)
    return penalty.fit_at(model, lam, sigma)


def only_one(**given: Any) -> str:
    """Return the name of the argument that is given. Incompatible unless it is exactly one."""
    names = [name for name, value in given.items() if value is not None]
    if len(names) != 1:
        raise Incompatible(
            f"give exactly one of {'=, '.join(given)}=; got {', '.join(names) or 'none'}"
        )
    return names[0]


def with_dual(fitted: Fit, norm: str, radius: float, lam: float) -> Fit:
    """Return a fit in a ball with a note on the dual lam, and the radius among its statistics."""
    note = important_note(
        Topic.PRIOR,
        "the constraint {norm} <= {radius:.6g} has the dual lam = {lam:.10g}"
        + " (maximum likelihood is in the ball)" * (lam == 0.0),
        norm=norm,
        radius=radius,
        lam=lam,
    )
    stats = {**fitted.solution.stats, "radius": radius}
    return replace(
        fitted,
        notes=(note, *fitted.notes),
        solution=replace(fitted.solution, stats=stats),
    )


def lam_of_radius(
    norm: Callable[[float], float], radius: float, *, identified: bool
) -> float:
    """Return lam with norm(lam) = radius, of a norm that falls as lam grows.

    Incompatible if the norm stays below the radius, which it can if the coefficients are not identified at lam = 0.
    """
    from scipy.optimize import brentq

    step = 5.0  # of log lam
    high = 0.0
    while (size := norm(np.exp(high))) > radius:
        high += step
    low = high - step
    while (larger := norm(np.exp(low))) < radius:
        if not identified and 0.0 < larger < size * (1.0 + 1e-6):
            raise Incompatible(
                f"radius={radius:g} has no effect, because coefficients of norm {larger:.6g} have the smallest loss"
            )
        size = larger
        low -= step
    log_lam = brentq(lambda u: norm(np.exp(u)) - radius, low, low + step, xtol=1e-13)
    lam = float(np.exp(log_lam))
    if abs(norm(lam) - radius) > 1e-6 * radius:
        raise NotConverged(
            f"radius={radius:g}: the norm of the mode jumps over it at lam = {lam:.6g}"
        )
    return lam


def ridge_norm(unit: Model) -> Callable[[float], float]:
    """Return |b|_2 by lam of a Gaussian model with sigma = 1 under Normal(1.0), from one decomposition."""
    path = RidgeModes(unit).reduced_path
    return lambda lam: float(np.sqrt(path.norm2(lam)[0]))


def joint_sigma(model: Model, beta: Array) -> float:
    """Return sigma at the joint mode with log sigma, where beta is the mode under a prior in units of sigma.

    log p is stationary along (b, sigma) -> c (b, sigma): (n + k) sigma^2 = RSS + r'Xb, r the residuals of y.
    """
    if not isinstance(model.noise_prior, Reference):
        raise Incompatible(
            f"lam= and radius= need {model.noise_scale} held fixed or without a prior in aux="
        )
    penalised = model.joint.informative
    # r'Xb = (RSS at 0 - RSS at 2 b) / 4
    at = beta[:, 0] * (1.0 + np.outer([-1.0, 0.0, 1.0], penalised))
    zero, rss, twice = model.design.moments.rss_at(at)
    variance = (rss + (zero - twice) / 4.0) / (model.design.total + penalised.sum())
    return float(np.sqrt(variance))
