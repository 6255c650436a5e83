"""Tests of terms against statsmodels' analysis of variance, and against fits of the smaller models."""

import numpy as np
import pytest

import probreg as pr

PENGUINS = pr.load_dataset("penguins").dropna()
PENGUINS["heavy"] = (PENGUINS["body_mass_g"] > 4200).astype(int)
TERMS = ["flipper_length_mm", "sex", "species", "sex:species"]


@pytest.mark.parametrize("covariance", [None, "HC3"])
def test_least_squares_has_the_f_tests_of_statsmodels(covariance):
    smf = pytest.importorskip("statsmodels.formula.api")
    from statsmodels.stats.anova import anova_lm

    fit = pr.ols("body_mass_g ~ flipper_length_mm + sex * species", PENGUINS)
    found = pr.anova(fit, covariance=covariance)
    formula = "body_mass_g ~ flipper_length_mm + C(sex, Sum) * C(species, Sum)"
    expected = anova_lm(
        smf.ols(formula, PENGUINS).fit(),
        typ=2,
        robust=None if covariance is None else covariance.lower(),
    )
    expected = expected.iloc[[3, 0, 1, 2]]
    assert list(found.index) == TERMS
    np.testing.assert_allclose(found["statistic"], expected["F"], rtol=1e-8)
    np.testing.assert_allclose(found["p_value"], expected["PR(>F)"], rtol=1e-6)
    assert (found["df_resid"] == 326.0).all()
    assert found["df"].tolist() == [1, 1, 2, 2]


@pytest.mark.parametrize("type", ["I", "III"])
@pytest.mark.parametrize("right", ["{sex} * {species}", "{sex} + {species} + year"])
def test_sequential_and_marginal_tests_are_those_of_statsmodels(type, right):
    smf = pytest.importorskip("statsmodels.formula.api")
    from statsmodels.stats.anova import anova_lm

    def formula(contrast: str) -> str:
        factors = {name: f"C({name}, {contrast})" for name in ("sex", "species")}
        return f"body_mass_g ~ {right.format(**factors)}"

    found = pr.anova(pr.ols(formula("contr.sum"), PENGUINS), type=type)
    expected = anova_lm(smf.ols(formula("Sum"), PENGUINS).fit(), typ=len(type))
    expected = expected.drop(["Intercept", "Residual"], errors="ignore")
    assert [name.replace("contr.sum", "Sum") for name in found.index] == list(
        expected.index
    )
    np.testing.assert_allclose(found["statistic"], expected["F"], rtol=1e-7)
    np.testing.assert_allclose(found["df"], expected["df"])


def test_sequential_likelihood_ratios_are_differences_of_deviances():
    terms = ["sex", "year", "flipper_length_mm"]
    fits = [
        pr.logistic(f"heavy ~ {' + '.join(terms[:k]) or '1'}", PENGUINS)
        for k in range(4)
    ]
    found = pr.anova(fits[-1], "lr", type="I")
    assert list(found.index) == terms
    deviances = [2.0 * fit.log_likelihood for fit in fits]
    np.testing.assert_allclose(found["statistic"], np.diff(deviances), rtol=1e-6)


def test_terms_of_each_parameter_have_a_sequence_of_their_own():
    formulas = {"y": "body_mass_g ~ sex + species", "log sigma": "~ species + sex"}
    fit = pr.fit(pr.Model.from_formula(formulas, PENGUINS))
    first, second = pr.anova(fit, type="I"), pr.anova(fit)
    last = ["species", "log sigma: sex"]
    np.testing.assert_allclose(
        first.loc[last, "statistic"], second.loc[last, "statistic"]
    )
    alone = pr.Model.from_formula(
        formulas | {"y": "body_mass_g ~ species + sex"}, PENGUINS
    )
    other = pr.anova(pr.fit(alone), type="I")
    sigma = ["log sigma: species", "log sigma: sex"]
    np.testing.assert_allclose(
        first.loc[sigma, "statistic"], other.loc[sigma, "statistic"], rtol=1e-6
    )


@pytest.mark.parametrize("likelihood", ["bernoulli", "poisson"])
def test_likelihood_ratios_are_those_of_two_fits(likelihood):
    def fitted(right: str) -> pr.Fit:
        return pr.fit(
            pr.Model.from_formula(f"heavy ~ {right}", PENGUINS, likelihood=likelihood)
        )

    whole = fitted("flipper_length_mm + island * year")
    found = pr.anova(whole, "lr")
    additive = fitted("flipper_length_mm + island + year")
    smaller = {
        "flipper_length_mm": (whole, fitted("island * year")),
        "island": (additive, fitted("flipper_length_mm + year")),
        "year": (additive, fitted("flipper_length_mm + island")),
        "island:year": (whole, additive),
    }
    for term, (large, small) in smaller.items():
        ratio = 2.0 * (large.log_likelihood - small.log_likelihood)
        assert found.loc[term, "statistic"] == pytest.approx(ratio, rel=1e-6)
        assert found.loc[term, "df"] == large.n_parameters - small.n_parameters
    assert found["df_resid"].isna().all()


