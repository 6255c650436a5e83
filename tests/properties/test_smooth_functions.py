"""Smooth functions of a fit: degrees of freedom, values, slopes and bands, the test of a straight line, and the pictures."""

import csv

import numpy as np
import pytest
from scipy import stats

import probreg as pr
from probreg.data.formula.functions import columns_by_term, term_functions
from probreg.errors import DataError, Incompatible
from tests.conftest import reference_path

from .cases import smooth_rows

N = 120
TABLE, Y = smooth_rows(N, "abc")
HALF = pr.Normal(pr.HalfNormal(1.0))


def model_of(terms: str, likelihood: str = "gaussian", **more) -> pr.Model:
    return pr.Model.from_formula(
        f"y ~ {terms}", {**TABLE, "y": Y[likelihood]}, likelihood=likelihood, **more
    )


def mcycle() -> pr.Model:
    with reference_path("csv/mcycle.csv").open() as file:
        rows = list(csv.DictReader(file))
    return pr.Model.from_formula(
        "accel ~ s(times)", {k: [float(r[k]) for r in rows] for k in ("times", "accel")}
    )


# ---- degrees of freedom --------------------------------------------------------------------------------------------------


def test_edf_of_the_motorcycle_is_that_of_mgcv() -> None:
    table = pr.fit(mcycle()).smooths
    assert table.loc["s(times)", "edf"] == pytest.approx(8.625, abs=5e-4)
    assert table.loc["s(times)", "columns"] == 9


def test_edf_of_all_terms_is_the_trace_of_the_hat_matrix() -> None:
    """One row moved at a time: d fitted_i / d y_i at given scales, the fit being linear in y."""
    few, terms = {k: v[:30] for k, v in TABLE.items()}, "s(x, k=6) + t2(w, z, k=3)"
    y = Y["gaussian"][:30]
    fit = pr.fit(pr.Model.from_formula(f"y ~ {terms}", {**few, "y": y}))
    prior = {
        tuple(fit.model.design.columns[j] for j in b.columns): b.prior
        for b in fit.model.joint.blocks
        if b.stated
    }
    trace = 0.0
    for i in range(30):
        moved = {**few, "y": y + np.eye(30)[i]}
        other = pr.fit(
            pr.Model.from_formula(f"y ~ {terms}", moved, prior=prior, aux=fit.aux),
            "closed_form",
        )
        trace += float(
            (fit.model.design.X[i] @ (other.solution.beta - fit.solution.beta))[0]
        )
    assert fit.smooths["edf"].sum() + 1.0 == pytest.approx(trace, rel=1e-8)


@pytest.mark.parametrize("likelihood", Y)
def test_edf_is_the_number_of_columns_less_the_prior_weights(likelihood: str) -> None:
    fit = pr.fit(model_of("s(x, k=6) + z", likelihood))
    m = fit.model.shape[1]
    P = fit.model.joint.curvature(fit.solution.beta, fit.model.noise(fit.aux))
    # canonical links: as expected
    H = fit.model.value_grad_hessian(fit.solution.beta, **fit.solution.aux).curvature
    F = np.eye(len(P)) - np.linalg.solve(H, P)
    at = term_functions(fit.model.design)[0].at
    spent = np.diagonal(F).reshape(-1, m)[at].sum()
    assert fit.smooths.loc["s(x, k=6)", "edf"] == pytest.approx(spent, rel=1e-8)
    assert fit.smooths.loc["s(x, k=6)", "columns"] == 5 * m


def test_edf_runs_from_the_flat_columns_to_all_of_them() -> None:
    for tau, spent in ((1e-9, 1.0), (1e9, 9.0)):
        fit = pr.fit(
            model_of("s(x)", prior={"s(x)": pr.Normal(tau)}, aux={"sigma": 0.3})
        )
        assert fit.smooths.loc["s(x)", "edf"] == pytest.approx(spent, abs=1e-6)
        assert fit.smooths.loc["s(x)", "tau"] == (pytest.approx(tau),)


