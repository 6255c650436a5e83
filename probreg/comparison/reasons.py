"""Why the answers differ: of what differs between two fits, that which would have moved the estimate or the interval so.

Every cause has a name: "likelihood", "sigma held", "prior", "prior of sigma", "separation", "identification", "sampler",
"Monte Carlo error", "convergence", "skewness", "approximation", "small sample", "covariance", "misspecification" or "kind of
interval". A cause is named only where it differs between the two; its size is what it would do by first-order expansion.
"""

from dataclasses import dataclass

import numpy as np

from probreg.comparison.contributions import MOVERS, Effect
from probreg.comparison.methods import added
from probreg.comparison.numbers import Compared
from probreg.comparison.pairs import Pair, pairs_with_baseline
from probreg.comparison.same_question import terms_apart
from probreg.comparison.words import Cause, described
from probreg.inference import Status

Array = np.ndarray
RELATIVE = 0.25  # of the largest cause: a smaller one is not named
MOST = 3  # causes of one difference
_FAR = 3.0  # log factors of arms are cut here
CALLED = {
    "likelihood": "another likelihood", "prior": "the prior", "prior of sigma": "the prior of sigma", "sampler": "the sampler",
    "approximation": "the approximation", "small sample": "a small sample", "covariance": "the kind of covariance",
    "kind of interval": "the kind of interval",
}  # fmt: skip


@dataclass(frozen=True)
class Reason:
    """Why one parameter of one fit stands apart from the baseline: causes, each with its evidence, and a sentence."""

    param: str
    fit: str
    causes: tuple[tuple[str, str], ...]
    sentence: str


def found(of: Compared) -> list[Reason]:
    """One Reason for every parameter and fit that stands apart from the baseline; none where fits have other functions, since what
    the parameters are beside them is another question."""
    if terms_apart(of.fits.values()):
        return []
    params = tuple(map(str, of.data["param"].values))
    with np.errstate(invalid="ignore", divide="ignore"):  # an SE of 0 or none: such a ratio compares as false
        each = [_reason(pair, j) for pair in pairs_with_baseline(of, params) for j in range(len(params))]
    return [one for one in each if one is not None]


def reasons_by_parameter(every: list[Reason], params: tuple[str, ...]) -> dict[str, dict[str, str]]:
    """By parameter, in the order of the table, the sentence of each fit."""
    out: dict[str, dict[str, str]] = {p: {} for p in params}
    for one in every:
        out[one.param][one.fit] = one.sentence
    return {p: said for p, said in out.items() if said}


def _reason(pair: Pair, j: int) -> Reason | None:
    kinds = {str(row["kind"][j]) for _, row in pair.named.values()}
    if kinds & {"held", ""} or not (pair.coefficient[j] or pair.alike):
        return None
    param = pair.params[j]
    if gone := _missing(pair, j):
        return Reason(param, pair.name, (_why_no_estimate(pair, j),), gone)
    if not _gap(pair, j) > pair.apart:
        return None
    causes = _ranked(pair, j)
    said = _said(pair, j)
    if not causes:
        return Reason(param, pair.name, (), f"{said}; nothing that differs explains it")
    sure = len(pair.differ) == 1 and len(causes) == 1
    names = " and ".join(CALLED.get(one.name, one.name) for one in causes)
    head = f"{said}, {'because of' if sure else 'consistent with'} {names}"
    sentence = ". ".join([head, *(one.said[:1].upper() + one.said[1:] for one in causes)])
    return Reason(param, pair.name, tuple((one.name, one.said) for one in causes), sentence)


def _said(pair: Pair, j: int) -> str:
    """How far apart the two are."""
    difference, ratio = pair.here["difference"][j], pair.here["se_ratio"][j]
    if not pair.base["error"][j] > 0:
        return f"{pair.name} is not at the estimate of {pair.base_name}, whose SE is 0"
    where = f"{difference:+.2g} SE from" if abs(difference) > 0.005 else "at the estimate of"
    return f"{pair.name} is {where} {pair.base_name}" + (f", SE ratio {ratio:.3g}" if np.isfinite(ratio) else "")


def _gap(pair: Pair, j: int) -> float:
    """The largest of the distances between estimates and between interval ends, in SE of the baseline."""
    gaps = [abs(pair.here[q][j] - pair.base[q][j]) for q in ("estimate", "lower", "upper")]
    return float(max((g for g in gaps if not np.isnan(g)), default=0.0) / pair.base["error"][j])


def _missing(pair: Pair, j: int) -> str:
    """The sentence where one of the two has no estimate."""
    lost = [name for name, (_, row) in pair.named.items() if np.isnan(row["estimate"][j])]
    if len(lost) != 1:
        return ""
    (which,) = lost
    other = next(name for name in pair.named if name != which)
    prior = pair.named[other][1]["prior"][j]
    cause, detail = _why_no_estimate(pair, j)
    held = f"the prior {prior} alone gives {other} one" if prior not in ("flat", "") else f"{other} has one"
    return f"{cause}: {which} has no estimate ({detail}); {held}"


