"""A fit beside the baseline: their rows of the table, in what they differ, and what each cause does."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from probreg.comparison.differences import find_differences, structural_differences
from probreg.comparison.evidence import r_hats, sandwich_ratios
from probreg.comparison.explanation import Explanation, explanation
from probreg.comparison.numbers import NUMBERS, WORDS, FitTable
from probreg.fits.fit import Fit
from probreg.inference import Status

Array = np.ndarray
_TOLERANCE = 1e-4  # SE, to which shares are summed
_END = 2.7  # sqrt(p (1 - p)) / phi(z) at p = 0.025


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

    @cached_property
    def named(self) -> dict[str, tuple[Fit, Mapping[str, Array]]]:
        """Both fits with their rows, the baseline first."""
        return {
            self.base_name: (self.base_fit, self.base),
            self.name: (self.fit, self.here),
        }

    @cached_property
    def differ(self) -> set[str]:
        """In what the fits differ, by name."""
        return find_differences(self.base_fit, self.fit)

    @cached_property
    def structure(self) -> dict[str, str]:
        """Differences in columns, terms and weights by cause, in words."""
        return structural_differences(
            self.base_fit, self.fit, (self.base_name, self.name)
        )

    @cached_property
    def alike(self) -> bool:
        """One likelihood, so that an auxiliary parameter is the same quantity in both."""
        return self.fit.model.likelihood == self.base_fit.model.likelihood

    @cached_property
    def sandwich(self) -> dict[str, dict[str, float]]:
        """By fit and coefficient, the sandwich's error over the model's own; only of fits without a prior."""
        return {name: sandwich_ratios(f) for name, (f, _) in self.named.items()}

    @cached_property
    def r_hat(self) -> dict[str, Mapping[str, float]]:
        """By fit and parameter, R-hat of its chains."""
        return {name: r_hats(f) for name, (f, _) in self.named.items()}

    @cached_property
    def without_maximum(self) -> dict[str, Fit]:
        """The fits whose likelihood has no maximum."""
        return {
            name: f
            for name, (f, _) in self.named.items()
            if f.solution.status is Status.NO_MAXIMUM
        }

    def noise(self, j: int) -> tuple[float, float]:
        """Monte Carlo standard errors of the difference of the means and of that of interval ends, which vary 2.7 times as
        much as a mean (95 % ends of a normal); 0 for what a formula gave."""
        errors = np.nan_to_num([self.here["mcse"][j], self.base["mcse"][j]])
        mean = float(np.hypot(*errors))
        ends = [
            self.replicate_error * row["error"][j]
            for f, row in self.named.values()
            if f.solution.replicates is not None
        ]
        return mean, float(np.hypot(_END * mean, 2.0 * max(ends, default=0.0)))

    @cached_property
    def replicate_error(self) -> float:
        """Return the relative standard error of a bootstrap SE from R replicates, 1 / sqrt(2 R); 0 without replicates."""
        counts = [
            len(f.solution.replicates["coef"])
            for f, _ in self.named.values()
            if f.solution.replicates is not None
        ]
        if counts:
            return float((2.0 * min(counts)) ** -0.5)
        return 0.0

    @cached_property
    def shares_of_causes(self) -> Explanation:
        """Return the shares of the causes, to at least a thousandth of a standard error."""
        return explanation(
            self.base_fit, self.fit, (self.base_name, self.name), _TOLERANCE
        )


def pairs_with_baseline(of: FitTable, params: tuple[str, ...]) -> list[Pair]:
    """Every other fit beside the baseline."""
    values = {q: of.data[q].values for q in (*NUMBERS, *WORDS)}
    rows = {
        name: {q: v[i] for q, v in values.items()} for i, name in enumerate(of.fits)
    }
    base = of.baseline
    coefficient = of.data["role"].values == "coefficient"
    return [
        Pair(
            name,
            base,
            fit,
            of.fits[base],
            of.prob,
            of.apart,
            params,
            coefficient,
            rows[name],
            rows[base],
        )
        for name, fit in of.fits.items()
        if name != base
    ]
