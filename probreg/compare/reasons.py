"""Why the answers differ: rules over the numbers of the table, each a sentence with its evidence. No proof of a cause.

Every rule has the name of its cause: "likelihood", "separation", "identification", "sampler", "method", "prior",
"skewness", "small sample", "misspecification" or "kind of interval".
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from probreg.compare.alike import observations
from probreg.compare.evidence import divergences, telling
from probreg.compare.numbers import KIND_WORDS, Compared
from probreg.compare.pairs import Pair, pairs
from probreg.fit import Fit
from probreg.inference import Status

SMALL = 0.02  # a share of the prior that explains nothing


@dataclass(frozen=True)
class Reason:
    """Why one parameter of one fit stands apart from the baseline: causes, each with its evidence, and a sentence."""

    param: str
    fit: str
    causes: tuple[tuple[str, str], ...]
    sentence: str


def found(of: Compared) -> list[Reason]:
    """One Reason for every parameter and fit that stands apart from the baseline."""
    params = tuple(map(str, of.data["param"].values))
    with np.errstate(invalid="ignore", divide="ignore"):  # an SE of 0 or none: such a ratio compares as false
        each = [_reason(pair, j) for pair in pairs(of, params) for j in range(len(params))]
    return [one for one in each if one is not None]


def reasons(every: list[Reason], params: tuple[str, ...]) -> dict[str, dict[str, str]]:
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
        return Reason(param, pair.name, (_lost(pair, j),), gone)
    if not _apart(pair, j):
        return None
    why = [(cause, s) for cause, rule in RULES if (s := rule(pair, j))]
    gap = pair.here["shift"][j]
    where = f"{gap:+.2g} SE from" if abs(gap) > 0.005 else "at the estimate of"
    ratio = pair.here["ratio"][j]
    said = f"{pair.name} is {where} {pair.base_name}" + (
        f", ratio of their errors {ratio:.3g}" if np.isfinite(ratio) else ""
    )
    if not why or {"likelihood"} & {cause for cause, _ in why}:
        why += [("misspecification", s)] if (s := _by_misspecification(pair, j)) else []
    words = "; ".join(s for _, s in why)
    sentence = f"{said}; consistent with: {words}" if why else f"{said}; no rule here explains it"
    return Reason(param, pair.name, tuple(why), sentence)


def _apart(pair: Pair, j: int) -> bool:
    gaps = [abs(pair.here[q][j] - pair.base[q][j]) for q in ("estimate", "lower", "upper")]
    return max((g for g in gaps if not np.isnan(g)), default=0.0) > pair.apart * pair.base["error"][j]


def _missing(pair: Pair, j: int) -> str:
    """The sentence where one of the two has no estimate."""
    lost = [name for name, (_, row) in pair.named.items() if np.isnan(row["estimate"][j])]
    if len(lost) != 1:
        return ""
    (which,) = lost
    other = next(name for name in pair.named if name != which)
    fit, prior = pair.named[which][0], pair.named[other][1]["prior"][j]
    detail = fit.solution.detail or fit.described["status"]
    held = f"; the prior {prior} gives {other} one" if prior not in ("flat", "") else f"; {other} has one"
    return f"{which} has no estimate ({detail}){held}"


def _lost(pair: Pair, j: int) -> tuple[str, str]:
    """Why one of the two has no estimate: separation, or columns that are not identified."""
    which = next(f for f, row in pair.named.values() if np.isnan(row["estimate"][j]))
    cause = "separation" if which.solution.status is Status.NO_MAXIMUM else "identification"
    return cause, which.solution.detail or which.described["status"]


# ---- the rules ---------------------------------------------------------------------------------------------------------


def _by_model(pair: Pair, j: int) -> str:
    return pair.by_model


def _by_separation(pair: Pair, j: int) -> str:
    """This coefficient has an estimate in a fit that has none of others: the rows they part tell it nothing."""
    lost = {name: f for name, (f, _) in pair.named.items() if f.solution.status is Status.NO_MAXIMUM}
    return "; ".join(
        f"{f.solution.detail}, so that other coefficients of {name} are at infinity" for name, f in lost.items()
    )


def _by_status(pair: Pair, j: int) -> str:
    told = (Status.NO_MAXIMUM, Status.UNMIXED, Status.DIVERGED)  # by separation and by the sampler
    bad = [n for n, (f, _) in pair.named.items() if not (f.solution.status.good or f.solution.status in told)]
    return f"the status of {' and '.join(bad)}, which did not end well" if bad else ""


def _by_sampler(pair: Pair, j: int) -> str:
    """Chains that do not agree about this parameter, or steps that diverged."""
    said = []
    for name, (fit, _) in pair.named.items():
        r_hat, lost = _of_parameter(pair.r_hat[name], fit, pair.params[j]), divergences(fit)
        if r_hat > 1.01 or lost:
            said.append(f"the sampler of {name} (R-hat {r_hat:.3g}" + (f", {lost} divergences)" if lost else ")"))
    return " and ".join(said)


def _of_parameter(values: Mapping[str, float], fit: Fit, param: str) -> float:
    """The table calls a softmax coefficient `column: outcome`, a summary `outcome column`."""
    column, _, outcome = param.rpartition(": ")
    name = f"{outcome} {column}" if fit.model.likelihood.outcomes and column else param
    return values.get(name, np.nan)


def _by_misspecification(pair: Pair, j: int) -> str:
    """The sandwich disagrees with the model about the error of this coefficient: answers that trust the model, or trust
    another one, then differ by more than noise."""
    n = observations(pair.fit) or 0.0
    ratios = {f: r for f, every in pair.sandwich.items() if telling(r := every.get(pair.params[j], np.nan), n)}
    if not ratios:
        return ""
    worst = max(ratios, key=lambda f: abs(np.log(ratios[f])))
    return (
        f"misspecification: by the rows' own spread (sandwich HC3) the SE of {pair.params[j]} in {worst} is "
        f"{ratios[worst]:.2f} times what its model says"
    )


def _by_prior(pair: Pair, j: int) -> str:
    """The share with the other coefficients free: it is the one that moves estimates and errors."""
    share = {name: float(row["marginal_share"][j]) for name, (_, row) in pair.named.items()}
    prior = {name: row["prior"][j] for name, (_, row) in pair.named.items()}
    here, base = pair.name, pair.base_name
    another = f"another prior ({prior[here]} against {prior[base]}" if prior[here] != prior[base] else ""
    if np.isnan(list(share.values())).any():
        return another and f"{another}; its share has no number)"
    more = max(share, key=lambda f: abs(share[f]))
    if abs(share[here] - share[base]) > SMALL:
        return f"the prior {prior[more]}, {100 * share[more]:.3g} % of the precision of {pair.params[j]} in {more}"
    return another and f"{another})" if abs(share[more]) > SMALL else ""


def _by_neighbour(pair: Pair, j: int) -> str:
    """A coefficient without a prior of its own moves with one that has a share and is correlated with it."""
    share = np.maximum(pair.here["marginal_share"], pair.base["marginal_share"])  # nan, not known, counts as a share
    if not share[j] < SMALL or not pair.coefficient[j]:
        return ""
    moved = np.abs(pair.correlation[j] * pair.here["shift"])
    moved = np.where((share < SMALL) | np.isnan(moved), 0.0, moved)
    k = int(moved.argmax())
    if not moved[k] > pair.apart:
        return ""
    c, shift = pair.correlation[j, k], pair.here["shift"][k]
    return (
        f"its correlation {c:.2g} (in {pair.base_name}) with {pair.params[k]}, "
        f"which moved by {shift:+.2g} SE under its prior"
    )


def _by_restraint(pair: Pair, j: int) -> str:
    """Sigma of the fit whose coefficients stay further from least squares has more to explain."""
    if pair.params[j] != "sigma" or not pair.rss:
        return ""
    more = max(pair.rss, key=lambda f: pair.rss[f])
    fit, n = pair.named[more][0], observations(pair.fit) or np.nan
    grown = (np.sqrt(pair.rss[pair.name]) - np.sqrt(pair.rss[pair.base_name])) / np.sqrt(n) / pair.base["error"][j]
    same_way = grown * pair.here["shift"][j] > 0
    if not (abs(grown) > pair.apart and same_way and fit.model.joint.informative.any()):
        return ""
    least = fit.model.design.moments.rss
    return (
        f"the residuals grew because the coefficients were held back by their prior "
        f"(RSS {pair.rss[more]:.4g} at the estimate of {more} against {least:.4g} of least squares)"
    )


def _by_skewness(pair: Pair, j: int) -> str:
    """The mean of a skewed posterior is not its mode, and an approximation without skewness has neither."""
    skew = {name: float(row["skewness"][j]) for name, (f, row) in pair.named.items() if f.target == "posterior"}
    if not skew:
        return ""
    sampled = max(skew, key=lambda f: abs(skew[f]))
    value, rest = skew[sampled], [v for f, v in skew.items() if f != sampled]
    if not abs(value) > 0.1 or (rest and not abs(value - rest[0]) > 0.1):
        return ""
    row = pair.named[sampled][1]
    arms = (row["upper"][j] - row["estimate"][j]) / (row["estimate"][j] - row["lower"][j])
    said = f"a skewed posterior (skewness {value:.2g}; upper arm of its interval {arms:.2g} times the lower"
    if rest:
        return f"{said}, of {sampled} alone)"
    mode = next(name for name in pair.named if name != sampled)
    profile = pair.arms[mode].get(pair.params[j], np.nan)
    return f"{said}{f', of the profile in {mode} {profile:.2g} times' if np.isfinite(profile) else ''}): its mean is not its mode"


def _by_small_sample(pair: Pair, j: int) -> str:
    """Only where sigma itself stayed and the errors differ by no more than a count of degrees of freedom can do."""
    factor, said = pair.small_sample
    if factor < 1.02:
        return ""
    ratio, moved = pair.here["ratio"][j], abs(pair.here["shift"][pair.params.index("sigma")])
    return said if moved < pair.apart and 1 / factor <= ratio <= factor else ""


def _by_noise(pair: Pair, j: int) -> str:
    errors = np.array([pair.here["mcse"][j], pair.base["mcse"][j]])
    mcse = float(np.nansum(np.square(errors)) ** 0.5 / pair.base["error"][j])
    noisy = abs(pair.here["shift"][j]) < 3 * mcse and mcse > pair.apart / 3
    return f"sampling noise (Monte Carlo error {mcse:.2g} SE)" if noisy else ""


def _by_kind(pair: Pair, j: int) -> str:
    a, b = (str(row["kind"][j]) for _, row in pair.named.values())
    if a == b or abs(pair.here["shift"][j]) > pair.apart:
        return ""
    return f"another kind of interval ({KIND_WORDS[b]} against {KIND_WORDS[a]})"


RULES: tuple[tuple[str, Callable[[Pair, int], str]], ...] = (
    ("likelihood", _by_model),
    ("separation", _by_separation),
    ("method", _by_status),
    ("sampler", _by_sampler),
    ("prior", _by_restraint),
    ("prior", _by_prior),
    ("prior", _by_neighbour),
    ("skewness", _by_skewness),
    ("small sample", _by_small_sample),
    ("sampler", _by_noise),
    ("kind of interval", _by_kind),
)
