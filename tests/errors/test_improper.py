"""Posteriors without a finite mass are refused by every method, and the remedies of the errors serve."""

import re
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import pandas as pd
import pytest

import probreg as pr
from probreg.inference import METHODS
from probreg.likelihoods import LIKELIHOODS

X = np.arange(6.0)
LINE = {"x": X, "y": 2.0 * X + 1.0}
NOISY = [name for name, cls in LIKELIHOODS.items() if cls.noise_scale is not None]
POSITIVE_AT_ZERO = [
    pr.priors.Reference(), pr.priors.HalfNormal(1.0), pr.priors.HalfStudentT(1.0), pr.priors.HalfCauchy(1.0),
    pr.priors.Exponential(1.0), pr.priors.Uniform(0.0, 3.0),
]  # fmt: skip


def model(likelihood: str, **more) -> pr.Model:
    return pr.Model.from_formula("y ~ x", LINE, likelihood=likelihood, **more)


@pytest.mark.parametrize("likelihood", NOISY)
@pytest.mark.parametrize("prior", POSITIVE_AT_ZERO, ids=lambda p: p.name)
def test_no_method_returns_a_posterior_of_columns_that_reproduce_the_response(
    likelihood, prior
):
    exact = model(likelihood, aux={"sigma": prior})
    for name in (k for k, cls in METHODS.items() if cls.target == "posterior"):
        with pytest.raises(pr.Incompatible, match="improper"):
            pr.fit(exact, name)
    hierarchical = model(
        likelihood, aux={"sigma": prior}, prior=pr.Normal(pr.HalfNormal(1.0))
    )
    for name in ("integrate", "posterior", "nuts"):
        with pytest.raises(pr.Incompatible, match="improper"):
            pr.fit(hierarchical, name)


def test_locations_in_units_of_sigma_that_reproduce_the_response_are_improper():
    """The density of the columns rises with that of the response as sigma falls to 0."""
    exact = model(
        "gaussian", prior={"x": pr.Normal(1.0, location=2.0, sigma_units=True)}
    )
    for name in ("conjugate", "quadrature"):
        with pytest.raises(pr.Incompatible, match=r"improper.*InverseGamma"):
            pr.fit(exact, name)


@pytest.mark.parametrize(
    "likelihood", ["gaussian", "student", "huber", "absolute", "quantile"]
)
def test_a_prior_that_vanishes_at_zero_or_a_held_scale_makes_it_proper(likelihood):
    for aux in ({"sigma": pr.priors.InverseGamma(1.0, 1.0)}, {"sigma": 1.0}):
        fit = pr.fit(model(likelihood, aux=aux), "importance", seed=1)
        assert fit.solution.status.good
        assert 0.01 < fit.std_error.values[1] < 1.0


def test_as_many_columns_as_rows_are_proper_under_a_density_that_is_positive_at_zero():
    rows = {"x": [0.0, 1.0], "y": [1.0, 3.0]}
    with pytest.raises(pr.Incompatible, match="improper"):
        pr.fit(pr.Model.from_formula("y ~ x", rows), "posterior")
    fit = pr.fit(
        pr.Model.from_formula("y ~ x", rows, aux={"sigma": pr.priors.HalfNormal(1.0)}),
        "posterior",
    )
    assert fit.aux["sigma"] == pytest.approx(np.sqrt(2 / np.pi), rel=1e-9)  # its prior


@pytest.mark.parametrize("nu", [1.0, 4.0])
def test_student_noise_that_vanishes_has_no_maximum(nu):
    """Five of six rows on a line: the likelihood is unbounded for 5 > 6 nu / (nu + 1)."""
    y = np.array([0.0, 1.0, 2.0, 3.0, 4.0, 9.0])
    model = pr.Model.from_arrays(np.arange(6.0), y, likelihood=pr.StudentT(nu=nu))
    with pytest.raises(pr.NotConverged):
        pr.fit(model)


def test_a_limit_that_a_likelihood_does_not_declare_is_found():
    @dataclass(frozen=True)
    class Undeclared(pr.NegativeBinomial):
        name = "undeclared"
        at_zero = MappingProxyType({})

    counts = {"x": X, "y": np.array([0.0, 2.0, 1.0, 3.0, 2.0, 4.0])}
    for likelihood in (Undeclared(), pr.NegativeBinomial()):
        made = pr.Model.from_formula("y ~ x", counts, likelihood=likelihood)
        with pytest.raises(pr.Incompatible, match="no finite mass at 0"):
            pr.fit(made, "importance")
        pr.fit(made.with_aux(alpha=pr.HalfNormal(1.0)), "importance")


