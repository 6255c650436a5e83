"""Laws of evidence: its slopes, its maximum, what it says and refuses. It estimates the scales of a prior, so that what it
fits is another model than the one it was given: the laws of modes and draws hold for that one."""

import itertools
from typing import Any

import numpy as np
import pytest

import probreg as pr
from probreg.inference import Evidence
from probreg.inference.exact.evidence_problem import EvidenceProblem
from probreg.inference.exact.gaussian_surface import GaussianSurface
from probreg.inference.exact.latent_groups import log_prior_of_logs
from probreg.inference.modes.closed_form import PriorRows, posterior_given_sigma
from probreg.likelihoods import SmoothLikelihood
from probreg.priors import R2, GPrior, Horseshoe, Normal, ScaleMixture

from .cases import (
    LIKELIHOOD_CASES,
    PRECISION,
    Array,
    accepted,
    covering,
    gradient,
    likelihood_kind,
    model_for,
    named,
    rows_for,
)

UNKNOWN = [
    Normal(pr.priors.Reference()),
    Normal(pr.priors.HalfCauchy(0.6), location=0.2, sigma_units=True),
    Normal(pr.HalfNormal(0.8), scaled=True),
    ScaleMixture(
        Normal(precision_matrix=PRECISION, location=0.1),
        pr.priors.InverseGamma(1.5, 0.4),
    ),
    GPrior(pr.priors.InverseGamma(0.5, 1 / 16)),
    R2(1.5, 2.5),
    {
        "x1": Normal(pr.priors.Exponential(0.7)),
        ("x3", "x2"): Normal(pr.priors.Reference(), sigma_units=True),
    },
    {
        ("x1", "x2"): Normal(pr.priors.HalfStudentT(0.7)),
        "x3": Normal(0.4, location=0.3),
        "Intercept": Normal(2.0, sigma_units=True),
    },
]
SMOOTH = [
    v
    for v in LIKELIHOOD_CASES
    if isinstance(v, SmoothLikelihood)
    and v.curvature_has_slope
    and not isinstance(v, pr.Gaussian)
]


def surface_of(model: pr.Model, per_column: bool = False) -> Any:
    return EvidenceProblem(model, per_column).surface


def gaussian(prior: Any, **more: Any) -> pr.Model:
    return model_for(pr.Gaussian(), prior, n=25, **more)


@pytest.mark.parametrize(
    ("aux", "per_column"),
    [
        ({}, False),
        ({}, True),
        ({"sigma": 0.6}, False),
        ({"sigma": pr.priors.InverseGamma(2.5, 0.6)}, False),
    ],
    ids=["free", "ard", "given", "prior"],
)
@pytest.mark.parametrize("prior", UNKNOWN, ids=named)
def test_slopes_of_the_evidence(prior, aux, per_column):
    model = gaussian(prior, aux=aux)
    if per_column and Evidence(per_column=True).obstacle(model):
        pytest.skip("its columns are correlated")
    f = surface_of(model, per_column)
    theta = np.random.default_rng(0).normal(-0.5, 0.4, len(f.priors))
    at = f(theta)
    np.testing.assert_allclose(
        at.gradient, gradient(lambda t: f(t).value, theta), rtol=1e-7, atol=1e-8
    )
    np.testing.assert_allclose(
        at.hessian, gradient(lambda t: f(t).gradient, theta), rtol=1e-7, atol=1e-8
    )


@pytest.mark.parametrize("prior", UNKNOWN[:5], ids=named)
def test_the_evidence_is_that_of_conjugate_at_the_scales(prior):
    """Every column proper, sigma given: the closed form of another room."""
    model = gaussian(
        {"Intercept": Normal(3.0), ("x1", "x2", "x3"): prior}, aux={"sigma": 0.6}
    )
    f, problem = surface_of(model), EvidenceProblem(model, False)
    for tau in (0.3, 1.7):
        plain = model.with_prior(problem.prior_at(np.array([tau])))
        exact = pr.fit(plain, pr.Conjugate(draws=1)).solution.stats["log_evidence"]
        assert f(np.log([tau])).evidence == pytest.approx(exact, rel=1e-11)


