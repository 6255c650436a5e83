"""More columns than rows under Gaussian priors: the coordinates that the rows see against the p x p route."""

import numpy as np
import pytest

import probreg as pr
from probreg.inference.covariance import FactoredCovariance
from probreg.inference.modes import wide

RNG = np.random.default_rng(4)
N, P = 25, 60
X = RNG.normal(size=(N, P)) * np.linspace(0.2, 3.0, P) + np.linspace(-2.0, 5.0, P)
ETA = (X - X.mean(0)) @ np.linspace(0.4, -0.3, P) * 0.3
NAMES = [f"x{j}" for j in range(P)]
PRIORS = {
    "plain": pr.Normal(0.4),
    "located": pr.Normal(
        tuple(np.linspace(0.2, 0.6, P)), location=tuple(np.linspace(-0.1, 0.2, P))
    ),
    "two blocks and a flat column": {
        "x3": pr.Flat(),
        tuple(NAMES[:3]): pr.Normal(0.7),
        tuple(NAMES[4:]): pr.Normal(0.3, scaled=True),
    },
    "intercept too": {"Intercept": pr.Normal(2.0), tuple(NAMES): pr.Normal(0.4)},
}
CASES = [
    *(("gaussian", "closed_form", k, {"aux": {"sigma": 0.6}}) for k in PRIORS),
    ("gaussian", "closed_form", "sigma units", {}),
    ("gaussian", "conjugate", "plain", {"aux": {"sigma": 0.6}}),
    ("gaussian", "conjugate", "sigma units", {}),
    (
        "gaussian",
        "conjugate",
        "sigma units",
        {"aux": {"sigma": pr.priors.InverseGamma(2.0, 0.7)}},
    ),
    (
        "gaussian",
        "newton",
        "located",
        {"aux": {"sigma": pr.priors.InverseGamma(2.0, 0.7)}},
    ),
    ("gaussian", "newton", "sigma units", {"aux": {"sigma": pr.HalfNormal(0.8)}}),
    ("gaussian", "laplace", "sigma units", {"aux": {"sigma": pr.HalfNormal(0.8)}}),
    ("student", "newton", "sigma units", {"aux": {"sigma": 0.6}}),
    *(("bernoulli", "newton", k, {}) for k in PRIORS),
    ("bernoulli", "laplace", "located", {}),
    ("poisson", "newton", "plain", {}),
    ("categorical", "newton", "plain", {}),
    ("categorical", "laplace", "two blocks and a flat column", {}),
]
PRIORS["sigma units"] = pr.Normal(0.5, location=0.1, sigma_units=True)


def model_of(likelihood, prior, **more):
    kind = pr.LIKELIHOODS[likelihood]()
    rng = np.random.default_rng(7)
    eta = ETA[:, None] * np.linspace(1.0, -0.5, kind.width)
    y = kind.sample(rng, eta, **dict.fromkeys(kind.nuisance, 0.6))
    more |= {"weights": 1 + np.arange(N) % 3, "offset": 0.1 * np.cos(np.arange(N))}
    return pr.Model.from_arrays(
        X, y, columns=NAMES, likelihood=likelihood, prior=PRIORS[prior], **more
    )


@pytest.fixture
def both(monkeypatch):
    """The same fit in as many coordinates as rows, and with p x p matrices."""

    def fits(model, method, **settings):
        chosen = pr.METHODS[method](**settings)
        monkeypatch.setattr(wide, "FEW_COLUMNS", 0)
        assert wide.rotate_to_rows(model) is not None
        narrow = pr.fit(model, chosen)
        assert isinstance(narrow.solution.scale, FactoredCovariance)
        monkeypatch.setattr(wide, "FEW_COLUMNS", 10**6)
        return narrow, pr.fit(model, chosen)

    return fits


# with more columns than rows the joint mode of sigma is far below its posterior mean
MODE_OF_SIGMA = pytest.mark.filterwarnings(
    "ignore:laplace:probreg.errors.ProbregWarning"
)


