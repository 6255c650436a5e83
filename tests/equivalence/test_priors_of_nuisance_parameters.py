"""Stated priors of nuisance parameters: where they are printed, and that a flat prior removes them."""

import numpy as np
import pytest

import probreg as pr

N = 60
RNG = np.random.default_rng(0)
X = RNG.normal(size=N)
CASES = {
    "gaussian": ("sigma", pr.priors.HalfNormal(0.25), X + RNG.normal(size=N)),
    "student": ("sigma", pr.priors.Exponential(0.25), X + RNG.normal(size=N)),
    "negative_binomial": (
        "alpha",
        pr.priors.Exponential(0.25),
        RNG.negative_binomial(2, 0.4, size=N),
    ),
}


def model(likelihood, **options):
    return pr.Model.from_arrays(
        X, CASES[likelihood][2], columns=["x"], likelihood=likelihood, **options
    )


@pytest.mark.parametrize("prior", [pr.Flat(), pr.Normal(2.0)], ids=["flat", "normal"])
@pytest.mark.parametrize("method", ["newton", "laplace"])
@pytest.mark.parametrize("likelihood", CASES)
def test_every_print_names_the_prior(likelihood, method, prior):
    name, stated, _ = CASES[likelihood]
    m = model(likelihood, prior=prior, aux={name: stated})
    words = f"{name} ~ {type(stated).__name__}({'scale=' * (type(stated).__name__ == 'Exponential')}0.25)"
    assert str(m).count(words) == 1
    fit, ml = pr.fit(m, method, seed=1), pr.fit(model(likelihood))
    fits = {"ML": ml, "other": fit}
    for printed in (fit, pr.compare(fits), pr.table(fits)):
        assert " ".join(str(printed).split()).count(words) == 1
    assert f"{name} ~" not in str(ml)


@pytest.mark.parametrize("flat", [pr.Flat(), "flat"])
@pytest.mark.parametrize("likelihood", CASES)
def test_a_flat_prior_gives_maximum_likelihood(likelihood, flat):
    name, stated, _ = CASES[likelihood]
    prior = model(likelihood, prior=pr.Normal(2.0), aux={name: stated})
    ml, plain = pr.fit(prior.with_prior(flat)), pr.fit(model(likelihood))
    assert ml.model.flat
    np.testing.assert_array_equal(ml.coef, plain.coef)
    assert ml.aux == plain.aux
    # another prior keeps it
    assert prior.with_prior(pr.Normal(1.0)).aux == {name: stated}
    # held values stay
    assert prior.with_aux(**{name: 0.7}).with_prior(flat).aux == {name: 0.7}
