"""What the priors alone say of the outcome, before any data: draws of y, and what one standard deviation of a column does.

A flat prior has no draws. What needs it is then left out and said: without a proper prior of every coefficient there are
no means, without one of sigma no outcomes; what a proper column does to the linear predictor is always known.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from probreg.design import Design
from probreg.errors import DataError
from probreg.likelihoods import Bernoulli, Categorical, Likelihood, Poisson
from probreg.priors import AuxPrior, JointPrior

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Move:
    """What one standard deviation of a column does: `most` is passed with prior probability 1 - prob, `typical` half the time."""

    column: str
    sd: float
    typical: float
    most: float
    sentence: str


@dataclass(frozen=True, eq=False)
class PriorPredictive:
    """Draws from the priors: `beta` (S, p, m) with nan where a prior is flat, `aux` (S,), `mean` (S, n, ...) and `y` (S, n)
    or None where they need a flat prior; `moves` column by column."""

    beta: Array
    aux: Mapping[str, Array]
    mean: Array | None
    y: Array | None
    moves: tuple[Move, ...]
    columns: tuple[str, ...]
    likelihood: Likelihood
    notes: tuple[str, ...]

    @property
    def tree(self) -> Any:
        """xarray.DataTree with the groups `prior` and, where there are outcomes, `prior_predictive`, as ArviZ reads them."""
        import xarray as xr

        several = bool(self.likelihood.outcomes)
        dims = ("chain", "draw", "coef", "outcome") if several else ("chain", "draw", "coef")
        beta = self.beta @ self.likelihood.display.T if several else self.beta[..., 0]
        prior = {"beta": (dims, beta[None])} | {k: (("chain", "draw"), v[None]) for k, v in self.aux.items()}
        names = {"coef": list(self.columns)} | ({"outcome": list(self.likelihood.outcomes)} if several else {})
        groups = {"prior": xr.Dataset(prior, names)}
        if self.y is not None:
            groups["prior_predictive"] = xr.Dataset({"y": (("chain", "draw", "obs"), self.y[None])})
        return xr.DataTree.from_dict(groups)

    def __repr__(self) -> str:
        lines = [m.sentence for m in self.moves] or ["no column has a proper prior"]
        if self.y is not None:
            lines.append(_range_of(self.y, self.likelihood.levels))
        return "\n".join([*lines, *(f"note: {n}" for n in self.notes)])

    def _repr_html_(self) -> str:
        return "<ul>" + "".join(f"<li>{escape(line)}</li>" for line in repr(self).splitlines()) + "</ul>"


def prior_predictive(
    design: Design,
    likelihood: Likelihood,
    prior: JointPrior,
    aux: Mapping[str, float | AuxPrior],
    *,
    draws: int = 1000,
    prob: float = 0.95,
    seed: int = 0,
) -> PriorPredictive:
    """Draws of coefficients, nuisance parameters, means and outcomes at the rows of the design."""
    if not isinstance(draws, int | np.integer) or draws < 2:
        raise DataError(f"draws is a whole number of at least 2, got {draws!r}")
    if not 0 < prob < 1:
        raise DataError(f"prob is between 0 and 1, got {prob!r}")
    rng = np.random.default_rng(seed)
    known = {k: _aux_draws(v, rng, draws) for k, v in aux.items()}
    lost = [k for k, v in known.items() if v is None]
    held = {k: v for k, v in known.items() if v is not None}
    sigma = held.get("sigma")
    beta = _coefficients(prior, (len(design.columns), likelihood.width), sigma, rng, draws)
    flat = [c for c, v in zip(design.columns, beta[0, :, 0]) if np.isnan(v)]
    mean = y = None
    notes = []
    if flat:
        notes.append(
            f"no means or outcomes: the prior of {', '.join(flat)} is flat, or in units of a sigma that has no proper prior; give a proper one, e.g. {{{flat[0]!r}: Normal(...)}}"
        )
    else:
        eta = np.einsum("nj,sjm->snm", design.X, beta) + (0.0 if design.offset is None else design.offset)
        wide = {k: v[:, None] for k, v in held.items()}
        if not lost:
            with np.errstate(over="ignore"):
                mean = likelihood.mean(eta, **wide)
                y = _outcomes(likelihood, rng, eta, wide)
            if y is None:
                notes.append("no outcomes: some prior means are too large to draw a count from; use tighter priors")
        else:
            with np.errstate(over="ignore"):
                mean = likelihood.mean(eta, **dict.fromkeys(likelihood.aux, 1.0))
            notes.append(
                f"no outcomes: the prior of {', '.join(lost)} is improper; give a proper one, e.g. aux={{{lost[0]!r}: HalfNormal(1.0)}}"
            )
    moves = _moves(design, likelihood, prior, beta, sigma, prob)
    return PriorPredictive(beta, held, mean, y, moves, design.columns, likelihood, tuple(notes))


def _aux_draws(value: float | AuxPrior, rng: np.random.Generator, draws: int) -> Array | None:
    if not isinstance(value, AuxPrior):
        return np.full(draws, float(value))
    return value.sample(rng, draws) if value.proper else None


def _coefficients(
    prior: JointPrior, shape: tuple[int, int], sigma: Array | None, rng: np.random.Generator, draws: int
) -> Array:
    """(S, p, m); nan for columns whose prior has no draws."""
    out = np.full((draws, *shape), np.nan)
    for b in prior.blocks:
        if not b.prior.proper or (b.prior.sigma_units and sigma is None):
            continue
        unit = sigma[:, None, None] if b.prior.sigma_units and sigma is not None else 1.0
        out[:, list(b.columns)] = b.prior.sample(rng, (draws, len(b.columns), shape[1]), unit)
    return out


def _outcomes(likelihood: Likelihood, rng: np.random.Generator, eta: Array, aux: Mapping[str, Array]) -> Array | None:
    if isinstance(likelihood, Poisson) and not (likelihood.mean(eta) < 1e18).all():
        return None
    return likelihood.sample(rng, eta, **aux)


def _moves(
    design: Design, likelihood: Likelihood, prior: JointPrior, beta: Array, sigma: Array | None, prob: float
) -> tuple[Move, ...]:
    """For every column with draws, and for those in units of an unknown sigma in these units."""
    rng, found = np.random.default_rng(0), []
    n = design.total
    spread = design.moments.scale * np.sqrt(n / max(n - 1.0, 1.0))  # as in priors on standardised columns
    for b in prior.blocks:
        in_units = b.prior.sigma_units and sigma is None
        if not b.prior.proper:
            continue
        for i, j in enumerate(b.columns):
            if j == design.intercept:
                continue
            w = beta[:, j]
            if in_units:
                w = b.prior.sample(rng, (len(beta), len(b.columns), beta.shape[2]))[:, i]
            found.append(_move(design, likelihood, j, w * spread[j], float(spread[j]), prob, in_units))
    return tuple(found)


def _move(design: Design, likelihood: Likelihood, j: int, step: Array, sd: float, prob: float, in_units: bool) -> Move:
    column, response = design.columns[j], design.response
    size, says = _effect(likelihood, step, response, " sigma" if in_units else "")
    typical, most = (float(np.quantile(size, v)) for v in (0.5, prob))
    sentence = f"one sd of {column} ({sd:.3g}) {says.format(f'{most:.3g}')} with prior probability {100 * prob:g} % (typically {typical:.3g})"
    return Move(column, sd, typical, most, sentence)


def _effect(likelihood: Likelihood, step: Array, response: str, unit: str) -> tuple[Array, str]:
    """The size of the largest change that steps (S, m) of the linear predictors can make, and what it is, in words.

    A step d of a logit changes a probability by at most tanh(d / 4): that is around one half. For a softmax d is the
    largest difference between two classes.
    """
    if isinstance(likelihood, Bernoulli):
        return np.tanh(np.abs(step[:, 0]) / 4.0), f"moves P({response} = {likelihood.levels[1]}) by at most {{}}"
    if isinstance(likelihood, Categorical):
        scores = likelihood.scores(step)
        return np.tanh(
            np.ptp(scores, axis=-1) / 4.0
        ), f"moves the probability of any class of {response} by at most {{}}"
    if isinstance(likelihood, Poisson):
        return np.exp(
            np.minimum(np.abs(step[:, 0]), 700.0)
        ), f"multiplies or divides the mean of {response} by at most {{}}"
    return np.abs(step[:, 0]), f"moves the mean of {response} by at most {{}}{unit}"


def _range_of(y: Array, levels: tuple[Any, ...]) -> str:
    if levels:
        share = [f"{v}: {(y == k).mean():.3g}" for k, v in enumerate(levels)]
        return f"prior predictive shares of the classes: {', '.join(share)}"
    low, mid, high = np.quantile(y, [0.025, 0.5, 0.975])
    return f"prior predictive outcomes: 95 % between {low:.4g} and {high:.4g}, median {mid:.4g}"
