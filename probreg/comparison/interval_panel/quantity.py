"""One quantity of a fit: a coefficient, a nuisance parameter, or the linear predictor at a row as a coefficient.

At a row x the columns are exchanged for X A^-1 with A the identity, one row of it replaced by x. The coefficients
become A beta, the likelihood is the same, and the coefficient in that place is x'beta. So every interval of a coefficient
is also available for the mean at x, through the link.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from probreg.comparison.interval_panel.kinds import Interval
from probreg.errors import DataError, Incompatible, ProbregError
from probreg.fits.fit import Fit
from probreg.fits.prediction import off_span_of
from probreg.likelihoods import UnivariateLikelihood

Array = np.ndarray


_OF_DRAWS = ("eti", "hdi")
_OF_SAMPLES = ("t", "wald", "profile", "score", "bootstrap")


@dataclass(frozen=True, eq=False)
class Estimand:
    """A number that a fit estimates: coefficient `index` of `fit` (column first, then outcome), plus `shift`, through the
    inverse link if it is a mean. In the coefficients of `origin`, the original fit, it is `direction`'beta."""

    fit: Fit
    index: int
    origin: Fit
    direction: Array  # over the reported coefficients, raveled
    shift: float = 0.0
    mean: bool = False

    @property
    def estimate(self) -> float:
        """The estimate on the scale of the coefficients."""
        return float(self.fit.coef.values.ravel()[self.index])

    @property
    def column(self) -> int:
        return int(
            self.fit.model.design.head[
                self.index // max(len(self.fit.model.likelihood.outcomes), 1)
            ]
        )

    def ends(self, interval: Interval, prob: float) -> tuple[float, float]:
        """Return the interval on the scale of the coefficients. ProbregError, with the reason, if the fit has no such interval."""
        if interval.kind in _OF_DRAWS and self.fit.target == "mode":
            raise Incompatible("an interval of draws, and a mode has none")
        if (
            interval.kind in _OF_SAMPLES or interval.covariance
        ) and self.fit.target == "posterior":
            raise Incompatible(
                "of an estimate over repeated samples, and a posterior is none"
            )
        if interval.kind == "t" and self.fit.solution.df is None:
            raise Incompatible(
                "no degrees of freedom: Student's t goes with least squares"
            )
        if interval.kind == "bootstrap" and self.fit.solution.replicates is None:
            raise Incompatible("no replicates: fit with Bootstrap(method)")
        if self.mean:
            if interval.kind == "bootstrap":
                raise Incompatible(
                    "replicates are of the coefficients, not of a prediction"
                )
            if interval.kind == "hdi":
                raise Incompatible(
                    "the shortest interval depends on the scale it is measured on; see eti"
                )
            if not self.fit.model.flat and interval.name not in ("t", "wald", "eti"):
                raise Incompatible("at a row this kind is found for flat priors only")
        lower, upper = interval.of(self.fit, prob)
        return float(lower[self.index]), float(upper[self.index])

    def to_reported_scale(self, value: float) -> float:
        """Transform a value from the scale of the coefficients to the reported scale."""
        if not self.mean:
            return value
        with np.errstate(over="ignore"):
            return float(
                self.fit.model.likelihood.link.inverse(np.array(value + self.shift))
            )


def coefficient(fit: Fit, name: str) -> Estimand:
    """DataError unless the fit has a coefficient of this name."""
    names = fit.parameter_names
    if name not in names:
        if fit.model.likelihood.outcomes:
            hint = " (a class is named too, as in 'x: b')"
        else:
            hint = ""
        raise DataError(
            f"no coefficient is called {name!r}; there are: {', '.join(names[:20])}{hint}"
        )
    j = names.index(name)
    return Estimand(fit, j, fit, np.eye(len(names))[j])


def at_row(fit: Fit, data: Any) -> Estimand:
    """The mean of a new response at one row. DataError unless there is one row; Incompatible for unordered classes."""
    if not isinstance(fit.model.likelihood, UnivariateLikelihood):
        raise Incompatible(
            f"{fit.model.likelihood.named} fit has a mean for every class: fit.predict gives their intervals"
        )
    design = fit.model.design.at(data)
    if design.n != 1:
        raise DataError(f"interval_panel is of one row, and at= has {design.n}")
    fit.model.design.need_rows("interval_panel at a row")
    off = off_span_of(fit.model, fit.solution)
    if off is not None and off.variance(design) is not None:
        terms = ", ".join(p.key for p in off.processes)
        raise Incompatible(
            f"the row is off the rows that the columns of {terms} were made of, so its mean is more than their coefficients: "
            "fit.predict gives its interval"
        )
    x = design.X[0]
    if fit.model.design.intercept is None:
        j = int(np.argmax(np.abs(x)))
    else:
        j = fit.model.design.intercept
    if not x[j]:
        raise DataError(
            "the row is zero in every column, so its mean is known without data"
        )
    if design.offset is None:
        shift = 0.0
    else:
        shift = float(design.offset[0, 0])
    return Estimand(_reparametrise_fit(fit, x, j), j, fit, x, shift, mean=True)


def _reparametrise_fit(fit: Fit, x: Array, j: int) -> Fit:
    """Return the same fit in coefficients A beta, with x'beta in place j."""
    A = np.eye(len(x))
    A[j] = x
    model = fit.model
    s = fit.solution
    X = model.design.X / np.where(np.arange(len(x)) == j, x[j], 1.0)
    X = X - np.outer(X[:, j], np.where(np.arange(len(x)) == j, 0.0, x))
    draws = s.draws
    if draws is not None:
        draws = replace(
            draws, values={**draws.values, "beta": A @ draws["beta"]}, marginals=None
        )
    if s.conditional is None:
        conditional = None
    else:
        conditional = s.conditional.transform(A)
    solution = replace(
        s,
        beta=A @ s.beta,
        scale=s.scale.transform(A),
        conditional=conditional,
        draws=draws,
    )
    return replace(
        fit,
        model=replace(model, design=replace(model.design, X=X, kept=None)),
        solution=solution,
    )


def interval_ends_or_reason(
    quantity: Estimand, interval: Interval, prob: float
) -> tuple[float, float, str]:
    """Return the lower and upper end with an empty reason, or nan twice with the reason for a missing interval."""
    try:
        lower, upper = quantity.ends(interval, prob)
    except ProbregError as why:
        return np.nan, np.nan, str(why)
    is_finite = not (np.isnan(lower) or np.isnan(upper))
    return lower, upper, "" if is_finite else "no estimate of it exists"
