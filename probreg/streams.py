"""Designs whose rows are read by the block: from files by a formula, or from arrays that are not in memory.

One pass surveys the rows (see `probreg.design.survey`), and for a Gaussian model takes their moments on the way, after which
its rows are not needed again.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from operator import add
from typing import Any, Literal

import numpy as np

from probreg.agreement import check_trials
from probreg.design import INTERCEPT, Block, Design, RowSource
from probreg.design.batches import FormulaBlocks, Tally, coded
from probreg.design.design import of_trials
from probreg.design.files import Files
from probreg.design.learning import plan, recipe_of
from probreg.design.slices import ArrayBlocks
from probreg.design.stream import Stream, one_pass
from probreg.design.survey import Orders, Survey, survey_of
from probreg.errors import DataError
from probreg.likelihoods import Bernoulli, Categorical, Gaussian, Likelihood
from probreg.likelihoods.base import Level

Array = np.ndarray
Making = Callable[[], Iterable[Block]]


@dataclass(frozen=True)
class Response:
    """Which level of a response is modelled, and against which."""

    event: Level | None = None
    reference: Level | None = None


def from_files(
    formula: str, files: Files, likelihood: Likelihood, response: Response, *, weights: Any, offset: Any,
    missing: Literal["raise", "drop"], progress: bool | None,
) -> tuple[Design, Likelihood]:  # fmt: skip
    """The design of a formula at files, and the likelihood bound to its response."""
    chosen = plan(formula, files, weights=weights, offset=offset, missing=missing)
    if len(chosen.parts.outcome) == 2:
        check_trials(likelihood)
    recipe, notes = recipe_of(chosen, progress)
    tally = Tally()
    making = FormulaBlocks(replace(chosen.selection, tally=tally), recipe, weights, first_code(likelihood))
    survey = _survey(making, recipe.columns, likelihood, files.name, progress)
    levels = chosen.declared_levels(survey.response, tally.orders)
    bound = likelihood.bind(survey.response, levels=levels, event=response.event, reference=response.reference)
    final = replace(making, selection=chosen.selection, code=partial(coded, bound.code))
    source = partial(Stream, final, survey.n, survey.weight, name=files.name, progress=progress)
    design = design_of(recipe, survey, bound, source)
    split = len(chosen.parts.outcome) == 2
    name = of_trials(recipe.response) if split else recipe.response
    counts = tally.notes(survey.weight if split else None, survey.n)
    return replace(design, response=name, notes=(*notes, *counts)), bound


def from_slices(
    making: ArrayBlocks, likelihood: Likelihood, response: Response, *, name: str, progress: bool | None
) -> tuple[Design, Likelihood]:
    """The design of arrays that come in slices, and the likelihood bound to their response."""
    orders = Orders()
    first = replace(making, code=first_code(likelihood), orders=orders)
    survey = _survey(first, making.recipe.columns, likelihood, making.name, progress)
    levels = orders.levels(survey.response)
    bound = likelihood.bind(survey.response, levels=levels, event=response.event, reference=response.reference)
    final = replace(making, code=partial(coded, bound.code))
    source = partial(Stream, final, survey.n, survey.weight, name=making.name, progress=progress)
    design = design_of(making.recipe, survey, bound, source)
    return replace(design, response=name), bound


def first_code(likelihood: Likelihood) -> Callable[[Any], Array]:
    """Response values before the likelihood has met them all: numbers are numbers, levels stay what they are."""
    return np.asarray if isinstance(likelihood, Bernoulli | Categorical) else likelihood.code


def _survey(
    making: Making, columns: tuple[str, ...], likelihood: Likelihood, name: str, progress: bool | None
) -> Survey:
    fn = partial(survey_of, columns=columns, moments=isinstance(likelihood, Gaussian))
    return usable(one_pass(making, fn, add, name=name, rows=None, progress=progress)[0], name)


def usable(survey: Survey | None, name: str) -> Survey:
    """The survey of some rows. DataError when there are none, or none that counts."""
    if survey is None:
        raise DataError(f"{name} holds no rows that count: a model needs at least one")
    if not survey.weight > 0:
        raise DataError("the weights sum to zero: no observation is left")
    return survey


def design_of(recipe: Any, survey: Survey, bound: Likelihood, source: Callable[[Block], RowSource]) -> Design:
    """The design of rows that were surveyed, and are where the source of their sample says."""
    columns, some = recipe.columns, survey.sample
    some = some._replace(X=np.ascontiguousarray(some.X), y=coded(bound.code, some.y))
    if INTERCEPT in columns and (some.X[:, columns.index(INTERCEPT)] != 1.0).any():
        raise DataError("a column called 'Intercept' is all ones; rename it")
    return Design(
        X=np.zeros((0, len(columns))),
        y=np.zeros(0),
        columns=columns,
        free=np.array([c == INTERCEPT for c in columns], dtype=bool),
        recipe=recipe,
        offset=None if some.offset is None else some.offset[:0],
        weights=None if some.weights is None else some.weights[:0],
        kept=survey.moments,
        source=source(some),
    )
