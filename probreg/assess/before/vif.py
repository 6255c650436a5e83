"""Variance inflation: how much wider the interval of a term is for what it shares with the other terms."""

from typing import Any, ClassVar

import numpy as np

from probreg.assess.before.base import CHECKS, Check, Finding, Verdict
from probreg.assess.before.rank import surplus
from probreg.assess.before.term_columns import (
    FEW,
    few_of,
    terms,
    without_effects_by_group,
)
from probreg.errors import DataError
from probreg.model.model import Model
from probreg.numerics.linalg import triangular

Array = np.ndarray
HIGH = 10.0  # intervals more than three times as wide as without the other terms (Marquardt 1970)


@CHECKS.register
class VifCheck(Check):
    """Reports terms with GVIF^(1/df) of ten or more.

    >>> x = np.arange(6.0)
    >>> model = Model.from_arrays(np.c_[x, x + [0, 0.3, 0, 0, 0.3, 0], x % 2], x, columns=["a", "b", "c"])
    >>> VifCheck().run(model)[0].sentence
    'a, b share so much with the other terms that their intervals are 12.1, 12.1 times as wide (VIF 147, 147)'
    """

    name: ClassVar[str] = "vif"
    question: ClassVar[str] = "How much of each term do the other terms say too?"
    cheap: ClassVar[bool] = True
    topic: ClassVar[str] = "rank"

    def run(self, model: Model) -> list[Finding]:
        of_levels = self.unasked_of_levels(model)
        if of_levels is not None:
            return of_levels
        model = without_effects_by_group(model)
        design = model.design
        if len([t for t in terms(design) if t != "Intercept"]) < 2:
            return self.report_not_applicable("a single term shares nothing")
        if surplus(model) is not None or design.moments.rank.dropped:
            return self.report_not_applicable(
                "some columns are exact combinations of others, see rank"
            )
        gvif, df, of_terms = _inflations(model)
        per_df = gvif ** (1.0 / df)
        high = [i for i in np.argsort(-per_df) if per_df[i] >= HIGH]
        if not high:
            at = int(np.argmax(per_df))
            return self.fine(
                f"the largest VIF per degree of freedom is {per_df[at]:.3g}, of {of_terms[at]}"
            )
        names = [of_terms[i] for i in high]
        wider, factors = (
            ", ".join(f"{v[i]:.3g}" for i in high[:FEW])
            for v in (np.sqrt(per_df), per_df)
        )
        if len(high) == 1:
            whose = "its interval is"
        else:
            whose = "their intervals are"
        share = "shares" if len(high) == 1 else "share"
        if len(high) > FEW:
            worst = "; those of the worst five"
        else:
            worst = ""
        sentence = f"{few_of(names)} {share} so much with the other terms that {whose} {wider} times as wide (VIF {factors}{worst})"
        remedy = "expected of powers and products; otherwise drop or combine terms, or accept the wide intervals"
        columns = [design.columns[j] for name in names for j in terms(design)[name]]
        return [self.say(Verdict.NOTE, sentence, remedy, columns)]


def vif(model: Model) -> Any:
    """Generalised variance inflation factors of the terms: Dataset over term with gvif, df and per_df = gvif^(1/(2 df)).

    gvif = det R_1 det R_2 / det R of the correlations R of the columns, those of the term R_1 and the others R_2; for a
    single column 1 / (1 - R^2), the classical VIF; its root is the factor by which the interval widens (Fox & Monette
    1992). Without an intercept R holds cosines, not correlations. DataError for exactly collinear columns.

    >>> vif(Model.from_arrays([[0.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [1.0, 2.0, 4.0]))["gvif"].round(3).values.tolist()
    [1.333, 1.333]
    """
    import xarray as xr

    gvif, df, names = _inflations(model)
    parts = {
        "gvif": ("term", gvif),
        "df": ("term", df),
        "per_df": ("term", gvif ** (0.5 / df)),
    }
    return xr.Dataset(parts, {"term": names})


def _inflations(model: Model) -> tuple[Array, Array, list[str]]:
    """gvif, df and the names of the terms: plain arrays, since a Dataset imports dask."""
    design = model.design
    if design.moments.rank.dropped:
        names = ", ".join(design.columns[j] for j in design.moments.rank.dropped)
        raise DataError(
            f"no VIF: {names} is an exact combination of other columns; see check(model)['rank']"
        )
    R, columns = _correlation_root(model)
    groups = {
        t: [columns.index(j) for j in at]
        for t, at in terms(design).items()
        if t != "Intercept"
    }
    values = [np.exp(2.0 * _log_inflation(R, at)) for at in groups.values()]
    df = np.array([len(at) for at in groups.values()])
    return np.array(values), df, list(groups)


def _correlation_root(model: Model) -> tuple[Array, list[int]]:
    """The triangular factor of the correlations of all columns but the intercept, and which columns these are."""
    at = model.design.intercept
    p = model.shape[0]
    front = [] if at is None else [at]
    columns = [j for j in range(p) if j != at]
    F = np.asarray(
        triangular(model.design.moments.R[:, [*front, *columns]]), dtype=float
    )
    S = F[len(front) :, len(front) :]
    return S / np.linalg.norm(S, axis=0), columns


def _log_inflation(R: Array, at: list[int]) -> float:
    """log det of the term and of the others less that of all, halved, from triangular factors."""
    others = [j for j in range(R.shape[1]) if j not in at]

    def log_det(columns: list[int]) -> float:
        if columns:
            return float(
                np.log(np.abs(np.diag(np.linalg.qr(R[:, columns], mode="r")))).sum()
            )
        return 0.0

    return log_det(at) + log_det(others) - log_det([*at, *others])