@pytest.mark.parametrize(
    ("prior", "tau"),
    [
        (pr.Normal(precision_matrix=4.0 * np.eye(3)), 0.5),
        (pr.Normal([0.5, 0.5, 0.7]), np.nan),
    ],
    ids=["precision", "unequal"],
)
def test_a_prior_with_equal_scales_has_a_tau(
    prior: pr.priors.Prior, tau: float
) -> None:
    fit = pr.fit(model_of("s(x, k=5)", prior={"s(x, k=5)": prior}))
    assert fit.smooths["tau"].iloc[0] == (pytest.approx(tau, nan_ok=True),)


def test_a_function_under_a_flat_prior_or_one_with_kinks_has_its_degrees() -> None:
    flat = pr.fit(model_of("s(x)", prior={"s(x)": pr.Flat()}))
    assert flat.smooths.loc["s(x)", "edf"] == pytest.approx(9.0, abs=1e-6)
    assert "s(x) 9 of 9" in str(flat)
    kinked = pr.fit(
        model_of("s(x) + z", prior={"s(x)": pr.Laplace(1.0), "z": pr.Normal(1.0)})
    )
    free = np.abs(kinked.coef.values.ravel()) > 0
    assert kinked.smooths.loc["s(x)", "edf"] == pytest.approx(
        free[1:].sum() - 1, abs=1e-6
    )


def test_edf_of_a_posterior_is_the_mean_over_its_draws() -> None:
    post = pr.fit(model_of("s(x)", prior={"s(x)": HALF}), "posterior", seed=1)
    draws, model = post.solution.posterior.flat, post.model
    X = model.design.X
    each = []
    for i in np.unique(np.linspace(0, len(draws["beta"]) - 1, 200).astype(int)):
        P = np.diag(np.r_[0.0, 0.0, np.full(8, draws["tau[s(x)]"][i] ** -2.0)])
        A = X.T @ X / draws["sigma"][i] ** 2
        each.append(np.diagonal(np.linalg.solve(A + P, A))[1:].sum())
    assert post.smooths.loc["s(x)", "edf"] == pytest.approx(np.mean(each), rel=1e-8)
    assert post.smooths.loc["s(x)", "tau"][0] == pytest.approx(
        draws["tau[s(x)]"].mean()
    )


def test_functions_of_levels_have_a_row_each_and_compare_shows_them() -> None:
    fit = pr.fit(model_of("g + s(x, k=5, by=g)"))
    assert fit.smooths.index.tolist() == [
        f"s(x, k=5, by=g)[{level}]" for level in "abc"
    ]
    both = pr.compare({"one": fit, "two": fit})
    assert len(both.smooths) == 6
    lines = [
        line
        for line in repr(both).splitlines()
        if line.startswith("s(x, k=5, by=g)[a]  ")
    ]
    assert f"{fit.smooths['edf'].iloc[0]:.3f}" in lines[0]
    assert "smooth function" in both._repr_html_()
    assert "effective degrees of freedom: s(x, k=5, by=g)[a]" in repr(fit)


def test_a_model_without_smooth_functions_has_none() -> None:
    fit = pr.fit(model_of("x"))
    assert fit.smooths.empty
    assert "smooth function" not in repr(pr.compare([fit]))
    with pytest.raises(DataError, match="no smooth function"):
        fit.smooth()


def test_a_saved_fit_says_the_same(tmp_path) -> None:
    fit = pr.fit(model_of("s(x)"))
    again = pr.load_fit(fit.save(tmp_path / "fit.nc"))
    assert again.smooths.loc["s(x)", "edf"] == pytest.approx(
        fit.smooths.loc["s(x)", "edf"]
    )
    np.testing.assert_allclose(
        again.smooth(at=[1.0, 2.0])["sd"], fit.smooth(at=[1.0, 2.0])["sd"]
    )


