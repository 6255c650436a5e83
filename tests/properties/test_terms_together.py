"""Every combination of processes, smooth functions and effects by group that fits is printed, predicted and saved."""

import warnings

import numpy as np
import pandas as pd
import pytest

import probreg as pr
from probreg.errors import Incompatible, NotConverged

# each term beside others, each likelihood once at least; classes under an unknown length take minutes
PAIRS = (
    ("gp(z)", "gp(u, length=1)", "gaussian"),
    ("gp(z)", "(x | h)", "gaussian"),
    ("gp(z, length=1)", "(1 | g)", "negative_binomial"),
    ("gp(z, length=1)", "t2(z, u)", "gaussian"),
    ("s(z)", "(x | h)", "categorical"),
    ("s(z)", "(1 | c / d)", "student"),
    ("t2(z, u)", "(1 | g)", "poisson"),
    ("t2(z, u)", "(1 | c / d)", "bernoulli"),
    ("(1 | g)", "(1 | c / d)", "negative_binomial"),
    ("(x | h)", "(1 | c / d)", "gaussian"),
)


def rows():
    rng, n = np.random.default_rng(0), 72
    z, u, x = np.sort(rng.uniform(0, 3, n)), rng.normal(size=n), rng.normal(size=n)
    i = np.arange(n)
    labels = {"g": i % 6, "h": rng.permutation(n) % 8, "c": i // 18, "d": (i // 6) % 3}
    mu = np.sin(2 * z) + rng.normal(size=6)[i % 6] + 0.4 * x
    responses = {
        "gaussian": mu + 0.3 * rng.normal(size=n),
        "poisson": rng.poisson(np.exp(0.5 * mu + 1)),
        "bernoulli": (rng.logistic(size=n) + mu > 0) * 1,
        "categorical": np.array(list("abc"))[
            (np.c_[0 * mu, mu, -mu] + rng.gumbel(size=(n, 3))).argmax(1)
        ],
        "negative_binomial": rng.negative_binomial(2, 2 / (2 + np.exp(0.5 * mu + 1))),
        "student": mu + 0.3 * rng.standard_t(4, size=n),
    }
    return {
        "z": z,
        "u": u,
        "x": x,
        **{k: np.array([f"{k}{v}" for v in own]) for k, own in labels.items()},
    }, responses


def combination(pair):
    return "y ~ x + " + " + ".join(pair)


def assert_usable(formula, likelihood, folder):
    data, responses = rows()
    model = pr.Model.from_formula(
        formula, {**data, "y": responses[likelihood]}, likelihood=likelihood
    )
    try:
        fit = pr.fit(model)
    except (
        Incompatible,
        NotConverged,
    ) as error:  # such as an exact process of unknown length beside Student-t noise
        pytest.skip(str(error))
    assert repr(fit)
    assert str(fit.summary())
    assert len(fit.tidy()) >= len(fit.coef)
    assert len(fit.glance()) == 1
    predicted = fit.predict(data)
    assert predicted.sizes["obs"] == 72
    with warnings.catch_warnings():  # a file of a process holds rows
        warnings.simplefilter("ignore", pr.errors.ProbregWarning)
        path = fit.save(folder / "fit.nc")
    again = pr.load_fit(path)
    # slopes of scales are differences
    pd.testing.assert_frame_equal(again.tidy(), fit.tidy(), rtol=1e-6)
    for name, value in again.predict(data).data_vars.items():
        np.testing.assert_allclose(value, predicted[name], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("process", "other"),
    [
        ("gp(z)", "s(u)"),
        *(
            pytest.param("gp(z, basis='hsgp')", term, marks=pytest.mark.slow)
            for term in ("(x | h)", "(1 | c / d)")
        ),
    ],
)
def test_a_process_beside_another_term_prints_predicts_and_saves(
    process, other, tmp_path
):
    assert_usable(combination((process, other)), "gaussian", tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("one", "other", "likelihood"), PAIRS)
def test_two_terms_print_predict_and_save(one, other, likelihood, tmp_path):
    assert_usable(combination((one, other)), likelihood, tmp_path)
