"""Paths and choices of a prior's scale: two routes to every number, other packages, and published ones."""

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

import probreg as pr
from probreg.comparison.tuning import CRITERIA, folds_of, path, tune
from probreg.comparison.tuning.criteria import (
    LOSSES,
    laplace_evidence,
    log_evidence_at,
    mean_and_error,
)
from probreg.comparison.tuning.held_out import held_out_losses
from probreg.fits.leave_out.modes import (
    modes_without_rows,
    newton_step_without_rows,
)
from probreg.inference import mode_path
from probreg.inference.penalized.left_out_parts import LeftOutParts
from probreg.inference.penalized.paths import rescale_model
from probreg.inference.penalized.ridge_modes import RidgeModes
from probreg.priors import ExponentialPower, GPrior, Horseshoe
from tests.properties.texts import unfolded

SCALES = np.geomspace(0.03, 30.0, 9)
COLUMNS = ["a", "b", "c"]


def log_evidence(model: pr.Model) -> float:
    return float(log_evidence_at(RidgeModes.of(model, np.ones(1)), np.ones(1))[0])


def rows(n: int = 40, seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)) * [1.0, 5.0, 0.3] + [0.0, 40.0, 0.0]
    return X, (X - [0.0, 40.0, 0.0]) @ [1.0, -0.3, 2.0] + 0.8 * rng.normal(size=n)


def outcome(likelihood: str, eta: np.ndarray, seed: int = 4) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return {
        "gaussian": eta,
        "student": eta,
        "poisson": rng.poisson(np.exp(0.4 * eta)),
        "bernoulli": (rng.random(len(eta)) < 1 / (1 + np.exp(-eta))).astype(int),
        "categorical": np.array(["ash", "beech", "cedar"])[np.clip(np.round(eta + rng.normal(size=len(eta))) + 1, 0, 2).astype(int)],
    }[likelihood]  # fmt: skip


def model_of(
    prior: Any, likelihood: str = "gaussian", n: int = 40, **given: Any
) -> pr.Model:
    X, eta = rows(n)
    return pr.Model.from_arrays(
        X,
        outcome(likelihood, eta),
        columns=COLUMNS,
        likelihood=likelihood,
        prior=prior,
        **given,
    )


def refit(
    model: pr.Model, keep: np.ndarray, weights: np.ndarray | None = None
) -> pr.Fit:
    """The mode of some rows under the prior that all rows bound."""
    bound = rescale_model(model, 1.0)
    design = model.design.take(keep)
    return pr.fit(
        replace(
            bound,
            design=design if weights is None else replace(design, weights=weights),
        )
    )


# ---- the path ----------------------------------------------------------------------------------------------------------

LOCATED = [
    pr.Normal(0.7, location=(0.5, 0.1, -1.0)),
    pr.Laplace(0.7, location=(0.5, 0.1, -1.0)),
    pr.priors.ElasticNet(0.7),
]


@pytest.mark.parametrize(
    "likelihood", ["gaussian", "bernoulli", "poisson", "categorical", "student"]
)
@pytest.mark.parametrize("prior", LOCATED, ids=lambda p: p.name)
def test_the_ends_of_a_path_are_the_location_of_the_prior_and_maximum_likelihood(
    prior, likelihood
):
    found = path(model_of(prior, likelihood, 120), [1e-7, 1.0, 1e7])
    assert found.ml is not None
    # at the strong end the curvature of the prior is 1e14 that of the data; at the weak end its slope is 1e-7
    strong = found.coef.sel(coef=COLUMNS).values[0].reshape(len(COLUMNS), -1)
    location = np.broadcast_to(np.asarray(prior.location), len(COLUMNS))
    np.testing.assert_allclose(strong - location[:, None], 0.0, atol=1e-5)
    np.testing.assert_allclose(
        found.coef.values[-1], found.ml.coef.values, rtol=1e-4, atol=1e-5
    )
    # df: the free intercepts alone, and every coefficient
    m = found.model.shape[1]
    np.testing.assert_allclose(found.data["df"].values[[0, -1]], [m, 4 * m], atol=1e-4)


def test_df_of_ridge_is_the_trace_of_the_hat_matrix():
    model = model_of(pr.Normal(0.2), aux={"sigma": 1.3})
    X = model.design.X
    for scale, df in zip(SCALES, path(model, SCALES).data["df"].values):
        P = np.diag([0.0, *[(1.3 / (0.2 * scale)) ** 2] * 3])
        assert df == pytest.approx(
            np.trace(X @ np.linalg.solve(X.T @ X + P, X.T)), rel=1e-9
        )


def test_a_fit_at_a_scale_is_the_mode_there_and_the_model_at_one_is_the_model():
    model = model_of(pr.Normal(1.0, scaled=True), "bernoulli")
    found = path(model, SCALES)
    for scale in SCALES[::4]:
        # both stop at a decrement of 1e-7 sqrt(n) standard errors, and the last step squares it
        np.testing.assert_allclose(
            found.fit_at(scale).coef, found.coef.sel(scale=scale), rtol=1e-6
        )
    beta = np.full(model.shape, 0.3)
    assert float(found.model_at(1.0).log_posterior(beta)) == pytest.approx(
        float(model.log_posterior(beta)), rel=1e-12
    )
    assert found.fit_at(0.5, "laplace").target == "posterior"


