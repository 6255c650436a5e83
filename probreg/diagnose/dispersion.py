"""Does the response vary as much as its mean says?"""

from typing import ClassVar, NamedTuple

import numpy as np
from scipy.special import chdtr, chdtrc, ndtr

from probreg.check.base import Finding
from probreg.diagnose.base import DIAGNOSTICS, Diagnostic
from probreg.diagnose.local import local, obstacle
from probreg.diagnose.observed import uncounted
from probreg.diagnose.residuals import predictor
from probreg.fit import Fit
from probreg.likelihoods import Bernoulli, ExponentialFamily, Gaussian

Array = np.ndarray
_TRIALS = 5.0  # per group of equal rows, on average, for a chi-square distribution


class Dispersion(NamedTuple):
    """The ratio of observed to expected variance, a statistic for it, and its two-sided p-value."""

    ratio: float
    name: str
    statistic: float
    p_value: float


@DIAGNOSTICS.register
class DispersionDiagnostic(Diagnostic):
    """Counts: the score test against a variance mu + phi mu^2 (Dean & Lawless 1989), which holds for small means too.
    Two levels: Pearson's statistic of rows with equal columns taken together, when there are several in a group.

    >>> import probreg as pr
    >>> counts = {"y": [0, 0, 12, 1, 15, 0, 9, 0, 2, 20, 0, 0, 7, 1, 0, 18, 3, 0, 0, 11]}
    >>> fit = pr.fit(pr.Model.from_formula("y ~ 1", counts, likelihood="poisson"))
    >>> DispersionDiagnostic().run(fit)[0].verdict.name
    'WARNING'
    """

    name: ClassVar[str] = "dispersion"
    question: ClassVar[str] = "Does the response vary as much as its mean says?"
    when: ClassVar[str] = "counts; two levels with several trials per group of equal rows"
    picture: ClassVar[str] = "plot.scale_location"

    def applies(self, fit: Fit) -> str | None:
        likelihood = fit.model.likelihood
        if isinstance(likelihood, Gaussian) or not isinstance(likelihood, ExponentialFamily):
            return f"the mean of a {likelihood.name} response says nothing of its variance"
        if (why := obstacle(fit) or uncounted(fit)) is not None:
            return why
        if isinstance(likelihood, Bernoulli):
            n = grouped(fit)[0]
            if n.mean() < _TRIALS or len(n) <= fit.model.shape[0]:
                return "two levels vary as their mean says unless there are several trials with equal columns"
        return None

    def run(self, fit: Fit) -> list[Finding]:
        test = grouped_dispersion(fit) if isinstance(fit.model.likelihood, Bernoulli) else count_dispersion(fit)
        how = "more" if test.ratio > 1 else "less"
        said = f"{how} than" if test.p_value < 0.01 else "as"
        sentence = (
            f"the response varies {said} its mean says: ratio {test.ratio:.3g}, {test.name} = {test.statistic:.3g}, "
            f"p = {test.p_value:.2g}"
        )
        remedy = (
            f"standard errors are {np.sqrt(test.ratio):.2g} times as large when the ratio is taken for true; use robust "
            "ones (HC1), or look for a missing column"
        )
        return self.judged(sentence, remedy, statistic=test.statistic, p_value=test.p_value)


def count_dispersion(fit: Fit) -> Dispersion:
    """T = sum_i [(y - mu)^2 - (1 - h) V(mu)] / sqrt(2 sum_i V(mu)^2), standard normal under the model, with leverages h;
    the ratio is Pearson's chi-square over n - k."""
    found, likelihood = local(fit), fit.model.likelihood
    assert isinstance(likelihood, ExponentialFamily)
    mu = likelihood.mean(found.eta)
    v, w = likelihood.variance(mu), found.w
    excess = (fit.model.design.observed - mu) ** 2 - (1.0 - found.leverage) * v
    t = float(w @ excess / np.sqrt(2.0 * (w @ v**2)))
    ratio = float(w @ found.u[:, 0] ** 2) / (found.total - found.size)
    return Dispersion(ratio, "score z", t, float(2.0 * ndtr(-abs(t))))


def grouped(fit: Fit) -> tuple[Array, Array, Array]:
    """Trials, events and fitted probability of each set of rows with equal columns."""
    design, eta = fit.model.design, predictor(fit)
    rows = np.c_[design.X, np.zeros(design.n) if design.offset is None else design.offset]
    w = np.ones(design.n) if design.weights is None else design.weights
    _, first, group = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    group = group.ravel()
    n, s = np.bincount(group, w), np.bincount(group, w * design.observed)
    p = fit.model.likelihood.mean(eta[first])
    return n[n > 0], s[n > 0], p[n > 0]


def grouped_dispersion(fit: Fit) -> Dispersion:
    """X^2 = sum_g (s_g - n_g p_g)^2 / (n_g p_g (1 - p_g)), chi-square on groups - coefficients (McCullagh & Nelder 1989,
    section 4.5)."""
    n, s, p = grouped(fit)
    df = len(n) - local(fit).size
    x2 = float(np.sum((s - n * p) ** 2 / (n * p * (1.0 - p))))
    p_value = min(1.0, 2.0 * min(float(chdtr(df, x2)), float(chdtrc(df, x2))))
    return Dispersion(x2 / df, f"Pearson chi2({df:.4g})", x2, p_value)
