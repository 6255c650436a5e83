"""What is no covariance function, and rows that none takes: each is one sentence that says what to do."""

import functools
import re

import numpy as np
import pytest

import probreg as pr
from probreg import kernels
from probreg.kernels.base import RowPairs

X = np.array([[0.0, 1.0], [1.0, 0.5], [2.0, 3.0]])
RBF = kernels.RBF(1.0)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: kernels.RBF(0.0), "RBF length is a positive finite number (or one per column), got 0.0"),
        (lambda: kernels.RBF((1.0, -2.0)), "where entry 1 is -2.0"),
        (lambda: kernels.Matern(-1.0), "Matern length is a positive finite number"),
        (lambda: kernels.Matern(1.0, 2.0), "Matern nu is 0.5, 1.5 or 2.5, got 2; as nu grows it becomes RBF"),
        (lambda: kernels.RationalQuadratic(1.0, 0.0), "RationalQuadratic alpha is a positive finite number, got 0.0"),
        (lambda: kernels.Periodic(0.0), "Periodic period is a positive finite number, got 0.0"),
        (lambda: kernels.Polynomial(2, -1.0), "got -1.0: with a negative one it is no covariance function"),
        (lambda: kernels.Polynomial(1.5), "Polynomial degree is a whole number of at least 1, got 1.5"),
        (lambda: kernels.Polynomial(0), "Polynomial degree is a whole number of at least 1, got 0"),
        (lambda: -2.0 * RBF, "got -2.0: a negative multiple is no covariance function"),
        (lambda: RBF + -1.0, "Constant variance is a positive finite number, got -1.0"),
        (lambda: RBF.on(), "on takes columns by number from 0, or by name, each once, got ()"),
        (lambda: RBF.on(0, 0), "each once, got (0, 0)"),
        (lambda: RBF.on(-1), "by number from 0, or by name, each once, got -1"),
        (lambda: RBF.on(1.5), "each once, got 1.5"),
        (lambda: kernels.Sum((RBF,)), "a sum of covariance functions takes a tuple of 2 or more of them"),
        (lambda: kernels.Sum((RBF, "linear")), "a sum is of covariance functions, got 'linear'"),
        (lambda: kernels.CustomFunction("rbf"), "of a function (x, z) -> k (n, m), got 'rbf'"),
        (lambda: kernels.read_kernel("matrn"), "did you mean 'matern'?"),
        (lambda: kernels.read_kernel("matern32", nu=2.5), "matern32 has nu = 1.5; write 'matern' to give nu"),
        (lambda: kernels.read_kernel("rbf", nu=2.5), "rbf takes no nu=: it takes length, scaled"),
        (lambda: kernels.read_kernel("sum"), "combines other functions"),
        (lambda: kernels.read_kernel(3), "kernel is a name or a covariance function such as pr.kernels.RBF(1.0), got 3"),
        (lambda: kernels.read_kernel(RBF, length=2.0), "with length"),
    ],
)  # fmt: skip
def test_what_is_no_covariance_function(make, said):
    with pytest.raises(pr.ProbregError, match=re.escape(said)):
        make()


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: RBF(["a", "b"]), "x must be numeric; row 0 holds 'a'; levels need a column of 0 and 1 each"),
        (lambda: RBF([0.0, np.nan]), "x holds nan in row 1, column 0"),
        (lambda: RBF(X, [[0.0, np.inf]]), "z holds inf in row 0, column 1"),
        (lambda: RBF([1e200]), "x holds 1e+200 in row 0, column 0, where a finite number belongs, of at most 1e+140"),
        (lambda: kernels.Polynomial(3)([1.0, 1e120]), "is beyond 1.8e308 of rows 0 and 1, which hold 1e+120: scale the columns"),
        (lambda: kernels.basis(kernels.Polynomial(9) * RBF, [1.0, 1e100]), "is beyond 1.8e308 of rows 1 and 1, which hold 1e+100"),
        (lambda: RBF(X, [1.0, 2.0]), "z has 1 columns where 2 belong"),
        (lambda: RBF(np.zeros((0, 2))), "x has 0 rows and 2 columns"),
        (lambda: RBF(np.zeros((2, 2, 2))), "x is an array of rows and columns, or of one column, got shape (2, 2, 2)"),
        (lambda: kernels.RBF((1.0, 2.0, 3.0))(X), "rbf has 3 lengths, and the rows have 2 columns: give one for each"),
        (lambda: kernels.RBF(1.0, scaled=True)(X), "has its length on standardised columns: write .resolve(X) with the rows first"),
        (lambda: kernels.RBF(1.0, scaled=True).resolve(X * [1.0, 0.0]), "column 1 does not vary, so no length"),
        (lambda: RBF.on("a")(X), "names a column 'a', and an array has no names: write .resolve(X, names) first"),
        (lambda: RBF.on("c").resolve(X, ["a", "b"]), "asks for column 'c', and there are a, b"),
        (lambda: RBF.on(2)(X), "asks for column 2, and there are 0 to 1"),
        (lambda: RBF.resolve(X, ["a"]), "names holds 1 names, and X has 2 columns"),
        (lambda: kernels.Linear().spectral_density([1.0]), "Linear() has no spectral density: it is no function of x - z"),
        (lambda: kernels.RationalQuadratic().spectral_density([1.0]), "no spectral density is known for it"),
        (lambda: kernels.Periodic().spectral_density([1.0]), "no spectral density is known for it"),
    ],
)  # fmt: skip
def test_rows_that_it_does_not_take(call, said):
    with pytest.raises(pr.ProbregError, match=re.escape(said)):
        call()