@MODE_OF_SIGMA
@pytest.mark.parametrize(("likelihood", "method", "prior", "more"), CASES)
def test_the_coordinates_of_the_rows_give_the_same_fit(
    both, likelihood, method, prior, more
):
    settings = {"tol": 1e-12} if method in ("newton", "laplace") else {}
    narrow, whole = both(model_of(likelihood, prior, **more), method, **settings)
    a, b = narrow.solution, whole.solution
    error = np.sqrt(b.scale.diagonal())
    assert a.status is b.status
    # 1e-10 of a standard error, which is what rounding of sums over 60 columns leaves
    np.testing.assert_allclose(
        a.beta.ravel() / error, b.beta.ravel() / error, atol=1e-9
    )
    np.testing.assert_allclose(
        a.scale.matrix() / np.outer(error, error),
        b.scale.matrix() / np.outer(error, error),
        atol=1e-9,
    )
    np.testing.assert_allclose(a.scale.diagonal(), b.scale.diagonal(), rtol=1e-9)
    for name in b.aux:
        assert a.aux[name] == pytest.approx(b.aux[name], rel=1e-9)
        assert a.aux_sd[name] == pytest.approx(b.aux_sd[name], rel=1e-8)
    assert a.df == b.df
    for name in set(b.stats) - {"steps", "decrement"}:
        assert a.stats[name] == pytest.approx(b.stats[name], rel=1e-9, abs=1e-9), name
    if method in ("closed_form", "conjugate"):
        assert list(map(str, a.notes)) == list(map(str, b.notes))
    assert narrow.log_likelihood == pytest.approx(whole.log_likelihood, rel=1e-9)
    np.testing.assert_allclose(narrow.std_error, whole.std_error, rtol=1e-9)
    np.testing.assert_allclose(
        narrow.covariance(), whole.covariance(), atol=1e-9 * error.max() ** 2
    )


@pytest.mark.parametrize(
    ("likelihood", "method", "prior", "more"),
    [
        c
        for c in CASES
        if c[1] in ("closed_form", "newton")
        and c[0] in ("gaussian", "bernoulli")
        and c[2] != "located"
    ],
)
def test_predictions_and_intervals_are_the_same(both, likelihood, method, prior, more):
    narrow, whole = both(model_of(likelihood, prior, **more), method)
    np.testing.assert_allclose(
        narrow.interval()["lower"], whole.interval()["lower"], rtol=1e-7, atol=1e-9
    )
    new = X[:4] + 0.3
    one, two = (f.predict(new, offset=np.zeros(4)) for f in (narrow, whole))
    np.testing.assert_allclose(
        one["mean_lower"], two["mean_lower"], rtol=1e-6, atol=1e-9
    )


@MODE_OF_SIGMA
@pytest.mark.parametrize(
    ("likelihood", "method", "prior", "more"),
    [c for c in CASES if c[1] in ("conjugate", "laplace")],
)
def test_draws_have_the_moments_and_the_density_that_are_reported(
    both, likelihood, method, prior, more
):
    narrow, whole = both(model_of(likelihood, prior, **more), method, draws=2000)
    s, k = narrow.solution, narrow.solution.beta.size
    draws = s.draws["beta"].reshape(-1, k)
    V = whole.solution.covariance.matrix()
    L = np.linalg.cholesky(V)
    z = np.linalg.solve(L, (draws - whole.solution.beta.ravel()).T)
    # 8,000 independent draws: a mean has an error of 0.011, an entry of the covariance about as much
    assert np.abs(z.mean(1)).max() < 0.055
    assert np.abs(np.cov(z) - np.eye(k)).max() < 0.09
    if method == "laplace" and not narrow.model.unknown:
        log_q = (
            -0.5 * (z**2).sum(0)
            - 0.5 * k * np.log(2 * np.pi)
            - np.log(np.diagonal(L)).sum()
        )
        np.testing.assert_allclose(s.draws.stats["log_q"].ravel(), log_q, rtol=1e-7)
    # the importance weights have the mean that those of p x p have
    if method == "laplace" and narrow.model.unknown:
        log_p = narrow.model.log_posterior(
            s.draws["beta"][0], sigma=s.draws["sigma"][0]
        )
        other = whole.model.log_posterior(
            whole.solution.draws["beta"][0], sigma=whole.solution.draws["sigma"][0]
        )
        first = log_p - s.draws.stats["log_q"][0]
        second = other - whole.solution.draws.stats["log_q"][0]
        assert abs(first.mean() - second.mean()) < 5 * np.hypot(
            first.std(), second.std()
        ) / np.sqrt(2000)


