"""What a user meets off the main road: saturated and saved fits, priors relative to the rows, tables in another order."""

import warnings

import numpy as np
import pandas as pd
import pytest

import probreg as pr
from probreg.comparison.hypotheses.restricted import Restrictions, restricted_mode
from probreg.errors import DataError, Incompatible, NotConverged
from probreg.fits.leave_out.rows import leave_one_out
from probreg.inference.base import split_parameters

pytestmark = pytest.mark.filterwarnings("ignore:.*:probreg.errors.ProbregWarning")


@pytest.fixture
def table(rng):
    n = 40
    x, z = rng.normal(size=n), rng.normal(size=n)
    y = 1.0 + x - 0.5 * z + rng.normal(size=n)
    return pd.DataFrame(
        {
            "x": x,
            "z": z,
            "y": y,
            "b": (y > 1).astype(int),
            "g": np.repeat(np.arange(8), 5),
        }
    )


def test_every_interval_of_a_saturated_fit_is_refused_in_words(table):
    fit = pr.ols("y ~ x + z", table[:3])
    with pytest.raises(NotConverged, match="no degrees of freedom"):
        fit.interval()
    for kind in ("observed", "expected", "sampling", "HC1", "HC3"):
        with pytest.raises(NotConverged, match="meets every response exactly"):
            fit.covariance(kind)
    with pytest.raises(NotConverged, match="meets every response exactly"):
        fit.covariance("cluster", groups=[0, 0, 1])
    with pytest.raises(Incompatible, match="no degrees of freedom"):
        pr.hypothesis(fit, "x = 0")
    assert np.isnan(fit.log_likelihood)
    assert "no bound" in repr(pr.compare_models({"all": fit, "again": fit}))


def test_the_covariance_of_a_fit_gives_back_its_own_interval(table):
    fit = pr.ols("y ~ x + z", table)
    assert fit.interval(covariance=fit.covariance()).identical(fit.interval())


@pytest.mark.slow
def test_a_score_interval_with_sigma_given_is_walds(table):
    """There the statistic meets its quantile exactly where the search first looks."""
    for seed in range(6):
        some = table.sample(20, random_state=seed)
        fit = pr.fit(pr.Model.from_formula("y ~ x + z", some, aux={"sigma": 1.0}))
        for prob in (0.9, 0.95):
            score, wald = fit.interval(prob, "score"), fit.interval(prob, "wald")
            np.testing.assert_allclose(
                score["upper"], wald["upper"], rtol=1e-9, atol=1e-12
            )  # both roots to 1e-11


def test_groups_follow_the_labels_of_rows(table):
    fit = pr.ols("y ~ x + z", table)
    shuffled = table.sample(frac=1, random_state=3)
    right = fit.covariance("cluster", groups="g", data=table)
    assert fit.covariance("cluster", groups="g", data=shuffled).identical(right)
    assert fit.covariance("cluster", groups=shuffled["g"]).identical(right)
    # no labels: the order is all there is
    plain = fit.covariance("cluster", groups=shuffled["g"].to_numpy())
    assert not np.allclose(plain, right)


def test_groups_of_a_fit_saved_without_rows_are_refused(table, tmp_path):
    loaded = pr.load_fit(pr.ols("y ~ x", table).save(tmp_path / "fit.nc"))
    with pytest.raises(DataError, match="saved without"):
        loaded.covariance("cluster", groups=table["g"])


@pytest.mark.parametrize(
    "prior",
    [pr.priors.GPrior(10.0), pr.priors.Jeffreys(), pr.Normal(1.0, scaled=True)],
    ids=lambda p: p.name,
)
def test_leaving_a_row_out_is_a_fit_without_it_where_the_prior_is_relative_to_rows(
    table, prior
):
    model = pr.Model.from_formula(
        "b ~ x + z", table, likelihood="bernoulli", prior=prior
    )
    found = leave_one_out(pr.fit(model)).elpd
    for row in (0, 17):
        rest = pr.Model.from_formula(
            "b ~ x + z", table.drop(index=row), likelihood="bernoulli", prior=prior
        )
        expected = (
            pr.fit(rest)
            .predictive(table.loc[[row]])
            .log_prob(np.array([table["b"][row]]))
        )
        # Newton stops 1e-4 errors before the mode
        np.testing.assert_allclose(found[row], expected[0], rtol=1e-6)


