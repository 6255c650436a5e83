"""The prior predictive distribution: draws of y, and the change in the outcome for one standard deviation of a column.

A flat prior has no draws. Quantities that need it are missing, with a note: means need a
proper prior of every coefficient, and outcomes one of sigma too. The effect of a column with a proper prior is always known.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from probreg.data import Design
from probreg.likelihoods import (
    Likelihood,
    OfClasses,
    Ordinal,
    SoftmaxLikelihood,
)
from probreg.likelihoods.binary import BinaryLikelihood
from probreg.likelihoods.links import IDENTITY, LOG
from probreg.model.term_priors import hyper_names
from probreg.priors import AuxPrior, JointPrior
from probreg.priors.marginal import size_quantiles
from probreg.system.terminal import clean_lines, few_names, truncate_lines
from probreg.tables.render import notebook_html

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class ColumnEffect:
    """The change in the outcome for one standard deviation of a column: above `most` with prior probability 1 - prob, and above
    `typical` with probability 1/2.

    `error` is the Monte Carlo standard error of `most`, 0 if the prior's quantiles are known.
    """

    column: str
    sd: float
    typical: float
    most: float
    sentence: str
    error: float = 0.0


@dataclass(frozen=True, eq=False)
class PriorPredictive:
    """Draws from the priors: `beta` (S, p, m) with nan where a prior is flat, `aux` (S,), `mean` (S, n, ...) and `y` (S, n)
    (successes for binomial counts, counts by class (S, n, K)), or None if they need a flat prior; `moves` for each column.
    Standard deviations and correlations of effects by group are drawn with the effects and are not kept."""

    beta: Array
    aux: Mapping[str, Array]
    mean: Array | None
    y: Array | None
    moves: tuple[ColumnEffect, ...]
    columns: tuple[str, ...]
    likelihood: Likelihood
    notes: tuple[str, ...]
    # (S,) of effects by group, with the names in draws
    hyper: Mapping[str, Array] = field(default_factory=dict)

    def __repr__(self) -> str:
        return clean_lines(*self._description)

    @property
    def _description(self) -> list[str]:
        """The effect of each column, the range of outcomes, and the quantities that are missing."""
        lines = truncate_lines([m.sentence for m in self.moves], ".moves") or [
            "no column has a proper prior"
        ]
        if self.y is not None:
            lines.append(_range_of(self.y, self.likelihood.levels))
        return [*lines, *(f"note: {n}" for n in self.notes)]

    def _repr_html_(self) -> str:
        return notebook_html(["what the priors alone say"], notes=self._description)


def improper_coefficients(prior: JointPrior, design: Design) -> dict[str, str]:
    """Return the columns and terms with an improper prior, each with an example of a proper one."""
    examples: dict[str, str] = {}
    for b in prior.blocks:
        if b.prior.proper or not b.first:
            continue
        names = tuple(design.columns[j] for j in b.columns)
        term = next((t for t in design.recipe.terms if names in t.blocks), None)
        if term is None:
            examples |= dict.fromkeys(names, "Normal(2.5)")
        elif term.name in design.recipe.grouped:
            examples[term.name] = "Covariance(HalfNormal(1.0))"
        else:
            examples[term.name] = "Normal(HalfNormal(1.0))"
    return examples


def proper_examples(coefficients: Mapping[str, str], nuisance: Sequence[str]) -> str:
    """Return the arguments that give proper priors to the first of these coefficients and nuisance parameters."""
    first = [*coefficients.items()][:1]
    priors = [f"prior={{{name!r}: {example}}}" for name, example in first]
    aux = [f"aux={{{name!r}: HalfNormal(1.0)}}" for name in nuisance[:1]]
    return " and ".join(priors + aux)


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
    """Draws of coefficients, nuisance parameters, means and outcomes at the rows of the design; correlations of effects without a
    prior have LKJ(1), as in a posterior."""
    blocks = [replace(b, prior=b.prior.for_posterior()) for b in prior.blocks]
    prior = replace(prior, blocks=tuple(blocks))
    rng = np.random.default_rng(seed)
    aux_draws = {k: _aux_draws(v, rng, draws) for k, v in aux.items()}
    improper = [k for k, v in aux_draws.items() if v is None]
    held = {k: v for k, v in aux_draws.items() if v is not None}
    sigma = likelihood.noise(held, None)
    m = design.coefficients_per_column(likelihood.width)
    shape = draws, len(design.columns), m
    beta, of_blocks = prior.sample_with_hyper(rng, shape, sigma, proper=True)
    names = hyper_names(prior, design)
    hyper = {names[i][k]: v for i, h in of_blocks.items() for k, v in h.items()}
    lacking = [c for c, v in zip(design.columns, beta[0, :, 0]) if np.isnan(v)]
    mean = y = None
    notes = []
    if lacking or improper:
        quantities = "means or outcomes" if lacking else "outcomes"
        flat = improper_coefficients(prior, design)
        notes.append(
            f"no {quantities}: {few_names([*flat, *improper])} without a proper prior, such as {proper_examples(flat, improper)}"
        )
    if not lacking:
        eta = design.eta(beta)
        wide = {k: v[:, None] for k, v in held.items()} | dict.fromkeys(improper, 1.0)
        with np.errstate(over="ignore"):
            mean = likelihood.mean(eta, **wide)
            if not improper:
                rows = likelihood.at_rows(wide, design.precision)
                rows = rows | likelihood.given(design.observed)
                if (
                    not likelihood.is_count
                    or (likelihood.mean(eta, **rows) < 1e18).all()
                ):
                    y = likelihood.drawn(likelihood.sample(rng, eta, **rows))
        if y is None and not improper:
            notes.append(
                "no outcomes: some prior means are too large to draw a count from; use tighter priors"
            )
    noise = likelihood.noise(aux, None)
    moves = _effects_of_columns(design, likelihood, prior, noise, beta, sigma, prob)
    return PriorPredictive(
        beta, held, mean, y, moves, design.columns, likelihood, tuple(notes), hyper
    )


def _aux_draws(
    value: float | AuxPrior, rng: np.random.Generator, draws: int
) -> Array | None:
    if not isinstance(value, AuxPrior):
        return np.full(draws, float(value))
    return value.sample(rng, draws) if value.proper else None


def _effects_of_columns(
    design: Design,
    likelihood: Likelihood,
    prior: JointPrior,
    noise: float | AuxPrior | None,
    beta: Array,
    sigma: Array | None,
    prob: float,
) -> tuple[ColumnEffect, ...]:
    """Return the effect of every column with a proper prior; in units of sigma if sigma has no proper prior.

    `beta` (S, p, m) and `sigma` (S,) are draws, used if the quantiles of the prior are not known.
    """
    rng = np.random.default_rng(0)
    effects = []
    n = design.total
    # as in priors on standardised columns
    spread = design.moments.scale * np.sqrt(n / max(n - 1.0, 1.0))
    for b in prior.blocks:
        # effects by group have no change by one standard deviation
        if not b.prior.proper or design.grouped_of(b.columns) is not None:
            continue
        in_units = b.prior.sigma_units and sigma is None
        unit: float | AuxPrior | None = 1.0 if in_units or noise is None else noise
        if isinstance(unit, AuxPrior):
            unit = None if b.prior.sigma_units else 1.0
        q = len(b.columns)
        for i, j in enumerate(b.columns):
            if j == design.intercept or (design.owner is not None and design.owner[j]):
                continue
            quantiles = None
            if beta.shape[2] == 1 and unit is not None:
                quantiles = size_quantiles(b.prior, i, q, unit, (0.5, prob))
            error, note = 0.0, ""
            if quantiles is not None:
                sizes = _effect_size(likelihood, spread[j] * quantiles[:, None])
            else:
                w = beta[:, j]
                if in_units:
                    w = b.prior.sample(rng, (len(w), q, beta.shape[2]))[:, i]
                draws = _effect_size(likelihood, spread[j] * w)
                sizes, error = _median_and_quantile(draws, prob)
                note = f"; by {len(w)} draws, ± {error:.2g}"
            typical, most = map(float, sizes)
            shown = f"{typical:.3g}"
            if isinstance(likelihood, OfClasses) and typical >= 0.9995:
                shown = "above 0.999"
            sentence = (
                f"one sd of {design.columns[j]} ({spread[j]:.3g}) {_effect_words(likelihood, design.response)} by at most {most:.3g}"
                f"{' sigma' * in_units} with prior probability {100 * prob:g} % (typically {shown}){note}"
            )
            effects.append(
                ColumnEffect(
                    design.columns[j], float(spread[j]), typical, most, sentence, error
                )
            )
    return tuple(effects)


def _median_and_quantile(size: Array, prob: float) -> tuple[Array, float]:
    """Return the median and the quantile prob of draws, and the standard error of the quantile from the spread of its rank."""
    S = len(size)
    reach = np.sqrt(prob * (1 - prob) / S)
    low, high = np.quantile(size, np.clip([prob - reach, prob + reach], 0, 1))
    return np.quantile(size, [0.5, prob]), float(high - low) / 2


def _effect_size(likelihood: Likelihood, step: Array) -> Array:
    """Return the size of the largest change that steps (S, m) of the linear predictors can make.

    A step d of a logit changes a probability by at most tanh(d / 4), around one half. For a softmax d is the
    largest difference between two classes.
    """
    if isinstance(likelihood, SoftmaxLikelihood):
        return np.tanh(np.ptp(likelihood.scores(step), axis=-1) / 4.0)
    size = np.abs(step[:, 0])
    base = likelihood.without_formulas
    if isinstance(base, BinaryLikelihood | Ordinal):
        return base.tails.largest_change(size)
    if likelihood.link is LOG:
        return np.exp(np.minimum(size, 700.0))
    return size


def _effect_words(likelihood: Likelihood, response: str) -> str:
    if isinstance(likelihood, SoftmaxLikelihood):
        return f"moves the probability of any class of {response}"
    name = likelihood.mean_name(response)
    if isinstance(likelihood.without_formulas, Ordinal):
        return f"moves P({response} above a threshold)"
    if isinstance(likelihood, BinaryLikelihood):
        return f"moves {name}"
    if likelihood.link is LOG:
        return f"multiplies or divides the {likelihood.centre} of {response}"
    scale = "" if likelihood.link is IDENTITY else f"{likelihood.link} scale of the "
    return f"moves {name if name != response else f'the {scale}mean of {name}'}"


def _range_of(y: Array, levels: tuple[Any, ...]) -> str:
    if levels:
        # counts of each class, or one class
        counts = y if y.ndim == 3 else y[..., None] == np.arange(len(levels))
        shares = counts.sum((0, 1)) / counts.sum()
        words = ", ".join(f"{v}: {s:.3g}" for v, s in zip(levels, shares))
        return f"prior predictive shares of the classes: {words}"
    low, mid, high = np.quantile(y, [0.025, 0.5, 0.975])
    return f"prior predictive outcomes, {len(y)} draws: 95 % between {low:.4g} and {high:.4g}, median {mid:.4g}"