# ---- the functions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "terms",
    [
        "s(x)",
        "g + s(x, k=6, by=g)",
        "s(x, k=6, by=w)",
        "s(x, bs='ps')",
        "s(x, bs='cc')",
        "t2(x, z, k=4)",
        "s(x, z, k=9)",
    ],
)
def test_the_points_of_the_rows_are_told_from_their_columns(terms: str) -> None:
    design = model_of(terms).design
    for f in term_functions(design):
        true = np.column_stack([TABLE[name] for name in f.inputs])
        true = true[TABLE["g"] == f.label[-2]] if "by=g" in terms else true
        # of a periodic function the ends are one point, and others are as near as 2,000 points of the range
        periodic = "cc" in terms
        inside = (
            (true[:, 0] > true.min() + 0.01) & (true[:, 0] < true.max() - 0.01)
            if periodic
            else slice(None)
        )
        error = np.abs(f.points_of(design) - true)[inside]
        assert error.max() < (0.003 if periodic else 1e-10)
        assert f.range_in(design)[0] == pytest.approx(
            true.min(0), abs=0.003 if periodic else 1e-9
        )


def test_a_function_is_what_its_columns_add_to_the_predictor() -> None:
    fit = pr.fit(model_of("s(x) + z", "poisson"))
    at = {"x": np.array([2.0, 7.0]), "z": np.zeros(2)}
    eta = np.log(fit.predict(at)["mean"].values)
    f = fit.smooth("s(x)", at=at["x"])["estimate"].values
    np.testing.assert_allclose(np.diff(f), np.diff(eta), rtol=1e-10)
    assert fit.smooth(at=TABLE["x"])["estimate"].values.mean() == pytest.approx(
        0.0, abs=1e-10
    )


def test_functions_of_outcomes_are_those_of_the_coefficients() -> None:
    fit = pr.fit(model_of("s(x, k=6)", "categorical"))
    found = fit.smooth(at=TABLE["x"][:5])
    columns = fit.model.design.X[:5, 1:]
    np.testing.assert_allclose(
        found["estimate"], columns @ fit.coef.values[1:], atol=1e-12
    )
    V = fit.covariance().sel(param=[f"{c}: v" for c in fit.model.design.columns[1:]])
    V = V.sel(param_=[f"{c}: v" for c in fit.model.design.columns[1:]]).values
    sd = np.sqrt(np.einsum("nq,qr,nr->n", columns, V, columns))
    np.testing.assert_allclose(found["sd"].sel(outcome="v"), sd, rtol=1e-8)


@pytest.mark.parametrize(
    "terms", ["s(x)", "s(x, bs='ps')", "s(x, bs='cc')", "s(x, k=6, by=w)", "posterior"]
)
def test_the_integral_of_the_slope_is_the_difference_of_the_function(
    terms: str,
) -> None:
    drawn = terms == "posterior"
    fit = (
        pr.fit(model_of("s(x)", prior={"s(x)": HALF}), "posterior")
        if drawn
        else pr.fit(model_of(terms))
    )
    x = np.linspace(TABLE["x"].min(), TABLE["x"].max(), 2001)
    f, slope = (
        fit.smooth(at=x)["estimate"].values,
        fit.smooth(at=x, derivative=True)["estimate"].values,
    )
    # Simpson's rule over every second point
    step = (x[1] - x[0]) / 3.0 * (slope[:-2:2] + 4.0 * slope[1:-1:2] + slope[2::2])
    np.testing.assert_allclose(step, np.diff(f[::2]), atol=2e-8 * np.abs(f).max())


