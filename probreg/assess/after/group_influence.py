"""Would the coefficients be others without a single group?"""

from typing import ClassVar, NamedTuple

import numpy as np

from probreg.assess.after.base import DIAGNOSTICS, Diagnostic
from probreg.assess.before.base import Finding, Verdict
from probreg.fits.fit import Fit
from probreg.inference.uncertainty.left_out import SINGULAR, WhitenedRows

Array = np.ndarray
_NOTED, _WARNED = 0.5, 1.0  # as of Cook's distance of rows


class GroupInfluence(NamedTuple):
    """Of each group, Cook's distance of the flat coefficients and by how many standard errors each moves, (G,) and (G, k)."""

    levels: tuple[str, ...]
    columns: tuple[str, ...]
    cook: Array
    moves: Array


def group_influence(fit: Fit, key: str) -> GroupInfluence:
    """What leaving out each group of a term does to the flat coefficients of a Gaussian fit, its scales held, without a refit.

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
    """Cook's distance of every group on the flat coefficients, the scales held at those of all groups.

    >>> import probreg as pr
    >>> sleep = pr.load_dataset("sleepstudy")
    >>> found = GroupInfluenceDiagnostic().run(pr.fit(pr.Model.from_formula("reaction ~ days + (days || subject)", sleep)))
    >>> found[0].verdict.name
    'OK'
    """

    name: ClassVar[str] = "group_influence"
    question: ClassVar[str] = "Would the coefficients be others without a single group?"
    target: ClassVar[str] = "mode"
    when: ClassVar[str] = "Gaussian, effects that vary by a group"
    picture: ClassVar[str] = "plot.leverage"

    def applies(self, fit: Fit) -> str | None:
        if not fit.model.design.recipe.grouped:
            return "no effect varies by a group"
        if not fit.model.likelihood.least_squares:
            return f"it is of Gaussian noise, and this model is {fit.model.likelihood.name}"
        if fit.model.unknown or fit.solution.df is not None:
            return "its scales are not held; fit by evidence"
        if fit.model.design.weights is not None:
            return "rows with frequencies are of no single group"
        if fit.model.joint.informative.all():
            return "every column has a prior"
        return None

    def run(self, fit: Fit) -> list[Finding]:
        out: list[Finding] = []
        top = 0.0
        for group, key in {
            t.group: key for key, t in fit.model.design.recipe.grouped.items()
        }.items():
            found = group_influence(fit, key)
            far = int(np.argmax(found.cook))
            largest = float(found.cook.max())
            top = max(top, largest)
            if largest < _NOTED:
                continue
            column = found.columns[int(np.argmax(np.abs(found.moves[far])))]
            by = float(np.abs(found.moves[far]).max())
            sentence = f"without {group} {found.levels[far]!r} {column} moves by {by:.2g} standard errors (Cook's distance {largest:.3g})"
            if largest >= _WARNED:
                verdict = Verdict.WARNING
            else:
                verdict = Verdict.NOTE
            out.append(
                self.say(
                    verdict,
                    sentence,
                    "look at its rows, and report the fit without it beside",
                    columns=[column],
                    statistic=largest,
                )
            )
        return out or self.fine(
            f"no group moves the flat coefficients far: the largest Cook's distance is {top:.3g}",
            statistic=top,
        )
