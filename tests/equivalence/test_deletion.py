"""Deletion of rows by the observed information: several formulas, censored and truncated responses, correlated nuisance parameters."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.linalg import fractional_matrix_power

import probreg as pr
from probreg.diagnostics.after import fit_arrays
from probreg.diagnostics.after.fit_arrays import (
    deletion_arrays,
    draw_replicates,
    simulated_p_value,
)
from probreg.diagnostics.after.influence import influence_measures, largest_cook
from probreg.inference.uncertainty.information import estimate_of

N = 25
RNG = np.random.default_rng(7)
X, Z = RNG.normal(size=(2, N)).round(2)
Y = 1.0 + X + np.exp(0.3 * Z) * RNG.normal(size=N)
TIME = np.exp(0.5 + 0.4 * X) * RNG.exponential(size=N) ** 0.7
COUNT = RNG.poisson(np.exp(1.0 + 0.5 * X)).astype(float)
DATA = {
    "x": X,
    "z": Z,
    "y": Y,
    "share": 1.0 / (1.0 + np.exp(-Y)),
    "time": np.minimum(TIME, 2.5),
    "event": (TIME < 2.5).astype(int),
    "count": np.where(RNG.random(N) < 0.2, 0.0, COUNT),
    "positive": COUNT + 1.0,
    "level": np.digitize(Y, [0.0, 1.5]),
}
CASES: dict[str, tuple[Any, Any]] = {
    "gaussian": ({"y": "y ~ x", "log sigma": "~ z"}, "gaussian"),
    "student": ({"y": "y ~ x", "log sigma": "~ z"}, "student"),
    "beta": ({"y": "share ~ x", "log phi": "~ z"}, "beta"),
    "zeros": ({"y": "count ~ x", "logit zero": "~ z"}, "zero_inflated"),
    "ordinal": (
        {"y": "level ~ x", "log scale": "~ 0 + z"},
        pr.Ordinal(levels=(0, 1, 2)),
    ),
    "weibull": ("cens(time, event) ~ x", "weibull"),
    "tobit": ("cens(y, lower=0) ~ x", "gaussian"),
    "censored formulas": (
        {"y": "cens(y, lower=0) ~ x", "log sigma": "~ z"},
        "gaussian",
    ),
    "truncated": ("trunc(positive, lower=1) ~ x", "poisson"),
    "thresholds": ("level ~ x", pr.Ordinal(levels=(0, 1, 2))),
    "precision": ("share ~ x", "beta"),
    "share of zeros": ("count ~ x", "zero_inflated"),
    "exact times": ("time ~ x", "weibull"),
}


def fit_of(case: str, weights: Any = None) -> Any:
    formulas, likelihood = CASES[case]
    model = pr.Model.from_formula(
        formulas, DATA, likelihood=likelihood, weights=weights
    )
    return pr.fit(model, "newton")


def changes(fit: Any) -> Any:
    """beta - beta_(i) of one observation of each row, (n, p)."""
    errors = np.sqrt(np.diagonal(np.asarray(fit.covariance("observed"))))
    found = pr.influence_measures(fit)["dfbetas"].values
    return found * errors[: found.shape[1]]


@pytest.mark.parametrize("case", CASES)
def test_one_step_approaches_the_estimate_without_an_observation(case: str) -> None:
    """Among R copies of each row a change is of order 1 / R, the error of a Newton step of order 1 / R^2."""
    row = int(pr.influence_measures(fit_of(case))["cook"].values.argmax())
    errors = []
    for copies in (20.0, 80.0):
        weights = np.full(N, copies)
        fit = fit_of(case, weights)
        weights[row] -= 1.0
        exact = fit.solution.beta[:, 0] - fit_of(case, weights).solution.beta[:, 0]
        error = np.abs(exact - changes(fit)[row]).max()
        assert error < 0.05 * np.abs(exact).max()
        errors.append(error)
    # 1 / 16 as R grows; an error of first order would have 1 / 4
    assert errors[1] < errors[0] / 10.0


@pytest.mark.parametrize("case", CASES)
def test_hc3_is_the_sum_of_squares_of_the_one_step_changes(case: str) -> None:
    weights = np.arange(N) % 3 + 1.0
    fit = fit_of(case, weights)
    change = changes(fit)
    p = change.shape[1]
    expected = (weights[:, None] * change).T @ change
    covariance = np.asarray(fit.covariance("HC3"))[:p, :p]
    np.testing.assert_allclose(covariance, expected, rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("case", ["gaussian", "zeros", "weibull"])
def test_hc2_divides_scores_by_the_root_of_one_minus_the_leverage(case: str) -> None:
    fit = fit_of(case)
    arrays = deletion_arrays(fit)
    W = arrays.W[0]
    gap = np.eye(W.shape[1]) - W @ arrays.Z @ arrays.Z.swapaxes(1, 2)
    scores = [
        Z.T @ fractional_matrix_power(g, -0.5) @ s
        for Z, g, s in zip(arrays.Z, gap, arrays.score[0], strict=True)
    ]
    change = np.array(scores) @ arrays.back[:, 0].T
    p = change.shape[1]
    np.testing.assert_allclose(
        np.asarray(fit.covariance("HC2"))[:p, :p], change.T @ change, rtol=1e-7
    )


@pytest.mark.parametrize("case", CASES)
def test_leverages_sum_to_the_number_of_parameters(case: str) -> None:
    weights = np.arange(N) % 3 + 1.0
    fit = fit_of(case, weights)
    leverage = pr.influence_measures(fit)["leverage"].values
    count = len(estimate_of(fit.model, fit.solution, "this").inside)
    assert weights @ leverage == pytest.approx(count, rel=1e-8)
    assert np.isfinite(pr.influence_measures(fit)["studentised"]).all()


def test_a_row_without_an_entry_in_one_formula_has_robust_errors() -> None:
    """G of that row is singular."""
    data = {**DATA, "z": np.where(np.arange(N) < 5, 0.0, Z)}
    model = pr.Model.from_formula({"y": "y ~ x", "log sigma": "~ 0 + z"}, data)
    fit = pr.fit(model)
    assert pr.influence_measures(fit)["leverage"].sum() == pytest.approx(3.0)
    change = changes(fit)
    np.testing.assert_allclose(
        np.asarray(fit.covariance("HC3")), change.T @ change, rtol=1e-7
    )


def test_changes_to_first_order_are_dfbeta_of_survreg() -> None:
    """residuals(survreg(Surv(time, event) ~ x), type = "dfbeta") and "ldcase" of R's survival 3.5."""
    data = {
        "x": np.array([-1.2, 0.4, 0.9, -0.3, 1.5, 0.1, -0.8, 2.0]),
        "time": np.array([0.6, 1.9, 2.5, 0.7, 2.5, 1.1, 1.3, 1.7]),
        "event": np.array([1, 1, 0, 1, 0, 1, 1, 1]),
    }
    fit = pr.fit(
        pr.Model.from_formula("cens(time, event) ~ x", data, likelihood="weibull")
    )
    arrays = deletion_arrays(fit)
    phi = np.einsum("nak,na->nk", arrays.Z, arrays.score[0])
    dfbeta = [
        [-0.0351249133, 0.05315686059],
        [0.0106209791, -0.00899828640],
        [0.0634791856, 0.08362911999],
        [-0.0498982995, 0.02919204216],
        [0.0264364689, 0.05167076187],
        [-0.0354762383, -0.00660374291],
        [0.0703774000, -0.07906955225],
        [-0.0504145824, -0.12297720306],
    ]
    np.testing.assert_allclose(phi @ arrays.back[:, 0].T, dfbeta, atol=1e-9)
    ldcase = [
        *(0.1851226686, 0.1116509610, 0.5147237455, 0.1858484714),
        *(0.1592639223, 0.0796678145, 0.4757167240, 0.9562021158),
    ]
    np.testing.assert_allclose((phi**2).sum(1), ldcase, atol=1e-9)


