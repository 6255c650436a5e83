"""Tests of a point estimate: Wald's test, the likelihood ratio and the score test, one by one or as a family."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from probreg.comparison.hypotheses.restricted import (
    independent,
    likelihood_tests,
    root,
    wald,
)
from probreg.comparison.hypotheses.result import (
    Hypothesis,
    Test,
    describe_null,
    over_own,
    restriction_table,
)
from probreg.data.weights import without_likelihood
from probreg.errors import Incompatible, NotConverged
from probreg.fits.fit import Fit
from probreg.fits.goodness import exact_fit, has_tests, has_tests_at_found_scales
from probreg.formula.hypothesis import Restriction, matrix
from probreg.inference.uncertainty.covariance import Spread
from probreg.inference.uncertainty.found_scales import (
    Satterthwaite,
    satterthwaite,
    why_no_satterthwaite,
)
from probreg.inference.uncertainty.intervals.arithmetic import quantile
from probreg.inference.uncertainty.multiplicity import adjust_tests, require_tests
from probreg.likelihoods import SmoothLikelihood

Array = np.ndarray
_OPPOSITE = {">": "<=", "<": ">="}
PENALISED = (
    "the estimate is the mode under a prior, so that Wald's test is the normal approximation of a posterior. It does not "
    "have the error rate of a test, and there is no likelihood ratio"
)


@dataclass(frozen=True, eq=False)
class Combinations:
    """L beta of an estimate with its covariance; L (q, p m) over vec(beta), r (q,) its values under the null."""

    fit: Fit
    read: list[Restriction]
    L: Array
    r: Array
    spread: Spread
    satterthwaite: Satterthwaite | None

    @classmethod
    def of(
        cls, fit: Fit, read: list[Restriction], covariance: Spread | None
    ) -> "Combinations":
        """The left sides of restrictions, with the covariance of the fit unless another one is given as `covariance`."""
        L, r = matrix(read, len(fit.parameter_names))
        return cls.at(fit, over_own(fit, L), r, covariance, read)

    @classmethod
    def at(
        cls,
        fit: Fit,
        L: Array,
        r: Array,
        covariance: Spread | None,
        read: list[Restriction],
    ) -> "Combinations":
        """The combinations L over vec(beta)."""
        scales = fit.solution.effect_scales
        degrees = None
        if (
            covariance is None
            and scales is not None
            and not why_no_satterthwaite(fit.solution)
        ):
            degrees = satterthwaite(scales)
        spread = covariance or fit.spread()
        return cls(fit, read, L, r, spread, degrees)

    @cached_property
    def value(self) -> Array:
        """L beta (q,)."""
        return np.asarray(self.L @ self.fit.solution.beta.ravel())

    @cached_property
    def half(self) -> Array:
        """B (q, k) with the covariance B B' of the combinations."""
        return self.spread.matrix.half(self.L)

    @property
    def std_error(self) -> Array:
        """(q,)."""
        return np.asarray(np.linalg.norm(self.half, axis=1))

    @property
    def df(self) -> float | Array | None:
        """Degrees of freedom of each combination: (q,) by Satterthwaite, else one number; None for a normal distribution."""
        if self.satterthwaite is None:
            return self.spread.df
        return self.satterthwaite.df(self.L[:, self.fit.model.design.ungrouped])

    @property
    def has_prior(self) -> bool:
        """Whether a combination has a coefficient with an informative prior."""
        model = self.fit.model
        informative = np.repeat(model.joint.informative, model.shape[1])
        return bool(self.L[:, informative].any())

    def wald_tests(self) -> list[Test]:
        """The joint tests of all combinations."""
        restrictions = independent(self.L, self.r)
        df = self.spread.df
        if self.satterthwaite is not None:
            df = self.satterthwaite.joint_df(
                restrictions.L[:, self.fit.model.design.ungrouped]
            )
        beta = self.fit.solution.beta.ravel()
        return wald(restrictions, beta, self.spread.matrix, df)

    def table(self, reach: float | Array) -> Any:
        """The combinations with intervals of `reach` standard errors to each side."""
        columns = {
            "estimate": self.value,
            "std_error": self.std_error,
            "lower": self.value - reach * self.std_error,
            "upper": self.value + reach * self.std_error,
        }
        return restriction_table(self.fit, self.read, columns)


def of_mode(
    fit: Fit,
    text: str,
    read: list[Restriction],
    *,
    prob: float,
    covariance: Spread | None,
    adjust: str | None,
) -> Hypothesis:
    """The tests of restrictions on a maximum likelihood estimate, or on the mode of a posterior."""
    c = Combinations.of(fit, read, covariance)
    require_law(c, text)
    estimates = c.table(quantile(prob, c.df))
    notes = () if fit.model.flat else describe_scales(c)
    if covariance is not None:
        notes += (f"covariance: {covariance.words.get('kind', 'given')}",)
    if read[0].relation != "=":
        if adjust is not None:
            raise Incompatible(
                "adjust= is for equalities, each against both sides; an inequality is tested alone"
            )
        return replace(_test_inequality(c, text), estimates=estimates, notes=notes)
    test_results = c.wald_tests()
    absent = why_no_likelihood_tests(fit)
    if absent is not None:
        notes += (absent,)
    if covariance is None and not notes:
        try:
            extra_tests = likelihood_tests(fit, independent(c.L, c.r))
        except NotConverged as error:
            notes += (str(error),)
        else:
            test_results += extra_tests
            if not extra_tests:
                notes += (
                    f"no likelihood ratio and no score test, which need the rows: {fit.model.design.rows_absent}",
                )
    null = describe_null(fit, read)
    result = Hypothesis(
        text, null, estimates, {t.name: t for t in test_results}, notes=notes
    )
    if adjust is None:
        return result
    return _adjust_family(result, c, prob=prob, adjust=adjust)


