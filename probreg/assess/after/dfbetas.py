"""DFBETAS: the change of each coefficient without a single row."""

import numpy as np

from probreg.assess.after.base import DIAGNOSTICS
from probreg.assess.after.influence_measures import DeletionDiagnostic, dfbetas
from probreg.assess.after.local import local
from probreg.assess.after.replicates import Replicates
from probreg.assess.findings import Finding
from probreg.fits.fit import Fit

Array = np.ndarray


@DIAGNOSTICS.register
class DfbetasDiagnostic(DeletionDiagnostic):
    """Reports coefficients that change by one standard error or more without a single observation (DFBETAS, Belsley, Kuh & Welsch
    1980, section 2.1), each with the row that changes it most.

    >>> import probreg as pr
    >>> x = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 30.0])
    >>> fit = pr.fit(pr.Model.from_arrays(x, np.minimum(x, 4.0) + np.sin(9 * x) / 5))
    >>> DfbetasDiagnostic().run(fit)[0].rows
    (8,)
    """

    name = "dfbetas"
    title = "DFBETAS"
    # standard errors; two move an estimate out of its 95 % interval
    noted, warned = 1.0, 2.0

    def run(self, fit: Fit) -> list[Finding]:
        pieces = local(fit)
        moves = np.nan_to_num(dfbetas(fit, pieces)).reshape(fit.model.design.n, -1)
        row = np.abs(moves).argmax(0)
        largest = moves[row, np.arange(moves.shape[1])]
        size = np.abs(largest)
        order = [j for j in np.argsort(-size) if size[j] >= self.noted]
        top = float(size.max())
        out = self.report_singular_rows(fit, pieces)
        if not order:
            sentence = f"largest change of a coefficient {top:.2g} standard errors"
            return out or self.report_ok(sentence, statistic=top)
        labels = fit.model.design.row_names
        names = fit.parameter_names
        parts = [
            f"{names[j]} by {-largest[j]:+.2g} without row {labels[row[j]]}"
            for j in order[:4]
        ]
        sentence = f"coefficients change by standard errors: {', '.join(parts)}{', ...' * (len(order) > 4)}"
        rows = list(dict.fromkeys(labels[row[order]].tolist()))
        outcomes = max(len(fit.model.likelihood.outcomes), 1)
        columns = [fit.model.design.head_columns[j // outcomes] for j in order]
        back = pieces.back[fit.model.design.head]
        contrast = fit.model.likelihood.contrast_matrix
        C = np.einsum("pmk,dm->pdk", back, contrast).reshape(-1, back.shape[2])
        share = self.simulated_share(fit, lambda drawn: largest_dfbetas(drawn, C))
        columns = list(dict.fromkeys(columns))
        return out + self.report_influence(sentence, top, share, rows, columns)


def largest_dfbetas(drawn: Replicates, C: Array) -> Array:
    """The largest |DFBETAS| of each data set, (S,), for reported coefficients that change by C (k,) times the change of phi."""
    moved = np.einsum("jk,snk->snj", C, drawn.change, optimize=True)
    # standard errors without the observation: sqrt(dispersion C A^-1 C') times sigma_(i) / sigma
    variance = np.einsum("jk,skl,jl->sj", C, drawn.covariance, C, optimize=True)
    error = np.sqrt(drawn.dispersion[:, None] * variance)
    with np.errstate(all="ignore"):  # a column that was dropped has no error
        size = np.abs(moved) / (error[:, None, :] * drawn.without[..., None])
    return np.asarray(np.nan_to_num(size, nan=0.0, posinf=0.0).max((1, 2)))
