"""Near collinearity: condition indices, variance proportions and variance inflation factors."""

from typing import Any

import numpy as np

from probreg.diagnostics.before.base import CHECKS, Check, refuse_coded_levels
from probreg.diagnostics.before.rank import surplus
from probreg.diagnostics.before.term_columns import (
    terms,
    terms_of,
    without_effects_by_group,
)
from probreg.diagnostics.findings import Finding, NotApplicable, Verdict
from probreg.errors import DataError
from probreg.linalg import triangular
from probreg.model.model import Model
from probreg.system.terminal import few_names, percent

Array = np.ndarray
# Belsley, Kuh & Welsch (1980, section 3.2): index and variance proportion that matter
NOTED, SHARE = 30.0, 0.5
# one combination has a standard error a thousand times larger than another
WARNED = 1000.0
HIGH_VIF = 10.0  # intervals more than three times as wide as without the other terms (Marquardt 1970)
_REMEDY = "expected of powers and products; otherwise drop or combine terms, give them a prior, or accept the wide intervals"


@CHECKS.register
class CollinearityCheck(Check):
    """Reports condition indices from 30 on with the terms of inflated variance, and otherwise terms with
    GVIF^(1/df) of ten or more. Columns are centred if there is an intercept.

    >>> x = np.arange(6.0)
    >>> model = Model.from_arrays(np.c_[x, x + [0, 0.1, 0, 0, 0.1, 0]], x, columns=["a", "b"])
    >>> CollinearityCheck().run(model)[0].sentence
    'near collinearity, condition index 72.5: variance proportions of a (over 99 %), b (over 99 %), VIF 1.31e+03'
    """

    name = "collinearity"
    title = "Collinearity"

    def find(self, model: Model) -> list[Finding]:
        refuse_coded_levels(model)
        model = without_effects_by_group(model)
        design = model.design
        if len([t for t in terms(design) if t != "Intercept"]) < 2:
            raise NotApplicable("only one predictor")
        if surplus(model) is not None or design.moments.rank.dropped:
            raise NotApplicable("exact collinearity, see rank")
        gvif, df, names = _inflations(model)
        inflation = dict(zip(names, gvif ** (1.0 / df)))
        findings: list[Finding] = []
        largest = 1.0
        if len(_compared_columns(model, centred=True)) > 1:
            index, share, columns = _indices(model, centred=True)
            largest = float(index[-1])
            for k in np.flatnonzero(index >= NOTED)[::-1]:
                loadings = {c: float(v) for c, v in zip(columns, share[k]) if v > SHARE}
                findings += self._report_index(
                    model, float(index[k]), loadings, inflation
                )
        high = sorted(
            (t for t in names if inflation[t] >= HIGH_VIF), key=lambda t: -inflation[t]
        )
        if high and not findings:
            sentence = f"large variance inflation factors: {few_names([f'{t} ({inflation[t]:.3g})' for t in high])}"
            flagged = [design.columns[j] for t in high for j in terms(design)[t]]
            findings = self.report(sentence, Verdict.NOTE, _REMEDY, flagged)
        worst = max(names, key=lambda t: inflation[t])
        return findings or self.report(
            f"largest condition index {largest:.3g}, largest VIF {inflation[worst]:.3g} ({worst})"
        )

    def _report_index(
        self,
        model: Model,
        index: float,
        share: dict[str, float],
        inflation: dict[str, float],
    ) -> list[Finding]:
        order = sorted(share, key=lambda c: -share[c])
        by_term = terms_of(model.design, order)
        if len(by_term) < 2:  # columns of one term are not compared
            return []
        parts = [
            f"{term} ({percent(max(share[c] for c in columns), 2)})"
            for term, columns in by_term.items()
        ]
        vif = max(inflation[term] for term in by_term)
        sentence = f"near collinearity, condition index {index:.3g}: variance proportions of {few_names(parts)}, VIF {vif:.3g}"
        number = {c: j for j, c in enumerate(model.design.columns)}
        decided = model.joint.informative[[number[c] for c in order]].all()
        verdict = Verdict.WARNING if index >= WARNED and not decided else Verdict.NOTE
        return self.report(sentence, verdict, _REMEDY, order)


