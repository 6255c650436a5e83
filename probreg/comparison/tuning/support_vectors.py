"""Choose C and epsilon of a support vector regression."""

from dataclasses import replace
from itertools import product

import numpy as np

from probreg.arguments.arrays import floats
from probreg.arguments.scalars import Seed, check_arguments
from probreg.arguments.types import ArrayLike
from probreg.comparison.tuning.held_out import folds_of
from probreg.data.rows import full_weights
from probreg.errors import Incompatible
from probreg.fits.fit import Fit, fit as fit_model
from probreg.inference.notes import Topic, important_note
from probreg.inference.penalized.support_vectors import SupportVectors, scaled_prior
from probreg.likelihoods import EpsilonInsensitive
from probreg.system.progress import each_of


@check_arguments
def tune_svr(
    fit: Fit,
    *,
    C: ArrayLike,
    epsilon: ArrayLike,
    folds: ArrayLike = 10,
    seed: Seed = 0,
) -> Fit:
    """Choose C and epsilon of a support vector regression by the mean absolute error of K-fold cross-validation.

    Every pair is fitted on the same folds. The absolute error is comparable between pairs, which the epsilon-insensitive loss
    is not.

    Parameters
    ----------
    fit : Fit
        The result of `pr.svr`, which states the kernel, the rows and the columns.
    C : float or array
        The weights of the loss to try.
    epsilon : float or array
        The half widths of the tube to try, each with every C.
    folds : int or array (n,)
        Their number, or one label per row; as many folds as rows leave one row out.
    seed : int
        Seed of the folds.

    Returns
    -------
    Fit
        The fit of all rows at the pair with the smallest error, which a note states.

    Raises
    ------
    DataError
        For values out of range, and for folds that cannot be.
    Incompatible
        For a fit of another likelihood.

    Examples
    --------
    >>> import probreg as pr
    >>> x = np.linspace(0.0, 6.0, 30)
    >>> start = pr.svr(x, np.sin(x), C=1.0, epsilon=0.1)
    >>> print(tune_svr(start, C=[0.01, 10.0], epsilon=[0.01, 0.3], folds=5).notes[0])
    C = 10 and epsilon = 0.01 have the smallest mean absolute error of 5 folds, ..., of 4 pairs
    """
    model = fit.model
    if not isinstance(model.likelihood, EpsilonInsensitive):
        raise Incompatible("tune_svr needs a fit of pr.svr")
    fold = folds_of(model, folds, seed=seed)
    pairs = list(product(np.ravel(floats(C, "C")), np.ravel(floats(epsilon, "epsilon"))))  # fmt: skip
    unit = replace(
        model, aux={}, prior=scaled_prior(model, 1.0), scales_compared=len(pairs)
    )
    candidates = [
        (replace(unit, likelihood=EpsilonInsensitive(e)), SupportVectors(C=c))
        for c, e in pairs
    ]
    errors = np.zeros((len(pairs), model.design.n))

    def predict_fold(pair_and_fold: tuple[int, int]) -> None:
        j, k = pair_and_fold
        candidate, method = candidates[j]
        others = replace(candidate, design=model.design.take(fold != k))
        rows = model.design.take(fold == k)
        eta = rows.eta(fit_model(others, method).solution.beta)[:, 0]
        errors[j, fold == k] = np.abs(rows.observed - eta)

    each_of(predict_fold, [*np.ndindex(len(pairs), int(fold.max()) + 1)], "folds")
    weights = full_weights(model.design.weights, model.design.n)
    mean_errors = np.average(errors, axis=1, weights=weights)
    i = int(np.argmin(mean_errors))
    note = important_note(
        Topic.METHOD,
        "C = {C:g} and epsilon = {epsilon:g} have the smallest mean absolute error of {folds} folds, {error:.6g}, of {count} pairs",
        C=pairs[i][0],
        epsilon=pairs[i][1],
        folds=fold.max() + 1,
        error=mean_errors[i],
        count=len(pairs),
    )
    best = fit_model(*candidates[i])
    return replace(best, notes=(note, *best.notes))
