"""Class probabilities of many draws, for every layout of the draws in memory."""

import numpy as np

from probreg.likelihoods import Categorical


def test_probabilities_do_not_depend_on_the_layout_of_draws() -> None:
    likelihood = Categorical((0, 1, 2))
    eta = np.random.default_rng(6).standard_normal((3_001, 6, 2))
    apart = np.ascontiguousarray(eta.transpose(1, 2, 0)).transpose(2, 0, 1)
    found = likelihood.mean(apart)
    np.testing.assert_allclose(likelihood.mean(eta), found, rtol=1e-14)
    assert found.strides[0] == found.itemsize  # draws stay adjacent
