"""Factors that stay codes say what the same factors written out as columns say: estimates, errors, likelihood, predictions, separation."""

from contextlib import contextmanager

import numpy as np
import pytest

import probreg as pr
from probreg.data.formula import layout
from probreg.data.grouped_columns import ArrowGram
from probreg.data.implicit_columns import LazyColumns
from probreg.diagnostics.before import separation
from probreg.errors import ProbregWarning
from probreg.inference.base import Status
from probreg.inference.covariance import ArrowCovariance
from probreg.inference.modes.level_newton import arrow_step
from probreg.inference.modes.level_rows import level_rows
from probreg.inference.modes.newton_method import Newton

RNG = np.random.default_rng(3)
N = 120


@contextmanager
def codes_from(levels):
    """Factors of so many levels stay codes; None: none does."""
    before = layout.MIN_CODED_LEVELS, layout.MIN_CODED_NUMBERS
    layout.MIN_CODED_LEVELS, layout.MIN_CODED_NUMBERS = (
        (10**9, 10**9) if levels is None else (levels, 1)
    )
    try:
        yield
    finally:
        layout.MIN_CODED_LEVELS, layout.MIN_CODED_NUMBERS = before


def both(formula, data, **settings):
    """The model with columns written out, and with codes."""
    with codes_from(None):
        dense = pr.Model.from_formula(formula, data, **settings)
    with codes_from(4):
        short = pr.Model.from_formula(formula, data, **settings)
    assert isinstance(dense.design.X, np.ndarray)
    assert isinstance(short.design.X, LazyColumns)
    return dense, short


def rows(kind):
    """Six levels, four others, a column far from zero and one about it; the response is one of the likelihood."""
    g, h = RNG.integers(0, 6, N), RNG.integers(0, 4, N)
    g[:6] = np.arange(6)
    x, z = RNG.normal(size=N) + 50.0, RNG.normal(size=N)
    eta = 0.5 * (x - 50) - 0.3 * z + 0.2 * (g - 3) + 0.1 * h
    y = {
        "bernoulli": lambda: (RNG.random(N) < 1 / (1 + np.exp(-eta))).astype(int),
        "poisson": lambda: RNG.poisson(np.exp(0.5 * eta)),
        "negative_binomial": lambda: RNG.negative_binomial(
            2, 2 / (2 + np.exp(0.5 * eta))
        ),
    }.get(kind, lambda: eta + RNG.standard_t(5, size=N))()
    return {"y": y, "x": x, "z": z, "g": np.array([f"l{k}" for k in g]), "h": h}


FORMULAS = (
    "y ~ x + C(g) + z",
    "y ~ C(h) + x + g",
    "y ~ 0 + C(g) + x",
    "y ~ 0 + C(h) + g + x:z",
)
KINDS = (
    "gaussian",
    "student",
    "huber",
    "bernoulli",
    "poisson",
    "negative_binomial",
)  # power noise stops at the step limit, in both ways


def test_the_columns_and_their_names_are_those_of_the_formula():
    for formula in (
        *FORMULAS,
        "y ~ C(g, levels=['l5', 'l3', 'l1', 'l0', 'l2', 'l4']) + bs(x, df=4)",
    ):
        dense, short = both(formula, rows("gaussian"))
        assert dense.design.columns == short.design.columns
        assert np.array_equal(dense.design.X, np.asarray(short.design.X))
        assert np.allclose(
            dense.design.basis.scale, short.design.basis.scale, rtol=1e-12
        )
        some = [0, 3, len(dense.design.columns) - 1]
        assert np.array_equal(dense.design.X[:, some], short.design.X[:, some])
        assert np.array_equal(dense.design.X[5:9, 2], short.design.X[5:9, 2])


def test_levels_of_which_some_are_whole_numbers_have_one_name_in_the_model_and_at_new_rows():
    data = rows("gaussian")
    data["h"] = np.arange(N) % 6 * 1.5
    dense, short = both("y ~ x + C(h)", data)
    assert dense.design.columns == short.design.columns
    assert np.allclose(
        pr.fit(short).predict(data)["mean"],
        pr.fit(dense).predict(data)["mean"],
        rtol=1e-9,
    )