def test_a_simultaneous_band_is_wider_and_posterior_bands_are_quantiles() -> None:
    fit = pr.fit(model_of("s(x)"))
    band = fit.smooth(prob=0.9)
    (c,) = band.attrs["critical"]
    assert 2.2 < c < 3.5
    np.testing.assert_allclose(
        band["simultaneous_upper"] - band["estimate"], c * band["sd"]
    )
    np.testing.assert_allclose(
        band["upper"] - band["estimate"], 1.6448536 * band["sd"], rtol=1e-6
    )
    post = pr.fit(model_of("s(x)", prior={"s(x)": HALF}), "posterior", seed=1)
    beta = post.solution.posterior.flat["beta"][:, 1:, 0]
    at = post.smooth(at=TABLE["x"][:3], prob=0.9)
    f = beta @ post.model.design.X[:3, 1:].T
    np.testing.assert_allclose(at["lower"], np.quantile(f, 0.05, axis=0), atol=0.02)
    np.testing.assert_allclose(at["estimate"], f.mean(0), atol=0.01)


@pytest.mark.slow
def test_a_simultaneous_band_covers_curves_drawn_from_the_posterior() -> None:
    fit = pr.fit(model_of("s(x)"))
    band, at = fit.smooth(prob=0.9), term_functions(fit.model.design)[0]
    beta = np.random.default_rng(3).multivariate_normal(
        fit.solution.beta[:, 0], fit.solution.scale.matrix(), 20_000
    )
    f = beta[:, at.at] @ at.columns_at(band["x"].values).T
    held = (
        (
            (f > band["simultaneous_lower"].values)
            & (f < band["simultaneous_upper"].values)
        )
        .all(1)
        .mean()
    )
    # two Monte Carlo errors of the quantile and of the share
    assert held == pytest.approx(0.9, abs=0.01)


@pytest.mark.slow
def test_bands_cover_a_function_over_data_sets() -> None:
    """Pointwise bands hold the truth at 95 % of x on the whole (Nychka 1988); a band for all x holds it nearly as often."""
    rng, x = np.random.default_rng(4), np.linspace(0.0, 10.0, 150)
    truth = np.sin(x) - np.sin(x).mean()
    across, whole = [], []
    for _ in range(40):
        band = pr.fit(
            pr.Model.from_formula(
                "y ~ s(x)", {"x": x, "y": truth + 0.4 * rng.normal(size=150)}
            )
        ).smooth(at=x)
        across.append(
            ((truth > band["lower"].values) & (truth < band["upper"].values)).mean()
        )
        whole.append(
            bool(
                (
                    (truth > band["simultaneous_lower"].values)
                    & (truth < band["simultaneous_upper"].values)
                ).all()
            )
        )
    # three Monte Carlo errors, of the share of a band and of 40 bands
    assert abs(np.mean(across) - 0.95) < 3.0 * np.std(across) / np.sqrt(40)
    assert np.mean(whole) > 0.95 - 3.0 * np.sqrt(0.95 * 0.05 / 40)


@pytest.mark.parametrize(
    ("terms", "ask", "said"),
    [
        ("s(x) + s(z)", {}, "has 2 functions, name one: 's\\(x\\)', 's\\(z\\)'"),
        (
            "s(x, k=5) + s(x, k=4, by=w)",
            {"term": "s(x)"},
            "may be s\\(x, k=5\\) or .*: write the term with its options",
        ),
        (
            "s(x)",
            {"term": "s(w)"},
            "'s\\(w\\)' is no smooth function of the model; it has s\\(x\\)",
        ),
        ("t2(x, z, k=4)", {"derivative": True}, "derivative= is of one column"),
        ("s(x)", {"at": [[1.0, 2.0]]}, "an array \\(n, 1\\); got shape \\(1, 2\\)"),
        ("s(x)", {"at": [1.0, np.nan]}, "finite points of x"),
        ("s(x, z, w, k=15)", {}, "a function of 3 columns: say where with at="),
    ],
)
def test_what_cannot_be_asked_of_a_function_is_one_sentence(
    terms: str, ask: dict, said: str
) -> None:
    with pytest.raises(DataError, match=said):
        pr.fit(model_of(terms)).smooth(**ask)


