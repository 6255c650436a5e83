"""Condition indices: how many near-combinations the columns hold, and whose variance they inflate."""

from typing import Any, ClassVar

import numpy as np

from probreg.assess.before.base import CHECKS, Check, Finding, Verdict
from probreg.assess.before.rank import surplus
from probreg.assess.before.term_columns import (
    few_of,
    terms_of,
    without_effects_by_group,
)
from probreg.errors import DataError
from probreg.model.model import Model
from probreg.numerics.linalg import triangular
from probreg.system.terminal import percent

Array = np.ndarray
NOTED, SHARE = (
    30.0,
    0.5,
)  # Belsley, Kuh & Welsch (1980, section 3.2): index and variance proportion that matter


@CHECKS.register
class ConditionCheck(Check):
    """Names, for every condition index from 30 on, the coefficients of which it makes up more than half the variance.

    Columns are centred beside an intercept, so that a shift raises no alarm; `condition_indices` also gives the
    uncentred numbers of the book.

    >>> x = np.arange(6.0)
    >>> model = Model.from_arrays(np.c_[x, x + [0, 0.1, 0, 0, 0.1, 0]], x, columns=["a", "b"])
    >>> ConditionCheck().run(model)[0].sentence
    'condition index 72.5: one near-combination makes up most of the variance of a (over 99 %), b (over 99 %)'
    """

    name: ClassVar[str] = "condition"
    question: ClassVar[str] = "Which coefficients do near-combinations of columns blur?"
    cheap: ClassVar[bool] = True
    topic: ClassVar[str] = "rank"

    def run(self, model: Model) -> list[Finding]:
        of_levels = self.unasked_of_levels(model)
        if of_levels is not None:
            return of_levels
        grouped = model.design.recipe.grouped
        model = without_effects_by_group(model)
        if len(_compared_columns(model, centred=True)) < 2:
            if grouped:
                whose = " beside effects by group"
            else:
                whose = ""
            if model.design.of_terms.any():
                whose = " beside smooth functions"
            return self.report_not_applicable(
                f"a single column{whose} is no combination of others"
            )
        if surplus(model) is not None or model.design.moments.rank.dropped:
            return self.report_not_applicable(
                "some columns are exact combinations of others, see rank"
            )
        index, share, names = _indices(model, centred=True)
        out = []
        for k in np.flatnonzero(index >= NOTED)[::-1]:
            hit = [
                (names[j], float(share[k, j]))
                for j in np.argsort(-share[k])
                if share[k, j] > SHARE
            ]
            by_term = terms_of(model.design, [name for name, _ in hit])
            if len(by_term) >= 2:  # columns of one term are no matter of the others
                out.append(
                    self._report_collinearity(float(index[k]), dict(hit), by_term)
                )
        if model.design.intercept is None:
            centred = ""
        else:
            centred = "centred "
        return out or self.fine(
            f"the largest condition index is {index[-1]:.3g}, of {centred}columns of unit length"
        )

    def _report_collinearity(
        self, index: float, share: dict[str, float], by_term: dict[str, list[str]]
    ) -> Finding:
        whose = few_of(
            [
                f"{term} ({percent(max(share[c] for c in cs), 2)})"
                for term, cs in by_term.items()
            ]
        )
        sentence = f"condition index {index:.3g}: one near-combination makes up most of the variance of {whose}"
        remedy = "only combinations of these are told well; drop one, combine them, or give them a prior"
        return self.say(Verdict.NOTE, sentence, remedy, list(share))


def condition_indices(model: Model, *, centred: bool = False) -> Any:
    """Scaled condition indices eta_k = d_1 / d_k and variance proportions (v_jk / d_k)^2 / sum_l (v_jl / d_l)^2 from the
    singular value decomposition X = U diag(d) V' of the columns at unit length: Dataset with index (component) and
    proportion (component, coef), the indices ascending. Source: Belsley, Kuh & Welsch (1980, chapter 3), who do not
    centre; `centred` takes means out first, and the intercept with them. DataError for exactly collinear columns.

    >>> found = condition_indices(Model.from_arrays([9.0, 10.0, 11.0], [1.0, 2.0, 2.5]))
    >>> found["index"].round(1).values.tolist()
    [1.0, 24.5]
    """
    import xarray as xr

    index, share, names = _indices(model, centred=centred)
    return xr.Dataset(
        {"index": ("component", index), "proportion": (("component", "coef"), share)},
        {"coef": names},
    )


def _indices(model: Model, *, centred: bool) -> tuple[Array, Array, list[str]]:
    """Indices (k,), proportions (k, k) and the names of the columns: plain arrays, since a Dataset imports dask."""
    design = model.design
    if design.moments.rank.dropped:
        names = ", ".join(design.columns[j] for j in design.moments.rank.dropped)
        raise DataError(
            f"condition indices are infinite: {names} is an exact combination; see check(model)['rank']"
        )
    columns = _compared_columns(model, centred=centred)
    if len(columns) == len(design.columns) or design.intercept is None:
        front = []
    else:
        front = [design.intercept]
    F = np.asarray(triangular(design.moments.R[:, [*front, *columns]]), dtype=float)[
        len(front) :, len(front) :
    ]
    _, d, Vt = np.linalg.svd(F / np.linalg.norm(F, axis=0))
    parts = (Vt / d[:, None]) ** 2
    return d[0] / d, parts / parts.sum(0), [design.columns[j] for j in columns]


def _compared_columns(model: Model, *, centred: bool) -> list[int]:
    """Return the columns to compare: all (without the intercept if `centred`) except those of smooth functions."""
    design = model.design
    return [
        j
        for j, own in enumerate(design.of_terms)
        if not own and not (centred and j == design.intercept)
    ]
