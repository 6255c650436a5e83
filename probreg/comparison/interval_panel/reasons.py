"""Why intervals of one quantity differ, each cause with the number that is its evidence.

Rules over the intervals, not a proof. Inside a fit every kind is held against the fit's own, the base; between fits the
bases are. The size of a difference is the larger move of an end, in half-widths of the base.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from probreg.comparison import find_differences
from probreg.comparison.interval_panel.kinds import Interval
from probreg.comparison.interval_panel.quantity import Estimand
from probreg.fits.inference_data import reported_coefficients
from probreg.inference.uncertainty.intervals.arithmetic import quantile
from probreg.system.terminal import percent

Array = np.ndarray
WORTH = 0.02  # of a half-width: smaller differences are not spoken of
_LEAN = 1.02  # arms that differ by less are called equal
SYMMETRIC = ("t", "wald")
_HELD = 0.005  # a smaller weight of the prior is no cause
_SKEWED = 0.1  # a skewness that moves a mean by a twentieth of a standard deviation


class FoundInterval(NamedTuple):
    """An interval that there is, on the scale of the coefficients."""

    fit: str
    kind: str
    lower: float
    upper: float
    interval: Interval


def interval_reasons(quantities: Mapping[str, Estimand], found: list[FoundInterval], prob: float) -> tuple[str, ...]:
    """Sentences, the largest difference first; one that says they agree when no difference is worth a word."""
    bases = {n: b for n in quantities if (b := _base([f for f in found if f.fit == n])) is not None}
    said: list[tuple[float, str]] = []
    for f in found:
        base = bases.get(f.fit)
        if base is not None and f.kind != base.kind:
            who = f.kind if len(quantities) == 1 else f"{f.fit}: {f.kind}"
            said.append((_size(base, f), f"{who} {_within(quantities[f.fit], base, f, prob)}"))
    for first, name in zip([*bases][:1] * len(bases), [*bases][1:]):
        said.append((_size(bases[first], bases[name]), _between(first, name, quantities, (bases[first], bases[name]))))
    worth = sorted((s for s in said if s[0] >= WORTH), key=lambda s: -s[0])
    return tuple(dict.fromkeys(text for _, text in worth)) or (_agree([s for s, _ in said]),)


def _agree(sizes: list[float]) -> str:
    if not sizes:
        return "there is one interval, and nothing to hold it against"
    return f"all ends agree to {percent(max(sizes), 2)} of a half-width"


def _base(mine: list[FoundInterval]) -> FoundInterval | None:
    """Student's t, else Wald, else the first with two ends."""
    finite = [f for f in mine if np.isfinite(f.upper - f.lower) and f.upper > f.lower]
    return next((f for k in SYMMETRIC for f in finite if f.kind == k), finite[0] if finite else None)


def _size(base: FoundInterval, other: FoundInterval) -> float:
    half = (base.upper - base.lower) / 2
    move = max(abs(base.lower - other.lower), abs(base.upper - other.upper))
    return float(move / half) if np.isfinite(move) and half > 0 else np.inf


# ---- inside one fit ------------------------------------------------------------------------------------------------


def _within(q: Estimand, base: FoundInterval, f: FoundInterval, prob: float) -> str:
    if not np.isfinite(f.upper - f.lower):
        return f"has no end on {_sides(f)}: {_open(f)} (separation)"
    if base.kind not in SYMMETRIC and f.kind != "hdi":
        return _unnamed(q, base, f, prob)
    return _spread(q, base, f) if f.interval.covariance is not None else _KINDS.get(f.kind, _unnamed)(q, base, f, prob)


def _open(f: FoundInterval) -> str:
    return (
        "in too many replicates the estimate runs away"
        if f.kind == "bootstrap"
        else "the likelihood never falls far enough there"
    )


def _sides(f: FoundInterval) -> str:
    return " and ".join(side for side, v in (("the left", f.lower), ("the right", f.upper)) if not np.isfinite(v))


