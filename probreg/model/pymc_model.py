"""The PyMC model in the usual form of PyMC: all rows, a variable for each term with its own name, and named dims.

beta_term ~ its prior,  eta = X beta + offset,  y ~ likelihood(eta, aux)
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np

from probreg.data import Design
from probreg.data.checked_arrays import plus_offset
from probreg.data.terms.grouped import GroupedTerm
from probreg.likelihoods import Likelihood, OfTrials
from probreg.model.data_dependent_priors import terms_of_columns
from probreg.model.term_priors import hyper_names, plain_name, unit_prior
from probreg.priors import (
    AuxPrior,
    BlockPrior,
    ExponentialPower,
    Flat,
    HierarchicalPrior,
    JointPrior,
    Prior,
    WholePrior,
)
from probreg.priors.joint import factors_of_name
from probreg.priors.location_scale import AffinePrior

_OWN = (
    "chain",
    "draw",
    "sample",
    "obs",
    "coef",
    "outcome",
    "predictor",
    "level",
    "effect",
    "X",
    "beta",
    "std_error",
    "eta",
    "prior",
)


@dataclass(frozen=True)
class TermVariable:
    """The coefficients of one term, or of some of its columns.

    Attributes
    ----------
    name : str
        The term as in the formula; `beta[name]` if another variable has that name.
    columns : tuple of int
        Their places in the design.
    labels : tuple of str
        Labels along its dim `name_dim`, without commas, since samplers split dims at commas. A term of one column has no dim
        and no labels.
    """

    name: str
    columns: tuple[int, ...]
    labels: tuple[str, ...] = ()

    @property
    def dims(self) -> tuple[str, ...]:
        return (dim_of(self.name),) if self.labels else ()

    @property
    def coords(self) -> dict[str, list[str]]:
        return {dim: list(self.labels) for dim in self.dims}


def dim_of(name: str) -> str:
    """Return the dim of a variable of several numbers.

    >>> dim_of("bs(x, df=5)")
    'bs(x df=5)_dim'
    """
    return f"{name.replace(',', '')}_dim"


def term_variables(design: Design, taken: Set[str]) -> tuple[TermVariable, ...]:
    """Return the terms of the coefficients that are reported one by one, in the order of their columns."""
    terms = terms_of_columns(design)
    places: dict[str, list[int]] = {}
    for j in design.ungrouped:
        places.setdefault(terms[j], []).append(int(j))
    return tuple(
        _variable(term, term, columns, design, taken)
        for term, columns in places.items()
    )


def part_of_term(
    term: str, columns: Sequence[int], design: Design, taken: Set[str]
) -> TermVariable:
    """Return some of the columns of a term: a column has its own name, a block of a smooth function has the function's name."""
    names = [design.columns[j] for j in columns]
    own_names = design.label_columns(columns)
    labels = _short_labels(term, tuple(names))
    if len(own_names) == 1:
        name = own_names[0]
    else:
        name = f"{term}[{labels[0]}..{labels[-1]}]"
    return _variable(name, term, columns, design, taken)


def _variable(
    name: str, term: str, columns: Sequence[int], design: Design, taken: Set[str]
) -> TermVariable:
    columns_of = tuple(design.columns[j] for j in columns)
    written = plain_name(name)
    name = f"beta[{written}]" if written in taken else written
    alone = len(columns_of) == 1 and columns_of[0] in (term, name)
    return TermVariable(
        name, tuple(columns), () if alone else _short_labels(term, columns_of)
    )


def _short_labels(term: str, columns: tuple[str, ...]) -> tuple[str, ...]:
    """Return the levels or numbers of columns without the names of their factors, or the full names if the short ones are not distinct.

    >>> _short_labels("g:x", ("g[T.b]:x", "g[T.c]:x")), _short_labels("poly(x, 2)", ("poly(x, 2)[1]", "poly(x, 2)[2]"))
    (('b', 'c'), ('1', '2'))
    """
    factors = factors_of_name(term)
    short = []
    for column in columns:
        parts = factors_of_name(column)
        if len(parts) != len(factors):
            return columns
        inside = [
            c[len(f) + 1 : -1].removeprefix("T.")
            for c, f in zip(parts, factors)
            if c != f
        ]
        short.append(", ".join(inside) or column)
    return tuple(short) if len(set(short)) == len(short) else columns


