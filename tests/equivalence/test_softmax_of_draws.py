"""Class probabilities of many draws by compiled code beside the formula in NumPy, for every contrast and layout."""

import numpy as np
import pytest

from probreg.likelihoods import (
    Categorical,
    Multinomial,
    SoftmaxLikelihood,
    softmax as module,
)


def likelihoods() -> dict[str, SoftmaxLikelihood]:
    three, four = (0, 1, 2), ("a", "b", "c", "d")
    return {
        "first as reference": Categorical(three),
        "another reference": Categorical(four, reference="c"),
        "symmetric": Categorical(four, symmetric=True),
        "counts": Multinomial(four),
    }


@pytest.mark.parametrize("kind", likelihoods())
@pytest.mark.parametrize("size", [1.0, 300.0])
def test_compiled_probabilities_are_those_of_the_formula(
    kind: str, size: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    likelihood, rng = likelihoods()[kind], np.random.default_rng(5)
    eta = size * rng.standard_normal((6, likelihood.width, 3_001)).transpose(2, 0, 1)
    assert eta.size >= module._COMPILED_FROM
    eta[7, 2] = np.nan
    eta[8, 3] = -np.inf
    found = likelihood.mean(eta)
    monkeypatch.setattr(module, "_COMPILED_FROM", np.inf)
    with np.errstate(invalid="ignore"):
        expected = likelihood.mean(eta)
    # a score is known to its size times the unit of rounding, and so much of itself is a probability known to
    np.testing.assert_allclose(found, expected, rtol=5e-15 * size, atol=1e-300)
    assert found.strides[0] == found.itemsize  # draws stay side by side


def test_other_layouts_are_left_to_numpy() -> None:
    likelihood = Categorical((0, 1, 2))
    eta = np.random.default_rng(6).standard_normal((3_001, 6, 2))
    apart = np.ascontiguousarray(eta.transpose(1, 2, 0)).transpose(2, 0, 1)
    np.testing.assert_allclose(likelihood.mean(eta), likelihood.mean(apart), rtol=1e-14)