@pytest.mark.parametrize(
    "k",
    [
        RBF,
        *(kernels.Matern(1e-140, nu) for nu in (0.5, 1.5, 2.5)),
        kernels.RationalQuadratic(1e-100),
    ],
    ids=str,
)
def test_the_farthest_rows_have_nothing_in_common(k):
    x = np.array([[-1e140], [0.0], [1e140]])
    np.testing.assert_allclose(k(x), np.eye(3), atol=1e-60)
    assert all(np.isfinite(slope).all() for slope in k.slopes(RowPairs(x, x)).values())


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (
            lambda x, z: -np.exp(-np.square(x - z.T)),
            r"the least eigenvalue of the 3 x 3 matrix of this function is -\d",
        ),
        (lambda x, z: x - z.T, "a covariance is symmetric"),
        (
            lambda x, z: np.ones(3),
            r"k\(x, z\) has shape \(3,\), and 3 rows by 3 rows give \(3, 3\)",
        ),
        (
            lambda x, z: np.full((len(x), len(z)), np.nan),
            r"k\(x, z\) is nan for row 0 of x and row 0 of z",
        ),
    ],
)
def test_a_function_of_ones_own_is_checked_at_the_rows(function, said):
    with pytest.raises(pr.DataError, match=said):
        kernels.CustomFunction(function)([0.0, 1.0, 3.0])


@pytest.mark.parametrize(
    ("function", "kind", "settings"),
    [
        (lambda x, z: np.exp(-(np.abs(x - z.T) ** 4)), "cholesky", {}),
        (lambda x, z: np.tanh(x @ z.T - 1.0), "cholesky", {}),
    ],
)
def test_an_indefinite_function_has_no_basis_of_anchors(function, kind, settings):
    with pytest.raises(
        pr.DataError,
        match=r"the least eigenvalue of the (\d+) x \1 matrix of this function is -\d",
    ):
        kernels.basis(
            kernels.CustomFunction(function),
            np.linspace(0.0, 4.0, 40),
            kind,
            **settings,
        )


@pytest.mark.parametrize(
    "k", [RBF, kernels.RBF(3.0), kernels.Polynomial(5), RBF + kernels.Linear()], ids=str
)
def test_a_nearly_singular_matrix_is_not_taken_for_an_indefinite_one(k):
    """Rounding alone decides the variances that many anchors leave."""
    rows = np.linspace(0.0, 5.0, 100)
    basis = kernels.basis(k, rows, "cholesky", tol=1e-15)
    Z = basis.columns_at(rows)
    assert np.allclose(Z @ Z.T, k(rows, rows), atol=1e-6)


def test_a_great_circle_distance_in_a_gaussian_is_found_out():
    """exp(-d^2 / (2 l^2)) of a distance that is not Euclidean has negative eigenvalues; exp(-d / l) has none."""
    angles = np.linspace(0.0, 2 * np.pi, 12, endpoint=False)
    arc = lambda x, z: np.abs((x - z.T + np.pi) % (2 * np.pi) - np.pi)
    with pytest.raises(pr.DataError, match="least eigenvalue"):
        kernels.CustomFunction(lambda x, z: np.exp(-np.square(arc(x, z)) / 8.0))(angles)
    kernels.CustomFunction(lambda x, z: np.exp(-arc(x, z) / 2.0))(angles)


