"""A column that separates some rows beside random effects: the estimates are those of the other rows."""

from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import probreg as pr
from probreg.inference.modes.separation import separation, smallest_increase
from tests.conftest import covering


def table(likelihood: str, groups: int = 20) -> pd.DataFrame:
    """Return rows of which those with x = 1 have the response 0, in groups of ten."""
    rng = np.random.default_rng(3)
    n = 10 * groups
    group = np.repeat(np.arange(groups), 10)
    z = rng.normal(size=n)
    x = np.arange(n) % 2
    mean = np.exp(0.5 + 0.2 * z + rng.normal(size=groups)[group])
    y = np.where(x == 1, 0, rng.poisson(mean))
    if likelihood == "bernoulli":
        y = np.minimum(y, 1)
    return pd.DataFrame(
        {
            "g": group,
            "x": x,
            "z": z,
            "y": y,
            "s": np.minimum(y, 5),
            "k": 5,
            "t": mean * rng.exponential(size=n),
            "event": 1 - x,
        }
    )


RESPONSES = {"binomial": "p(s, k)", "log_normal": "cens(t, event)"}


@pytest.mark.parametrize(
    ("likelihood", "criterion"),
    covering(
        product(
            ["poisson", "bernoulli", "binomial", "negative_binomial", "log_normal"],
            ["REML", "ML"],
        ),
        lambda likelihood, _: likelihood == "bernoulli",
        lambda _, criterion: criterion,
        one_in=1,
    ),
)
def test_separated_rows_say_nothing_of_the_groups(
    likelihood: str, criterion: str
) -> None:
    data = table(likelihood)
    response = RESPONSES.get(likelihood, "y")
    method = f"evidence(criterion='{criterion}')"

    def fit(formula: str, rows: pd.DataFrame) -> pr.Fit:
        model = pr.Model.from_formula(
            f"{response} ~ {formula} + (1 | g)", rows, likelihood=likelihood
        )
        return pr.fit(model, method)

    with pytest.warns(pr.ProbregWarning, match="quasi separation by x"):
        whole = fit("x + z", data)
    part = fit("z", data[data.x == 0])
    kept = ["Intercept", "z"]
    np.testing.assert_allclose(whole.coef.sel(coef=kept), part.coef, rtol=1e-7)
    np.testing.assert_allclose(
        whole.std_error.sel(coef=kept), part.std_error, rtol=1e-5
    )
    assert np.isnan(whole.coef.sel(coef="x"))
    assert np.isnan(whole.std_error.sel(coef="x"))
    for name, value in part.aux.items():
        np.testing.assert_allclose(whole.aux[name], value, rtol=1e-6)
    name = "sd(Intercept | g)"
    np.testing.assert_allclose(
        whole.aux_interval(name, kind="profile"),
        part.aux_interval(name, kind="profile"),
        rtol=1e-6,
    )
    assert np.isnan(whole.covariance("joint").sel(param="x")).all()
    # the limit of each response with x = 1 is reached
    eta = whole.model.eta(whole.solution.beta)[data.x == 1]
    assert np.abs(eta).min() > 25.0
    assert "R²" not in str(whole.summary())


@pytest.mark.parametrize(
    ("likelihood", "right", "weighted"),
    [
        pytest.param(
            "poisson",
            "{x} z + offset(e) + (1 | g) + (1 | k2)",
            True,
            marks=pytest.mark.slow,
        ),
        pytest.param("categorical", "{x} z + (1 | g)", True, marks=pytest.mark.slow),
        pytest.param("poisson", "{x} z + (z | g)", False, marks=pytest.mark.slow),
    ],
)
def test_every_design_leaves_the_separated_rows_out(
    likelihood: str, right: str, weighted: bool
) -> None:
    data = table("poisson")
    n = np.arange(len(data))
    data["e"] = np.linspace(-0.5, 0.5, len(data))
    data["k2"] = n % 3
    # both levels of the rows with x = 1 have no estimate
    data["level"] = np.where(data.x == 0, "R", np.where(n % 4 == 1, "P", "Q"))
    sizes = np.digitize(data.y, [1, 3])
    data["size"] = np.array(["none", "some", "many"])[sizes]
    data["w"] = 1 + n % 2
    response = "size" if likelihood == "categorical" else "y"

    def fit(x: str, rows: pd.DataFrame) -> pr.Fit:
        model = pr.Model.from_formula(
            f"{response} ~ {right.format(x=x)}",
            rows,
            likelihood=likelihood,
            weights=rows.w.to_numpy() if weighted else None,
        )
        return pr.fit(model)

    with pytest.warns(pr.ProbregWarning, match="quasi separation"):
        whole = fit("C(level, Treatment('R')) +", data)
    part = fit("", data[data.x == 0])
    kept = ["Intercept", "z"]
    np.testing.assert_allclose(whole.coef.sel(coef=kept), part.coef, rtol=1e-7)
    np.testing.assert_allclose(
        whole.std_error.sel(coef=kept), part.std_error, rtol=1e-5
    )
    for name, value in part.hyper.items():
        assert whole.hyper[name] == pytest.approx(value, rel=1e-6, abs=1e-9)


