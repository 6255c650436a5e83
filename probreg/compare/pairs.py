"""A fit beside the baseline: their rows of the table and the evidence that both fits hold, read once for all parameters."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from probreg.compare.alike import observations
from probreg.compare.evidence import mixing, profile_arms, sandwich_ratios
from probreg.compare.numbers import NUMBERS, WORDS, Compared
from probreg.compare.shares import rss_at
from probreg.fit import Fit
from probreg.intervals import quantile
from probreg.likelihoods import Gaussian

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Pair:
    """A fit beside the baseline: the rows of both in the table, as arrays over the parameters."""

    name: str
    base_name: str
    fit: Fit
    base_fit: Fit
    prob: float
    apart: float  # in SE of the baseline: closer estimates and interval ends need no explanation
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
    def sandwich(self) -> dict[str, dict[str, float]]:
        """By fit and coefficient, the sandwich's error over the model's own."""
        return {name: sandwich_ratios(f) for name, (f, _) in self.named.items()}

    @cached_property
    def arms(self) -> dict[str, dict[str, float]]:
        """By fit and coefficient, the upper over the lower arm of the profile interval."""
        return {name: profile_arms(f, self.prob) for name, (f, _) in self.named.items()}

    @cached_property
    def r_hat(self) -> dict[str, Mapping[str, float]]:
        """By fit and parameter, R-hat of its chains."""
        return {name: mixing(f) for name, (f, _) in self.named.items()}

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


def pairs(of: Compared, params: tuple[str, ...]) -> list[Pair]:
    """Every other fit beside the baseline."""
    values = {q: of.data[q].values for q in (*NUMBERS, *WORDS)}
    rows = {name: {q: v[i] for q, v in values.items()} for i, name in enumerate(of.fits)}
    if len(rows) < 2:
        return []
    base_fit = of.fits[of.baseline]
    coefficient, correlation = of.data["role"].values == "coefficient", _correlation(base_fit, params)
    return [
        Pair(
            name, of.baseline, fit, base_fit, of.prob, of.apart, params, coefficient, rows[name], rows[of.baseline], correlation
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
