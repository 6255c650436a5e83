"""The comparison of fits and how one is made. It asks the other files: numbers, shares, reasons, text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from probreg.compare.alike import check_kind, named, refuse_unlike
from probreg.compare.numbers import NUMBERS, WORDS, dataset
from probreg.compare.reasons import Reason, found, reasons
from probreg.compare.rendering import as_html, notes, text
from probreg.compare.shares import spelling
from probreg.errors import DataError
from probreg.fit import Fit
from probreg.intervals import check_prob


@dataclass(frozen=True, eq=False)
class Comparison:
    """Fits by name and their numbers: `data` is a Dataset over (fit, param), unrounded.

    Its variables: estimate, error (SE of a mode, SD of a posterior, as coordinate `error_name` says), lower, upper,
    kind; shift = (estimate - baseline) / SE of the baseline and ratio = error / baseline's; prior (raw units), penalty
    (its negative log in words), weight (of the penalty), lam (in RSS + lam R, Gaussian only), share and
    marginal_share (of the prior in the precision: others held, others free; of sigma with that of coefficients in its units); mcse (Monte Carlo error of a sampled mean)
    and skewness (of a posterior). nan: does not exist.

    >>> from probreg import Model, Normal, fit
    >>> model = Model.from_arrays([[1.0], [2.0], [4.0], [7.0]], [1.0, 3.0, 4.0, 8.0], columns=["x"], aux={"sigma": 1.0})
    >>> both = compare({"ML": fit(model), "ridge": fit(model.with_prior(Normal(0.5)))})
    >>> both.to_pandas().loc["x", [("ML", "estimate"), ("ridge", "estimate"), ("ridge", "marginal_share")]].round(3).tolist()
    [1.095, 0.92, 0.16]
    >>> both.reasons["x"]  # sum of squares of x about its mean 21, prior precision 4: 21/25 of least squares is left
    ('ridge is -0.8 SE from ML, ratio of their errors 0.917; consistent with: the prior Normal(0, 0.5), 16 % of the precision of x in ridge',)
    """

    fits: Mapping[str, Fit]
    baseline: str
    prob: float
    data: Any
    apart: float = 0.1

    def to_pandas(self) -> Any:
        """One row per parameter; columns (fit, quantity), as a MultiIndex; unrounded."""
        import pandas as pd

        columns = {(f, q): self.data[q].sel(fit=f).values for f in self.fits for q in (*NUMBERS, *WORDS)}
        table = pd.DataFrame(columns, index=pd.Index(self.data["param"].values, name="param"))
        table.columns = pd.MultiIndex.from_tuples(list(columns), names=["fit", "quantity"])
        table.attrs = dict(self.data.attrs)
        return table

    def tidy(self) -> Any:
        """One row per parameter and fit, every quantity a column; unrounded."""
        order = ["param", "fit", *(v for v in self.data.coords if v not in ("param", "fit")), *NUMBERS, *WORDS]
        table = self.data.transpose("param", "fit").to_dataframe().reset_index()[order]
        table.attrs = dict(self.data.attrs)
        return table

    @cached_property
    def reasons(self) -> dict[str, tuple[str, ...]]:
        """For each parameter with an estimate or interval end more than `apart` SE from the baseline's: sentences with what
        the difference is consistent with. Rules over the numbers of the table, not a proof of a cause."""
        return {p: tuple(said.values()) for p, said in self._reasons.items()}

    @cached_property
    def causes(self) -> Any:
        """The same by name: DataFrame with param, fit, cause and evidence, one row for each cause of a difference.

        A cause is "prior", "separation", "skewness", "misspecification", "sampler", "likelihood", "small sample",
        "identification", "method" or "kind of interval"; "" where no rule explains the difference.
        """
        import pandas as pd

        rows = [(one.param, one.fit, *why) for one in self._found for why in one.causes or (("", one.sentence),)]
        return pd.DataFrame(rows, columns=["param", "fit", "cause", "evidence"])

    @cached_property
    def _found(self) -> list[Reason]:
        return found(self)

    @cached_property
    def _reasons(self) -> dict[str, dict[str, str]]:
        return reasons(self._found, tuple(map(str, self.data["param"].values)))

    @cached_property
    def spellings(self) -> dict[str, str]:
        """For each fit whose prior is a penalty of scikit-learn: the estimator with its alpha or C."""
        said = {name: spelling(fit) for name, fit in self.fits.items()}
        return {name: s for name, s in said.items() if s}

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What a reader has to know of the table: what does not exist and why, sigma, equivalent penalties."""
        return tuple(notes(self, self.spellings))

    def __repr__(self) -> str:
        return text(self, self._reasons, self.notes)

    def _repr_html_(self) -> str:
        return as_html(self, self._reasons, self.notes)


def compare(
    fits: Mapping[str, Fit] | Sequence[Fit],
    prob: float = 0.95,
    *,
    kind: str | None = None,
    baseline: str | None = None,
    apart: float = 0.1,
) -> Comparison:
    """Fits of the same rows and columns as one table, shifts and ratios against the fit named `baseline` (the first).

    `prob` is the probability of every interval; `kind` ("t", "wald", "eti", "hdi") is used by the fits that have it, the
    others keep their own, and each interval says its kind. Differences beyond `apart` SE of the baseline get a reason. A sequence of fits is named by their methods. DataError for
    fits that do not share response, columns, rows, levels and link; Incompatible for a kind that none of them has.

    >>> from probreg import Model, Normal, fit
    >>> model = Model.from_arrays([[1.0], [2.0], [4.0], [7.0]], [1.0, 3.0, 4.0, 8.0], columns=["x"])
    >>> fits = {"ML": fit(model), "ridge": fit(model.with_prior(Normal(1.0, sigma_units=True)))}
    >>> compare(fits).data["share"].sel(fit="ridge", param="x").item()  # prior precision 1, sum of x^2 70
    0.0140845070422535...
    """
    several = named(fits)
    base = next(iter(several)) if baseline is None else baseline
    if base not in several:
        raise DataError(f"baseline {base!r} is not among the fits: {', '.join(several)}")
    for name, fit in several.items():
        refuse_unlike(base, several[base], name, fit)
    check_kind(several, kind)
    if not (isinstance(apart, int | float) and 0 < apart < np.inf):
        raise DataError(f"apart is a share of a standard error, a positive number such as 0.1, got {apart!r}")
    return Comparison(several, base, check_prob(prob), dataset(several, base, prob, kind), apart)
