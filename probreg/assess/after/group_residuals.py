"""Equality of the noise variance between groups."""

import numpy as np
from scipy.special import fdtrc

from probreg.assess.after.base import DIAGNOSTICS, SIGNIFICANT, Diagnostic
from probreg.assess.after.residuals import counted_residuals
from probreg.assess.before.response import two_values_obstacle
from probreg.assess.findings import Finding
from probreg.fits.fit import Fit
from probreg.inference.varying import effects_of_groups
from probreg.system.terminal import format_p

Array = np.ndarray
_LEAST = 3  # rows of a group, and two more for each further effect


@DIAGNOSTICS.register
class GroupResidualsDiagnostic(Diagnostic):
    """The test of Brown and Forsythe: an analysis of variance of the distances |r - median of the group| over groups.

    >>> import probreg as pr
    >>> sleep = pr.load_dataset("sleepstudy")
    >>> found = GroupResidualsDiagnostic().run(pr.fit(pr.Model.from_formula("reaction ~ days + (days || subject)", sleep)))
    >>> found[0].verdict.name
    'OK'
    """

    name = "group_residuals"
    title = "Brown-Forsythe test of groups"
    when = "effects that vary by a group"
    picture = "plot.residuals"

    def applies(self, fit: Fit) -> str | None:
        terms = fit.model.design.recipe.grouped
        if not terms:
            return "no effect varies by a group"
        if not any(_rows_by_group(fit, key) for key in terms):
            least = min(_least_rows_per_group(fit, key) for key in terms)
            return f"it needs two groups with {least} rows in memory"
        return two_values_obstacle(fit.model)

    def run(self, fit: Fit) -> list[Finding]:
        residuals = counted_residuals(fit, "pearson")
        out: list[Finding] = []
        grouped = fit.model.design.recipe.grouped.items()
        for group, key in {t.group: key for key, t in grouped}.items():
            parts = _rows_by_group(fit, key)
            if not parts:
                continue
            F, p = brown_forsythe([residuals[rows] for _, rows in parts])
            spread = {level: float(residuals[rows].std()) for level, rows in parts}
            result = f"no sign of different variances between groups of {group}"
            if p < SIGNIFICANT:
                widest = max(spread, key=spread.__getitem__)
                result = f"the variance differs between groups of {group}, largest in {widest}"
            out += self.report_p_value(
                f"{result}, F = {F:.3g}, {format_p(p)}",
                "look for a missing predictor or wrong rows; a student likelihood allows outliers",
                statistic=F,
                p_value=p,
            )
        return out


def _rows_by_group(fit: Fit, key: str) -> list[tuple[str, Array]]:
    """Return the rows of each group with enough rows; an empty list where fewer than two groups have enough."""
    design = fit.model.design
    if key not in design.inputs:
        return []
    codes = np.asarray(design.inputs[key])[:, 0].astype(int)
    order = np.argsort(codes, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)
    levels = design.recipe.grouped[key].levels
    found = [
        (levels[codes[rows[0]]], rows)
        for rows in parts
        if len(rows) >= _least_rows_per_group(fit, key)
    ]
    return found if len(found) > 1 else []


def _least_rows_per_group(fit: Fit, key: str) -> int:
    """Return the rows that a group needs: with nearly as many effects as rows the variance of residuals depends on the columns."""
    group = fit.model.design.recipe.grouped[key].group
    return _LEAST + 2 * (len(effects_of_groups(fit.model)[group].effects) - 1)


def brown_forsythe(groups: list[Array]) -> tuple[float, float]:
    """F and p of one-way analysis of variance of |x - median| (Brown & Forsythe 1974).

    >>> brown_forsythe([np.array([1.0, 2.0, 3.0]), np.array([1.0, 5.0, 9.0])])[0].round(6).item()
    2.117647
    """
    away = [np.abs(x - np.median(x)) for x in groups]
    n = sum(map(len, away))
    G = len(away)
    grand = np.concatenate(away).mean()
    between = sum(len(a) * (a.mean() - grand) ** 2 for a in away) / (G - 1)
    within = sum(float(np.square(a - a.mean()).sum()) for a in away) / (n - G)
    if within > 0:
        F = np.float64(between / within)
    else:
        F = np.float64(np.inf)
    return F, float(fdtrc(G - 1, n - G, F))