def test_weights_of_the_penalty_are_those_of_the_table():
    data = path(model_of(pr.Normal(0.5), aux={"sigma": 2.0}), [3.0]).data
    np.testing.assert_allclose(
        data["lam"][0], [0.0, *[2.0**2 / 1.5**2] * 3], rtol=1e-12
    )  # sigma^2 / tau^2
    data = path(model_of(pr.Laplace(0.5), aux={"sigma": 2.0}), [3.0]).data
    np.testing.assert_allclose(
        data["lam"][0], [0.0, *[2 * 2.0**2 / 1.5] * 3], rtol=1e-12
    )  # 2 sigma^2 / b
    relative = path(model_of(pr.Normal(0.5, sigma_units=True)), [3.0]).data
    # free of sigma
    np.testing.assert_allclose(relative["lam"][0], [0.0, *[1 / 1.5**2] * 3], rtol=1e-12)
    assert "lam" not in path(model_of(pr.Normal(0.5), "poisson"), [1.0]).data


def test_at_the_weak_end_aic_and_bic_are_those_of_maximum_likelihood():
    found = path(model_of(pr.Normal(1.0)), [1e6])
    ml = pr.fit(found.model.with_prior(pr.Flat()))
    k = 4 + 1
    assert float(found.data["AIC"][0]) == pytest.approx(
        2 * k - 2 * ml.log_likelihood, rel=1e-8
    )
    assert float(found.data["BIC"][0]) == pytest.approx(
        np.log(40) * k - 2 * ml.log_likelihood, rel=1e-8
    )


def test_log_evidence_of_a_path_is_that_of_the_conjugate_posterior():
    prior = {
        "Intercept": pr.Normal(9.0, sigma_units=True),
        ("a", "b", "c"): pr.Normal(0.4, sigma_units=True),
    }
    model = model_of(prior, aux={"sigma": pr.priors.InverseGamma(2.5, 1.7)})
    data = path(model, [0.3, 2.0]).data
    for scale in (0.3, 2.0):
        exact = pr.fit(
            rescale_model(model, scale), pr.Conjugate(draws=2)
        ).solution.stats["log_evidence"]
        assert float(data["log_evidence"].sel(scale=scale)) == pytest.approx(
            exact, rel=1e-12
        )
    # raw scales, sigma unknown
    assert "log_evidence" not in path(model_of(pr.Normal(1.0)), [1.0]).data


def test_the_ridge_of_the_prostate_data_is_the_one_with_five_degrees_of_freedom(
    certified,
):
    case = certified("lasso_ridge/esl_prostate")
    train, test, names = prostate(case)
    model = pr.Model.from_arrays(
        train[:, :-1],
        train[:, -1],
        columns=names,
        prior=pr.Normal(1.0),
        aux={"sigma": 1.0},
    )
    lam = case["ridge_lambda_df5"]  # sigma^2 / tau^2
    found = path(model, [lam**-0.5])
    # the intercept counts here
    assert float(found.data["df"][0]) == pytest.approx(1 + 5, abs=1e-9)
    # df is a smooth function, solved to rounding
    assert found.scale_at(6.0) == pytest.approx(lam**-0.5, rel=1e-8)
    mine = case["computed_here"]["Ridge"]
    np.testing.assert_allclose(
        found.coef.values[0], mine["coef"], rtol=1e-9, atol=1e-12
    )
    rows = replace(model.design.at(test[:, :-1]), y=test[:, -1])
    losses = held_out_losses(found.solution, rows, "squared")
    assert losses.mean() == pytest.approx(mine["test_error"], rel=1e-9)


