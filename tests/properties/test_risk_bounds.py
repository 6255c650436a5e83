"""Laws of `guarantee`: every line is the bound of the arrays it says, fails where its assumption does, and is kept on new rows."""

from dataclasses import dataclass

import numpy as np
import pytest

import probreg as pr
from probreg import bounds
from probreg.diagnostics.guarantee.bound_inputs import BoundInputs, losses_for
from probreg.diagnostics.guarantee.guarantee import RiskBounds
from probreg.diagnostics.guarantee.theorems import ball_lines

from .cases import LIKELIHOOD_CASES, model_for, named, proper_aux

RBF = pr.kernels.RBF(1.0)


@pytest.fixture(scope="module")
def rows():
    """120 rows of two inputs, a response within [-2, 3]."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (120, 2))
    return X, np.clip(0.5 + X @ [0.8, -0.4] + 0.3 * rng.normal(size=120), -2.0, 3.0)


@pytest.fixture(scope="module")
def ridge(rows):
    """A kernel fit with y centred at the middle of its range, and every line of it."""
    X, y = rows
    fit = pr.kernel_ridge(
        X,
        y,
        kernel=RBF,
        lam=12.0,
        intercept=False,
        offset=np.full(120, 0.5),
        aux={"sigma": 0.3},
    )
    return fit, pr.guarantee(fit, (-2.0, 3.0), draws=500)


def line(found: RiskBounds, start: str):
    return next(one for one in found.lines if one.theorem.startswith(start))


def why(found: RiskBounds, start: str) -> str:
    one = line(found, start)
    assert one.bound is None
    return one.why


def test_lines_of_kernel_ridge_are_the_bounds_of_its_arrays(ridge, rows):
    fit, found = ridge
    X, y = rows
    h = np.clip(fit.predict()["mean"].values, -2.0, 3.0)
    risk = float(np.mean((h - y) ** 2))
    # lam of the mean loss 12 / 120, B = 2.5, M = 5, r = 1: Lam = B / sqrt(lam)
    given = {"risk": risk, "n": 120, "width": 5.0}
    stable = bounds.stability(**given, lam=0.1, row_norm=1.0, half_width=2.5)
    assert line(found, "stability").bound.value == pytest.approx(stable.value, rel=1e-9)
    Lam = 2.5 / np.sqrt(0.1)
    for start, form in (
        ("kernel ball, trace", {"trace": 120.0}),
        ("kernel ball, r", {"row_norm": 1.0}),
    ):
        assert line(found, start).bound.value == pytest.approx(
            bounds.kernel(**given, norm=Lam, **form).value, rel=1e-9
        )
    path = pr.kernels.ridge_path(RBF(X), y - 0.5, offset=False)
    inside = line(found, "kernel ball").bound.assumptions[-1]
    assert inside.met == pytest.approx(np.sqrt(path.norm2(12.0)[0]), rel=1e-6)
    assert inside.holds
    assert found.lines[0] is found.held_out
    assert found.held_out.theorem == "hold-out of 60 rows"


def risk_of(fit, y):
    h = np.clip(fit.predict()["mean"].values, -2.0, 3.0)
    return {"risk": float(np.mean((h - y) ** 2)), "n": 120, "width": 5.0}


def test_a_lasso_in_a_ball_has_the_bound_of_its_radius(rows, tmp_path):
    X, y = rows
    settings = {"intercept": False, "offset": np.full(120, 0.5)}
    fit = pr.lasso(X, y, radius=0.8, **settings)
    fit.save(tmp_path / "lasso.nc", rows=True)
    given = {**risk_of(fit, y), "norm": 0.8, "columns": 2}
    column_norm = float(np.linalg.norm(X, axis=0).max())
    for one in (fit, pr.load_fit(tmp_path / "lasso.nc")):
        found = pr.guarantee(one, (-2.0, 3.0), row_norm=1.0)
        for start, form in (
            ("l1 ball, columns", {"column_norm": column_norm}),
            ("l1 ball, r", {"largest": 1.0}),
        ):
            bound = line(found, start).bound
            assert bound.value == pytest.approx(bounds.l1(**given, **form).value)
            assert bound.assumptions[-1].holds
        assert "chosen on all rows" in why(found, "hold-out")
        assert "not strictly convex" in why(found, "stability")
    with pytest.raises(pr.errors.DataError, match="but row 0 has norm"):
        pr.guarantee(fit, (-2.0, 3.0), row_norm=0.1)
    absolute = pr.guarantee(fit, (-2.0, 3.0), loss="absolute")
    assert "squared errors" in why(absolute, "norm ball")


def test_a_ridge_in_a_ball_has_the_bound_of_its_radius(rows):
    X, y = rows
    fit = pr.ridge(X, y, radius=0.7, intercept=False, offset=np.full(120, 0.5))
    bound = line(pr.guarantee(fit, (-2.0, 3.0)), "kernel ball, trace").bound
    expected = bounds.kernel(**risk_of(fit, y), norm=0.7, trace=float(np.sum(X**2)))
    assert bound.value == pytest.approx(expected.value)
    assert bound.assumptions[-1].holds


def test_a_lasso_with_stated_lam_is_in_a_ball(rows):
    X, y = rows
    settings = {"intercept": False, "offset": np.full(120, 0.5)}
    fit = pr.lasso(X, y, lam=24.0, aux={"sigma": 0.3}, **settings)
    # lam |w|_1 / n is at most B^2, the mean loss of w = 0, B = 2.5
    norm = 2.5**2 / (24.0 / 120)
    bound = line(pr.guarantee(fit, (-2.0, 3.0)), "l1 ball").bound
    column_norm = float(np.linalg.norm(X, axis=0).max())
    expected = bounds.l1(**risk_of(fit, y), norm=norm, columns=2, column_norm=column_norm)  # fmt: skip
    assert bound.value == pytest.approx(expected.value)
    unknown = pr.guarantee(pr.lasso(X, y, lam=24.0, **settings), (-2.0, 3.0))
    assert "sigma is estimated, and so is lam" in why(unknown, "norm ball")
    free = pr.guarantee(pr.lasso(X, y, lam=24.0, **settings), (-2.0, 3.0), chosen_from=None)  # fmt: skip
    assert line(free, "l1 ball").bound.assumptions[-1].holds


def test_pac_bayes_of_a_normal_posterior(ridge, rows):
    """KL from the posterior to the prior is E log-likelihood less the log evidence, of functions as of coefficients."""
    _, found = ridge
    X, y = rows
    K, noise = RBF(X) * 0.09 / 12.0, 0.09
    gain = K @ np.linalg.inv(K + noise * np.eye(120))
    mean, spread = gain @ (y - 0.5), K - gain @ K
    # KL = [tr(K^-1 S) - k + m'K^-1 m + log|K| - log|S|] / 2, with K^-1 m = (K + s^2)^-1 y and K^-1 S = I - gain'
    alpha = np.linalg.solve(K + noise * np.eye(120), y - 0.5)
    half_logs = np.linalg.slogdet(np.eye(120) + K / noise)[1]
    divergence = 0.5 * (-np.trace(gain) + mean @ alpha + half_logs)
    one = line(found, "PAC-Bayes")
    assert f"KL = {divergence:.4g}" in one.notes[0]
    draws = np.clip(
        mean
        + 0.5
        + np.random.default_rng(1).multivariate_normal(np.zeros(120), spread, 4000),
        -2.0,
        3.0,
    )
    # 500 draws and 4,000
    assert one.bound.empirical == pytest.approx(np.square(draws - y).mean(), rel=0.03)
    again = bounds.pac_bayes(
        risk=one.bound.empirical, n=120, divergence=divergence, most=25.0, draws=500
    )
    assert one.bound.value == pytest.approx(again.value, rel=1e-6)


def test_unseen_rows_judge_the_fit_as_it_is(rows):
    X, y = rows
    fit = pr.ols(X[:60], y[:60])
    found = pr.guarantee(fit, (-2.0, 3.0), data=X[60:], y=y[60:])
    losses = (np.clip(fit.predict(X[60:])["mean"].values, -2.0, 3.0) - y[60:]) ** 2
    assert found.held_out.bound.value == pytest.approx(
        bounds.hold_out(losses, most=25.0).value, rel=1e-12
    )


def test_rows_of_the_fit_are_not_unseen(rows):
    X, y = rows
    fit = pr.ols(X, y)
    with pytest.raises(pr.errors.DataError, match="data are the 120 rows of the fit"):
        pr.guarantee(fit, (-2.0, 3.0), data=X[::-1], y=y[::-1])
    assert (
        pr.guarantee(fit, (-2.0, 3.0), data=X, y=np.roll(y, 1)).held_out.bound
        is not None
    )


def test_predictions_are_clipped_to_the_range(rows):
    X, y = rows
    X = np.vstack([X, [[40.0, 0.0]]])  # a row far out, where the line leaves the range
    fit = pr.ols(X, np.append(y, 3.0))
    assert fit.predict()["mean"].values.max() > 3.0
    found = line(pr.guarantee(fit, (-2.0, 3.0)), "pseudo-dimension 3")
    h = np.clip(fit.predict()["mean"].values, -2.0, 3.0)
    assert found.bound.empirical == pytest.approx(
        np.mean((h - np.append(y, 3.0)) ** 2), rel=1e-12
    )


def test_a_choice_by_tune_is_seen(rows, tmp_path):
    X, y = rows
    model = pr.Model.from_arrays(
        X, y, intercept=False, prior=pr.Normal(1.0), aux={"sigma": 0.3}
    )
    tuned = pr.tune(model, scales=[0.1, 0.3, 1.0], folds=3).model
    pr.fit(tuned).save(tmp_path / "fit.nc", rows=True)
    for fit in (
        pr.fit(tuned),
        pr.load_fit(tmp_path / "fit.nc"),
        pr.fit(tuned.with_aux(sigma=0.4)),
    ):
        found = pr.guarantee(fit, (-2.0, 3.0))
        assert "chosen on all rows" in why(found, "hold-out")
        assert "chosen on these rows" in why(found, "stability")
        paid = pr.guarantee(fit, (-2.0, 3.0), chosen_from=3)
        assert "delta / 3 pays" in line(paid, "hold-out").notes[-1]
        assert "chosen on all rows" in why(
            pr.guarantee(fit, (-2.0, 3.0), chosen_from=2), "hold-out"
        )
    again = tuned.with_prior(pr.Normal(1.0)), tuned.at(X[::-1] + 0.1, y[::-1])
    for fresh in again:  # stated anew, or at rows that tune did not see
        assert pr.guarantee(pr.fit(fresh), (-2.0, 3.0)).held_out.bound is not None
        assert fresh.with_prior_frozen.scales_compared == 0


def test_a_choice_is_paid_for(rows, ridge):
    X, y = rows
    fit, _ = ridge
    grid = pr.guarantee(fit, (-2.0, 3.0), chosen_from=30)
    plain = pr.guarantee(fit, (-2.0, 3.0), delta=0.05 / 30)
    for start in ("hold-out", "stability", "kernel ball"):
        assert line(grid, start).bound.value == pytest.approx(
            line(plain, start).bound.value, rel=1e-12
        )
        assert "delta / 30 pays" in line(grid, start).notes[-1]
    free = pr.guarantee(fit, (-2.0, 3.0), chosen_from=None)
    assert "chosen on all rows" in why(free, "hold-out")
    assert "chosen on these rows" in why(free, "stability")
    assert "chosen_from=" in why(free, "PAC-Bayes")
    ball = line(free, "kernel ball, r")
    norm = np.sqrt(pr.kernels.ridge_path(RBF(X), y - 0.5, offset=False).norm2(12.0)[0])
    k = 1 + max(0, int(np.ceil(np.log2(norm / 2.5))))  # Lam_k = 2.5 2^(k - 1)
    risk = ball.bound.empirical
    want = bounds.kernel(
        risk=risk,
        n=120,
        norm=2.5 * 2 ** (k - 1),
        width=5.0,
        row_norm=1.0,
        delta=0.05 / (k * (k + 1)),
    )
    assert ball.bound.value == pytest.approx(want.value, rel=1e-9)
    assert ball.bound.assumptions[-1].holds


def test_scales_found_by_evidence_count_as_chosen_freely(rows):
    X, y = rows
    prior = pr.Normal(pr.HalfNormal(1.0), sigma_units=True)
    found = pr.guarantee(
        pr.fit(pr.Model.from_arrays(X, y, prior=prior), "evidence"), (-2.0, 3.0)
    )
    assert "chosen on all rows" in why(found, "hold-out")
    # sigma alone was found, and the prior is not in its units: lam follows the rows
    found = pr.guarantee(
        pr.fit(pr.Model.from_arrays(X, y, prior=pr.Normal(1.0)), "evidence"),
        (-2.0, 3.0),
    )
    assert "chosen on all rows" in why(found, "hold-out")
    two = {
        "x1": pr.Normal(pr.HalfNormal(1.0)),
        "x2": pr.Normal(1.0),
    }  # their ratio follows the rows, and so does the kernel
    found = pr.guarantee(
        pr.fit(pr.Model.from_arrays(X, y, intercept=False, prior=two), "evidence"),
        (-2.0, 3.0),
        chosen_from=None,
    )
    assert "several scales were estimated" in why(found, "norm ball")
    one = pr.Model.from_arrays(
        X, y, intercept=False, prior=pr.Normal(pr.HalfNormal(1.0))
    )
    assert (
        line(pr.guarantee(pr.fit(one, "evidence"), (-2.0, 3.0)), "kernel ball").bound
        is not None
    )
    # sigma alone was found, and the coefficients do not depend on it
    kernel = pr.kernel_ridge(X, y, kernel=RBF, lam=12.0, intercept=False)
    assert pr.guarantee(kernel, (-2.0, 3.0)).held_out.bound is not None


def test_what_fails_is_said(rows):
    X, y = rows
    linear = pr.guarantee(pr.ols(X, y), (-2.0, 3.0))
    assert "flat prior on Intercept, x1, x2" in why(linear, "norm ball")
    assert "flat prior" in why(linear, "PAC-Bayes")
    bare = {"intercept": False, "prior": pr.Normal(1.0)}
    unknown = pr.guarantee(pr.fit(pr.Model.from_arrays(X, y, **bare)), (-2.0, 3.0))
    assert "sigma is estimated, and so is lam" in why(unknown, "norm ball")
    paid = pr.guarantee(
        pr.fit(pr.Model.from_arrays(X, y, **bare)), (-2.0, 3.0), chosen_from=None
    )
    assert line(paid, "kernel ball").bound is not None
    mixed = bare | {
        "prior": {"x1": pr.Normal(1.0), "x2": pr.Normal(1.0, sigma_units=True)}
    }
    mixed = pr.guarantee(
        pr.fit(pr.Model.from_arrays(X, y, **mixed)), (-2.0, 3.0), chosen_from=None
    )
    assert "some columns have their prior in its units" in why(mixed, "norm ball")
    held = pr.Model.from_arrays(X, y, **bare, aux={"sigma": 0.5})
    assert "give row_norm=" in why(pr.guarantee(pr.fit(held), (-2.0, 3.0)), "stability")
    assert (
        line(pr.guarantee(pr.fit(held), (-2.0, 3.0), row_norm=1.5), "stability").bound
        is not None
    )
    relative = held.with_prior(pr.Normal(1.0, scaled=True))
    assert "relative to these rows" in why(
        pr.guarantee(pr.fit(relative), (-2.0, 3.0)), "norm ball"
    )
    net = pr.guarantee(pr.fit(held.with_prior(pr.priors.ElasticNet(1.0))), (-2.0, 3.0))
    assert "about zero on every column" in why(net, "norm ball")
    varying = pr.Model.from_arrays(X, y, **bare, aux={"sigma": 0.5}, offset=X[:, 0])
    assert "offset varies by row" in why(
        pr.guarantee(pr.fit(varying), (-2.0, 3.0)), "norm ball"
    )
    table = {"x": X[:, 0], "z": X[:, 1], "y": y}
    for formula, term in (
        ("y ~ bs(x, df=5)", "bs(x, df=5)"),
        ("y ~ z + center(x)", "center(x)"),
    ):
        placed = pr.guarantee(
            pr.fit(pr.Model.from_formula(formula, table)), (-2.0, 3.0)
        )
        assert f"the columns of {term} depend on all rows" in why(placed, "hold-out")
        assert "depend on these rows" in why(placed, "pseudo-dimension")


def test_row_norms_beyond_the_stated_one_are_refused(rows):
    X, y = rows
    held = pr.Model.from_arrays(
        X, y, intercept=False, prior=pr.Normal(1.0), aux={"sigma": 0.5}
    )
    norms = np.linalg.norm(X, axis=1)
    with pytest.raises(
        pr.DataError,
        match=f"row_norm=1, but row {np.flatnonzero(norms > 1)[0]} has norm",
    ):
        pr.guarantee(pr.fit(held), (-2.0, 3.0), row_norm=1.0)


def test_ranges_that_are_no_knowledge_are_refused(rows):
    X, y = rows
    fit = pr.ols(X, y)
    with pytest.raises(
        pr.DataError, match="a range taken from the sample does not hold for new rows"
    ):
        pr.guarantee(fit)
    for ends in ((y.min(), y.max()), (-2.0, y.max()), (y.min(), 3.0)):
        with pytest.raises(
            pr.DataError, match="the most extreme y here: a range taken from the sample"
        ):
            pr.guarantee(fit, ends)
    row = int(np.flatnonzero(y > 1.0)[0])
    with pytest.raises(
        pr.DataError, match=rf"y is {y[row]:g} in row {row}, outside y_range \(-2, 1\)"
    ):
        pr.guarantee(fit, (-2.0, 1.0))
    for ends in ((1.0, 1.0), (3.0, -2.0), 4.0, (np.nan, 1.0)):
        with pytest.raises(pr.DataError, match="y_range is a pair of finite numbers"):
            pr.guarantee(fit, ends)
    # ends of a scale of whole numbers may be known
    rated = pr.ols(X, np.round(np.clip(2 + y, 1, 3)))
    assert "known before the rows, although these rows have its ends" in repr(
        pr.guarantee(rated, (1, 3))
    )
    assert "although these rows" not in repr(pr.guarantee(rated, (0, 3)))


def test_parts_of_fewer_than_two_rows_are_refused(rows):
    fit = pr.ols(*rows)
    for share, held in ((0.001, 0), (0.01, 1), (0.999, 120)):
        with pytest.raises(pr.DataError, match=f"not all of the 120 rows, got {held}"):
            pr.guarantee(fit, (-2.0, 3.0), holdout=share)


def test_weights_are_frequencies_or_refused(rows):
    X, y = rows
    w = 1 + np.arange(120) % 3
    weighted = pr.guarantee(pr.fit(pr.Model.from_arrays(X, y, weights=w)), (-2.0, 3.0))
    repeated = pr.guarantee(
        pr.fit(pr.Model.from_arrays(np.repeat(X, w, 0), np.repeat(y, w))), (-2.0, 3.0)
    )
    for one, other in zip(weighted.lines, repeated.lines, strict=True):
        assert one.theorem == other.theorem
        if one.bound is not None:
            assert one.bound.value == pytest.approx(other.bound.value, rel=1e-9)
    for kind in (pr.weights.precision, pr.weights.sampling):
        with pytest.raises(pr.Incompatible, match="only frequency weights are allowed"):
            pr.guarantee(
                pr.fit(pr.Model.from_arrays(X, y, weights=kind(w / 2))), (-2.0, 3.0)
            )


def test_classes_have_bounded_losses_of_their_own():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, 2))
    y = (rng.random(200) < 1 / (1 + np.exp(-2 * X[:, 0]))).astype(int)
    prior = dict.fromkeys(("Intercept", "x1", "x2"), pr.Normal(2.0))
    fit = pr.fit(pr.Model.from_arrays(X, y, likelihood="bernoulli", prior=prior))
    found = pr.guarantee(fit, draws=500)
    assert [one.name for one in found.losses] == ["zero_one", "brier"]
    p = fit.predict()["mean"].values
    for loss, each in (("zero_one", (p >= 0.5) != y), ("brier", (p - y) ** 2)):
        made = [
            one
            for one in found.lines
            if one.loss == loss and one.theorem == "pseudo-dimension 3"
        ]
        assert made[0].bound.empirical == pytest.approx(each.mean(), rel=1e-12)
    with pytest.raises(pr.DataError, match="leave y_range out"):
        pr.guarantee(fit, (0, 1))
    with pytest.raises(
        pr.Incompatible, match="no bounded loss 'squared'; it has: zero_one, brier"
    ):
        pr.guarantee(fit, loss="squared")


@dataclass(frozen=True)
class Tube(pr.Gaussian):
    """A likelihood that says of itself that errors within 0.2 cost nothing; its fit is another's."""

    least_squares = False
    insensitive = 0.2


