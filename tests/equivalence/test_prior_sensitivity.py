"""The scale of a prior at which the conclusion on a coefficient changes, against closed forms and fits on both sides of it."""

import numpy as np
import pytest

import probreg as pr
from probreg.comparison.prior_weight import Change, prior_sensitivity
from tests.properties.cases import (
    LIKELIHOOD_CASES,
    covering,
    likelihood_kind,
    proper_aux,
    recipe_of,
    rows_for,
)

Z = 1.959963984540054
RNG = np.random.default_rng(3)
X1 = RNG.normal(size=40)
Y1 = 0.4 * X1 + RNG.normal(size=40)


def _table(model: pr.Model, method: str = "auto"):
    return prior_sensitivity(pr.fit(model, method, seed=1))


@pytest.mark.parametrize("method", ["auto", "conjugate", "newton"])
@pytest.mark.parametrize("stated", [0.02, 0.2, 5.0])
def test_of_one_gaussian_column_it_has_a_closed_form(method, stated):
    """With b ~ N(beta, v) and beta ~ N(0, s^2) the mode over its sd is b s / (v (s^2 + v))^(1/2), which is z at s = z v (b^2 - z^2 v)^(-1/2)."""
    model = pr.Model.from_arrays(
        X1, Y1, intercept=False, aux={"sigma": 0.8}, prior=pr.Normal(stated)
    )
    v = 0.8**2 / (X1 @ X1)
    b = (X1 @ Y1) / (X1 @ X1)
    tip = Z * v / np.sqrt(b**2 - Z**2 * v)
    found = _table(model, method)
    assert found["scale"].item() == pytest.approx(tip, rel=1e-5)
    assert found["factor"].item() == pytest.approx(tip / stated, rel=1e-5)
    change = Change.EXCLUDES_ZERO if stated < tip else Change.INCLUDES_ZERO
    assert found["change"].item() == change


def test_it_does_not_exist_where_maximum_likelihood_is_within_its_own_error():
    model = pr.Model.from_arrays(
        X1, 0.01 * Y1, intercept=False, aux={"sigma": 0.8}, prior=pr.Normal(1.0)
    )
    found = _table(model)
    assert np.isnan(found["scale"].item())
    assert found["change"].item() == ""


def test_of_the_lasso_it_is_the_scale_at_which_a_coefficient_enters():
    """The column enters where |x'y| / sigma^2 = 1 / b (no intercept)."""
    entry = 0.8**2 / abs(X1 @ Y1)
    for stated, what in (
        (10 * entry, Change.BECOMES_ZERO),
        (entry / 10, Change.BECOMES_NONZERO),
    ):
        model = pr.Model.from_arrays(
            X1, Y1, intercept=False, aux={"sigma": 0.8}, prior=pr.Laplace(stated)
        )
        found = _table(model)
        assert found["scale"].item() == pytest.approx(entry, rel=1e-4)
        assert found["change"].item() == what


def test_the_sign_of_one_of_two_collinear_columns_changes():
    x = np.c_[X1, X1 + 0.3 * RNG.normal(size=40)]
    y = x @ [1.0, -0.2] + 0.3 * RNG.normal(size=40)
    found = _table(
        pr.Model.from_arrays(
            x, y, columns=["a", "b"], aux={"sigma": 1.0}, prior=pr.Normal(1.0)
        )
    )
    scale = found.loc["b", "scale"]
    assert found.loc["b", "change"] == Change.SIGN
    beside = [
        pr.fit(
            pr.Model.from_arrays(x, y, aux={"sigma": 1.0}, prior=pr.Normal(scale * c))
        ).coef.values[2]
        for c in (0.999, 1.001)
    ]
    assert beside[0] * beside[1] < 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "likelihood", covering(LIKELIHOOD_CASES, likelihood_kind, one_in=60)
)
def test_on_both_sides_of_it_the_answers_differ(likelihood):
    X, y = rows_for(likelihood)
    model = pr.Model.from_arrays(
        X, y, prior=pr.Normal(0.8), aux=proper_aux(likelihood), **recipe_of(likelihood)
    )
    fit = pr.fit(model)
    table = prior_sensitivity(fit).reset_index(drop=True)
    for j in np.flatnonzero(table["scale"].notna()):
        said = set()
        for c in (0.99, 1.01):
            at = pr.fit(model.with_prior(pr.Normal(table["scale"][j] * c)))
            ends = at.interval()
            low, high, beta = (
                a.values.ravel()[j] for a in (ends["lower"], ends["upper"], at.coef)
            )
            said.add((np.sign(beta), low > 0, high < 0))
        assert len(said) == 2


def test_an_unknown_prior_scale_is_an_error():
    unknown = pr.Model.from_arrays(X1, Y1, prior=pr.Normal(pr.HalfNormal(1.0)))
    with pytest.raises(pr.Incompatible, match="known scale"):
        prior_sensitivity(pr.fit(unknown, "integrate"))
    with pytest.raises(pr.Incompatible, match="needs priors"):
        prior_sensitivity(pr.fit(pr.Model.from_arrays(X1, Y1)))
