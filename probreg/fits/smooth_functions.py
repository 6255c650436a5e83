"""The smooth functions of a fit: their degrees of freedom, values at points, and confidence bands.

f(x) = C(x) beta_b with C the columns of the function. With beta_b ~ N(b, V_bb), f ~ N(C b, C V_bb C'), where V_bb includes the
uncertainty of estimated scales.
A pointwise band contains each f(x) with probability `prob`; a simultaneous band contains all of them at once. Its half-width is
c sd(x), with c the quantile of max_x |f(x) - E f(x)| / sd(x) (Ruppert, Wand & Carroll 2003, section 6.5).
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from probreg.arguments.arrays import floats
from probreg.data.formula.functions import TermFunction, term_functions
from probreg.errors import DataError, Incompatible
from probreg.fits.effects_table import off_span_of
from probreg.fits.fitted import OF_ROWS
from probreg.inference import Method, Solution
from probreg.inference.modes.wide import refuse_written_out
from probreg.inference.penalized.degrees import degrees_by_coefficient, degrees_by_draw
from probreg.inference.uncertainty.intervals.arithmetic import equal_tail, quantile
from probreg.likelihoods import SmoothLikelihood
from probreg.linalg import evenly_spaced, one_blas_thread
from probreg.linalg.vec import vec_entries
from probreg.model.draws import DrawnProcess
from probreg.model.model import Model
from probreg.model.term_priors import hyper_names
from probreg.priors import Flat, GaussianPrior, HierarchicalPrior

Array = np.ndarray
_DRAWS_OF_BAND = 4000  # largest number of posterior draws of a band
POINTS_ALONG_INPUTS = {
    1: 200,
    2: 40,
}  # number of points along each input, by the number of inputs


# ---- degrees of freedom --------------------------------------------------------------------------------------------------


def degrees_of_functions(model: Model, solution: Solution) -> dict[str, float]:
    """Return q - tr((H^-1)_bb P_bb) of the q coefficients of each smooth function, by name; for a posterior the mean over draws.

    H = J + P, with J the expected information of the likelihood and P the prior's precision. nan if there is no estimate, or no row
    to compute J from.
    """
    functions = term_functions(model.design)
    if not functions:
        return {}
    saved = {
        f.label: solution.stats.get(f"{OF_ROWS}edf {f.label}", np.nan)
        for f in functions
    }
    if not model.design.has_rows and np.isfinite(list(saved.values())).all():
        return saved
    has_sums = model.design.has_rows or model.likelihood.least_squares
    smooth = isinstance(model.likelihood, SmoothLikelihood) and bool(
        np.isfinite(solution.beta).all()
    )
    if not (has_sums and smooth) or any(
        not solution.aux.get(a, 1.0) > 0 for a in model.unknown
    ):
        return {f.label: np.nan for f in functions}
    if solution.draws is not None:
        degrees = degrees_by_draw(model, solution.draws)
    else:
        degrees = degrees_by_coefficient(model, solution.beta, **solution.aux)
    return {f.label: float(degrees[f.at].sum()) for f in functions}


def scales_of_functions(
    model: Model, solution: Solution
) -> dict[str, tuple[float, ...]]:
    """Return tau of each range block of each smooth function, by name, or the amplitude of a process.

    For a posterior it is the mean over draws; nan if a block has no single scale. Linear predictors with separate scales follow one
    another.
    """
    number = {name: j for j, name in enumerate(model.design.columns)}
    blocks = model.joint.blocks
    scales_by_function = {}
    for f in term_functions(model.design):
        scales = list[float]()
        for block in f.of.blocks:
            columns = tuple(number[c] for c in block)
            found = [i for i, b in enumerate(blocks) if b.columns == columns]
            scales += [_block_scale(model, solution, i) for i in found] or [np.nan]
        scales_by_function[f.label] = tuple(scales)
    return scales_by_function


def _block_scale(model: Model, solution: Solution, i: int) -> float:
    """Return tau of a block with the prior N(0, tau^2 I), or the amplitude of a process."""
    block = model.joint.blocks[i]
    prior = model.joint.blocks[i].prior
    if isinstance(prior, HierarchicalPrior):
        names = hyper_names(model.joint, model.design)[i]
        values = solution.posterior.values
        internal = prior.internal(
            {h: float(values[name].mean()) for h, name in names.items()}
        )
        size = prior.size_at(internal)
        if size is not None:
            return size
        prior = prior.given(**internal)
    if isinstance(prior, Flat):
        return np.inf
    if not isinstance(prior, GaussianPrior):
        return np.nan
    unit = 1.0
    if prior.sigma_units:
        unit = model.noise(solution.aux)
    P = prior.precision(len(block.columns))
    is_scalar = np.allclose(P, P[0, 0] * np.eye(len(P)), rtol=1e-12, atol=0)
    return float(unit / np.sqrt(P[0, 0])) if is_scalar else np.nan


def smooths_table(model: Model, solution: Solution) -> Any:
    """Return one row per smooth function: edf, columns (times predictors), tau of each block."""
    import pandas as pd

    functions = term_functions(model.design)
    m = model.shape[1]
    edf = degrees_of_functions(model, solution)
    tau = scales_of_functions(model, solution)
    names = [f.label for f in functions]
    columns = {
        "edf": list(edf.values()),
        "columns": [len(f.at) * m for f in functions],
        "tau": [tau[n] for n in names],
    }
    return pd.DataFrame(columns, index=pd.Index(names, name="function"))


def describe_smooths(table: Any) -> tuple[str, ...]:
    """Return a line with the degrees of freedom of the first six smooth functions."""
    limit = 6
    if table.empty:
        return ()
    if table["edf"].isna().all():  # likelihoods without second derivatives have no edf
        return ()
    entries = [
        f"{name} {row.edf:.4g} of {row.columns}"
        for name, row in zip(table.index, table.itertuples())
    ]
    remainder = ""
    if len(entries) > limit:
        remainder = f" and {len(entries) - limit} more in .smooths"
    return (f"effective degrees of freedom: {', '.join(entries[:limit])}{remainder}",)


# ---- the function at points ----------------------------------------------------------------------------------------------


def _both_bands(
    estimate: Array, sd: Array, lower: Array, upper: Array, critical: list[float]
) -> dict[str, Array]:
    """Return a function at n points for K outcomes by name: arrays (n, K), and the quantile of the largest |z| of each outcome (K,)."""
    half = np.array(critical) * sd
    return {
        "estimate": estimate,
        "sd": sd,
        "lower": lower,
        "upper": upper,
        "simultaneous_lower": estimate - half,
        "simultaneous_upper": estimate + half,
        "critical": np.array(critical),
    }


def _points(model: Model, function: TermFunction, at: Any) -> Array:
    """Return the points (n, d) in `at`, by default over the range of the function's rows, or of its basis if these are not known."""
    d = len(function.inputs)
    if at is None and d not in POINTS_ALONG_INPUTS:
        raise DataError(
            f"{function.label} is a function of {d} columns: say where with at=, an array (n, {d})"
        )
    if at is None:
        low, high = function.range_in(model.design)
        axes = [np.linspace(low[j], high[j], POINTS_ALONG_INPUTS[d]) for j in range(d)]
        return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, d)
    x = floats(at, "at")
    if x.ndim == 1 and d == 1:
        x = x[:, None]
    if x.ndim != 2 or x.shape[1] != d or not len(x) or not np.isfinite(x).all():
        raise DataError(
            f"at= holds finite points of {', '.join(function.inputs)}, an array (n, {d}); got shape {x.shape}"
        )
    return x


