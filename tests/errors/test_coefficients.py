"""Coefficients given to the densities of a model: every sensible form is read, every other is refused with its name."""

import numpy as np
import pytest

import probreg as pr

X = np.array([[0.0, 1.0], [1.0, 0.5], [2.0, -1.0], [3.0, 0.3], [4.0, -0.7], [5.0, 0.1]])
RESPONSES = {
    "gaussian": np.array([1.0, 2.0, 2.5, 4.0, 5.0, 5.5]),
    "poisson": np.array([1, 0, 2, 3, 1, 4]),
    "bernoulli": np.array([0, 1, 0, 1, 0, 1]),
    "categorical": np.array(list("abcabc")),
}
DENSITIES = [
    "log_lik",
    "log_prior",
    "log_posterior",
    "pointwise",
    "gradient",
    "information",
]


def model_of(likelihood):
    prior = pr.Normal(1.0)
    return pr.Model.from_arrays(
        X, RESPONSES[likelihood], columns=["a", "b"], likelihood=likelihood, prior=prior
    )


@pytest.mark.parametrize("density", DENSITIES)
@pytest.mark.parametrize("likelihood", RESPONSES)
def test_every_form_of_the_coefficients_gives_one_density(likelihood, density):
    model = model_of(likelihood)
    fit = pr.fit(model, "newton") if likelihood == "gaussian" else pr.fit(model)
    beta, aux = fit.solution.beta, dict(fit.aux)
    expected = getattr(model, density)(beta, **aux)
    for form in (fit.coef, beta.ravel(), beta.tolist()):
        np.testing.assert_allclose(
            getattr(model, density)(form, **aux), expected, rtol=1e-10
        )


@pytest.mark.parametrize("density", DENSITIES)
def test_other_forms_name_what_is_wrong(density):
    model = model_of("poisson")
    compute = getattr(model, density)
    for wrong, named in (
        ([1.0, 2.0], r"beta.*\(2,\)"),
        (np.zeros((2, 2)), r"beta.*\(2, 2\)"),
        ({"Intercept": 0.0, "a": 1.0, "b": 2.0}, "beta"),
        ("text", "beta"),
        (3.0, "beta"),
        (None, "beta"),
    ):
        with pytest.raises(pr.DataError, match=named):
            compute(wrong)


@pytest.mark.parametrize("density", DENSITIES)
def test_nuisance_parameters_are_named(density):
    model = model_of("gaussian")
    with pytest.raises(pr.DataError, match="sigma"):
        getattr(model, density)([0.0, 1.0, 1.0])
    with pytest.raises(pr.DataError, match="alpha"):
        getattr(model, density)([0.0, 1.0, 1.0], sigma=1.0, alpha=2.0)


@pytest.mark.parametrize("likelihood", RESPONSES)
def test_every_form_of_the_coefficients_gives_one_linear_predictor(likelihood):
    fit = pr.fit(
        model_of(likelihood),
        **({"method": "newton"} if likelihood == "gaussian" else {}),
    )
    model, beta = fit.model, fit.solution.beta
    for form in (fit.coef, beta.ravel(), beta.tolist()):
        np.testing.assert_allclose(model.eta(form), model.design.X @ beta, rtol=1e-10)
    for wrong in (beta.ravel()[1:], {"a": 1.0}, "text", None, 3.0, np.zeros((3, 7))):
        with pytest.raises(pr.DataError, match="beta"):
            model.eta(wrong)


@pytest.mark.parametrize("density", [*DENSITIES, "eta"])
def test_text_and_complex_numbers_are_no_coefficients(density):
    compute = getattr(model_of("poisson"), density)
    for wrong in (
        [0.0, 1.0j, 1.0],
        ["0", "1", "1"],
        {"Intercept": "0", "a": "1", "b": "1"},
    ):
        with pytest.raises(pr.DataError, match="beta"):
            compute(wrong)


@pytest.mark.parametrize("density", ["gradient", "information", "value_grad_hessian"])
def test_derivatives_are_at_one_point(density):
    with pytest.raises(pr.DataError, match=r"\(2, 3, 1\)"):
        getattr(model_of("poisson"), density)(np.zeros((2, 3, 1)))