@pytest.mark.parametrize("criterion", ["REML", "ML"])
@pytest.mark.parametrize("aux", [{}, {"sigma": 0.6}], ids=["free", "given"])
@pytest.mark.parametrize("prior", UNKNOWN[:5], ids=named)
def test_one_scale_has_the_evidence_and_the_posterior_of_whole_matrices(
    prior, aux, criterion
):
    """Sums over singular values beside factors of rows and prior."""
    model = gaussian(prior, aux=aux)
    f = GaussianSurface(model, EvidenceProblem(model, False).groups, criterion)
    theta = np.random.default_rng(1).normal(-0.4, 0.5, (3, len(f.priors)))
    by_nodes = f._evidence(f.at_nodes(theta)) + log_prior_of_logs(theta, f.priors)
    np.testing.assert_allclose(f.values(theta), by_nodes, rtol=1e-12)
    np.testing.assert_allclose([f(t).value for t in theta], by_nodes, rtol=1e-12)
    at = EvidenceProblem(model, False).prior_at(np.exp(theta[0, :1]))
    sigma = aux.get("sigma", float(np.exp(theta[0, -1])))
    slow = posterior_given_sigma(
        model.design.moments, PriorRows.of(model.with_prior(at).joint), sigma
    )
    mean = f.estimate(theta[0])[0][:, 0]
    np.testing.assert_allclose(mean, slow.mean, rtol=1e-11)


@pytest.mark.parametrize(
    ("likelihood", "prior"),
    covering(
        [
            (v, prior)
            for v in SMOOTH
            for prior in (
                Normal(pr.priors.Reference()),
                {"x2": Normal(pr.priors.Reference()), "x3": Normal(pr.HalfNormal(0.7))},
            )
            if accepted(v, prior) is not None
        ],
        lambda v, _: type(v),
        lambda v, prior: (likelihood_kind(v), str(prior)),
        one_in=36,
    ),
)
def test_slopes_of_the_approximate_evidence(likelihood, prior):
    f = surface_of(accepted(likelihood, prior))
    theta = np.array([-0.4, 0.1, 0.3, -0.2, 0.05, 0.2])[: len(f.priors)]
    # modes are found to 1e-10 standard errors; the differences of log |H| to 1e-6
    np.testing.assert_allclose(
        f(theta).gradient,
        gradient(lambda t: f(t).value, theta, 0.02),
        rtol=2e-5,
        atol=2e-5,
    )


def test_the_approximate_evidence_is_exact_where_the_posterior_is_normal():
    model = gaussian(
        {"Intercept": Normal(3.0), ("x1", "x2", "x3"): Normal(pr.HalfNormal(0.8))},
        aux={"sigma": 0.6},
    )
    exact, near = EvidenceProblem(model, False), EvidenceProblem(model, False)
    from probreg.inference.exact.laplace_surface import LaplaceSurface

    approximate = LaplaceSurface(model, near.groups, by_group=False)
    for theta in ([-0.7], [0.4]):
        a, b = exact.surface(np.array(theta)), approximate(np.array(theta))
        assert b.evidence == pytest.approx(a.evidence, rel=1e-12)
        np.testing.assert_allclose(b.gradient, a.gradient, atol=1e-7)
        np.testing.assert_allclose(b.hessian, a.hessian, atol=1e-8)


@pytest.mark.parametrize("prior", UNKNOWN, ids=named)
def test_no_scale_on_a_grid_has_more_evidence(prior):
    model = gaussian(prior)
    problem = EvidenceProblem(model, False)
    top = problem.maximise(100)
    assert np.abs(top.at.gradient[~top.vanished]).max() < 1e-7
    K = len(top.theta)
    for move in itertools.product(*[np.linspace(-4, 4, 9)] * K):
        assert problem.surface(top.theta + move).value <= top.at.value + 1e-9