def curve(
    model: Model, method: Method, solution: Solution, function: TermFunction, at: Any, *,
    prob: float, derivative: bool, seed: int,
) -> Any:  # fmt: skip
    """Return the function, or its derivative, at points x with both bands: a Dataset (point[, outcome])."""
    import xarray as xr

    if derivative and len(function.inputs) != 1:
        raise DataError(
            f"derivative= is of one column, and {function.label} is a function of {len(function.inputs)}"
        )
    ends = None
    if derivative:
        ends = function.range_in(model.design)
    x = _points(model, function, at)
    rng = np.random.default_rng([seed, 7])
    band, kind = _compute_band(model, solution, function, x, ends, prob, rng)
    outcomes = model.likelihood.outcomes
    dims: tuple[str, ...] = ("point",)
    coords: dict[str, Any] = {
        "x": (("point", "input"), x),
        "input": list(function.inputs),
    }
    if outcomes:
        dims = ("point", "outcome")
        coords["outcome"] = list(outcomes)
    critical = band.pop("critical").tolist()
    arrays = {k: (dims, v if outcomes else v[:, 0]) for k, v in band.items()}
    attrs = {
        "function": function.label, "derivative": int(derivative), "prob": float(prob), "kind": kind,
        "method": method.name, "critical": critical,
    }  # fmt: skip
    return xr.Dataset(arrays, coords, attrs)


