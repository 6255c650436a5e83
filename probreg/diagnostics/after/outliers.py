"""Outlier test: responses that are very improbable under the model."""

import numpy as np
from scipy.special import betainc, stdtr

from probreg.diagnostics.after.base import (
    DIAGNOSTICS,
    Diagnostic,
    heavier_tails,
    require_counts,
)
from probreg.diagnostics.after.local import local
from probreg.diagnostics.before.response import two_values
from probreg.diagnostics.findings import (
    SIGNIFICANT,
    STRONG,
    Finding,
    Verdict,
)
from probreg.fits.fit import Fit
from probreg.fits.residuals import predictor, tails
from probreg.likelihoods import OfTrials, UnivariateLikelihood
from probreg.system.terminal import few_names, format_p

Array = np.ndarray


@DIAGNOSTICS.register
class OutlierDiagnostic(Diagnostic):
    """The smallest of the n probabilities of a response at least as extreme, times n (Bonferroni).

    Probabilities come from externally studentised residuals for least squares (Cook & Weisberg 1982, section 2.2.2), otherwise
    2 min(P(Y <= y), P(Y >= y)) under the predictive distribution; for classes the probability of all classes no more likely
    than the observed one, for counts by class the probability of the most extreme count, times K.

    >>> import probreg as pr
    >>> x = np.arange(20.0)
    >>> fit = pr.fit(pr.Model.from_arrays(x, x + np.sin(9 * x) + 30.0 * (x == 7)))
    >>> OutlierDiagnostic().run(fit)[0].rows
    (7,)
    """

    name = "outliers"
    title = "Outlier test"
    when = "every likelihood"
    picture = "plot.diagnose"

    def find(self, fit: Fit) -> list[Finding]:
        require_counts(fit)
        w = fit.model.design.weights
        p = np.minimum(surprise(fit) * fit.model.design.total, 1.0)
        p = p if w is None else np.where(w > 0, p, 1.0)
        order = [i for i in np.argsort(p) if p[i] < SIGNIFICANT]
        smallest = float(np.nanmin(p))
        test = f"{format_p(smallest)} (Bonferroni)"
        if not order:
            return self.report(f"no outliers, {test}", p_value=smallest)
        names = fit.model.design.row_names[order].tolist()
        plural = "s" * (len(order) > 1)
        sentence = f"extreme response{plural} in row{plural} {few_names(names)}, {test}"
        remedy = f"check the row{plural}"
        if two_values(fit.model) is None:
            remedy += f"; if correct, {heavier_tails(fit)}"
        verdict = Verdict.WARNING if smallest < STRONG else Verdict.NOTE
        return self.report(sentence, verdict, remedy, rows=names, p_value=smallest)


def surprise(fit: Fit) -> Array:
    """Return the probability of a response at least as extreme as the observed one, (n,)."""
    likelihood = fit.model.likelihood
    rows = np.arange(fit.model.design.n)
    if not isinstance(likelihood, UnivariateLikelihood):
        p = likelihood.mean(predictor(fit), **fit.aux_of_rows)
        if isinstance(likelihood, OfTrials):
            return _of_counts(likelihood.tally(fit.model.design.observed), p)
        observed_probability = p[rows, fit.model.design.observed.astype(int)]
        return np.where(p <= observed_probability[:, None] * (1 + 1e-12), p, 0.0).sum(1)
    if (
        likelihood.least_squares
        and fit.model.noise_unknown
        and fit.model.joint.gaussian
    ):
        pieces = fit.once(local)
        with np.errstate(all="ignore"):  # 0 / 0 where no degree of freedom is left
            r = np.sqrt(pieces.influence.internal[0]) / pieces.influence.sigma[0]
        assert pieces.df is not None
        return 2.0 * stdtr(pieces.df - 1.0, -np.nan_to_num(r))
    upper, below = tails(fit, rows)
    return np.minimum(2.0 * np.minimum(upper, 1.0 - below), 1.0)


def _of_counts(y: Array, p: Array) -> Array:
    """K times the least of 2 min(P(Y_k <= y_k), P(Y_k >= y_k)) over the classes, each of which is binomial (Bonferroni)."""
    n = y.sum(1, keepdims=True)
    upto, below = (
        betainc(np.maximum(n - k, 1e-300), np.maximum(k, 0.0) + 1.0, 1.0 - p)
        for k in (y, y - 1.0)
    )
    upto = np.where(y >= n, 1.0, upto)
    below = np.where(y <= 0, 0.0, below)
    return np.minimum(2.0 * y.shape[1] * np.minimum(upto, 1.0 - below).min(1), 1.0)
