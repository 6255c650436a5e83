"""The change of the coefficients without a single group."""

from typing import NamedTuple

import numpy as np

from probreg.assess.after.base import DIAGNOSTICS, Diagnostic
from probreg.assess.findings import Finding, Verdict
from probreg.fits.fit import Fit
from probreg.inference.uncertainty.left_out import SINGULAR, WhitenedRows

Array = np.ndarray
_NOTED, _WARNED = 0.5, 1.0  # as for Cook's distance of rows


class GroupInfluence(NamedTuple):
    """Cook's distance (G,) of each group for the flat coefficients, and their changes in standard errors (G, k)."""

    levels: tuple[str, ...]
    columns: tuple[str, ...]
    cook: Array
    moves: Array


def group_influence(fit: Fit, key: str) -> GroupInfluence:
    """Return the change of the flat coefficients of a Gaussian fit without each group of a term, for fixed scales.

    With V the covariance of the coefficients, e_g the residuals of the group and R = I - X_g V X_g' / sigma^2, the estimate moves
    by V X_g' R^-1 e_g / sigma^2.
    """
    model = fit.model
    s = fit.solution
    d = model.design
    sigma = float(model.noise(fit.aux))
    all_rows = WhitenedRows.of(model, s.beta[:, 0], sigma)
    V = s.given_scales
    flat = np.flatnonzero(~model.joint.informative)
    term = d.recipe.grouped[key]
    codes = np.asarray(d.inputs[key])[:, 0].astype(int)
    of_flat = V.half(np.eye(model.shape[0])[flat])
    R_flat = np.linalg.qr(of_flat.T, mode="r")  # V_ff = R'R
    se = np.linalg.norm(of_flat, axis=1)
    cook = np.zeros(len(term.levels))
    moves = np.zeros((len(term.levels), len(flat)))
    for g in range(len(term.levels)):
        rows = np.flatnonzero(codes == g)
        R = all_rows.apart(rows, V)
        if len(rows) and np.linalg.eigvalsh(R)[0] < SINGULAR:
            cook[g] = np.inf
            continue
        move = of_flat @ (
            V.half(all_rows.X[rows]).T @ np.linalg.solve(R, all_rows.e[rows])
        )
        # D_g = d'V_ff^-1 d / k
        cook[g], moves[g] = (
            np.square(np.linalg.solve(R_flat.T, move)).sum() / len(flat),
            move / se,
        )
    return GroupInfluence(term.levels, tuple(d.columns[j] for j in flat), cook, moves)


@DIAGNOSTICS.register
class GroupInfluenceDiagnostic(Diagnostic):
    """Cook's distance of every group for the flat coefficients, with the scales of all groups.

    >>> import probreg as pr
    >>> sleep = pr.load_dataset("sleepstudy")
    >>> found = GroupInfluenceDiagnostic().run(pr.fit(pr.Model.from_formula("reaction ~ days + (days || subject)", sleep)))
    >>> found[0].verdict.name
    'OK'
    """

    name = "group_influence"
    title = "Influence of groups"
    target = "mode"
    when = "Gaussian, effects that vary by a group"
    picture = "plot.leverage"

    def applies(self, fit: Fit) -> str | None:
        model = fit.model
        if not model.design.recipe.grouped:
            return "no effect varies by a group"
        if not model.likelihood.least_squares:
            return f"it is for a Gaussian likelihood, and this one is {model.likelihood.name}"
        if model.unknown or fit.solution.df is not None:
            return "its scales are not fixed; fit by evidence"
        if model.design.weights is not None:
            return "rows with frequencies do not belong to a single group"
        if model.joint.informative.all():
            return "every column has a prior"
        return None

    def run(self, fit: Fit) -> list[Finding]:
        out: list[Finding] = []
        largest = 0.0
        grouped = fit.model.design.recipe.grouped.items()
        for group, key in {t.group: key for key, t in grouped}.items():
            found = group_influence(fit, key)
            far = int(np.argmax(found.cook))
            cook = float(found.cook[far])
            largest = max(largest, cook)
            if cook < _NOTED:
                continue
            moves = np.abs(found.moves[far])
            column = found.columns[int(np.argmax(moves))]
            sentence = f"D = {cook:.3g}: without {group} {found.levels[far]!r} {column} changes by {moves.max():.2g} standard errors"
            remedy = "check its rows, and report the fit without it too"
            verdict = Verdict.WARNING if cook >= _WARNED else Verdict.NOTE
            out += self.report(verdict, sentence, remedy, [column], statistic=cook)
        sentence = f"largest Cook's distance of a group {largest:.3g}"
        return out or self.report_ok(sentence, statistic=largest)