@pytest.mark.parametrize(
    "likelihood", covering(SMOOTH, lambda likelihood: likelihood.width > 1)
)
def test_no_scale_on_a_grid_has_more_approximate_evidence(likelihood):
    model = accepted(likelihood, Normal(pr.priors.HalfCauchy(1.0)))
    if model is None:
        pytest.skip("a symmetric softmax goes with plain normal priors")
    problem = EvidenceProblem(model, False)
    top = problem.maximise(100)
    for move in (-2.0, -0.3, -0.02, 0.02, 0.3, 2.0):
        assert problem.surface(top.theta + move).value < top.at.value
    assert "Laplace approximation" in " ".join(
        map(str, pr.fit(model, "evidence").notes)
    )


def test_scales_without_a_value_leave_those_of_others(monkeypatch):
    surface = surface_of(gaussian(pr.Normal(pr.HalfNormal(1.0))))
    d = len(surface.starts()[0])
    theta = np.linspace(-1.0, 1.0, 3)[:, None] * np.ones(d)
    expected = surface.values(theta)
    expected[1] = -np.inf
    at_nodes = type(surface).at_nodes

    def without_one(self, theta):
        if (theta == 0.0).all(1).any():
            raise np.linalg.LinAlgError
        return at_nodes(self, theta)

    monkeypatch.setattr(type(surface), "at_nodes", without_one)
    np.testing.assert_allclose(surface.values(theta), expected, rtol=1e-12)


def mackay(fit: pr.Fit, columns: list[int], scale: Array) -> tuple[Array, Array]:
    """gamma_j = 1 - S_jj / scale_j^2 of these columns, from the covariance of the fit at known scales alone, and m_j^2 / scale_j^2."""
    S = fit.solution.given_scales.matrix()[np.ix_(columns, columns)]
    return 1.0 - np.diagonal(S) / scale**2, np.square(
        fit.solution.beta[columns, 0]
    ) / scale**2


@pytest.mark.parametrize("scale", [1e-7, 1.0, 1e7])
def test_mackays_equations_hold_at_the_maximum(scale):
    """alpha = gamma / |m|^2 and n - 1 - gamma = RSS / sigma^2, whatever the units of the response."""
    X, y = rows_for(pr.Gaussian())
    model = pr.Model.from_arrays(X, scale * y, prior=Normal(pr.priors.Reference()))
    fit = pr.fit(model, "evidence")
    tau = fit.model.joint.blocks[-1].prior.scale
    gamma, size = mackay(fit, [1, 2, 3], np.full(3, tau))
    assert gamma.sum() == pytest.approx(size.sum(), rel=1e-8)
    rss = np.square(scale * y - fit.model.design.X @ fit.solution.beta[:, 0]).sum()
    assert rss / fit.aux["sigma"] ** 2 == pytest.approx(60 - 1 - gamma.sum(), rel=1e-8)
    one = pr.fit(
        pr.Model.from_arrays(X, y, prior=Normal(pr.priors.Reference())), "evidence"
    )
    assert tau == pytest.approx(
        scale * one.model.joint.blocks[-1].prior.scale, rel=1e-8
    )


def many_columns(signal: Array, n: int = 80, seed: int = 5) -> pr.Model:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, len(signal)))
    return pr.Model.from_arrays(
        X,
        1.0 + X @ signal + 0.5 * rng.normal(size=n),
        prior=Normal(pr.priors.Reference()),
    )


