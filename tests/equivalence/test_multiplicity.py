"""Families of contrasts: balanced grids by hand, Tukey's numbers of R, and a joint law that is right where it is known."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import probreg as pr
from probreg.inference.uncertainty.multiplicity import adjust_tests, largest_of_family

# Tippett (1950), as R's warpbreaks
CELLS = {
    "AL": [26, 30, 54, 25, 70, 52, 51, 26, 67], "AM": [18, 21, 29, 17, 12, 18, 35, 30, 36], "AH": [36, 21, 24, 18, 10, 43, 28, 15, 26],
    "BL": [27, 14, 29, 19, 29, 31, 41, 20, 44], "BM": [42, 26, 19, 16, 39, 28, 21, 39, 29], "BH": [20, 21, 24, 17, 13, 15, 15, 16, 28],
}  # fmt: skip
WARP = pd.DataFrame([(cell[0], cell[1], float(y)) for cell, ys in CELLS.items() for y in ys], columns=["wool", "tension", "breaks"])  # fmt: skip
PAIRS = {"tension": "pairwise"}


def test_tukeys_differences_are_those_of_r():
    """TukeyHSD(aov(breaks ~ wool + tension, warpbreaks), "tension"), as its help page prints them."""
    fit = pr.fit(pr.Model.from_formula("breaks ~ wool + tension", WARP))
    found = pr.comparisons(fit, PAIRS, adjust="tukey").table.set_index("contrast")
    theirs = {  # of the second level against the first: estimate, lower, upper, p
        "M against L": (-10.0, -19.35342, -0.6465793, 0.0336262),
        "L against H": (14.722222, 5.3688015, 24.07564, 0.0011218),
        "M against H": (4.722222, -4.6311985, 14.07564, 0.4474210),
    }
    for name, row in theirs.items():
        np.testing.assert_allclose(
            found.loc[name, ["estimate", "lower", "upper", "p_value"]].astype(float),
            row,
            rtol=1e-5,
            atol=5e-8,
        )  # seven decimals are printed
    general = pr.comparisons(fit, PAIRS, adjust="single-step").table.set_index(
        "contrast"
    )
    np.testing.assert_allclose(general["p_value"], found["p_value"], atol=3e-4)
    half = [table["upper"] - table["estimate"] for table in (general, found)]
    np.testing.assert_allclose(*half, rtol=2e-3)  # of 65,536 points


@pytest.mark.parametrize("rows", [slice(None), slice(4, 50)], ids=["balanced", "not"])
def test_means_over_a_balanced_grid_are_means_of_cell_means(rows):
    data = WARP.iloc[rows]
    fit = pr.fit(pr.Model.from_formula("breaks ~ wool * tension", data))
    cells = data.groupby(["wool", "tension"])["breaks"].agg(["mean", "size"]).unstack()
    sigma2 = float(
        (
            (
                data["breaks"]
                - data.groupby(["wool", "tension"])["breaks"].transform("mean")
            )
            ** 2
        ).sum()
    ) / (len(data) - 6)
    found = pr.predictions(fit, by="tension", grid="balanced").table.set_index(
        "tension"
    )
    for level in "LMH":
        assert found.loc[level, "estimate"] == pytest.approx(
            cells["mean"][level].mean(), rel=1e-12
        )
        assert found.loc[level, "std_error"] == pytest.approx(
            np.sqrt(sigma2 * (1 / cells["size"][level]).sum()) / 2, rel=1e-9
        )
    pairs = pr.comparisons(fit, PAIRS, grid="balanced").table.set_index("contrast")
    assert pairs.loc["M against L", "estimate"] == pytest.approx(
        found.loc["M", "estimate"] - found.loc["L", "estimate"]
    )


def test_numbers_and_offsets_stand_at_their_means():
    rng = np.random.default_rng(0)
    data = pd.DataFrame(
        {
            "g": list("abc") * 10,
            "b": [True, False, False] * 10,
            "x": rng.normal(size=30),
            "t": rng.uniform(1, 3, 30),
        }
    )
    data["y"] = rng.poisson(3.0, 30)
    fit = pr.fit(
        pr.Model.from_formula("y ~ g + x", data, likelihood="poisson", offset="log(t)")
    )
    found = pr.predictions(fit, by="g", grid="balanced").table["estimate"]
    const, g_b, g_c, x = fit.coef.values
    eta = (
        const
        + np.array([0.0, g_b, g_c])
        + x * data["x"].mean()
        + np.log(data["t"].mean())
    )
    np.testing.assert_allclose(found, np.exp(eta), rtol=1e-10)
    both = pr.predictions(
        pr.fit(pr.Model.from_formula("y ~ g + b:x", data)), grid="balanced"
    )
    assert "6 cells (g, b; numbers at their means)" in both.what


def test_the_joint_law_where_it_is_known():
    for df, law in ((None, stats.norm), (7.0, stats.t(7.0))):
        one = np.sort(largest_of_family(np.eye(1), df))
        np.testing.assert_allclose(
            np.quantile(one, [0.5, 0.95, 0.99]),
            law.isf([0.25, 0.025, 0.005]),
            rtol=2e-3,
        )
    # independent: P(max <= c) = P(|Z| <= c)^3
    three = largest_of_family(np.diag([1.0, 4.0, 9.0]), None)
    assert np.mean(three <= 2.0) == pytest.approx(
        (1 - 2 * stats.norm.sf(2.0)) ** 3, abs=2e-4
    )
    same = adjust_tests(
        np.array([2.0, 2.0]), np.ones((2, 2)), None, prob=0.95, adjust="single-step"
    )
    # one test said twice costs nothing
    np.testing.assert_allclose(same.p, 2 * stats.norm.sf(2.0), atol=2e-4)
    assert same.critical == pytest.approx(stats.norm.isf(0.025), rel=1e-3)


def test_holm_and_bonferroni_by_hand():
    t = stats.norm.isf(np.array([0.02, 0.005, 0.3]) / 2)
    holm = adjust_tests(t, np.eye(3), None, prob=0.95, adjust="holm")
    np.testing.assert_allclose(holm.p, [0.04, 0.015, 0.3], rtol=1e-9)
    plain = adjust_tests(t, np.eye(3), None, prob=0.95, adjust="bonferroni")
    np.testing.assert_allclose(plain.p, [0.06, 0.015, 0.9], rtol=1e-9)
    assert plain.critical == holm.critical == pytest.approx(stats.norm.isf(0.05 / 6))


def test_hypotheses_of_a_family():
    fit = pr.fit(pr.Model.from_formula("breaks ~ wool + tension", WARP))
    text = "tension[T.L] = 0, tension[T.M] = 0, tension[T.L] = tension[T.M]"
    found = pr.hypothesis(fit, text, adjust="single-step")
    pairs = pr.comparisons(fit, PAIRS, adjust="single-step").table
    # other axes of the same law meet other points
    np.testing.assert_allclose(
        found.estimates["p_value"], pairs["p_value"], rtol=2e-3, atol=2e-4
    )
    # that of all together stays
    assert found["F"].p == pytest.approx(pr.hypothesis(fit, text)["F"].p)
    assert "simultaneous: single-step over 3" in found.notes[-1]


def test_where_nothing_can_be_adjusted_it_is_said():
    model = pr.Model.from_formula("breaks ~ wool * tension", WARP.iloc[4:])
    fit = pr.fit(model)
    with pytest.raises(
        pr.DataError, match="adjust= must be None or one of 'bonferroni'"
    ):
        pr.comparisons(fit, PAIRS, adjust="fdr")
    with pytest.raises(pr.DataError, match="grid is 'balanced'"):
        pr.comparisons(fit, PAIRS, grid="rows")
    with pytest.raises(pr.Incompatible, match="all pairs of levels"):
        pr.comparisons(fit, {"tension": "reference"}, adjust="tukey")
    posterior, ridge = (
        pr.fit(model, "conjugate"),
        pr.fit(model.with_prior(pr.Normal(1.0, sigma_units=True))),
    )
    for ask in (
        lambda f: pr.comparisons(f, PAIRS, adjust="holm"),
        lambda f: pr.hypothesis(f, "wool[T.B] = 0", adjust="holm"),
    ):
        with pytest.raises(pr.Incompatible, match="a posterior has none"):
            ask(posterior)
        with pytest.raises(
            pr.Incompatible, match="the mode under a prior has no p-values"
        ):
            ask(ridge)


@pytest.mark.parametrize("adjust", ["holm", "bonferroni", "single-step", "tukey"])
def test_the_p_value_of_each_test_alone_stands_beside_the_adjusted_one(adjust):
    fit = pr.fit(pr.Model.from_formula("breaks ~ wool + tension", WARP))
    found = pr.comparisons(fit, PAIRS, adjust=adjust)
    t = found.table["estimate"] / found.table["std_error"]
    np.testing.assert_allclose(
        found.table["p_unadjusted"],
        2.0 * stats.t.sf(np.abs(t), fit.df_resid),
        rtol=1e-10,
    )
    assert (found.table["p_unadjusted"] <= found.table["p_value"]).all()
    assert "p_unadjusted" in repr(found)
    if adjust != "tukey":
        each = pr.hypothesis(
            fit, "tension[T.L] = 0, tension[T.M] = 0", adjust=adjust
        ).estimates
        np.testing.assert_allclose(
            each["p_unadjusted"],
            fit.summary()["p_value"][["tension[T.L]", "tension[T.M]"]],
            rtol=1e-9,
        )


def test_tukey_of_groups_of_other_sizes_is_that_of_scipy():
    data = WARP.iloc[4:47]
    groups = [part["breaks"].to_numpy() for _, part in data.groupby("tension")]
    theirs = stats.tukey_hsd(*groups)
    found = pr.comparisons(
        pr.fit(pr.Model.from_formula("breaks ~ tension", data)), PAIRS, adjust="tukey"
    ).table
    levels = sorted(data["tension"].unique())
    ends = theirs.confidence_interval(0.95)
    for contrast, p, lower, upper in found[
        ["contrast", "p_value", "lower", "upper"]
    ].itertuples(index=False):
        j, i = (levels.index(name) for name in contrast.split(" against "))
        np.testing.assert_allclose(p, theirs.pvalue[j, i], rtol=1e-8)
        np.testing.assert_allclose(
            [lower, upper], [ends.low[j, i], ends.high[j, i]], rtol=1e-7
        )


def test_tukey_at_large_samples_is_the_range_of_normal_means():
    counts = pr.fit(
        pr.Model.from_formula("breaks ~ tension", WARP, likelihood="poisson")
    )
    for measure in ("difference", "ratio"):
        plain, found = (
            pr.comparisons(counts, PAIRS, measure=measure, adjust=a).table
            for a in ("bonferroni", "tukey")
        )
        z = stats.norm.isf(plain["p_unadjusted"] / 2)
        np.testing.assert_allclose(
            found["p_value"],
            stats.studentized_range.sf(np.sqrt(2) * z, 3, np.inf),
            rtol=1e-7,
            atol=1e-12,
        )


def test_pairs_in_several_groups_have_the_joint_distribution():
    fit = pr.fit(pr.Model.from_formula("breaks ~ wool * tension", WARP))
    one, other = (
        pr.comparisons(fit, PAIRS, by="wool", adjust=a).table["p_value"]
        for a in ("tukey", "single-step")
    )
    np.testing.assert_array_equal(one, other)


def grouped_rows() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    n = 90
    data = pd.DataFrame({"x": rng.uniform(0, 10, n), "t": np.array(list("abc"))[rng.integers(0, 3, n)], "g": np.repeat(np.arange(9), 10).astype(str)})  # fmt: skip
    eta = (
        0.3 * np.sin(data.x)
        + 0.5 * (data.t == "b")
        + 0.2 * rng.normal(size=9)[data.g.astype(int)]
    )
    data["y"], data["k"] = eta + 0.5 * rng.normal(size=n), rng.poisson(np.exp(eta))
    data["b"] = (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(int)
    data["c"] = np.array(list("uvw"))[rng.integers(0, 3, n)]
    return data


@pytest.mark.parametrize(
    ("right", "response", "likelihood"),
    [
        ("t + (1 | g)", "y", "gaussian"),
        ("t + s(x)", "k", "poisson"),
        ("t + s(x) + (1 | g)", "y", pr.StudentT(nu=4.0)),
        pytest.param("t + gp(x)", "b", "bernoulli", marks=pytest.mark.slow),
        pytest.param("t + (1 | g)", "c", "categorical", marks=pytest.mark.slow),
    ],
)
def test_contrasts_of_mixed_models_and_smooths_are_adjusted(
    right, response, likelihood
):
    fit = pr.fit(
        pr.Model.from_formula(
            f"{response} ~ {right}", grouped_rows(), likelihood=likelihood
        )
    )
    plain = pr.comparisons(fit, {"t": "pairwise"}).table
    found = {
        a: pr.comparisons(fit, {"t": "pairwise"}, adjust=a).table
        for a in ("tukey", "single-step", "holm", "bonferroni")
    }
    for table in found.values():
        np.testing.assert_allclose(table["estimate"], plain["estimate"], rtol=1e-12)
        assert (table["p_value"] >= table["p_unadjusted"] - 1e-12).all()
        assert (
            table["upper"] - table["lower"] >= plain["upper"] - plain["lower"] - 1e-12
        ).all() or right == "t + gp(x)"
    alone = found["bonferroni"]["p_unadjusted"]
    np.testing.assert_allclose(
        found["bonferroni"]["p_value"], np.minimum(len(alone) * alone, 1.0), rtol=1e-12
    )
    assert (found["single-step"]["p_value"] <= found["bonferroni"]["p_value"]).all()
    texts = {"t[T.b] = 0", "t[T.c] = 0"}
    assert (
        pr.hypothesis(fit, ", ".join(sorted(texts)), adjust="holm").estimates["p_value"]
        <= 1.0
    ).all()


def test_each_test_has_its_own_degrees_of_freedom():
    """With Satterthwaite's degrees of freedom p alone is that of the table of coefficients."""
    fit = pr.fit(pr.Model.from_formula("y ~ t + x + (1 | g)", grouped_rows()))
    text = "t[T.b] = 0, x = 0"
    found = pr.hypothesis(fit, text, adjust="holm").estimates
    np.testing.assert_allclose(
        found["p_unadjusted"], fit.summary()["p_value"][["t[T.b]", "x"]], rtol=1e-6
    )
    each = pr.comparisons(fit, "t", adjust="bonferroni").table
    np.testing.assert_allclose(
        each["p_unadjusted"], fit.summary()["p_value"][["t[T.b]", "t[T.c]"]], rtol=1e-6
    )