def _ratio(base: FoundInterval, f: FoundInterval) -> float:
    return (f.upper - f.lower) / (base.upper - base.lower)


def _small(q: Estimand, base: FoundInterval, f: FoundInterval, prob: float) -> str:
    df = q.fit.solution.df
    if df is None:
        return _unnamed(q, base, f, prob)
    t, z = quantile(prob, df), quantile(prob, None)
    return (
        f"is {_ratio(base, f):.3g} times as wide as {base.kind}: few observations; "
        f"the normal quantile {z:.4g} in place of Student's {t:.4g} on {df:g} degrees of freedom"
    )


def _spread(q: Estimand, base: FoundInterval, f: FoundInterval) -> str:
    chance = float(np.sqrt(0.5 / q.fit.model.design.total))
    factor = _ratio(base, f)
    far = abs(np.log(factor)) > 3 * chance
    if q.origin.model.joint.informative.any():
        weight = q.prior_weight
        said = f" ({percent(weight)})" if weight >= _HELD else ""
        return (
            f"is {factor:.3g} times as wide as {base.kind}: prior weight{said}; the prior counts as no data in the spread of "
            "the rows' own scores"
        )
    return (
        f"is {factor:.3g} times as wide as {base.kind}: "
        + ("misspecification" if far else "perhaps chance")
        + f"; the spread is that of the rows' own scores and not the model's; {q.fit.model.design.total:g} rows move that factor "
        f"by {chance:.2g} or more when the model is right"
    )


def _skewness_words(q: Estimand, base: FoundInterval, f: FoundInterval, prob: float) -> str:
    below, above = q.estimate - f.lower, f.upper - q.estimate
    if not (below > 0 and above > 0):
        return f"does not hold the estimate {q.estimate:.4g} inside: the likelihood is far from quadratic there"
    lean = above / below
    if 1 / _LEAN < lean < _LEAN:
        scale = (
            "; it takes the normal quantile and RSS/n, the other Student's and RSS/(n - rank)"
            if base.kind == "t"
            else ""
        )
        return f"is {_ratio(base, f):.3g} times as wide as {base.kind}, its arms equal to {100 * (_LEAN - 1):.0f} %: no skewness{scale}"
    return (
        f"reaches {lean:.3g} times as far above the estimate as below: skewness; {base.kind} "
        "is symmetric about the estimate whatever the likelihood"
    )


def _dense(q: Estimand, base: FoundInterval, f: FoundInterval, prob: float) -> str:
    wide, skew, draws = f"is {_ratio(base, f):.3g} times as wide as {base.kind}", _skewness(q), _draws(q)
    chance = 0.0 if draws is None else 2.0 * float(np.sqrt(6.0 / len(draws)))  # of the skewness of as many normal draws
    if abs(skew) <= chance:
        return (
            f"{wide}: Monte Carlo error; the skewness of the posterior is {skew:.2f}, within {chance:.2f} of none, and the "
            "shortest of many intervals takes the gaps that chance left"
        )
    return f"{wide}: skewness; the posterior's is {skew:.2f}, and the shortest interval leans to its mode"


def _unnamed(q: Estimand, base: FoundInterval, f: FoundInterval, prob: float) -> str:
    return f"is {_ratio(base, f):.3g} times as wide as {base.kind}"


_KINDS: Mapping[str, Callable[[Estimand, FoundInterval, FoundInterval, float], str]] = {
    "wald": _small,
    "profile": _skewness_words,
    "score": _skewness_words,
    "bootstrap": _skewness_words,
    "hdi": _dense,
}


def _skewness(q: Estimand) -> float:
    draws = _draws(q)
    if draws is None or q.fit.solution.posterior.elliptical:
        return 0.0
    centred = draws - draws.mean()
    return float((centred**3).mean() / (centred**2).mean() ** 1.5)


