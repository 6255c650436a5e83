"""Designs of rows in parts: files, blocks of arrays, and the partitions of a dask collection.

One pass surveys the rows (see `probreg.data.blocks.survey`) and computes the moments of a Gaussian model; its fits then need no rows.
If the formula has categories, or transforms that learn, an earlier pass collects levels and evenly spaced rows.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from operator import add, attrgetter
from typing import Any, Literal

import numpy as np

from probreg.data import INTERCEPT, Block, ColumnRecipe, Design
from probreg.data.blocks.batches import (
    ArrayBlocks,
    FormulaBlocks,
    KeptBlocks,
    encode_values,
)
from probreg.data.blocks.files import Files
from probreg.data.blocks.frames import Tables
from probreg.data.blocks.learning import learn_recipe, plan
from probreg.data.blocks.parts import LocalPart, Parts, RowsInParts, pass_over
from probreg.data.blocks.survey import Orders, Survey, declared_order, survey_of
from probreg.data.design import arrow_moments_of_rows, moments_of
from probreg.data.grouped_moments import AnyMoments
from probreg.data.implicit_columns import dense_where_small
from probreg.data.weights import WeightKind, read_weights
from probreg.errors import DataError, row_error
from probreg.formula.terms import Counted
from probreg.likelihoods import Binomial, Likelihood
from probreg.model.compatibility import (
    Choices,
    notes_on_empty_classes,
    response_of_counts,
    with_formulas,
)

Array = np.ndarray


def from_tables(
    formula: str | Mapping[str, str], tables: Tables, choices: Choices, *, weights: Any, offset: Any, missing: Literal["raise", "drop"],
) -> tuple[Design, Likelihood]:  # fmt: skip
    """Return the design of a formula for files or a dask DataFrame, and the likelihood prepared for its response."""
    kind, weights = read_weights(weights)
    classes = (
        choices.likelihood is not None and choices.likelihood.of_counts() is not None
    )
    chosen = plan(
        formula,
        tables,
        weights=weights,
        offset=offset,
        missing=missing,
        kind=kind,
        classes=classes,
    )
    likelihood, likelihood_notes = response_of_counts(
        choices.likelihood, chosen.parts.counted
    )
    parts = chosen.files.parts(chosen.selection.names)
    recipe, selection, notes = learn_recipe(chosen, parts)
    blocks = FormulaBlocks(
        selection,
        recipe,
        first_code(likelihood),
        kind,
    )
    design, bound = from_parts(
        blocks,
        parts,
        choices,
        likelihood,
        declared=chosen.declared_levels,
        response=chosen.parts.title,
    )
    notes = (*notes, *design.notes, *likelihood_notes)
    return replace(design, notes=notes), bound


def from_array_blocks(
    blocks: ArrayBlocks, parts: Parts, choices: Choices, *, response: str
) -> tuple[Design, Likelihood]:
    """Return the design of arrays that come in blocks, and the likelihood prepared for their response."""
    return from_parts(
        replace(blocks, encode=first_code(choices.likelihood)),
        parts,
        choices,
        choices.likelihood,
        declared=declared_order,
        response=response,
    )


def from_parts(
    blocks: FormulaBlocks | ArrayBlocks,
    parts: Parts,
    choices: Choices,
    likelihood: Likelihood,
    *,
    declared: Callable[[Orders, Array], tuple[Any, ...] | None],
    response: str,
) -> tuple[Design, Likelihood]:
    """Return the design of the rows that `blocks` makes from parts; `declared` returns the declared order of response levels."""
    # up to this many numbers (a megabyte) a design is kept between passes, because reading the file again costs more than sums
    max_kept = 2**17
    recipe = blocks.recipe
    first: Any = blocks
    moments = moments_by(recipe, likelihood)
    if isinstance(blocks, FormulaBlocks) and moments is not None:
        # columns of groups stay implicit if their moments are computed by group
        first = replace(blocks, lazy=bool(recipe.grouped))
    fn = partial(survey_of, moments=moments)
    total, _, tally = pass_over(parts, first, fn, add)
    if total is None:
        raise DataError(
            f"{parts.name} holds no rows that count: a model needs at least one with a weight above 0"
        )
    survey, unit = normalised_survey(total, blocks.kind)
    notes: tuple[str, ...] = ()
    # counts that `of_rows` has checked
    if survey.values.ndim == 2 and likelihood.of_counts() is not None:
        kind: Counted = (
            "p" if isinstance(likelihood.of_counts(), Binomial) else "counts"
        )
        likelihood, notes = response_of_counts(likelihood, kind)
    levels = declared(tally.orders, survey.response)
    bound = _prepare(choices, likelihood, survey, levels, blocks, parts)
    notes += notes_on_empty_classes(likelihood, bound, levels)
    final: Any = replace(blocks, encode=partial(encode_values, bound.encode), unit=unit)
    if (
        isinstance(parts, LocalPart)
        and isinstance(parts.part, Files)
        and survey.n * len(recipe.columns) <= max_kept
    ):
        final = KeptBlocks(final)
    columns = recipe.columns
    sample = survey.sample
    sample = sample._replace(
        X=dense_where_small(sample.X),
        y=encode_values(bound.encode, sample.y),
        weights=None if sample.weights is None else sample.weights * unit,
    )
    if INTERCEPT in columns and (sample.X[:, columns.index(INTERCEPT)] != 1.0).any():
        raise DataError("a column called 'Intercept' is all ones; rename it")
    by_row = {k: getattr(sample, k) for k in ("offset", "weights", "precision")}
    design = Design(
        X=recipe.assign_predictors(np.zeros((0, len(columns)))),
        y=np.zeros(0),
        columns=columns,
        recipe=recipe,
        kept=survey.moments,
        source=RowsInParts(parts, final, survey.n, survey.weight, sample),
        response=response,
        notes=(*tally.notes, *notes),
        weight_kind=blocks.kind,
        **{name: v[:0] for name, v in by_row.items() if v is not None},
    )
    return design, with_formulas(bound, design, sample.X)


def _prepare(
    choices: Choices,
    likelihood: Likelihood,
    survey: Survey,
    levels: tuple[Any, ...] | None,
    blocks: FormulaBlocks | ArrayBlocks,
    parts: Parts,
) -> Likelihood:
    """Return the likelihood prepared for the responses of a survey.

    If it raises an error about a value, one more pass finds the row, because a survey keeps values without their rows.
    """
    try:
        return likelihood.prepare(
            survey.response,
            levels=levels,
            event=choices.event,
            reference=choices.reference,
        )
    except DataError as error:
        if error.of_row is None:
            raise
        before, place, after = error.of_row
    refuse = partial(_refuse_value, survey.response[place], before, after)
    pass_over(parts, replace(blocks, encode=refuse), attrgetter("rows"), add)
    raise DataError(f"{before}a row{after}")


def _refuse_value(value: Any, before: str, after: str, values: Any) -> Array:
    """Raise the error about a value of the response for the first row that has it."""
    import pandas as pd

    values = np.asarray(values)
    if values.ndim == 2:
        is_equal = (values == value).all(1)
    else:
        is_equal = pd.Index(values).isin([value])
    if is_equal.any():
        raise row_error(before, int(np.argmax(is_equal)), after)
    return np.zeros(len(values))


def first_code(likelihood: Likelihood) -> Callable[[Any], Array]:
    """Return response values before the likelihood is prepared: numbers as floats, levels unchanged."""
    if likelihood.of_counts() is not None or likelihood.levels:
        return np.asarray
    return likelihood.encode


def moments_by(
    recipe: ColumnRecipe, likelihood: Likelihood
) -> Callable[[Block], AnyMoments] | None:
    """Return the function that computes the moments of a block for a Gaussian model, by group if effects vary; None for other likelihoods
    and for formulas of several parameters."""
    if not likelihood.least_squares or len(recipe.by_prefix) > 1:
        return None
    terms = tuple(recipe.grouped.values())
    head = len(recipe.columns) - sum(len(term.columns) for term in terms)
    if terms:
        return partial(
            arrow_moments_of_rows, columns=recipe.columns[:head], terms=terms
        )
    return partial(moments_of, columns=recipe.columns)


def normalised_survey(survey: Survey, kind: WeightKind) -> tuple[Survey, float]:
    """Return the survey with sampling weights that sum to the number of rows, and the factor of the weights."""
    if kind != "sampling":
        return survey, 1.0
    unit = survey.n / survey.weight
    if survey.moments is None:
        moments = None
    else:
        moments = survey.moments.times(unit)
    return survey._replace(weight=float(survey.n), moments=moments), unit
