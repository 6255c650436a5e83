"""Designs whose rows are on a dask cluster: a data frame by a formula, or arrays, partition by partition.

The passes are those over files (`probreg.model.from_files`), taken by the workers: one for levels where the formula has categories,
one that surveys the rows and takes the moments of a Gaussian model. This process receives sums, the levels, some
hundred first rows and at most 20,000 evenly spaced ones.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate
from operator import or_
from typing import Any, Literal

from probreg.data import ColumnRecipe, Design
from probreg.data.blocks.batches import FormulaBlocks, Selection, Tally, encode_values
from probreg.data.blocks.cluster import Partitions, Workers
from probreg.data.blocks.frames import array_parts, frame_of
from probreg.data.blocks.learning import Plan, empty_seen, learn_recipe, plan, recipe_of
from probreg.data.blocks.partition import (
    ArrayParts,
    FormulaParts,
    OfPart,
    Partition,
    Survey,
    complete_rows,
    seen_by_both,
    seen_in,
    survey_in,
    surveyed_both,
)
from probreg.data.blocks.slices import array_blocks
from probreg.data.blocks.survey import survey_of
from probreg.data.weights import read_weights
from probreg.likelihoods import Likelihood
from probreg.model.compatibility import Choices, of_rows
from probreg.model.from_files import (
    apart_for,
    design_of,
    first_code,
    moments_by,
    normalised_survey,
    of_survey,
    require_survey,
)


def from_dask(
    formula: str, data: Any, choices: Choices, *, client: Any, weights: Any, offset: Any,
    missing: Literal["raise", "drop"],
) -> tuple[Design, Likelihood]:  # fmt: skip
    """The design of a formula at a dask DataFrame or at Parquet files, and the likelihood prepared for its response."""
    kind, weights = read_weights(weights)
    frame = frame_of(data, client, complete=missing == "drop")
    chosen = plan(
        formula, frame, weights=weights, offset=offset, missing=missing, kind=kind
    )
    likelihood, likelihood_notes = choices.of_response(chosen.parts.counted)
    partitions = frame.partitions(chosen.selection.names)
    afar = replace(chosen.selection, files=Partition(None, partitions.name))
    recipe, starts, notes = _recipe(chosen, partitions, afar)
    parts = FormulaParts(
        FormulaBlocks(afar, recipe, weights, first_code(likelihood), kind), starts
    )
    survey, tally = _survey(
        partitions,
        replace(parts, making=apart_for(parts.making, likelihood)),
        recipe,
        likelihood,
    )
    survey, unit = normalised_survey(survey, kind)
    bound = choices.prepare_likelihood(
        likelihood,
        survey.response,
        chosen.declared_levels(survey.response, tally.orders),
    )
    final = FormulaParts(
        replace(parts.making, encode=partial(encode_values, bound.encode), unit=unit),
        starts,
    )
    source = partial(Workers, partitions, final, survey.n, survey.weight)
    notes = (*notes, *tally.notes, *likelihood_notes)
    return design_of(
        recipe, survey, bound, source, response=chosen.response, notes=notes, kind=kind
    ), bound


def from_dask_arrays(
    X: Any, y: Any, choices: Choices, *, client: Any, columns: Sequence[str] | None, intercept: bool, weights: Any,
    offset: Any, trials: Any, name: str,
) -> tuple[Design, Likelihood]:  # fmt: skip
    """The design of dask arrays that fit together, and the likelihood prepared for their response."""
    (chosen, _), (kind, weights) = choices.of_response(), read_weights(weights)
    partitions = array_parts(X, y, weights, offset, trials, client)
    width = X.shape[1] if X.ndim == 2 else 1
    compose = partial(of_rows, chosen)
    making = array_blocks(
        (),
        columns=columns,
        intercept=intercept,
        width=width,
        kind=kind,
        compose=compose,
    )
    parts = ArrayParts(replace(making, name=partitions.name, encode=first_code(chosen)))
    survey, unit = normalised_survey(
        _survey(partitions, parts, making.recipe, chosen)[0], kind
    )
    likelihood, notes = of_survey(chosen, survey)
    bound = choices.prepare_likelihood(likelihood, survey.response, None)
    final = ArrayParts(
        replace(parts.making, encode=partial(encode_values, bound.encode), unit=unit)
    )
    source = partial(Workers, partitions, final, survey.n, survey.weight)
    return design_of(
        making.recipe, survey, bound, source, response=name, notes=notes, kind=kind
    ), bound


def _recipe(
    chosen: Plan, partitions: Partitions, afar: Selection
) -> tuple[Any, tuple[int, ...] | None, tuple[str, ...]]:
    """Return the recipe, the numbers of the partitions' first rows if needed, and notes."""
    if not chosen.needs_scan:
        recipe, notes = recipe_of(chosen, False)
        return recipe, None, notes
    starts = None
    if chosen.learning:  # from evenly spaced rows of all: the same as on one machine, where the rows before are counted
        rows = partitions.reduce(partial(complete_rows, afar), or_)
        starts = tuple(accumulate((rows[k] for k in range(len(rows) - 1)), initial=0))
    seen = partitions.reduce(
        partial(seen_in, afar, empty_seen(chosen), starts), seen_by_both
    )
    recipe, notes = learn_recipe(chosen, seen)
    return recipe, starts, notes


def _survey(
    partitions: Partitions, parts: OfPart, recipe: ColumnRecipe, likelihood: Likelihood
) -> tuple[Survey, Tally]:
    fn = partial(survey_of, moments=moments_by(recipe, likelihood))
    survey, tally = partitions.reduce(partial(survey_in, parts, fn), surveyed_both)
    return require_survey(survey, partitions.name), tally
