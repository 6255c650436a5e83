"""Number of zeros among counts, and the models with another number of zeros."""

import warnings
from dataclasses import replace
from functools import partial

import numpy as np

from probreg.diagnostics.after.base import DIAGNOSTICS, Diagnostic, require_counts
from probreg.diagnostics.after.fit_arrays import (
    FitArrays,
    arrays_of_fit,
    with_simulated_p,
)
from probreg.diagnostics.findings import (
    SIGNIFICANT,
    STRONG,
    Finding,
    NotApplicable,
    Verdict,
    normal_test,
)
from probreg.errors import ProbregError
from probreg.fits.fit import Fit, fit as fit_model
from probreg.fits.leave_out.rows import refit_rows
from probreg.inference import Newton
from probreg.likelihoods import (
    CountLikelihood,
    Hurdle,
    Likelihood,
    NegativeBinomial,
    ZeroInflated,
)
from probreg.system.progress import each_of

Array = np.ndarray


@DIAGNOSTICS.register
class ZerosDiagnostic(Diagnostic):
    """The number of zeros among counts against its expectation under the fit; the remedy has leave-one-out differences of other models.

    >>> import probreg as pr
    >>> y = np.r_[np.zeros(30), np.random.default_rng(0).poisson(4.0, 60)]
    >>> fit = pr.fit(pr.Model.from_formula("y ~ 1", {"y": y}, likelihood="poisson"))
    >>> ZerosDiagnostic().run(fit)[0].verdict.name
    'WARNING'
    """

    name = "zeros"
    title = "Zero inflation test"
    when = "counts"
    picture = "plot.rootogram"

    def find(self, fit: Fit) -> list[Finding]:
        if not isinstance(fit.model.likelihood, CountLikelihood):
            raise NotApplicable(
                f"the test is for Poisson and NegativeBinomial, and not for {fit.model.likelihood.named} likelihood"
            )
        require_counts(fit)
        pieces = fit.once(arrays_of_fit)
        zeros = float(pieces.w @ (pieces.y[0] == 0))
        surplus = float(zero_surplus(pieces)[0])
        z = surplus / _zero_error(pieces)
        test = normal_test(z)
        if not fit.model.unknown:
            test = with_simulated_p(fit, test, lambda d: np.abs(zero_surplus(d)))
        sentence = f"{zeros:g} zeros, {zeros - surplus:.3g} expected, {test}"
        verdict, remedy = Verdict.OK, ""
        if test.p_value < SIGNIFICANT:
            verdict = Verdict.WARNING if test.p_value < STRONG else Verdict.NOTE
            gains = _describe_gains(fit, more=surplus > 0)
            remedy = f"model the zeros, with leave-one-out differences from this fit: {gains}"
        return self.report(sentence, verdict, remedy, statistic=z, p_value=test.p_value)


def _log_zero(data_sets: FitArrays) -> Array:
    """log P(Y = 0) (S, n)."""
    zero = np.zeros(data_sets.eta.shape[1])
    return data_sets.likelihood.log_prob(zero, data_sets.eta, **data_sets.aux)


def zero_surplus(data_sets: FitArrays) -> Array:
    """The number of zeros minus its expectation, of each data set (S,)."""
    return ((data_sets.y == 0) - np.exp(_log_zero(data_sets))) @ data_sets.w


def _zero_error(pieces: FitArrays) -> float:
    """The standard error of `zero_surplus`: with p0 = P(Y = 0) and g the scores of a zero, Var = sum p0 (1 - p0) - c' I^-1 c,
    c = sum p0 g, because the parameters are estimated."""
    likelihood, eta, w = pieces.likelihood, pieces.eta[0], pieces.w
    p0 = np.exp(_log_zero(pieces)[0])
    g = likelihood.value_grad_hessian(np.zeros(len(eta)), eta, **pieces.aux).gradient
    Z = pieces.Z[:, 0]
    c = np.r_[(w * p0 * g[:, 0]) @ Z, (w * p0) @ g[:, 1:]]
    # the expected information of nuisance parameters is the mean of products of scores of simulated responses; the observed
    # one may leave no variance
    rng = np.random.default_rng(0)
    n_draws = 1
    if likelihood.nuisance:
        n_draws += 20_000 // len(eta)  # so that many scores in all
    products = np.zeros((len(eta), g.shape[1], g.shape[1] - 1))
    for _ in range(n_draws):
        y = likelihood.sample(rng, eta, **pieces.aux)
        u = likelihood.value_grad_hessian(y, eta, **pieces.aux).gradient
        products += u[:, :, None] * u[:, None, 1:] / n_draws
    cross = (w[:, None] * Z).T @ products[:, 0]
    among = np.tensordot(w, products[:, 1:], 1)
    information = np.block([[pieces.hat[0][0], cross], [cross.T, among]])
    variance = w @ (p0 * (1.0 - p0)) - c @ np.linalg.pinv(information) @ c
    return float(np.sqrt(max(variance, 1e-12)))


def _describe_gains(fit: Fit, *, more: bool) -> str:
    """Return models with another number of zeros, with their leave-one-out differences at modes of the same priors."""
    base = fit.model.likelihood
    others: list[Likelihood] = [Hurdle(base)]
    if more:
        others = [ZeroInflated(base), *others]
        if not base.nuisance:
            others.append(NegativeBinomial())
    elpd, *elpd_of_others = each_of(
        partial(_elpd, fit), [base, *others], "models of zeros"
    )
    gains = []
    for other, value in zip(others, elpd_of_others):
        gain = value - elpd
        error = np.sqrt(len(gain)) * gain.std()
        words = f"{gain.sum():+.1f} (SE {error:.1f})"
        gains.append(f"{other} {words if np.isfinite(error) else '(no estimate)'}")
    return "; ".join(gains)


def _elpd(fit: Fit, likelihood: Likelihood) -> Array:
    """Return the leave-one-out log densities with another likelihood; nan without an estimate."""
    model = replace(fit.model, likelihood=likelihood)
    method = fit.method if fit.target == "mode" else Newton()
    try:
        with warnings.catch_warnings(action="ignore"):
            mode = fit_model(model, method)
        # a nat in the sum is little next to a difference that matters
        return refit_rows(mode, refit_all=0, allowed=1.0).elpd
    except ProbregError:
        return np.full(1, np.nan)
