"""Why the answers differ: the causes of a difference with their shares, the largest first, and a sentence that names it.

Where a path of priors joins two fits the shares add up: see `explanation`. Elsewhere (no maximum, another likelihood, a prior
with a kink or of unknown scale) what differs in the models is named, with what differs in the methods where that parts answers
to one model too: their shares are not told apart.
Every cause has a name: "prior of x", "prior of sigma", "sigma held", "likelihood", "prior", "separation", "identification",
"sampler", "Monte Carlo error", "convergence", "skewness", "approximation", "small sample", "covariance", "misspecification" or
"kind of interval"; of effects that vary by a group "degrees of freedom of the mean", "uncertainty of the standard deviations" and "prior of
the standard deviations". A cause is named only where it differs between the two.
"""

from dataclasses import dataclass

import numpy as np

from probreg.comparison.differences import AVERAGED, DEGREES, PRIOR_OF_SD, summary
from probreg.comparison.evidence import freedom, ratio_differs
from probreg.comparison.methods import bad_chains, of_interval, of_method
from probreg.comparison.numbers import FitTable
from probreg.comparison.pairs import Pair, pairs_with_baseline
from probreg.comparison.same_question import number_of_observations
from probreg.comparison.share_words import (
    CHANCE,
    cause_phrase,
    expm1_over_x,
    lack_of_estimate,
    moved_by,
)
from probreg.comparison.words import Cause, evidence_text
from probreg.fits.goodness import exact_fit
from probreg.inference.uncertainty.intervals.arithmetic import quantile
from probreg.system.terminal import cut_text

RELATIVE = 0.25  # of the largest cause: a smaller one is not named
MOST = 3  # causes of one difference
RULED = (
    DEGREES,
    AVERAGED,
    PRIOR_OF_SD,
    "likelihood",
    "prior",
    "sigma held",
    "prior of sigma",
)  # what may part two models that no path joins
METHOD = (
    "sampler",
    "skewness",
    "approximation",
    "small sample",
    "kind of interval",
)  # and answers to one model


@dataclass(frozen=True)
class Reason:
    """Why one parameter of one fit stands apart from the baseline: causes, each with its evidence, and a sentence."""

    param: str
    fit: str
    causes: tuple[Cause, ...]
    sentence: str


def explain_differences(of: FitTable) -> list[Reason]:
    """Return one Reason for each parameter and fit that differs from the baseline."""
    params = tuple(map(str, of.data["param"].values))
    with np.errstate(
        invalid="ignore", divide="ignore"
    ):  # an SE of 0 or none: such a ratio compares as false
        each = [
            _reason(pair, j)
            for pair in pairs_with_baseline(of, params)
            for j in range(len(params))
        ]
    return [one for one in each if one is not None]


def reasons_by_parameter(
    every: list[Reason], params: tuple[str, ...]
) -> dict[str, dict[str, str]]:
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
    gone = _explain_missing_estimate(pair, j)
    if gone:
        lost = [fit for fit, row in pair.named.values() if np.isnan(row["estimate"][j])]
        return Reason(param, pair.name, (Cause(*lack_of_estimate(lost[0])),), gone)
    if not _gap(pair, j) > pair.apart:
        return None
    explained = pair.shares_of_causes
    by_path = (
        not explained.without_path
        and pair.params[j] in explained.shares["param"]
        and pair.base["error"][j] > 0
    )
    if by_path:
        causes = _by_path(pair, j)
    else:
        causes = _by_rule(pair, j)
    return Reason(
        param,
        pair.name,
        tuple(causes),
        f"{pair.name}: {_explain_difference(pair, j, causes)}",
    )


def _gap(pair: Pair, j: int) -> float:
    """The largest of the distances between estimates and between interval ends, in SE of the baseline; of an exact fit, whose
    errors are rounding, inf where the estimates are apart in SE of the other fit."""
    if exact_fit(pair.base_fit):
        far = (
            abs(pair.here["estimate"][j] - pair.base["estimate"][j])
            > pair.apart * pair.here["error"][j]
        )
        return np.inf if far else 0.0
    gaps = [
        abs(pair.here[q][j] - pair.base[q][j]) for q in ("estimate", "lower", "upper")
    ]
    return float(
        max((g for g in gaps if not np.isnan(g)), default=0.0) / pair.base["error"][j]
    )