def test_a_smooth_function_of_stated_scale_has_no_tests():
    fit = pr.fit(
        pr.Model.from_formula(
            "y ~ t + s(x)", grouped_rows(), prior={"s(x)": pr.Normal(1.0)}
        )
    )
    with pytest.raises(pr.Incompatible, match="under a prior"):
        pr.comparisons(fit, {"t": "pairwise"}, adjust="holm")


def _mixed_warp() -> pr.Fit:
    data = WARP.assign(loom=np.arange(len(WARP)) % 6)
    return pr.fit(pr.Model.from_formula("breaks ~ wool * tension + (1 | loom)", data))


FITS = {
    "least squares": lambda: pr.ols("breaks ~ wool * tension", WARP),
    "poisson": lambda: pr.poisson("breaks ~ wool * tension", WARP),
    "mixed": _mixed_warp,
    "evidence of a smooth": lambda: pr.gam(
        "breaks ~ s(row) + tension", WARP.assign(row=np.arange(54.0))
    ),
}


@pytest.mark.parametrize(
    ("name", "adjust"),
    [
        ("least squares", None),
        ("least squares", "tukey"),
        ("poisson", "single-step"),
        ("mixed", None),
        ("mixed", "holm"),
        ("evidence of a smooth", "tukey"),
    ],
)
def test_pairs_of_predictions_are_comparisons(name, adjust):
    fit = FITS[name]()
    means = pr.predictions(fit, at={"tension": ["H", "L", "M"]})
    pairs = means.hypothesis(adjust=adjust)
    expected = pr.comparisons(
        fit, PAIRS, adjust=adjust, average_over="sample"
    ).table.drop(columns="variable")
    assert list(pairs.table.columns) == list(expected.columns)
    assert pairs.table["contrast"].tolist() == expected["contrast"].tolist()
    numbers = list(expected.columns[1:])
    if adjust == "single-step":
        # 65,536 points along other axes: p near 0.05 is accurate to 2e-4, near 0.4 to five times as much, as p (1 - p) is
        half = [table["upper"] - table["estimate"] for table in (pairs.table, expected)]
        np.testing.assert_allclose(*half, rtol=2e-3)
        np.testing.assert_allclose(
            pairs.table["p_value"], expected["p_value"], atol=1e-3
        )
        numbers = ["estimate", "std_error", "p_unadjusted"]
    np.testing.assert_allclose(  # sums in another order
        pairs.table[numbers], expected[numbers], rtol=1e-6
    )
    if name == "mixed" and adjust is None:
        exact = pr.comparisons(fit, PAIRS, average_over="sample")
        assert pairs.kind == exact.kind
    second = means.hypothesis("b3 = b2", adjust="holm").table.iloc[0]
    plain = means.hypothesis().table.iloc[2]
    columns = ["estimate", "std_error", "p_value"]
    np.testing.assert_allclose(
        second[columns].astype(float), plain[columns].astype(float), rtol=1e-12
    )


