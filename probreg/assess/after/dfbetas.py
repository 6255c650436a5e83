"""Rows that move one coefficient."""

from typing import ClassVar

import numpy as np

from probreg.assess.after.base import DIAGNOSTICS
from probreg.assess.after.influence_measures import DeletionDiagnostic, dfbetas
from probreg.assess.after.local import local
from probreg.assess.after.replicates import Replicates
from probreg.assess.before.base import Finding
from probreg.assess.before.design_leverage import row_names
from probreg.fits.fit import Fit

Array = np.ndarray


@DIAGNOSTICS.register
class DfbetasDiagnostic(DeletionDiagnostic):
    """Reports coefficients that a single observation moves by one standard error or more (DFBETAS, Belsley, Kuh & Welsch
    1980, section 2.1), with the row that moves each furthest.

    >>> import probreg as pr
    >>> x = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 30.0])
    >>> fit = pr.fit(pr.Model.from_arrays(x, np.minimum(x, 4.0) + np.sin(9 * x) / 5))
    >>> DfbetasDiagnostic().run(fit)[0].rows
    (8,)
    """

    name: ClassVar[str] = "dfbetas"
    question: ClassVar[str] = "Would a coefficient be another without a single row?"
    noted, warned = (
        1.0,
        2.0,
    )  # standard errors; two carry an estimate out of its own 95 % interval

    def run(self, fit: Fit) -> list[Finding]:
        found = local(fit)
        moves = np.nan_to_num(dfbetas(fit, found)).reshape(fit.model.design.n, -1)
        row = np.abs(moves).argmax(0)
        furthest = moves[row, np.arange(moves.shape[1])]
        order = [
            j for j in np.argsort(-np.abs(furthest)) if abs(furthest[j]) >= self.noted
        ]
        top = float(np.abs(furthest).max())
        alone = self.report_singular_rows(fit, found)
        if not order:
            return alone or self.fine(
                f"no row moves a coefficient by more than {top:.2g} standard errors",
                statistic=top,
            )
        names = fit.parameter_names
        labels = row_names(fit.model)
        parts = [
            f"{names[j]} by {-furthest[j]:+.2g} without row {labels[row[j]]}"
            for j in order[:4]
        ]
        sentence = f"coefficients move, in standard errors: {', '.join(parts)}{', ...' * (len(order) > 4)}"
        rows = list(dict.fromkeys(labels[row[order]].tolist()))
        columns = list(dict.fromkeys(self._column_name(fit, j) for j in order))
        back = found.back[fit.model.design.head]
        C = np.einsum(
            "pmk,dm->pdk", back, fit.model.likelihood.contrast_matrix
        ).reshape(-1, back.shape[2])
        return alone + self.report_influence(
            sentence,
            top,
            self.simulated_share(fit, lambda drawn: largest_dfbetas(drawn, C)),
            rows,
            columns,
        )

    def _column_name(self, fit: Fit, parameter: int) -> str:
        return fit.model.design.head_columns[
            parameter // max(len(fit.model.likelihood.outcomes), 1)
        ]


def largest_dfbetas(drawn: Replicates, C: Array) -> Array:
    """The largest |DFBETAS| of each data set, (S,), for reported coefficients that change by C (k,) times that of phi."""
    moved = np.einsum("jk,snk->snj", C, drawn.change, optimize=True)
    # standard errors without the observation: sqrt(dispersion C A^-1 C') times sigma_(i) / sigma
    error = np.sqrt(
        drawn.dispersion[:, None]
        * np.einsum("jk,skl,jl->sj", C, drawn.covariance, C, optimize=True)
    )
    with np.errstate(all="ignore"):  # a column that was dropped has no error
        size = np.abs(moved) / (error[:, None, :] * drawn.without[..., None])
    return np.asarray(np.nan_to_num(size, nan=0.0, posinf=0.0).max((1, 2)))