def test_a_name_leaves_out_options_and_spaces() -> None:
    fit = pr.fit(model_of("g + s(x, k=5, by=g)"))
    wanted = fit.smooth("s(x, k=5, by=g)[b]", at=[3.0])["estimate"]
    for name in ("s(x,k = 5,by=g)[b]", "s(x)[b]"):
        assert fit.smooth(name, at=[3.0])["estimate"].equals(wanted)


# ---- processes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "term", ["gp(x, length=2.0)", "gp(x, length=2.0, kernel='matern52')"]
)
def test_a_process_has_its_own_mean_and_standard_deviation_off_the_rows(
    term: str,
) -> None:
    """m(x) = k(x, X) (K + sigma^2 I)^-1 y, v(x) = k(x, x) - k(x, X) (K + sigma^2 I)^-1 k(X, x), and df = tr K (K + sigma^2 I)^-1."""
    tau, sigma = 0.8, 0.3
    fit = pr.fit(
        model_of(f"0 + {term}", prior={"gp(x)": pr.Normal(tau)}, aux={"sigma": sigma})
    )
    kernel = fit.model.design.recipe.processes[term].basis.kernel
    far = np.array([[5.0], [30.0], [TABLE["x"].max() + 1.0]])
    K, k = (tau**2 * kernel(x, TABLE["x"][:, None]) for x in (TABLE["x"][:, None], far))
    A = K + sigma**2 * np.eye(N)
    found = fit.smooth(at=far[:, 0])
    variance = tau**2 - np.einsum("ij,ji->i", k, np.linalg.solve(A, k.T))
    np.testing.assert_allclose(
        found["estimate"], k @ np.linalg.solve(A, Y["gaussian"]), atol=1e-8
    )
    np.testing.assert_allclose(found["sd"], np.sqrt(variance), rtol=1e-5)
    assert fit.smooths.loc[term, "edf"] == pytest.approx(
        np.trace(K @ np.linalg.inv(A)), rel=1e-6
    )


def test_slopes_of_a_process_have_their_variance_off_the_rows() -> None:
    """Far from the rows f' ~ N(0, tau^2 / l^2) under exp(-(x - z)^2 / (2 l^2))."""
    fit = pr.fit(
        model_of(
            "0 + gp(x, length=2.0)", prior={"gp(x)": pr.Normal(0.8)}, aux={"sigma": 0.3}
        )
    )
    assert fit.smooth(at=[50.0], derivative=True)["sd"].item() == pytest.approx(
        0.4, rel=1e-6
    )
    pr.plot.smooth(fit, derivative=True).draw_without_rendering()


def test_draws_of_a_process_have_its_variance_off_the_rows() -> None:
    post = pr.fit(
        model_of("0 + gp(x, length=2.0)", prior={"gp(x)": HALF}), "posterior", seed=1
    )
    tau = post.solution.posterior.flat["tau[gp(x, length=2.0)]"]
    # far from the rows f ~ N(0, tau^2), tau from its posterior; 4,000 draws
    assert post.smooth(at=[60.0])["sd"].item() == pytest.approx(
        np.sqrt(np.square(tau).mean()), rel=0.05
    )


# ---- is it a straight line? ----------------------------------------------------------------------------------------------


def test_the_ratio_is_twice_the_gain_of_the_restricted_likelihood() -> None:
    """Against the evidence itself: maximised over tau and sigma, and at tau = 0."""
    fit = pr.fit(model_of("s(x) + w"))
    statistic = pr.hypothesis(fit, "s(x) is linear")["RLRT"].statistic
    line = {"s(x)": pr.Normal(1e-7)}

    def evidence(prior) -> float:
        flat = model_of("s(x) + w", prior=prior)
        return max(_log_evidence(flat, sigma) for sigma in np.geomspace(0.1, 3.0, 2000))

    top = fit.solution.stats["log_evidence"]
    # the grid of ratios is 1.2 times apart, which loses at most a few thousandths of the maximum
    assert statistic == pytest.approx(2.0 * (top - evidence(line)), abs=0.02)
    assert pr.hypothesis(fit, "s(x) is linear")["RLRT"].p < 1e-3