def names_taken(
    design: Design, likelihood: Likelihood, prior: JointPrior
) -> frozenset[str]:
    """Return the names of dims and of other variables, which no term can have."""
    terms = terms_of_columns(design)
    groups = {group_dim(t.group, likelihood) for t in design.recipe.grouped.values()}
    dims = {dim_of(plain_name(terms[j])) for j in design.ungrouped}
    hyper = {
        text
        for names in hyper_names(prior, design).values()
        for pair in names.items()
        for text in pair
    }
    return frozenset(
        {
            *_OWN,
            *likelihood.nuisance,
            *groups,
            *dims,
            *hyper,
            response_name(design, likelihood),
        }
    )


def response_name(design: Design, likelihood: Likelihood) -> str:
    """Return the name of the response, with a suffix if another variable has it."""
    return _distinct_name(plain_name(design.response), "response", likelihood)


def group_dim(group: str, likelihood: Likelihood) -> str:
    """Return the dim of the levels of a grouping factor: its name, with a suffix if a variable or another dim has it."""
    return _distinct_name(plain_name(group), "group", likelihood)


def _distinct_name(name: str, kind: str, likelihood: Likelihood) -> str:
    return f"{name} ({kind})" if name in (*_OWN, *likelihood.nuisance) else name


def build_pymc_model(
    design: Design,
    likelihood: Likelihood,
    prior: JointPrior,
    aux: Mapping[str, float | AuxPrior],
    *,
    response: bool,
    noncentered: bool,
) -> Any:
    """Return the PyMC model; without `response` it ends at the linear predictor `eta`. Rows with frequency weights enter as a potential,
    log p times the weight."""
    import pymc as pm

    several = bool(likelihood.outcomes)
    with pm.Model(coords=_coords(design, likelihood)) as model:
        aux_values = {
            a: v.pymc(a) if isinstance(v, AuxPrior) else v for a, v in aux.items()
        }
        unit = likelihood.noise(aux_values)
        hyper = _hyper_variables(model, prior, design)
        beta = _coefficients(design, likelihood, prior, unit, hyper, noncentered)
        if several:
            shown = beta @ likelihood.contrast_matrix.T
            pm.Deterministic("beta", shown, dims=("coef", "outcome"))
        else:
            pm.Deterministic("beta", beta[:, 0], dims=("coef",))
        X = pm.Data("X", np.asarray(design.X), dims=("obs", "coef"))
        for b in prior.blocks:
            if isinstance(b.prior, WholePrior):
                pm.Potential("prior", b.prior.potential(beta))
        of_predictors = beta
        if design.owner is not None:
            of_predictors = beta * (
                design.owner[:, None] == np.arange(likelihood.width)
            )
        eta = plus_offset(X @ of_predictors, design.offset)
        if response:
            _observe(
                design, likelihood, eta, aux_values, response_name(design, likelihood)
            )
        elif several or design.owner is not None:
            pm.Deterministic("eta", eta, dims=("obs", _predictor_dim(likelihood)))
        else:
            pm.Deterministic("eta", eta[:, 0], dims=("obs",))
    return model


def _coords(design: Design, likelihood: Likelihood) -> dict[str, Any]:
    """Return the names of columns, rows, outcomes if there are several, and classes if rows count them."""
    coords: dict[str, Any] = {"coef": list(design.columns), "obs": np.arange(design.n)}
    if likelihood.outcomes:
        coords["outcome"] = list(likelihood.outcomes)
    if np.ndim(likelihood.pymc_value(design.observed)) == 2:
        coords["end"] = ["lower", "upper"]
    if design.owner is not None:
        coords["predictor"] = list(likelihood.parameters[: likelihood.width])
    if isinstance(likelihood, OfTrials) and likelihood.levels:
        coords["level"] = likelihood.level_names
    return coords


def _hyper_variables(
    model: Any, prior: JointPrior, design: Design
) -> dict[int, dict[str, Any]]:
    """Variables for the hyperparameters of each block, in the open PyMC model; a hyperparameter of single coefficients has its own dim."""
    import pymc as pm

    variables = {}
    for i, names in hyper_names(prior, design).items():
        block = prior.blocks[i]
        this: Any = block.prior
        dims = (f"coef_{i}",)
        if any(h.each for h in this.hyper.values()):
            model.add_coords({dims[0]: [design.columns[j] for j in block.columns]})
        variables[i] = {
            k: h.prior.pymc(names[k], dims if h.each else None)
            for k, h in this.hyper.items()
        }
        # the reported hyperparameters, if the prior has a different parameterisation
        natural = this.natural(variables[i])
        for k, name in names.items():
            if name not in model.named_vars:
                pm.Deterministic(
                    name, natural[k], dims=dims if this.hyper[k].each else None
                )
    return variables


