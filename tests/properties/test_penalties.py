"""Laws of penalties: what is spelt for a package reads back as the same prior, and the package finds the mode."""

import re
import warnings
from typing import Any

import numpy as np
import pytest

import probreg as pr

SIGMA, N, Q = 0.7, 80, 3
PRIORS = [pr.Normal(0.3), pr.Laplace(0.15), pr.priors.ElasticNet(0.2, ratio=0.35)]
RELATIVE = [
    pr.Normal(0.4, sigma_units=True),
    pr.Laplace(0.2, sigma_units=True),
    pr.priors.ElasticNet(0.3, 0.6, sigma_units=True),
]
READERS = {
    pr.Normal: pr.Normal.from_ridge,
    pr.Laplace: pr.Laplace.from_lasso,
    pr.priors.ElasticNet: pr.priors.ElasticNet.from_elastic_net,
}
FAMILIES = ["gaussian", "bernoulli", "poisson", "categorical"]


def data(family: str) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(8)
    X = rng.normal(size=(N, Q)) * [1.0, 2.0, 0.5] + [0.5, -1.0, 2.0]
    eta = X @ [0.6, -0.2, 0.3]
    y = {
        "gaussian": eta + SIGMA * rng.normal(size=N),
        "bernoulli": (rng.random(N) < 1 / (1 + np.exp(-eta))).astype(int),
        "poisson": rng.poisson(np.exp(0.4 * eta)),
        "categorical": rng.integers(0, 3, N),
    }[family]
    return X, y


def model(family: str, prior: Any, **more: Any) -> pr.Model:
    X, y = data(family)
    likelihood = pr.Categorical(symmetric=True) if family == "categorical" else family
    aux = {"sigma": SIGMA} if family == "gaussian" else {}
    return pr.Model.from_arrays(
        X, y, likelihood=likelihood, prior=prior, aux=aux, **more
    )


def accepted() -> list[tuple[str, Any]]:
    return [(f, p) for f in FAMILIES for p in PRIORS] + [
        ("gaussian", p) for p in RELATIVE
    ]


each = pytest.mark.parametrize(
    ("family", "prior"),
    accepted(),
    ids=lambda v: v if isinstance(v, str) else type(v).__name__,
)


def raw(prior: Any) -> tuple[type, float, float]:
    """The class, the scale in raw units and the ratio."""
    return (
        type(prior),
        float(prior.scale) * (SIGMA if prior.sigma_units else 1.0),
        getattr(prior, "ratio", -1.0),
    )


@each
def test_every_spelling_reads_back_as_the_prior(family, prior):
    m = model(family, prior)
    found = m.with_prior(prior).penalty()
    assert {r.package for r in found.rows} >= {"glmnet"} | (
        set() if family == "poisson" else {"sklearn"}
    )
    for row in found.rows:
        of, settings = row.package, dict(row.settings)
        if of == "statsmodels l1":
            continue  # a sum where their other call has a mean: compared with the package below
        if of == "glmnet":
            settings = {"lam": settings["lambda"], "alpha": settings["alpha"]}
        if of == "rss" and not isinstance(prior, pr.priors.ElasticNet):
            settings = {
                "lam": settings["lam2"]
                if isinstance(prior, pr.Normal)
                else settings["lam1"]
            }
        again = READERS[type(prior)](of=of, model=m, **settings)
        kind, scale, ratio = raw(again)
        assert kind is type(prior), row
        assert scale == pytest.approx(raw(prior)[1], rel=1e-12), row
        assert ratio == pytest.approx(raw(prior)[2], rel=1e-12), row


@each
def test_the_calls_carry_the_numbers(family, prior):
    for row in model(family, prior).with_prior(prior).penalty().rows:
        written = [float(v) for v in re.findall(r"=(?:\[0, )?([0-9.e+-]+)", row.call)]
        for value in row.settings.values():
            assert (
                any(v == pytest.approx(value, rel=1e-11, abs=1e-300) for v in written)
                or value == 0.0
            ), row