def prostate(case: dict[str, Any]) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Train and test rows of standardised predictors and the response, as Table 3.3 of the book has them."""
    import csv

    from tests.conftest import reference_path

    file = reference_path("csv/prostate.csv")
    table = list(csv.DictReader(file.read_text().splitlines()))
    names = case["published"]["terms"][1:]
    X = np.array([[float(r[c]) for c in names] for r in table])
    both = np.c_[(X - X.mean(0)) / X.std(0, ddof=1), [float(r["lpsa"]) for r in table]]
    train = np.array([r["train"] == "T" for r in table])
    return both[train], both[~train], names


# ---- leave one out -----------------------------------------------------------------------------------------------------

RIDGES = [
    (pr.Normal(0.4), {"sigma": 0.9}),
    (pr.Normal(0.4, location=(0.5, 0.0, 1.0), sigma_units=True), {}),
    (pr.Normal(0.5, scaled=True), {"sigma": 0.9}),
    (GPrior(g=7.0), {}),
]


@pytest.mark.parametrize(("prior", "aux"), RIDGES, ids=["held", "units", "scaled", "g"])
@pytest.mark.parametrize("weighted", [False, True])
def test_leaving_out_in_closed_form_equals_refits(prior, aux, weighted):
    X, y = rows()
    weights = np.arange(40) % 3 + 1.0 if weighted else None
    model = pr.Model.from_arrays(
        X, y, columns=COLUMNS, prior=prior, aux=aux, weights=weights
    )
    made = {s: tune(model, "loo", scales=[2.0], score=s) for s in ("log", "squared")}
    every = np.arange(40)
    for i in (0, 7, 8, 39):
        w = np.ones(40) if weights is None else weights.copy()
        w[i] -= 1
        alone = rescale_model(model, 2.0)
        out = refit(alone, every[w > 0], w[w > 0])
        e = y[i] - float((model.design.X[i] @ out.solution.beta)[0])
        sigma = out.aux["sigma"]
        assert float(made["squared"].parts[0, i]) == pytest.approx(e**2, rel=1e-10)
        exact = 0.5 * np.log(2 * np.pi * sigma**2) + e**2 / (2 * sigma**2)
        assert float(made["log"].parts[0, i]) == pytest.approx(exact, rel=1e-10)
    W = np.ones(40) if weights is None else weights
    each = made["log"].parts[0].values
    row = made["log"].table.iloc[0]
    again = np.repeat(each, W.astype(int))
    np.testing.assert_allclose(
        [row["score"], row["se"]],
        [again.mean(), again.std(ddof=1) / len(again) ** 0.5],
        rtol=1e-10,
    )


def test_one_newton_step_is_exact_where_the_posterior_is_quadratic():
    model = model_of(pr.Normal(0.4), aux={"sigma": 0.9})
    beta = pr.fit(model).solution.beta
    np.testing.assert_allclose(
        newton_step_without_rows(model, beta, {}).eta,
        modes_without_rows(model, beta, {}).eta,
        rtol=1e-9,
    )


@pytest.mark.parametrize(
    ("formula", "likelihood"),
    [
        ("k ~ x", pr.NegativeBinomial()),
        ("c ~ x", pr.Categorical()),
        ({"y": "y ~ x", "log sigma": "~ z"}, pr.StudentT(nu=None)),
    ],
    ids=["nuisance", "classes", "predictors"],
)
def test_one_newton_step_is_that_of_the_other_rows(formula, likelihood):
    rng = np.random.default_rng(4)
    x, z = rng.normal(size=(2, 40))
    data = {"x": x, "z": z, "k": rng.poisson(np.exp(0.5 + x)), "c": rng.integers(3, size=40), "y": x + rng.standard_t(4, size=40)}  # fmt: skip
    model = pr.Model.from_formula(
        formula, data, likelihood=likelihood, prior=pr.Normal(1.0)
    )
    model = model.with_aux(**dict.fromkeys(model.unknown, pr.HalfNormal(3.0)))
    solution = pr.fit(model, "newton").solution
    beta, aux = solution.beta, dict(solution.aux)
    found = newton_step_without_rows(model, beta, aux)
    for i in (0, 17):
        others = np.delete(np.arange(40), i)
        local = replace(model, design=model.design.take(others)).value_grad_hessian(
            beta, **aux
        )
        step = np.linalg.solve(local.curvature, local.gradient)
        moved = beta + step[: beta.size].reshape(beta.shape)
        np.testing.assert_allclose(found.eta[i], model.eta(moved)[i], rtol=1e-8)
        for name, log_change in zip(model.unknown, step[beta.size :]):
            change = found.aux[name][i] / aux[name]
            assert np.log(change) == pytest.approx(log_change, rel=1e-7)


@pytest.mark.parametrize(
    "likelihood", ["bernoulli", "poisson", "categorical", "gaussian", "student"]
)
def test_one_newton_step_is_near_the_refits(likelihood):
    model = model_of(pr.Normal(0.8), likelihood, 150)
    made = tune(model, "loo", scales=[1.0])
    assert "approximately, by one Newton step" in made.description
    fit = pr.fit(model)
    whole = -np.asarray(model.pointwise(fit.solution.beta, **fit.solution.aux))
    # where leaving out matters most
    some = np.argsort(-np.abs(made.parts[0].values - whole))[:8]
    for i in some:
        exact = loss_without(model, i)[0]
        # what a second step would change: a fraction of what the first one did
        assert abs(float(made.parts[0, i]) - exact) < 0.2 * abs(whole[i] - exact)


def loss_without(model: pr.Model, i: int) -> tuple[float, pr.Fit]:
    out = refit(model, np.delete(np.arange(model.design.n), i))
    one = replace(model, design=model.design.take(slice(i, i + 1)))
    return -float(one.pointwise(out.solution.beta, **out.solution.aux)[0]), out


@pytest.mark.parametrize(
    "prior",
    [pr.Laplace(0.05), pr.priors.ElasticNet(0.03), pr.Laplace(0.05, sigma_units=True)],
    ids=["l1", "net", "units"],
)
def test_one_step_of_a_lasso_is_exact_while_its_zeros_stay(prior):
    model = model_of(prior, aux={"sigma": 0.9})
    made = tune(model, "loo", scales=[1.0])
    assert "coefficients at a kink fixed there" in made.description
    zeros = pr.fit(model).solution.beta == 0
    assert zeros.any()
    same = 0
    for i in range(40):
        exact, out = loss_without(model, i)
        if ((out.solution.beta == 0) == zeros).all():
            same += 1
            # two searches
            assert float(made.parts[0, i]) == pytest.approx(exact, rel=1e-6)
    assert same > 30


# ---- folds -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("likelihood", ["gaussian", "bernoulli", "categorical"])
@pytest.mark.parametrize(
    "prior", [pr.Normal(0.6, scaled=True), pr.Laplace(0.5)], ids=lambda p: p.name
)
def test_cross_validation_equals_the_loop(likelihood, prior):
    model = model_of(prior, likelihood, 60)
    made = tune(model, "cv", folds=4, scales=[0.2, 2.0], seed=5)
    fold = folds_of(model, 4, seed=5)
    for i, scale in enumerate([0.2, 2.0]):
        parts = []
        for k in range(4):
            out = refit(rescale_model(model, scale), np.flatnonzero(fold != k))
            held = replace(model, design=model.design.take(np.flatnonzero(fold == k)))
            parts.append(
                -float(held.pointwise(out.solution.beta, **out.solution.aux).mean())
            )
        # two searches for one mode
        np.testing.assert_allclose(made.parts[i], parts, rtol=1e-6)
        size = np.bincount(fold)
        mean = float(np.average(parts, weights=size))
        se = float(np.sqrt(np.average((np.array(parts) - mean) ** 2, weights=size) / 3))
        np.testing.assert_allclose(
            made.table[["score", "se"]].iloc[i], [mean, se], rtol=1e-6
        )


@pytest.mark.parametrize("likelihood", ["poisson", "bernoulli"])
@pytest.mark.parametrize("by", ["loo", "cv"])
def test_weights_are_frequencies_and_offsets_count(likelihood, by):
    X, eta = rows()
    y, weights, offset = outcome(likelihood, eta), np.arange(40) % 3 + 1, 0.1 * X[:, 0]
    again = np.repeat(np.arange(40), weights)
    kind = {
        "columns": COLUMNS,
        "prior": pr.Normal(0.5, scaled=True),
        "likelihood": likelihood,
    }
    one = pr.Model.from_arrays(X, y, weights=weights, offset=offset, **kind)
    other = pr.Model.from_arrays(X[again], y[again], offset=offset[again], **kind)
    folds = np.arange(40) % 4
    first = tune(one, by, scales=[0.3, 3.0], **({"folds": folds} if by == "cv" else {}))
    second = tune(
        other, by, scales=[0.3, 3.0], **({"folds": folds[again]} if by == "cv" else {})
    )
    # two searches, each within 1e-7 sqrt(n) standard errors before its last step
    np.testing.assert_allclose(first.table, second.table, rtol=1e-6)
    bare = tune(
        pr.Model.from_arrays(X, y, weights=weights, **kind), by, scales=[0.3, 3.0]
    )
    assert not np.allclose(bare.table["score"], first.table["score"], rtol=1e-3)


@pytest.mark.parametrize("likelihood", ["bernoulli", "poisson", "gaussian"])
def test_modes_without_rows_are_found_together(likelihood):
    """Refits one by one give the same modes, in ten times the time."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = (X[:, 0] + rng.normal(size=200) > 0) * 1
    model = pr.Model.from_arrays(X, y, likelihood=likelihood, prior=pr.Normal(1.0))
    parts = LeftOutParts.of(model, np.arange(200) % 20)
    assert parts is not None
    fit = pr.fit(model)
    modes, _ = parts.without(model, parts.point(fit.coef.values[:, None], fit.aux))
    assert modes.good.all()