def test_a_covariance_that_is_not_written_out_is_the_matrix(both):
    narrow, whole = both(
        model_of("bernoulli", "two blocks and a flat column"), "newton", tol=1e-12
    )
    F, V = narrow.solution.scale, whole.solution.scale.matrix()
    A = RNG.normal(size=(3, len(V)))
    size = np.abs(A) @ np.sqrt(np.diagonal(V))
    np.testing.assert_allclose(
        F.half(A) @ F.half(A).T, A @ V @ A.T, atol=1e-9 * (size**2).max()
    )
    np.testing.assert_allclose(
        F.times(A.T), F.matrix() @ A.T, atol=1e-9 * (size**2).max()
    )
    np.testing.assert_allclose(F.scale_by(2.0).matrix(), 2.0 * F.matrix())
    draws = F.draws(np.random.default_rng(0), 4000)
    np.testing.assert_allclose(draws[:, : len(V)].var(0), F.diagonal(), rtol=0.12)


def test_a_warm_start_is_one_in_the_other_coordinates(both):
    model = model_of("bernoulli", "located")
    cold = both(model, "newton", tol=1e-12)[0]
    warm, _ = both(model, "newton", start=cold.solution.beta)
    assert warm.solution.stats["steps"] <= 2
    with pytest.raises(pr.DataError, match=r"start has shape \(3, 1\)"):
        pr.fit(model, pr.Newton(start=[1.0, 2.0, 3.0]))


@pytest.mark.parametrize(
    ("likelihood", "method", "prior"),
    [("gaussian", "closed_form", "sigma units"), ("categorical", "newton", "located")],
)
def test_a_saved_fit_holds_the_factors_and_comes_back_to_the_bit(
    both, tmp_path, likelihood, method, prior
):
    narrow, _ = both(model_of(likelihood, prior), method)
    again = pr.load_fit(narrow.save(tmp_path / "wide.nc"))
    assert isinstance(again.solution.scale, FactoredCovariance)
    for name in ("spread", "axes", "inner"):
        np.testing.assert_array_equal(
            getattr(again.solution.scale, name), getattr(narrow.solution.scale, name)
        )
    new = X[:3] + 0.3
    np.testing.assert_array_equal(
        again.predict(new, offset=np.zeros(3))["mean"],
        narrow.predict(new, offset=np.zeros(3))["mean"],
    )
    np.testing.assert_array_equal(
        again.summary()["std_error"], narrow.summary()["std_error"]
    )
    assert again.log_likelihood == narrow.log_likelihood


def test_a_file_of_a_wide_fit_is_no_larger_than_its_rows_ask(monkeypatch, tmp_path):
    """100 x 5,000 in 4 MB of axes and some 5 of tables for other programs; p x p would be 200 MB, its moments 400."""
    monkeypatch.setattr(wide, "FEW_COLUMNS", 0)
    model = pr.Model.from_arrays(
        X, ETA, prior=pr.Normal(0.5, scaled=True), aux={"sigma": 0.6}
    )
    fit = pr.fit(model)
    with pytest.raises(
        pr.DataError,
        match=r"relative to the rows, and the moments of 61 columns are larger than the rows",
    ):
        fit.save(tmp_path / "wide.nc")
    again = pr.load_fit(fit.save(tmp_path / "wide.nc", rows=True))
    np.testing.assert_array_equal(pr.fit(again.model).coef, fit.coef)
    plain = pr.load_fit(
        pr.fit(model.with_prior(pr.Normal(0.4))).save(tmp_path / "plain.nc")
    )
    with pytest.raises(
        pr.DataError, match=r"saved without its rows: save\(rows=True\) keeps them"
    ):
        pr.fit(plain.model)


