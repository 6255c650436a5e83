"""Does a residual tell of the next one, when rows stand in the order of time?"""

from typing import ClassVar, NamedTuple

import numpy as np
from scipy.special import chdtrc, ndtr

from probreg.check.base import Finding
from probreg.diagnose.base import DIAGNOSTICS, Diagnostic
from probreg.diagnose.observed import uncounted
from probreg.diagnose.residuals import residuals
from probreg.errors import DataError
from probreg.fit import Fit
from probreg.likelihoods import Gaussian, OrderedLikelihood, SmoothLikelihood

Array = np.ndarray
_EXACT = 400  # rows up to which the eigenvalues behind the exact distribution are found


class Serial(NamedTuple):
    """A statistic with its two-sided p-value, and how that was found."""

    statistic: float
    p_value: float
    how: str


@DIAGNOSTICS.register
class AutocorrelationDiagnostic(Diagnostic):
    """Durbin-Watson for least squares with an intercept, Ljung-Box over min(10, n/5) lags of the Pearson residuals.

    Only for rows in the order of time, or along a line, does the answer mean anything.

    >>> import probreg as pr
    >>> x = np.arange(40.0)
    >>> fit = pr.fit(pr.Model.from_arrays(x, x + np.sin(x / 4)))
    >>> AutocorrelationDiagnostic().run(fit)[0].verdict.name
    'WARNING'
    """

    name: ClassVar[str] = "autocorrelation"
    question: ClassVar[str] = "Are neighbouring rows independent?"
    when: ClassVar[str] = "ordered responses, rows without weights, in order of time"
    picture: ClassVar[str] = "plot.autocorrelation"

    def applies(self, fit: Fit) -> str | None:
        likelihood, design = fit.model.likelihood, fit.model.design
        if design.weights is not None:
            return "rows that stand for several observations have no order in time"
        if not isinstance(likelihood, OrderedLikelihood):
            return "classes have no single residual"
        if not isinstance(likelihood, SmoothLikelihood):
            return "this likelihood has no Pearson residual"
        return uncounted(fit, least=12)

    def run(self, fit: Fit) -> list[Finding]:
        e, lags = residuals(fit, "pearson").values, min(10, fit.model.design.n // 5)
        box = ljung_box(e, lags)
        out = self._judged(f"Ljung-Box chi2({lags})", box, _correlation(e))
        if isinstance(fit.model.likelihood, Gaussian) and fit.model.flat and fit.model.design.intercept is not None:
            out = self._judged("Durbin-Watson d", durbin_watson_test(fit), _correlation(e)) + out
        return out

    def _judged(self, name: str, test: Serial, first: float) -> list[Finding]:
        tell = "tell of the next one" if test.p_value < 0.01 else "do not tell of the next one"
        sentence = f"residuals {tell}: correlation {first:.2g}, {name} = {test.statistic:.3g}, p = {test.p_value:.2g}{test.how}"
        remedy = "if rows are in the order of time: add lags, a trend or seasons, or use HAC standard errors"
        return self.judged(sentence, remedy, statistic=test.statistic, p_value=test.p_value)


def autocorrelations(e: Array, lags: int) -> Array:
    """r_1 ... r_lags with r_k = sum_t c_t c_{t-k} / sum_t c_t^2 of the centred values c.

    >>> autocorrelations(np.array([1.0, -1.0, 1.0, -1.0]), 2)
    array([-0.75,  0.5 ])
    """
    if not 1 <= lags < len(e):
        raise DataError(f"autocorrelations of {len(e)} values go up to lag {len(e) - 1}, got lags={lags}")
    c = e - e.mean()
    return np.array([c[k:] @ c[:-k] for k in range(1, lags + 1)]) / (c @ c)


def ljung_box(e: Array, lags: int) -> Serial:
    """n (n + 2) sum_k r_k^2 / (n - k), chi-square on `lags` degrees of freedom (Ljung & Box 1978).

    >>> round(ljung_box(np.array([1.0, 2.0, 1.0, 0.0, -1.0, -2.0]), 1).statistic, 4)
    2.601
    """
    n, k = len(e), np.arange(1, lags + 1)
    q = float(n * (n + 2.0) * np.sum(autocorrelations(e, lags) ** 2 / (n - k)))
    return Serial(q, float(chdtrc(lags, q)), "")


def durbin_watson(e: Array) -> float:
    """d = sum_t (e_t - e_{t-1})^2 / sum_t e_t^2, near 2 without autocorrelation, 2 (1 - r_1) about.

    >>> durbin_watson(np.array([1.0, -1.0, 1.0, -1.0]))
    3.0
    """
    return float(np.sum(np.diff(e) ** 2) / np.sum(e**2))


def durbin_watson_test(fit: Fit) -> Serial:
    """d of least squares with its two-sided p-value under normal noise: exact up to 400 rows, by the inversion of Imhof
    (1961) on the eigenvalues that these columns give; above, the normal distribution with the exact mean and variance."""
    design = fit.model.design
    e = residuals(fit).values
    d = durbin_watson(e)
    kept = list(design.moments.rank.kept)
    U = (design.basis.rows(design.X) if design.basis.intercept in kept else design.X)[:, kept]
    if len(e) <= _EXACT:
        N = np.linalg.qr(U, mode="complete")[0][:, len(kept) :]
        below = _below_zero(np.linalg.eigvalsh(np.diff(N, axis=0).T @ np.diff(N, axis=0)) - d)
        how = ", exact"
    else:
        mean, variance = _moments(np.linalg.qr(U)[0])
        below, how = float(ndtr((d - mean) / np.sqrt(variance))), ", normal approximation"
    return Serial(d, min(1.0, 2.0 * min(below, 1.0 - below)), how)


def _moments(Q: Array) -> tuple[float, float]:
    """Mean and variance of d for the orthonormal columns Q (Durbin & Watson 1951)."""
    n, k = Q.shape
    AQ = _differenced(Q)
    B = Q.T @ AQ
    P = 2.0 * (n - 1) - np.trace(B)
    S = 2.0 * (3 * n - 4) - 2.0 * np.sum(AQ**2) + np.sum(B**2)
    mean = P / (n - k)
    return mean, 2.0 * (S - P * mean) / ((n - k) * (n - k + 2.0))


def _differenced(Q: Array) -> Array:
    """A Q, with e'Ae the sum of squared differences."""
    D = np.diff(Q, axis=0)
    return np.concatenate([-D[:1], D[:-1] - D[1:], D[-1:]])


def _below_zero(weights: Array) -> float:
    """P(sum_j weights_j z_j^2 < 0) for independent standard normal z (Imhof 1961)."""
    from scipy.integrate import quad

    a = weights / np.abs(weights).max()

    def integrand(u: float) -> float:
        theta = 0.5 * np.arctan(a * u).sum()
        return float(np.sin(theta) / u * np.exp(-0.25 * np.log1p((a * u) ** 2).sum()))

    integral = quad(integrand, 0.0, np.inf, limit=400, epsabs=1e-12, epsrel=1e-10)[0]
    return float(np.clip(0.5 - integral / np.pi, 0.0, 1.0))


def _correlation(e: Array) -> float:
    return float(autocorrelations(e, 1)[0])