def distance_from_mode(m: pr.Model, beta: np.ndarray) -> float:
    """The largest distance of 0 from the subdifferential of -log posterior, in units of the curvature's square root."""
    plain = m.with_prior(pr.Flat())
    at = plain.value_grad_hessian(beta)
    slope, spread = (
        -at.gradient.reshape(beta.shape),
        np.sqrt(np.diagonal(at.curvature)).reshape(beta.shape),
    )
    low, high = np.zeros_like(beta), np.zeros_like(beta)
    for b in m.joint.blocks:
        where = list(b.columns)
        if isinstance(b.prior, pr.Flat):
            continue
        unit = SIGMA if b.prior.sigma_units else 1.0
        if isinstance(b.prior, pr.Normal):
            low[where] = high[where] = -b.prior.slopes(beta[where], unit)[0]
        else:
            low[where], high[where] = b.prior.subgradient(beta[where], unit)
    return float(
        (np.maximum(np.maximum(slope + low, -slope - high), 0.0) / spread).max()
    )


def of_sklearn(
    family: str, row: Any, X: np.ndarray, y: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    from sklearn import linear_model as lm

    name, s = row.call.split("(")[0], dict(row.settings)
    tight: dict[str, Any] = {"tol": 1e-12, "max_iter": 100_000}
    if name == "LogisticRegression":
        solver = "newton-cholesky" if not s["l1_ratio"] else "saga"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fit = lm.LogisticRegression(**s, solver=solver, **tight).fit(X, y)
        return np.atleast_1d(fit.intercept_), fit.coef_.T
    fit = getattr(lm, name)(**s, **({} if name == "Ridge" else tight)).fit(X, y)
    return np.atleast_1d(fit.intercept_), np.atleast_2d(fit.coef_).T


@each
def test_scikit_learn_finds_the_mode(family, prior):
    m = model(family, prior)
    row = (
        m.with_prior(prior).penalty()["sklearn"]
        if family != "poisson" or isinstance(prior, pr.Normal)
        else None
    )
    if row is None:
        assert "sklearn" not in {r.package for r in m.with_prior(prior).penalty().rows}
        return
    intercept, coef = of_sklearn(family, row, *data(family))
    if family == "categorical":
        found, theirs = pr.fit(m).coef.values, np.vstack([intercept, coef])
        np.testing.assert_allclose(
            found - found.mean(1)[:, None], theirs - theirs.mean(1)[:, None], atol=2e-6
        )
        return
    # saga stops early: a hundred-thousandth of a standard error is what it reaches here
    assert distance_from_mode(m, np.vstack([intercept[None], coef])) < 1e-5


@pytest.mark.parametrize("prior", PRIORS, ids=lambda p: type(p).__name__)
def test_scikit_learn_finds_the_mode_of_two_classes(prior):
    """It has one log odds ratio w of two classes: w^2 is twice the sum of the squares of two coefficients that sum to zero."""
    X, y = data("bernoulli")
    m = pr.Model.from_arrays(
        X, y, likelihood=pr.Categorical(symmetric=True), prior=prior
    )
    row = m.with_prior(prior).penalty()["sklearn"]
    again = READERS[type(prior)](of="sklearn", model=m, **dict(row.settings))
    assert raw(again) == (
        type(prior),
        pytest.approx(raw(prior)[1]),
        pytest.approx(raw(prior)[2]),
    )
    intercept, coef = of_sklearn("bernoulli", row, X, y)
    found = pr.fit(m).coef.values
    np.testing.assert_allclose(
        found[:, 1] - found[:, 0], np.r_[intercept, coef[:, 0]], atol=2e-6
    )


@pytest.mark.parametrize(
    ("family", "prior"),
    [a for a in accepted() if a[0] != "categorical"],
    ids=lambda v: v if isinstance(v, str) else type(v).__name__,
)
def test_statsmodels_finds_the_mode(family, prior):
    import statsmodels.api as sm

    X, y = data(family)
    m, C = model(family, prior), sm.add_constant(X)
    alpha = np.r_[0.0, np.full(Q, 1.0)]
    s = m.with_prior(prior).penalty()["statsmodels"].settings
    if family == "gaussian":
        if not s["L1_wt"]:
            # its ridge shortcut takes no vector of weights; one descent on centred columns stands for the constant
            centred = sm.OLS(y - y.mean(), X - X.mean(0)).fit_regularized(
                "elastic_net", alpha=s["alpha"], L1_wt=0.0
            )
            b = np.r_[y.mean() - X.mean(0) @ centred.params, centred.params]
        else:
            b = (
                sm.OLS(y, C)
                .fit_regularized(
                    "elastic_net",
                    alpha=alpha * s["alpha"],
                    L1_wt=s["L1_wt"],
                    cnvrg_tol=1e-13,
                    maxiter=2000,
                    zero_tol=0.0,
                )
                .params
            )
    else:
        link = {"bernoulli": sm.families.Binomial(), "poisson": sm.families.Poisson()}[
            family
        ]
        b = (
            sm.GLM(y, C, family=link)
            .fit_regularized(
                "elastic_net",
                alpha=alpha * s["alpha"],
                L1_wt=s["L1_wt"],
                cnvrg_tol=1e-13,
                maxiter=2000,
                zero_tol=0.0,
            )
            .params
        )
    # its descent ends about there
    assert distance_from_mode(m, np.asarray(b)[:, None]) < 1e-3


@pytest.mark.parametrize("family", ["bernoulli", "poisson"])
def test_statsmodels_l1_sums_where_its_elastic_net_averages(family):
    import statsmodels.api as sm

    X, y = data(family)
    m = model(family, pr.Laplace(0.15))
    alpha = m.penalty()["statsmodels l1"].settings["alpha"]
    assert alpha == pytest.approx(1 / 0.15)
    kind = {"bernoulli": sm.Logit, "poisson": sm.Poisson}[family]
    b = (
        kind(y, sm.add_constant(X))
        .fit_regularized(
            method="l1",
            alpha=np.r_[0.0, np.full(Q, alpha)],
            disp=False,
            acc=1e-12,
            trim_mode="size",
            size_trim_tol=1e-8,
        )
        .params
    )
    assert distance_from_mode(m, np.asarray(b)[:, None]) < 1e-3


@pytest.mark.parametrize(
    ("family", "prior"),
    [a for a in accepted() if a[0] != "categorical"],
    ids=lambda v: v if isinstance(v, str) else type(v).__name__,
)
def test_glum_finds_the_mode(family, prior):
    glum = pytest.importorskip(
        "glum", reason="glum is not installed (pip install probreg[dev])"
    )
    s = model(family, prior).with_prior(prior).penalty()["glum"]
    name = re.findall(r"family='(\w+)'", s.call)[0]
    X, y = data(family)
    fit = glum.GeneralizedLinearRegressor(
        family=name, **s.settings, gradient_tol=1e-9, max_iter=5000
    ).fit(X, y)
    beta = np.r_[fit.intercept_, fit.coef_][:, None]
    assert distance_from_mode(model(family, prior), beta) < 1e-5


# ---- glmnet, which standardises ---------------------------------------------------------------------------------------


def glmnet_objective(
    family: str, X: np.ndarray, y: np.ndarray, b: np.ndarray, lam: float, alpha: float
) -> float:
    """glmnet's own criterion with standardize=TRUE, written out: columns and a Gaussian y divided by their sd."""
    s, size = X.std(0), y.std() if family == "gaussian" else 1.0
    w, eta = b[1:] * s / size, (b[0] + X @ b[1:])
    fit = (
        ((y - eta) ** 2).mean() / (2 * size**2)
        if family == "gaussian"
        else (np.logaddexp(0, eta) - y * eta).mean()
    )
    lam = lam / size
    return float(fit + lam * (alpha * np.abs(w).sum() + (1 - alpha) / 2 * (w**2).sum()))


@pytest.mark.parametrize("alpha", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("family", ["gaussian", "bernoulli"])
def test_glmnet_on_standardised_columns_has_the_same_level_sets(family, alpha):
    lam = 0.07
    X, y = data(family)
    bare = model(family, pr.Flat())
    read = (
        pr.Normal.from_ridge
        if alpha == 0
        else pr.Laplace.from_lasso
        if alpha == 1
        else pr.priors.ElasticNet.from_elastic_net
    )
    prior = read(
        of="glmnet",
        lam=lam,
        model=bare,
        standardize=True,
        **({} if alpha in (0, 1) else {"alpha": alpha}),
    )
    m = bare.with_prior(prior)
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(2, Q + 1))
    ours = float(m.log_posterior(a[:, None]) - m.log_posterior(b[:, None]))
    theirs = glmnet_objective(family, X, y, b, lam, alpha) - glmnet_objective(
        family, X, y, a, lam, alpha
    )
    scale = N / (SIGMA**2 / y.std() ** 2) if family == "gaussian" else N
    assert ours == pytest.approx(theirs * scale, rel=1e-9)


# ---- faults ------------------------------------------------------------------------------------------------------------


def test_what_cannot_be_converted_is_said():
    with pytest.raises(pr.DataError, match="needs sigma"):
        pr.Laplace.from_lasso(alpha=1.0, n=10)
    with pytest.raises(pr.DataError, match="needs n: pass n=, or a model"):
        pr.Laplace.from_lasso(alpha=1.0, sigma=1.0)
    with pytest.raises(pr.DataError, match="needs y_sd"):
        pr.Normal.from_ridge(lam=1.0, of="glmnet", n=10)
    with pytest.raises(pr.DataError, match="of is one of rss, sklearn"):
        pr.Normal.from_ridge(alpha=1.0, of="weka")
    with pytest.raises(pr.DataError, match="given by C"):
        pr.Normal.from_ridge(alpha=1.0, likelihood="bernoulli")
    with pytest.raises(pr.DataError, match="no setting 'beta'"):
        pr.Normal.from_ridge(alpha=1.0, beta=2.0)
    with pytest.raises(pr.DataError, match=r"one of them positive; these are 0 and -1"):
        pr.Normal.from_ridge(alpha=-1.0)
    with pytest.raises(pr.Incompatible, match="a criterion of Gaussian models"):
        pr.Normal.from_ridge(lam=1.0, of="rss", likelihood="poisson")
    with pytest.raises(pr.DataError, match="standardize="):
        pr.Normal.from_ridge(alpha=1.0, standardize=True)
    for prior in (
        pr.Flat(),
        pr.priors.Cauchy(),
        pr.Normal((1.0, 2.0, 3.0)),
        {"x1": pr.Normal()},
        pr.Normal(location=1.0),
    ):
        with pytest.raises(
            pr.Incompatible, match="the same for all columns but the intercept"
        ):
            model("gaussian", prior).penalty()
    with pytest.raises(pr.DataError, match="needs sigma"):
        pr.Model.from_arrays(*data("gaussian"), prior=pr.Normal()).penalty()
    assert pr.Model.from_arrays(*data("gaussian"), prior=pr.Normal()).penalty(
        sigma=SIGMA
    )["sklearn"].settings["alpha"] == pytest.approx(SIGMA**2)


# ---- the table of conversions ------------------------------------------------------------------------------------------


def rows_of_the_table() -> list[tuple[Any, str, Any]]:
    from .conversions import CONVERSIONS

    pairs = [
        (c, f.strip(), kind)
        for c in CONVERSIONS
        for f in c.likelihood.split(",")
        for kind in ("normal", "laplace")
    ]
    return [
        (c, f, k)
        for c, f, k in pairs
        if getattr(c, k) and (f, k) != ("categorical", "laplace")
    ]


@pytest.mark.parametrize(
    ("row", "family", "kind"),
    rows_of_the_table(),
    ids=lambda v: str(getattr(v, "call", v)),
)
def test_the_formulas_of_the_table_are_the_numbers(row, family, kind):
    tau, b = 0.31, 0.17
    m = model(family, pr.Normal(tau) if kind == "normal" else pr.Laplace(b))
    found = [r for r in m.penalty().rows if r.package == row.package]
    known = {
        "sigma": SIGMA,
        "tau": tau,
        "b": b,
        "N": float(N),
        "s": m.design.moments.y_scale,
    }
    expected = eval(getattr(row, kind), {"__builtins__": {}}, known)
    settings = found[0].settings
    name = (
        row.setting
        if row.package != "rss"
        else ("lam2" if kind == "normal" else "lam1")
    )
    assert settings[name] == pytest.approx(expected, rel=1e-12)


def test_the_page_holds_the_table():
    from pathlib import Path

    from .conversions import conversions

    assert (
        conversions()
        in (
            Path(__file__).parents[2] / "docs" / "explanation" / "penalties.md"
        ).read_text()
    )


def test_trials_have_no_standardised_columns_of_glmnet() -> None:
    rows = {"x": [0.0, 1.0, 3.0], "k": [1, 2, 4], "n": [3, 4, 5]}
    model = pr.Model.from_formula("p(k, n) ~ x", rows, likelihood="binomial")
    in_raw = pr.Laplace.from_lasso(lam=0.1, of="glmnet", model=model)
    assert in_raw.scale == pytest.approx(1.0 / (12 * 0.1))  # N counts trials
    with pytest.raises(pr.Incompatible, match="trials"):
        pr.Laplace.from_lasso(lam=0.1, of="glmnet", model=model, standardize=True)
