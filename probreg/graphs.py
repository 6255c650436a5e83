"""PyMC models from the parts of a model. PyMC is imported on use, and only here and in the classes that it mirrors.

`build` writes the model as a reader of PyMC expects it, all rows and named dims. `parameters` and `log_prior` are the
pieces from which a sampler makes a graph of its own coordinates: the densities are PyMC's in both.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from probreg.design import Design
from probreg.likelihoods import Likelihood
from probreg.priors import AuxPrior, Block, FisherPrior, Flat, JointPrior

Array = np.ndarray


def build(design: Design, likelihood: Likelihood, prior: JointPrior, aux: Mapping[str, float | AuxPrior]) -> Any:
    """The PyMC model: one variable per block of columns with its own prior, put together as the deterministic `beta`,
    and the observed response. Rows with frequency weights enter as a potential, log p times the weight."""
    import pymc as pm

    m = likelihood.width
    coords: dict[str, Any] = {"coef": list(design.columns), "obs": np.arange(design.n)}
    if likelihood.outcomes:
        coords |= {"outcome": list(likelihood.outcomes), "predictor": np.arange(m)}
    for i, b in enumerate(prior.blocks):
        coords[f"coef_{i}"] = [design.columns[j] for j in b.columns]
    with pm.Model(coords=coords) as model:
        known = {a: v.pymc(a) if isinstance(v, AuxPrior) else v for a, v in aux.items()}
        beta = _assemble(
            [_variable(b, i, known, m, bool(likelihood.outcomes)) for i, b in enumerate(prior.blocks)], prior
        )
        shown = beta[:, 0] if not likelihood.outcomes else beta @ likelihood.display.T
        pm.Deterministic("beta", shown, dims=("coef", "outcome") if likelihood.outcomes else ("coef",))
        X = pm.Data("X", design.X, dims=("obs", "coef"))
        for b in prior.blocks:
            if isinstance(b.prior, FisherPrior):
                pm.Potential("jeffreys", b.prior.potential(beta))
        eta = X @ beta if design.offset is None else X @ beta + design.offset
        observe(design, likelihood, eta, known)
    return model


def observe(design: Design, likelihood: Likelihood, eta: Any, known: Mapping[str, Any]) -> None:
    """The response, given its linear predictors (n, m), in the PyMC model that is open."""
    import pymc as pm

    cls, parameters = likelihood.pymc(eta, **known)
    y = design.observed
    y = y.astype(int) if not isinstance(likelihood.support, str) else y
    if design.weights is None:
        cls("y", **parameters, observed=y, dims="obs")
    else:
        pm.Potential("y", (design.weights * pm.logp(cls.dist(**parameters), y)).sum())


def log_prior(prior: JointPrior, beta: Any, known: Mapping[str, Any]) -> Any:
    """log p(beta) as a symbolic scalar, for beta (p, m); flat blocks add nothing."""
    import pymc as pm

    total: Any = 0.0
    for b in prior.blocks:
        if isinstance(b.prior, Flat):
            continue
        if isinstance(b.prior, FisherPrior):
            total = total + b.prior.potential(beta)
            continue
        cls, parameters = b.prior.pymc(_unit(b, known))
        total = total + pm.logp(cls.dist(**parameters), beta[list(b.columns)].T).sum()
    return total


def _variable(block: Block, i: int, known: Mapping[str, Any], m: int, several: bool) -> Any:
    """The block's coefficients as (q, m)."""
    cls, parameters = block.prior.pymc(_unit(block, known))
    dims = ("predictor", f"coef_{i}") if several else (f"coef_{i}",)
    value = cls(f"beta_{i}_{block.prior.name}", **parameters, dims=dims)
    return value.T if several else value[:, None]


def _assemble(parts: list[Any], prior: JointPrior) -> Any:
    import pytensor.tensor as pt

    order = np.argsort([j for b in prior.blocks for j in b.columns])
    return pt.concatenate(parts, axis=0)[order]


def _unit(block: Block, known: Mapping[str, Any]) -> Any:
    return known["sigma"] if block.prior.sigma_units else 1.0
