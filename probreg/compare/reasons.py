"""Why the answers differ: rules over the numbers of the table, each a sentence with its evidence. No proof of a cause."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from probreg.compare.alike import observations
from probreg.compare.numbers import KIND_WORDS, NUMBERS, WORDS, Compared
from probreg.compare.shares import rss_at
from probreg.fit import Fit
from probreg.intervals import quantile
from probreg.likelihoods import Gaussian

Array = np.ndarray
SMALL = 0.02  # a share of the prior that explains nothing
APART = 0.1  # in SE of the baseline: closer estimates and interval ends need no explanation


@dataclass(frozen=True, eq=False)
class Pair:
    """A fit beside the baseline: the rows of both in the table, as arrays over the parameters."""

    name: str
    base_name: str
    fit: Fit
    base_fit: Fit
    prob: float
    params: tuple[str, ...]
    coefficient: Array  # (param,) bool
    here: Mapping[str, Array]
    base: Mapping[str, Array]
    correlation: Array  # (param, param) in the baseline, nan where there is none

    @cached_property
    def named(self) -> dict[str, tuple[Fit, Mapping[str, Array]]]:
        """Both fits with their rows, the baseline first."""
        return {self.base_name: (self.base_fit, self.base), self.name: (self.fit, self.here)}

    @cached_property
    def alike(self) -> bool:
        """One likelihood, so that an auxiliary parameter is the same quantity in both."""
        return self.fit.model.likelihood == self.base_fit.model.likelihood

    @cached_property
    def rss(self) -> dict[str, float]:
        """The residual sums of squares at both estimates; nothing for another likelihood than the Gaussian."""
        if not all(isinstance(f.model.likelihood, Gaussian) for f, _ in self.named.values()):
            return {}
        return {name: rss_at(f) for name, (f, _) in self.named.items()}

    @cached_property
    def by_model(self) -> str:
        a, b = self.base_fit.model, self.fit.model
        if not self.alike:
            return f"another likelihood: {b.likelihood.describe(b.design.response)}"
        if a.fixed == b.fixed:
            return ""
        held = {k: f"held at {v:g} in {n}" for n, (f, _) in self.named.items() for k, v in f.model.fixed.items()}
        return ", ".join(f"{k} {v}" for k, v in held.items())

    @cached_property
    def small_sample(self) -> tuple[float, str]:
        """Modes of Gaussian models: the factor up to which errors or interval lengths differ between sqrt(RSS/n) with
        normal quantiles and sqrt(RSS/(n - rank)) with Student-t ones, and its words; (0, "") where this is no reason."""
        known = {name: f.solution.df for name, (f, _) in self.named.items()}
        classical = next((f for f, df in known.items() if df), None)
        fits = [f for f, _ in self.named.values()]
        if classical is None or None not in known.values() or not self.rss:
            return 0.0, ""
        if any(f.target != "mode" or not f.model.unknown for f in fits):
            return 0.0, ""
        df, n = float(known[classical] or np.inf), observations(self.named[classical][0]) or np.nan
        t, z = quantile(self.prob, df), quantile(self.prob, None)
        evidence = f"t {t:.3g} against normal {z:.3g}, sqrt(n/df) {np.sqrt(n / df):.3g}"
        said = f"a small sample, counted by {df:g} degrees of freedom in {classical} only ({evidence})"
        return max(n / df, t / z), said


def reasons(of: Compared) -> dict[str, dict[str, str]]:
    """By parameter, one sentence for each fit that stands apart from the baseline there, by the name of the fit."""
    params = tuple(map(str, of.data["param"].values))
    out: dict[str, dict[str, str]] = {p: {} for p in params}
    with np.errstate(invalid="ignore", divide="ignore"):  # an SE of 0 or none: such a ratio compares as false
        for pair in _pairs(of, params):
            for j, param in enumerate(params):
                if said := _sentence(pair, j):
                    out[param][pair.name] = said
    return {p: said for p, said in out.items() if said}


def _pairs(of: Compared, params: tuple[str, ...]) -> list[Pair]:
    values = {q: of.data[q].values for q in (*NUMBERS, *WORDS)}
    rows = {name: {q: v[i] for q, v in values.items()} for i, name in enumerate(of.fits)}
    if len(rows) < 2:
        return []
    base_fit = of.fits[of.baseline]
    coefficient, correlation = of.data["role"].values == "coefficient", _correlation(base_fit, params)
    return [
        Pair(
            name, of.baseline, fit, base_fit, of.prob, params, coefficient, rows[name], rows[of.baseline], correlation
        )
        for name, fit in of.fits.items()
        if name != of.baseline
    ]  # fmt: skip


def _correlation(fit: Fit, params: tuple[str, ...]) -> Array:
    """Of the baseline's coefficients, (param, param) in the order of the table, nan for what is none."""
    cov = fit.covariance().values
    names = {name: k for k, name in enumerate(fit.parameter_names)}
    sd = np.sqrt(np.diagonal(cov))
    r = cov / np.outer(sd, sd)
    at = [j for j, p in enumerate(params) if p in names]
    order = [names[params[j]] for j in at]
    out = np.full((len(params), len(params)), np.nan)
    out[np.ix_(at, at)] = r[np.ix_(order, order)]
    return out


