"""The comparison of fits; other modules compute its numbers, shares, reasons and text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from probreg.arguments.scalars import (
    Positive,
    Probability,
    Word,
    check_arguments,
)
from probreg.arguments.types import DataFrame
from probreg.comparison.attributed_causes import Attribution, attribute_differences
from probreg.comparison.numbers import FitTable, dataset
from probreg.comparison.rendering import comparison_html, comparison_text, notes
from probreg.comparison.same_question import (
    check_kind,
    differing_terms,
    fits_by_name,
    refuse_unlike,
)
from probreg.errors import DataError
from probreg.fits.fit import Fit
from probreg.inference.modes.wide import refuse_written_out


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(FitTable):
    """Estimates of several fits and their differences from a baseline, over (fit, param), unrounded; the result of `compare`.

    Parameters
    ----------
    fits : mapping from str to Fit
        The fits.
    baseline : str
        The fit that the others are compared with.
    prob : float
        Probability of every interval.
    data : Dataset (fit, param)
        estimate; error (SE of a mode, SD of a posterior; see the coordinate `error_name`); lower, upper, kind;
        difference = (estimate - baseline) / SE of the baseline; se_ratio = error / baseline's; prior; prior_weight,
        (P H^-1)_jj (of sigma P / H over log sigma, with the prior of coefficients in its units); mcse (Monte Carlo
        error of a mean) and skewness (of a posterior). nan: does not exist, or is not defined.
    apart : float
        Differences beyond so many SE of the baseline get a reason.

    Attributes
    ----------
    reasons : dict
        For each parameter that differs, the largest cause with its share.
    causes : DataFrame
        Every cause with its shares and evidence.
    smooths : DataFrame
        The smooth functions of each fit: effective degrees of freedom, columns and scales.
    notes : tuple of str
        Notes for reading the table: missing values with their reasons, and sigma.

    Examples
    --------
    >>> from probreg import Model, Normal
    >>> from probreg.fits.fit import fit
    >>> model = Model.from_arrays([[1.0], [2.0], [4.0], [7.0]], [1.0, 3.0, 4.0, 8.0], columns=["x"], aux={"sigma": 1.0})
    >>> both = compare({"ML": fit(model), "ridge": fit(model.with_prior(Normal(0.5)))})
    >>> both.to_pandas().loc["x", [("ML", "estimate"), ("ridge", "estimate"), ("ridge", "prior_weight")]].round(3).tolist()
    [1.095, 0.92, 0.16]
    >>> both.reasons["x"]  # sum of squares of x about its mean 21, prior precision 4: 21/25 of least squares is left
    ('ridge: prior of x: shift -0.8 SE, SE ratio 0.917',)
    """

    @cached_property
    def reasons(self) -> dict[str, tuple[str, ...]]:
        """A sentence for each parameter and fit with an estimate or interval end more than `apart` SE from the baseline's: the share
        of the largest cause, or the differences between the fits if no path connects them."""
        sentences: dict[str, tuple[str, ...]] = {}
        for a in self.attributions:
            sentences[a.param] = (*sentences.get(a.param, ()), a.sentence)
        return sentences

    @cached_property
    def causes(self) -> DataFrame:
        """The causes of each difference: param, fit, cause, shift, log_se and evidence, the largest first.

        shift is the cause's share of the difference in SE of the baseline, log_se its share of the log of the SE ratio, as in
        `pr.explain`; nan if no path of priors connects the two fits. Causes are "prior of x", "prior of sigma", "sigma fixed",
        "small sample", "covariance", "skewness", "approximation", "Monte Carlo error", "convergence", "sampler" and "kind of
        interval"; without a path also "columns", "effects by group", "smooth functions", "weights", "likelihood", "prior",
        "separation" and "identification". The evidence is the setting of each fit.
        """
        import pandas as pd

        rows = [
            (
                attribution.param,
                attribution.fit,
                c.cause.label,
                c.shift,
                c.log_se,
                c.evidence,
            )
            for attribution in self.attributions
            for c in attribution.causes
        ]
        columns = ["param", "fit", "cause", "shift", "log_se", "evidence"]
        return pd.DataFrame(rows, columns=columns)

    @cached_property
    def attributions(self) -> list[Attribution]:
        """The causes of the difference of each parameter and fit, in the order of the table."""
        return attribute_differences(self)

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """Notes for reading the table: missing values with their reasons, and sigma."""
        return tuple(notes(self))

    def __repr__(self) -> str:
        return comparison_text(self, self.attributions)

    def _repr_html_(self) -> str:
        return comparison_html(self, self.attributions, self.notes)


@check_arguments
def compare(
    fits: Mapping[str, Fit] | Sequence[Fit],
    prob: Probability = 0.95,
    *,
    kind: Word | None = None,
    baseline: Word | None = None,
    apart: Positive = 0.1,
) -> Comparison:
    """Compare fits of the same rows in one table, with differences and ratios against a baseline.

    Parameters
    ----------
    fits : mapping from str to Fit, or sequence of Fit
        A sequence is named by the methods.
    prob : float
        Probability of every interval, between 0 and 1.
    kind : str, optional
        "t", "wald", "eti" or "hdi", used by the fits that have it; the others keep their own. The column `kind`
        of the result has the kind of each interval.
    baseline : str, optional
        The name of the fit to compare the others with; the first by default.
    apart : float
        Differences beyond so many SE of the baseline get a reason.

    Returns
    -------
    Comparison
        The table, the reasons and the notes.

    Raises
    ------
    DataError
        For fits that do not share response, rows, levels and link.
    Incompatible
        For a kind that none of them has.

    Examples
    --------
    >>> from probreg import Model, Normal
    >>> from probreg.fits.fit import fit
    >>> model = Model.from_arrays([[1.0], [2.0], [4.0], [7.0]], [1.0, 3.0, 4.0, 8.0], columns=["x"])
    >>> fits = {"ML": fit(model), "ridge": fit(model.with_prior(Normal(1.0, sigma_units=True)))}
    >>> weight = compare(fits).data["prior_weight"].sel(fit="ridge", param="x")
    >>> weight.round(6).item()  # prior precision 1, sum of (x - 3.5)^2 21
    0.045455
    """
    several = fits_by_name(fits, "compare")
    base = next(iter(several)) if baseline is None else baseline
    if base not in several:
        raise DataError(
            f"baseline {base!r} is not among the fits: {', '.join(several)}"
        )
    functions = differing_terms(several.values())
    for name, fit in several.items():
        refuse_unlike(base, several[base], name, fit, functions)
        refuse_written_out(fit.solution, "compare")
    if kind is not None:
        check_kind(several, kind)
    data = dataset(several, base, prob, kind)
    return Comparison(several, base, prob, data, apart)