@pytest.mark.parametrize("case", ["weibull", "censored formulas", "truncated"])
def test_tests_by_the_expected_information_do_not_apply(case: str) -> None:
    fit = fit_of(case)
    found = pr.diagnose(fit)
    checks = {f.check for f in found}
    assert {"cook", "dfbetas"} <= checks
    assert not {"reset", "dispersion"} & checks
    for kind in ("expected", "sampling") if case != "truncated" else ():
        with pytest.raises(pr.Incompatible, match="expected information has no"):
            fit.covariance(kind)


@pytest.mark.parametrize("case", ["gaussian", "tobit"])
def test_the_leverage_panel_shows_studentised_residuals(case: str) -> None:
    figure = pr.plot.diagnose(fit_of(case))
    labels = [ax.get_ylabel() for ax in figure.axes]
    assert "studentised residual" in labels


@pytest.mark.parametrize("case", ["gaussian", "zeros", "weibull", "truncated"])
def test_one_step_is_nearly_the_fit_of_a_replicate(case: str) -> None:
    """Predictors and nuisance parameters, within a standard error of the widest of these 1,200 rows: the curvature of the fit is
    not that of the replicate."""
    formulas, likelihood = CASES[case]
    data = {name: np.tile(column, 48) for name, column in DATA.items()}
    model = pr.Model.from_formula(formulas, data, likelihood=likelihood)
    fit = pr.fit(model)
    observed = deletion_arrays(fit)
    (drawn,) = draw_replicates(fit, observed, np.random.default_rng(0), 3)
    limit = np.sqrt(np.einsum("nak,nak->na", drawn.Z, drawn.Z).max(0))
    for i, (y, eta) in enumerate(zip(drawn.y, drawn.eta, strict=True)):
        again = replace(model, design=replace(model.design, y=y))
        refit = pr.fit(again)
        width = eta.shape[1]
        assert (np.abs(eta - again.eta(refit.solution.beta)) < limit[:width]).all()
        for name in drawn.unknown or ():
            change = np.log(drawn.aux[name][i] / refit.solution.aux[name])
            assert np.abs(change).max() < limit[-1]


