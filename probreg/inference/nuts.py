"""The No-U-Turn sampler of PyMC's model, run by nutpie.

The density is PyMC's: the likelihood and the priors each name their PyMC distribution. The graph is written in
coordinates z with beta = centre + A z that make the posterior nearly round (the mode and its curvature, or the
triangular factor of the rows for a Gaussian model), so that short tuning suffices. A Gaussian likelihood enters through
its sufficient statistics: ||y - X beta||^2 = RSS + ||R beta - Q'y||^2, at a cost that does not grow with the rows.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from probreg.check.separation import separation
from probreg.errors import Incompatible
from probreg.graphs import log_prior, observe
from probreg.inference.base import (
    METHODS,
    Array,
    Method,
    Solution,
    Status,
    at_least_one,
    moments_of_draws,
    sigma_note,
)
from probreg.inference.closed_form import require_full_rank
from probreg.inference.linear import PriorRows, condition
from probreg.inference.newton import covariance_at, find_mode
from probreg.inference.sampler import sample
from probreg.likelihoods import Gaussian, SeparableLikelihood, SmoothLikelihood
from probreg.model import Model
from probreg.priors import Block, FisherPrior, GaussianPrior, Normal

_R_HAT = 1.01  # Vehtari et al. 2021


@dataclass(frozen=True, eq=False)
class Coordinates:
    """vec(beta) = centre + A z."""

    centre: Array  # (p m,)
    A: Array  # (p m, p m)
    note: str


@METHODS.register
@dataclass(frozen=True)
class NUTS(Method):
    """Draws of p(beta, aux | y) by Hamiltonian Monte Carlo (Hoffman & Gelman 2014), for any likelihood and any prior.

    `draws` per chain after `tune` steps of adaptation; a flat prior is allowed where the posterior is proper. Divergent
    steps and chains that disagree (R-hat above 1.01) are the status of the fit, never hidden.
    """

    draws: int = 1000
    tune: int = 400
    chains: int = 4
    target_accept: float = 0.8
    progress: bool = False

    name = "nuts"
    target = "posterior"

    def __post_init__(self) -> None:
        at_least_one(draws=self.draws, chains=self.chains, tune=self.tune)

    def obstacle(self, model: Model) -> str | None:
        return None

    def solve(self, model: Model, rng: np.random.Generator) -> Solution:
        _proper(model)
        coordinates = _coordinates(model)
        tree = sample(
            graph(model, coordinates), draws=self.draws, tune=self.tune, chains=self.chains,
            seed=int(rng.integers(2**31)), target_accept=self.target_accept, progress=self.progress,
        )  # fmt: skip
        posterior, stats = tree["posterior"], tree["sample_stats"]
        draws: dict[str, Array] = {a: np.asarray(posterior[a]) for a in ("beta", *model.unknown)}
        mean, cov = moments_of_draws(draws["beta"])
        status, detail = _verdict(draws, np.asarray(stats["diverging"]))
        return Solution(
            beta=mean,
            scale=cov,
            known_marginals=False,
            aux={a: float(draws[a].mean()) for a in model.unknown},
            aux_sd={a: float(draws[a].std()) for a in model.unknown},
            draws=draws,
            sample_stats={str(k): np.asarray(v) for k, v in stats.data_vars.items() if v.dims == ("chain", "draw")},
            status=status,
            detail=detail,
            notes=(*sigma_note(model, "sigma is sampled with beta"), coordinates.note),
        )


def graph(model: Model, at: Coordinates) -> Any:
    """The PyMC model over z; its deterministic `beta` is (p, m)."""
    import pymc as pm

    p, m = model.shape
    with pm.Model(coords={"obs": range(model.design.n)}) as out:
        z = pm.Flat("z", shape=p * m)
        known = {**model.fixed, **{a: model.aux_prior(a).pymc(a) for a in model.unknown}}
        beta = pm.Deterministic("beta", (at.centre + at.A @ z).reshape((p, m)))
        if model.joint.informative.any():
            pm.Potential("prior", log_prior(model.joint, beta, known))
        if isinstance(model.likelihood, Gaussian):
            moments = model.design.moments
            r = np.asarray(moments.R, dtype=float) @ beta[:, 0] - np.asarray(moments.z, dtype=float)
            sigma = known["sigma"]
            constant = -0.5 * moments.weight * np.log(2.0 * np.pi)
            square = float(moments.factor[-1, -1]) ** 2 + (r**2).sum()
            pm.Potential("y", constant - moments.weight * pm.math.log(sigma) - square / (2.0 * sigma**2))
        else:
            eta = model.design.X @ beta
            observe(
                model.design, model.likelihood, eta if model.design.offset is None else eta + model.design.offset, known
            )
    return out


def _coordinates(model: Model) -> Coordinates:
    """Coordinates in which the posterior is nearly round; plain standardised ones where there is no mode to start from."""
    near = replace(model, prior=_normal_stand_in(model))
    if isinstance(model.likelihood, Gaussian):
        moments = model.design.moments
        sigma = model.fixed.get("sigma") or np.sqrt(
            max(moments.rss, 1e-12 * moments.y_scale**2) / max(moments.weight - moments.rank.rank, 1)
        )
        given = condition(moments, PriorRows.of(near.joint), float(sigma))
        if not given.rank.dropped:
            return Coordinates(
                given.mean,
                sigma * np.asarray(given.root, dtype=float),
                "sampled on the sufficient statistics of the rows, in whitened coordinates",
            )
    elif isinstance(model.likelihood, SmoothLikelihood):
        mode = find_mode(near, tol=1e-4)
        cov = covariance_at(mode)
        if mode.status is Status.CONVERGED and mode.steps < 15 and cov is not None:
            T = np.kron(model.design.basis.T, np.eye(model.shape[1]))
            k = mode.gamma.size
            root = np.linalg.cholesky(cov[:k, :k])
            return Coordinates(
                T @ mode.gamma.ravel(), T @ root, "sampled in coordinates whitened by the curvature at the mode"
            )
    T = np.kron(model.design.basis.T, np.eye(model.shape[1]))
    return Coordinates(np.zeros(len(T)), T, "sampled on standardised columns: there is no mode to whiten by")


def _proper(model: Model) -> None:
    """Incompatible where the posterior has no finite mass: columns without an estimate or prior, separation, or a noise
    scale that runs to zero. A sampler would wander there for ever and call it draws."""
    moments = model.design.moments
    require_full_rank(
        condition(moments, PriorRows.of(replace(model, prior=_normal_stand_in(model)).joint), 1.0), model, "nuts"
    )
    if isinstance(model.likelihood, SeparableLikelihood) and not model.joint.informative.all():
        found = separation(model)
        if found:
            raise Incompatible(
                f"nuts: the posterior is improper: {found.kind} separation by {', '.join(found.labels)}, whose prior is flat; "
                "give these columns a proper prior such as Normal(2.5)"
            )
    if isinstance(model.likelihood, Gaussian) and model.unknown and not model.aux_prior("sigma").proper:
        exact = moments.rss <= (4 * np.finfo(float).eps) ** 2 * float(np.square(moments.factor[:, -1]).sum())
        if exact or moments.weight <= moments.rank.rank:
            raise Incompatible(
                "nuts: the columns reproduce the response exactly, so that under an improper prior of sigma the posterior "
                "runs to sigma = 0; hold sigma, or give it a proper prior such as HalfNormal"
            )


def _normal_stand_in(model: Model) -> Any:
    """Normal priors of the same centre and scale in place of others: they shape coordinates, not the posterior."""
    columns = model.design.columns
    return {
        tuple(columns[i] for i in b.columns): b.prior if isinstance(b.prior, GaussianPrior | FisherPrior) else _normal(b)
        for b in model.joint.blocks
    }


def _normal(block: Block) -> Normal:
    prior: Any = block.prior
    return Normal(prior.scale, location=prior.location, sigma_units=prior.sigma_units)


def _verdict(draws: dict[str, Array], diverging: Array) -> tuple[Status, str]:
    from arviz_stats.base import array_stats

    beta = draws["beta"].reshape(*draws["beta"].shape[:2], -1)
    each = [beta[..., j] for j in range(beta.shape[-1])] + [v for k, v in draws.items() if k != "beta"]
    worst = max(float(array_stats.rhat(v, method="rank")) for v in each) if draws["beta"].shape[0] > 1 else 1.0
    if worst > _R_HAT:
        return Status.UNMIXED, f"largest R-hat {worst:.3f}"
    if diverging.any():
        return Status.DIVERGED, f"{int(diverging.sum())} of {diverging.size} draws"
    return Status.SAMPLED, ""