def test_five_thousand_columns_are_no_matrix_of_twenty_five_million():
    """Their standard errors by the identity of Woodbury: diag(V - V X' (X V X' + sigma^2)^-1 X V)."""
    rng = np.random.default_rng(1)
    n, p, sd, sigma = 30, 5000, 0.1, 0.5
    A = rng.normal(size=(n, p))
    y = A[:, :3].sum(1) + sigma * rng.normal(size=n)
    fit = pr.fit(
        pr.Model.from_arrays(
            A, y, prior=pr.Normal(sd), aux={"sigma": sigma}, intercept=False
        )
    )
    K = np.linalg.inv(sd**2 * A @ A.T + sigma**2 * np.eye(n))
    np.testing.assert_allclose(fit.coef, sd**2 * A.T @ (K @ y), atol=1e-12)
    variance = sd**2 - sd**4 * np.einsum("np,nk,kp->p", A, K, A, optimize=True)
    np.testing.assert_allclose(fit.std_error**2, variance, rtol=1e-9)
    for ask in (
        pr.diagnose,
        lambda f: f.covariance("HC3"),
        lambda f: pr.compare({"one": f, "two": f}),
        lambda f: pr.report({"one": f}, "never.html"),
    ):
        with pytest.raises(
            pr.DataError,
            match=r"takes several matrices of 5,000 x 5,000, minutes and gigabytes",
        ):
            ask(fit)


def test_what_needs_p_by_p_says_so_before_the_work():
    model = pr.Model.from_arrays(
        np.ones((3, 12_000)) * [[0.0], [1.0], [3.0]], [1.0, 2.0, 4.0]
    )
    with pytest.raises(
        pr.DataError,
        match=r"matrices of 12,001 x 12,001 \(1.2 GB each\).*normal priors",
    ):
        pr.fit(model, "closed_form")
    with pytest.raises(pr.DataError, match=r"matrices of 12,001 x 12,001"):
        pr.fit(model.with_prior(pr.priors.StudentT(1.0)), "newton")


def test_a_covariance_too_large_to_write_out_says_its_size():
    many = FactoredCovariance.of(np.ones(30_000), np.eye(30_000, 1), np.eye(1))
    with pytest.raises(pr.DataError, match="covariance of 30,000 coefficients takes"):
        many.matrix()


def test_columns_of_one_linear_predictor_each_are_not_rotated(monkeypatch):
    table = {name: X[:, j] for j, name in enumerate(NAMES[:15])} | {"y": ETA}
    columns = " + ".join(NAMES[:15])
    model = pr.Model.from_formula(
        {"y": f"y ~ {columns}", "log sigma": f"~ 0 + {columns}"},
        table,
        prior=pr.Normal(0.2),
    )
    fitted = pr.fit(model)
    monkeypatch.setattr(wide, "FEW_COLUMNS", 0)
    np.testing.assert_allclose(pr.fit(model).coef, fitted.coef, rtol=1e-12)