def test_p_values_of_slopes_and_contrasts_are_those_of_the_coefficients():
    data = WARP.assign(x=np.arange(54.0) % 7)
    fit = pr.ols("breaks ~ x + wool", data)
    expected = fit.summary()["p_value"]
    for table in (pr.slopes(fit).table, pr.comparisons(fit, "x", adjust=None).table):
        assert table["p_value"].between(0.0, 1.0).all()
    fixed = {"average_over": "sample"}
    assert pr.slopes(fit, **fixed).table["p_value"].item() == pytest.approx(
        expected["x"], rel=1e-8
    )
    wool = pr.comparisons(fit, "wool", **fixed).table["p_value"].item()
    assert wool == pytest.approx(expected["wool[T.B]"], rel=1e-8)
    logit = pr.logistic("wide ~ x + wool", data.assign(wide=data["breaks"] > 26))
    row = {"x": [1.0], "wool": ["A"]}
    odds = pr.comparisons(logit, "x", measure="odds_ratio", data=row).table
    assert odds["p_value"].item() == pytest.approx(
        logit.summary()["p_value"]["x"], rel=1e-8
    )
    assert "p_value" not in pr.predictions(fit).table


@pytest.mark.parametrize("method", ["conjugate", "laplace"])
def test_contrasts_of_a_posterior_have_no_p_value(method):
    model = pr.Model.from_formula(
        "breaks ~ wool * tension", WARP, prior=pr.Normal(100.0)
    )
    if method == "conjugate":
        model = model.with_prior(pr.Flat())
    fit = pr.fit(model, method, seed=1)
    means = pr.predictions(fit, at={"tension": ["H", "L", "M"]})
    pairs = means.hypothesis()
    expected = pr.comparisons(fit, PAIRS, average_over="sample").table
    columns = ["estimate", "sd", "lower", "upper"]
    assert list(pairs.table.columns[1:]) == columns
    np.testing.assert_allclose(pairs.table[columns], expected[columns], rtol=1e-8)
    with pytest.raises(pr.Incompatible, match="adjust="):
        means.hypothesis(adjust="holm")


