"""Laws of every registered covariance function: positive, symmetric, its diagonal, bound, slopes, spectrum and files, and closure."""

import math

import numpy as np
import pytest
from scipy.integrate import quad

import probreg as pr
from probreg import kernels
from probreg.kernels import KERNELS, CovarianceFunction, kernel_from_spec
from probreg.kernels.base import RowPairs
from tests.properties.cases import own

RNG = np.random.default_rng(11)
X = np.abs(RNG.normal(size=(30, 2)))
Z = np.abs(RNG.normal(size=(7, 2)))
ARD = (0.7, 1.9)

# One case or more of every registered function, in two columns.
CASES: dict[str, list[CovarianceFunction]] = {
    "rbf": [kernels.RBF(0.8), kernels.RBF(ARD)],
    "matern": [
        kernels.Matern(length, nu) for nu in (0.5, 1.5, 2.5) for length in (0.8, ARD)
    ],
    "rational_quadratic": [
        kernels.RationalQuadratic(0.8, 1.7),
        kernels.RationalQuadratic(ARD, 2.2),
    ],
    "periodic": [kernels.Periodic(1.3, 0.9)],
    "constant": [kernels.Constant(2.5)],
    "linear": [kernels.Linear()],
    "polynomial": [kernels.Polynomial(3, 0.7)],
    "sum": [
        kernels.RBF(0.8).on(0) + kernels.Matern(1.2).on(1) + 1.5,
        kernels.RBF(0.5) + kernels.RBF(3.0),
    ],
    "product": [kernels.RBF(2.0) * kernels.Periodic(1.3) * (kernels.Linear() + 1.0)],
    "scaled": [
        2.5 * kernels.RBF(ARD),
        2.0 * (3.0 * kernels.RBF(0.8)).on(0),
        2.0 * kernels.Constant(3.0),
    ],
    "on": [kernels.Matern(0.8).on(1)],
}
OWN = set(CASES)
# what a user registers beside them, of one column
CASES |= {name: [KERNELS[name]().on(0)] for name in sorted(set(KERNELS) - OWN)}
EVERY = [pytest.param(k, id=str(k)) for several in CASES.values() for k in several]
every = pytest.mark.parametrize("k", EVERY)
SPECTRAL = [
    k
    for several in CASES.values()
    for k in several
    if k.stationary and k.density(np.ones((1, 2))) is not None
]


def numbers(part):
    """The hyperparameters of its own that a function has, one number each."""
    return np.concatenate(
        [np.zeros(0), *(np.ravel(getattr(part, name)) for name in part.hyperparameters)]
    )


def positive(K):
    return np.linalg.eigvalsh(K)[0] >= -1e-10 * len(K) * np.abs(K).max()


def test_every_registered_function_has_a_case():
    assert set(own(KERNELS)) == OWN
    for name, several in CASES.items():
        assert all(name in {part.name for part in k._walk()} for k in several)


@every
def test_matrices_are_symmetric_and_positive(k):
    for rows in (X, 100.0 * X, X.round(1), np.repeat(X[:6], 4, axis=0)):
        K = k(rows)
        assert (K == K.T).all()
        assert positive(K)


@every
def test_the_diagonal_is_that_of_the_matrix_and_within_the_bound(k):
    np.testing.assert_allclose(k.diagonal(X), np.diagonal(k(X)), rtol=1e-13)
    assert (k.diagonal(10.0 * X) <= k.bound * (1 + 1e-14)).all()
    assert k.stationary == np.allclose(k(X + 1.25, Z + 1.25), k(X, Z))
    if k.stationary:
        np.testing.assert_allclose(k.diagonal(X), k.bound, rtol=1e-14)


@every
def test_rows_of_two_sets_are_a_block_of_the_whole(k):
    np.testing.assert_allclose(
        k(X, Z), k(np.vstack([X, Z]))[: len(X), len(X) :], rtol=1e-12, atol=1e-14
    )
    np.testing.assert_allclose(k(X, Z), k(Z, X).T, rtol=1e-14)


@every
def test_slopes_are_differences(k):
    h = 1e-5
    assert list(k.slopes(RowPairs(X, Z))) == list(k.hyper)
    for rows in ((X, Z), (X, X)):
        for name, slope in k.slopes(RowPairs(*rows)).items():
            up, down = (
                k.at(**{name: k.hyper[name] * math.exp(e)})(*rows) for e in (h, -h)
            )
            np.testing.assert_allclose(
                slope, (up - down) / (2 * h), rtol=1e-6, atol=1e-8 * np.abs(slope).max()
            )