def _log_evidence(model: pr.Model, sigma: float) -> float:
    X, y = model.design.X, model.design.y
    P = model.joint.precision(sigma)
    H = X.T @ X / sigma**2 + P
    b = np.linalg.solve(H, X.T @ y / sigma**2)
    rss = np.square(y - X @ b).sum() / sigma**2 + b @ P @ b
    d = np.diagonal(P)[np.diagonal(P) > 0]
    flat = model.shape[0] - len(d)
    logs = (
        np.log(d).sum()
        - np.linalg.slogdet(H)[1]
        - N * np.log(2 * np.pi * sigma**2)
        + flat * np.log(2 * np.pi)
    )
    return float(0.5 * (logs - rss))


def test_a_straight_line_is_found_to_be_one_and_a_curve_is_not() -> None:
    line = pr.fit(model_of("s(z)"))
    assert pr.hypothesis(line, "s(z) is linear")["RLRT"].p > 0.1
    assert "s(z): compatible with linear" in repr(pr.diagnose(line, verbose=True))
    for likelihood in ("bernoulli", "poisson", "categorical"):
        found = pr.hypothesis(
            pr.fit(model_of("s(x, k=6) + z", likelihood)), "s(x) is linear"
        )
        assert found["score"].p < 0.01
    assert found.null == "s(x, k=6) is a straight line: tau = 0"


def test_a_term_is_tested_as_a_whole_or_by_level() -> None:
    fit = pr.fit(model_of("g + s(x, k=6, by=g)"))
    assert len(pr.hypothesis(fit, "s(x) is linear").estimates) == 3
    one = pr.hypothesis(fit, "s(x, k=6, by=g)[b] is linear")
    assert one.estimates["function"].tolist() == ["s(x, k=6, by=g)[b]"]
    assert "taken as known" in repr(one)


def test_a_posterior_is_not_tested() -> None:
    post = pr.fit(model_of("s(x)", prior={"s(x)": HALF}), "posterior", seed=1)
    with pytest.raises(Incompatible, match="needs a point estimate"):
        pr.hypothesis(post, "s(x) is linear")


def test_a_basis_that_is_used_up_is_a_note() -> None:
    said = repr(pr.diagnose(pr.fit(mcycle()), verbose=True))
    said = " ".join(said.split())
    assert "the basis of s(times) is too small: 8.62 of 9 effective degrees" in said
    assert "s(times): not linear" in said


@pytest.mark.slow
@pytest.mark.parametrize("likelihood", ["gaussian", "bernoulli"])
def test_the_test_of_a_straight_line_has_its_size(likelihood: str) -> None:
    """0.05, as 24 samples tell it: a number that is met but once in a hundred times."""
    rng, n, p = np.random.default_rng(5), 60, []
    for _ in range(24):
        x = rng.uniform(0.0, 1.0, n)
        eta = 2.0 * x - 1.0
        y = {
            "gaussian": eta + rng.normal(size=n),
            "bernoulli": (rng.random(n) < 1.0 / (1.0 + np.exp(-eta))).astype(int),
        }[likelihood]
        # the test does not depend on the scale of the function itself
        prior = {"s(x)": pr.Normal(1.0)}
        fit = pr.fit(
            pr.Model.from_formula(
                "y ~ s(x)", {"x": x, "y": y}, likelihood=likelihood, prior=prior
            )
        )
        (test,) = pr.hypothesis(fit, "s(x) is linear").tests.values()
        p.append(test.p)
    few, many = stats.binom.ppf([0.005, 0.995], len(p), 0.05)
    assert few <= np.sum(np.array(p) < 0.05) <= many