def test_a_scale_for_each_column_prunes_those_without_evidence():
    signal = np.r_[2.0, -1.0, 0.5, np.zeros(9)]
    fit = pr.fit(many_columns(signal), Evidence(per_column=True))
    scale = np.asarray(fit.model.joint.blocks[-1].prior.scale)
    gone = np.abs(fit.coef.values[1:]) < 1e-12
    assert not gone[:3].any()
    # under no signal a column is pruned when q^2 < s, which has probability 0.68
    assert gone[3:].sum() >= 4
    gamma, size = mackay(fit, [int(j) + 1 for j in np.flatnonzero(~gone)], scale[~gone])
    np.testing.assert_allclose(gamma, size, rtol=1e-7)
    said = next(n for n in map(str, fit.notes) if n.startswith("pruned"))
    assert all(f"x{j + 1}" in said for j in np.flatnonzero(gone))
    assert "x1," not in said
    # Tipping & Faul 2003: a pruned column stays out where q^2 <= s, from the marginal covariance of the response
    model, sigma = fit.model, fit.aux["sigma"]
    X = model.design.X[:, 1:] - model.design.X[:, 1:].mean(0)
    C = sigma**2 * np.eye(len(X)) + (X * scale**2) @ X.T
    inverse = np.linalg.inv(C)
    one = inverse @ np.ones(len(X))
    inverse -= np.outer(one, one) / one.sum()  # the intercept integrated out
    q, s = X.T @ inverse @ model.design.y, np.einsum("ij,ik,kj->j", X, inverse, X)
    assert (q[gone] ** 2 <= s[gone] * (1 + 1e-6)).all()


def test_no_signal_has_no_scale():
    y = np.tile([1.0, -1.0, -1.0, 1.0], 10)
    # both orthogonal to y
    X = np.c_[np.tile([1.0, 1.0, -1.0, -1.0], 10), np.tile([1.0, -1.0, 1.0, -1.0], 10)]
    fit = pr.fit(
        pr.Model.from_arrays(X, y, prior=Normal(pr.priors.Reference())), "evidence"
    )
    assert any("pruned" in n for n in map(str, fit.notes))
    assert np.abs(fit.coef.values[1:]).max() < 1e-12
    assert fit.coef.values[0] == pytest.approx(y.mean(), abs=1e-12)
    assert fit.aux["sigma"] == pytest.approx(y.std(ddof=1), rel=1e-9)


def test_more_columns_than_rows_and_correlated_columns():
    wide = many_columns(np.r_[1.5, -1.5, np.zeros(38)], n=30)
    with pytest.raises(pr.Incompatible, match="can reproduce the response"):
        pr.fit(wide, "evidence")  # one scale for 40 columns explains every row
    fit = pr.fit(wide, Evidence(per_column=True))
    # 0.5; seven columns or so take part in the noise
    assert 0.2 < fit.aux["sigma"] < 0.7
    np.testing.assert_allclose(fit.coef[1:3], [1.5, -1.5], atol=0.5)
    held = pr.fit(wide.with_aux(sigma=0.5), "evidence")
    assert np.abs(held.coef[1:3].values).min() > 5 * np.abs(held.coef[3:].values).mean()
    X, y = rows_for(pr.Gaussian())
    twice = pr.Model.from_arrays(
        np.c_[X, X[:, 0]], y, prior=Normal(pr.priors.Reference())
    )
    fit = pr.fit(twice, "evidence")
    assert float(fit.coef[1]) == pytest.approx(float(fit.coef[4]), rel=1e-9)
    with pytest.raises(pr.Incompatible, match="not identified"):
        pr.fit(
            pr.Model.from_arrays(
                np.c_[X, X[:, 0]], y, prior={"x2": Normal(pr.priors.Reference())}
            ),
            "evidence",
        )


