"""The No-U-Turn sampler of PyMC's model, run by nutpie.

The density is PyMC's: the likelihood and the priors each name their PyMC distribution. The graph is written in
coordinates z with beta = centre + A z that make the posterior nearly round (the mode and its curvature, or the
triangular factor of the rows for a Gaussian model), so that short tuning suffices. A Gaussian likelihood enters through
its sufficient statistics: ||y - X beta||^2 = RSS + ||R beta - Q'y||^2, at a cost that does not grow with the rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from probreg.check.separation import separation
from probreg.errors import Incompatible
from probreg.graphs import (
    Hypers,
    coords_of,
    hyper_names,
    hyper_variables,
    log_density,
    log_prior,
    observe,
    plain,
    spread_of,
    unit_of,
)
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
from probreg.inference.collapsed import NOTE, Collapsed, graph as collapsed
from probreg.inference.coordinates import Coordinates, Typical, coordinates, noise_of, parted, stand_in, typical_scales
from probreg.inference.linear import PriorRows, condition
from probreg.inference.sampler import sample
from probreg.likelihoods import Gaussian, SeparableLikelihood
from probreg.model import Model
from probreg.priors import ExponentialPower, HierarchicalPrior, Mixture

_R_HAT = 1.01  # Vehtari et al. 2021


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
        for b in model.joint.blocks:
            if isinstance(b.prior, HierarchicalPrior) and not b.prior.proper:
                columns = ", ".join(model.design.columns[j] for j in b.columns)
                return (
                    f"nuts: the scale of {columns} has an improper prior, under which the posterior has no finite mass; give a "
                    "proper one such as Normal(HalfNormal(1.0)), or use evidence, which takes its most probable value"
                )
        return None

    def solve(self, model: Model, rng: np.random.Generator) -> Solution:
        _proper(model)
        made, notes = _graph(model)
        tree = sample(
            made, draws=self.draws, tune=self.tune, chains=self.chains,
            seed=int(rng.integers(2**31)), target_accept=self.target_accept, progress=self.progress,
        )  # fmt: skip
        posterior, stats = tree["posterior"], tree["sample_stats"]
        draws: dict[str, Array] = {a: np.asarray(posterior[a]) for a in ("beta", *model.unknown)}
        shared, local = hyper_draws(model, posterior)
        mean, cov = moments_of_draws(draws["beta"])
        draws |= {**shared, **local}
        status, detail = _verdict(draws, np.asarray(stats["diverging"]))
        return Solution(
            beta=mean,
            scale=cov,
            known_marginals=False,
            aux={a: float(draws[a].mean()) for a in model.unknown},
            aux_sd={a: float(draws[a].std()) for a in model.unknown},
            hyper={k: float(v.mean()) for k, v in shared.items()},
            hyper_sd={k: float(v.std()) for k, v in shared.items()},
            draws=draws,
            sample_stats={str(k): np.asarray(v) for k, v in stats.data_vars.items() if v.dims == ("chain", "draw")},
            status=status,
            detail=detail,
            notes=(*sigma_note(model, "sigma is sampled with beta"), *notes),
        )


def _graph(model: Model) -> tuple[Any, tuple[str, ...]]:
    """The PyMC model in coordinates that suit it, and what to say of them."""
    model, typical = parted(model), typical_scales(model)
    if whole := Collapsed.of(model):
        return _started(model, typical, collapsed(model, whole)), (NOTE,)
    at = coordinates(model)
    return _started(model, typical, graph(model, at)), (at.note, *at.words)


def _started(model: Model, typical: Mapping[int, Typical], made: Any) -> Any:
    """The same PyMC model, unknown prior scales and sigma starting near where the rows put them and not at 1."""
    if not typical:
        return made
    starts: dict[str, float] = {}
    for i, names in hyper_names(model.joint, model.design.columns).items():
        prior = model.joint.blocks[i].prior
        if isinstance(prior, Mixture):
            starts |= prior.tau.start(names["tau"], typical[i].spread)
    if isinstance(model.likelihood, Gaussian) and model.unknown:
        starts |= model.aux_prior("sigma").start("sigma", noise_of(model))
    for name, value in starts.items():
        made.set_initval(made[name], value)
    return made


def graph(model: Model, at: Coordinates) -> Any:
    """The PyMC model over z; its deterministic `beta` is (p, m)."""
    import pymc as pm
    import pytensor.tensor as pt

    several = bool(model.likelihood.outcomes)
    with pm.Model(coords=coords_of(model.design, model.likelihood, model.joint)) as out:
        z = pm.Flat("z", shape=at.A.shape[1])
        known = {**model.fixed, **{a: model.aux_prior(a).pymc(a) for a in model.unknown}}
        hyper = hyper_variables(model.joint, model.design.columns, several)
        theta = at.centre + at.A @ z
        beta = pm.Deterministic("beta", _stretched(model, at, theta, known, hyper).reshape(model.shape))
        if model.joint.informative.any():
            centred = log_prior(model.joint, beta, known, hyper, without=[b.block for b in at.loose])
            pm.Potential("prior", pt.as_tensor_variable(centred + _loose_prior(model, at, theta, known)))
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


def _stretched(model: Model, at: Coordinates, theta: Any, known: Mapping[str, Any], hyper: Hypers) -> Any:
    """vec(beta) from vec(theta): see `Coordinates`."""
    import pytensor.tensor as pt

    if not at.loose:
        return theta
    several, parts = bool(model.likelihood.outcomes), []
    for b in at.loose:
        block, prior = model.joint.blocks[b.block], plain(model.joint.blocks[b.block])
        if b.cusp and isinstance(prior, ExponentialPower):
            dims = ("predictor", f"coef_{b.block}") if several else (f"coef_{b.block}",)
            value = prior.uniforms(f"beta_{b.block}", dims, spread_of(block, known, hyper.get(b.block)))
            parts.append((value.T if several else value[:, None]).ravel())
            continue
        this: Any = block.prior
        spread = this.spread(**hyper[b.block])
        each = spread if spread.ndim == 0 else (spread.T if several else spread[:, None]).ravel()
        parts.append(b.location + (theta[b.entries] - b.location) * each / b.spread)
    n = np.concatenate([b.entries for b in at.loose])
    f = np.setdiff1d(np.arange(len(at.centre)), n)
    loose = pt.concatenate(parts)
    rest = theta[f] + at.follow @ (loose - at.centre[n])
    return pt.concatenate([loose, rest])[np.argsort(np.concatenate([n, f]))]


def _loose_prior(model: Model, at: Coordinates, theta: Any, known: Mapping[str, Any]) -> Any:
    """log p of the loose coordinates, which have the prior of one typical scale."""
    total: Any = 0.0
    for b in at.loose:
        if b.cusp:
            continue
        block = model.joint.blocks[b.block]
        total = total + log_density(
            block, theta[b.entries].reshape((-1, model.shape[1])), unit_of(block, known) * b.spread
        )
    return total


def hyper_draws(model: Model, posterior: Any) -> tuple[dict[str, Array], dict[str, Array]]:
    """Draws (chain, draw) of the hyperparameters of blocks, and of those of single coefficients, `lambda[x]` each."""
    shared: dict[str, Array] = {}
    local: dict[str, Array] = {}
    several = bool(model.likelihood.outcomes)
    for i, names in hyper_names(model.joint, model.design.columns).items():
        block: Any = model.joint.blocks[i]
        for k, name in names.items():
            values = np.asarray(posterior[name])
            if not block.prior.hyper[k].each:
                shared[name] = values
                continue
            columns = [model.design.columns[j].replace("/", "|") for j in block.columns]
            for index in np.ndindex(values.shape[2:]):
                of = f"{columns[index[-1]]}, {index[0]}" if several else columns[index[-1]]
                local[f"{k}[{of}]"] = values[(..., *index)]
    return shared, local


def _proper(model: Model) -> None:
    """Incompatible where the posterior has no finite mass: columns without an estimate or prior, separation, or a noise
    scale that runs to zero. A sampler would wander there for ever and call it draws."""
    moments = model.design.moments
    require_full_rank(condition(moments, PriorRows.of(replace(model, prior=stand_in(model)).joint), 1.0), model, "nuts")
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
