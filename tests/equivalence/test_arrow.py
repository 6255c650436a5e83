"""The factor of an arrow against the matrix that it stands for."""

import numpy as np
import pytest
from scipy import sparse

from probreg.linalg import Arrow

SHAPES = [(5, 1, 3), (4, 2, 2), (3, 3, 1), (2, 8, 4), (1, 2, 5)]


def arrow_of(shape, rng, lead=()):
    """D, E, F and the whole matrix, of random positive definite ones."""
    G, K, r = shape
    n = 3 * (G * K + r)
    codes, Z, X = (
        rng.integers(0, G, n),
        rng.normal(size=(n, K)),
        rng.normal(size=(n, r)),
    )
    W = np.zeros((n, G, K))
    W[np.arange(n), codes] = Z
    A = np.hstack([W.reshape(n, G * K), X])
    H = A.T @ A + np.eye(G * K + r)
    at = np.arange(G * K).reshape(G, K)
    D = np.stack([H[np.ix_(i, i)] for i in at])
    return D, H[: G * K, G * K :].reshape(G, K, r), H[G * K :, G * K :], H


@pytest.mark.parametrize("shape", SHAPES)
def test_an_arrow_is_its_matrix(shape):
    rng = np.random.default_rng(0)
    (G, K, r), (D, E, F, H) = shape, arrow_of(shape, rng)
    for k in (r, 0, r - 1):
        found = Arrow(D, E, F).leading_part(k)
        inner = H[: G * K + k, : G * K + k]
        np.testing.assert_allclose(
            found.log_det(), np.linalg.slogdet(inner)[1], rtol=1e-12
        )
        right = rng.normal(size=(G * K + k, 2))
        a, c = found.solve(right[: G * K].reshape(G, K, 2), right[G * K :])
        solved = np.linalg.solve(inner, right)
        np.testing.assert_allclose(
            np.vstack([a.reshape(G * K, 2), c]), solved, atol=1e-12
        )
        y, z = found.half(right[: G * K].reshape(G, K, 2), right[G * K :])
        np.testing.assert_allclose(
            np.square(y).sum((0, 1)) + np.square(z).sum(0),
            (right * solved).sum(0),
        )
        S = np.linalg.inv(inner)
        own, border, corner = found.inverse()
        at = np.arange(G * K).reshape(G, K)
        np.testing.assert_allclose(
            own, np.stack([S[np.ix_(i, i)] for i in at]), atol=1e-12
        )
        np.testing.assert_allclose(
            border.reshape(G * K, k), S[: G * K, G * K :], atol=1e-12
        )
        np.testing.assert_allclose(corner, S[G * K :, G * K :], atol=1e-12)
        np.testing.assert_allclose(found.inverse_blocks()[0], own.sum(0), atol=1e-12)


def test_arrows_side_by_side():
    rng = np.random.default_rng(1)
    many = [arrow_of((4, 2, 3), rng) for _ in range(3)]
    D, E, F = (np.stack([each[i] for each in many]) for i in range(3))
    together, a, c = (
        Arrow(D, E, F),
        rng.normal(size=(3, 4, 2, 1)),
        rng.normal(size=(3, 3, 1)),
    )
    for s, (d, e, f, _) in enumerate(many):
        one = Arrow(d, e, f)
        np.testing.assert_allclose(
            together.leading_part(2).log_det()[s], one.leading_part(2).log_det()
        )
        for left, right in zip(together.solve(a, c), one.solve(a[s], c[s])):
            np.testing.assert_allclose(left[s], right, atol=1e-12)
        for left, right in zip(together.at(s).inverse(), one.inverse()):
            np.testing.assert_allclose(left, right, atol=1e-12)


def test_what_is_not_positive_definite_is_refused():
    D, E, F = np.ones((2, 1, 1)), np.ones((2, 1, 1)), np.ones((1, 1))
    with pytest.raises(np.linalg.LinAlgError):
        Arrow(D, E, F)
    with pytest.raises(np.linalg.LinAlgError, match="block"):
        Arrow(-D, E, F)


@pytest.mark.parametrize("k", [3, 2])
@pytest.mark.parametrize("blocks", [None, (2, 1)])
def test_a_sparse_border_is_a_border(k, blocks):
    rng = np.random.default_rng(4)
    G, K, r = 5, 2, 3
    A = rng.normal(size=(60, G * K + r))
    H = A.T @ A
    D = np.array([H[K * g : K * g + K, K * g : K * g + K] for g in range(G)])
    E = H[: G * K, G * K :] * (rng.random((G * K, r)) < 0.5)
    F = H[G * K :, G * K :].copy()
    if blocks is not None:  # no row of the leading part meets both of these columns
        E[:5, 0] = E[5:, 1] = F[0, 1] = F[1, 0] = 0.0
        D[2] = np.diag(np.diagonal(D[2]))
    dense = Arrow(D, E.reshape(G, K, r), F).leading_part(k)
    other = Arrow(D, sparse.csr_array(E), F, blocks).leading_part(k)
    assert isinstance(other.T, Arrow) == (blocks is not None)
    a = rng.normal(size=(G, K, 4))
    c = rng.normal(size=(k, 4))
    np.testing.assert_allclose(other.log_det(), dense.log_det(), rtol=1e-12)
    for name in ("half", "solve", "solve_transposed"):
        narrow = getattr(dense, name)(a, c)
        wide = getattr(other, name)(a[None], c[None])
        if name == "half" and blocks is not None:  # another root of the same corner
            squares = [np.square(each[1]).sum() for each in (narrow, wide)]
            np.testing.assert_allclose(*squares, rtol=1e-9)
        elif name == "solve" or blocks is None:
            for one, two in zip(wide, narrow):
                np.testing.assert_allclose(one[0], two, rtol=1e-9, atol=1e-12)
        for one, two in zip(getattr(other, name)(a, c), wide):
            np.testing.assert_allclose(one, two[0], rtol=1e-9, atol=1e-12)
    for one, two in zip(other.inverse_blocks(), dense.inverse_blocks()):
        np.testing.assert_allclose(one, two, rtol=1e-9, atol=1e-12)
    with pytest.raises(np.linalg.LinAlgError):
        Arrow(-D, sparse.csr_array(E), F)