# ---- a term is one thing -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("terms", "worst"),
    [
        ("x + s(x)", "PROBLEM"),
        ("x + z + t2(x, z, k=4)", "PROBLEM"),
        ("s(x) + g + s(x, k=6, by=g)", "PROBLEM"),
        ("z + s(x)", "OK"),
        ("g + s(x, by=g)", "OK"),
    ],
)
def test_a_line_of_two_terms_is_not_identified(terms: str, worst: str) -> None:
    assert pr.check(model_of(terms))["rank"].worst.name == worst


@pytest.mark.parametrize(
    "terms", ["s(x, k=20)", "g + s(x, by=g)", "s(x) + g + s(x, by=g)"]
)
def test_what_is_said_of_a_model_stays_short(terms: str) -> None:
    """A finding for each of its columns would be a hundred lines."""
    assert len(repr(pr.check(model_of(terms))).splitlines()) < 25
    if "s(x) +" not in terms:
        assert len(repr(pr.diagnose(pr.fit(model_of(terms)))).splitlines()) < 40


# ---- pictures ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("terms", "likelihood", "panels"),
    [
        ("s(x)", "gaussian", 1),
        pytest.param(
            "gp(x, z, length=2.0, basis='hsgp')", "gaussian", 1, marks=pytest.mark.slow
        ),
        ("g + s(x, k=5, by=g)", "gaussian", 3),
        ("s(x, k=6)", "categorical", 2),
        ("s(w) + t2(x, z, k=4)", "gaussian", 2),
    ],
)
def test_a_picture_has_a_panel_for_each_function(
    terms: str, likelihood: str, panels: int
) -> None:
    fit = pr.fit(model_of(terms, likelihood))
    figure = pr.plot.smooth(fit)
    figure.draw_without_rendering()
    drawn = [ax for ax in figure.axes if ax.get_visible() and ax.get_xlabel()]
    assert len(drawn) == panels


def test_functions_of_one_term_have_the_same_vertical_scale() -> None:
    by_level = pr.plot.smooth(pr.fit(model_of("g + s(x, k=5, by=g)"))).axes
    assert len({ax.get_ylim() for ax in by_level}) == 1
    terms = pr.plot.smooth(pr.fit(model_of("s(x) + s(w)"))).axes
    assert len({ax.get_ylim() for ax in terms}) == 2


def test_a_curve_after_a_surface_has_a_name_and_a_legend() -> None:
    figure = pr.plot.smooth(pr.fit(model_of("t2(x, z, k=4) + s(w)")))
    curve = next(ax for ax in figure.axes if ax.get_xlabel() == "w")
    assert curve.get_ylabel() == "s(w)"
    assert figure.legends


def test_a_picture_draws_the_numbers_of_the_fit() -> None:
    fit = pr.fit(model_of("s(x)"))
    for derivative in (False, True):
        (ax,) = pr.plot.smooth(fit, "s(x)", derivative=derivative).axes
        curve = ax.lines[0].get_ydata()
        np.testing.assert_array_equal(
            curve, fit.smooth("s(x)", derivative=derivative)["estimate"]
        )
    with pytest.raises(DataError, match=r"t2\(x, z, k=4\)"):
        pr.plot.smooth(pr.fit(model_of("t2(x, z, k=4)")), derivative=True)


# ---- effects ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "terms",
    ["s(x, k=6, by=g)", "s(x, k=6, bs='cc', by=w)"],
)
def test_effects_read_what_enters_smooth_functions(terms: str, tmp_path) -> None:
    """Without the table: at the rows of the design, of a saved fit and without the rows of weight 0."""
    weights = np.where(np.arange(N) % 7 == 0, 0.0, 1.0)
    fit = pr.fit(model_of(terms, weights=weights))
    table = {k: v[weights > 0] for k, v in TABLE.items()}
    again = pr.load_fit(fit.save(tmp_path / "fit.nc", rows=True))
    at = {"x": [1.0, 5.0]} | ({"g": ["a", "c"]} if "by=g" in terms else {})
    for effect in (
        lambda fit, **data: pr.predictions(fit, at=at, **data),
        lambda fit, **data: pr.slopes(fit, "x", average_over="sample", **data),
        lambda fit, **data: pr.comparisons(
            fit, "g" if "by=g" in terms else "x", average_over="sample", **data
        ),
    ):
        known = effect(fit, data=table).table.select_dtypes("number")
        for one in (fit, again):
            np.testing.assert_array_equal(
                effect(one).table.select_dtypes("number"), known
            )