def test_a_symmetric_softmax_has_the_choice_of_its_own_prior():
    X, eta = rows(90)
    y = outcome("categorical", eta)
    model = pr.Model.from_arrays(
        X,
        y,
        likelihood=pr.Categorical(symmetric=True),
        prior=pr.Normal(1.0, scaled=True),
    )
    found = path(model, [0.1, 1.0])
    np.testing.assert_allclose(found.coef.sum("outcome"), 0.0, atol=1e-9)
    for by in ("cv", "loo", "evidence"):
        assert np.isfinite(tune(model, by, scales=[0.1, 1.0]).table["score"]).all()


def test_folds_are_even_seeded_stratified_and_keep_groups():
    model = model_of(pr.Normal(1.0), "categorical", 83)
    fold = folds_of(model, 5, seed=1)
    sizes = np.bincount(fold)
    assert sizes.max() - sizes.min() <= 1
    for level in range(3):
        inside = np.bincount(fold[model.design.observed == level], minlength=5)
        assert inside.max() - inside.min() <= 1
    assert (fold == folds_of(model, 5, seed=1)).all()
    assert (fold != folds_of(model, 5, seed=2)).any()
    weights = np.where(
        np.arange(83) == int(np.argmin(model.design.observed)),
        1000.0,
        np.arange(83) % 7 + 1.0,
    )
    heavy = replace(model, design=replace(model.design, weights=weights))
    # greedy: no fold gets a unit of a class while another has less of it
    for level in range(3):
        own = model.design.observed == level
        loads = np.bincount(folds_of(heavy, 5)[own], weights[own], minlength=5)
        assert loads.max() - loads.min() <= weights[own].max()
    groups = np.arange(83) // 4
    kept = folds_of(model, 5, groups=groups, seed=1)
    assert all(len(set(kept[groups == g])) == 1 for g in groups)
    assert set(kept) == set(range(5))
    np.testing.assert_array_equal(
        folds_of(model, np.array(list("ba" * 41 + "b"))), [1, 0] * 41 + [1]
    )