def test_a_panel_of_an_exact_fit_and_of_a_row_in_the_wrong_place(table):
    exact = pr.ols("w ~ x", table.assign(w=2.0 * table["x"]))
    assert "x" in repr(pr.interval_panel(exact, "x"))
    with pytest.raises(DataError, match="DataFrame"):
        pr.interval_panel(exact, table.iloc[:1])


@pytest.mark.slow
def test_priors_of_unknown_scale_are_named_where_they_have_no_formula(table):
    fit = pr.fit(
        pr.Model.from_formula("y ~ x + z", table, prior=pr.Normal(pr.HalfNormal(1.0))),
        pr.Integrate(nodes=256, draws=20),
    )
    with pytest.raises(Incompatible, match="unknown-scale prior"):
        pr.influence_measures(fit)


def test_reasons_are_sentences(table):
    separated = pr.fit(pr.Model.from_formula("b ~ y", table, likelihood="bernoulli"))
    with pytest.raises(NotConverged, match=r"^a sandwich covariance does not exist: "):
        separated.covariance("HC0")
    lasso = pr.fit(pr.Model.from_formula("y ~ x + z", table, prior=pr.Laplace(0.3)))
    with pytest.raises(Incompatible, match="kinks"):
        pr.hypothesis(lasso, "x = 0")
    assert "1 fit\n" in repr(pr.compare_models({"a": pr.ols("y ~ x", table)}))


def test_a_named_covariance_serves_effects_of_collinear_columns(table):
    """What is estimable has the same robust error whether a redundant column is there or not."""
    whole = pr.ols("y ~ x + z", table)
    spare = pr.fit(pr.Model.from_formula("y ~ x + z + I(x + z)", table))
    for covariance in ("HC3", "HC0"):
        a, b = (pr.predictions(f, covariance=covariance).table for f in (whole, spare))
        np.testing.assert_allclose(a["std_error"], b["std_error"], rtol=1e-9)


def test_spread_is_the_covariance_of_the_models_own_coefficients(rng):
    X, y = rng.normal(size=(60, 1)), rng.choice(list("abc"), 60)
    fit = pr.fit(pr.Model.from_arrays(X, y, likelihood="categorical"))
    np.testing.assert_allclose(
        fit.spread("HC0").matrix.matrix(),
        fit.spread(fit.covariance("HC0")).matrix.matrix(),
        rtol=1e-10,
    )
    np.testing.assert_allclose(
        fit.spread(fit.covariance()).matrix.matrix(),
        fit.spread().matrix.matrix(),
        rtol=1e-10,
    )
    assert fit.spread("HC0").words["kind"] == "HC0"
    with pytest.raises(DataError, match="groups="):
        fit.spread("cluster")


def test_the_restricted_maximum_meets_the_restriction_and_beats_its_neighbours(table):
    fit = pr.fit(pr.Model.from_formula("y ~ x + z", table, likelihood="student"))
    theta, _ = restricted_mode(
        fit, Restrictions(np.array([[0.0, 1.0, 1.0]]), np.array([0.3]))
    )
    gamma, aux = split_parameters(fit.model, theta)
    beta = fit.model.design.frame.to_raw(gamma)
    np.testing.assert_allclose(beta[1, 0] + beta[2, 0], 0.3, rtol=1e-10)
    top = fit.model.log_lik(beta, **aux)
    for step in ([0.1, 0.0, 0.0], [0.0, 0.1, -0.1], [0.0, -0.1, 0.1]):
        assert fit.model.log_lik(beta + 0.1 * np.array(step)[:, None], **aux) < top


