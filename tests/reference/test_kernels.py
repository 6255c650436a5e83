"""Kernel ridge and Gaussian processes against numbers of other packages, by every route to them.

T is four rows, x = (0, 1, 2, 4), with k = exp(-(a - b)^2 / 2), new rows at 1.5, 3 and 10; its answers are those of scikit-learn's
KernelRidge and GaussianProcessRegressor, those with a free offset of the bordered system of equations.
"""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from probreg import kernels
from probreg.kernels import RidgePath, basis, ridge_path, ridge_path_of_columns
from tests.conftest import reference_path

Array = np.ndarray
X, Y, S = (
    np.array([0.0, 1.0, 2.0, 4.0]),
    np.array([0.0, 1.0, 0.0, 2.0]),
    np.array([1.5, 3.0, 10.0]),
)
K = kernels.RBF(1.0)
CLOSE: dict[str, Any] = {
    "rtol": 1e-9,
    "atol": 1e-11,
}  # the answers have twelve decimals
T: dict[float, dict[str, Any]] = {
    0.1: {
        "alpha": [-1.049735515478, 2.198114845794, -1.323913544159, 1.959186828456],
        "f": [0.516761377392, 0.671133711257, 2.98e-8],
        "sd": [0.285635203039, 0.601736742776, 1.0],
        "evidence": -6.516582864717627,
        "df": 3.4244618435912875,
        "loo": [-0.748531129582, 1.102489274355, -0.925357473007, 2.110036974846],
        "norm2": 4.964007139809825,
        "offset alpha": [-1.624201105124, 2.102153244491, -1.810714244908, 1.332762105541],
        "b": 0.756207254755,
        "offset f": [0.544657853082, 0.732766888650, 0.756207275053],
    },
    1.0: {
        "alpha": [-0.171861224314, 0.620856767241, -0.245213938203, 1.013173327560],
        "f": [0.320224191830, 0.547905535758, 1.54e-8],
        "sd": [0.632006560882, 0.808967009162, 1.0],
        "evidence": -6.286395546779472,
        "df": 1.7886392032592309,
        "loo": [-0.311886758831, 1.027554266249, -0.442871652475, 2.016568174811],
        "norm2": 1.145553949341351,
        "offset alpha": [-0.492282920831, 0.402327267902, -0.537726464944, 0.627682117874],
        "b": 0.813104817986,
        "offset f": [0.561373008647, 0.916645984994, 0.813104827545],
    },
}  # fmt: skip
LAMS = sorted(T)
ROUTES = ["matrix", "exact", "cholesky"]


def path_of(route: str, offset: bool) -> RidgePath:
    """The path of T by its matrix, or by the columns of a basis of full rank."""
    if route == "matrix":
        return ridge_path(K(X), Y, offset=offset)
    settings = {"exact": {}, "cholesky": {"tol": 1e-15}}[route]
    return ridge_path_of_columns(
        basis(K, X, route, **settings).columns_at(X), Y, offset=offset
    )


def each(name: str) -> Array:
    return np.array([T[lam][name] for lam in LAMS])


@pytest.mark.parametrize("route", ROUTES)
def test_without_an_offset(route: str) -> None:
    path = path_of(route, False)
    assert_allclose(path.alpha(LAMS), each("alpha"), **CLOSE)
    assert_allclose(path.intercept(LAMS), 0.0)
    found = path.predict(K(S, X), LAMS)
    assert_allclose(found[:, :2], each("f")[:, :2], **CLOSE)
    assert_allclose(found[:, 2], each("f")[:, 2], rtol=2e-3)  # printed to three figures
    assert_allclose(
        np.sqrt(path.variance(K(S, X), K.diagonal(S), LAMS)), each("sd"), **CLOSE
    )
    assert_allclose(path.log_evidence(LAMS, sigma2=LAMS), each("evidence"), rtol=1e-12)
    assert_allclose(path.df(LAMS), each("df"), rtol=1e-12)
    assert_allclose(path.loo_residuals(LAMS), each("loo"), **CLOSE)
    assert_allclose(path.norm2(LAMS), each("norm2"), rtol=1e-12)


@pytest.mark.parametrize("route", ROUTES)
def test_with_a_free_offset(route: str) -> None:
    path = path_of(route, True)
    assert_allclose(path.alpha(LAMS), each("offset alpha"), **CLOSE)
    assert_allclose(path.intercept(LAMS), each("b"), **CLOSE)
    assert_allclose(path.predict(K(S, X), LAMS), each("offset f"), **CLOSE)
    assert_allclose(path.alpha(LAMS).sum(1), 0.0, atol=1e-14)


