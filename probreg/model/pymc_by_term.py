"""The PyMC model as a reader of PyMC expects it: all rows, a variable for each term under its own name, named dims.

beta_term ~ its prior,  eta = X beta + offset,  y ~ likelihood(eta, aux)
"""

from collections.abc import Iterator, Mapping
from copy import copy
from typing import Any

import numpy as np

from probreg.data import Design
from probreg.data.rows import plus_offset
from probreg.data.terms.grouped import GroupedTerm
from probreg.likelihoods import Likelihood, OfTrials
from probreg.model.data_dependent_priors import terms_of_columns
from probreg.model.pymc_graph import (
    hyper_names,
    hyper_variables,
    observe,
    scale_factor,
    scale_unit,
    unit_prior,
)
from probreg.model.term_variables import (
    TermVariable,
    names_taken,
    part_of_term,
    response_name,
    term_variables,
)
from probreg.priors import (
    AuxPrior,
    BlockPrior,
    ExponentialPower,
    Flat,
    HierarchicalPrior,
    JointPrior,
    Normal,
    Prior,
    WholePrior,
)

_MOST = 50  # terms of one variable each; of more, PyMC would compile for minutes


def build_pymc_model(
    design: Design,
    likelihood: Likelihood,
    prior: JointPrior,
    aux: Mapping[str, float | AuxPrior],
    *,
    response: bool,
    noncentered: bool = True,
) -> Any:
    """The PyMC model; without `response` it ends at the linear predictor `eta`. Rows with frequency weights enter as a potential,
    log p times the weight."""
    import pymc as pm

    several = bool(likelihood.outcomes)
    with pm.Model(coords=_coords(design, likelihood)) as model:
        aux_values = {
            a: v.pymc(a) if isinstance(v, AuxPrior) else v for a, v in aux.items()
        }
        unit = likelihood.noise(aux_values)
        for i, b in enumerate(
            prior.blocks
        ):  # those of single coefficients have a dim of their own
            if isinstance(b.prior, HierarchicalPrior) and any(
                h.each for h in b.prior.hyper.values()
            ):
                model.add_coord(f"coef_{i}", [design.columns[j] for j in b.columns])
                model.add_coords(
                    {"predictor": [str(k) for k in range(likelihood.width)]}
                    if several
                    else {}
                )
        hyper = hyper_variables(prior, design, several)
        variables = _Variables(design, likelihood, prior, noncentered)
        beta = variables.beta(
            [
                part
                for i in range(len(prior.blocks))
                for part in variables.of_block(i, unit, hyper)
            ]
        )
        if several:
            shown = beta @ likelihood.contrast_matrix.T
        else:
            shown = beta[:, 0]
        pm.Deterministic(
            "beta", shown, dims=("coef", "outcome") if several else ("coef",)
        )
        X = pm.Data("X", design.X, dims=("obs", "coef"))
        for b in prior.blocks:
            if isinstance(b.prior, WholePrior):
                pm.Potential("prior", b.prior.potential(beta))
        eta = plus_offset(X @ beta, design.offset)
        if response:
            observe(
                design, likelihood, eta, aux_values, response_name(design, likelihood)
            )
        else:
            dims = ("obs", variables.predictor) if several else ("obs",)
            pm.Deterministic("eta", eta if several else eta[:, 0], dims=dims)
    return model


def _coords(design: Design, likelihood: Likelihood) -> dict[str, Any]:
    """Names of columns, rows, and outcomes where there are several; of classes where rows count them."""
    coords: dict[str, Any] = {"coef": list(design.columns), "obs": np.arange(design.n)}
    if likelihood.outcomes:
        coords["outcome"] = list(likelihood.outcomes)
    if isinstance(likelihood, OfTrials) and likelihood.levels:
        coords["level"] = [str(v) for v in likelihood.levels]
    return coords


def _conditional_prior(block: BlockPrior) -> Prior:
    """Return the distribution of the variables of a block, given its hyperparameters."""
    if isinstance(block.prior, WholePrior):
        return Flat()
    return unit_prior(block)


