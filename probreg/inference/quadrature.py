"""The Gaussian posterior under any prior of sigma and any normal prior: exact in beta, one integral over log sigma."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from probreg.design import Moments
from probreg.errors import Incompatible
from probreg.inference.base import METHODS, Array, Method, Solution, at_least_one, chains_of, kinds, sigma_note
from probreg.inference.closed_form import require_full_rank
from probreg.inference.linear import Conditional, PriorRows, condition, log_marginal
from probreg.likelihoods import Gaussian
from probreg.linalg import solve_upper
from probreg.model import Model
from probreg.priors import AuxPrior

_DEPTH = 60.0  # the integrand is followed down to exp(-60) of its peak


@METHODS.register
@dataclass(frozen=True)
class Quadrature(Method):
    """p(beta | y) = integral of N(beta; m(sigma), sigma^2 V(sigma)) p(sigma | y), by Gauss-Legendre nodes over log sigma.

    Given sigma the posterior of beta is normal, whatever the normal prior; p(sigma | y) has the closed form
    p(y | sigma) p(sigma). Mean, covariance and log evidence carry the error of the quadrature only, which falls
    exponentially in the number of nodes; draws are independent.
    """

    draws: int = 1000
    chains: int = 4
    nodes: int = 160

    name = "quadrature"
    likelihood = Gaussian
    gaussian_prior = True
    target = "posterior"

    def __post_init__(self) -> None:
        at_least_one(draws=self.draws, chains=self.chains, nodes=self.nodes)

    def obstacle(self, model: Model) -> str | None:
        if why := kinds(self, model):
            return why
        return None if model.unknown else "quadrature integrates over sigma, and it is held fixed here; use conjugate"

    def solve(self, model: Model, rng: np.random.Generator) -> Solution:
        prior, original = PriorRows.of(model.joint), model.design.moments
        require_full_rank(condition(original, prior, _typical(original)), model, self.name)
        # Extended precision serves least squares; an integral to 1e-12 is done in double, a hundred times faster.
        moments = replace(original, factor=np.asarray(original.factor, dtype=float))
        density = _Density(moments, prior, model.aux_prior("sigma"))
        u, log_weight = self._nodes(density)
        log_evidence = float(np.logaddexp.reduce(log_weight))
        weight = np.exp(log_weight - log_evidence)
        sigma = np.exp(u)
        each = [density.given(s) for s in sigma]
        means = np.array([g.mean for g in each])
        mean = weight @ means
        spread = means - mean
        cov = (
            np.einsum("k,kij->ij", weight * sigma**2, np.array([g.unscaled for g in each]))
            + (weight * spread.T) @ spread
        )
        m_sigma = float(weight @ sigma)
        proper = model.joint.informative.all() and model.aux_prior("sigma").proper
        return Solution(
            beta=mean[:, None],
            scale=cov,
            known_marginals=False,
            aux={"sigma": m_sigma},
            aux_sd={"sigma": float(np.sqrt(weight @ (sigma - m_sigma) ** 2))},
            draws=self._draw(density, rng, u),
            stats={"n": moments.weight, "rss": moments.rss} | ({"log_evidence": log_evidence} if proper else {}),
            notes=sigma_note(
                model,
                f"sigma is integrated over {self.nodes} nodes of log sigma from {sigma[0]:.4g} to {sigma[-1]:.4g}",
            ),
        )

    def _nodes(self, density: "_Density") -> tuple[Array, Array]:
        """Nodes in log sigma over the range that matters, and log(weight * integrand) at each."""
        low, high = _range(density)
        x, w = np.polynomial.legendre.leggauss(self.nodes)
        u = (high - low) / 2 * x + (high + low) / 2
        return u, np.array([density(v) for v in u]) + np.log(w * (high - low) / 2)

    def _draw(self, density: "_Density", rng: np.random.Generator, u: Array) -> dict[str, Array]:
        """sigma by inverting its distribution function on a fine grid, beta from its normal given sigma."""
        from scipy.interpolate import CubicSpline

        value = np.array([density(v) for v in u])
        grid = np.linspace(u[0], u[-1], 8001)
        height = np.exp(CubicSpline(u, value - value.max())(grid))
        cdf = np.concatenate([[0.0], np.cumsum((height[1:] + height[:-1]) / 2)])
        sigma = np.exp(np.interp(rng.random(self.chains * self.draws) * cdf[-1], cdf, grid))
        z = rng.standard_normal((len(sigma), density.moments.p))
        beta = np.empty_like(z)
        for i, s in enumerate(sigma):
            given = density.given(s)
            beta[i] = given.mean + s * solve_upper(given.R, z[i])
        return {"beta": chains_of(beta[..., None], self.chains), "sigma": chains_of(sigma, self.chains)}


@dataclass(frozen=True, eq=False)
class _Density:
    """u -> log p(y | sigma) + log p(sigma) + u at sigma = exp(u): the density of log sigma up to the evidence."""

    moments: Moments
    prior: PriorRows
    sigma: AuxPrior

    def __call__(self, u: float) -> float:
        s = float(np.exp(u))
        return log_marginal(self.given(s), self.moments, self.prior, s) + float(self.sigma.log_prob(np.asarray(s))) + u

    def given(self, sigma: float) -> Conditional:
        """The posterior of beta at this sigma, the same at all unless a prior stands in raw units."""
        return condition(self.moments, self.prior, sigma) if len(self.prior.absolute) else self._always

    @cached_property
    def _always(self) -> Conditional:
        return condition(self.moments, self.prior, 1.0)


def _typical(moments: Moments) -> float:
    return moments.y_scale or 1.0


def _range(density: _Density) -> tuple[float, float]:
    """Where the density of log sigma exceeds exp(-60) of its peak; Incompatible when it does not fall off."""
    centre = float(np.log(_typical(density.moments)))
    for reach in (16.0, 32.0):
        grid = np.linspace(centre - reach, centre + reach, 400)
        value = np.array([density(v) for v in grid])
        on = np.flatnonzero(value > value.max() - _DEPTH)
        if on[0] > 0 and on[-1] < len(grid) - 1:
            return _edge(density, grid[on[0] - 1], grid[on[0]]), _edge(density, grid[on[-1] + 1], grid[on[-1]])
    raise Incompatible(
        "quadrature: the posterior of sigma does not fall off; it is improper, or the columns reproduce the response "
        "exactly. Give sigma a proper prior."
    )


def _edge(density: _Density, outside: float, inside: float) -> float:
    """The end of the support between two points when the prior of sigma has a hard bound there, else the outer point."""
    if np.isfinite(density(outside)):
        return outside
    for _ in range(60):
        middle = (outside + inside) / 2
        inside, outside = (middle, outside) if np.isfinite(density(middle)) else (inside, middle)
    return inside