def test_a_weighted_row_is_that_many_observations_in_one_fold():
    X, y = rows()
    weights, fold = np.arange(40) % 3 + 1, np.arange(40) % 4
    again = np.repeat(np.arange(40), weights)
    kind = {"columns": COLUMNS, "prior": pr.Normal(0.5, scaled=True)}
    one = tune(
        pr.Model.from_arrays(X, y, weights=weights, **kind), folds=fold, scales=SCALES
    )
    other = tune(
        pr.Model.from_arrays(X[again], y[again], **kind),
        folds=fold[again],
        scales=SCALES,
    )
    np.testing.assert_allclose(
        one.table[["score", "se", "df"]], other.table[["score", "se", "df"]], rtol=1e-6
    )
    assert any("goes to one fold as a whole" in note for note in one.notes)


def test_a_prior_on_standardised_columns_is_the_same_in_every_fold():
    model = model_of(pr.Normal(0.5, scaled=True), aux={"sigma": 1.0})
    raw = model.with_prior(pr.Normal(tuple(model.joint.blocks[-1].prior.scale)))
    one, other = (
        tune(m, "cv", folds=5, scales=SCALES, score="squared") for m in (model, raw)
    )
    np.testing.assert_allclose(one.table["score"], other.table["score"], rtol=1e-12)
    assert any("bound to all rows once" in note for note in one.notes)


@pytest.mark.parametrize(
    ("prior", "stated"),
    [
        (pr.Normal(2.0, scaled=True), pr.Normal(2.0 * 0.25, scaled=True)),
        (pr.Normal((1.0, 2.0, 3.0)), pr.Normal((0.25, 0.5, 0.75))),
        (
            {"a": pr.Normal(2.0, scaled=True), "b": pr.Flat()},
            {"a": pr.Normal(0.5, scaled=True), "b": pr.Flat()},
        ),
        (pr.priors.GPrior(g=16.0), pr.priors.GPrior(g=1.0)),
    ],
)
def test_a_tuned_prior_reads_as_it_was_stated(prior, stated):
    found = pr.tune(model_of(prior), "aic", scales=[0.25]).model
    assert found.prior == stated
    path = pr.path(model_of(prior), scales=[0.25])
    np.testing.assert_allclose(path.coef[0], pr.fit(found).coef, rtol=1e-6)


def test_a_tuned_prior_is_printed_as_it_was_stated():
    found = pr.tune(model_of(pr.Normal(2.0, scaled=True)), "aic", scales=[0.5])
    assert "prior: Normal(1) in units of sd(y) on standardised a, b, c\n" in repr(
        pr.fit(found.model).summary()
    )


@pytest.mark.slow
def test_the_rule_of_one_standard_error_by_hand():
    model = model_of(pr.Laplace(0.5))
    fine = np.geomspace(0.03, 30.0, 40)
    least, careful = (
        tune(model, folds=5, scales=fine, rule=rule) for rule in ("min", "1se")
    )
    table = least.table
    best = table["score"].idxmin()
    assert least.scale == least.best == best == careful.best
    within = table.index[
        table["score"] <= table.loc[best, "score"] + table.loc[best, "se"]
    ]
    assert careful.scale == within.min() < best
    assert careful.description.startswith(
        "takes the strongest prior whose score is within one standard error of the least"
    )
    beta = np.full((4, 1), 0.2)
    rest = {"sigma": 1.0}
    assert float(careful.model.log_prior(beta, **rest)) == pytest.approx(
        float(rescale_model(model, careful.scale).log_prior(beta, **rest))
    )


def test_glmnet_folds_and_losses(certified):
    """glmnet standardises within each fold and multiplies lambda by the rows of the fold: another prior in every fold, so
    that its convention is spelled out here; the search and the losses are ours."""
    case = certified("lasso_ridge/glmnet_gaussian_lasso_path")
    X, y, fold = (
        np.asarray(case[k] if k in case else case["cv"][k]) for k in ("X", "y", "folds")
    )
    lam = np.array(case["lambda_path"])
    parts = []
    for k in np.unique(fold):
        out = fold == k
        inside = X[~out]
        # of lambda = 1: RSS / 2 + n lambda |b_j| sd_j
        scale = tuple(1.0 / (len(inside) * inside.std(0)))
        model = pr.Model.from_arrays(
            inside, y[~out], prior=pr.Laplace(scale), aux={"sigma": 1.0}
        )
        whole = pr.Model.from_arrays(X, y, prior=pr.Flat())
        parts.append(
            held_out_losses(
                mode_path(model, 1.0 / lam), whole.design.take(out), "squared"
            ).mean(1)
        )
    loss, _ = mean_and_error(np.array(parts).T, np.bincount(fold)[1:].astype(float), 3)
    np.testing.assert_allclose(loss[:20], case["cv"]["mean_loss"][:20], rtol=1e-6)
    # further down glmnet stops early (thresh 1e-7): the case records up to 4 % in a coefficient
    np.testing.assert_allclose(loss, case["cv"]["mean_loss"], rtol=6e-3)
    assert lam[loss.argmin()] == pytest.approx(case["cv"]["lambda_min"], rel=1e-9)


# ---- other packages ----------------------------------------------------------------------------------------------------