def _observe(
    design: Design,
    likelihood: Likelihood,
    eta: Any,
    aux_values: Mapping[str, Any],
    name: str,
) -> None:
    """Add the response, given its linear predictors (n, m), to the open PyMC model."""
    import pymc as pm

    row_values = likelihood.given(design.observed)
    cls, parameters = likelihood.pymc(
        eta, **likelihood.at_rows(aux_values, design.precision), **row_values
    )
    y = likelihood.pymc_value(design.observed)
    if likelihood.is_discrete:
        y = y.astype(int)
    if design.weights is None:
        # a row has the counts of classes, the ends of an interval, or one number
        dims = ("obs", "level" if likelihood.levels else "end")[: y.ndim]
        cls(name, **parameters, observed=y, dims=dims)
    else:
        pm.Potential(name, (design.weights * pm.logp(cls.dist(**parameters), y)).sum())


def _predictor_dim(likelihood: Likelihood) -> str:
    """Return the dim of linear predictors: "outcome" if the model's coefficients are the reported ones."""
    identity = np.eye(likelihood.width)
    if likelihood.outcomes and np.array_equal(likelihood.contrast_matrix, identity):
        return "outcome"
    return "predictor"


def _coefficients(
    design: Design,
    likelihood: Likelihood,
    prior: JointPrior,
    unit: Any,
    hyper: Mapping[int, Mapping[str, Any]],
    noncentered: bool,
) -> Any:
    """Return the coefficients (p, m), from one variable for each term and block of the prior, in the open PyMC model."""
    import pytensor.tensor as pt

    taken = names_taken(design, likelihood, prior)
    terms = terms_of_columns(design)
    whole = {v.columns: v for v in term_variables(design, taken)}
    of_columns: dict[tuple[int, ...], list[Any]] = {}
    for i, block in enumerate(prior.blocks):
        variables = _BlockVariables(
            design,
            likelihood,
            block,
            block.width(design.coefficients_per_column(likelihood.width)),
            _predictor_dim(likelihood),
            taken,
            terms,
            whole,
            hyper.get(i, {}),
            block.prior.unit(unit),
            noncentered,
        )
        for columns, value in variables.of_terms():
            of_columns.setdefault(columns, []).append(value)
    order = np.argsort([j for columns in of_columns for j in columns])
    rows = [
        blocks[0] if len(blocks) == 1 else pt.concatenate(blocks, axis=1)
        for blocks in of_columns.values()
    ]
    return pt.concatenate(rows, axis=0)[order]