def _sentence(pair: Pair, j: int) -> str:
    kinds = {str(row["kind"][j]) for _, row in pair.named.values()}
    if kinds & {"held", ""} or not (pair.coefficient[j] or pair.alike):
        return ""
    if (gone := _missing(pair, j)) or not _apart(pair, j):
        return gone
    why = [s for rule in RULES if (s := rule(pair, j))]
    gap = pair.here["shift"][j]
    where = f"{gap:+.2g} SE from" if abs(gap) > 0.005 else "at the estimate of"
    said = f"{pair.name} is {where} {pair.base_name}, ratio of their errors {pair.here['ratio'][j]:.3g}"
    return f"{said}; consistent with: {'; '.join(why)}" if why else f"{said}; no rule here explains it"


def _apart(pair: Pair, j: int) -> bool:
    gaps = [abs(pair.here[q][j] - pair.base[q][j]) for q in ("estimate", "lower", "upper")]
    return max((g for g in gaps if not np.isnan(g)), default=0.0) > APART * pair.base["error"][j]


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


# ---- the rules ---------------------------------------------------------------------------------------------------------


def _by_model(pair: Pair, j: int) -> str:
    return pair.by_model


def _by_status(pair: Pair, j: int) -> str:
    bad = [name for name, (f, _) in pair.named.items() if not f.solution.status.good]
    return f"the status of {' and '.join(bad)}, which did not end well" if bad else ""


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
    if not moved[k] > APART:
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
    if not (abs(grown) > APART and same_way and fit.model.joint.informative.any()):
        return ""
    least = fit.model.design.moments.rss
    return (
        f"the residuals grew because the coefficients were held back by their prior "
        f"(RSS {pair.rss[more]:.4g} at the estimate of {more} against {least:.4g} of least squares)"
    )


def _by_skewness(pair: Pair, j: int) -> str:
    sampled = pair.name if pair.fit.target == "posterior" else pair.base_name
    row = pair.named[sampled][1]
    value = row["skewness"][j]
    if pair.fit.target == pair.base_fit.target or not abs(value) > 0.1:
        return ""
    arms = (row["upper"][j] - row["estimate"][j]) / (row["estimate"][j] - row["lower"][j])
    return f"a skewed posterior (skewness {value:.2g}; upper arm of its interval {arms:.2g} times the lower): its mean is not its mode"


def _by_small_sample(pair: Pair, j: int) -> str:
    """Only where sigma itself stayed and the errors differ by no more than a count of degrees of freedom can do."""
    factor, said = pair.small_sample
    if factor < 1.02:
        return ""
    ratio, moved = pair.here["ratio"][j], abs(pair.here["shift"][pair.params.index("sigma")])
    return said if moved < APART and 1 / factor <= ratio <= factor else ""


def _by_noise(pair: Pair, j: int) -> str:
    errors = np.array([pair.here["mcse"][j], pair.base["mcse"][j]])
    mcse = float(np.nansum(np.square(errors)) ** 0.5 / pair.base["error"][j])
    noisy = abs(pair.here["shift"][j]) < 3 * mcse and mcse > APART / 3
    return f"sampling noise (Monte Carlo error {mcse:.2g} SE)" if noisy else ""


def _by_kind(pair: Pair, j: int) -> str:
    a, b = (str(row["kind"][j]) for _, row in pair.named.values())
    if a == b or abs(pair.here["shift"][j]) > APART:
        return ""
    return f"another kind of interval ({KIND_WORDS[b]} against {KIND_WORDS[a]})"


RULES = (
    _by_model, _by_status, _by_restraint, _by_prior, _by_neighbour, _by_skewness, _by_small_sample, _by_noise, _by_kind
)  # fmt: skip
