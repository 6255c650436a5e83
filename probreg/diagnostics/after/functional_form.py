"""Tests of the functional form: RESET by added variables, and linearity of smooth functions.

A smooth function is f = flat columns + Z u with u ~ N(0, tau^2 I); its test has the null hypothesis tau = 0, on the boundary of the parameter space, where -2 log of a
likelihood ratio is not chi-square. The scales of other smooth functions are taken as known, relative to sigma.
"""

from collections.abc import Sequence

import numpy as np
from scipy.special import fdtrc

from probreg.data.formula.functions import TermFunction, term_functions
from probreg.diagnostics.after.base import (
    DIAGNOSTICS,
    Diagnostic,
    require_counts,
)
from probreg.diagnostics.after.fit_arrays import (
    FitArrays,
    arrays_of_fit,
    with_simulated_p,
)
from probreg.diagnostics.findings import (
    Finding,
    HypothesisTest,
    NotApplicable,
    Verdict,
    chi2_test,
)
from probreg.fits.fit import Fit, fit as fit_model
from probreg.inference.modes.newton_method import Newton
from probreg.inference.penalized.degrees import information_of
from probreg.inference.uncertainty.information import estimate_of
from probreg.likelihoods import SmoothLikelihood
from probreg.linalg import root_of_square, triangular
from probreg.linalg.vec import vec_entries
from probreg.model.model import Model
from probreg.priors import Flat, GaussianPrior, Normal
from probreg.priors.joint import mapping_of
from probreg.system.terminal import few_names, format_number, format_p

Array = np.ndarray


@DIAGNOSTICS.register
class ResetDiagnostic(Diagnostic):
    """RESET: squares and cubes of the fitted linear predictor as added columns (Ramsey 1969; Pregibon 1980 for generalised
    linear models), by the F test for least squares and the efficient score test otherwise. With few rows the p-value of a
    score test is simulated from the fitted model.

    >>> import probreg as pr
    >>> x = np.linspace(0.0, 3.0, 40)
    >>> fit = pr.fit(pr.Model.from_arrays(x, np.exp(x) + np.sin(40 * x)))
    >>> ResetDiagnostic().run(fit)[0].verdict.name
    'WARNING'
    """

    name = "reset"
    title = "RESET test"
    when = "flat or normal priors"
    picture = "plot.diagnose"

    def find(self, fit: Fit) -> list[Finding]:
        require_counts(fit)
        test = reset(fit)
        if test is None:
            return self.report(
                "powers of the linear predictor are combinations of the columns"
            )
        accepted = "no sign of a wrong functional form"
        rejected = "the functional form may be wrong"
        remedy = "add squares, splines (bs) or interactions, transform a column, or change the link"
        return self.report_test(test, accepted, rejected, remedy)


def reset(fit: Fit) -> HypothesisTest | None:
    """Test eta^2 and eta^3 as added columns, for a softmax the powers of each predictor in that predictor.

    Return None if they are linear combinations of the columns."""
    # H0: c = 0 in eta = X beta + sum_q c_q eta_hat^q, q = 2, 3   (Ramsey 1969).
    centred = fit.model.design.intercept is not None

    pieces = fit.once(arrays_of_fit)

    def test_powers(data_sets: FitArrays) -> tuple[Array, Array]:
        columns = powers(data_sets.eta, data_sets.w, 3, centred)
        return score_statistic(data_sets, columns)

    gains, ranks = test_powers(pieces)
    gain, q = float(gains[0]), int(ranks[0])
    if not q:
        return None
    if pieces.df is None:
        return with_simulated_p(
            fit, chi2_test(gain, q), lambda data_sets: test_powers(data_sets)[0]
        )
    df = pieces.df - q
    if df <= 0:
        return None
    total = float(pieces.w @ pieces.scores.u[0, :, 0] ** 2)
    f = (gain / q) / ((total - gain) / df)
    p = float(fdtrc(q, df, f))
    return HypothesisTest(f"F({q}, {format_number(df, 4)})", f, p)


def score_statistic(data_sets: FitArrays, G: Array) -> tuple[Array, Array]:
    """Score test (S,) of coefficients 0 for added columns G (S, n, m, q), and the rank (S,) of their information beyond Z.

    b'M^-1 b with b = G's - G'WZ (Z'WZ)^-1 Z's and M = G'WG - G'WZ (Z'WZ)^-1 Z'WG is chi-square on the rank of M (Rao 1948;
    Neyman's C(alpha) at an estimate that is not a maximum). For least squares it is the reduction of the residual squares.
    """
    w = data_sets.w
    W = w[:, None, None] * data_sets.W
    s = w[:, None] * data_sets.score
    WG = np.einsum("snab,snbq->snaq", W, G, optimize=True)
    C = np.einsum("nak,snaq->skq", data_sets.Z, WG, optimize=True)
    WZ = np.einsum("snab,nbk->snak", W, data_sets.Z, optimize=True)
    curvature = np.einsum("nak,snal->skl", data_sets.Z, WZ, optimize=True)
    inside = np.linalg.pinv(curvature, hermitian=True)
    Zs = np.einsum("nak,sna->sk", data_sets.Z, s, optimize=True)
    gram = np.einsum("snaq,snar->sqr", G, WG, optimize=True)
    M = gram - np.einsum("skq,skl,slr->sqr", C, inside, C, optimize=True)
    b = np.einsum("snaq,sna->sq", G, s, optimize=True) - np.einsum(
        "skq,skl,sl->sq", C, inside, Zs, optimize=True
    )
    size = np.sqrt(np.maximum(np.einsum("sqq->sq", gram), np.finfo(float).tiny))
    value, vector = np.linalg.eigh(M / size[:, :, None] / size[:, None, :])
    projection = np.einsum("sqr,sq->sr", vector, b / size)
    # squared share of a column's length that remains after projection; less is rounding
    adds = value > 1e-14
    with np.errstate(all="ignore"):  # directions that the columns span already
        statistic = np.where(adds, projection**2 / value, 0.0).sum(1)
    return statistic, adds.sum(1)