def test_a_function_of_ones_own_is_not_saved():
    own = kernels.CustomFunction(lambda x, z: x @ z.T)
    with pytest.raises(
        pr.Incompatible, match="is code, and files hold names and numbers only"
    ):
        (own + RBF).spec()


@pytest.mark.parametrize(
    "spec",
    [
        {"name": "spam"},
        {"name": "rbf", "width": 2.0},
        {"name": "rbf", "length": "long"},
        {"name": "sum", "parts": [{"name": "rbf"}, 3.0]},
        {"name": "scaled", "parts": [{"name": "rbf"}], "variance": -1.0},
        {"name": "sum", "parts": [{"length": 1.0}, {"name": "rbf"}]},
        {"name": "on", "parts": [{"name": "rbf"}], "columns": [0.5]},
        {"name": ["rbf"]},
        {"length": 2.0},
        3.0,
        functools.reduce(
            lambda inner, _: {"name": "scaled", "parts": [inner]},
            range(100_000),
            {"name": "rbf"},
        ),
    ],
    ids=range(11),
)
def test_a_file_that_holds_no_covariance_function(spec):
    with pytest.raises(pr.ProbregError):
        kernels.kernel_from_spec(spec)


# ---- bases ---------------------------------------------------------------------------------------------------------

LINE = np.linspace(0.0, 10.0, 30)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: kernels.basis(RBF, LINE, "spam"), "kind is one of exact, cholesky, hsgp, got 'spam'"),
        (lambda: kernels.basis(RBF, LINE, "exact", tol=0.1), "exact takes no tol="),
        (lambda: kernels.basis(RBF, ["a", "b"]), "X must be numeric; row 0 holds 'a'"),
        (lambda: kernels.basis(kernels.RBF(1e-6), LINE), "length = 1e-06 is far below the distances of the rows"),
        (lambda: kernels.basis(kernels.RBF(1e9), LINE), "length = 1e+09 is far above the distances of the rows, so that k is constant"),
        (lambda: kernels.basis(2.0 * kernels.Matern(1e-3, 2.5), LINE, "cholesky"), "is far below the distances"),
        (lambda: kernels.basis(kernels.RBF(1e-5), LINE, "hsgp"), "the columns span 10"),
        (lambda: kernels.basis(RBF, np.arange(5001.0), "exact"), "5,001 x 5,001 numbers, 0.2 GB: write 'cholesky' in its place"),
        (lambda: kernels.basis(RBF, LINE, "cholesky", size=31), "size=31: expected at most 30, the number of distinct rows"),
        (lambda: kernels.basis(kernels.Linear(), np.zeros(4)), "Linear() is 0 at every row, so it has no columns there"),
        (lambda: kernels.basis(kernels.Linear(), np.zeros(4), "cholesky"), "is 0 at every row"),
        (lambda: kernels.basis(RBF, LINE).columns_at(X), "X has 2 columns where 1 belong"),
        (lambda: kernels.basis(kernels.Periodic(3.0), LINE, "hsgp"), "no spectral density is known for it"),
        (lambda: kernels.basis(kernels.Linear(), LINE, "hsgp"), "it is no function of x - z; take 'rbf' or 'matern32', or another basis"),
        (lambda: kernels.basis(RBF, np.eye(4), "hsgp"), "hsgp takes up to 3 columns, got 4: write 'cholesky' in its place"),
        (lambda: kernels.basis(RBF, LINE, "hsgp", range=(0.0, 5.0)), "row 15, column 0 holds 5.17241, beyond the range 0 to 5"),
        (lambda: kernels.basis(RBF, LINE, "hsgp", range=(5.0, 0.0)), "column 0 has the range 5 to 0, which is empty"),
        (lambda: kernels.basis(RBF, LINE, "hsgp", range=(1.0, 2.0, 3.0)), "range is (low, high), or one such pair for each of 1 columns"),
        (lambda: kernels.basis(RBF, np.ones(4), "hsgp"), "column 0 has the range 1 to 1, which is empty: give range=(low, high)"),
        (lambda: kernels.basis(RBF, LINE, "hsgp", half_width=4.0), "half_width is more than 5, half the range of column 0, got 4.0"),
        (lambda: kernels.basis(RBF, LINE, "hsgp", size=0), "size is a whole number from 1 to 10,000, or one for each column, got 0"),
        (lambda: kernels.basis(RBF, LINE, "hsgp", size=(3, 4)), "size is one number, or one for each of 1 columns, got 2"),
        (lambda: kernels.basis(RBF, LINE, "hsgp", tol=0.1, size=4, half_width=50.0), "tol= has no effect beside size= and half_width="),
        (lambda: kernels.basis(kernels.Matern(1.0, 0.5), LINE, "hsgp", tol=1e-5), "functions: take a larger tol, size=, a longer length"),
    ],
)  # fmt: skip
def test_a_basis_that_cannot_be_is_one_sentence(call, said):
    with pytest.raises(pr.ProbregError, match=re.escape(said)):
        call()