@pytest.mark.parametrize(
    "formula",
    [
        "y ~ g * x",
        "y ~ x + C(g, contr.sum)",
        "y ~ 0 + C(g, contr.helmert)",
        "y ~ x + g + (1 | h)",
    ],
)
def test_interactions_other_contrasts_and_factors_beside_varying_effects_are_written_out(
    formula,
):
    with codes_from(4):
        assert isinstance(
            pr.Model.from_formula(formula, rows("gaussian")).design.X, np.ndarray
        )


def agrees(dense, short, method, rtol):
    one, two = (pr.fit(model, method) for model in (dense, short))
    size = np.sqrt(np.asarray(one.solution.scale.matrix()).diagonal())
    assert (np.abs(one.solution.beta - two.solution.beta)[:, 0] < rtol * size).all()
    assert np.allclose(
        one.solution.scale.matrix() / np.outer(size, size),
        two.solution.scale.matrix() / np.outer(size, size),
        atol=rtol,
    )
    for name, value in one.solution.aux.items():
        assert two.solution.aux[name] == pytest.approx(value, rel=rtol)
        assert two.solution.aux_sd[name] == pytest.approx(
            one.solution.aux_sd[name], rel=rtol
        )
    assert (one.solution.status, one.solution.df, one.notes) == (
        two.solution.status,
        two.solution.df,
        two.notes,
    )
    for name in ("rss", "rank", "n"):
        if name in one.solution.stats:
            assert two.solution.stats[name] == pytest.approx(
                one.solution.stats[name], rel=rtol
            )
    return one, two


@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("weights", [None, "copies", "precision"])
def test_least_squares_and_ridge_are_those_of_written_columns(formula, weights):
    w = {
        None: None,
        "copies": RNG.integers(1, 4, N),
        "precision": pr.weights.precision(RNG.uniform(0.5, 2.0, N)),
    }[weights]
    for prior in (
        None,
        pr.Normal(1.5, location=0.3, sigma_units=True),
        {"g": pr.Normal(2.0, sigma_units=True)},
    ):
        if isinstance(prior, dict) and "C(g)" in formula:
            prior = {"C(g)": prior["g"]}
        settings = {} if prior is None else {"prior": prior}
        dense, short = both(formula, rows("gaussian"), weights=w, **settings)
        one, two = agrees(dense, short, "closed_form", 1e-9)
        if prior is None:
            data = rows("gaussian")
            assert np.allclose(
                one.predict(data)["mean"], two.predict(data)["mean"], rtol=1e-9
            )


@pytest.mark.parametrize("kind", KINDS)
def test_modes_by_newton_are_those_of_written_columns(kind):
    noisy = kind in ("gaussian", "student", "huber")
    priors = [
        None,
        pr.Normal(1.5),
        {"x": pr.Normal(2.0)},
        *([pr.Normal(0.7, sigma_units=True)] if noisy else []),
    ]
    for prior, formula in zip(priors, FORMULAS):
        settings = {
            "likelihood": kind,
            "weights": RNG.integers(1, 4, N),
            "offset": RNG.normal(size=N) / 4,
        }
        settings |= {} if prior is None else {"prior": prior}
        dense, short = both(formula, rows(kind), **settings)
        one, two = agrees(dense, short, "newton", 1e-7)
        at = {k: np.asarray(v) for k, v in two.solution.aux.items()}
        assert float(short.log_posterior(two.solution.beta, **at)) == pytest.approx(
            float(dense.log_posterior(one.solution.beta, **one.solution.aux)), rel=1e-10
        )


def test_the_covariance_of_many_levels_is_not_written_out_and_is_made_when_it_is_asked_for():
    n, K = 2400, 1200
    g = np.r_[np.arange(K), RNG.integers(0, K, n - K)]
    data = {"y": RNG.normal(size=n), "x": RNG.normal(size=n), "g": g}
    model = pr.Model.from_formula("y ~ x + C(g)", data)
    fit = pr.fit(model)
    V = fit.solution.scale
    assert model.design.has_codes
    assert isinstance(V, ArrowCovariance)
    # the coefficient of x is that of deviations from the means of levels, and those of levels are differences of means
    mean = lambda v: np.bincount(g, v) / np.bincount(g)
    e, f = data["x"] - mean(data["x"])[g], data["y"] - mean(data["y"])[g]
    b = float(fit.coef.sel(coef="x"))
    assert b == pytest.approx(float(e @ f / (e @ e)), rel=1e-10)
    alpha = mean(data["y"]) - b * mean(data["x"])
    assert np.allclose(fit.coef.values[2:], alpha[1:] - alpha[0], rtol=1e-8, atol=1e-10)
    whole = V.matrix()
    assert np.allclose(whole.diagonal(), np.square(fit.std_error), rtol=1e-12)
    d, s2 = (
        mean(data["x"])[7] - mean(data["x"])[0],
        fit.solution.stats["sigma_unbiased"] ** 2,
    )
    counts = np.bincount(g)
    assert whole[8, 8] == pytest.approx(
        s2 * (1 / counts[7] + 1 / counts[0] + d**2 / (e @ e)), rel=1e-9
    )
    assert len(str(fit).splitlines()) <= 40