def condition_indices(model: Model, *, centred: bool = False) -> Any:
    """Return scaled condition indices and variance proportions of the columns.

    The indices are eta_k = d_1 / d_k and the proportions (v_jk / d_k)^2 / sum_l (v_jl / d_l)^2 from the singular value
    decomposition X = U diag(d) V' of the columns at unit length. The Dataset has index (component) and proportion
    (component, coef), the indices ascending. Source: Belsley, Kuh & Welsch (1980, chapter 3), who do not
    centre; `centred` subtracts the means, and leaves the intercept out. DataError for exactly collinear columns.

    >>> found = condition_indices(Model.from_arrays([9.0, 10.0, 11.0], [1.0, 2.0, 2.5]))
    >>> found["index"].round(1).values.tolist()
    [1.0, 24.5]
    """
    import xarray as xr

    _require_full_rank(model)
    index, share, names = _indices(model, centred=centred)
    return xr.Dataset(
        {"index": ("component", index), "proportion": (("component", "coef"), share)},
        {"coef": names},
    )


def vif(model: Model) -> Any:
    """Generalised variance inflation factors of the terms: Dataset over term with gvif, df and per_df = gvif^(1/(2 df)).

    gvif = det R_1 det R_2 / det R of the correlations R of the columns, R_1 the correlations within the term and R_2 within the others; for a
    single column 1 / (1 - R^2), the classical VIF; its root is the factor by which the interval widens (Fox & Monette
    1992). Without an intercept R has cosines in place of correlations. DataError for exactly collinear columns.

    >>> vif(Model.from_arrays([[0.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [1.0, 2.0, 4.0]))["gvif"].round(3).values.tolist()
    [1.333, 1.333]
    """
    import xarray as xr

    _require_full_rank(model)
    gvif, df, names = _inflations(model)
    columns = {"gvif": gvif, "df": df, "per_df": gvif ** (0.5 / df)}
    return xr.Dataset({k: ("term", v) for k, v in columns.items()}, {"term": names})


def _require_full_rank(model: Model) -> None:
    design = model.design
    dropped = design.moments.rank.dropped
    if dropped:
        names = ", ".join(design.columns[j] for j in dropped)
        raise DataError(
            f"exact collinearity: {names} is a combination of other columns; see check(model)['rank']"
        )


def _scaled_root(model: Model, columns: list[int]) -> Array:
    """Return a triangular factor of these columns at unit length, centred if the intercept is not among them."""
    intercept = model.design.intercept
    front = [] if intercept is None or intercept in columns else [intercept]
    F = np.asarray(triangular(model.design.moments.R[:, [*front, *columns]]), float)
    S = F[len(front) :, len(front) :]
    return S / np.linalg.norm(S, axis=0)


def _indices(model: Model, *, centred: bool) -> tuple[Array, Array, list[str]]:
    """Return indices (k,), proportions (k, k) and the names of the columns."""
    columns = _compared_columns(model, centred=centred)
    _, d, Vt = np.linalg.svd(_scaled_root(model, columns))
    parts = (Vt / d[:, None]) ** 2
    names = [model.design.columns[j] for j in columns]
    return d[0] / d, parts / parts.sum(0), names


def _compared_columns(model: Model, *, centred: bool) -> list[int]:
    """Return the columns to compare: all (without the intercept if `centred`) except columns of smooth functions."""
    design = model.design
    return [
        j
        for j, smooth in enumerate(design.of_terms)
        if not smooth and not (centred and j == design.intercept)
    ]


def _inflations(model: Model) -> tuple[Array, Array, list[str]]:
    """Return gvif, df and the names of the terms."""
    columns = [j for j in range(model.shape[0]) if j != model.design.intercept]
    R = _scaled_root(model, columns)
    groups = {
        t: [columns.index(j) for j in positions]
        for t, positions in terms(model.design).items()
        if t != "Intercept"
    }
    values = []
    for positions in groups.values():
        other_columns = [j for j in range(len(columns)) if j not in positions]
        # half of log det R_1 + log det R_2 - log det R
        half = _log_det(R[:, positions]) + _log_det(R[:, other_columns]) - _log_det(R)
        values.append(np.exp(2.0 * half))
    df = np.array([len(positions) for positions in groups.values()])
    return np.array(values), df, list(groups)


def _log_det(R: Array) -> float:
    """Return log |det| of the triangular factor of some columns, half the log determinant of their products."""
    if not R.shape[1]:
        return 0.0
    return float(np.log(np.abs(np.diag(np.linalg.qr(R, mode="r")))).sum())