@pytest.mark.parametrize(
    "wrong",
    [
        {"form": "KernelBasis"},
        {"form": "os"},
        {"T": [[1.0]]},
        {"anchors": [[0.0, 1.0]]},
        {"kernel": {"name": "spam"}},
        {"more": 1},
        {"kernel": 3.0},
        {"width": 1.5},
        {"error": "none"},
        {"holds_rows": 0},
        {"T": "abc"},
        {"anchors": [["a"]]},
    ],
)
def test_a_file_that_holds_no_basis(wrong):
    spec = kernels.basis(RBF, LINE).spec()
    with pytest.raises(pr.ProbregError):
        kernels.basis_from_spec(spec | wrong)


# ---- ridge paths ---------------------------------------------------------------------------------------------------

GRAM = RBF(LINE)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: kernels.ridge_path(GRAM[:3], LINE), "K is a symmetric matrix of k(x_i, x_j), got shape (3, 30)"),
        (lambda: kernels.ridge_path(np.triu(GRAM), LINE), ": a covariance is symmetric"),
        (lambda: kernels.ridge_path(-GRAM, LINE), "the least eigenvalue of the 30 x 30 matrix of k is -"),
        (lambda: kernels.ridge_path(GRAM, LINE[:4]), "y has 4 values, and there are 30 rows"),
        (lambda: kernels.ridge_path(GRAM, [np.nan] * 30), "y holds nan in row 0, column 0, where a finite number belongs"),
        (lambda: kernels.ridge_path([[1.0]], [1.0]), "a ridge path is of two rows or more, got one"),
        (lambda: kernels.ridge_path(GRAM, LINE).alpha(0.0), "lam is a positive finite number, or several, got 0.0"),
        (lambda: kernels.ridge_path(GRAM, LINE).df([1.0, -2.0]), "got -2.0"),
        (lambda: kernels.ridge_path(GRAM, LINE).df([]), "lam is a positive finite number, or several, got none"),
        (lambda: kernels.ridge_path(GRAM, LINE).df([1.0, np.nan]), "got nan"),
        (lambda: kernels.ridge_path(kernels.RBF(50.0)(LINE), LINE).df(1e-15), "K + lam I is not positive definite to rounding at lam = 1e-15"),
        (lambda: kernels.ridge_path(GRAM, LINE).log_evidence(1.0, sigma2=-1.0), "sigma2 is positive, got -1"),
        (lambda: kernels.ridge_path(GRAM, LINE).predict(np.ones((2, 3)), 1.0), "with the 30 rows of the path, got shape (2, 3)"),
        (lambda: kernels.ridge_path(GRAM, LINE).variance(GRAM[:2], [1.0], 1.0), "diagonal is k(s, s) of 2 rows, got shape (1,)"),
        (lambda: kernels.ridge_path(GRAM, LINE).coefficients(1.0), "coefficients are those of columns: write ridge_path_of_columns"),
    ],
)  # fmt: skip
def test_a_ridge_path_that_cannot_be(call, said):
    with pytest.raises(pr.DataError, match=re.escape(said)):
        call()


def test_the_least_lam_that_is_named_is_taken():
    path = kernels.ridge_path(kernels.RBF(50.0)(LINE), LINE)
    with pytest.raises(
        pr.DataError, match=r"the least lam that is, is (\S+)"
    ) as caught:
        path.df(1e-15)
    least = float(str(caught.value).split()[-1])
    assert np.isfinite(path.loo_residuals(1.01 * least)).all()


def test_a_formula_in_place_of_inputs_names_the_call_that_takes_it():
    table = {"x": [0.0, 1.0, 2.0], "y": [1.0, 0.0, 2.0]}
    with pytest.raises(pr.DataError, match=r"Model\.from_formula"):
        pr.gp("y ~ x", table)