def test_an_insensitive_likelihood_is_judged_beyond_its_epsilon(rows):
    X, y = rows
    offset = np.full(120, 0.5)
    model = pr.Model.from_arrays(
        X, y, intercept=False, prior=pr.Normal(2.0), aux={"sigma": 0.5}, offset=offset
    )
    fit = pr.fit(model)
    tube = pr.Fit(
        pr.Model(model.design, Tube(), model.prior, model.aux), fit.method, fit.solution
    )
    losses = losses_for(tube.model.likelihood, model.design, (-2.0, 3.0), None)
    judged = BoundInputs(tube, model.design, losses, (-2.0, 3.0), 0.05, 1, 1.5, 100, 0)
    lines = ball_lines(judged)
    risk = np.maximum(
        0.0, np.abs(np.clip(fit.predict()["mean"].values, -2, 3) - y) - 0.2
    ).mean()
    # s / (2 tau^2 m), that is 1 / (2 C m) of support vectors with C = tau^2 / s
    lam = 0.5 / (2 * 4.0 * 120)
    given = {"risk": risk, "n": 120, "row_norm": 1.5, "width": 5.0, "epsilon": 0.2}
    want = bounds.stability(**given, lam=lam, half_width=2.5)
    assert lines[0].bound.value == pytest.approx(want.value, rel=1e-9)
    ball = bounds.kernel(**given, norm=np.sqrt(2.3 / lam))
    assert lines[2].bound.value == pytest.approx(ball.value, rel=1e-9)