def _draws(q: Estimand) -> Array | None:
    """Draws of the quantity, on the scale of the coefficients."""
    s, model = q.fit.solution, q.fit.model
    if s.draws is None:
        return None
    return reported_coefficients(model, s.draws["beta"]).reshape(-1, q.fit.coef.size)[:, q.index]


# ---- between fits --------------------------------------------------------------------------------------------------


def _between(
    first: str, name: str, quantities: Mapping[str, Estimand], bases: tuple[FoundInterval, FoundInterval]
) -> str:
    a, b, (one, two) = quantities[first], quantities[name], bases
    moved = f"{(b.estimate - a.estimate) / a.error:+.2g} SE away and " if a.error > 0 else ""
    head = f"{name} is {moved}{_ratio(one, two):.3g} times as wide as {first}"
    # Only what differs between the two, and "consistent with" where more than one thing does.
    differ = find_differences(a.origin, b.origin) - {"covariance"} | (
        {"covariance"} if _replicated(a) != _replicated(b) else set()
    )
    said = [words for what, rule in _BETWEEN.items() if what in differ and (words := rule((first, name), (a, b)))]
    if not said:
        cause = "nothing that differs between the two explains it"
    else:
        cause = said[0] if len(differ) == 1 else f"consistent with {'; '.join(said[:2])}"
    return f"{head}: {cause}"


Names = tuple[str, str]
Both = tuple[Estimand, Estimand]


def _likelihood(names: Names, both: Both) -> str:
    a, b = (q.origin.model.likelihood.name for q in both)
    return f"another likelihood, {b} for {a}" if a != b else "another setting of the likelihood"


def _sigma_held(names: Names, both: Both) -> str:
    return "sigma, " + ", ".join(
        f"{'held at' if q.origin.model.fixed else 'estimated as'} {q.origin.model.noise(q.origin.aux):.3g} in {n}"
        for n, q in zip(names, both)
    )


def _prior(names: Names, both: Both) -> str:
    weights = {n: w for n, q in zip(names, both) if (w := q.prior_weight) >= _HELD}
    if not weights:
        return "the priors differ" if any(np.isnan(q.prior_weight) for q in both) else ""
    return "prior weight " + ", ".join(f"{percent(w)} in {n}" for n, w in weights.items())


def _prior_of_sigma(names: Names, both: Both) -> str:
    a, b = (q.origin.aux[q.origin.model.noise_scale] for q in both)
    return f"the prior of sigma, {b:.3g} for {a:.3g}" if abs(np.log(b / a)) > _HELD else ""


def _replicated(q: Estimand) -> bool:
    return q.fit.solution.replicates is not None


def _replicates(names: Names, both: Both) -> str:
    which = next(n for n, q in zip(names, both) if _replicated(q))
    return f"the spread of replicates in {which}, that of the curvature in the other"


def _summary(names: Names, both: Both) -> str:
    skew = next((v for q in both if abs(v := _skewness(q)) > _SKEWED), 0.0)
    if skew:
        return f"skewness {skew:.2f} of the posterior, whose mean is not its mode"
    if all(q.origin.model.noise_unknown for q in both):
        return "a small sample: one integrates over sigma, the other takes its mode"
    return "the mean of a posterior in one, its mode in the other"


def _degrees(names: Names, both: Both) -> str:
    which, df = next((n, q.fit.solution.df) for n, q in zip(names, both) if q.fit.solution.df is not None)
    return f"few observations: Student's quantile on {df:g} degrees of freedom in {which} only"


def _noise(names: Names, both: Both) -> str:
    return "Monte Carlo error of the draws"


_BETWEEN: Mapping[str, Callable[[Names, Both], str]] = {
    "likelihood": _likelihood, "sigma held": _sigma_held, "prior": _prior, "prior of sigma": _prior_of_sigma,
    "covariance": _replicates, "summary": _summary, "degrees of freedom": _degrees, "draws": _noise,
}  # fmt: skip
