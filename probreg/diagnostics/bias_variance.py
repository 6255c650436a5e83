"""Bias-variance decomposition of a model for a known truth: error = variance + bias^2, over simulated responses.

Responses are simulated from the truth at the rows of the design, each set is fitted, and the predicted means are compared
with the true ones. If the fit is linear in y, bias and variance have a closed form.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from probreg.arguments.arrays import as_array
from probreg.arguments.scalars import (
    ArrayLike,
    Count,
    Flag,
    RowsLike,
    Seed,
    check_arguments,
)
from probreg.data import Design
from probreg.diagnostics.simulation.simulate import (
    Mean,
    Truth,
    chosen_method,
    linear_predictors,
    noise_variance,
    repeat_rows,
    require_method,
    simulate_response,
    with_known_aux,
)
from probreg.errors import DataError, Incompatible, NotConverged
from probreg.fits.fit import Fit
from probreg.fits.fitted import Fitted
from probreg.fits.prediction import predictive
from probreg.inference import Method, MethodName
from probreg.inference.modes.closed_form import (
    PriorRows,
    combinations,
    posterior_given_sigma,
)
from probreg.inference.penalized.paths import rescale_model
from probreg.likelihoods import Likelihood
from probreg.likelihoods.links import IDENTITY
from probreg.model.model import Model
from probreg.priors import Normal
from probreg.system.terminal import clean_lines, each_of
from probreg.tables import Table

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class BiasVariance:
    """error = variance + bias2 row by row and on average, E[(g - f)^2] = Var(g) + (E g - f)^2; result of `bias_variance`.

    `data`: Dataset over (obs), with (scale) first for a sweep and (level) last for classes: truth f, fitted = E g,
    bias, bias2, variance, error, noise = Var(y), and Monte Carlo standard errors bias_se, variance_se, error_se (zero in
    closed form). `average`: the same over the rows, summed over levels, with new_error = error + noise, the expected
    squared error at a new response; df = trace of the smoother if there is one. In squared units of y.
    """

    data: Any
    average: Any
    how: Literal["closed form", "simulation"]
    reps: int
    response: str

    @property
    def best(self) -> float:
        """The scale with the smallest average error. Incompatible without a sweep."""
        if "scale" not in self.average.dims:
            raise Incompatible("there is one scale only: pass scales= to bias_variance")
        return float(
            self.average["scale"][int(np.argmin(self.average["error"].values))]
        )

    def __str__(self) -> str:
        source = "in closed form"
        if self.how == "simulation":
            source = f"from {self.reps} simulated responses"
        names = ["bias2", "variance", "error", "error_se", "noise", "new_error"]
        part = self.average[names + ["df"] * ("df" in self.average)]
        if not part.dims:
            part = part.expand_dims(at=["average"])
        n_failed = int(self.average["failed"].sum())
        note = [f"note: {n_failed} fits without an estimate are left out"]
        head = f"squared error of the mean of {self.response}, average over {self.data.sizes['obs']} rows, {source}"
        shown = Table.from_pandas(part.to_dataframe(), number="{:.4g}".format)
        return clean_lines(head, *shown.lines(), *note * (n_failed > 0))


@check_arguments
def bias_variance(
    model: Model,
    truth: Truth | Fit | Mean | ArrayLike,
    x: RowsLike | None = None,
    *,
    method: Method | MethodName = "auto",
    reps: Count = 200,
    scales: Sequence[float] | None = None,
    seed: Seed = 0,
    progress: Flag | None = None,
) -> BiasVariance:
    """Bias E[g] - f and variance Var[g] of the predicted mean g at the rows `x` when the truth is f.

    With "auto" a Gaussian model with a prior that does not depend on y is a linear smoother g = S y + c. Then bias S f + c -
    f and variance sigma^2 |S_i|^2 are exact. Otherwise, and for any named method, `reps` responses are drawn, the same
    for every scale, and fitted. Moments over the draws have divisor `reps`, so that the identity is exact. This
    estimate of bias^2 is too high by variance / reps, and the noise of a method's own draws counts as variance. Rows
    of precision w have the noise variance sigma^2 / w, and new rows `x` sigma^2; averages count each row once.

    Parameters
    ----------
    model : Model
        A model.
    truth : array (p,) or (p, m), Fit, callable or Truth
        Coefficients, a Fit (of this model or of a richer one at the same rows), a function of the variables, or a
        `Truth`, which also takes nuisance parameters.
    x : table or array (n, q), optional
        The rows; the training rows by default.
    method : str or Method
        The method of the fits.
    reps : int
        Number of responses drawn.
    scales : sequence of float, optional
        Factors of the scales of the prior (of Normal(1.0), in place of a flat prior), for a sweep.
    seed : int
        Seed of all random numbers.
    progress : bool, optional
        Whether a bar is shown; by default after a second, at a terminal or in a notebook.

    Returns
    -------
    BiasVariance
        `data` has bias and variance of each row.

    Raises
    ------
    DataError
        If the truth has the wrong shape, is outside the range of a mean or has no sigma.
    Incompatible
        If the method cannot fit the model.
    NotConverged
        If fewer than two fits have an estimate.

    References
    ----------
    Geman, Bienenstock & Doursat 1992.

    Examples
    --------
    >>> model = Model.from_arrays([[-1.0], [0.0], [1.0]], [1.0, 2.0, 4.0], columns=["x"], prior=Normal(1.0), aux={"sigma": 1.0})
    >>> found = bias_variance(model, [0.0, 3.0])  # x'x = 2 and a penalty of 1: two thirds of the slope are left
    >>> found.data["bias"].values.round(6), found.data["variance"].values.round(6)
    (array([ 1.,  0., -1.]), array([0.555556, 0.333333, 0.555556]))
    """
    design = model.design
    design.need_rows("a simulation of responses")
    design.refuse_sampling("a simulation of responses")
    if x is not None:
        design.need_columns_elsewhere("a simulation at other rows")
    target = design if x is None else design.at(x)
    known_truth = with_known_aux(truth, model)
    eta, eta_x = linear_predictors(known_truth, model, target, x)
    if scales is None:
        models = [model]
    else:
        scales = parse_scales(scales)
        models = [scale_prior(model, s) for s in scales]
    f = model.likelihood.mean(eta_x, **known_truth.aux)
    noise = noise_variance(
        model.likelihood,
        eta_x,
        model.likelihood.at_rows(known_truth.aux, target.precision),
        model.given(target),
    )
    if method == "auto" and all(is_linear_in_response(m) for m in models):
        parts = [
            decompose_linear(m, eta, target, f, model.noise(known_truth.aux))
            for m in models
        ]
        how: Literal["closed form", "simulation"] = "closed form"
    else:
        draws = simulate_predictions(
            models,
            eta,
            known_truth.aux,
            target,
            method,
            reps,
            seed,
            progress,
        )
        parts = [moments(g, f, row_shares(target)) for g in draws]
        how = "simulation"
    data, average = _tables(parts, f, noise, target, model.likelihood, scales)
    return BiasVariance(data, average, how, reps, design.response)


def parse_scales(scales: Any) -> list[float]:
    """Return the scales as a list; DataError unless they are positive finite numbers."""
    values = as_array(scales, "scales")
    if (
        values.dtype.kind not in "fiu"
        or values.ndim != 1
        or not len(values)
        or not (np.isfinite(values) & (values > 0)).all()
    ):
        raise DataError(f"scales={scales!r}: expected positive finite numbers")
    return values.astype(float).tolist()


def scale_prior(model: Model, factor: float) -> Model:
    """Return the model with every scale of its prior multiplied; Normal(factor) in place of a flat prior."""
    if not model.joint.informative.any():
        return model.with_prior(Normal(factor))
    return rescale_model(model, factor)


@dataclass(frozen=True, eq=False)
class DecompositionParts:
    """Arrays over rows (n,) or (n, K) by name, and further numbers for their averages."""

    rows: Mapping[str, Array]
    numbers: Mapping[str, float]


def is_linear_in_response(model: Model) -> bool:
    """Return whether the fitted mean is S y + c: Gaussian, normal priors that do not depend on y or on an unknown sigma."""
    is_normal = model.likelihood.least_squares and model.joint.gaussian
    if not (is_normal and model.mode_free_of_sigma):
        return False
    y = model.design.observed
    transformed = replace(
        model, design=replace(model.design, y=1.0 - 3.0 * y)
    ).joint  # a prior in units of sd(y) depends on y
    return np.array_equal(
        transformed.precision(), model.joint.precision()
    ) and np.array_equal(transformed.center, model.joint.center)


def decompose_linear(
    model: Model, eta: Array, target: Design, f: Array, sigma: float
) -> DecompositionParts:
    """Return bias and variance in closed form.

    E g is the fit to the noise-free response; Cov(beta) = sigma^2 A^-1 X'WX A^-1 with A = X'WX + P, W frequencies or
    precisions, because X'W Cov(y) WX = sigma^2 X'WX for both.
    """
    design = replace(model.design, y=eta[:, 0])
    posterior = posterior_given_sigma(
        design.moments, PriorRows.of(model.joint), model.noise()
    )
    if posterior.rank.dropped:
        raise Incompatible(
            f"these columns are not identified: {combinations(posterior.rank, design.columns)}. Drop one, or give a proper prior"
        )
    # A^-1 = root root' and X'WX = R'R: Var g_i = sigma^2 |x_i'A^-1 R'|^2, and df = tr X A^-1 X'W = |R root|^2.
    R = np.asarray(design.moments.R, dtype=float)
    fitted = target.eta(posterior.mean[:, None])[:, 0]
    root = np.asarray(posterior.root, dtype=float)
    variance = sigma**2 * ((target.X @ root @ (R @ root).T) ** 2).sum(1)
    bias = fitted - f
    rows = {
        "fitted": fitted,
        "bias": bias,
        "bias2": bias**2,
        "variance": variance,
        "error": variance + bias**2,
    }
    rows |= dict.fromkeys(("bias_se", "variance_se", "error_se"), np.zeros_like(bias))
    numbers = dict.fromkeys(("bias2_se", "variance_se", "error_se", "failed"), 0.0)
    return DecompositionParts(rows, numbers | {"df": float(((R @ root) ** 2).sum())})


def moments(draws: Array, f: Array, share: Array) -> DecompositionParts:
    """Return moments over the fits with an estimate, with their number as divisor, and standard errors over the draws."""
    g = draws[np.isfinite(draws).reshape(len(draws), -1).all(1)]
    fitted = g.mean(0)
    # mean (g - f)^2 = mean (g - mean g)^2 + (mean g - f)^2 exactly, where all three have the same divisor.
    deviation = g - fitted
    bias = fitted - f
    square = deviation**2
    error = (g - f) ** 2

    def se(values: Array) -> Array:
        return values.std(0, ddof=1) / np.sqrt(len(g))

    def average_se(values: Array) -> float:
        by_row = values.reshape(*values.shape[:2], -1).sum(-1)
        return float(se((by_row * share).sum(-1)))

    rows = {
        "fitted": fitted,
        "bias": bias,
        "bias2": bias**2,
        "variance": square.mean(0),
        "error": error.mean(0),
        "bias_se": se(g),
        "variance_se": se(square),
        "error_se": se(error),
    }
    numbers = {
        # of (mean g - f)^2 by its influence 2 (mean g - f)(g - mean g) (delta method)
        "bias2_se": average_se(2.0 * bias * deviation),
        "variance_se": average_se(square),
        "error_se": average_se(error),
        "failed": float(len(draws) - len(g)),
    }
    return DecompositionParts(rows, numbers)


def row_shares(target: Design) -> Array:
    """Return the share of each row in an average, by frequency."""
    w = target.row_weights
    return w / w.sum()


def simulate_predictions(
    models: list[Model],
    eta: Array,
    aux: Mapping[str, float],
    target: Design,
    method: str | Method,
    reps: int,
    seed: int,
    progress: bool | None,
) -> list[Array]:
    """Return the predicted means of each model for each simulated response, (reps, n) or (reps, n, K); nan for a fit without an
    estimate."""
    repeated = repeat_rows(models[0])
    rows = models[0].design.row_of_observations
    methods = [chosen_method(m, method) for m in models]
    for m, chosen in zip(models, methods):
        require_method(m, chosen)
        if not chosen.probabilities:
            raise Incompatible(f"{chosen.name} is a classifier and predicts no mean")

    def once(r: int) -> list[Array | None]:
        rng = np.random.default_rng([seed, r])
        simulated = simulate_response(repeated, eta[rows], aux, rng).design
        estimates = []
        for m, chosen in zip(models, methods):
            this = replace(m, design=simulated)
            prediction = None
            with suppress(NotConverged):  # such as of an exact fit
                rng = np.random.default_rng([seed, r, 1])
                resolved = chosen.resolve(this, rng)
                solution = resolved.complete(rng)
                if solution.status.good:
                    fit = Fitted(resolved.model, resolved.method, solution, seed)
                    prediction = _predict_mean(fit, target)
            estimates.append(prediction)
        return estimates

    results = each_of(once, range(reps), "bias_variance, data sets", show=progress)
    return [
        _stack_estimates(list(estimates), chosen)
        for estimates, chosen in zip(zip(*results), methods)
    ]


def _predict_mean(fit: Fitted, target: Design) -> Array:
    """E[y] at the target rows; for an identity link the mean over draws is at the mean of the draws, with no error."""
    if fit.model.likelihood.link is IDENTITY:
        return target.eta(fit.solution.beta)[:, 0]
    return predictive(fit, target).mean()


def _stack_estimates(estimates: list[Array | None], method: Method) -> Array:
    good = [g for g in estimates if g is not None]
    if len(good) < 2:
        raise NotConverged(
            f"{method.name}: {len(good)} of {len(estimates)} simulated responses had an estimate, expected at least two: use a prior such as "
            "Normal(2.5), or more reps"
        )
    return np.stack(
        [np.full_like(good[0], np.nan) if g is None else g for g in estimates]
    )


def _tables(
    parts: list[DecompositionParts],
    f: Array,
    noise: Array,
    target: Design,
    likelihood: Likelihood,
    scales: Sequence[float] | None,
) -> tuple[Any, Any]:
    import pandas as pd
    import xarray as xr

    dims = ("obs", "level")[: f.ndim]
    coords: dict[str, Any] = {"obs": target.row_names}
    if f.ndim == 2:
        coords["level"] = likelihood.level_names
    tables = []
    averages = []
    share = xr.DataArray(row_shares(target), dims="obs")
    for part in parts:
        rows = {k: (dims, v) for k, v in part.rows.items()}
        table = xr.Dataset(rows, coords)
        tables.append(table)
        weighted = (table[["bias2", "variance", "error"]] * share).sum()
        averages.append(weighted.assign(part.numbers))
    data = tables[0]
    average = averages[0]
    if scales is not None:
        index = pd.Index(scales, name="scale")
        data = xr.concat(tables, index)
        average = xr.concat(averages, index)
    data = data.assign(truth=(dims, f), noise=(dims, noise))
    # E (y_new - g)^2 = Var y_new + E (g - f)^2, because y_new is independent of the rows of g.
    level = (data["noise"] * share).sum(skipna=False)
    return data, average.assign(noise=level, new_error=average["error"] + level)
