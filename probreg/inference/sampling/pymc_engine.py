"""A model as a PyMC graph for sampling: the density of `to_pymc`, in coordinates that
suit a sampler."""

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


def build_graph(model: Model) -> tuple[Any, tuple[Note, ...]]:
    """Return the PyMC model in coordinates that suit it, and notes on them."""
    model, typical = with_blocks_apart(model), typical_scales(model)
    marginalised = Marginalised.of(model)
    if marginalised:
        return _with_starts(model, typical, marginalised_graph(model, marginalised)), (
            routine_note(Topic.SAMPLING, NOTE),
        )
    reparameterisation = reparameterise(model, typical)
    return _with_starts(
        model, typical, reparameterised_graph(model, reparameterisation)
    ), tuple(
        routine_note(Topic.SAMPLING, text)
        for text in (reparameterisation.note, *reparameterisation.words)
    )


def _with_starts(model: Model, typical: Mapping[int, Typical], graph: Any) -> Any:
    """Return the PyMC model with starts of unknown prior scales and sigma near values
    that the rows suggest, not at 1."""
    if not typical:
        return graph
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
        graph.set_initval(graph[name], value)
    return graph


def reparameterised_graph(model: Model, reparameterisation: Reparameterisation) -> Any:
    """The PyMC model over z; its deterministic `beta` is (p, m)."""
    import pymc as pm
    import pytensor.tensor as pt

    has_outcomes = bool(model.likelihood.outcomes)
    with pm.Model(
        coords=coords_of(model.design, model.likelihood, model.joint)
    ) as graph:
        z = pm.Flat("z", shape=reparameterisation.A.shape[1])
        parameters = {
            **model.fixed,
            **{a: model.aux_prior(a).pymc(a) for a in model.unknown},
        }
        hyper = hyper_variables(model.joint, model.design, has_outcomes)
        unit = model.likelihood.noise(parameters)
        theta = reparameterisation.centre + reparameterisation.A @ z
        beta = pm.Deterministic(
            "beta",
            _stretch_blocks(model, reparameterisation, theta, unit, hyper).reshape(
                model.shape
            ),
        )
        if model.joint.informative.any():
            centred = log_prior(
                model.joint,
                beta,
                unit,
                hyper,
                without=[b.block for b in reparameterisation.loose],
            )
            pm.Potential(
                "prior",
                pt.as_tensor_variable(
                    centred + _loose_prior(model, reparameterisation, theta, unit)
                ),
            )
        if model.likelihood.least_squares:
            moments = model.design.moments
            r = np.asarray(moments.R, dtype=float) @ beta[:, 0] - np.asarray(
                moments.z, dtype=float
            )
            sigma = parameters[model.noise_scale]
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
                parameters,
            )
    return graph


def _stretch_blocks(
    model: Model,
    reparameterisation: Reparameterisation,
    theta: Any,
    unit: Any,
    hyper: Hypers,
) -> Any:
    """vec(beta) from vec(theta): see `Reparameterisation`."""
    import pytensor.tensor as pt

    if not reparameterisation.loose:
        return theta
    parts = []
    for b in reparameterisation.loose:
        by_outcome = (
            bool(model.likelihood.outcomes)
            and model.joint.blocks[b.block].predictor is None
        )
        m = model.joint.blocks[b.block].width(model.shape[1])
        block = model.joint.blocks[b.block]
        prior = unit_prior(model.joint.blocks[b.block])
        if b.cusp and isinstance(prior, ExponentialPower):
            dims = (
                ("predictor", f"coef_{b.block}") if by_outcome else (f"coef_{b.block}",)
            )
            value = prior.uniforms(
                f"beta_{b.block}", dims, scale_factor(block, unit, hyper.get(b.block))
            )
            parts.append((value.T if by_outcome else value[:, None]).ravel())
            continue
        block_prior: Any = block.prior
        root = block_prior.root_of_groups(hyper[b.block])
        if root is not None:
            # b_g = Lambda u_g, u the loose coordinates
            u = in_groups(theta[b.entries].reshape((-1, m)), root.type.shape[0])
            rows = [
                sum(root[k, j] * u[:, j] for j in range(k + 1))
                for k in range(root.type.shape[0])
            ]
            parts.append(pt.stack(rows, axis=1).ravel())
            continue
        spread = block_prior.spread(**hyper[b.block])
        if spread.ndim == 0:
            factors = spread
        else:
            factors = (spread.T if by_outcome else spread[:, None]).ravel()
        parts.append(
            b.location
            + (theta[b.entries] - b.location)
            * factors
            / np.repeat(np.broadcast_to(b.spread, len(block.columns)), m)
        )
    n = np.concatenate([b.entries for b in reparameterisation.loose])
    f = np.setdiff1d(np.arange(len(reparameterisation.centre)), n)
    loose = pt.concatenate(parts)
    following = theta[f] + reparameterisation.follow @ (
        loose - reparameterisation.centre[n]
    )
    return pt.concatenate([loose, following])[np.argsort(np.concatenate([n, f]))]


def _loose_prior(
    model: Model, reparameterisation: Reparameterisation, theta: Any, unit: Any
) -> Any:
    """Return log p of the loose coordinates under the prior at one typical scale."""
    total: Any = 0.0
    for b in reparameterisation.loose:
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
    """Return draws (chain, draw) of the hyperparameters of blocks, and of those of
    single coefficients, as `lambda[x]`."""
    shared: dict[str, Array] = {}
    local: dict[str, Array] = {}
    has_outcomes = bool(model.likelihood.outcomes)
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
                if has_outcomes:
                    label = f"{columns[index[-1]]}, {predictor}"
                else:
                    label = columns[index[-1]]
                local[f"{k}[{label}]"] = values[(..., *index)]
    return shared, local