@pytest.mark.parametrize("method", ["closed_form", "conjugate", "newton", "laplace"])
def test_any_method_fits_at_the_scales_that_were_found(method):
    model = gaussian(Normal(pr.priors.Reference()))
    fit = pr.fit(model, Evidence(method), seed=1)
    assert fit.method.name == method
    assert fit.model.fixed == fit.aux
    direct = pr.fit(fit.model, method, seed=1)
    # the closed form stands in the decomposition that found the scales: two routes to one solution
    np.testing.assert_allclose(
        fit.coef, direct.coef, rtol=1e-13 if method == "closed_form" else 0
    )
    found = pr.fit(model, "evidence")
    np.testing.assert_allclose(fit.coef, found.coef, rtol=1e-6)
    assert fit.solution.stats["log_evidence"] == found.solution.stats["log_evidence"]
    solved = Evidence(method).solve(model, np.random.default_rng(1))
    np.testing.assert_array_equal(solved.beta, fit.solution.beta)


def test_a_saved_fit_holds_the_scales(tmp_path):
    fit = pr.fit(gaussian(R2(1.5, 2.5)), Evidence("conjugate"))
    again = pr.load_fit(fit.save(tmp_path / "fit.nc"))
    assert again.model.joint.blocks[-1].prior == fit.model.joint.blocks[-1].prior
    assert again.aux == fit.aux
    # and a model saved without its rows has all that evidence asks
    plain = pr.load_fit(pr.fit(gaussian(pr.Flat())).save(tmp_path / "plain.nc"))
    tuned = pr.fit(plain.model.with_prior(Normal(pr.priors.Reference())), "evidence")
    np.testing.assert_allclose(
        tuned.coef,
        pr.fit(gaussian(Normal(pr.priors.Reference())), "evidence").coef,
        rtol=1e-9,
    )


def test_weights_are_copies():
    X, y = rows_for(pr.Gaussian())
    w = np.arange(60) % 3 + 1
    a = pr.fit(
        pr.Model.from_arrays(X, y, weights=w, prior=GPrior(pr.priors.Reference())),
        "evidence",
    )
    again = np.repeat(np.arange(60), w)
    b = pr.fit(
        pr.Model.from_arrays(X[again], y[again], prior=GPrior(pr.priors.Reference())),
        "evidence",
    )
    np.testing.assert_allclose(a.coef, b.coef, rtol=1e-8)
    assert a.solution.stats["log_evidence"] == pytest.approx(
        b.solution.stats["log_evidence"], rel=1e-10
    )


