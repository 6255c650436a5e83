"""The causes of the differences in a comparison: by share where a path of priors connects two fits, else as a list."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.special import exprel

from probreg.comparison.attribution import (
    SMALLEST_SHARE,
    Explanation,
    explain_fits,
    missing_estimate,
    setting_text,
    share_text,
)
from probreg.comparison.differences import MODEL, Cause, FitPair, SpecificCause, summary
from probreg.comparison.numbers import RANK_DECIMALS, FitTable, by_outcome
from probreg.comparison.shares import has_bad_chains
from probreg.fits.goodness import exact_fit
from probreg.inference import Status
from probreg.inference.uncertainty.intervals.arithmetic import quantile

Row = Mapping[str, Any]  # of one parameter and fit, every quantity of the table
Rows = tuple[Row, Row]  # of the baseline and the other fit
_EFFECT_CAUSES = {Cause.MEAN_DF, Cause.SCALE_UNCERTAINTY, Cause.SCALE_PRIOR}


class AttributedCause(NamedTuple):
    """A cause with its share of the shift in SE and of the log of the SE ratio (nan without a path), and its evidence."""

    cause: SpecificCause
    evidence: str
    shift: float = np.nan
    log_se: float = np.nan


class Attribution(NamedTuple):
    """The causes of the difference of one parameter between a fit and the baseline, and a sentence on the largest."""

    param: str
    fit: str
    causes: tuple[AttributedCause, ...]
    sentence: str


def attribute_differences(table: FitTable) -> list[Attribution]:
    """Return the causes for each parameter and fit that differs from the baseline."""
    rows = {}
    for name in table.fits:
        frame = table.data.sel(fit=name, drop=True).to_dataframe().reset_index()
        rows[name] = frame.to_dict("records")
    base = table.baseline
    pairs = []
    for name, fit in table.fits.items():
        if name != base:
            pair = FitPair((base, name), (table.fits[base], fit))
            priors: dict[str, tuple[str, str]] = {}
            for both in zip(rows[base], rows[name]):
                texts = str(both[0]["prior"]), str(both[1]["prior"])
                for key in ("coef", "param"):
                    priors.setdefault(both[0][key], texts)
            pairs.append(_PairCauses(pair, priors, table.prob, table.apart))
    attributions = []
    # if an SE is 0 or missing, comparisons of this ratio are false
    with np.errstate(invalid="ignore", divide="ignore"):
        for j, row in enumerate(rows[base]):
            for causes in pairs:
                both = (row, rows[causes.pair.names[1]][j])
                attribution = causes.attribute(both)
                if attribution is not None:
                    attributions.append(attribution)
    return attributions


@dataclass(frozen=True, eq=False)
class _PairCauses:
    """The causes of the differences between the baseline and another fit."""

    pair: FitPair
    priors: Mapping[str, tuple[str, str]]  # of both fits, by coefficient and column
    prob: float
    apart: float

    @cached_property
    def explanation(self) -> Explanation:
        tolerance = 1e-4  # in SE, of the sum of shares
        return explain_fits(self.pair, tolerance)

    @cached_property
    def troubled(self) -> set[str]:
        """The parameters with bad chains in one of the two fits."""
        names = set[str]()
        for fit in self.pair.fits:
            if fit.solution.draws is not None:
                aux = tuple(fit.solution.aux)
                params = [*by_outcome(fit.model, fit.parameter_names), *aux]
                bad = has_bad_chains(fit, aux)
                names |= {str(param) for param, is_bad in zip(params, bad) if is_bad}
        return names

    def attribute(self, rows: Rows) -> Attribution | None:
        """Return the causes for one parameter, None if the fits agree or do not both have it."""
        names = self.pair.names
        base, fit = rows
        param, name = base["param"], names[1]
        if {base["kind"], fit["kind"]} & {"fixed", ""}:
            return None
        if base["role"] != "coefficient" and Cause.LIKELIHOOD in self.pair.differences:
            return (
                None  # an auxiliary parameter of another likelihood is another quantity
            )
        lost = [i for i, row in enumerate(rows) if np.isnan(row["estimate"])]
        if len(lost) == 1:
            (i,) = lost
            cause, text = missing_estimate(self.pair.fits[i])
            prior = rows[1 - i]["prior"] or "flat"
            without, with_estimate = names[i], names[1 - i]
            evidence = (
                f"{without} has no estimate ({text}); prior of {with_estimate}: {prior}"
            )
            only = AttributedCause(SpecificCause(cause), evidence)
            return Attribution(param, name, (only,), f"{cause.value}: {evidence}")
        if not self._distance(base, fit) > self.apart:
            return None
        causes = []
        has_shares = param in self.explanation.shares["param"] and base["error"] > 0
        if has_shares and not self.explanation.without_path:
            causes = self._causes_by_share(rows)
        if causes:
            sentence = self._describe_share(rows, causes[0])
        else:
            causes = self._list_causes(rows)
            sentence = _describe_difference(fit, causes)
        return Attribution(param, name, tuple(causes), f"{name}: {sentence}")

    def _distance(self, base: Row, fit: Row) -> float:
        """Return the largest distance between estimates and interval ends, in SE of the baseline; for an exact baseline, without
        errors, inf if the estimates differ in SE of the other fit."""
        if exact_fit(self.pair.fits[0]):
            gap = abs(fit["estimate"] - base["estimate"])
            return np.inf if gap > self.apart * fit["error"] else 0.0
        gaps = [abs(fit[q] - base[q]) for q in ("estimate", "lower", "upper")]
        return np.nanmax([0.0, *gaps]) / np.float64(base["error"])

    def _causes_by_share(self, rows: Rows) -> list[AttributedCause]:
        """Return the causes by their shares, the largest first; causes that are small relative to it are left out."""
        row = self.explanation.shares.sel(param=rows[0]["param"])
        steps = zip(row["shift"].values.tolist(), row["log_se"].values.tolist())
        shares = dict(zip(self.explanation.causes, steps))
        z = quantile(self.prob, None)
        widening = _log_width_ratio(*rows)
        of_width = self._interval_cause(rows)
        least_share = 0.25  # of the largest cause: a smaller one is not listed
        if of_width is not None and z * abs(widening) > least_share * self.apart:
            shares.setdefault(of_width, (0.0, 0.0))
        # the change of an interval's end: from the estimate, from the error, and from the ends in units of the error
        z *= exprel(np.nan_to_num(row["log_se_ratio"].values) + widening)
        sizes = {}
        for cause, (shift, log_se) in shares.items():
            wider = np.nan_to_num(log_se) + (widening if cause == of_width else 0.0)
            sizes[cause] = abs(shift) + z * abs(wider)
        threshold = least_share * max([self.apart, *sizes.values()])
        gap = abs(row["difference"])
        effects = {cause for cause in shares if cause.cause in _EFFECT_CAUSES}
        order = sorted(sizes, key=lambda c: -round(sizes[c], RANK_DECIMALS))
        if effects and of_width in order:
            order.remove(of_width)
            order.append(of_width)
        listed = []
        for cause in order:
            shift, log_se = shares[cause]
            # a cause of most of a difference between the estimates is listed too
            dominant = self.apart < gap < 2.0 * abs(shift)
            if sizes[cause] > threshold or dominant or cause in effects:
                evidence = self._evidence(cause, rows)
                listed.append(AttributedCause(cause, evidence, shift, log_se))
        most_causes = 3  # causes of one difference with shares
        return listed[:most_causes]

    def _interval_cause(self, rows: Rows) -> SpecificCause | None:
        """Return why intervals of equal errors differ in width, None if both have the same construction."""
        differ = self.pair.differences
        if Cause.SUMMARY in differ:
            integrated = all(f.model.noise_unknown for f in self.pair.fits)
            if (
                integrated
                and rows[0]["role"] == "coefficient"
                and not self._is_skewed(rows)
            ):
                return SpecificCause(Cause.SMALL_SAMPLE)
            return SpecificCause(self.pair.shape_cause)
        if Cause.SMALL_SAMPLE in differ and Cause.COVARIANCE not in differ:
            return SpecificCause(Cause.SMALL_SAMPLE)
        same = rows[0]["kind"] == rows[1]["kind"]
        return None if same else SpecificCause(Cause.INTERVAL)

    def _is_skewed(self, rows: Rows) -> bool:
        """Return whether a posterior is skew beyond the standard error of the skewness of its draws."""
        # this skewness changes a mean by a twentieth of a standard deviation
        slight_skewness = 0.1
        for fit, row in zip(self.pair.fits, rows):
            if summary(fit) == "posterior":
                error = row["mcse"] / row["error"]
                if not np.isfinite(error):
                    draws = fit.solution.draws
                    error = draws.count**-0.5 if draws is not None else 0.0
                limit = max(slight_skewness, 3.0 * np.sqrt(6.0) * error)
                return bool(abs(row["skewness"]) > limit)
        return False

    def _describe_share(self, rows: Rows, first: AttributedCause) -> str:
        """Describe the share of the largest cause, or the widths if intervals of equal errors differ."""
        log_ratio = np.log(rows[1]["se_ratio"])
        width = log_ratio + _log_width_ratio(*rows)
        label = first.cause.label
        if abs(first.shift) + abs(np.nan_to_num(first.log_se)) < 0.25 * abs(width):
            return f"{label}: interval {np.exp(width):.3g} times as wide"
        if first.cause.cause is Cause.MONTE_CARLO and not self.explanation.chance_known:
            label += " or shape of the posterior"
        return share_text(
            label, first.shift, first.log_se, rows[1]["difference"], log_ratio
        )

    def _list_causes(self, rows: Rows) -> list[AttributedCause]:
        """Return the differences between the models; also between the methods if a posterior is involved or nothing else differs."""
        differ = self.pair.differences
        fits = self.pair.fits
        causes = [SpecificCause(c, s) for c, s in differ.items() if c in MODEL]
        if Status.NO_MAXIMUM in [f.solution.status for f in fits]:
            causes.insert(0, SpecificCause(Cause.SEPARATION))
        alone = not (self.pair.structure or causes)
        method: SpecificCause | None = None
        if rows[0]["param"] in self.troubled:
            method = SpecificCause(Cause.SAMPLER)
        elif Cause.SUMMARY in differ and (alone or "posterior" in map(summary, fits)):
            method = self._interval_cause(rows)
        elif alone and Cause.MONTE_CARLO in differ:
            method = SpecificCause(Cause.MONTE_CARLO)
        elif alone and [
            f for f in fits if f.target == "mode" and not f.solution.status.good
        ]:
            method = SpecificCause(Cause.CONVERGENCE)
        elif alone:
            method = self._interval_cause(rows)
        if method is not None:
            causes.append(method)
        listed = [
            AttributedCause(SpecificCause(cause), text)
            for cause, text in self.pair.structure.items()
        ]
        return listed + [AttributedCause(c, self._evidence(c, rows)) for c in causes]

    def _evidence(self, cause: SpecificCause, rows: Rows) -> str:
        """Return the settings of both fits that a cause concerns, the baseline's last."""
        subject = cause.subject or self.pair.differences.get(cause.cause, "")
        cause = cause._replace(subject=subject)
        texts = [setting_text(cause, *both) for both in zip(self.pair.fits, rows)]
        if cause.cause is Cause.PRIOR and rows[0]["role"] == "coefficient":
            priors = self.priors.get(subject or rows[0]["param"], ("", ""))
            if priors[0] != priors[1]:
                texts = [own or text for own, text in zip(priors, texts)]
        base, name = self.pair.names
        return f"{texts[1]} in {name}, {texts[0]} in {base}"


def _log_width_ratio(base: Row, fit: Row) -> float:
    """Return the log of the ratio of (width / error) between the fit's and the baseline's interval; 0 if one has none."""
    a, b = [np.float64(r["upper"] - r["lower"]) / r["error"] for r in (base, fit)]
    ratio = np.log(b / a)
    return ratio if np.isfinite(ratio) else 0.0


def _describe_difference(fit: Row, causes: list[AttributedCause]) -> str:
    """Describe the size of a difference without shares, and list its causes."""
    sizes = []
    if SMALLEST_SHARE <= abs(fit["difference"]) < np.inf:
        sizes.append(f"shift {fit['difference']:+.2g} SE")
    if np.isfinite(fit["se_ratio"]):
        sizes.append(f"SE ratio {fit['se_ratio']:.3g}")
    parts = [", ".join(sizes)] if sizes else []
    listed = [f"{c.cause.label}: {c.evidence}" for c in causes]
    return "; ".join([*parts, *(listed or ["no known cause"])])
