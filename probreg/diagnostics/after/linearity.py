"""Tests that smooth functions are linear, and whether their basis is large enough.

H0: tau = 0 in f = flat columns + Z u, u ~ N(0, tau^2 I). This is on the boundary of the parameter space, where -2 log of a
likelihood ratio is not chi-square. The scales of other smooth functions are taken as known, relative to sigma.
"""

from collections.abc import Sequence

import numpy as np

from probreg.data.formula.functions import TermFunction, term_functions
from probreg.diagnostics.after.base import DIAGNOSTICS, Diagnostic
from probreg.diagnostics.findings import (
    Finding,
    HypothesisTest,
    NotApplicable,
    Verdict,
)
from probreg.fits.fit import Fit, fit as fit_model
from probreg.inference.modes.newton_method import Newton
from probreg.inference.penalized.degrees import information_of
from probreg.inference.uncertainty.information import estimate_of
from probreg.likelihoods import SmoothLikelihood
from probreg.linalg import triangular
from probreg.linalg.vec import vec_entries
from probreg.model.model import Model
from probreg.priors import Flat, GaussianPrior, Normal
from probreg.priors.joint import mapping_of
from probreg.system.terminal import few_names, format_p

Array = np.ndarray
SIMULATED = 20_000  # draws of the statistic under the null: the least p is 5e-5
_RATIOS = 150  # values of tau^2 / sigma^2 among which the likelihood is maximised
_HELD = 1e-5  # of a standard error: a scale at which coefficients are zero to 1e-10
USED_UP = 0.95  # share of effective degrees of freedom above which a basis is too small


@DIAGNOSTICS.register
class LinearityDiagnostic(Diagnostic):
    """The test of tau = 0 for each smooth function, and a note if the basis of one is too small.

    >>> import probreg as pr
    >>> x = np.linspace(0.0, 6.0, 40)
    >>> fit = pr.fit(pr.Model.from_formula("y ~ s(x)", {"x": x, "y": np.sin(x) + 0.3 * np.cos(40.0 * x)}))
    >>> LinearityDiagnostic().run(fit)[0].sentence
    's(x): not linear (p = 5e-05)'
    """

    name = "linearity"
    title = "Linearity test of smooths"
    target = "mode"
    when = "formulas with smooth functions, at estimated or given scales"
    picture = "plot.smooth"

    def find(self, fit: Fit) -> list[Finding]:
        functions = term_functions(fit.model.design)
        if not functions:
            raise NotApplicable("the model has no smooth function")
        try:
            p = {f.label: linearity_test(fit, [f]).p_value for f in functions}
            sentence = _describe_p_values(p, functions)
            findings = self.report(sentence, p_value=min(p.values()))
        except NotApplicable as reason:
            findings = self.report(f"no test, because {reason}")
        table = fit.smooths
        full = table.index[table["edf"] > USED_UP * table["columns"]].tolist()
        if full and all(f.of.blocks for f in functions):
            edf = f"{table['edf'][full[0]]:.3g} of {table['columns'][full[0]]}"
            first = f" for {full[0]}" * (len(full) > 1)
            sentence = f"the basis of {few_names(full)} is too small: {edf} effective degrees of freedom{first}"
            remedy = "use a larger k, and check whether the function changes"
            findings += self.report(sentence, Verdict.NOTE, remedy)
        return findings


def _describe_p_values(p: dict[str, float], functions: Sequence[TermFunction]) -> str:
    null = "linear"
    if not all(f.of.flat for f in functions):
        null = "constant"
        if any(f.of.flat for f in functions):
            null = "in the span of its flat columns"
    parts = []
    for names, verb, worst in (
        ([n for n in p if p[n] < 0.05], "not ", max),
        ([n for n in p if not p[n] < 0.05], "compatible with ", min),
    ):
        if names:
            value = format_p(worst(p[n] for n in names))
            parts.append(f"{few_names(names)}: {verb}{null} ({value})")
    return "; ".join(parts)


# ---- the tests -----------------------------------------------------------------------------------------------------------