class _Variables:
    """The coefficients as variables of the PyMC model that is open, term by term."""

    def __init__(
        self,
        design: Design,
        likelihood: Likelihood,
        prior: JointPrior,
        noncentered: bool,
    ) -> None:
        self.noncentered = noncentered
        hyper = [
            name
            for names in hyper_names(prior, design).values()
            for name in names.values()
        ]
        self.design, self.prior, self.m = design, prior, likelihood.width
        self.suffix = ""  # of the names of variables of one predictor of several
        self.taken = names_taken(design, likelihood, prior, hyper)
        self.terms = {v.columns: v for v in term_variables(design, self.taken)}
        self.of = terms_of_columns(design)
        # where reported coefficients are those of the model, their dim is that of the outcomes
        identity = likelihood.outcomes and np.array_equal(
            likelihood.contrast_matrix, np.eye(self.m)
        )
        self.predictor = "outcome" if identity else "predictor"

    def beta(self, parts: list[tuple[tuple[int, ...], Any]]) -> Any:
        """(p, m) of the parts, each with the places of its rows; parts of one predictor are in the order of predictors."""
        import pytensor.tensor as pt

        of_columns: dict[tuple[int, ...], list[Any]] = {}
        for columns, value in parts:
            of_columns.setdefault(columns, []).append(value)
        order = np.argsort([j for columns in of_columns for j in columns])
        rows = [
            blocks[0] if len(blocks) == 1 else pt.concatenate(blocks, axis=1)
            for blocks in of_columns.values()
        ]
        return pt.concatenate(rows, axis=0)[order]

    def of_block(
        self, i: int, unit: Any, hyper: Mapping[int, Mapping[str, Any]]
    ) -> Iterator[tuple[tuple[int, ...], Any]]:
        """Columns and coefficients (q, m), or (q, 1) of one predictor, of each variable of a block of the prior."""
        block = self.prior.blocks[i]
        if block.predictor is not None:
            alone = copy(self)
            alone.m, alone.suffix = 1, f"[{block.outcome}]".replace("/", "|")
            yield from alone._of_block(i, unit, hyper)
            return
        yield from self._of_block(i, unit, hyper)

    def _of_block(
        self, i: int, unit: Any, hyper: Mapping[int, Mapping[str, Any]]
    ) -> Iterator[tuple[tuple[int, ...], Any]]:
        block = self.prior.blocks[i]
        block_hyper = hyper.get(i) or {}
        term = self.design.grouped_of(block.columns)
        if term is not None:
            root = block.prior.root_of_groups(block_hyper)
            noncentered = bool(block_hyper) and self.noncentered
            if root is not None:
                root = root * scale_unit(block, unit)
                effects = self._effects(term, root, noncentered=noncentered)
                yield block.columns, effects
                return
            prior = unit_prior(block)
            factor = scale_factor(block, unit, block_hyper)
            if (
                noncentered
                and isinstance(prior, Normal)
                and prior.scale == 1.0
                and prior.location == 0.0
            ):
                root = factor * np.eye(len(term.effects))
                effects = self._effects(term, root, noncentered=True)
            else:
                effects = self._variable(*self._of_groups(term), prior, factor)
            yield block.columns, effects
            return
        factor = scale_factor(block, unit, block_hyper)
        density = _conditional_prior(block)
        for variable, places in self._term_variables(block):
            part_prior = (
                density if len(places) == len(block.columns) else density.part(places)
            )
            assert part_prior is not None  # _parts asked
            if np.ndim(factor):
                part_factor = factor[..., list(places)]
            else:
                part_factor = factor
            yield (
                variable.columns,
                self._variable(
                    variable.name + self.suffix,
                    variable.coords,
                    part_prior,
                    part_factor,
                ),
            )

    def _term_variables(
        self, block: BlockPrior
    ) -> Iterator[tuple[TermVariable, tuple[int, ...]]]:
        """The variables of a block and their places in it: one for each term, or one where the prior is no product over columns."""
        by_term: dict[str, list[int]] = {}
        for place, j in enumerate(block.columns):
            by_term.setdefault(self.of[j], []).append(place)
        if len(by_term) > 1 and (
            len(by_term) > _MOST or _conditional_prior(block).part((0,)) is None
        ):
            names = [self.design.columns[j] for j in block.columns]
            name = f"beta[{names[0]}..{names[-1]}]".replace("/", "|")
            yield (
                TermVariable(name, block.columns, tuple(names)),
                tuple(range(len(names))),
            )
            return
        for term, places in by_term.items():
            columns = tuple(block.columns[k] for k in places)
            variable = self.terms.get(columns)
            yield (
                variable or part_of_term(term, columns, self.design, self.taken),
                tuple(places),
            )

    def _of_groups(self, term: GroupedTerm) -> tuple[str, dict[str, list[str]]]:
        """Return the name and the labels of effects by group, as in `fit.tree` if the group has one term."""
        terms = self.design.recipe.grouped.values()
        shared = sum(t.group == term.group for t in terms) > 1
        alike = len({t.effects for t in terms}) == 1
        key = term.key.replace("/", "|")
        if alike:
            effect = "effect"
        else:
            effect = f"effect of {key if shared else term.group}".replace(",", "")
        return f"effects[{key if shared else term.group}]{self.suffix}", {
            term.group: list(term.levels),
            effect: list(term.effects),
        }

    def _dims(self, coords: dict[str, list[str]]) -> tuple[str, ...]:
        """The dims of a variable, of predictors first, its labels known to the model."""
        import pymc as pm

        if self.m > 1 and self.predictor == "predictor":
            coords = {"predictor": [str(k) for k in range(self.m)], **coords}
        pm.modelcontext(None).add_coords(coords)
        lead = (self.predictor,) if self.m > 1 and self.predictor == "outcome" else ()
        return (*lead, *coords)

    def _variable(
        self, name: str, coords: dict[str, list[str]], prior: Prior, factor: Any
    ) -> Any:
        cls, parameters = prior.pymc(factor)
        shape = tuple(map(len, coords.values()))
        if (
            len(shape) != 1
        ):  # a number, or groups by effects: parameters of each column take that shape
            lead: dict[int, tuple[int, ...]] = {1: (), 2: (self.m,)}
            parameters = {
                k: v.reshape((*lead[np.ndim(v)], *shape)) if np.ndim(v) else v
                for k, v in parameters.items()
            }
        dims = self._dims(coords)
        if (
            isinstance(prior, ExponentialPower)
            and not prior.convex
            and self.noncentered
        ):
            import pymc as pm

            r = prior.uniforms(name, dims)
            value = parameters["location"] + parameters["scale"] * r
            return self._in_rows(pm.Deterministic(name, value, dims=dims), shape)
        return self._in_rows(cls(name, **parameters, dims=dims), shape)

    def _effects(self, term: GroupedTerm, root: Any, *, noncentered: bool) -> Any:
        """Return effects b_g ~ N(0, Lambda Lambda'), Lambda = `root` (K, K); as Lambda z_g with standard normal z if `noncentered`."""
        import pymc as pm

        name, coords = self._of_groups(term)
        dims = self._dims(coords)
        if noncentered:
            z = pm.Normal(f"{name}_offset", dims=dims)
            effects = pm.Deterministic(name, z @ root.T, dims=dims)
        else:
            mu = np.zeros(len(term.effects))
            effects = pm.MvNormal(name, mu=mu, chol=root, dims=dims)
        return self._in_rows(effects, term.shape)

    def _in_rows(self, value: Any, shape: tuple[int, ...]) -> Any:
        """(q, m) of a variable ([m,] *shape)."""
        q = int(np.prod(shape))
        if self.m > 1:
            return value.reshape((self.m, q)).T
        return value.reshape((q, 1))
