"""Maps of coefficients as one vector, against the loops over columns and predictors that they stand for."""

import numpy as np

from probreg.linalg.vec import (
    map_of_columns,
    map_of_predictors,
    vec_entries,
    with_aux,
)

RNG = np.random.default_rng(4)


def test_a_map_of_columns_acts_on_each_predictor_alike():
    A, gamma = RNG.normal(size=(4, 3)), RNG.normal(size=(3, 2))
    np.testing.assert_allclose(
        map_of_columns(A, 2) @ gamma.ravel(), (A @ gamma).ravel(), rtol=1e-14
    )


def test_a_map_of_predictors_acts_on_each_column_alike():
    D, beta = RNG.normal(size=(3, 2)), RNG.normal(size=(4, 2))
    np.testing.assert_allclose(
        map_of_predictors(D, 4) @ beta.ravel(), (beta @ D.T).ravel(), rtol=1e-14
    )


def test_entries_are_those_of_the_vector():
    beta = RNG.normal(size=(5, 3))
    np.testing.assert_array_equal(
        beta.ravel()[vec_entries((3, 1), 3)], beta[[3, 1]].ravel()
    )


def test_nuisance_parameters_stay_as_they_are():
    M = RNG.normal(size=(4, 3))
    S = with_aux(M, 2)
    assert S.shape == (6, 5)
    np.testing.assert_array_equal(
        S @ np.r_[np.zeros(3), 7.0, 8.0], np.r_[np.zeros(4), 7.0, 8.0]
    )
    np.testing.assert_array_equal(S[:4, :3], M)
    np.testing.assert_array_equal(S[4:, :3], 0.0)