def test_ridge_cv_of_scikit_learn_leaves_out_the_same():
    linear_model = pytest.importorskip("sklearn.linear_model")
    X, y = rows()
    alphas = np.geomspace(0.1, 100.0, 7)
    theirs = linear_model.RidgeCV(alphas, store_cv_results=True).fit(X, y)
    model = pr.Model.from_arrays(
        X, y, columns=COLUMNS, prior=pr.Normal(1.0), aux={"sigma": 1.0}
    )
    ours = tune(model, "loo", scales=alphas**-0.5, score="squared")
    np.testing.assert_allclose(ours.parts.values[::-1].T, theirs.cv_results_, rtol=1e-8)
    assert ours.scale**-2 == pytest.approx(theirs.alpha_)


def test_logistic_regression_of_scikit_learn_has_the_same_held_out_losses():
    linear_model = pytest.importorskip("sklearn.linear_model")
    metrics = pytest.importorskip("sklearn.metrics")
    model = model_of(pr.Normal(1.0), "bernoulli", 80)
    X, y, fold = (
        model.design.X[:, 1:],
        model.design.observed,
        folds_of(model, 4, seed=2),
    )
    # its penalty is w^2 / (2 C): a normal prior of variance C
    C = np.array([0.01, 0.3, 5.0])
    ours = tune(model, "cv", folds=fold, scales=C**0.5)
    ours_wrong = tune(model, "cv", folds=fold, scales=C**0.5, score="zero_one")
    for k in range(4):
        for i, c in enumerate(C):
            their = linear_model.LogisticRegression(
                C=c, tol=1e-10, max_iter=10_000, solver="newton-cholesky"
            )
            their.fit(X[fold != k], y[fold != k])
            p = their.predict_proba(X[fold == k])
            assert float(ours.parts[i, k]) == pytest.approx(
                metrics.log_loss(y[fold == k], p), rel=1e-6
            )
            wrong = (their.predict(X[fold == k]) != y[fold == k]).mean()
            assert float(ours_wrong.parts[i, k]) == pytest.approx(wrong)


# ---- evidence ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("prior", "aux"), RIDGES[:2], ids=["held", "units"])
def test_where_the_evidence_is_greatest_its_derivative_vanishes(prior, aux):
    """tau^2 gamma = |m - m0|^2: MacKay's fixed point, gamma the coefficients that the data settle."""
    model = model_of(prior, aux=aux)
    top = minimize_scalar(
        lambda u: -log_evidence(rescale_model(model, np.exp(u))),
        bounds=(-4, 4),
        method="bounded",
        options={"xatol": 1e-9},
    )
    at = rescale_model(model, float(np.exp(top.x)))
    X, y, P = (
        at.design.X,
        at.design.observed,
        at.joint.precision(at.fixed.get("sigma", 1.0)),
    )
    # with sigma unknown both are in its units
    unit = at.fixed["sigma"] ** 2 if aux else 1.0
    H = X.T @ X / unit + P
    m = np.linalg.solve(H, X.T @ y / unit + P @ at.joint.center)
    r = m - at.joint.center
    gamma = 3.0 - np.trace(np.linalg.solve(H, P))
    square = r @ P @ r
    if not aux:  # sigma integrated out: E[1 / sigma^2] = 2a / (2b)
        rss = np.sum((y - X @ m) ** 2) + square
        square *= (40 + 3 - 4) / rss
    # the search stops at 1e-9 of a flat top
    assert square == pytest.approx(gamma, rel=1e-4)
    near = np.exp(top.x) * np.array([0.5, 0.9, 1.0, 1.1, 2.0])
    assert tune(model, "evidence", scales=near).scale == pytest.approx(np.exp(top.x))


def test_laplace_evidence_is_exact_where_the_posterior_is_normal():
    model = model_of(pr.Normal(0.4), aux={"sigma": 0.9})
    assert laplace_evidence(model, pr.fit(model).solution.beta, {}) == pytest.approx(
        log_evidence(model), rel=1e-10
    )
    # with sigma too the error falls as 1 / n
    error = []
    for n in (40, 640):
        unknown = model_of(pr.Normal(0.4, sigma_units=True), n=n)
        s = pr.fit(unknown).solution
        error.append(
            abs(laplace_evidence(unknown, s.beta, dict(s.aux)) - log_evidence(unknown))
        )
    assert error[1] < error[0] / 12 < 0.02
    assert (
        "by the Laplace approximation"
        in tune(
            model_of(pr.Normal(1.0), "poisson"), "evidence", scales=[0.5, 1.0]
        ).description
    )


# ---- what is said, and what is refused ---------------------------------------------------------------------------------


@pytest.mark.parametrize("by", sorted(CRITERIA))
def test_every_criterion_says_what_it_minimised_and_gives_the_model_with_that_prior(by):
    model = model_of(pr.Normal(1.0, scaled=True, sigma_units=True))
    made = tune(model, by, scales=[0.05, 0.5, 5.0])
    assert made.description.startswith("minimises ")
    assert made.scale == made.table["score"].idxmin() == made.best
    assert {"score", "se", "df", "sigma"} <= set(made.table.columns)
    assert np.isfinite(made.table["score"]).all()
    assert np.isfinite(made.table["se"]).all() == made.criterion.holds_out
    beta = np.full((4, 1), 0.2)
    expected = path(model, [1.0]).model_at(made.scale).log_prior(beta, sigma=1.0)
    assert float(made.model.log_prior(beta, sigma=1.0)) == pytest.approx(
        float(expected)
    )
    assert f"Choice: {made.description}" in unfolded(made)