def powers(eta: Array, w: Array, power: int, centred: bool) -> Array:
    """Return powers 2 ... `power` of the predictors eta (..., n, m), each in its own predictor: (..., n, m, m (power - 1)).

    They are centred and scaled over the observations, with frequencies w (n,), because with an offset eta is not a combination
    of the columns, and its square depends on the centre.
    """
    # eta - sum_i w_i eta_i / sum_i w_i, over its standard deviation
    c = eta - (w @ eta / w.sum())[..., None, :] * centred
    size = np.sqrt(w @ c**2 / w.sum())[..., None, :]
    eta = c / np.where(size > 0, size, 1.0)
    m = eta.shape[-1]
    return np.concatenate(
        [eta[..., None] ** q * np.eye(m) for q in range(2, power + 1)], -1
    )


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
        used_up = 0.95  # share of effective degrees of freedom above which a basis is too small
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
        full = table.index[table["edf"] > used_up * table["columns"]].tolist()
        if full and all(f.of.blocks for f in functions):
            edf = f"{table['edf'][full[0]]:.3g} of {table['columns'][full[0]]}"
            first = f" for {full[0]}" * (len(full) > 1)
            sentence = f"the basis of {few_names(full)} is too small: {edf} effective degrees of freedom{first}"
            remedy = "use a larger k, and check whether the function changes"
            findings += self.report(sentence, Verdict.NOTE, remedy)
        return findings


def _describe_p_values(p: dict[str, float], functions: Sequence[TermFunction]) -> str:
    flat = [bool(f.of.flat) for f in functions]
    null = "linear"
    if not all(flat):
        null = "in the span of its flat columns" if any(flat) else "constant"
    verbs = {name: "not" if p[name] < 0.05 else "compatible with" for name in p}
    return few_names([f"{n}: {verbs[n]} {null} ({format_p(p[n])})" for n in p])


# ---- the tests -----------------------------------------------------------------------------------------------------------


def require_linearity_test(fit: Fit, functions: Sequence[TermFunction]) -> None:
    """Raise NotApplicable if there is no test that these functions are straight lines."""
    model = fit.model
    s = fit.solution
    likelihood = model.likelihood
    if fit.target != "mode" or s.draws is not None:
        raise NotApplicable(
            "a test of linearity needs a point estimate: fit by evidence"
        )
    if any(not isinstance(b.prior, Flat | GaussianPrior) for b in model.joint.blocks):
        raise NotApplicable(
            "a test of linearity needs normal priors with given or estimated scales"
        )
    if not isinstance(likelihood, SmoothLikelihood):
        raise NotApplicable(
            f"a test of linearity needs a smooth likelihood, not {likelihood.name}"
        )
    if not (likelihood.least_squares or model.design.n):
        raise NotApplicable(
            f"a test of linearity needs the rows, and {model.design.rows_absent}"
        )
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
    if fit.model.likelihood.least_squares:
        return _restricted_ratio(fit, functions)
    return _score_test(fit, functions)


def _range_columns(fit: Fit, functions: Sequence[TermFunction]) -> Array:
    """The columns of the range blocks."""
    number = {name: j for j, name in enumerate(fit.model.design.columns)}
    return np.array(
        [number[c] for f in functions for block in f.of.blocks for c in block]
    )


def _degrees_left(fit: Fit, functions: Sequence[TermFunction]) -> float:
    """n - flat columns - columns of the blocks."""
    flat = int((~fit.model.joint.informative).sum())
    weight = fit.model.design.moments.weight
    return weight - flat - len(_range_columns(fit, functions))


def _restricted_ratio(fit: Fit, functions: Sequence[TermFunction]) -> HypothesisTest:
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
    root = root_of_square(model.joint.precision(sigma)[np.ix_(others, others)])
    rows = np.zeros((root.shape[1], p + 1))
    rows[:, others] = sigma * root.T
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
    return _ratio_test("RLRT", mu, w2[keep], T[p, p] ** 2, df)