def test_contrasts_of_contrasts_are_contrasts_of_the_effects():
    """Degrees of freedom by Satterthwaite differ between contrasts."""
    means = pr.predictions(_mixed_warp(), at={"tension": ["H", "L", "M"]})
    pairs = means.hypothesis(adjust="tukey")
    twice = pairs.hypothesis("b2 = b1")
    once = means.hypothesis("b3 = b2")
    columns = ["estimate", "std_error", "lower", "upper", "p_value"]
    np.testing.assert_allclose(twice.table[columns], once.table[columns], rtol=1e-9)
    assert twice.kind == once.kind


def test_a_hypothesis_about_effects_is_a_list_of_equations_of_rows():
    means = pr.predictions(FITS["least squares"](), by="tension")
    difference = means.hypothesis("b3 - b2 = b2 - b1, b1 = 2")
    b1, b2, b3 = means.table["estimate"]
    np.testing.assert_allclose(
        difference.table["estimate"], [b3 - 2 * b2 + b1, b1 - 2.0], rtol=1e-12
    )
    for text in ("b1 > b2", "b1 = b4", "b1 ="):
        with pytest.raises(pr.DataError):
            means.hypothesis(text)
    with pytest.raises(pr.Incompatible, match="tukey"):
        means.hypothesis("b1 = b2", adjust="tukey")


def test_simultaneous_intervals_at_new_groups_are_those_of_their_covariance():
    """Of Bonferroni over two contrasts, and not quantiles of the draws."""
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(8), 6)
    data = {"x": np.tile(list("abc"), 16), "g": group.astype(str)}
    data["y"] = rng.poisson(np.exp(1.0 + 0.5 * rng.normal(size=8)[group]))
    model = pr.Model.from_formula("y ~ x + (1 | g)", data, likelihood="poisson")
    found = pr.comparisons(pr.fit(model), "x", groups="new", adjust="bonferroni")
    half = (found.table["upper"] - found.table["lower"]) / 2.0
    ratio = half / np.sqrt(np.diagonal(found.covariance))
    np.testing.assert_allclose(ratio, stats.norm.isf(0.05 / 4.0), rtol=1e-9)