@pytest.mark.parametrize("score", sorted(LOSSES))
def test_losses_of_classes(score):
    made = tune(
        model_of(pr.Normal(1.0), "categorical", 60), folds=3, scales=[0.5], score=score
    )
    assert 0 < made.table["score"].iloc[0] < 2


def test_what_cannot_be_is_refused_in_words():
    model = model_of(pr.Normal(1.0))
    refusals = [
        (
            lambda: path(model_of(pr.Flat())),
            pr.Incompatible,
            "all priors of this model are flat",
        ),
        (
            lambda: tune(model_of(pr.Flat())),
            pr.Incompatible,
            "all priors of this model are flat",
        ),
        (
            lambda: tune(model_of(Horseshoe()), "evidence"),
            pr.Incompatible,
            "unknown scale",
        ),
        (
            lambda: tune(model_of(pr.priors.Jeffreys(), "bernoulli")),
            pr.DataError,
            "no scale to multiply",
        ),
        (lambda: path(model, [1.0, -1.0]), pr.DataError, "positive finite"),
        (lambda: path(model, n=0), pr.DataError, "whole number of at least 1"),
        (
            lambda: path(model, [1.0]).model_at(0.0),
            pr.DataError,
            "positive finite number, got 0.0",
        ),
        (
            lambda: path(model, [1.0]).scale_at(4.5),
            pr.DataError,
            "no scale has df = 4.5",
        ),
        (
            lambda: path(model_of(pr.Laplace(1.0)), [1.0]).scale_at(2.0),
            pr.Incompatible,
            "for normal priors",
        ),
        (
            lambda: tune(model, folds=41),
            pr.DataError,
            "from 2 to the 40 rows there are, got 41",
        ),
        (lambda: tune(model, folds=1), pr.DataError, "from 2 to the 40"),
        (
            lambda: tune(model, folds=3, groups=np.arange(40) // 20),
            pr.DataError,
            "2 groups there are, got 3",
        ),
        (
            lambda: tune(model, folds=np.zeros(40)),
            pr.DataError,
            "every row is in fold 0",
        ),
        (lambda: tune(model, folds=[1, 2]), pr.DataError, "one label per row"),
        (
            lambda: tune(model, groups="site"),
            pr.DataError,
            "'site' is not a variable of this model",
        ),
        (
            lambda: tune(model, folds=[1, 2] * 20, groups=[1, 2] * 20),
            pr.DataError,
            "already gives the fold",
        ),
        (lambda: tune(model, "loo", folds=5), pr.DataError, "folds= goes with cv"),
        (lambda: tune(model, "loo", seed=5), pr.DataError, "seed= goes with cv"),
        (
            lambda: tune(model, "cv", folds=[1, 2] * 20, seed=5),
            pr.DataError,
            "leave seed= out",
        ),
        (
            lambda: tune(model, "aic", rule="1se"),
            pr.DataError,
            "aic has no standard error",
        ),
        (lambda: tune(model, rule="2se"), pr.DataError, "'min' or '1se'"),
        (
            lambda: tune(model, "bic", score="squared"),
            pr.DataError,
            "goes with cv and loo",
        ),
        (
            lambda: tune(model, score="zero_one"),
            pr.Incompatible,
            "gaussian response has none",
        ),
        (
            lambda: tune(model_of(pr.Laplace(1.0)), "evidence"),
            pr.Incompatible,
            "a kink has neither",
        ),
        (
            lambda: tune(model, "cross"),
            pr.ProbregError,
            "no criterion is called 'cross'",
        ),
        (lambda: tune(pr.fit(model)), pr.Incompatible, "model is a Model, got"),
    ]
    for call, error, words in refusals:
        with pytest.raises(error, match=words):
            call()


def test_a_row_that_alone_decides_a_free_coefficient_is_named():
    X, y = rows()
    only = np.zeros(40)
    only[11] = 1.0
    prior = {("a", "b", "c"): pr.Normal(1.0)}
    model = pr.Model.from_arrays(
        np.c_[X, only], y, columns=[*COLUMNS, "only"], prior=prior, aux={"sigma": 1.0}
    )
    with pytest.raises(
        pr.Incompatible, match="without row 11 some coefficient has no estimate"
    ):
        tune(model, "loo", scales=[1.0])


def test_scales_without_a_mode_are_said():
    """Six separated rows: the flat prior of x leaves no maximum, whatever the scale of the other."""
    X = np.c_[np.arange(6.0), [1.0, -1.0, 0.5, 0.2, -0.3, 0.1]]
    model = pr.Model.from_arrays(
        X,
        [0, 0, 0, 1, 1, 1],
        columns=["x", "z"],
        likelihood="bernoulli",
        prior={"z": pr.Normal(1.0)},
    )
    with pytest.warns(pr.ProbregWarning, match="no mode at 2 of 2 scales"):
        found = path(model, [0.5, 1.0])
    assert np.isnan(found.coef).all()
    assert "2 modes were not found" in repr(found)
    with pytest.raises(pr.NotConverged, match="score at no scale"):
        tune(model, folds=3, scales=[0.5, 1.0])


def test_more_columns_than_rows_and_no_maximum_likelihood():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 30))
    y = X[:, 0] + 0.1 * rng.normal(size=12)
    found = path(
        pr.Model.from_arrays(X, y, prior=pr.Normal(1.0), aux={"sigma": 0.1}), n=5
    )
    assert found.ml is None
    assert found.data["df"].max() <= 12 + 1e-6
    made = tune(found.model, "loo", score="squared")
    assert np.isfinite(made.table["score"]).all()