@pytest.mark.parametrize("kind", ["exact", "cholesky"])
def test_the_standard_deviation_off_the_data(kind: str) -> None:
    """The columns alone have none at x = 10; with what they lack it is that of the process."""
    settings = {"exact": {}, "cholesky": {"tol": 1e-15}}[kind]
    found = basis(K, X, kind, **settings)
    phi, new = found.columns_at(X), found.columns_at(S)
    of_columns = ridge_path_of_columns(phi, Y, offset=False).variance(
        new @ phi.T, np.square(new).sum(1), 0.1
    )[0]
    assert_allclose(np.sqrt(of_columns), [0.2542, 0.2988, 0.0], atol=5e-5)
    assert_allclose(
        np.sqrt(of_columns + found.residual_variance(S)), T[0.1]["sd"], **CLOSE
    )


def test_rows_that_are_combined_share_what_the_columns_lack() -> None:
    """At lam = 0.1: the SD of f(10) - f(10.1), and of the mean of f over 6 to 10, where independent rows would give 1.414 and 0.141."""
    found = basis(K, X)
    phi = found.columns_at(X)
    # of coefficients, in units of tau^2
    posterior = 0.1 * np.linalg.inv(phi.T @ phi + 0.1 * np.eye(found.size))
    for rows, weights, known in (
        (np.array([10.0, 10.1]), np.array([1.0, -1.0]), 0.099875130),
        (np.linspace(6.0, 10.0, 50), np.full(50, 0.02), 0.702796629),
    ):
        new = found.columns_at(rows)
        V = new @ posterior @ new.T + found.residual_covariance(rows)
        assert np.sqrt(weights @ V @ weights) == pytest.approx(known, abs=1e-9)
        R = np.sqrt(np.square(weights) @ found.residual_variance(rows))
        assert pytest.approx(known, rel=0.2) != R


