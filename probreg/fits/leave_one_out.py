"""The posterior without each row, by Pareto-smoothed weights of its draws: one compiled pass over the log likelihood.

ArviZ computes the same in a loop of the interpreter over rows; numbers agree to rounding, and come in ArviZ's own object.
"""

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from probreg.errors import DataError, Incompatible
from probreg.numerics.linalg.blocks import map_blocks

Array = np.ndarray
_FEWEST = 25  # draws, whose fifth is the shortest tail to which a distribution is fitted
_MANY = 225.0  # effective draws from which on the tail grows with the square root of their number
_BLOCK = 1_000_000  # numbers of the log likelihood in one block of rows


class LeftOutRows(NamedTuple):
    """For each row log p(y_i | others) and log p(y_i | all), (n,), the Pareto shape k, and the logarithms of the weights (n, S)."""

    elpd: Array
    lppd: Array
    k: Array
    log_weights: Array


def leave_rows_out(
    log_lik: Array, log_ratio: Array | None = None, *, efficiency: float = 1.0, weights: bool = False
) -> LeftOutRows:
    """Pareto-smoothed importance sampling at `log_lik` (S, n), log p(y_i | draw s).

    `log_ratio` (S,) is log p - log q of draws from an approximation q; `efficiency` is the effective over the actual number of draws.
    Without `weights` the last field is empty. DataError for fewer than 25 draws.
    """
    from probreg.numerics.compiled.pareto import leave_each_row_out

    S, n = log_lik.shape
    if S < _FEWEST:
        raise DataError(f"leaving rows out by weights needs {_FEWEST} draws or more, and there are {S}")
    correction = np.zeros(S) if log_ratio is None else log_ratio - log_ratio.max()
    # M = 3 sqrt(S / efficiency) of the largest weights, or a fifth of few draws (Vehtari et al. 2024)
    M = int(3.0 * np.sqrt(S / efficiency)) if S * efficiency > _MANY else S // 5
    out = np.empty((3, n))
    log_w = np.empty((n if weights else 0, S if weights else 0))
    size = max(1, _BLOCK // S)

    def part(rows: slice) -> tuple[()]:  # each block into rows of its own
        leave_each_row_out(np.ascontiguousarray(log_lik[:, rows].T), correction, min(M, S - 1), *out[:, rows], log_w[rows])
        return ()

    map_blocks(part, [slice(start, start + size) for start in range(0, n, size)])
    return LeftOutRows(out[0], out[1], out[2], log_w)


def left_out_rows(fit: Any) -> LeftOutRows:
    """What the draws of a posterior say of each observation; draws from an approximation q are weighed by p / q (Magnusson et al. 2019).

    Incompatible for a point estimate, and where the rows are not at hand.
    """
    tree, log_lik = fit.tree, _log_likelihood(fit)
    stats, S = tree["sample_stats"], log_lik.sizes["chain"] * log_lik.sizes["draw"]
    log_ratio, efficiency = None, 1.0
    if "log_q" in stats.data_vars:
        log_ratio = (stats["lp"] - stats["log_q"]).to_numpy().ravel()
    elif log_lik.sizes["chain"] > 1:
        efficiency = _efficiency(tree["posterior"].to_dataset(), S)
    return leave_rows_out(log_lik.to_numpy().reshape(S, -1), log_ratio, efficiency=efficiency)


def posterior_loo(fit: Any) -> Any:
    """ArviZ's object of PSIS-LOO, pointwise."""
    import xarray as xr

    found, log_lik = fit.once(left_out_rows), _log_likelihood(fit)
    S = log_lik.sizes["chain"] * log_lik.sizes["draw"]
    good = min(1.0 - 1.0 / np.log10(S), 0.7)
    labels = {"obs": log_lik["obs"]}
    elpd, n = found.elpd, len(found.elpd)
    return _arviz_result(
        # elpd = sum_i log p(y_i | others), its standard error sqrt(n Var) with n - 1 in Var, p = sum_i log p(y_i | all) - elpd
        elpd=elpd.sum(), se=np.sqrt(n * elpd.var(ddof=min(1, n - 1))), p=(found.lppd - elpd).sum(), n_samples=S, n_data_points=n,
        scale="log", warning=bool((found.k > good).any()), good_k=good, approx_posterior="log_q" in fit.tree["sample_stats"],
        elpd_i=xr.DataArray(elpd, labels, ("obs",)), pareto_k=xr.DataArray(found.k, labels, ("obs",)),
    )  # fmt: skip


def _log_likelihood(fit: Any) -> Any:
    if fit.target != "posterior":
        raise Incompatible(f"leave-one-out by weights is of a posterior, and {fit.method.name} finds a mode: compare_models leaves rows out of it")
    if "log_likelihood" not in fit.tree.children:
        raise Incompatible(f"leave-one-out cannot be computed, since {fit.model.design.rows_absent}")
    return fit.tree["log_likelihood"]["y"]


def _efficiency(posterior: Any, S: int) -> float:
    """The effective over the actual number of draws, the mean over all parameters as in ArviZ."""
    from arviz_stats import ess

    each = ess(posterior, method="mean")
    return float(np.hstack([each[name].to_numpy().ravel() for name in each.data_vars]).mean() / S)


def _arviz_result(**fields: Any) -> Any:
    import arviz_stats.utils as theirs

    # until ArviZ 1.2 one class served every kind of result
    made = getattr(theirs, "ELPDDataLOO", None) or partial(theirs.ELPDData, "loo")
    return made(**fields)