def _compute_band(
    model: Model,
    solution: Solution,
    function: TermFunction,
    x: Array,
    ends: Array | None,
    prob: float,
    rng: np.random.Generator,
) -> tuple[dict[str, Array], str]:
    """Return the band of the function at x, or of its derivative if `ends` are given, and how it was computed."""
    contrasts = model.likelihood.contrast_matrix
    off = off_span_of(model, solution)
    every: tuple[Any, ...] = () if off is None else off.processes
    processes = [p for p in every if p.key == function.term_name]
    if processes and isinstance(processes[0], DrawnProcess):
        process = processes[0]
        chosen = evenly_spaced(len(process.table), _DRAWS_OF_BAND)
        process = replace(
            process,
            amplitude=process.amplitude[chosen],
            table=process.table[chosen],
            at_rows=process.at_rows[chosen],
        )
        sums = process.sums(function.sums_at(x, ends), rng)
        band = _band_of(np.einsum("snm,km->ksn", sums, contrasts), prob)
        return band, "posterior draws"
    if ends is None:
        C = function.columns_at(x)
    else:
        C = function.slopes_at(x, ends)
    root = _root_left_out(function, x, ends)
    scale = np.zeros((1, model.shape[1]))
    if root.size:
        by_predictor = {p.predictor: p.scale for p in processes}
        common = by_predictor.get(None)
        predictors = np.arange(model.shape[1])
        if model.design.owner is not None:  # a term is in one predictor
            predictors = model.design.owner[[function.at[0]]]
        scales: list[Any] = [by_predictor.get(int(k), common) for k in predictors]
        if any(s is None for s in scales):
            raise Incompatible(
                f"{function.label} needs a normal prior of one scale, off the rows of its columns"
            )
        scale = np.column_stack(scales)
    if solution.draws is not None:
        beta = solution.draws.flat["beta"]
        chosen = evenly_spaced(len(beta), _DRAWS_OF_BAND)
        beta = beta[chosen][:, function.at]
        f = np.einsum("nq,sqm,km->ksn", C, beta, contrasts, optimize=True)
        if root.size:
            z = rng.standard_normal((len(chosen), beta.shape[2], root.shape[1]))
            scale = np.broadcast_to(scale, (solution.draws.count, scale.shape[1]))
            f = f + np.einsum(
                "nr,smr,km,sm->ksn", root, z, contrasts, scale[chosen], optimize=True
            )
        return _band_of(f, prob), "posterior draws"
    left_out = np.einsum("nr,m,km->knrm", root, scale[0], contrasts)
    left_out = left_out.reshape(len(contrasts), len(C), -1)
    band = _of_normal(solution, function.at, C, contrasts, prob, left_out, rng)
    law = "normal" if solution.df is None else "Student-t"
    if solution.conditional is None:
        return band, f"{law}, given the scales"
    return band, f"{law}, with the uncertainty of the scales"