def test_columns_that_repeat_the_levels_are_told_as_those_of_written_columns():
    data = rows("gaussian")
    data["of_level"] = np.char.str_len(data["g"]) + (data["g"] == "l3")
    for kind in ("closed_form", "newton"):
        dense, short = both("y ~ x + of_level + g", data)
        with pytest.warns(ProbregWarning):
            one, two = pr.fit(dense, kind), pr.fit(short, kind)
        assert one.solution.detail == two.solution.detail
        assert one.solution.status == two.solution.status
        assert np.array_equal(one.solution.not_estimable, two.solution.not_estimable)


def test_a_start_of_newton_is_a_point_of_the_levels():
    _, short = both("y ~ x + C(g) + z", rows("poisson"), likelihood="poisson")
    at = level_rows(short)
    beta = RNG.normal(size=(len(short.design.columns), 1))
    assert np.allclose(at.beta(*at.parts(beta)), beta, rtol=1e-12)
    beta = (
        pr.fit(short).solution.beta
        + 0.01 * RNG.normal(size=beta.shape) / short.design.basis.scale[:, None]
    )
    found = pr.fit(short, Newton(start=tuple(map(tuple, beta.tolist()))))
    assert np.allclose(
        found.solution.beta, pr.fit(short).solution.beta, rtol=1e-6, atol=1e-8
    )


# ---- separation ----------------------------------------------------------------------------------------------------------


def small(kind, rng):
    """Few rows of small whole numbers, in which ties and separation of both sorts are frequent."""
    n, K = int(rng.integers(14, 40)), int(rng.integers(4, 6))
    g, h = rng.integers(0, K, n), rng.integers(0, 3, n)
    g[:K] = np.arange(K)
    x, z = (
        rng.integers(-2, 3, n) + float(rng.choice([0, 100])),
        rng.integers(-1, 2, n).astype(float),
    )
    eta = 0.8 * (x - x.mean()) + 0.5 * (g - 2)
    trials = rng.integers(1, 4, n)
    drawn = rng.binomial(
        trials if kind == "binomial" else 1, 1 / (1 + np.exp(-3 * eta))
    )
    y = rng.poisson(np.exp(np.clip(eta - 1.0, -3, 1))) if kind == "poisson" else drawn
    return {"x": x, "z": z, "g": g, "h": h, "y": y, "t": trials}


WAYS = (
    "C(g)",
    "x + C(g) + z",
    "0 + C(g) + x",
    "C(g) + C(h) + x",
    "0 + C(h) + C(g) + x",
)
STATED = (
    None,
    {"x": pr.Normal(1.0)},
    {"Intercept": pr.Normal(2.0)},
    {"C(g)": pr.Normal(1.0)},
)


@pytest.mark.parametrize("kind", ["bernoulli", "poisson", "binomial"])
def test_separation_by_levels_is_that_of_the_linear_programme(kind):
    rng, met = np.random.default_rng(8), set()
    for _ in range(20):
        data, way, prior = (
            small(kind, rng),
            str(rng.choice(WAYS)),
            STATED[rng.integers(0, 4)],
        )
        if prior is not None and next(iter(prior)) not in (
            "C(g)",
            *way.split(" + "),
            *["Intercept"] * ("0" not in way),
        ):
            prior = None
        if kind == "bernoulli" and len(set(data["y"])) < 2:
            continue
        left = "p(y, t)" if kind == "binomial" else "y"
        settings = {"likelihood": kind} | ({} if prior is None else {"prior": prior})
        dense, short = both(f"{left} ~ {way}", data, **settings)
        one, two = separation(dense), separation(short)
        met.add(one.kind)
        assert (one.kind, one.rows, one.labels, one.columns) == (
            two.kind,
            two.rows,
            two.labels,
            two.columns,
        )
        assert np.array_equal(one.not_estimable, two.not_estimable)
    assert met >= {"none", "quasi"}