def test_diagnose_finds_the_pieces_of_a_fit_once(table, monkeypatch):
    from probreg.diagnostics.after import fit_arrays as room

    calls = []
    monkeypatch.setattr(
        room,
        "_coordinates",
        lambda *a, _inner=room._coordinates: calls.append(1) or _inner(*a),
    )
    fit = pr.ols("y ~ x + z", table)
    pr.diagnose(fit)
    pr.influence_measures(fit)
    assert len(calls) == 1


def test_residuals_say_what_they_are(table):
    found = pr.residuals(pr.ols("y ~ x", table), "pearson")
    assert found.attrs == {"kind": "pearson", "method": "closed_form"}


def test_nothing_warns_on_the_way_to_a_refusal(table):
    fit = pr.ols("y ~ x + z", table[:3])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "no interval" in repr(pr.interval_panel(fit, "x"))


def test_the_lines_of_cooks_distance_count_collinear_columns_once(table):
    """A sum of columns adds nothing: the contours are those of the fit without it."""
    whole = pr.ols("y ~ x + z", table)
    spare = pr.fit(pr.Model.from_formula("y ~ x + z + I(x + z)", table))
    lines = [
        {
            line.get_label(): line.get_ydata()
            for ax in pr.plot.diagnose(f).axes
            for line in ax.lines
        }
        for f in (whole, spare)
    ]
    assert lines[0].keys() == lines[1].keys()
    assert "Cook's distance 0.5" in lines[0]
    np.testing.assert_allclose(
        lines[0]["Cook's distance 0.5"], lines[1]["Cook's distance 0.5"], rtol=1e-8
    )


def test_effects_and_hypotheses_take_the_quantile_that_intervals_take(table):
    """A cluster covariance of a logit: normal everywhere; of least squares: Student's on G - 1 degrees of freedom."""
    logit = pr.fit(pr.Model.from_formula("b ~ x", table, likelihood="bernoulli"))
    line = pr.ols("y ~ x", table)
    for fit, kind, law in (
        (logit, "wald", "normal"),
        (line, "t", "Student-t (7 degrees of freedom)"),
    ):
        V = fit.covariance("cluster", groups="g", data=table)
        assert fit.interval(covariance=V).attrs["kind"] == kind
        assert pr.slopes(fit, covariance=V).kind.startswith(law)
        estimates = pr.hypothesis(fit, "x = 0", covariance=V).estimates
        assert estimates["upper"][0] == pytest.approx(
            float(fit.interval(covariance=V)["upper"][1]), rel=1e-12
        )


def test_rows_that_chose_the_priors_scale_do_not_calibrate(table):
    prior = pr.Normal(pr.HalfNormal(1.0))
    fit = pr.fit(
        pr.Model.from_formula("y ~ x + z", table[:20], prior=prior), "evidence"
    )
    for kind in ("split", "jackknife+"):
        with pytest.raises(Incompatible, match="on all rows"):
            pr.conformal(fit, kind=kind, prob=0.8)
    assert pr.conformal(fit, table[20:], prob=0.8).count == 20
    stated = pr.Model.from_formula(
        "y ~ x + z", table[:20], prior=pr.Normal(1.0, sigma_units=True)
    )
    # has an evidence, chose nothing by it
    assert pr.conformal(pr.fit(stated, "conjugate"), prob=0.8).count == 10


@pytest.mark.slow
def test_a_report_tells_the_groups_of_a_prior_in_words(table, tmp_path):
    prior = pr.priors.GroupLaplace(0.5, groups=(("x", "z"),))
    groups = pr.Model.from_formula("y ~ x + z", table, prior=prior)
    matrix = pr.Model.from_formula(
        "y ~ 0 + x + z",
        table,
        prior=pr.priors.MultivariateNormal(np.zeros((2, 1)), precision=np.eye(2)),
    )
    fits = {"groups": pr.fit(groups), "matrix": pr.fit(matrix)}
    page = pr.report(fits, tmp_path / "report.html").read_text()
    assert "GroupLaplace(0.5, groups=1 of 2 columns) on x, z" in page
