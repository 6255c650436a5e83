"""Leaving rows out by smoothed weights: the compiled pass gives ArviZ's numbers."""

import warnings

import numpy as np
import pytest
from scipy.special import logsumexp

import probreg as pr
from probreg.fits.leave_one_out import leave_rows_out


def theirs(fit: pr.Fit):
    az = pytest.importorskip("arviz")  # which takes a second
    stats = fit.tree["sample_stats"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if "log_q" in stats:
            return az.loo_approximate_posterior(
                fit.tree, log_p=stats["lp"], log_q=stats["log_q"], pointwise=True
            )
        return az.loo(fit.tree, pointwise=True)


def rows(n: int = 60):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, 2))
    return X, X @ [1.0, -0.5] + rng.standard_t(3, n)


@pytest.mark.parametrize(
    "method", ["conjugate", "laplace", "importance", pr.NUTS(draws=1000, chains=2)]
)
def test_loo_is_that_of_arviz(method):
    X, eta = rows()
    if method == "conjugate":
        model = pr.Model.from_arrays(X, eta)
    else:
        model = pr.Model.from_arrays(
            X, (eta > 0).astype(int), likelihood="bernoulli", prior=pr.Normal(2.0)
        )
    fit = pr.fit(model, method, seed=3)
    own, other = fit.loo(), theirs(fit)
    assert own is fit.loo()
    for name in ("elpd", "p", "good_k"):
        assert getattr(own, name) == pytest.approx(getattr(other, name), rel=1e-10)
    assert own.se == pytest.approx(
        np.sqrt(len(own.elpd_i) * np.var(other.elpd_i.values, ddof=1)), rel=1e-10
    )
    np.testing.assert_allclose(own.elpd_i, other.elpd_i, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(own.pareto_k, other.pareto_k, rtol=1e-9, atol=1e-10)
    assert (own.n_samples, own.n_data_points, own.warning, own.approx_posterior) == (
        other.n_samples, other.n_data_points, other.warning, other.approx_posterior,
    )  # fmt: skip
    assert str(own).split("\n")[0] == str(other).split("\n")[0]


@pytest.mark.parametrize("S", [25, 60, 226, 999, 4000])
def test_weights_are_smoothed_as_by_arviz_for_few_draws_and_heavy_tails(S):
    from arviz_stats.base import array_stats

    rng = np.random.default_rng(S)
    # weights from short to infinite variance; many equal values; one row in no order, one sorted
    log_lik = np.stack([a * np.log(rng.random(S)) for a in (0.1, 0.5, 0.9, 1.4)], 1)
    log_lik = np.hstack(
        [log_lik, np.sort(log_lik), log_lik.round(1)[:, 2:], -(log_lik[:, :1] ** 3)]
    )
    # the largest weights at every eighth draw, from which a bound of the tail is read
    log_lik = np.column_stack(
        [log_lik, 0.5 * np.log(rng.random(S)) - 3.0 * (np.arange(S) % 8 == 0)]
    )
    # excesses over so many orders of magnitude that products of them overflow, and weights that hardly differ
    log_lik = np.column_stack(
        [log_lik, 90.0 * np.log(rng.random((S, 2))), 1e-6 * rng.normal(size=S)]
    )
    # two heaps, where guesses of the bound from mean and standard deviation are far off
    log_lik = np.column_stack(
        [log_lik, np.where(rng.random(S) < 0.5, -400.0, 0.0) + rng.normal(size=S)]
    )
    ratio = 0.3 * rng.normal(size=S)
    found = leave_rows_out(log_lik, ratio, weights=True)
    for i in range(log_lik.shape[1]):
        log_w, k = array_stats.psislw(log_lik[:, i] - ratio)
        np.testing.assert_allclose(found.k[i], k, rtol=1e-9, atol=1e-12)
        # draws of equal weight may share their smoothed values in another order
        np.testing.assert_allclose(
            np.sort(found.log_weights[i]), np.sort(log_w), rtol=1e-9, atol=1e-9
        )
        assert found.elpd[i] == pytest.approx(
            logsumexp(log_w + log_lik[:, i]), rel=1e-9, abs=1e-10
        )
        assert found.lppd[i] == pytest.approx(
            logsumexp(log_lik[:, i]) - np.log(S), rel=1e-12
        )


def test_a_candidate_of_the_fit_at_zero_keeps_its_digits():
    from arviz_stats.base import array_stats

    S, M, m = 400, 60, 37
    # exponential excesses, whose k is 0, but for y* = y_M (sqrt(m / 26.5) - 1) / 3: candidate 27 is then
    # 1 / y_M + (1 - sqrt(m / 26.5)) / (3 y*) = 0 but for rounding
    for error in (1e-14, 1e-12, 1e-9):
        tail = -np.log1p(-(np.arange(M) + 0.5) / M)
        tail /= tail[-1]
        tail[14] = (np.sqrt(m / 26.5) - 1.0) / 3.0 * (1.0 + error)
        assert (np.diff(tail) > 0).all()
        log_lik = -np.log(np.r_[np.linspace(1e-15, 2e-15, S - M), tail])
        found = leave_rows_out(log_lik[:, None], weights=True)
        log_w, k = array_stats.psislw(log_lik)
        np.testing.assert_allclose(found.k[0], k, rtol=1e-10)
        np.testing.assert_allclose(found.log_weights[0], log_w, rtol=1e-10)


def test_rows_that_say_nothing_and_rows_without_a_density():
    log_lik = np.full((100, 3), -1.5)
    log_lik[7, 1], log_lik[8, 2] = -np.inf, np.nan
    found = leave_rows_out(log_lik)
    assert found.k[0] == -np.inf
    assert found.elpd[0] == pytest.approx(-1.5)
    assert np.isnan(found.elpd[1:]).all()
    assert np.isnan(found.k[1:]).all()
    with pytest.raises(pr.DataError, match="25 draws or more, and there are 24"):
        leave_rows_out(log_lik[:24])


def test_a_mode_has_no_draws_to_weigh():
    X, y = rows(20)
    with pytest.raises(
        pr.Incompatible, match="of a posterior, and closed_form finds a mode"
    ):
        pr.fit(pr.Model.from_arrays(X, y)).loo()


def test_blocks_of_rows_are_all_rows_and_one_row_has_no_standard_error():
    log_lik = np.random.default_rng(0).normal(size=(100, 2000))  # several blocks
    last = leave_rows_out(log_lik[:, -7:], weights=True)
    for a, b in zip(leave_rows_out(log_lik, weights=True), last, strict=True):
        np.testing.assert_array_equal(a[-7:], b)
    one = pr.Model.from_arrays(
        [[1.0]], [3], intercept=False, prior=pr.Normal(1.0), likelihood="poisson"
    )
    assert pr.fit(one, "laplace").loo().se == 0.0


def test_moments_have_no_rows_to_leave_out():
    X, y = rows(20)
    fit = pr.fit(pr.Model.from_moments(pr.Model.from_arrays(X, y).moments), "conjugate")
    with pytest.raises(
        pr.Incompatible, match=r"leave-one-out cannot be computed, since .*rows"
    ):
        fit.loo()


@pytest.mark.parametrize("method", ["closed_form", "conjugate"])
def test_rows_without_which_there_are_no_residuals_have_no_density(method):
    """Two rows determine a line, so that their sigma is 0; rounding must not decide its sign."""
    data = {"x": [0.1, 0.3, 0.7], "y": [1.1, 1.2, 2.3]}
    fit = pr.fit(pr.Model.from_formula("y ~ x", data), method)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = pr.compare_models({"fit": fit})
    assert any("without rows 0, 1, 2" in note for note in found.notes)