@pytest.mark.parametrize("offset", [False, True])
@pytest.mark.parametrize("of", ["matrix", "columns"])
def test_leave_one_out_is_leaving_one_out(of: str, offset: bool) -> None:
    rng = np.random.default_rng(3)
    rows, y = rng.normal(size=(15, 2)), rng.normal(size=15)
    # the second has fewer columns than rows
    k = kernels.Matern(1.3, 1.5) if of == "matrix" else kernels.Linear()
    make = lambda at: (
        ridge_path(k(rows[at]), y[at], offset=offset)
        if of == "matrix"
        else ridge_path_of_columns(rows[at], y[at], offset=offset)
    )
    found = make(np.arange(15)).loo_residuals([0.02, 3.0])
    for i in range(15):
        others = np.delete(np.arange(15), i)
        alone = (
            y[i] - make(others).predict(k(rows[[i]], rows[others]), [0.02, 3.0])[:, 0]
        )
        assert_allclose(found[:, i], alone, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("offset", [False, True])
def test_the_path_of_columns_is_that_of_their_matrix(offset: bool) -> None:
    rng = np.random.default_rng(5)
    lams = [1e-3, 0.4, 50.0]
    for n, q in ((12, 3), (6, 9)):
        Phi, y, new = (
            rng.normal(size=(n, q)),
            rng.normal(size=n) + 4.0,
            rng.normal(size=(2, q)),
        )
        one, two = (
            ridge_path(Phi @ Phi.T, y, offset=offset),
            ridge_path_of_columns(Phi, y, offset=offset),
        )
        across, own = new @ Phi.T, np.square(new).sum(1)
        for name in (
            "alpha",
            "intercept",
            "df",
            "norm2",
            "residuals",
            "loo_residuals",
            "log_evidence",
        ):
            assert_allclose(
                getattr(one, name)(lams),
                getattr(two, name)(lams),
                rtol=1e-8,
                atol=1e-9,
                err_msg=name,
            )
        direct = two.coefficients(lams) @ new.T + two.intercept(lams)[:, None]
        assert_allclose(one.predict(across, lams), direct, rtol=1e-8)
        assert_allclose(
            one.variance(across, own, lams),
            two.variance(across, own, lams),
            rtol=1e-6,
            atol=1e-10,
        )


def test_the_evidence_is_the_density_of_y() -> None:
    """With an offset: the integral over b of N(y; b 1, tau^2 K + sigma^2 I), by its closed form from V^-1."""
    lam, sigma2 = 0.3, 0.7
    V = sigma2 / lam * K(X) + sigma2 * np.eye(4)
    P, one = np.linalg.inv(V), np.ones(4)
    log_det = np.linalg.slogdet(2 * np.pi * V)[1]
    plain = -0.5 * (Y @ P @ Y + log_det)
    assert ridge_path(K(X), Y, offset=False).log_evidence(lam, sigma2)[
        0
    ] == pytest.approx(plain, rel=1e-12)
    left = Y @ P @ Y - (one @ P @ Y) ** 2 / (one @ P @ one)
    free = -0.5 * (left + log_det + np.log(one @ P @ one / (2 * np.pi)))
    path = ridge_path(K(X), Y)
    assert path.log_evidence(lam, sigma2)[0] == pytest.approx(free, rel=1e-12)
    best = path.penalised_rss(lam)[0] / 3  # an offset leaves 3 of 4 dimensions
    near = path.log_evidence([lam] * 3, sigma2=best * np.array([0.99, 1.0, 1.01]))
    assert near.argmax() == 1
    assert path.log_evidence(lam)[0] == near[1]


def test_the_variance_with_an_offset_is_that_of_a_wide_prior_of_the_offset() -> None:
    """A Constant(v) is an offset with the prior N(0, v); as v grows it is free."""
    lam, v = 0.1, 1e6
    path, wide = ridge_path(K(X), Y), ridge_path((K + v)(X), Y, offset=False)
    assert_allclose(
        path.variance(K(S, X), K.diagonal(S), lam),
        wide.variance((K + v)(S, X), (K + v).diagonal(S), lam),
        rtol=1e-4,
    )
    assert_allclose(
        path.predict(K(S, X), lam), wide.predict((K + v)(S, X), lam), rtol=1e-5
    )


def test_primal_is_dual_on_three_rows() -> None:
    Phi, y = np.array([[1.0, 2.0], [1.0, 3.0], [1.0, 4.0]]), [5.0, 7.0, 9.0]
    dual, primal = (
        ridge_path(Phi @ Phi.T, y, offset=False),
        ridge_path_of_columns(Phi, y, offset=False),
    )
    for path in (dual, primal):
        assert_allclose(path.alpha(1.0), [np.array([10, 9, 8]) / 39], rtol=1e-12)
    assert_allclose(primal.coefficients(1.0), [[9 / 13, 79 / 39]], rtol=1e-12)
    assert_allclose(dual.alpha(1.0) @ Phi, [[9 / 13, 79 / 39]], rtol=1e-12)


def test_a_polynomial_is_its_explicit_map() -> None:
    k, known = (
        kernels.Polynomial(2, 1.0),
        [0.389815150417, 1.122145704966, 11.397607828923],
    )
    assert_allclose(
        ridge_path(k(X), Y, offset=False).predict(k(S, X), 0.5), [known], rtol=1e-9
    )
    explicit = lambda x: np.column_stack([np.ones_like(x), np.sqrt(2.0) * x, x * x])
    w = ridge_path_of_columns(explicit(X), Y, offset=False).coefficients(0.5)[0]
    assert_allclose(explicit(S) @ w, known, rtol=1e-9)
    found = basis(k, X)
    assert found.size == 3  # the rank of the map, of four rows
    assert_allclose(found.residual_variance(S), 0.0, atol=1e-8)


@pytest.fixture(scope="module")
def diabetes() -> tuple[Array, Array]:
    datasets = pytest.importorskip("sklearn.datasets")
    rows, y = datasets.load_diabetes(return_X_y=True, scaled=False)
    return (rows - rows.mean(0)) / rows.std(0), y


@pytest.mark.parametrize(
    ("offset", "mse", "loo", "df"),
    [
        (False, 2715.3688748, 3001.6095106, 21.7413180),
        (True, 2647.1319355, 2928.5462831, 22.0002490),
    ],
)
def test_diabetes(
    offset: bool, mse: float, loo: float, df: float, diabetes: Any
) -> None:
    rows, y = diabetes
    path = ridge_path(kernels.RBF(5.0)(rows), y, offset=offset)
    assert np.square(path.residuals(1.0)).mean() == pytest.approx(mse, rel=1e-9)
    assert np.square(path.loo_residuals(1.0)).mean() == pytest.approx(loo, rel=1e-9)
    assert path.df(1.0)[0] == pytest.approx(df, rel=1e-8)


def test_the_evidence_of_diabetes(diabetes: Any) -> None:
    rows, y = diabetes
    path = ridge_path(5000.0 * kernels.RBF(5.0)(rows), y - 152.0, offset=False)
    assert path.log_evidence(3000.0, 3000.0)[0] == pytest.approx(
        -2406.8217320268, rel=1e-12
    )


def test_motorcycle(certified: Any) -> None:
    import csv

    case = certified("kernel/mcycle_kernel")
    with reference_path("csv/mcycle.csv").open() as file:
        table = list(csv.DictReader(file))
    standard = lambda v: (v - v.mean()) / v.std()
    z, t = (
        standard(np.array([float(row[name]) for row in table]))
        for name in ("times", "accel")
    )
    k, new, known = (
        kernels.RBF(0.05**0.5),
        np.array(case["query_z"]),
        case["kernel_ridge"],
    )
    path, lam = ridge_path(k(z), t, offset=False), known["lam"]
    assert_allclose(path.predict(k(new, z), lam), [known["pred_at_query"]], rtol=1e-10)
    assert path.df(lam)[0] == pytest.approx(known["effective_df"], rel=1e-10)
    assert np.square(path.loo_residuals(lam)).mean() == pytest.approx(
        known["loo_mse"], rel=1e-10
    )
    gp = known["gp"]
    assert_allclose(
        np.sqrt(path.variance(k(new, z), k.diagonal(new), lam)),
        [gp["posterior_sd_of_f"]],
        rtol=1e-10,
    )
    assert path.log_evidence(lam, gp["noise_variance"])[0] == pytest.approx(
        gp["log_marginal_likelihood"], rel=1e-12
    )
