"""A model as the PyMC graph that is sampled: `to_pymc`'s density, written in coordinates that suit a sampler."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from probreg.inference.base import Array
from probreg.inference.exact.marginalised import NOTE, Marginalised, marginalised_graph
from probreg.inference.notes import Note, Topic, routine_note
from probreg.inference.sampling.reparameterisation import (
    Reparameterisation,
    Typical,
    reparameterise,
    rough_sigma,
    typical_scales,
    with_blocks_apart,
)
from probreg.model.model import Model
from probreg.model.pymc_graph import (
    Hypers,
    coords_of,
    hyper_names,
    hyper_variables,
    in_groups,
    log_density,
    log_prior,
    observe,
    scale_factor,
    scale_unit,
    unit_prior,
)
from probreg.priors import ExponentialPower, LatentPrior


def made(model: Model) -> tuple[Any, tuple[Note, ...]]:
    """The PyMC model in coordinates that suit it, and what to say of them."""
    model, typical = with_blocks_apart(model), typical_scales(model)
    whole = Marginalised.of(model)
    if whole:
        return _started(model, typical, marginalised_graph(model, whole)), (
            routine_note(Topic.SAMPLING, NOTE),
        )
    at = reparameterise(model, typical)
    return _started(model, typical, reparameterised_graph(model, at)), tuple(
        routine_note(Topic.SAMPLING, text) for text in (at.note, *at.words)
    )


def _started(model: Model, typical: Mapping[int, Typical], made: Any) -> Any:
    """The same PyMC model, unknown prior scales and sigma starting near where the rows put them and not at 1."""
    if not typical:
        return made
    starts: dict[str, float] = {}
    for i, names in hyper_names(model.joint, model.design).items():
        prior: Any = model.joint.blocks[i].prior
        for name, value in (
            typical[i].hyper.items() if isinstance(prior, LatentPrior) else ()
        ):
            starts |= prior.hyper[name].prior.start(names[name], value)
    if model.likelihood.least_squares and model.unknown:
        starts |= model.noise_prior.start(model.noise_scale, rough_sigma(model))
    for name, value in starts.items():
        made.set_initval(made[name], value)
    return made


def reparameterised_graph(model: Model, at: Reparameterisation) -> Any:
    """The PyMC model over z; its deterministic `beta` is (p, m)."""
    import pymc as pm
    import pytensor.tensor as pt

    several = bool(model.likelihood.outcomes)
    with pm.Model(coords=coords_of(model.design, model.likelihood, model.joint)) as out:
        z = pm.Flat("z", shape=at.A.shape[1])
        known = {
            **model.fixed,
            **{a: model.aux_prior(a).pymc(a) for a in model.unknown},
        }
        hyper = hyper_variables(model.joint, model.design, several)
        unit = model.likelihood.noise(known)
        theta = at.centre + at.A @ z
        beta = pm.Deterministic(
            "beta", _stretched(model, at, theta, unit, hyper).reshape(model.shape)
        )
        if model.joint.informative.any():
            centred = log_prior(
                model.joint, beta, unit, hyper, without=[b.block for b in at.loose]
            )
            pm.Potential(
                "prior",
                pt.as_tensor_variable(centred + _loose_prior(model, at, theta, unit)),
            )
        if model.likelihood.least_squares:
            moments = model.design.moments
            r = np.asarray(moments.R, dtype=float) @ beta[:, 0] - np.asarray(
                moments.z, dtype=float
            )
            sigma = known[model.noise_scale]
            constant = 0.5 * moments.log_precision - 0.5 * moments.weight * np.log(
                2.0 * np.pi
            )
            square = float(moments.factor[-1, -1]) ** 2 + (r**2).sum()
            pm.Potential(
                "y",
                constant
                - moments.weight * pm.math.log(sigma)
                - square / (2.0 * sigma**2),
            )
        else:
            eta = model.design.X @ beta
            observe(
                model.design,
                model.likelihood,
                eta if model.design.offset is None else eta + model.design.offset,
                known,
            )
    return out


def _stretched(
    model: Model, at: Reparameterisation, theta: Any, unit: Any, hyper: Hypers
) -> Any:
    """vec(beta) from vec(theta): see `Reparameterisation`."""
    import pytensor.tensor as pt

    if not at.loose:
        return theta
    parts = []
    for b in at.loose:
        several = (
            bool(model.likelihood.outcomes)
            and model.joint.blocks[b.block].predictor is None
        )
        m = model.joint.blocks[b.block].width(model.shape[1])
        block = model.joint.blocks[b.block]
        prior = unit_prior(model.joint.blocks[b.block])
        if b.cusp and isinstance(prior, ExponentialPower):
            dims = ("predictor", f"coef_{b.block}") if several else (f"coef_{b.block}",)
            value = prior.uniforms(
                f"beta_{b.block}", dims, scale_factor(block, unit, hyper.get(b.block))
            )
            parts.append((value.T if several else value[:, None]).ravel())
            continue
        this: Any = block.prior
        root = this.root_of_groups(hyper[b.block])
        if root is not None:
            # b_g = Lambda u_g, u the loose coordinates
            u = in_groups(theta[b.entries].reshape((-1, m)), root.type.shape[0])
            rows = [
                sum(root[k, j] * u[:, j] for j in range(k + 1))
                for k in range(root.type.shape[0])
            ]
            parts.append(pt.stack(rows, axis=1).ravel())
            continue
        spread = this.spread(**hyper[b.block])
        if spread.ndim == 0:
            each = spread
        else:
            each = (spread.T if several else spread[:, None]).ravel()
        parts.append(
            b.location
            + (theta[b.entries] - b.location)
            * each
            / np.repeat(np.broadcast_to(b.spread, len(block.columns)), m)
        )
    n = np.concatenate([b.entries for b in at.loose])
    f = np.setdiff1d(np.arange(len(at.centre)), n)
    loose = pt.concatenate(parts)
    rest = theta[f] + at.follow @ (loose - at.centre[n])
    return pt.concatenate([loose, rest])[np.argsort(np.concatenate([n, f]))]


def _loose_prior(model: Model, at: Reparameterisation, theta: Any, unit: Any) -> Any:
    """log p of the loose coordinates, which have the prior of one typical scale."""
    total: Any = 0.0
    for b in at.loose:
        if b.cusp:
            continue
        block = model.joint.blocks[b.block]
        total = total + log_density(
            block,
            theta[b.entries].reshape((-1, block.width(model.shape[1]))),
            scale_unit(block, unit) * b.spread,
        )
    return total


def hyper_draws(
    model: Model, posterior: Mapping[str, Array]
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Draws (chain, draw) of the hyperparameters of blocks, and of those of single coefficients, `lambda[x]` each."""
    shared: dict[str, Array] = {}
    local: dict[str, Array] = {}
    several = bool(model.likelihood.outcomes)
    for i, names in hyper_names(model.joint, model.design).items():
        block: Any = model.joint.blocks[i]
        for k, name in names.items():
            values = np.asarray(posterior[name])
            if not block.prior.hyper[k].each:
                shared[name] = values
                continue
            columns = [model.design.columns[j].replace("/", "|") for j in block.columns]
            for index in np.ndindex(values.shape[2:]):
                if block.predictor is None:
                    predictor = index[0]
                else:
                    predictor = block.predictor
                if several:
                    of = f"{columns[index[-1]]}, {predictor}"
                else:
                    of = columns[index[-1]]
                local[f"{k}[{of}]"] = values[(..., *index)]
    return shared, local