def require_linearity_test(fit: Fit, functions: Sequence[TermFunction]) -> None:
    """Raise NotApplicable if there is no test that these functions are straight lines."""
    model = fit.model
    s = fit.solution
    likelihood = model.likelihood
    if fit.target != "mode" or s.draws is not None:
        raise NotApplicable("it needs a point estimate: fit by evidence")
    if any(not isinstance(b.prior, Flat | GaussianPrior) for b in model.joint.blocks):
        raise NotApplicable("it needs normal priors with given or estimated scales")
    if not isinstance(likelihood, SmoothLikelihood):
        raise NotApplicable(f"it needs a smooth likelihood, not {likelihood.name}")
    if not (likelihood.least_squares or model.design.n):
        raise NotApplicable(f"it needs the rows, and {model.design.rows_absent}")
    if not np.isfinite(s.beta).all() or s.null_space is not None:
        raise NotApplicable("the coefficients are not all identified")
    if not all(f.of.blocks for f in functions):
        raise NotApplicable("a function has no range block")
    if likelihood.least_squares and _degrees_left(fit, functions) < 1:
        raise NotApplicable("no degrees of freedom are left for sigma")


def linearity_test(fit: Fit, functions: Sequence[TermFunction]) -> HypothesisTest:
    """Test that the range blocks of these functions are zero, together.

    For a Gaussian likelihood it is the restricted likelihood ratio of tau = 0 against a common tau > 0, with its exact finite-sample
    distribution (Crainiceanu & Ruppert 2004). For others it is the same ratio for the normal distribution of the scores at the fit
    without the blocks (Zhang & Lin 2003 for these scores). NotApplicable if there is no test.
    """
    require_linearity_test(fit, functions)
    rng = np.random.default_rng(0)
    if fit.model.likelihood.least_squares:
        return _restricted_ratio(fit, functions, rng)
    return _score_test(fit, functions, rng)


def _range_columns(fit: Fit, functions: Sequence[TermFunction]) -> Array:
    """The columns of the range blocks."""
    number = {name: j for j, name in enumerate(fit.model.design.columns)}
    return np.array(
        [number[c] for f in functions for block in f.of.blocks for c in block]
    )


def _degrees_left(fit: Fit, functions: Sequence[TermFunction]) -> float:
    """n - flat columns - columns of the blocks."""
    flat = int((~fit.model.joint.informative).sum())
    weight = float(fit.model.design.moments.weight)
    return weight - flat - len(_range_columns(fit, functions))


def _restricted_ratio(
    fit: Fit, functions: Sequence[TermFunction], rng: np.random.Generator
) -> HypothesisTest:
    """RLRT = sup over lam of (n - p) log(D(0) / D(lam)) - sum_s log(1 + lam mu_s), D(lam) = sum_s w_s^2 / (1 + lam mu_s) + r.

    mu are the eigenvalues of Z'P Z, w the coordinates of y on their axes, r the remaining sum of squares, and P the projection off the other
    columns; under the null w_s^2 / sigma^2 ~ chi2(1), r / sigma^2 ~ chi2(n - p - K), all independent.
    """
    model = fit.model
    Z = _range_columns(fit, functions)
    p = model.shape[0]
    others = np.setdiff1d(np.arange(p), Z)
    sigma = model.noise(fit.aux)
    F = np.asarray(model.design.moments.factor, dtype=float)
    # sigma^2 times the precision of other blocks is a constant under the null: rows that are added, so that y'P y is their RSS.
    L, U = np.linalg.eigh(model.joint.precision(sigma)[np.ix_(others, others)])
    rows = np.zeros((len(others), p + 1))
    rows[:, others] = sigma * np.sqrt(np.maximum(L, 0.0))[:, None] * U.T
    order = [*others, *Z, p]
    T = np.asarray(triangular(np.vstack([F, rows])[:, order]), dtype=float)
    # T_zz L = U diag(sqrt mu) V': w = U' T_zy.
    z = slice(len(others), p)
    axes, size, _ = np.linalg.svd(T[z, z] * _shape(fit, Z))
    mu = size**2
    w2 = np.square(axes.T @ T[z, p])
    keep = mu > 1e-12 * mu[0]
    mu = mu[keep]
    df = _degrees_left(fit, functions) + (~keep).sum()
    ratios = np.geomspace(1e-2 / mu[0], 1e4 / mu[-1], _RATIOS)
    shrunk = 1.0 / (1.0 + np.outer(mu, ratios))

    def ratio(w2: Array, residual: Array) -> Array:
        """The largest restricted log-likelihood ratio, twice, for each row of w2 (S, K) and residual (S,)."""
        D = w2 @ shrunk + residual[:, None]
        D0 = w2.sum(1) + residual
        value = (df + len(mu)) * (np.log(D0)[:, None] - np.log(D))
        return np.maximum((value + np.log(shrunk).sum(0)).max(1), 0.0)

    observed = ratio(w2[None, keep], np.array([T[p, p] ** 2]))[0]
    simulated = rng.chisquare(1.0, (SIMULATED, len(mu)))
    null = ratio(simulated, rng.chisquare(df, SIMULATED))
    return HypothesisTest("RLRT", float(observed), _p_value(null, observed))