@pytest.mark.parametrize(
    ("model", "method", "why"),
    [
        (gaussian(Normal(1.0), aux={"sigma": 0.6}), Evidence(), "this model has none"),
        (
            gaussian(pr.Laplace(pr.HalfNormal(1.0))),
            Evidence(),
            "those of normal priors, and this model has laplace",
        ),
        (
            gaussian(Horseshoe()),
            Evidence(),
            "those of normal priors, and this model has horseshoe",
        ),
        (
            gaussian({"x1": Normal(pr.priors.Reference()), "x2": pr.Laplace(1.0)}),
            Evidence(),
            "laplace is not",
        ),
        (gaussian(Normal(pr.priors.Uniform(0.0, 2.0))), Evidence(), "bounded support"),
        (
            gaussian(
                Normal(pr.priors.Reference()),
                aux={"sigma": pr.priors.Uniform(0.1, 2.0)},
            ),
            Evidence(),
            "bounded support",
        ),
        (
            gaussian(GPrior(pr.priors.InverseGamma(0.5, 1 / 16))),
            Evidence(per_column=True),
            "independent columns",
        ),
        (
            model_for(pr.StudentT(), Normal(pr.priors.Reference(), sigma_units=True)),
            Evidence(),
            "not in units of sigma",
        ),
        (gaussian(Normal(pr.priors.Reference())), Evidence("perceptron"), "perceptron"),
        (
            gaussian(Normal(pr.priors.Reference())),
            Evidence("quadrature"),
            "held fixed here",
        ),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_what_evidence_cannot_do_it_says(model, method, why):
    with pytest.raises(pr.Incompatible, match=why):
        pr.fit(model, method)


def test_columns_that_reproduce_the_response_are_refused():
    X = np.random.default_rng(0).normal(size=(30, 2))
    with pytest.raises(pr.Incompatible, match="as sigma goes to 0"):
        pr.fit(
            pr.Model.from_arrays(
                X, 1.0 + X @ [1.0, 2.0], prior=Normal(pr.priors.Reference())
            ),
            "evidence",
        )


def test_auto_names_evidence_where_a_scale_is_unknown():
    chosen, why = pr.Auto().choose(gaussian(Normal(pr.HalfNormal(1.0))))
    assert chosen.name == "nuts"
    assert "unknown scale" in why
    assert "evidence" in why
    assert "evidence" not in pr.Auto().choose(gaussian(Horseshoe()))[1]
    flat = pr.fit(gaussian(Normal(pr.priors.Reference())))
    assert flat.method.name == "closed_form"
    assert "auto chose evidence: the prior of a scale is improper" in str(flat.notes[0])


def test_evidence_wraps_no_evidence():
    with pytest.raises(pr.Incompatible, match="not evidence itself"):
        Evidence(Evidence())


@pytest.mark.parametrize(
    "sigma", [None, pr.HalfNormal(0.5), 1.2], ids=["free", "prior", "given"]
)
@pytest.mark.parametrize(
    "tau",
    [pr.priors.Reference(), pr.HalfNormal(0.3), pr.priors.Uniform()],
    ids=lambda p: p.name,
)
def test_the_note_says_what_was_maximised(tau, sigma):
    """Whether log p(y | scales) itself is at its maximum is looked at, a little to either side of the scales found."""
    model = gaussian(Normal(tau), aux={} if sigma is None else {"sigma": sigma})
    note = " ".join(pr.fit(model, "evidence").described["notes"])
    problem = EvidenceProblem(model, False)
    top = problem.maximise(300)
    sides = [
        problem.surface(top.theta + h * np.eye(len(top.theta))[0]).evidence
        for h in (-1e-3, 1e-3)
    ]
    sides += [
        problem.surface(top.theta + h * np.eye(len(top.theta))[-1]).evidence
        for h in (-1e-3, 1e-3)
    ]
    own = max(sides) < top.at.evidence
    assert own == (tau.name == "reference" and not isinstance(sigma, pr.HalfNormal))
    assert (
        f"log p(y | scales) = {top.at.evidence:.6g}, its maximum over the scales"
        in note
    ) == own
    names = ["tau"] * (tau.name != "reference")
    names += ["sigma"] * isinstance(sigma, pr.HalfNormal)
    together = f"{top.at.value:.6g} together with the log density of the logs of "
    assert (together + " and ".join(names) in note) == (not own)


def profiled(model: pr.Model, theta: Array) -> float:
    """The likelihood at scales theta, flat coefficients at their maximum: y ~ N(F b, sigma^2 I + Z D Z') by dense matrices."""
    tau, sigma, X, y = (
        np.exp(theta[0]),
        np.exp(theta[-1]),
        model.design.X,
        model.design.observed,
    )
    block = model.joint.blocks[-1]
    inside = list(block.columns)
    flat = [j for j in range(X.shape[1]) if j not in inside]
    prior = block.prior.given(tau=tau)
    cov = np.linalg.inv(prior.precision(len(inside))) * (
        sigma**2 if prior.sigma_units else 1.0
    )
    V = sigma**2 * np.eye(len(y)) + X[:, inside] @ cov @ X[:, inside].T
    F, r = X[:, flat], y - X[:, inside] @ prior.center(len(inside))
    b = np.linalg.solve(F.T @ np.linalg.solve(V, F), F.T @ np.linalg.solve(V, r))
    e = r - F @ b
    return float(
        -0.5
        * (
            len(y) * np.log(2 * np.pi)
            + np.linalg.slogdet(V)[1]
            + e @ np.linalg.solve(V, e)
        )
    )


@pytest.mark.parametrize("prior", UNKNOWN[:6], ids=named)
def test_the_maximum_likelihood_of_scales(prior):
    """criterion="ML": its surface is the profiled likelihood, with exact slopes, and its top lies below the restricted sigma."""
    model = gaussian(prior)
    f = EvidenceProblem(model, False, criterion="ML").surface
    theta = np.array([-0.6, -0.3])
    assert f(theta).evidence == pytest.approx(profiled(model, theta), rel=1e-11)
    np.testing.assert_allclose(
        f(theta).gradient, gradient(lambda t: f(t).value, theta), rtol=1e-7, atol=1e-8
    )
    np.testing.assert_allclose(
        f(theta).hessian, gradient(lambda t: f(t).gradient, theta), rtol=1e-7, atol=1e-8
    )
    ml, reml = (pr.fit(model, Evidence(criterion=c)) for c in ("ML", "REML"))
    assert ml.model.fixed["sigma"] < reml.model.fixed["sigma"]
    assert "flat coefficients at their maximum" in str(ml.notes[0])
    assert "log_evidence" not in ml.solution.stats


def test_a_maximised_likelihood_does_not_stand_beside_evidences():
    model = gaussian(Normal(pr.priors.Reference()))
    ml, reml = (pr.fit(model, Evidence(criterion=c)) for c in ("ML", "REML"))
    shown = pr.compare_models({"ml": ml, "reml": reml}).table["log_evidence"]
    assert np.isnan(shown["ml"])
    assert (
        shown["reml"]
        == reml.solution.stats["log_evidence"]
        < ml.solution.stats["log_likelihood_of_scales"]
    )
    for fit in (ml, reml):
        with pytest.raises(pr.errors.Incompatible, match="on all rows"):
            pr.conformal(fit)


@pytest.mark.parametrize("likelihood", covering(SMOOTH, likelihood_kind))
def test_the_maximum_likelihood_of_scales_by_laplaces_method(likelihood):
    """Flat coefficients and nuisance parameters are coordinates too: the slopes over all of them, and none left at the top."""
    model = accepted(likelihood, {("x1", "x2", "x3"): Normal(pr.priors.Reference())})
    if model is None:
        pytest.skip("a symmetric softmax goes with plain normal priors")
    problem = EvidenceProblem(model, False, criterion="ML")
    f = problem.surface
    theta = f.starts()[0] + 0.1
    slopes = gradient(lambda t: f(t).value, theta, 0.02)
    np.testing.assert_allclose(f(theta).gradient, slopes, rtol=2e-5, atol=2e-5)
    top = problem.maximise(300)
    assert np.abs(top.at.gradient[~top.vanished]).max() < 0.05
    fit = pr.fit(model, Evidence(criterion="ML"))
    at = f.mode(top.theta)
    np.testing.assert_allclose(
        fit.solution.beta,
        f.layout.beta_of(at.roots, at.x)[..., 0],
        rtol=1e-6,
        atol=1e-8,
    )


def test_the_evidence_of_many_rows_does_not_depend_on_where_its_modes_begin():
    """They begin at the last one, with its curvature; those of one theta are found once."""
    rows = np.random.default_rng(8)
    X = rows.standard_normal((20_000, 4))
    y = rows.random(20_000) < 1.0 / (1.0 + np.exp(-X @ [0.5, -0.2, 0.1, 0.0]))
    model = pr.Model.from_arrays(
        X, y.astype(int), likelihood="bernoulli", prior=Normal(pr.HalfNormal(1.0))
    )
    theta = np.array([[-1.0], [0.5], [-6.0]])
    one, other = (EvidenceProblem(model, False).surface for _ in range(2))
    np.testing.assert_allclose(
        one.values(theta), other.values(theta[::-1])[::-1], rtol=1e-12
    )
    before, fresh = (
        one.mode(theta[1]),
        EvidenceProblem(model, False).surface.mode(theta[1]),
    )
    np.testing.assert_allclose(before.x[1], fresh.x[1], rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(before.H.T, fresh.H.T, rtol=1e-6, atol=1e-10)