@pytest.mark.parametrize(
    "prior", [pr.Normal(1.0), pr.Laplace(1.0)], ids=lambda p: p.name
)
def test_where_sigma_runs_to_zero_the_remedy_is_named(prior):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 40))
    model = pr.Model.from_arrays(X, 2 * X[:, 0] + rng.normal(size=20), prior=prior)
    with pytest.raises(pr.NotConverged, match=r"sigma runs to 0.*old sigma"):
        path(model)


def test_a_cusp_has_a_path_and_a_choice():
    made = tune(
        model_of(ExponentialPower(1.0, q=0.7), aux={"sigma": 0.8}),
        folds=3,
        scales=[0.3, 3.0],
    )
    assert np.isfinite(made.table["score"]).all()


def test_a_choice_at_the_end_of_the_grid_says_so():
    made = tune(model_of(pr.Normal(1.0)), "aic", scales=[1e-4, 1e-3])
    assert any("largest of the grid" in note for note in made.notes)


def test_nothing_warns_along_an_ordinary_path():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        path(model_of(pr.Normal(1.0)), n=7)


def test_a_path_says_the_prior_that_it_scales_as_the_model_does():
    """A scale of 1 on standardised columns is one standard deviation of a Gaussian response, not one of its units."""
    rows = {
        "y": 50.0 * np.sin(np.arange(30.0)),
        "a": np.arange(30.0) % 7,
        "b": np.arange(30.0) % 4,
    }
    prior = {"a": pr.Laplace(1.0, scaled=True), "b": pr.Normal(2.0)}
    along = pr.path(pr.Model.from_formula("y ~ a + b", rows, prior=prior), [0.5, 1.0])
    said = "every scale of Laplace(1) in units of sd(y) on standardised a; Normal(2) on b, times 0.5 to 1"
    assert said in " ".join(str(along).split())
    assert (
        said.removesuffix(", times 0.5 to 1").removeprefix("every scale of ")
        in along.data.attrs["scale"]
    )


@pytest.mark.parametrize("by", ["cv", "loo"])
def test_counts_without_overdispersion_have_the_scores_of_their_limit(by):
    X, _ = rows(30)
    y = np.arange(30) % 3  # variance below the mean
    scales, folds = [0.3, 1.0], np.arange(30) // 3 % 5

    def scored(likelihood: str):
        model = pr.Model.from_arrays(X, y, likelihood=likelihood, prior=pr.Normal(1.0))
        found = tune(model, by, scales=scales, **({"folds": folds} if by == "cv" else {}))  # fmt: skip
        return found.table, path(model, scales).data

    table, along = scored("negative_binomial")
    limit, along_limit = scored("poisson")
    assert (table["alpha"] == 0).all()
    np.testing.assert_allclose(table["score"], limit["score"], rtol=1e-6)
    # alpha counts as a parameter
    np.testing.assert_allclose(along["AIC"] - along_limit["AIC"], 2.0, rtol=1e-5)


def test_the_scale_of_a_likelihood_is_apart_from_that_of_a_prior():
    X, y = rows(30)
    model = pr.Model.from_arrays(
        X, np.exp(y / 4), likelihood="weibull", prior=pr.Normal(1.0)
    )
    along = path(model, [1.0])
    fitted = float(pr.fit(model).aux["scale"])
    assert float(along.data["noise_scale"][0]) == pytest.approx(fitted, rel=1e-5)
    tuned = tune(model, "aic", scales=[1.0]).table
    assert tuned["noise_scale"].item() == pytest.approx(fitted, rel=1e-5)


@pytest.mark.parametrize("choose", [path, tune])
def test_effects_by_group_have_no_path(choose):
    frame = {"y": np.arange(12) % 5.0, "x": np.arange(12) % 7, "g": np.arange(12) % 3}
    prior = {"x": pr.Normal(1.0), "1 | g": pr.Covariance(sd=2.0)}
    model = pr.Model.from_formula("y ~ x + (1 | g)", frame, prior=prior)
    with pytest.raises(pr.Incompatible, match="by evidence"):
        choose(model)


@pytest.mark.parametrize("link", ["log", "identity"])
def test_scales_are_found_where_a_predictor_of_zero_has_no_mean(link):
    X, eta = rows(60)
    probability = np.exp(np.minimum(0.3 * eta - 1.0, -0.1))
    y = np.random.default_rng(0).random(60) < probability
    model = pr.Model.from_arrays(X, y, likelihood=pr.Bernoulli(link=link), prior=pr.Normal(1.0))  # fmt: skip
    found = tune(model, "loo")
    assert np.isfinite(found.scale)
    missing = int(np.isnan(found.table["score"]).sum())
    assert (f"{missing} of 50 scales have no score" in found.notes) == (missing > 0)


def test_a_leave_one_out_at_a_kink_holds_sigma():
    X, eta = rows()
    y = eta + np.random.default_rng(0).normal(size=len(eta))
    found = tune(pr.Model.from_arrays(X, y, prior=pr.Laplace(1.0)), "loo")
    assert "at a kink fixed there, sigma fixed" in unfolded(str(found))[0]