def test_levels_without_an_event_have_no_estimate_and_the_others_are_as_of_written_columns():
    data = rows("bernoulli")
    data["y"] = np.where(np.isin(data["g"], ["l2", "l4"]), 0, data["y"])
    dense, short = both("y ~ x + C(g) + z", data, likelihood="bernoulli")
    with pytest.warns(ProbregWarning):
        one, two = pr.fit(dense), pr.fit(short)
    assert two.solution.status is one.solution.status
    assert two.solution.detail == one.solution.detail
    # columns: Intercept, x, l1 to l5, z
    assert np.isnan(two.std_error.values[[3, 5]]).all()
    assert np.array_equal(np.isnan(one.std_error), np.isnan(two.std_error))
    assert np.allclose(one.std_error, two.std_error, rtol=1e-4, equal_nan=True)


@pytest.mark.parametrize("within", [False, True])
def test_beside_a_reference_that_runs_away_the_slope_has_the_error_of_the_other_rows(
    within,
):
    """All levels run away with it; `within` one more level a column separates, which has values there alone."""
    data = rows("bernoulli")
    data["y"] = np.where(np.isin(data["g"], ["l0", "l2"]), 0, data["y"])
    left = ~np.isin(data["g"], ["l0", "l2"])
    if within:
        last = data["g"] == "l4"
        data["z"] = np.where(last, data["z"], 0.0)
        data["y"] = np.where(last, (data["z"] > 0).astype(int), data["y"])
        left &= ~last
    rest = pr.fit(
        pr.Model.from_formula(
            "y ~ x + C(g)" + " + z" * (not within),
            {k: v[left] for k, v in data.items()},
            likelihood="bernoulli",
        )
    )
    for model in both("y ~ x + C(g) + z", data, likelihood="bernoulli"):
        with pytest.warns(ProbregWarning, match="quasi separation by Intercept"):
            fit = pr.fit(model)
        assert np.allclose(
            fit.std_error.sel(coef="x"), rest.std_error.sel(coef="x"), rtol=1e-4
        )
        assert np.isnan(fit.std_error.values[[0, 2, 3, 4, 5, 6]]).all()


def test_complete_separation_leaves_no_covariance_of_any_coefficient(tmp_path):
    data = rows("bernoulli")
    data["y"] = (data["x"] > 50).astype(int)
    for model in both("y ~ x + g", data, likelihood="bernoulli"):
        with pytest.warns(ProbregWarning, match="complete separation"):
            fit = pr.fit(model)
        assert np.isnan(np.asarray(fit.solution.scale.matrix())).all()
        assert (
            pr.load_fit(fit.save(tmp_path / "fit.nc")).solution.status
            is fit.solution.status
        )


# ---- what reads the columns ----------------------------------------------------------------------------------------------


def test_moments_and_checks_are_those_of_written_columns():
    data = rows("bernoulli")
    data["g"][data["g"] == "l4"] = "l0"
    data["g"][7], data["y"][data["g"] == "l3"] = "l4", 1
    for settings in (
        {"weights": RNG.integers(1, 4, N)},
        {"weights": pr.weights.precision(RNG.uniform(0.5, 2.0, N))},
        {},
    ):
        dense, short = both("x ~ z + C(h) + g", data, **settings)
        for wanted, found in zip(dense.design.moments.gram, short.design.moments.gram):
            assert np.allclose(found, wanted, rtol=1e-12, atol=1e-9)
        assert np.allclose(
            dense.design.moments.scale, short.design.moments.scale, rtol=1e-12
        )
        assert np.allclose(
            dense.design.moments.mean, short.design.moments.mean, rtol=1e-12
        )
        assert short.design.moments.log_precision == pytest.approx(
            dense.design.moments.log_precision
        )
    dense, short = both("y ~ x + C(h) + g + z", data, likelihood="bernoulli")
    said = [f.sentence for f in pr.check(dense)]
    assert [f.sentence for f in pr.check(short)] == said