def test_a_saved_fit_profiles_the_scales_of_the_other_rows(tmp_path: Path) -> None:
    data = table("bernoulli", groups=12)
    model = pr.Model.from_formula("y ~ x + (1 | g)", data, likelihood="bernoulli")
    with pytest.warns(pr.ProbregWarning, match="quasi separation by x"):
        fit = pr.fit(model)
    fit.save(tmp_path / "fit.nc", rows=True)
    name = "sd(Intercept | g)"
    np.testing.assert_allclose(
        pr.load_fit(tmp_path / "fit.nc").aux_interval(name, kind="profile"),
        fit.aux_interval(name, kind="profile"),
        rtol=1e-9,
    )


def test_errors_beside_a_strong_prior_are_those_of_the_other_rows() -> None:
    data = table("poisson")

    def fit(formula: str, rows: pd.DataFrame) -> pr.Fit:
        prior = {"z": pr.Normal(1e-10)}
        model = pr.Model.from_formula(formula, rows, likelihood="poisson", prior=prior)
        return pr.fit(model, "newton")

    with pytest.warns(pr.ProbregWarning, match="quasi separation by x"):
        whole = fit("y ~ x + z", data)
    part = fit("y ~ z", data[data.x == 0])
    np.testing.assert_allclose(
        whole.std_error.sel(coef=["Intercept", "z"]), part.std_error, rtol=1e-6
    )


def test_the_smallest_increase_is_that_of_the_nearest_separated_row() -> None:
    data = {"x": [0, 0, 0, 0, 1, 2], "y": [0, 1, 0, 1, 1, 1]}
    model = pr.Model.from_formula("y ~ x", data, likelihood="bernoulli")
    found = separation(model)
    np.testing.assert_array_equal(found.separated_rows, [4, 5])
    predictor = (model.design.X @ found.direction)[:, 0]
    assert smallest_increase(model, found) == predictor[4] < predictor[5]


def test_a_limit_with_some_of_the_classes_is_refused() -> None:
    data = table("poisson")
    often = np.where(data.y > 2, "many", "none")
    seldom = np.where(data.z > 0, "some", "none")
    data["level"] = np.where(data.x == 1, seldom, often)
    model = pr.Model.from_formula("level ~ x + (1 | g)", data, likelihood="categorical")
    assert separation(model).separated_rows is None
    with pytest.raises(pr.Incompatible, match=r"separation by Intercept \(some\)"):
        pr.fit(model, "evidence")


@pytest.mark.slow
def test_without_an_exact_check_the_fit_says_what_does_not_exist() -> None:
    rng = np.random.default_rng(2)
    data = {"g": np.repeat(np.arange(12), 10), "x": np.arange(120) % 2}
    data["z"] = rng.normal(size=120)
    data["y"] = np.where(data["x"] == 1, 0, rng.poisson(2, 120))
    formulas = {"y": "y ~ x + z + (1 | g)", "logit zero": "~ z"}
    model = pr.Model.from_formula(formulas, data, likelihood="zero_inflated(poisson)")
    with pytest.warns(pr.ProbregWarning, match="no maximum likelihood estimate"):
        fit = pr.fit(model, "evidence")
    assert np.isnan(fit.coef.sel(coef="x"))