@pytest.mark.parametrize("likelihood", LIKELIHOOD_CASES, ids=named)
def test_every_likelihood_has_a_bounded_loss(likelihood):
    model = model_for(likelihood, n=40, aux=proper_aux(likelihood))
    y = model.design.observed
    ends = (
        None
        if isinstance(likelihood, pr.likelihoods.OfClasses)
        else (np.floor(y.min()) - 1, np.ceil(y.max()) + 1)
    )
    prior = dict.fromkeys(model.design.columns, pr.Normal(3.0))
    found = pr.guarantee(pr.fit(model.with_prior(prior)), ends, draws=50)
    assert found.held_out.bound is not None
    for one in found.lines:
        if one.bound is not None:
            assert 0 <= one.bound.empirical <= one.bound.most
            assert one.bound.value >= one.bound.empirical
    text = repr(found)
    assert len(text.splitlines()) <= 40
    assert "hold-out of 20 rows" in text


def test_the_print_marks_vacuous_bounds(rows):
    X, y = rows
    text = repr(pr.guarantee(pr.ols(X[:20], y[:20]), (-2.0, 3.0)))
    assert "vacuous" in text
    assert "at most 6.25" in text
    assert "cannot be checked: rows are independent draws of one distribution" in text


@pytest.mark.slow
def test_guarantees_are_kept_on_new_rows():
    """Noise alone, and columns enough to follow it: each line holds in at least 1 - delta of 120 samples."""
    rng, delta, kept = np.random.default_rng(5), 0.2, {}
    for s in range(120):
        X = rng.uniform(-1.0, 1.0, (40, 5)) / np.sqrt(5.0)
        y = rng.integers(0, 2, 40) - 0.5
        model = pr.Model.from_arrays(
            X, y, intercept=False, prior=pr.Normal(5.0), aux={"sigma": 0.5}
        )
        found = pr.guarantee(
            pr.fit(model), (-0.5, 0.5), delta=delta, row_norm=1.0, draws=200, seed=s
        )
        half = np.sort(np.random.default_rng(s).permutation(40)[20:])
        new = rng.uniform(-1.0, 1.0, (2000, 5)) / np.sqrt(5.0)
        risk = {}
        for name, rows in (("all", slice(None)), ("half", half)):
            part = pr.fit(
                pr.Model.from_arrays(
                    X[rows], y[rows], intercept=False, prior=model.prior, aux=model.aux
                )
            )
            # y is a fair coin whatever x is: E (h - y)^2 = 1/4 + E h^2
            risk[name] = 0.25 + np.mean(np.clip(new @ part.coef.values, -0.5, 0.5) ** 2)
        for one in found.lines:
            if one.bound is None or one.theorem.startswith("PAC"):
                continue
            true = risk["half" if one.theorem.startswith("hold-out") else "all"]
            kept.setdefault(one.bound.theorem + one.bound.source, []).append(
                true <= one.bound.value
            )
    assert len(kept) == 6
    assert all(
        len(each) == 120 and np.mean(each) >= 1 - delta for each in kept.values()
    )