@every
def test_hyperparameters_are_set_by_their_names(k):
    assert k.at(**k.hyper) == k
    # no name stands for two
    assert len(k.hyper) == sum(len(numbers(part)) for part in k._walk())
    moved = k.at(**{name: 1.1 * value for name, value in k.hyper.items()})
    assert moved.hyper == pytest.approx(
        {name: 1.1 * value for name, value in k.hyper.items()}, rel=1e-15
    )
    with pytest.raises(pr.DataError, match="has no hyperparameter 'spam'; it has"):
        k.at(spam=1.0)


def test_a_common_length_moves_by_the_sum_of_the_lengths():
    one, each = (
        kernels.RBF(1.3).slopes(RowPairs(X, Z)),
        kernels.RBF((1.3, 1.3)).slopes(RowPairs(X, Z)),
    )
    np.testing.assert_allclose(
        one["length"], each["length[0]"] + each["length[1]"], rtol=1e-12, atol=1e-300
    )
    assert (kernels.RBF((1.0, 2.0)) * 3.0).at(length=(4.0, 5.0)).hyper == {
        "variance": 3.0,
        "length[0]": 4.0,
        "length[1]": 5.0,
    }


def test_names_in_a_sum_tell_its_parts_apart():
    k = kernels.RBF(1.0) + 2.0 * kernels.Periodic(3.0) + kernels.RBF(4.0)
    assert k.hyper == {
        "rbf1.length": 1.0,
        "scaled.variance": 2.0,
        "scaled.period": 3.0,
        "scaled.length": 1.0,
        "rbf2.length": 4.0,
    }
    assert k.at(**{"rbf2.length": 9.0}) == kernels.RBF(1.0) + 2.0 * kernels.Periodic(
        3.0
    ) + kernels.RBF(9.0)


@every
def test_a_function_prints_the_expression_that_returns_it(k):
    names = {cls.__name__: cls for cls in KERNELS.values()}
    assert eval(repr(k), names) == k


@every
def test_a_specification_is_names_and_numbers_and_comes_back(k):
    import json

    assert kernel_from_spec(json.loads(json.dumps(k.spec()))) == k


# ---- spectra -------------------------------------------------------------------------------------------------------


ONE_COLUMN = [kernels.RBF(0.8), 2.0 * kernels.Matern(0.8)]
ONE_COLUMN += [kernels.Matern(0.8, nu) + 0.5 * kernels.RBF(2.0) for nu in (1.5, 2.5)]


@pytest.mark.parametrize("k", ONE_COLUMN, ids=str)
def test_the_spectrum_gives_back_the_function_in_one_column(k):
    for r in (0.0, 0.3, 1.0, 2.5):
        # k(r) = (1/pi) int_0^inf S(w) cos(w r) dw
        S = lambda w: float(k.spectral_density([w])[0])
        found = (
            quad(S, 1e-9, np.inf, limit=500)[0]
            if r == 0
            else quad(S, 1e-9, np.inf, weight="cos", wvar=r, limlst=200)[0]
        )
        assert found / math.pi == pytest.approx(k([0.0], [r]).item(), abs=2e-6)


def test_the_spectrum_of_a_rough_process_is_cauchy():
    # S(w) = 2 l / (1 + l^2 w^2) of exp(-r / l)
    w = np.array([0.0, 0.4, 3.0])
    np.testing.assert_allclose(
        kernels.Matern(0.8, 0.5).spectral_density(w),
        1.6 / (1 + 0.64 * w**2),
        rtol=1e-14,
    )


@pytest.mark.parametrize("k", SPECTRAL, ids=str)
def test_the_spectrum_gives_back_the_function_in_two_columns(k):
    """Over a lattice of frequencies with step h, Poisson's sum gives the function at r and at r + 2 pi / h, which is small; what
    lies beyond the lattice is a share of the bound."""
    h, top = 0.2, 60.0
    w = np.arange(-top, top + h / 2, h)
    grid = np.stack(np.meshgrid(w + h / 2, w + h / 2), -1).reshape(-1, 2)
    S = k.spectral_density(grid) * h * h / (2 * np.pi) ** 2
    for r in ([0.0, 0.0], [0.5, -0.2], [1.5, 1.0]):
        found = (S * np.cos(grid @ r)).sum()
        rough = any(part.name == "matern" and part.nu == 0.5 for part in k._walk())
        assert found == pytest.approx(
            k([r], [[0.0, 0.0]]).item(), abs=2e-2 if rough else 5e-3
        )