@pytest.fixture
def thousands():
    """More levels than matrices of all coefficients by all are made for, and a column that repeats them."""
    n, K = 5000, 2200
    g = np.r_[np.arange(K), RNG.integers(0, K, n - K)]
    return {"y": RNG.normal(size=n), "x": RNG.normal(size=n), "g": g, "odd": g % 2.0}


def test_columns_that_repeat_thousands_of_levels_are_named(thousands):
    model = pr.Model.from_formula("y ~ x + odd + C(g)", thousands)
    assert any(
        "odd is a combination of the levels" in f.sentence
        for f in pr.check(model)["rank"]
    )


def test_thousands_of_levels_are_tested_saved_and_read_back(thousands, tmp_path):
    fit = pr.fit(pr.Model.from_formula("y ~ x + C(g)", thousands))
    t = fit.coef.sel(coef="x") / fit.std_error.sel(coef="x")
    found = pr.hypothesis(fit, "x = 0")
    assert float(found.estimates["std_error"][0]) == pytest.approx(
        float(fit.std_error.sel(coef="x")), rel=1e-9
    )
    assert any(
        test.statistic == pytest.approx(float(t) ** 2, rel=1e-6)
        for test in found.tests.values()
    )
    read = pr.load_fit(fit.save(tmp_path / "fit.nc"))
    assert np.array_equal(read.coef, fit.coef)
    assert np.allclose(read.std_error, fit.std_error, rtol=1e-12)
    some = {"x": [0.5, 1.0], "g": [3, 2199]}
    assert np.array_equal(read.predict(some)["mean"], fit.predict(some)["mean"])
    with pytest.raises(pr.DataError, match="2,000 coefficients is its limit"):
        pr.diagnose(fit)


def test_a_search_comes_back_from_where_probabilities_are_flat():
    # the first steps lead to where p(1 - p) is e^-30 and less at every row: the next is 1e12 and more times too long
    rng = np.random.default_rng(5)
    X = rng.integers(0, 2, (300, 2)).astype(float)
    y = (rng.random(300) < 1 / (1 + np.exp(-(X @ [1.0, -1.0])))).astype(int)
    offset, g = rng.choice([0.0, 1.0, 700.0], 300), np.repeat(list("abcde"), 60)
    data = {"y": y, "x": X[:, 0], "z": X[:, 1], "g": g}
    for model in both(
        "y ~ x + z + C(g)",
        data,
        likelihood="bernoulli",
        prior=pr.Normal(2.0),
        offset=offset,
    ):
        found = pr.fit(model, "newton").solution
        assert found.status is Status.CONVERGED
        # X'(y - p) = beta / 4, and 0 of the intercept, whose prior is flat
        p = 1 / (1 + np.exp(-model.eta(found.beta)[:, 0]))
        beta = dict(zip(model.design.columns, found.beta[:, 0]))
        np.testing.assert_allclose((y - p).sum(), 0.0, atol=1e-7)
        np.testing.assert_allclose(
            X.T @ (y - p), [beta["x"] / 4, beta["z"] / 4], atol=1e-7
        )


@pytest.mark.parametrize("definite", [True, False])
def test_a_step_is_the_same_in_any_units(definite):
    rng = np.random.default_rng(0)
    B = rng.normal(size=(6, 6))
    H = np.diag([3.0, 4.0, 5.0, 0.0, 0.0, 0.0])
    H[3:], H[:, 3:] = (B @ B.T + np.eye(6))[3:], (B @ B.T + np.eye(6))[:, 3:]
    H += np.diag([9.0, 9.0, 9.0, 9.0, 9.0, 9.0 if definite else -20.0])
    g = rng.normal(size=6)
    units = 2.0 ** np.array([-20, 5, 0, 18, 0, -9])

    def step(H, g):
        gram = ArrowGram(np.diagonal(H)[:3, None, None], H[:3, None, 3:], H[3:, 3:])
        return arrow_step(g, gram)

    found, is_definite = step(H, g)
    assert is_definite == definite == (np.linalg.eigvalsh(H)[0] > 0.0)
    again, _ = step(units[:, None] * H * units, units * g)
    np.testing.assert_allclose(units * again, found, rtol=1e-10)
    if definite:
        np.testing.assert_allclose(found, np.linalg.solve(H, g), rtol=1e-10)