def _shape(fit: Fit, Z: Array) -> Array:
    """The diagonal (K,) of L with u = tau L v, v ~ N(0, I): each block's prior up to its scale, 1 except for sines of a process."""
    scales = np.ones(fit.model.shape[0])
    for block in fit.model.joint.blocks:
        if isinstance(block.prior, GaussianPrior):
            sd = block.prior.independent(len(block.columns))
            if sd is not None and np.isfinite(sd).all() and sd.max() > 0:
                scales[list(block.columns)] = sd / sd.max()
    return scales[Z]


def _score_test(
    fit: Fit, functions: Sequence[TermFunction], rng: np.random.Generator
) -> HypothesisTest:
    """The likelihood ratio of tau = 0 for the normal distribution of Z's, s the scores of the rows at the fit without the blocks.

    Z's ~ N(0, B + tau^2 B B) with B = J_zz - J_zo (J_oo + P_oo)^-1 J_oz: on the axes of B, of eigenvalues mu, w_s^2 / (1 + tau^2
    mu_s) ~ chi2(1). J is the expected information, o the other columns and P their prior's precision.
    """
    model = _without(fit, functions)
    Z = _range_columns(fit, functions)
    null_fit = fit_model(model, Newton())
    m = model.shape[1]
    estimate = estimate_of(model, null_fit.solution, "a score test", in_memory=True)
    scores = estimate.scores[:, :m] * estimate.weights[:, None]
    beta = null_fit.solution.beta
    aux = null_fit.solution.aux
    J = information_of(model, beta, None, **aux)
    P = model.joint.curvature(beta, model.noise(aux))
    z = vec_entries(tuple(Z), m)
    o = vec_entries(tuple(np.setdiff1d(np.arange(model.shape[0]), Z)), m)
    inner = J[np.ix_(o, o)] + P[np.ix_(o, o)]
    B = J[np.ix_(z, z)] - J[np.ix_(z, o)] @ np.linalg.solve(inner, J[np.ix_(o, z)])
    L = np.repeat(_shape(fit, Z), m)
    g = L * (model.design.X[:, Z].T @ scores).ravel()
    mu, V = np.linalg.eigh(L[:, None] * B * L)
    keep = mu > 1e-12 * mu[-1]
    mu = mu[keep]
    w2 = np.square(V[:, keep].T @ g) / mu
    shrunk = 1.0 / (
        1.0 + np.outer(mu, np.geomspace(1e-2 / mu[-1], 1e4 / mu[0], _RATIOS))
    )

    def ratio(w2: Array) -> Array:
        """sup over lam >= 0 of sum_s w_s^2 lam mu_s / (1 + lam mu_s) - log(1 + lam mu_s), for each row of w2 (S, K)."""
        value = w2 @ (1.0 - shrunk) + np.log(shrunk).sum(0)
        return np.maximum(value.max(1), 0.0)

    observed = ratio(w2[None])[0]
    null = ratio(rng.chisquare(1.0, (SIMULATED, len(mu))))
    return HypothesisTest("score", float(observed), _p_value(null, observed))


def _without(fit: Fit, functions: Sequence[TermFunction]) -> Model:
    """Return the model with the tested blocks fixed at zero, by scales of 1e-5 of the smallest standard error."""
    model = fit.model
    Z = _range_columns(fit, functions)
    columns = fit.model.design.columns
    J = information_of(model, fit.solution.beta, None, **fit.solution.aux)
    tested = set(Z.tolist())
    blocks = [b for b in model.joint.blocks if b.stated and not set(b.columns) & tested]
    prior = mapping_of(blocks, columns)
    scale = _HELD / float(np.sqrt(np.diagonal(J).max()))
    prior[tuple(columns[j] for j in Z)] = Normal(scale)
    return model.with_prior(prior)


def _p_value(null: Array, observed: float) -> float:
    """(1 + number of draws at least as large) / (1 + draws): the p-value from simulated data, never zero."""
    return float((1 + (null >= observed - 1e-12).sum()) / (1 + len(null)))