@pytest.mark.parametrize(
    "k",
    [kernels.RBF(ARD), 2.0 * (kernels.RBF(ARD) + kernels.Matern((0.3, 0.5)))],
    ids=str,
)
def test_along_a_column_is_the_function_of_rows_that_differ_there_alone(k):
    r = np.linspace(0.0, 2.0, 5)
    for j in (0, 1):
        x = np.zeros((5, 2))
        x[:, j] = r
        np.testing.assert_allclose(k.along(j)(r), k(x), rtol=1e-14)


# ---- closure -------------------------------------------------------------------------------------------------------


def test_sums_products_and_multiples_are_those_of_the_matrices():
    a, b = kernels.RBF(0.8), kernels.Polynomial(2, 0.5)
    A, B = a(X, Z), b(X, Z)
    for k, K in (
        (a + b, A + B), (a * b, A * B), (2.5 * a, 2.5 * A), (a * 2.5, 2.5 * A), (1.5 + a, 1.5 + A), (a + 1.5, A + 1.5),
        (2.0 * (3.0 * a), 6.0 * A), (a + (b + a), A + B + A), (a * (b * a), A * B * A), ((a + b) * a, (A + B) * A),
    ):  # fmt: skip
        np.testing.assert_allclose(k(X, Z), K, rtol=1e-13)
    assert len((a + (b + a)).parts) == 3
    assert 2.0 * (3.0 * a) == 6.0 * a


def test_direct_sums_and_columns():
    a, b = kernels.RBF(0.8), kernels.Matern(1.1)
    np.testing.assert_allclose(
        (a.on(0) + b.on(1))(X, Z), a(X[:, 0], Z[:, 0]) + b(X[:, 1], Z[:, 1]), rtol=1e-14
    )
    # a Gaussian is the product of its columns
    np.testing.assert_allclose((a.on(0) * a.on(1))(X, Z), a(X, Z), rtol=1e-13)
    three = np.column_stack([X, X[:, 0] ** 2])
    # columns of columns
    np.testing.assert_allclose(a.on(1).on(2, 0)(three), a(three[:, 0]), rtol=1e-14)
    named = (a.on("u") + kernels.RBF(1.0, scaled=True).on("v")).resolve(X, ["u", "v"])
    np.testing.assert_allclose(
        named(X), a(X[:, 0]) + kernels.RBF(X[:, 1].std(ddof=1))(X[:, 1]), rtol=1e-12
    )


@pytest.mark.parametrize(
    "k",
    [kernels.RBF(0.6, scaled=True), kernels.Matern((0.6, 2.0), 2.5, scaled=True)],
    ids=str,
)
def test_a_length_on_standardised_columns_follows_the_units(k):
    U = (X - X.mean(0)) / X.std(0, ddof=1)
    plain = type(k)(
        **{**{f: getattr(k, f) for f in k.__dataclass_fields__}, "scaled": False}
    )
    np.testing.assert_allclose(k.resolve(X)(X), plain(U), rtol=1e-12)
    far = X * [1000.0, 0.01] + 3.0
    np.testing.assert_allclose((2.0 * k).resolve(far)(far), 2.0 * plain(U), rtol=1e-9)


def test_power_series_and_limits_stay_positive():
    """exp(k) is a limit of power series with coefficients >= 0; RBF is the limit of the rational quadratic."""
    k = kernels.Polynomial(1, 0.3)
    series = 1.0 + k * (1.0 + (1 / 2) * k * (1.0 + (1 / 3) * k))
    assert positive(series(X))
    assert positive(np.exp(k(X)))
    far = kernels.RationalQuadratic(0.8, 1e8)(X)
    np.testing.assert_allclose(far, kernels.RBF(0.8)(X), atol=1e-7)


def test_a_function_of_ones_own_is_any_other():
    own = kernels.CustomFunction(
        lambda x, z: np.exp(-0.5 * np.square(x[:, None] - z[None]).sum(-1))
    )
    np.testing.assert_allclose(
        (2.0 * own.on(0))(X, Z), 2.0 * kernels.RBF(1.0)(X[:, 0], Z[:, 0]), rtol=1e-13
    )
    many = RNG.normal(size=(150, 2))
    np.testing.assert_allclose(own.diagonal(many), 1.0)


@pytest.mark.parametrize(
    ("name", "k"),
    [
        ("rbf", kernels.RBF()),
        ("matern52", kernels.Matern(nu=2.5)),
        ("Rational-Quadratic", kernels.RationalQuadratic()),
    ],
)
def test_a_function_by_its_name(name, k):
    assert kernels.read_kernel(name) == k
    assert kernels.read_kernel(k) is k