def _ratio_test(
    name: str,
    mu: Array,
    w2: Array,
    residual: float = 0.0,
    df: float | None = None,
) -> HypothesisTest:
    """Maximise twice the log-likelihood ratio over lam >= 0, and simulate it under the null, where w_s^2 / sigma^2 ~ chi2(1).

    It is sum_s w_s^2 lam mu_s / (1 + lam mu_s) - log(1 + lam mu_s) for sigma = 1, and the restricted ratio for the residual sum
    of squares on `df` degrees of freedom. The p-value is (1 + number of draws at least as large) / (1 + draws), never zero.
    """
    n_ratios = 150  # values of tau^2 / sigma^2 among which the likelihood is maximised
    n_draws = 20_000  # draws of the statistic under the null: the least p is 5e-5
    ratios = np.geomspace(1e-2 / mu.max(), 1e4 / mu.min(), n_ratios)
    shrunk = 1.0 / (1.0 + np.outer(mu, ratios))

    def maximum(w2: Array, residual: Array) -> Array:
        if df is None:
            value = w2 @ (1.0 - shrunk)
        else:
            D = w2 @ shrunk + residual[:, None]
            D0 = w2.sum(1) + residual
            value = (df + len(mu)) * (np.log(D0)[:, None] - np.log(D))
        return np.maximum((value + np.log(shrunk).sum(0)).max(1), 0.0)

    observed = maximum(w2[None], np.array([residual]))[0]
    rng = np.random.default_rng(0)
    simulated = rng.chisquare(1.0, (n_draws, len(mu)))
    null = maximum(simulated, rng.chisquare(df or 1.0, n_draws))
    p = (1 + (null >= observed - 1e-12).sum()) / (1 + len(null))
    return HypothesisTest(name, float(observed), float(p))


def _shape(fit: Fit, Z: Array) -> Array:
    """The diagonal (K,) of L with u = tau L v, v ~ N(0, I): each block's prior up to its scale, 1 except for sines of a process."""
    scales = np.ones(fit.model.shape[0])
    for block in fit.model.joint.blocks:
        if isinstance(block.prior, GaussianPrior):
            sd = block.prior.independent(len(block.columns))
            if sd is not None and np.isfinite(sd).all() and sd.max() > 0:
                scales[list(block.columns)] = sd / sd.max()
    return scales[Z]


def _score_test(fit: Fit, functions: Sequence[TermFunction]) -> HypothesisTest:
    """The likelihood ratio of tau = 0 for the normal distribution of Z's, s the scores of the rows at the fit without the blocks.

    Z's ~ N(0, B + tau^2 B B) with B = J_zz - J_zo (J_oo + P_oo)^-1 J_oz: on the axes of B, of eigenvalues mu, w_s^2 / (1 + tau^2
    mu_s) ~ chi2(1). J is the information of the likelihood, o the other columns and P their prior's precision.
    """
    model = _without(fit, functions)
    Z = _range_columns(fit, functions)
    null_fit = fit_model(model, Newton())
    m = model.shape[1]
    estimate = estimate_of(model, null_fit.solution, "a score test", in_memory=True)
    scores = estimate.scores[:, : model.likelihood.width] * estimate.weights[:, None]
    slopes = model.design.X[:, Z].T @ scores
    if model.design.owner is not None:  # each column is in one linear predictor
        slopes = np.take_along_axis(slopes, model.design.owner[Z, None], 1)
    beta = null_fit.solution.beta
    aux = null_fit.solution.aux
    P = model.joint.curvature(beta, model.noise(aux))
    if model.design.owner is None:
        J = information_of(model, beta, None, **aux)
    else:  # the observed one: the expected one is approximate for several parameters
        H = model.value_grad_hessian(beta, **aux).curvature
        J = H[: beta.size, : beta.size] - P
    z = vec_entries(tuple(Z), m)
    o = vec_entries(tuple(np.setdiff1d(np.arange(model.shape[0]), Z)), m)
    inner = J[np.ix_(o, o)] + P[np.ix_(o, o)]
    B = J[np.ix_(z, z)] - J[np.ix_(z, o)] @ np.linalg.solve(inner, J[np.ix_(o, z)])
    L = np.repeat(_shape(fit, Z), m)
    g = L * slopes.ravel()
    mu, V = np.linalg.eigh(L[:, None] * B * L)
    keep = mu > 1e-12 * mu[-1]
    mu = mu[keep]
    w2 = np.square(V[:, keep].T @ g) / mu
    return _ratio_test("score", mu, w2)


def _without(fit: Fit, functions: Sequence[TermFunction]) -> Model:
    """Return the model with the tested blocks fixed at zero, by scales of 1e-5 of the smallest standard error."""
    share = 1e-5  # of a standard error: at this scale coefficients are zero to 1e-10
    model = fit.model
    Z = _range_columns(fit, functions)
    columns = fit.model.design.columns
    J = information_of(model, fit.solution.beta, None, **fit.solution.aux)
    tested = set(Z.tolist())
    blocks = [b for b in model.joint.blocks if b.stated and not set(b.columns) & tested]
    prior = mapping_of(blocks, columns)
    scale = share / float(np.sqrt(np.diagonal(J).max()))
    prior[tuple(columns[j] for j in Z)] = Normal(scale)
    return model.with_prior(prior)
