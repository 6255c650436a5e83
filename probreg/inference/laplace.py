"""The Laplace approximation: a normal at the mode with the curvature's covariance, auxiliary parameters included."""

from dataclasses import dataclass, replace

import numpy as np

from probreg.errors import Incompatible
from probreg.inference.base import (
    METHODS,
    Array,
    Method,
    Solution,
    Status,
    at_least_one,
    chains_of,
    edges,
    kinds,
    sigma_note,
)
from probreg.inference.linear import undetermined
from probreg.inference.newton import Mode, covariance_at, find_mode, solution_at
from probreg.likelihoods import SmoothLikelihood
from probreg.model import Model
from probreg.priors import SmoothPrior


@METHODS.register
@dataclass(frozen=True)
class LaplaceApproximation(Method):
    """q(beta, log aux) = N(mode, H^-1), H the negative Hessian of the log posterior at the mode; independent draws.

    Each draw carries log q, its density under the approximation as a density of (beta, aux), beside log p, the log
    posterior, from which importance weights follow. Exact when the log posterior is quadratic. Needs a mode that
    exists. Source: Tierney & Kadane 1986; Gelman et al., BDA3, section 4.1.
    """

    draws: int = 1000
    chains: int = 4
    tol: float = 1e-7
    max_steps: int = 100

    name = "laplace"
    likelihood = SmoothLikelihood
    prior = SmoothPrior
    target = "posterior"

    def __post_init__(self) -> None:
        at_least_one(draws=self.draws, chains=self.chains, max_steps=self.max_steps)

    def obstacle(self, model: Model) -> str | None:
        return kinds(self, model) or edges(self, model) or undetermined(model, self.name)

    def solve(self, model: Model, rng: np.random.Generator) -> Solution:
        mode = find_mode(model, tol=self.tol, max_steps=self.max_steps)
        found = solution_at(model, mode)
        if found.status is not Status.CONVERGED:
            raise Incompatible(f"laplace has no mode to expand about: {found.status.value} ({found.detail})")
        draws, log_q = self._draw(model, mode, rng)
        # log aux is normal under q, so aux is lognormal; solution_at holds its mode and the sd on the log scale.
        variance = {a: (found.aux_sd[a] / v) ** 2 for a, v in found.aux.items()}
        mean_aux = {a: v * float(np.exp(variance[a] / 2)) for a, v in found.aux.items()}
        return replace(
            found,
            aux=mean_aux,
            aux_sd={a: v * float(np.sqrt(np.expm1(variance[a]))) for a, v in mean_aux.items()},
            draws=draws,
            sample_stats={"log_q": log_q},
            notes=(
                *sigma_note(
                    model, "sigma is drawn with beta, lognormal with the joint curvature over (beta, log sigma)"
                ),
                found.notes[-1],
            ),
        )

    def _draw(self, model: Model, mode: Mode, rng: np.random.Generator) -> tuple[dict[str, Array], Array]:
        cov = covariance_at(mode)
        assert cov is not None  # the mode has converged
        L = np.linalg.cholesky(cov)
        z = rng.standard_normal((self.chains * self.draws, len(cov)))
        point = np.concatenate([mode.gamma.ravel(), mode.log_aux]) + z @ L.T
        k, basis = mode.gamma.size, model.design.basis
        beta = basis.T @ point[:, :k].reshape(-1, *mode.gamma.shape)
        log_aux = point[:, k:]
        log_det_T = mode.gamma.shape[1] * np.linalg.slogdet(basis.T)[1]
        log_q = -0.5 * (z**2).sum(1) - np.log(np.diagonal(L)).sum() - 0.5 * z.shape[1] * np.log(2 * np.pi) - log_det_T
        log_q = log_q - log_aux.sum(1)  # from a density of log aux to one of aux
        aux = {a: chains_of(np.exp(log_aux[:, i]), self.chains) for i, a in enumerate(model.unknown)}
        return {"beta": chains_of(beta, self.chains)} | aux, chains_of(log_q, self.chains)
