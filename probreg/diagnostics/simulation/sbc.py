"""Simulation-based calibration: the ranks of true values among posterior draws, and the exact test that they are uniform."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from probreg.arguments.scalars import (
    Count,
    Flag,
    Seed,
    Several,
    Workers,
    check_arguments,
)
from probreg.diagnostics.simulation.simulate import (
    chosen_method,
    draw,
    require_method,
    unroll_rows,
)
from probreg.errors import DataError, Incompatible, ProbregError
from probreg.fits.inference_data import parameter_names, reported_coefficients
from probreg.inference import Method, MethodName, Solution
from probreg.inference.base import with_proper_correlations
from probreg.model.model import Model
from probreg.system.processes import in_processes
from probreg.system.terminal import format_p
from probreg.tables import PrintsTable, Table
from probreg.tables.render import format_p_value

Array = np.ndarray


def probability_in_band(low: Array, high: Array, positions: Array, n: int) -> float:
    """P(low_i <= #{u <= at_i} <= high_i for every i) for n independent uniform u and increasing points `positions` in (0, 1).

    Exact: the counts are a Markov chain, N_i+1 - N_i ~ Binomial(n - N_i, (at_i+1 - at_i) / (1 - at_i)). Source:
    Säilynoja, Bürkner & Vehtari 2022, algorithm 2.

    >>> round(probability_in_band(np.array([0]), np.array([1]), np.array([0.5]), 2), 12)  # not both below one half
    0.75
    """
    from scipy.stats import binom

    state = np.array([0])
    mass = np.array([1.0])
    before = 0.0
    for lo, hi, z in zip(low, high, positions):
        reached = np.arange(int(lo), int(hi) + 1)
        if not len(reached):
            return 0.0
        # P(N_i+1 = k) = sum_j P(N_i+1 = k | N_i = j) P(N_i = j), summed over the j inside the band only.
        share = (z - before) / (1.0 - before)
        step = binom.pmf(reached[:, None] - state, n - state, share)
        state = reached
        mass = step @ mass
        before = z
    return float(mass.sum())


def _tails(positions: Array, n: int) -> Array:
    """The two-sided tail probability 2 min(P(K <= k), P(K >= k)) of each count k at each point, (points, n + 1)."""
    from scipy.stats import binom

    k = np.arange(n + 1.0)
    K = binom(n, positions[:, None])
    return 2.0 * np.minimum(K.cdf(k), K.sf(k - 1.0))


def _acceptance_region(tails: Array, gamma: float) -> tuple[Array, Array]:
    """Return the smallest and largest count with a tail probability of at least gamma."""
    keep = tails >= gamma
    n = keep.shape[1] - 1
    empty = ~keep.any(1)
    return np.where(empty, 1, keep.argmax(1)), np.where(
        empty, 0, n - keep[:, ::-1].argmax(1)
    )


def simultaneous_band(positions: Array, n: int, prob: float) -> tuple[Array, Array]:
    """Return counts (low, high) at each point that contain all counts of n uniforms with probability at least `prob`: the
    narrowest such band with equal tail probabilities at all points.

    >>> low, high = simultaneous_band(np.array([0.25, 0.5, 0.75]), 100, 0.95)
    >>> low.tolist(), high.tolist()
    ([15, 39, 65], [35, 61, 85])
    """
    tails = _tails(positions, n)
    # a single point gives the upper limit; Bonferroni's bound lies between the limits
    lower_level = 0.0
    upper_level = 1.0 - prob
    # Bisection for the largest gamma such that the band {k: tail(k) >= gamma} contains all counts with probability prob.
    for _ in range(40):
        middle = (lower_level + upper_level) / 2
        if (
            probability_in_band(*_acceptance_region(tails, middle), positions, n)
            >= prob
        ):
            lower_level = middle
        else:
            upper_level = middle
    return _acceptance_region(tails, lower_level)


def uniformity_p_value(counts: Array, positions: Array, n: int) -> float:
    """Return the exact p-value of H0: n values are independent and uniform, from counts[i] = #{u <= at_i}.

    It is the probability that some point has a tail probability as small as the smallest observed one.

    >>> round(uniformity_p_value(np.array([1]), np.array([0.5]), 2), 6), round(uniformity_p_value(np.array([0]), np.array([0.5]), 2), 6)
    (1.0, 0.5)
    """
    tails = _tails(positions, n)
    # p = 1 - P(every point has a tail probability above the smallest that was seen).
    smallest = tails[np.arange(len(positions)), counts].min()
    band = _acceptance_region(tails, smallest * (1.0 + 1e-9))
    return max(0.0, 1.0 - probability_in_band(*band, positions, n))


def describe_departure(what: str, mean: float, spread: float, n: int) -> str:
    """Describe how n values in (0, 1), from their mean and the ratio of their variance to 1/12, depart from uniform.

    >>> describe_departure("draws", 0.5, 2.0, 100)
    'draws are too narrow'
    """
    far = 2.0  # with more standard errors, the mean or variance of ranks describes the shape of a departure
    # Var mean = 1 / (12 n); the variance of a sample variance over its square is (kurtosis - 1) / n = (9/5 - 1) / n.
    tilt = (mean - 0.5) * np.sqrt(12.0 * n)
    width = (spread - 1.0) * np.sqrt(1.25 * n)
    words = []
    if abs(tilt) > far:
        words.append(f"{what} are too {'low' if tilt > 0 else 'high'}")
    if abs(width) > far:
        words.append(f"{what} are too {'narrow' if width > 0 else 'wide'}")
    return " and ".join(words) or f"{what} have the wrong shape"


LOG_LIKELIHOOD = "log_likelihood"
# probability under the null that all quantities together stay inside their bands
PROB = 0.95


@dataclass(frozen=True, eq=False, repr=False)
class SBC(PrintsTable):
    """The ranks of true values among posterior draws over many simulated data sets, and whether they are uniform.

    `ranks` is a DataArray (replicate, quantity) of whole numbers 0 .. draws; `failures` counts replicates without a
    posterior by their reason, `troubled` ranked replicates with a warning of their fit.
    """

    ranks: Any
    draws: int
    bins: int
    prob: float
    method: str
    failures: Mapping[str, int]
    troubled: Mapping[str, int]

    @property
    def points(self) -> Array:
        """The shares of ranks where the distribution functions are compared, (bins - 1,)."""
        return np.arange(1, self.bins) / self.bins

    @property
    def level(self) -> float:
        """The level of the test of each quantity, (1 - prob) / q, so that all q together have the level 1 - prob."""
        return (1.0 - self.prob) / self.ranks.sizes["quantity"]

    @cached_property
    def _counts(self) -> Array:
        """#{rank < position}, (quantity, point)."""
        # rank < z (L + 1), L the draws: both sides are whole numbers, so that subtracting a half avoids rounding errors.
        below = (
            self.ranks.values.T[:, None, :]
            < (self.points * (self.draws + 1))[:, None] - 0.5
        )
        return below.sum(-1)

    @cached_property
    def p_value(self) -> Any:
        """P-value of uniform ranks per quantity, DataArray (quantity); null: the method draws from this posterior."""
        import xarray as xr

        n = self.ranks.sizes["replicate"]
        p = [uniformity_p_value(c, self.points, n) for c in self._counts]
        return xr.DataArray(
            p,
            {"quantity": self.ranks["quantity"].values},
            ("quantity",),
            name="p_value",
        )

    @cached_property
    def ecdf_difference(self) -> Any:
        """Dataset over (quantity, point): `difference` between the ranks' distribution function and the uniform one, and over
        (point) the simultaneous band `lower`, `upper`, which contains all quantities with probability `prob`."""
        import xarray as xr

        n = self.ranks.sizes["replicate"]
        # F_n(z) - z with F_n(z) = #{rank < z (L + 1)} / n.
        low, high = (
            v / n - self.points
            for v in simultaneous_band(self.points, n, 1.0 - self.level)
        )
        coords = {"quantity": self.ranks["quantity"].values, "point": self.points}
        difference = self._counts / n - self.points
        return xr.Dataset(
            {
                "difference": (("quantity", "point"), difference),
                "lower": ("point", low),
                "upper": ("point", high),
            },
            coords,
            {"prob": self.prob},
        )

    @cached_property
    def table(self) -> Any:
        """One row per quantity, pandas DataFrame: p_value, mean_rank (as a share, 1/2 if uniform), spread (variance of the
        ranks over the variance of uniform ranks) and `reading`, the meaning of a departure."""
        import pandas as pd

        # A rank uniform on 0 ... L: (rank + 1/2) / (L + 1) has mean 1/2 and variance (1 - (L + 1)^-2) / 12.
        share = (self.ranks.values + 0.5) / (self.draws + 1)
        even = (1.0 - (self.draws + 1.0) ** -2) / 12.0
        mean = share.mean(0)
        spread = share.var(0) / even
        p = self.p_value.values
        n = len(share)
        words = [
            "" if q >= self.level else describe_departure("draws", m, s, n)
            for q, m, s in zip(p, mean, spread)
        ]
        columns = {"p_value": p, "mean_rank": mean, "spread": spread, "reading": words}
        return pd.DataFrame(
            columns, index=pd.Index(self.ranks["quantity"].values, name="quantity")
        )

    @property
    def uniform(self) -> bool:
        """Whether no quantity departs from uniform ranks at its level."""
        return bool((self.p_value >= self.level).all())

    @property
    def verdict(self) -> str:
        """One sentence."""
        n = self.ranks.sizes["replicate"]
        q = self.ranks.sizes["quantity"]
        n_failed = sum(self.failures.values())
        sets = f"{n} simulated data sets"
        if n_failed:
            sets += f" of {n + n_failed}, the others without a posterior"
        setting = f"{sets}, {q} quantities at {1 - self.prob:.2g} together"
        if self.uniform:
            return f"{self.method}: ranks are uniform as far as {setting} can tell."
        off = [
            f"{name}: {row.reading} ({format_p(row.p_value)})"
            for name, row in self.table.iterrows()
            if row.reading
        ]
        return (
            f"{self.method}: ranks are not uniform ({setting}). " + "; ".join(off) + "."
        )

    @property
    def _display_table(self) -> Table:
        notes = [
            f"no posterior in {k} more, which are not ranked: {reason}"
            for reason, k in self.failures.items()
        ]
        notes += [
            f"ranked although troubled, {k}: {reason}"
            for reason, k in self.troubled.items()
        ]
        return Table.from_pandas(
            self.table,
            number="{:.3f}".format,
            formats={"p_value": format_p_value},
            head=(self.verdict,),
            notes=tuple(notes),
        )


@check_arguments
def sbc(
    model: Model,
    method: Method | MethodName,
    reps: Count = 200,
    *,
    seed: Seed = 0,
    draws: Count = 99,
    bins: Several = 20,
    workers: Workers = 1,
    progress: Flag | None = None,
) -> SBC:
    """Simulation-based calibration: ranks of the truth among posterior draws, and a test that they are uniform.

    Data sets are simulated from the model, with parameters from its proper priors. It ranks coefficients, nuisance
    parameters, standard deviations and correlations of effects that vary by a group, and the log-likelihood, which detects
    for example a posterior that ignores the data. The test is exact. Draws of a fit are thinned evenly to `draws`, which must be fewer than the fit
    has; draws of Markov chains are then nearly independent if the thinning is ten-fold or more. If a method cannot fit
    some data sets, the others are ranked, which does not bias the ranks, and the result states their number.

    Parameters
    ----------
    model : Model
        A model.
    method : str or Method
        A method with a posterior.
    reps : int
        Number of data sets.
    seed : int
        Seed of all random numbers.
    draws : int
        Draws of each fit for the rank.
    bins : int
        Number of bins in the histogram of ranks.
    workers : int
        Number of processes; above 1 a script needs `if __name__ == "__main__"`. The result does not depend on it.
    progress : bool, optional
        Show a progress bar; by default after a second, in a terminal or a notebook.

    Returns
    -------
    SBC
        `uniform` is True if the ranks are uniform.

    Raises
    ------
    Incompatible
        For an improper prior and for a method without a posterior.
    DataError
        If `bins` does not divide `draws` + 1, or the method has too few draws.

    References
    ----------
    Talts et al. 2018; Säilynoja, Bürkner & Vehtari 2022; Modrák et al. 2023 (the log-likelihood).

    Examples
    --------
    >>> from probreg.priors import InverseGamma, Normal
    >>> prior = {"Intercept": Normal(2.0, sigma_units=True), "x1": Normal(1.0, sigma_units=True)}
    >>> aux = {"sigma": InverseGamma(3.0, 2.0)}
    >>> model = Model.from_arrays([[0.0], [1.0], [3.0]], [1.0, 2.0, 5.0], prior=prior, aux=aux)
    >>> sbc(model, "conjugate", 100, seed=1).uniform
    True
    """
    model = with_proper_correlations(model)[0]
    ready = unroll_rows(model)
    chosen = chosen_method(model, method)
    if chosen.target != "posterior":
        raise Incompatible(
            f"sbc needs posterior draws, and {chosen.name} gives a mode; use laplace or nuts"
        )
    require_method(model, chosen)
    if (draws + 1) % bins:
        raise DataError(
            f"bins={bins}: expected a divisor of draws + 1 = {draws + 1}; try draws={bins * -(-draws // bins) - 1}"
        )
    work = partial(_replicate, ready, chosen, draws)
    ranked = in_processes(
        work,
        [(seed, i) for i in range(reps)],
        "sbc, data sets",
        workers=workers,
        show=progress,
    )
    good = [r for r in ranked if r.ranks is not None]
    failures = _count_reasons(r.trouble for r in ranked if r.ranks is None)
    if not good:
        worst = max(failures, key=lambda reason: failures[reason])
        raise Incompatible(
            f"{chosen.name} fitted none of {reps} simulated data sets: {worst}"
        )
    troubled = _count_reasons(r.trouble for r in good if r.trouble)
    return SBC(
        _label_ranks(model, np.array([r.ranks for r in good]), good[0].hyper),
        draws,
        bins,
        PROB,
        chosen.name,
        failures,
        troubled,
    )


def _count_reasons(reasons: Iterable[str]) -> dict[str, int]:
    """Count how often each reason occurs; reasons that differ only in numbers, such as a k-hat, count as one.

    >>> _count_reasons(["k is 0.9", "k is 1.2", "no mode"])
    {'k is 0.9': 2, 'no mode': 1}
    """
    first: dict[str, str] = {}
    return dict(
        Counter(
            first.setdefault(re.sub(r"-?[0-9][0-9.,e+-]*", "#", reason), reason)
            for reason in reasons
        )
    )


class _Ranked(NamedTuple):
    ranks: Array | None  # (quantity,)
    trouble: str
    hyper: tuple[
        str, ...
    ] = ()  # standard deviations and correlations among the quantities


def _replicate(
    model: Model, method: Method, draws: int, seed: tuple[int, int]
) -> _Ranked:
    rng = np.random.default_rng(seed)
    truth = draw(model, rng)
    try:
        solution = method.solve(truth.model, rng)
    except (ProbregError, np.linalg.LinAlgError) as error:
        return _Ranked(None, str(error))
    beta, aux = _thin_draws(solution, draws)
    if not np.isfinite(beta).all():
        return _Ranked(None, "draws that are not finite")
    # (theta, y) ~ p(theta) p(y | theta): theta's rank among draws of p(theta | y) is uniform   (Talts et al. 2018).
    parameters = {name: np.array([v]) for name, v in (truth.aux | truth.hyper).items()}
    true = _quantities(truth.model, truth.beta[None], parameters, list(truth.hyper))
    simulated = _quantities(truth.model, beta, aux, list(truth.hyper))
    # rank = #{draws < truth} + a uniform share of #{draws = truth}, uniform on 0 ... L under H0   (Modrák et al. 2023).
    ties = rng.integers(0, (simulated == true).sum(0) + 1)
    trouble = "" if solution.status.good else solution.status.value
    return _Ranked((simulated < true).sum(0) + ties, trouble, tuple(truth.hyper))


def _thin_draws(solution: Solution, draws: int) -> tuple[Array, dict[str, Array]]:
    """`draws` of the draws, evenly spaced over all chains: beta (draws, p, m) and each aux (draws,)."""
    flat = solution.posterior.flat
    total = len(flat["beta"])
    if total < draws:
        raise DataError(
            f"draws={draws}, but the method has {total} draws: raise its draws, or lower draws="
        )
    indices = np.linspace(0, total - 1, draws).round().astype(int)
    return flat["beta"][indices], {
        k: v[indices] for k, v in flat.items() if k != "beta"
    }


def _quantities(
    model: Model, beta: Array, aux: Mapping[str, Array], hyper: Sequence[str]
) -> Array:
    """(draw, quantity): reported coefficients, standard deviations and correlations of effects, unknown nuisance parameters,
    log-likelihood."""
    auxiliary = {a: aux[a] for a in model.unknown}
    coefficients = reported_coefficients(model, beta).reshape(len(beta), -1)
    scalars = [aux[name] for name in hyper]
    log_lik = np.atleast_1d(model.log_lik(beta, **auxiliary))
    return np.column_stack([coefficients, *scalars, *auxiliary.values(), log_lik])


def _label_ranks(model: Model, ranks: Array, hyper: Sequence[str]) -> Any:
    import xarray as xr

    coords = {
        "replicate": np.arange(len(ranks)),
        "quantity": [*parameter_names(model), *hyper, *model.unknown, LOG_LIKELIHOOD],
    }
    return xr.DataArray(ranks, coords, ("replicate", "quantity"), name="ranks")