def _root_left_out(function: TermFunction, x: Array, ends: Array | None) -> Array:
    """Return a root A (n, r) of the residual covariance A A' of a process, at scale 1; r is 0 without a residual."""
    R = function.left_out(x, ends)
    if R is None:
        return np.zeros((len(x), 0))
    with one_blas_thread():
        L, U = np.linalg.eigh(R)
    # of rank r up to rounding: the other eigenvalues are no larger than the errors of the largest
    is_positive = len(L) * np.finfo(float).eps * L[-1] < L
    return U[:, is_positive] * np.sqrt(L[is_positive])


def _of_normal(
    solution: Solution,
    columns: Array,
    C: Array,
    contrasts: Array,
    prob: float,
    left_out: Array,
    rng: np.random.Generator,
) -> dict[str, Array]:
    """Return the band of a point estimate with normal (or t) coefficients; `left_out` (K, n, r) is a root of its residual."""
    n_draws = 10_000  # draws of a normal distribution
    n_parts = 20  # at many points the normal draws are computed in this many parts
    refuse_written_out(solution, "a band about a smooth function")
    beta = solution.beta
    m = beta.shape[1]
    where = vec_entries(tuple(columns), m)
    k = beta.size
    root = solution.scale.half(np.eye(k)[where])
    if not np.isfinite(root).all():
        raise Incompatible(
            "a band about a smooth function needs standard errors, and this fit has none"
        )
    # f_k(x) = (C(x) kron t_k) vec(beta), cov = A A' with A = (C kron t_k) V^(1/2).
    # a square root of V with as few columns as its rank, so that draws need few numbers
    root = np.linalg.qr(root.T, mode="r").T.reshape(len(columns), m, -1)
    estimate = C @ beta[columns] @ contrasts.T
    A = np.einsum("nq,qmr,km->knr", C, root, contrasts, optimize=True)
    # f = C beta + r, r ~ N(0, tau^2 R) for each predictor
    A = np.concatenate([A, left_out], axis=-1)
    sd = np.sqrt(np.square(A).sum(-1)).T
    half = quantile(prob, solution.df) * sd
    z = rng.standard_normal((A.shape[-1], n_draws))
    if solution.df is not None:
        z = z / np.sqrt(rng.chisquare(solution.df, n_draws) / solution.df)
    parts = np.array_split(z, n_parts, axis=1)
    with one_blas_thread():
        critical = [
            _maximum_quantile((A[k] @ part for part in parts), sd[:, k], prob)
            for k in range(len(contrasts))
        ]
    return _both_bands(estimate, sd, estimate - half, estimate + half, critical)


def _band_of(f: Array, prob: float) -> dict[str, Array]:
    """Return the band of draws f (K, S, n)."""
    estimate = f.mean(1).T
    sd = f.std(1, ddof=1).T
    ends = [equal_tail(contrast, prob) for contrast in f]
    critical = [
        _maximum_quantile([(contrast - contrast.mean(0)).T], sd[:, k], prob)
        for k, contrast in enumerate(f)
    ]
    lower, upper = (np.stack([e[i] for e in ends], axis=-1) for i in (0, 1))
    return _both_bands(estimate, sd, lower, upper, critical)


def _maximum_quantile(parts: Iterable[Array], sd: Array, prob: float) -> float:
    """Return the quantile of max_x |deviation(x)| / sd(x) over draws, given in parts (n, S); points without spread
    are left out."""
    live = sd > 1e-12 * sd.max(initial=0.0)
    if not live.any():
        return 0.0
    maxima = [np.abs(deviations[live] / sd[live, None]).max(0) for deviations in parts]
    return float(np.quantile(np.concatenate(maxima), prob))