@pytest.mark.parametrize("likelihood", ["bernoulli", "categorical"])
@pytest.mark.parametrize("q", [4, 60, 260], ids=["few", "dense", "of rows"])
def test_collinear_flat_columns_leave_the_coefficients_with_priors_estimable(
    q, likelihood
):
    """Whether or not the columns with priors are combinations of one another."""
    rng = np.random.default_rng(2)
    w, Z = rng.normal(size=40), rng.normal(size=(40, q))
    Z[:, 1] = Z[:, 0]
    y = rng.integers(0, 2 if likelihood == "bernoulli" else 3, 40)
    names = [f"z{j}" for j in range(q)]
    chosen = {"likelihood": likelihood, "prior": {tuple(names): pr.Normal(0.3)}}
    one = pr.Model.from_arrays(
        np.column_stack([w, Z]), y, columns=["w", *names], **chosen
    )
    columns = ["w", "w2", *names]
    two = pr.Model.from_arrays(
        np.column_stack([w, 2 * w, Z]), y, columns=columns, **chosen
    )
    exact = pr.fit(one)
    with pytest.warns(pr.ProbregWarning, match=r"not identified \(w2 = 2 w\)"):
        fit = pr.fit(two)
    for values, expected in (
        (fit.coef, exact.coef),
        (fit.std_error, exact.std_error),
    ):
        np.testing.assert_allclose(
            values.drop_sel(coef=["w", "w2"]), expected.drop_sel(coef="w"), rtol=1e-6
        )
        assert np.isnan(values.sel(coef=["w", "w2"])).all()
    ours, expected = fit.predict(), exact.predict()
    np.testing.assert_allclose(ours["mean"], expected["mean"], rtol=1e-6)
    assert np.isnan(pr.prior_weight(fit).table["pull"]).all()
    for name in ("mean_std_error", "mean_lower"):
        np.testing.assert_allclose(ours[name], expected[name], rtol=1e-5)


@pytest.mark.parametrize("likelihood", ["gaussian", "bernoulli"])
def test_a_column_of_zeros_alone_is_not_identified(likelihood):
    model = pr.Model.from_arrays(
        np.zeros((6, 1)), [0, 1, 0, 1, 1, 0], columns=["z"], likelihood=likelihood, intercept=False
    )  # fmt: skip
    with pytest.warns(pr.ProbregWarning, match=r"not identified \(z = 0\)"):
        assert np.isnan(pr.fit(model).coef).all()


@pytest.mark.filterwarnings("ignore::probreg.ProbregWarning")
@pytest.mark.parametrize("status", ["at zero", "no maximum"])
def test_coefficients_beside_one_without_a_standard_error_keep_theirs(
    status, monkeypatch, tmp_path
):
    """alpha at 0, and a flat column that separates the rows: on n coordinates as on all columns."""
    rng = np.random.default_rng(5)
    w, Z = rng.normal(size=40), rng.normal(size=(40, 260))
    names = [f"z{j}" for j in range(260)]
    chosen = {"columns": ["w", *names], "prior": {tuple(names): pr.Normal(0.3)}}
    if status == "at zero":
        y, likelihood = rng.poisson(2.0, 40), "negative_binomial"
    else:
        y, likelihood = (w > 0).astype(int), "bernoulli"
    model = pr.Model.from_arrays(
        np.column_stack([w, Z]), y, likelihood=likelihood, **chosen
    )
    fit = pr.fit(model)
    assert isinstance(fit.solution.scale, FactoredCovariance)
    monkeypatch.setattr(wide, "FEW_COLUMNS", 10_000)
    expected = pr.fit(model.with_prior(chosen["prior"]))
    assert fit.solution.status is expected.solution.status
    np.testing.assert_allclose(fit.std_error, expected.std_error, rtol=1e-6)
    assert np.isnan(fit.std_error[:2]).all() == (status == "no maximum")
    # combinations of coefficients have none if one of them has none
    G = rng.normal(size=(3, fit.coef.size))
    for L in (G, np.where(np.arange(fit.coef.size) < 2, 0.0, G)):
        ours, theirs = (v.solution.scale.half(L) for v in (fit, expected))
        np.testing.assert_allclose(
            np.square(ours).sum(1), np.square(theirs).sum(1), rtol=1e-6
        )
    again = pr.load_fit(fit.save(tmp_path / "fit.nc"))
    np.testing.assert_array_equal(again.std_error, fit.std_error)
    draws = fit.solution.scale.draws(rng, 2)
    assert not draws[:, fit.solution.scale.missing].any()
