"""Firth's bias-reduced estimates as the mode under Jeffreys' prior: published and full-precision values."""

from typing import Any

import numpy as np
import pytest

import probreg as pr

from .test_multinomial import by_class, model


def first_order(fit: pr.Fit) -> np.ndarray:
    """Standard errors by the Fisher information of the likelihood alone, as Firth's own software prints them."""
    flat = fit.model.with_prior(pr.Flat())
    V = np.linalg.inv(flat.information(fit.solution.beta))
    return np.sqrt(np.diagonal(V)).reshape(fit.solution.beta.shape)


def test_six_separated_rows(certified: Any) -> None:
    case = certified("logistic/complete_separation_6rows")
    X, y = np.array(case["design"]["X"]), np.array(case["design"]["y"]).astype(int)
    fit = pr.fit(
        pr.Model.from_arrays(
            X[:, 1:],
            y,
            columns=["a", "b"],
            likelihood="bernoulli",
            prior=pr.priors.Jeffreys(),
        ),
        "newton",
    )
    assert fit.solution.status.good
    np.testing.assert_allclose(fit.coef, case["crosscheck"]["firth_coef"], rtol=1e-9)
    np.testing.assert_allclose(
        first_order(fit)[:, 0], case["crosscheck"]["firth_se"], rtol=1e-9
    )
    with pytest.warns(pr.ProbregWarning, match="no maximum likelihood estimate exists"):
        pr.fit(fit.model.with_prior(pr.Flat()))


def test_alligators(certified: Any) -> None:
    case = certified("multinomial/alligators")
    columns, _, m = model(case)
    fit = pr.fit(m.with_prior(pr.priors.Jeffreys()), "newton")
    known = case["reference"]
    table = np.array(list(known["firth_coef"].values()))
    # seven printed digits
    np.testing.assert_allclose(by_class(fit.coef, columns, case).T, table, atol=6e-7)
    # a hundred-millionth of the smallest standard error
    np.testing.assert_allclose(
        by_class(fit.coef, columns, case).T, case["crosscheck"]["firth_coef"], atol=5e-9
    )
    errors = fit.coef.copy(data=first_order(fit))
    np.testing.assert_allclose(
        by_class(errors, columns, case).T,
        list(known["firth_se"].values()),
        rtol=1e-6,
        atol=1e-6,
    )
    assert fit.log_likelihood == pytest.approx(known["firth_loglik"], abs=1e-4)