def test_the_contrasts_of_a_factor_change_nothing():
    treatment = pr.ols("body_mass_g ~ sex * species", PENGUINS)
    sums = pr.ols("body_mass_g ~ C(sex, contr.sum) * C(species, contr.sum)", PENGUINS)
    names = ["df", "df_resid", "statistic", "p_value"]
    found, expected = pr.anova(treatment)[names], pr.anova(sums)[names]
    np.testing.assert_allclose(found, expected, rtol=1e-8)


def test_a_mixed_model_has_satterthwaites_degrees_of_freedom():
    """lmerTest: F(1, 17) = 45.853 for days in the study of sleep deprivation."""
    table = pr.load_dataset("sleepstudy")
    fit = pr.fit(pr.Model.from_formula("reaction ~ days + (days | subject)", table))
    with pytest.raises(pr.Incompatible, match="no likelihood ratio"):
        pr.anova(fit, "lr")
    (row,) = pr.anova(fit).itertuples()
    assert row.statistic == pytest.approx(45.853, abs=2e-3)
    assert row.df_resid == pytest.approx(17.0, abs=1e-3)


def test_terms_of_each_outcome_and_of_each_parameter():
    fit = pr.softmax("species ~ flipper_length_mm + sex", PENGUINS)
    assert pr.anova(fit)["df"].tolist() == [2, 2]
    model = pr.Model.from_formula(
        {"y": "body_mass_g ~ sex * species", "log sigma": "~ sex"}, PENGUINS
    )
    found = pr.anova(pr.fit(model))
    assert list(found.index) == ["sex", "species", "sex:species", "log sigma: sex"]
    # a term of sigma does not contain one of the mean
    model = pr.Model.from_formula(
        {"y": "body_mass_g ~ sex", "log sigma": "~ sex * species"}, PENGUINS
    )
    fit = pr.fit(model)
    alone = pr.hypothesis(fit, "sex")["Wald"]
    assert pr.anova(fit).loc["sex", "statistic"] == pytest.approx(alone.statistic)


def test_a_mode_under_a_prior_with_kinks_has_no_sequential_tests():
    fit = pr.lasso("body_mass_g ~ flipper_length_mm + year", PENGUINS, lam=1.0)
    with pytest.raises(pr.Incompatible, match="no standard error"):
        pr.anova(fit, type="I")


def test_what_has_no_tests_is_refused():
    ridge = pr.ridge("body_mass_g ~ sex * species", PENGUINS, scale=100.0)
    with pytest.raises(pr.Incompatible, match="no test of the term 'sex'"):
        pr.anova(ridge)
    with pytest.raises(pr.Incompatible, match="mode under a prior"):
        pr.anova(ridge, "lr")
    line = pr.Model.from_formula("body_mass_g ~ sex", PENGUINS)
    with pytest.raises(pr.Incompatible, match=r"anova .*posterior has no tests"):
        pr.anova(pr.fit(line, "conjugate"))
    with pytest.raises(pr.Incompatible, match="covariance= is for Wald"):
        pr.anova(pr.fit(line), "lr", covariance="HC3")
    median = pr.quantile_regression("body_mass_g ~ sex", PENGUINS, tau=0.5)
    with pytest.raises(pr.Incompatible, match="kinks"):
        pr.anova(median, "lr")


@pytest.mark.filterwarnings("ignore::probreg.ProbregWarning")
@pytest.mark.parametrize("response", ["body_mass_g", "odd"])
def test_a_term_has_the_degrees_of_freedom_that_the_rows_identify(response):
    empty = (PENGUINS["sex"] == "female") & (PENGUINS["species"] == "Gentoo")
    rows = PENGUINS[~empty]
    rows = rows.assign(odd=(rows["flipper_length_mm"] % 2).astype(int))
    terms = ["sex", "year", "I(3 * year)", "species", "sex:species"]

    def fit(k):
        formula = f"{response} ~ {' + '.join(terms[:k]) or '1'}"
        kind = "bernoulli" if response == "odd" else "gaussian"
        return pr.fit(pr.Model.from_formula(formula, rows, likelihood=kind))

    fits = [fit(k) for k in range(6)]
    found = pr.anova(fits[-1], "lr", type="I")
    assert found["df"].tolist() == [1, 1, 0, 2, 1]
    assert np.isnan(found.loc["I(3 * year)", ["statistic", "p_value"]].tolist()).all()
    logs = [f.log_likelihood for f in fits]
    tested = found["df"] > 0
    np.testing.assert_allclose(
        found["statistic"][tested], (2 * np.diff(logs))[tested], rtol=1e-5, atol=1e-6
    )
    wald = pr.anova(fits[-1])
    assert wald["df"].tolist() == [1, 0, 0, 2, 1]
    assert wald.loc["sex:species", "statistic"] == pytest.approx(
        pr.anova(fits[-1], type="III").loc["sex:species", "statistic"]
    )


def test_a_formula_of_groups_alone_has_no_terms_to_test():
    fit = pr.fit(pr.Model.from_formula("body_mass_g ~ 0 + (1 | species)", PENGUINS))
    assert pr.anova(fit).empty