# ---- processes of arrays ---------------------------------------------------------------------------------------------------


def test_a_process_of_arrays_is_the_function_of_the_formula() -> None:
    x, y = TABLE["x"], Y["gaussian"]
    written = pr.fit(model_of("gp(x)"))
    fit = pr.gp(x[:, None], y, columns=["x"])
    assert fit.smooths.index.tolist() == ["gp(x)"]
    np.testing.assert_allclose(fit.smooths["edf"], written.smooths["edf"], rtol=1e-6)
    for derivative in (False, True):
        ours, known = (f.smooth("gp(x)", derivative=derivative) for f in (fit, written))
        np.testing.assert_array_equal(ours["x"], known["x"])
        for name in ("estimate", "sd"):
            np.testing.assert_allclose(ours[name], known[name], rtol=1e-5, atol=1e-7)
    assert len(pr.plot.smooth(fit).axes) == 1


def test_a_process_of_arrays_is_one_term_of_a_check() -> None:
    """Its columns say nothing one by one, and are no curves to bend."""
    model = pr.kernel_ridge(TABLE["x"], Y["gaussian"], kernel="rbf", lam=0.5).model
    assert columns_by_term(model.design) == {
        "Intercept": (0,),
        "gp(x1)": tuple(range(1, model.shape[0])),
    }
    assert "gp(x1)[" not in repr(pr.check(model))


@pytest.mark.parametrize(
    ("terms", "pruned"),
    [("s(x)", "the bends of s(x);"), ("s(x, bs='cc')", "s(x, bs='cc');")],
)
def test_what_is_pruned_of_a_function_leaves_its_line(terms: str, pruned: str) -> None:
    """Where the straight line is left, the note says that the bends alone are held at 0."""
    x = np.linspace(-1.0, 1.0, 80)
    noise = np.tile([1.0, -1.0], 40)
    rows = {"x": x, "y": noise + (x if "cc" not in terms else 0.0)}
    fit = pr.fit(pr.Model.from_formula(f"y ~ {terms}", rows), "evidence")
    (said,) = (note for note in map(str, fit.notes) if note.startswith("pruned"))
    assert f"goes to 0: {pruned} their coefficients" in said
    held = [
        c for c in fit.coef["coef"].values if c.startswith("s(") and "line" not in c
    ]
    assert np.abs(fit.coef.sel(coef=held)).max() < 1e-6
    assert ("s(x)[line]" in fit.coef["coef"].values) == ("bends" in said)
    if "bends" in said:
        assert abs(fit.coef.sel(coef="s(x)[line]")) > 0.1


def test_a_band_states_whether_it_includes_the_uncertainty_of_the_scales():
    rng = np.random.default_rng(3)
    x = rng.uniform(size=80)
    y = np.sin(6 * x) + 0.5 * rng.normal(size=80)
    reml = pr.fit(pr.Model.from_formula("y ~ s(x)", {"x": x, "y": y}))
    fixed = pr.fit(reml.model)
    kinds = [fit.smooth("s(x)").attrs["kind"] for fit in (reml, fixed)]
    assert ["uncertainty" in kind for kind in kinds] == [True, False]
    sd = [fit.smooth("s(x)")["sd"].values for fit in (reml, fixed)]
    assert (sd[0] > sd[1] * (1 - 1e-9)).all()
    assert not np.allclose(*sd, rtol=1e-3)