def test_replicates_of_censored_rows_keep_their_limits() -> None:
    fit = fit_of("weibull")
    (drawn,) = draw_replicates(fit, deletion_arrays(fit), np.random.default_rng(0), 200)
    censored = fit.model.design.observed[:, 1] == np.inf
    is_beyond = drawn.y[:, censored, 1] == np.inf
    assert 0.1 < is_beyond.mean() < 0.9
    assert (drawn.y[:, censored, 0][is_beyond] == 2.5).all()


def test_a_change_that_is_common_in_samples_of_the_model_is_no_note() -> None:
    share = simulated_p_value(fit_of("gaussian"), largest_cook, arrays=deletion_arrays)
    assert share is not None
    assert 0.01 < share < 1.0


def test_a_row_without_which_the_curvature_is_negative_has_no_deletion() -> None:
    """Cauchy noise: the curvature is 2 at y = 0 and -0.16 at each of 3 and -3, so that without y = 0 the mode is a minimum."""
    data = {"y": np.array([0.0] + [3.0, -3.0] * 4)}
    model = pr.Model.from_formula(
        "trunc(y, lower=-1e6) ~ 1",
        data,
        likelihood=pr.StudentT(nu=1.0),
        aux={"sigma": 1.0},
    )
    fit = pr.fit(model)
    measures = influence_measures(fit)
    leverage = np.array([2.0] + [-0.16] * 8) / 0.72
    np.testing.assert_allclose(measures.leverage, leverage, rtol=1e-6)
    assert np.isnan(measures.cook).values.tolist() == [True] + [False] * 8
    with pytest.raises(pr.DataError, match="row 0 has a leverage of at least 1"):
        fit.covariance("HC3")


def test_the_limit_of_simulated_shares_counts_nuisance_parameters_as_predictors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fit = fit_of("weibull")
    n = fit.model.design.n
    for limit, is_simulated in ((2 * n, True), (2 * n - 1, False)):
        monkeypatch.setattr(fit_arrays, "FEW_OBSERVATIONS", limit)
        share = simulated_p_value(fit, largest_cook, arrays=deletion_arrays)
        assert (share is not None) == is_simulated