@dataclass(frozen=True, eq=False)
class _BlockVariables:
    """The coefficients of one block of the prior, for `m` linear predictors, as variables of the open PyMC model."""

    design: Design
    likelihood: Likelihood
    block: BlockPrior
    m: int
    predictor: str
    taken: Set[str]
    terms: Sequence[str]  # the term of each column of the design
    whole: Mapping[tuple[int, ...], TermVariable]  # variables of whole terms
    hyper: Mapping[str, Any]
    unit: Any
    noncentered: bool

    @property
    def suffix(self) -> str:
        """The suffix of the variables' names, if there are several predictors."""
        if self.block.predictor is None:
            return ""
        return plain_name(f"[{self.block.outcome}]")

    def of_terms(self) -> Iterator[tuple[tuple[int, ...], Any]]:
        """Yield the columns and coefficients (q, m) of each variable."""
        block = self.block
        prior = unit_prior(block)
        term = self.design.grouped_of(block.columns)
        root = block.prior.root_of_groups(self.hyper)
        if term is not None and root is not None:
            yield block.columns, self._effects(term, root * self.unit)
            return
        factor = self.unit
        if isinstance(block.prior, HierarchicalPrior):
            factor = factor * block.prior.spread(**self.hyper)
        if term is not None:
            effects = self._variable(*self._of_groups(term), prior, factor)
            yield block.columns, effects
            return
        if isinstance(prior, WholePrior):  # a potential
            prior = Flat()
        for variable, places in self._term_variables(prior):
            is_whole = len(places) == len(block.columns)
            part = prior if is_whole else prior.part(places)
            assert part is not None  # checked in _term_variables
            part_factor = factor[..., list(places)] if np.ndim(factor) else factor
            name = variable.name + self.suffix
            yield (
                variable.columns,
                self._variable(name, variable.coords, part, part_factor),
            )

    def _term_variables(
        self, prior: Prior
    ) -> Iterator[tuple[TermVariable, tuple[int, ...]]]:
        """Return the variables of a block and their places in it: one for each term, or only one if the prior is no product over columns."""
        max_terms = 50  # largest number of terms with one variable each; with more, PyMC would compile for minutes
        block = self.block
        by_term: dict[str, list[int]] = {}
        for place, j in enumerate(block.columns):
            by_term.setdefault(self.terms[j], []).append(place)
        if len(by_term) > 1 and (len(by_term) > max_terms or prior.part((0,)) is None):
            names = [self.design.columns[j] for j in block.columns]
            name = plain_name(f"beta[{names[0]}..{names[-1]}]")
            yield (
                TermVariable(name, block.columns, tuple(names)),
                tuple(range(len(names))),
            )
            return
        for term, places in by_term.items():
            columns = tuple(block.columns[k] for k in places)
            variable = self.whole.get(columns)
            yield (
                variable or part_of_term(term, columns, self.design, self.taken),
                tuple(places),
            )

    def _of_groups(self, term: GroupedTerm) -> tuple[str, dict[str, list[str]]]:
        """Return the name and the labels of effects by group, as in `fit.tree` if the group has one term."""
        terms = self.design.recipe.grouped.values()
        shared = sum(t.group == term.group for t in terms) > 1
        alike = len({t.effects for t in terms}) == 1
        owner = plain_name(term.key if shared else term.group)
        effect = "effect"
        if not alike:
            effect = f"effect of {owner}".replace(",", "")
        return f"effects[{owner}]{self.suffix}", {
            group_dim(term.group, self.likelihood): list(term.levels),
            effect: list(term.effects),
        }

    def _dims(self, coords: dict[str, list[str]]) -> tuple[str, ...]:
        """Return the dims of a variable, predictors first, and add its labels to the model."""
        import pymc as pm

        if self.m > 1 and self.predictor == "predictor":
            coords = {"predictor": [str(k) for k in range(self.m)], **coords}
        pm.modelcontext(None).add_coords(coords)
        lead = (self.predictor,) if self.m > 1 and self.predictor == "outcome" else ()
        return (*lead, *coords)

    def _variable(
        self, name: str, coords: dict[str, list[str]], prior: Any, factor: Any
    ) -> Any:
        import pymc as pm

        shape = tuple(map(len, coords.values()))
        dims = self._dims(coords)

        def shaped(v: Any) -> Any:
            # a number, or groups by effects: parameters of each column get this shape
            if not np.ndim(v) or len(shape) == 1:
                return v
            lead: dict[int, tuple[int, ...]] = {1: (), 2: (self.m,)}
            return v.reshape((*lead[np.ndim(v)], *shape))

        has_scale = bool(self.hyper) and isinstance(prior, AffinePrior)
        is_scaled = self.noncentered and has_scale
        cls, parameters = prior.pymc(1.0 if is_scaled else factor)
        parameters = {k: shaped(v) for k, v in parameters.items()}
        if is_scaled:
            location = shaped(np.asarray(prior.location, dtype=float))
            offset = cls(f"{name}_offset", **parameters, dims=dims)
            value = location + shaped(factor) * (offset - location)
            variable = pm.Deterministic(name, value, dims=dims)
        elif (
            isinstance(prior, ExponentialPower)
            and not prior.convex
            and self.noncentered
        ):
            r = prior.uniforms(name, dims)
            value = parameters["location"] + parameters["scale"] * r
            variable = pm.Deterministic(name, value, dims=dims)
        else:
            variable = cls(name, **parameters, dims=dims)
        return self._in_rows(variable, shape)

    def _effects(self, term: GroupedTerm, root: Any) -> Any:
        """Return effects b_g ~ N(0, Lambda Lambda'), Lambda = `root` (K, K); as Lambda z_g with standard normal z if noncentered."""
        import pymc as pm

        name, coords = self._of_groups(term)
        dims = self._dims(coords)
        if self.hyper and self.noncentered:
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