def require_law(c: Combinations, text: str) -> None:
    """Raise Incompatible unless the combinations have standard errors with a known null distribution."""
    fit = c.fit
    words = c.spread.words
    if np.isnan(c.half).any():
        none = words.get("kind") == "none"
        reason = words["definition"] if none else fit.solution.reason_without_errors
        raise Incompatible(
            f"{fit.method.name} gives no standard error here, so there is no test of {text!r}: {reason}"
        )
    contrast = fit.model.joint.contrast
    if contrast is not None:
        L, _ = matrix(c.read, len(fit.parameter_names))
        if L.reshape(len(L), -1, len(contrast)).sum(-1).any():
            raise Incompatible(
                f"there is no test of {text!r}: the penalty of all classes fixes a shift that is common to the classes of a column. "
                "Test a difference between two classes"
            )
    if exact_fit(fit):
        raise Incompatible(
            f"the fit is exact: residuals are rounding, so that no test of {text!r} has a value"
        )


def _test_inequality(c: Combinations, text: str) -> Hypothesis:
    """The one-sided test of one inequality against its opposite."""
    if len(c.read) > 1:
        raise Incompatible(
            f"the hypothesis {text!r} has {len(c.read)} inequalities: a point estimate is tested against one at a time; "
            "a posterior has the probability of all together"
        )
    (restriction,) = c.read
    names = c.fit.parameter_names
    df = None if c.df is None else float(np.ravel(c.df)[0])
    t = float((c.value[0] - c.r[0]) / c.std_error[0])
    test = root(t, df, tail=1 if restriction.relation == ">" else -1)
    null = f"{restriction.format_combination(names)} {_OPPOSITE[restriction.relation]} {c.r[0]:.6g} (against {restriction.words(names)})"
    return Hypothesis(text, null, None, {test.name: test})


def why_no_likelihood_tests(fit: Fit) -> str | None:
    """Return why the fit has no likelihood ratio and score test; None if it has both."""
    test_names = "likelihood ratio and score test"
    likelihood = fit.model.likelihood
    if not isinstance(likelihood, SmoothLikelihood):
        return f"no {test_names}: the log-likelihood of {likelihood.name} has kinks, where it has no derivative"
    return without_likelihood(fit.model.design.weight_kind, test_names)


def describe_scales(c: Combinations) -> tuple[str, ...]:
    """Notes on the tests of a mode under a prior, or at scales found by evidence."""
    if not has_tests_at_found_scales(c.fit, smooths=True) or c.has_prior:
        return (PENALISED,)
    notes: tuple[str, ...] = ()
    if c.satterthwaite is not None:
        notes = ("denominator degrees of freedom: Satterthwaite's",)
    elif str(c.spread.words.get("kind")) != "joint":
        notes = ("standard deviations of effects are taken as known",)
    alternative = "compare the log-likelihoods of two ML fits"
    if (
        c.fit.solution.effect_scales is not None
        and c.fit.solution.effect_scales.criterion == "REML"
    ):
        alternative = "REML compares only models of the same flat columns"
    return (*notes, f"no likelihood ratio and no score test: {alternative}")


def _adjust_family(
    result: Hypothesis, c: Combinations, *, prob: float, adjust: str
) -> Hypothesis:
    """The equalities with adjusted p-values and simultaneous intervals."""
    require_tests(has_tests(c.fit) and not c.has_prior, c.std_error)
    adjusted = adjust_tests(
        (c.value - c.r) / c.std_error, c.half @ c.half.T, c.df, prob=prob, adjust=adjust
    )
    estimates = c.table(adjusted.critical).assign(
        p_unadjusted=adjusted.alone, p_value=adjusted.p
    )
    note = (
        f"p-values and intervals of the equalities are simultaneous: {adjusted.words}"
    )
    return replace(result, estimates=estimates, notes=(*result.notes, note))


def of_limit(fit: Fit, text: str, read: list[Restriction]) -> Hypothesis:
    """Return the likelihood tests of coefficients that run to infinity, which have no estimate and no Wald test."""
    if read[0].relation != "=":
        raise Incompatible(
            f"there is no test of {text!r}, because the estimate is infinite: test the equality by its likelihood ratio, or "
            "give a prior and ask the posterior"
        )
    pseudo = without_likelihood(
        fit.model.design.weight_kind, "likelihood ratio and score test"
    )
    if pseudo is not None:
        raise Incompatible(pseudo)
    L, r = matrix(read, len(fit.parameter_names))
    nothing = np.full(len(read), np.nan)
    table = restriction_table(
        fit, read, dict.fromkeys(("estimate", "std_error", "lower", "upper"), nothing)
    )
    tests = likelihood_tests(fit, independent(over_own(fit, L), r))
    notes: tuple[str, ...] = (
        "a coefficient has no finite estimate, so there is no Wald test; the likelihood ratio uses the limit of the likelihood",
    )
    if "score" not in {t.name for t in tests}:
        notes += (
            "no score test: under the hypothesis the rows have no information about these coefficients",
        )
    return Hypothesis(
        text, describe_null(fit, read), table, {t.name: t for t in tests}, notes=notes
    )
