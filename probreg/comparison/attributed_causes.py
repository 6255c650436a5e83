"""The causes of the differences in a comparison: by share where a path of priors connects two fits, else as a list."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from probreg.comparison.attribution import (
    Explanation,
    explain_fits,
    expm1_over_x,
    shape_cause,
)
from probreg.comparison.cause_text import evidence_text, missing_estimate, share_text
from probreg.comparison.causes import MODEL, Cause, SpecificCause
from probreg.comparison.differences import (
    find_differences,
    structural_differences,
    summary,
)
from probreg.comparison.method_steps import has_bad_chains
from probreg.comparison.numbers import NUMBERS, WORDS, FitTable, by_outcome
from probreg.fits.fit import Fit
from probreg.fits.goodness import exact_fit
from probreg.inference import Status
from probreg.inference.uncertainty.intervals.arithmetic import quantile

Array = np.ndarray
_RELATIVE = 0.25  # of the largest cause: a smaller one is not listed
_MOST = 3  # causes of one difference with shares
_TOLERANCE = 1e-4  # SE, to which shares are summed
_SKEWED = 0.1  # a skewness that moves a mean by a twentieth of a standard deviation
_EFFECT_CAUSES = {Cause.MEAN_DF, Cause.SCALE_UNCERTAINTY, Cause.SCALE_PRIOR}


class AttributedCause(NamedTuple):
    """A cause with its share of the shift in SE and of the log of the SE ratio (nan without a path), and its evidence."""

    cause: SpecificCause
    evidence: str
    shift: float = np.nan
    log_se: float = np.nan


@dataclass(frozen=True)
class Attribution:
    """The causes of the difference of one parameter between a fit and the baseline, and a sentence on the largest."""

    param: str
    fit: str
    causes: tuple[AttributedCause, ...]
    sentence: str


def attribute_differences(table: FitTable) -> list[Attribution]:
    """Return the causes for each parameter and fit that differs from the baseline."""
    values = {q: table.data[q].values for q in (*NUMBERS, *WORDS)}
    rows = {
        name: {q: v[i] for q, v in values.items()} for i, name in enumerate(table.fits)
    }
    base = table.baseline
    pairs = [
        FitPair(
            {base: table.fits[base], name: fit},
            {base: rows[base], name: rows[name]},
            table.prob,
            table.apart,
            tuple(map(str, table.data["param"].values)),
            table.data["role"].values == "coefficient",
        )
        for name, fit in table.fits.items()
        if name != base
    ]
    # an SE of 0 or none: such a ratio compares as false
    with np.errstate(invalid="ignore", divide="ignore"):
        attributions = [
            pair.attribute(j) for pair in pairs for j in range(len(pair.params))
        ]
    return [attribution for attribution in attributions if attribution is not None]


@dataclass(frozen=True, eq=False)
class FitPair:
    """The baseline and another fit, with their numbers by quantity as arrays over the parameters."""

    fits: Mapping[str, Fit]
    rows: Mapping[str, Mapping[str, Array]]
    prob: float
    apart: float
    params: tuple[str, ...]
    coefficient: Array

    @property
    def names(self) -> tuple[str, str]:
        base, name = self.fits
        return base, name

    @property
    def both(self) -> tuple[Fit, Fit]:
        base, fit = self.fits.values()
        return base, fit

    @cached_property
    def differences(self) -> dict[Cause, str]:
        return find_differences(*self.both)

    @cached_property
    def structure(self) -> dict[Cause, str]:
        return structural_differences(*self.both, self.names)

    @cached_property
    def bad_chains(self) -> dict[str, Array]:
        """By fit, the parameters (J,) with bad chains, in the order of its coefficients and nuisance parameters."""
        return {
            name: has_bad_chains(fit, tuple(fit.solution.aux))
            for name, fit in self.fits.items()
        }

    @cached_property
    def explanation(self) -> Explanation:
        return explain_fits(*self.both, self.names, _TOLERANCE)

    def of_parameter(self, j: int) -> dict[str, dict[str, Any]]:
        return {
            name: {q: values[j] for q, values in row.items()}
            for name, row in self.rows.items()
        }

    def attribute(self, j: int) -> Attribution | None:
        """Return the causes for parameter j, None if the fits agree or do not both have it."""
        base, fit = self.of_parameter(j).values()
        if {base["kind"], fit["kind"]} & {"held", ""}:
            return None
        if not self.coefficient[j] and Cause.LIKELIHOOD in self.differences:
            return (
                None  # an auxiliary parameter of another likelihood is another quantity
            )
        param, name = self.params[j], self.names[1]
        if np.isnan(base["estimate"]) != np.isnan(fit["estimate"]):
            causes = [self._missing_cause(j)]
            first = causes[0]
            return Attribution(
                param, name, tuple(causes), f"{first.cause.label}: {first.evidence}"
            )
        if not _gap(self.both[0], base, fit, self.apart) > self.apart:
            return None
        explained = self.explanation
        causes = []
        if (
            not explained.without_path
            and param in explained.shares["param"]
            and base["error"] > 0
        ):
            causes = self._causes_by_share(j)
        if causes:
            sentence = self._share_sentence(j, causes[0])
        else:
            causes = self._list_causes(j)
            sentence = _difference_text(fit, causes)
        return Attribution(param, name, tuple(causes), f"{name}: {sentence}")

    def _missing_cause(self, j: int) -> AttributedCause:
        rows = self.of_parameter(j)
        missing, present = sorted(rows, key=lambda n: not np.isnan(rows[n]["estimate"]))
        cause, text = missing_estimate(self.fits[missing])
        prior = rows[present]["prior"] or "flat"
        evidence = f"{missing} has no estimate ({text}); prior of {present}: {prior}"
        return AttributedCause(SpecificCause(cause), evidence)

    # ---- with a path ---------------------------------------------------------------------------------------------------

    def _causes_by_share(self, j: int) -> list[AttributedCause]:
        """Return the causes by their shares, the largest first; causes that are small relative to it are left out."""
        base, fit = self.of_parameter(j).values()
        row = self.explanation.shares.sel(param=self.params[j])
        shares = dict(
            zip(self.explanation.causes, zip(row["shift"].values, row["log_se"].values))
        )
        z = quantile(self.prob, None)
        widening = _log_width_ratio(base, fit)
        of_width = self._interval_cause(j)
        if of_width is not None and z * abs(widening) > _RELATIVE * self.apart:
            shares.setdefault(of_width, (0.0, 0.0))
        # the move of an interval's end: of the estimate, of the error, and of the ends in units of it
        z *= float(expm1_over_x(np.nan_to_num(row["log_se_ratio"].values) + widening))
        sizes = {
            c: abs(s) + z * abs(np.nan_to_num(r) + (widening if c == of_width else 0.0))
            for c, (s, r) in shares.items()
        }
        threshold = _RELATIVE * max([self.apart, *sizes.values()])
        gap = abs(float(row["difference"]))
        # a cause of most of a difference between the estimates is listed too
        dominant = {
            c for c, (s, _) in shares.items() if self.apart < gap < 2.0 * abs(s)
        }
        effects = {c for c in shares if c.cause in _EFFECT_CAUSES}
        order = sorted(
            sizes, key=lambda c: (bool(effects) and c == of_width, -sizes[c])
        )
        return [
            AttributedCause(c, self._evidence(c, j), *map(float, shares[c]))
            for c in order
            if sizes[c] > threshold or c in dominant or c in effects
        ][:_MOST]

    def _interval_cause(self, j: int) -> SpecificCause | None:
        """Return why intervals of equal errors differ in width, None if both have the same construction."""
        rows = self.of_parameter(j)
        differ = self.differences
        if Cause.SUMMARY in differ:
            integrated = all(f.model.noise_unknown for f in self.both)
            if integrated and self.coefficient[j] and not self._is_skewed(rows):
                return SpecificCause(Cause.SMALL_SAMPLE)
            return SpecificCause(shape_cause(*self.both))
        if Cause.SMALL_SAMPLE in differ and Cause.COVARIANCE not in differ:
            return SpecificCause(Cause.SMALL_SAMPLE)
        a, b = (row["kind"] for row in rows.values())
        return SpecificCause(Cause.INTERVAL) if a != b else None

    def _is_skewed(self, rows: Mapping[str, Mapping[str, Any]]) -> bool:
        """Return whether a posterior is skew beyond the standard error of the skewness of its draws."""
        for name, fit in self.fits.items():
            if summary(fit) == "posterior":
                draws = fit.solution.draws
                row = rows[name]
                error = row["mcse"] / row["error"]
                if not np.isfinite(error):
                    error = draws.count**-0.5 if draws is not None else 0.0
                return bool(
                    abs(row["skewness"]) > max(_SKEWED, 3.0 * np.sqrt(6.0) * error)
                )
        return False

    def _share_sentence(self, j: int, first: AttributedCause) -> str:
        """Describe the share of the largest cause, or the widths if intervals of equal errors differ."""
        base, fit = self.of_parameter(j).values()
        width = np.log(fit["se_ratio"]) + _log_width_ratio(base, fit)
        label = first.cause.label
        if abs(first.shift) + abs(np.nan_to_num(first.log_se)) < 0.25 * abs(width):
            return f"{label}: interval {np.exp(width):.3g} times as wide"
        if first.cause.cause is Cause.MONTE_CARLO and not self.explanation.chance_known:
            label += " or shape of the posterior"
        return share_text(
            label,
            first.shift,
            first.log_se,
            fit["difference"],
            np.log(fit["se_ratio"]),
        )

    # ---- without a path ------------------------------------------------------------------------------------------------

    def _list_causes(self, j: int) -> list[AttributedCause]:
        """Return the differences between the models; also between the methods if a posterior is involved or nothing else differs."""
        causes = [
            AttributedCause(SpecificCause(cause), text)
            for cause, text in self.structure.items()
        ]
        specific = [
            SpecificCause(c, s) for c, s in self.differences.items() if c in MODEL
        ]
        if any(f.solution.status is Status.NO_MAXIMUM for f in self.both):
            specific.insert(0, SpecificCause(Cause.SEPARATION))
        method = self._method_cause(j, alone=not (causes or specific))
        if method is not None:
            specific.append(method)
        return causes + [AttributedCause(c, self._evidence(c, j)) for c in specific]

    def _method_cause(self, j: int, *, alone: bool) -> SpecificCause | None:
        if any(self._has_bad_chains(name, j) for name in self.fits):
            return SpecificCause(Cause.SAMPLER)
        differ = self.differences
        if Cause.SUMMARY in differ and (
            alone or "posterior" in map(summary, self.both)
        ):
            return self._interval_cause(j)
        if not alone:
            return None
        if Cause.MONTE_CARLO in differ:
            return SpecificCause(Cause.MONTE_CARLO)
        if any(f.target == "mode" and not f.solution.status.good for f in self.both):
            return SpecificCause(Cause.CONVERGENCE)
        return self._interval_cause(j)

    def _has_bad_chains(self, name: str, j: int) -> bool:
        fit = self.fits[name]
        names = map(str, by_outcome(fit.model, fit.parameter_names))
        params = [*names, *fit.solution.aux]
        bad = self.bad_chains[name]
        param = self.params[j]
        return param in params and bool(bad[params.index(param)])

    def _evidence(self, cause: SpecificCause, j: int) -> str:
        rows = self.of_parameter(j)
        priors = {}
        cause = cause._replace(
            subject=cause.subject or self.differences.get(cause.cause, "")
        )
        if cause.cause is Cause.PRIOR:
            name = cause.subject or self.params[j]
            columns = [param.split(": ")[0] for param in self.params]
            texts = [self.rows[n]["prior"] for n in self.names]
            if name in (*self.params, *columns) and self.coefficient[j]:
                k = (
                    self.params.index(name)
                    if name in self.params
                    else columns.index(name)
                )
                if texts[0][k] != texts[1][k]:
                    priors = {n: str(p[k]) for n, p in zip(self.names, texts)}
        # the fit first, then the baseline
        base, name = self.names
        fits = {name: self.fits[name], base: self.fits[base]}
        return evidence_text(cause, fits, rows, priors)


def _gap(
    baseline: Fit, base: Mapping[str, Any], fit: Mapping[str, Any], threshold: float
) -> float:
    """Return the largest distance between estimates and interval ends, in SE of the baseline; for an exact baseline, without
    errors, inf if the estimates differ in SE of the other fit."""
    if exact_fit(baseline):
        differs = abs(fit["estimate"] - base["estimate"]) > threshold * fit["error"]
        return np.inf if differs else 0.0
    gaps = [abs(fit[q] - base[q]) for q in ("estimate", "lower", "upper")]
    return float(max((g for g in gaps if not np.isnan(g)), default=0.0) / base["error"])


def _log_width_ratio(base: Mapping[str, Any], fit: Mapping[str, Any]) -> float:
    """Return the log of the ratio of (width / error) between the fit's and the baseline's interval; 0 if one has none."""
    a, b = ((row["upper"] - row["lower"]) / row["error"] for row in (base, fit))
    ratio = np.log(b / a)
    return float(ratio) if np.isfinite(ratio) else 0.0


def _difference_text(fit: Mapping[str, Any], causes: list[AttributedCause]) -> str:
    """Describe the size of a difference without shares, and list its causes."""
    parts = []
    if np.isfinite(fit["difference"]):
        parts.append(f"shift {fit['difference']:+.2g} SE")
    if np.isfinite(fit["se_ratio"]):
        parts.append(f"SE ratio {fit['se_ratio']:.3g}")
    listed = "; ".join(f"{c.cause.label}: {c.evidence}" for c in causes)
    return "; ".join(
        [*([", ".join(parts)] if parts else []), listed or "no known cause"]
    )