def _why_no_estimate(pair: Pair, j: int) -> tuple[str, str]:
    """Why one of the two has no estimate: separation, or columns that are not identified."""
    which = next(f for f, row in pair.named.values() if np.isnan(row["estimate"][j]))
    cause = "separation" if which.solution.status is Status.NO_MAXIMUM else "identification"
    first, *more = (which.solution.detail or which.solution.status.value).split("; ")
    return cause, first + (f" and {len(more)} more" if more else "")


# ---- ranking the causes ------------------------------------------------------------------------------------------------


def _ranked(pair: Pair, j: int) -> list[Cause]:
    """The causes that would have moved this parameter as it moved, the largest first; none that is small beside another."""
    if not pair.base["error"][j] > 0:
        return [one for name in MOVERS if name in pair.differ and (one := described(pair, name, j)) is not None]
    each = _by_cause(pair, j)
    known = [one for one in each.values() if not _unknown(one, j)]
    left = _left(pair, known, j)
    sizes = {name: max(left) if _unknown(one, j) else _size(pair, one, j) for name, one in each.items()}
    noise = _noise(pair, left, j)
    if noise > 0:
        sizes["Monte Carlo error"] = max(sizes.get("Monte Carlo error", 0.0), noise)
    if "likelihood" in each:
        sizes["likelihood"] = np.inf
    if pair.without_maximum:
        sizes["separation"] = np.inf
    finite = [v for v in sizes.values() if np.isfinite(v)]
    least = max(RELATIVE * max(finite, default=0.0), RELATIVE * pair.apart)
    largest = sorted(sizes, key=lambda name: -sizes[name])
    named = [described(pair, name, j) for name in largest if sizes[name] > least or _moves(pair, each.get(name), j)]
    if not named:  # expansions miss what is far from quadratic: what differs in the model is what is left
        named = [described(pair, name, j) for name in MOVERS if name in each]
    if "likelihood" in each and (telling := described(pair, "misspecification", j)):
        named.append(telling)
    return [one for one in named if one is not None][:MOST]


def _by_cause(pair: Pair, j: int) -> dict[str, Effect]:
    """The effects on one parameter by cause; what a method adds in both fits alike goes with what moved the mode most."""
    out = {name: one for name, one in pair.effects.items() if name in MOVERS}
    reach = {name: abs(one.move[j]) + abs(one.upper[j]) for name, one in out.items()}
    largest = max(reach, key=lambda name: np.nan_to_num(reach[name], nan=np.inf), default=None)
    for part in ("own", "error", "quantile"):
        one = pair.effects[part]
        cause = added(pair, part, j) or largest
        if cause is not None:
            out[cause] = _sum(out[cause], one) if cause in out else one
    return out


def _sum(a: Effect, b: Effect) -> Effect:
    return Effect(a.move + b.move, a.lower + b.lower, a.upper + b.upper)


def _unknown(one: Effect, j: int) -> bool:
    return bool(np.isnan([one.move[j], one.lower[j], one.upper[j]]).any())


def _size(pair: Pair, one: Effect, j: int) -> float:
    """How much of the difference it would make, in SE of the baseline: of the estimate or of an end, where that is more."""
    error, base, here = pair.base["error"][j], pair.base, pair.here
    move = one.move[j]
    below = move - (base["estimate"][j] - base["lower"][j]) * np.expm1(np.clip(one.lower[j], -_FAR, _FAR))
    above = move + (base["upper"][j] - base["estimate"][j]) * np.expm1(np.clip(one.upper[j], -_FAR, _FAR))
    made = {"estimate": move, "lower": below, "upper": above}
    return max(_toward(float(v), here[q][j] - base[q][j]) / error for q, v in made.items())


def _moves(pair: Pair, one: Effect | None, j: int) -> bool:
    """It makes half of a difference between the estimates that is one by itself."""
    error = pair.base["error"][j]
    difference = (pair.here["estimate"][j] - pair.base["estimate"][j]) / error
    return (
        one is not None
        and abs(difference) > pair.apart
        and _toward(one.move[j] / error, difference) > 0.5 * abs(difference)
    )


def _toward(part: float, whole: float) -> float:
    """How much of the whole a part makes: nothing where it goes the other way."""
    return min(abs(part), abs(whole)) if part * whole > 0 else 0.0


def _left(pair: Pair, every: list[Effect], j: int) -> tuple[float, ...]:
    """What is left of the differences of estimate, lower and upper end, in SE of the baseline, once causes are taken off."""
    base, here = pair.base, pair.here
    move = sum(one.move[j] for one in every)
    low, high = (
        float(np.exp(np.clip(sum(getattr(one, end)[j] for one in every), -_FAR, _FAR))) for end in ("lower", "upper")
    )
    at = base["estimate"][j] + move
    left = (
        abs(here["estimate"][j] - at),
        abs(here["lower"][j] - at + low * (base["estimate"][j] - base["lower"][j])),
        abs(here["upper"][j] - at - high * (base["upper"][j] - base["estimate"][j])),
    )
    return tuple(float(np.nan_to_num(v / base["error"][j])) for v in left)


def _noise(pair: Pair, left: tuple[float, ...], j: int) -> float:
    """What is left of the difference, where draws leave as much by chance; else 0."""
    mean, end = (v / pair.base["error"][j] for v in pair.noise(j))
    chance = "draws" in pair.differ and end > 0 and left[0] <= 3.0 * mean + 0.02 and max(left) <= 3.0 * end
    return max(left) if chance else 0.0
