"""Leave-one-out posteriors by Pareto-smoothed importance sampling (PSIS), in one compiled pass over the log-likelihood.

ArviZ computes the same in a Python loop over rows; results agree to rounding and are returned in ArviZ's own object. The
log-likelihood of a block of rows is computed, weighted and discarded while it is in cache, and identical rows are weighted once.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from probreg.errors import DataError, Incompatible
from probreg.fits.inference_data import coefficient_groups, densities_of_observations
from probreg.linalg import on_all_cores, row_slices

Array = np.ndarray
PARETO_LIMIT = 0.7  # Pareto k above which importance sampling is not reliable
FEWEST = 25  # draws: the tail is a fifth of them, and the fit needs at least 5 values


class LeftOutRows(NamedTuple):
    """log p(y_i | others) and log p(y_i | all), (n,), the Pareto shape k, and the log weights (n, S), for each row."""

    elpd: Array
    lppd: Array
    k: Array
    log_weights: Array


def leave_rows_out(
    log_lik: Array,
    log_ratio: Array | None = None,
    *,
    efficiency: float = 1.0,
    weights: bool = False,
) -> LeftOutRows:
    """Compute Pareto-smoothed importance sampling for `log_lik` (S, n), log p(y_i | draw s).

    `log_ratio` (S,) is log p - log q of draws from an approximation q; `efficiency` is the effective over the actual number of draws.
    Without `weights` the last field is empty. DataError for fewer than 25 draws.
    """

    def of(rows: slice) -> Array:
        return np.ascontiguousarray(log_lik[:, rows].T)

    return _leave_out(of, log_lik.shape, log_ratio, efficiency, weights)


def _leave_out(
    log_lik: Callable[[slice], Array],
    shape: tuple[int, int],
    log_ratio: Array | None,
    efficiency: float,
    weights: bool,
) -> LeftOutRows:
    """Compute the same for the log-likelihood (b, S) of each slice of rows; `shape` is (S, n)."""
    from scipy.special import ndtri

    from probreg.compiled.pareto import leave_each_row_out

    # numbers of the log likelihood in one block of rows: half a megabyte, which fits into the L2 cache
    block_size = 2**16

    many_draws = 225.0  # effective draws above which the tail grows with the square root of their number
    S, n = shape
    if S < FEWEST:
        raise DataError(
            f"leaving rows out by weights needs {FEWEST} draws or more, and there are {S}"
        )
    if log_ratio is None:
        correction = np.zeros(S)
    else:
        correction = log_ratio - log_ratio.max()
    # M = 3 sqrt(S / efficiency) of the largest weights, or a fifth of few draws (Vehtari et al. 2024)
    M = min(
        int(3.0 * np.sqrt(S / efficiency)) if S * efficiency > many_draws else S // 5,
        S - 1,
    )
    z = float(ndtri((M + 1.0) / (S + 1.0)))
    statistics = np.empty((3, n))
    log_w = np.empty((0, 0))
    if weights:
        log_w = np.empty((n, S))
    size = max(1, block_size // S)

    def part(rows: slice) -> None:  # each block writes its own rows
        leave_each_row_out(
            log_lik(rows), correction, M, z, *statistics[:, rows], log_w[rows]
        )

    on_all_cores(part, row_slices(n, size))
    return LeftOutRows(statistics[0], statistics[1], statistics[2], log_w)


def left_out_rows(fit: Any) -> LeftOutRows:
    """Return the leave-one-out densities of a posterior; draws from an approximation q are weighted by p / q (Magnusson et al. 2019).

    Raises Incompatible for a point estimate, and if the rows are not in memory.
    """
    if fit.target != "posterior":
        raise Incompatible(
            f"leave-one-out by weights is of a posterior, and {fit.method.name} finds a mode: compare_models leaves rows out of it"
        )
    if not fit.model.design.n:
        raise Incompatible(
            f"leave-one-out cannot be computed, since {fit.model.design.rows_absent}"
        )
    draws = fit.solution.draws
    log_ratio = log_importance_ratio(fit)
    efficiency = 1.0
    if log_ratio is None and draws["beta"].shape[0] > 1:
        posterior = fit.once(coefficient_groups)["posterior"].to_dataset()
        efficiency = _efficiency(posterior, draws.count)
    log_densities, n_distinct, place = densities_of_observations(fit.model, draws.flat)
    shape = (draws.count, n_distinct)
    result = _leave_out(log_densities, shape, log_ratio, efficiency, weights=False)
    return LeftOutRows(
        result.elpd[place], result.lppd[place], result.k[place], result.log_weights
    )


def log_importance_ratio(fit: Any) -> Array | None:
    """Return log p - log q (S,) of draws from an approximation q of the posterior; None for draws from the posterior itself."""
    if "log_q" not in fit.solution.draws.stats:
        return None
    stats = fit.once(coefficient_groups)["sample_stats"]
    return (stats["lp"] - stats["log_q"]).to_numpy().ravel()


def posterior_loo(fit: Any) -> Any:
    """Return ArviZ's object of PSIS-LOO, pointwise."""
    import arviz_stats.utils as theirs
    import xarray as xr

    # until ArviZ 1.2 one class was used for every kind of result
    constructor = getattr(theirs, "ELPDDataLOO", None) or partial(
        theirs.ELPDData, "loo"
    )
    loo = fit.once(left_out_rows)
    S = fit.solution.draws.count
    good = min(1.0 - 1.0 / np.log10(S), 0.7)
    groups = fit.once(coefficient_groups)
    labels = {"obs": groups["log_likelihood"]["obs"]}
    elpd = loo.elpd
    n = len(elpd)
    return constructor(
        # elpd = sum_i log p(y_i | others), its standard error sqrt(n Var) with n - 1 in Var, p = sum_i log p(y_i | all) - elpd
        elpd=elpd.sum(), se=np.sqrt(n * elpd.var(ddof=min(1, n - 1))), p=(loo.lppd - elpd).sum(), n_samples=S, n_data_points=n,
        scale="log", warning=bool((loo.k > good).any()), good_k=good, approx_posterior="log_q" in groups["sample_stats"],
        elpd_i=xr.DataArray(elpd, labels, ("obs",)), pareto_k=xr.DataArray(loo.k, labels, ("obs",)),
    )  # fmt: skip


def _efficiency(posterior: Any, S: int) -> float:
    """Return the ratio of effective to actual draws, averaged over all parameters as in ArviZ."""
    from arviz_stats.base import array_stats

    sizes = [
        np.ravel(
            array_stats.ess(v.to_numpy(), chain_axis=0, draw_axis=1, method="mean")
        )
        for v in posterior.data_vars.values()
    ]
    return float(np.mean(np.concatenate(sizes)) / S)
