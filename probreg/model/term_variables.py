"""The coefficients of a model term by term: the names, dims and labels under which PyMC and ArviZ have them."""

from collections.abc import Sequence, Set
from dataclasses import dataclass

from probreg.data import Design
from probreg.likelihoods import Likelihood
from probreg.model.data_dependent_priors import terms_of_columns
from probreg.model.hyperparameters import hyper_names, plain_name
from probreg.priors import JointPrior
from probreg.priors.joint import factors_of_name

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
    "eta",
    "prior",
)


@dataclass(frozen=True)
class TermVariable:
    """The coefficients of one term, or of some of its columns.

    Attributes
    ----------
    name : str
        As the formula writes the term; `beta[name]` where something else has that name.
    columns : tuple of int
        Their places in the design.
    labels : tuple of str
        Along its dim `name_dim`, without commas, at which samplers part dims; none for a term of one column, which has no dim.
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
    """The dim of a variable of several numbers.

    >>> dim_of("bs(x, df=5)")
    'bs(x df=5)_dim'
    """
    return f"{name.replace(',', '')}_dim"


def term_variables(design: Design, taken: Set[str]) -> tuple[TermVariable, ...]:
    """The terms of the coefficients that are reported one by one, in the order of their columns."""
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
    """Some of the columns of a term: a column by its own name, a block of a smooth function as the function's."""
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
    """The levels or numbers of columns without the names of their factors; columns as they are where these are not distinct.

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
    groups = {t.group for t in design.recipe.grouped.values()}
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
    name = plain_name(design.response)
    if name in (*_OWN, *likelihood.nuisance):
        return f"{name} (response)"
    return name