def _explain_missing_estimate(pair: Pair, j: int) -> str:
    """Explain why one of the two fits has no estimate."""
    lost = [
        name for name, (_, row) in pair.named.items() if np.isnan(row["estimate"][j])
    ]
    if len(lost) != 1:
        return ""
    (which,) = lost
    other = next(name for name in pair.named if name != which)
    prior = pair.named[other][1]["prior"][j]
    cause, detail = lack_of_estimate(pair.named[which][0])
    if prior not in ("flat", ""):
        held = f"the prior {prior} alone gives {other} one"
    else:
        held = f"{other} has one"
    return f"{cause}: {which} has no estimate ({cut_text(detail, 80)}); {held}"


# ---- the causes --------------------------------------------------------------------------------------------------------


def _by_path(pair: Pair, j: int) -> list[Cause]:
    """The causes by their shares, the largest first; none that is small beside another."""
    one = pair.shares_of_causes.shares.sel(param=pair.params[j])
    each = {
        str(c): (float(s), float(r))
        for c, s, r in zip(
            one["cause"].values, one["shift"].values, one["log_se"].values
        )
    }
    z = quantile(pair.prob, None)
    arm = _log_width_ratio(pair, j)
    shaped = of_interval(pair, j)
    if shaped is not None and z * abs(arm) > RELATIVE * pair.apart:
        each.setdefault(shaped, (0.0, 0.0))
    # the move of an interval's end: of the estimate, of the error, and of the ends in units of it
    z *= float(expm1_over_x(np.nan_to_num(one["log_se_ratio"].values) + arm))
    sizes = {
        c: abs(s) + z * abs(np.nan_to_num(r) + (arm if c == shaped else 0.0))
        for c, (s, r) in each.items()
    }
    least = RELATIVE * max([pair.apart, *sizes.values()])
    gap = abs(float(one["difference"]))
    # and what makes most of a difference between the estimates that is one by itself
    far = {c for c, (s, _) in each.items() if gap > pair.apart and abs(s) > 0.5 * gap}
    # what parts the models of two fits with groups stands before another quantile of t
    built = {DEGREES, AVERAGED, PRIOR_OF_SD} & set(each)
    order = sorted(sizes, key=lambda c: (bool(built) and c == shaped, -sizes[c]))
    largest = [c for c in order if sizes[c] > least or c in far or c in built][:MOST]
    return [_cause(pair, c, j, *each[c]) for c in largest]


def _cause(
    pair: Pair, name: str, j: int, shift: float = np.nan, log_se: float = np.nan
) -> Cause:
    """A cause with its evidence; another covariance is a wrong model's where its sandwich tells that."""
    if name == "covariance" and any(
        ratio_differs(every.get(pair.params[j], np.nan), freedom(pair.fit))
        for every in pair.sandwich.values()
    ):
        name = "misspecification"
    return Cause(name, evidence_text(pair, name, j), shift, log_se)


def _log_width_ratio(pair: Pair, j: int) -> float:
    """log of (width / error) of the fit's interval over that of the baseline; 0 where one has none."""
    a, b = (
        (row["upper"][j] - row["lower"][j]) / row["error"][j]
        for row in (pair.base, pair.here)
    )
    ratio = np.log(b / a)
    return float(ratio) if np.isfinite(ratio) else 0.0


