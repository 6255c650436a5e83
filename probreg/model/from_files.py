"""Designs with rows that are read in blocks: from files by a formula, or from arrays that are not in memory.

One pass surveys the rows (see `probreg.data.blocks.survey`), and for a Gaussian model takes their moments on the way, after which
its rows are not needed again.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from operator import add
from typing import Any, Literal

import numpy as np

from probreg.data import INTERCEPT, Block, ColumnRecipe, Design, RowSource
from probreg.data.blocks.batches import FormulaBlocks, KeptBlocks, Tally, encode_values
from probreg.data.blocks.files import Files
from probreg.data.blocks.learning import plan, recipe_of
from probreg.data.blocks.slices import ArrayBlocks
from probreg.data.blocks.stream import BlockStream, one_pass
from probreg.data.blocks.survey import Orders, Survey, survey_of
from probreg.data.design import AnyMoments, arrow_moments_of_rows, moments_of
from probreg.data.unwritten import written_where_small
from probreg.data.weights import WeightKind, read_weights
from probreg.errors import DataError, row_error
from probreg.likelihoods import Binomial, Likelihood
from probreg.model.compatibility import Choices, response_of_counts

Array = np.ndarray
_KEPT = (
    2**17
)  # numbers of a design that are kept between passes, a megabyte: reading a file costs more than sums of them
Making = Callable[[], Iterable[Block]]


def from_files(
    formula: str, files: Files, choices: Choices, *, weights: Any, offset: Any, missing: Literal["raise", "drop"],
    progress: bool | None,
) -> tuple[Design, Likelihood]:  # fmt: skip
    """The design of a formula at files, and the likelihood prepared for its response."""
    kind, weights = read_weights(weights)
    classes = (
        choices.likelihood is not None and choices.likelihood.of_counts() is not None
    )
    chosen = plan(
        formula,
        files,
        weights=weights,
        offset=offset,
        missing=missing,
        kind=kind,
        classes=classes,
    )
    likelihood, likelihood_notes = choices.of_response(chosen.parts.counted)
    recipe, notes = recipe_of(chosen, progress)
    tally = Tally()
    making = FormulaBlocks(
        replace(chosen.selection, tally=tally),
        recipe,
        weights,
        first_code(likelihood),
        kind,
    )
    survey, unit = normalised_survey(
        _survey(
            apart_for(making, likelihood), recipe, likelihood, files.name, progress
        ),
        kind,
    )
    bound = prepare_from_survey(
        choices,
        likelihood,
        survey,
        chosen.declared_levels(survey.response, tally.orders),
        making,
    )
    final = replace(
        making,
        selection=chosen.selection,
        encode=partial(encode_values, bound.encode),
        unit=unit,
    )
    few = survey.n * len(recipe.columns) <= _KEPT
    blocks = KeptBlocks(final, files) if few else final
    source = partial(
        BlockStream, blocks, survey.n, survey.weight, name=files.name, progress=progress
    )
    notes = (*notes, *tally.notes, *likelihood_notes)
    return design_of(
        recipe, survey, bound, source, response=chosen.response, notes=notes, kind=kind
    ), bound


def from_slices(
    making: ArrayBlocks, choices: Choices, *, name: str, progress: bool | None
) -> tuple[Design, Likelihood]:
    """The design of arrays that come in slices, and the likelihood prepared for their response."""
    (chosen, _), orders, kind = choices.of_response(), Orders(), making.kind
    first = replace(making, encode=first_code(chosen), orders=orders)
    survey, unit = normalised_survey(
        _survey(first, making.recipe, chosen, making.name, progress), kind
    )
    levels = orders.levels(survey.response)
    likelihood, notes = of_survey(chosen, survey)
    bound = prepare_from_survey(choices, likelihood, survey, levels, making)
    final = replace(making, encode=partial(encode_values, bound.encode), unit=unit)
    source = partial(
        BlockStream, final, survey.n, survey.weight, name=making.name, progress=progress
    )
    return design_of(
        making.recipe, survey, bound, source, response=name, notes=notes, kind=kind
    ), bound


def apart_for(making: FormulaBlocks, likelihood: Likelihood) -> FormulaBlocks:
    """The same blocks, with columns of groups left unwritten where their moments are taken by group."""
    return replace(
        making, apart=likelihood.least_squares and bool(making.recipe.grouped)
    )


def of_survey(
    likelihood: Likelihood, survey: Survey
) -> tuple[Likelihood, tuple[str, ...]]:
    """The likelihood of rows that were surveyed, which may count (`of_rows` has asked whether it can), and what was taken for
    it in words."""
    if survey.values.ndim == 1:
        return likelihood, ()
    return response_of_counts(
        likelihood, "p" if isinstance(likelihood.of_counts(), Binomial) else "counts"
    )


def prepare_from_survey(
    choices: Choices,
    likelihood: Likelihood,
    survey: Survey,
    levels: tuple[Any, ...] | None,
    making: Any,
) -> Likelihood:
    """The likelihood prepared for the responses of a survey. One that it refuses is looked for in one more pass: the survey
    knows the value, and not its row."""
    try:
        return choices.prepare_likelihood(likelihood, survey.response, levels)
    except DataError as error:
        if error.of_row is None:
            raise
        before, place, after = error.of_row
    import pandas as pd

    value = survey.response[place]

    def refuse(values: Any) -> Array:
        values = np.asarray(values)
        if values.ndim == 2:
            is_equal = (values == value).all(1)
        else:
            is_equal = pd.Index(values).isin([value])
        if is_equal.any():
            raise row_error(before, int(np.argmax(is_equal)), after)
        return np.zeros(len(values))

    for _ in replace(making, encode=refuse)():
        pass
    raise DataError(f"{before}a row{after}")


def first_code(likelihood: Likelihood) -> Callable[[Any], Array]:
    """Return response values before the likelihood is prepared: numbers as floats, levels unchanged."""
    if likelihood.of_counts() is not None:
        return np.asarray
    return likelihood.encode


def moments_by(
    recipe: ColumnRecipe, likelihood: Likelihood
) -> Callable[[Block], AnyMoments] | None:
    """Return the function that computes the moments of a block for a Gaussian model, by group if effects vary; None for other likelihoods."""
    if not likelihood.least_squares:
        return None
    terms = tuple(recipe.grouped.values())
    head = len(recipe.columns) - sum(len(term.columns) for term in terms)
    if terms:
        return partial(
            arrow_moments_of_rows, columns=recipe.columns[:head], terms=terms
        )
    return partial(moments_of, columns=recipe.columns)


def _survey(
    making: Making,
    recipe: ColumnRecipe,
    likelihood: Likelihood,
    name: str,
    progress: bool | None,
) -> Survey:
    fn = partial(survey_of, moments=moments_by(recipe, likelihood), counted=True)
    return require_survey(
        one_pass(making, fn, add, name=name, rows=None, progress=progress)[0], name
    )


def require_survey(survey: Survey | None, name: str) -> Survey:
    """The survey of some rows. DataError when there are none, or none that counts."""
    if survey is None:
        raise DataError(f"{name} holds no rows that count: a model needs at least one")
    if not survey.weight > 0:
        raise DataError("the weights sum to zero: no observation is left")
    return survey


def normalised_survey(survey: Survey, kind: WeightKind) -> tuple[Survey, float]:
    """Return the survey with sampling weights that sum to the number of rows, and the factor of the weights."""
    if kind != "sampling":
        return survey, 1.0
    unit = survey.n / survey.weight
    sample = survey.sample
    if sample.weights is not None:
        sample = sample._replace(weights=sample.weights * unit)
    if survey.moments is None:
        moments = None
    else:
        moments = survey.moments.times(unit)
    return survey._replace(weight=float(survey.n), sample=sample, moments=moments), unit


def design_of(
    recipe: Any, survey: Survey, bound: Likelihood, source: Callable[[Block], RowSource], *, response: str,
    notes: tuple[str, ...], kind: WeightKind,
) -> Design:  # fmt: skip
    """Return the design of surveyed rows, which stay at their source."""
    columns = recipe.columns
    sample = survey.sample
    sample = sample._replace(
        X=written_where_small(sample.X), y=encode_values(bound.encode, sample.y)
    )
    if INTERCEPT in columns and (sample.X[:, columns.index(INTERCEPT)] != 1.0).any():
        raise DataError("a column called 'Intercept' is all ones; rename it")
    return Design(
        X=np.zeros((0, len(columns))),
        y=np.zeros(0),
        columns=columns,
        free=np.array([c == INTERCEPT for c in columns], dtype=bool),
        recipe=recipe,
        offset=None if sample.offset is None else sample.offset[:0],
        weights=None if sample.weights is None else sample.weights[:0],
        precision=None if sample.precision is None else sample.precision[:0],
        kept=survey.moments,
        source=source(sample),
        response=response,
        notes=notes,
        weight_kind=kind,
    )