def test_a_hurdle_with_zeros_has_a_posterior_without_a_prior_of_their_odds():
    """With p(w) ∝ 1 / w the share of zeros is Beta(zeros, others)."""
    k = np.repeat([0, 1, 2, 3], [9, 12, 8, 4])
    data = {"k": k, "x": np.tile([-1.0, 0.0, 1.0], 11)}

    def fit(rows):
        model = pr.Model.from_formula(
            "k ~ x", rows, likelihood="hurdle", prior=pr.Normal(1.0)
        )
        return pr.fit(model, "importance", seed=1)

    assert fit(data).aux["zero_odds"] == pytest.approx(9 / (24 - 1), rel=0.02)
    with pytest.raises(pr.Incompatible, match="improper"):
        fit({**data, "k": k + 1})


def flat_in_formula(
    parameter, likelihood, formula="~ z", k=(0, 3, 1, 7, 0, 2), **options
):
    """A model with a flat prior of the coefficients in the formula of a nuisance parameter."""
    data = {
        "k": np.tile(k, 4),
        "z": np.linspace(-1.0, 2.0, 24),
        "q": np.repeat(list("abc"), 8),
        "trials": np.full(24, 9),
    }
    formulas = {"k": "p(k, trials) ~ 1" if likelihood == "beta_binomial" else "k ~ 1"}
    formulas[parameter] = formula
    return pr.Model.from_formula(formulas, data, likelihood=likelihood, **options)


@pytest.mark.parametrize(
    ("parameter", "likelihood", "direction"),
    [
        ("log alpha", "negative_binomial", "-infinity"),
        ("log alpha", pr.NegativeBinomial(variance="nb1"), "-infinity"),
        ("log phi", "beta_binomial", "infinity"),
        ("logit zero", "zero_inflated", "-infinity"),
        ("log nu", pr.StudentT(nu=None), "infinity"),
    ],
)
@pytest.mark.parametrize("formula", ["~ z", "~ 0 + q"])
def test_a_flat_prior_towards_a_limiting_model_is_improper(
    parameter, likelihood, direction, formula
):
    """As p(v) ∝ 1 / v of the nuisance parameter without a formula is."""
    model = flat_in_formula(parameter, likelihood, formula)
    column = f"{parameter}: Intercept" if "z" in formula else rf"{parameter}: q\[a\]"
    for method in ("laplace", "nuts"):
        with pytest.raises(
            pr.Incompatible, match=f"'{column}' has .* to {direction}: give"
        ):
            pr.fit(model, method)


@pytest.mark.parametrize(
    ("parameter", "likelihood"),
    [
        ("logit zero", "hurdle"),
        ("logit zero", pr.Hurdle(base=pr.Poisson(link="identity"))),
        ("log sigma", "gaussian"),
        ("log phi", "beta_binomial"),
    ],
)
def test_a_formula_of_a_nuisance_parameter_with_a_posterior(parameter, likelihood):
    """The likelihood falls on both sides, or the prior is proper."""
    proper = {"prior": {"log phi: Intercept": pr.Normal(2.5)}}
    options = proper if parameter == "log phi" else {}
    model = flat_in_formula(parameter, likelihood, **options)
    assert np.isfinite(pr.fit(model, "laplace").coef).all()


def test_a_flat_level_towards_a_limiting_model_is_found_in_files(tmp_path):
    """Level b has no zeros, so that the likelihood of a hurdle does not fall as its share of zeros goes to 0."""
    rows = {"k": [0, 3, 1, 0, 2, 1, 1, 4], "q": list("aaaabbbb")}
    pd.DataFrame(rows).to_csv(tmp_path / "rows.csv", index=False)
    formulas = {"k": "k ~ 1", "logit zero": "~ 0 + q"}
    models = (
        pr.Model.from_formula(formulas, rows, likelihood="hurdle"),
        pr.Model.from_files(formulas, tmp_path / "rows.csv", likelihood="hurdle"),
    )
    for model in models:
        with pytest.raises(
            pr.Incompatible, match=r"q\[b\]' has a flat prior .* to -infinity"
        ):
            pr.fit(model, "laplace")


@pytest.mark.parametrize(
    ("prior", "likelihood", "ending"),
    [
        (pr.Normal, "gaussian", "Normal(HalfNormal(1.0)), or use evidence, which"),
        (pr.Laplace, "gaussian", "Laplace(HalfNormal(1.0)). No method can fit"),
        (pr.Normal, "absolute", "Normal(HalfNormal(1.0)). No method can fit"),
    ],
)
def test_an_improper_scale_names_a_proper_prior_and_evidence_where_it_fits(
    prior, likelihood, ending
):
    flat = pr.Model.from_formula(
        "y ~ x",
        {"x": X, "y": np.square(X)},
        likelihood=likelihood,
        prior=prior(pr.priors.Reference()),
    )
    with pytest.raises(pr.Incompatible, match=re.escape(f"such as {ending}")):
        pr.fit(flat, "nuts")