def _by_rule(pair: Pair, j: int) -> list[Cause]:
    """What differs in the models, and in the methods where nothing does or both part the answers."""
    if pair.structure:
        causes = [Cause(name, sentence) for name, sentence in pair.structure.items()]
        others = ["separation"] * bool(pair.without_maximum) + [
            name for name in RULED if name in pair.differ
        ]
        return [
            *causes,
            *(_cause(pair, name, j) for name in [*others, *_beside_the_model(pair, j)]),
        ]
    names = ["separation"] * bool(pair.without_maximum) + [
        name for name in RULED if name in pair.differ
    ]
    if not names and (own := of_method(pair, j)) is not None:
        names = [own]
    elif names and not pair.without_maximum and not pair.differ & set(RULED[:3]):
        names += _beside_the_model(pair, j)
    if (
        not pair.coefficient[j] and AVERAGED in names
    ):  # of a scale itself a mean stands beside a maximum
        names[names.index(AVERAGED)] = "skewness"
    if (
        pair.coefficient[j]
        and pair.differ & {DEGREES}
        and pair.here["kind"][j] != pair.base["kind"][j]
    ):
        names.append("kind of interval")  # t of REML beside a normal quantile
    causes = [_cause(pair, name, j) for name in names]
    if "likelihood" in names and (said := evidence_text(pair, "misspecification", j)):
        causes.append(Cause("misspecification", said))
    return causes[:MOST]


def _beside_the_model(pair: Pair, j: int) -> list[str]:
    """What the methods would part of one model too: its sampler, a mean beside a mode, or intervals made otherwise, where
    that is not small beside the difference."""
    if bad_chains(pair, j):
        return ["sampler"]
    own = of_interval(pair, j)
    if own is None or (
        "summary" in pair.differ
        and "posterior" in map(summary, (pair.base_fit, pair.fit))
    ):
        return [own] if own else []
    # an interval's end by another quantile, and by RSS / df for RSS / n
    free = [(number_of_observations(f), f.solution.df) for f, _ in pair.named.values()]
    divisors = sum(0.5 * abs(np.log(n / df)) for n, df in free if n and df)
    size = quantile(pair.prob, None) * np.expm1(
        abs(_log_width_ratio(pair, j)) + divisors
    )
    if not pair.coefficient[j] or size > RELATIVE * _gap(pair, j):
        return [own]
    return []


def _explain_difference(pair: Pair, j: int, causes: list[Cause]) -> str:
    """Name the largest cause and its share; without shares, the size of the difference and the differing settings."""
    difference = pair.here["difference"][j]
    ratio = pair.here["se_ratio"][j]
    if causes and np.isfinite(causes[0].shift):
        first = causes[0]
        width = np.log(ratio) + _log_width_ratio(pair, j)
        if abs(first.shift) + abs(np.nan_to_num(first.log_se)) < 0.25 * abs(width):
            return f"{cause_phrase(first.name)} makes its interval {np.exp(width):.3g} times as wide"
        known = pair.shares_of_causes.chance_known
        return moved_by(
            first.name,
            first.shift,
            first.log_se,
            difference,
            np.log(ratio),
            known=known,
        )
    if abs(difference) > 0.005:
        where = f"{difference:+.2g} SE from {pair.base_name}"
    else:
        where = f"at {pair.base_name}"
    if not pair.base["error"][j] > 0:
        if exact_fit(pair.base_fit):
            lack = "which meets every response"
        else:
            lack = "whose SE is 0"
        where = f"not at the estimate of {pair.base_name}, {lack}"
    where += f", SE ratio {ratio:.3g}" if np.isfinite(ratio) else ""
    if pair.structure:
        return f"{where}; {'; '.join(c.said for c in causes)}"
    of_model = [c.name for c in causes if c.name in RULED]
    if (
        of_model
        and not set(of_model) & set(RULED[:3])
        and set(METHOD) & {c.name for c in causes}
    ):
        return f"{where}; {', '.join(of_model)} and method, whose shares cannot be told apart"
    if causes and causes[0].name == CHANCE:
        return f"{where}, which cannot be told from Monte Carlo error"
    together = [
        c.name for c in causes if c.name in (*RULED[:3], "prior of sigma", "skewness")
    ]
    if len(together) > 1 and len(together) == len(causes):
        return f"{where}; {', '.join(together)}"
    return f"{where}; {causes[0].said.split('; ')[0] if causes else 'nothing that differs explains it'}"
