"""Lagged designs and echo return loss by hand, against loops, and where they must refuse."""

import numpy as np
import pytest

import probreg.online as online
from probreg import DataError

S = np.array([1.0, -2.0, 3.0, 5.0, -7.0])


def test_an_autoregression_by_hand():
    X, y, columns = online.lags(S, 2)
    np.testing.assert_array_equal(X, [[-2, 1], [3, -2], [5, 3]])
    np.testing.assert_array_equal(y, [3, 5, -7])
    assert columns == ("lag1", "lag2")


@pytest.mark.parametrize("m", [1, 2, 4])
@pytest.mark.parametrize("delay", [0, 1, 3])
def test_every_row_is_the_past_of_its_target(m, delay, rng):
    s, d = rng.standard_normal((2, 12))
    X, y, columns = online.lags(s, m, delay=delay, target=d)
    times = range(m + delay - 1, 12)
    np.testing.assert_array_equal(
        X, [[s[t - delay - j] for j in range(m)] for t in times]
    )
    np.testing.assert_array_equal(y, d[m + delay - 1 :])
    assert columns == tuple(f"lag{delay + j}" for j in range(m))


def test_the_tapped_delay_line_is_convolution(rng):
    x, path = rng.standard_normal(40), rng.standard_normal(6)
    X, y, _ = online.lags(x, 6, delay=0, target=np.convolve(x, path)[:40])
    np.testing.assert_allclose(X @ path, y, atol=1e-14)  # rounding of six products


def test_the_longest_lag_leaves_one_row_and_the_rows_are_copies():
    s = S.copy()
    X, y, _ = online.lags(s, 4)
    s[:] = 0
    np.testing.assert_array_equal(X, [[5, 3, -2, 1]])
    np.testing.assert_array_equal(y, [-7])
    assert X.flags.c_contiguous
    assert X.flags.writeable
    assert online.lags(S, 5, delay=0, target=S).X.shape == (1, 5)


def test_an_autoregression_is_recovered_exactly_without_noise():
    s = [1.0, 1.0]
    for _ in range(20):
        s.append(1.1 * s[-1] - 0.6 * s[-2])
    design = online.lags(s, 2)
    path = online.run(online.rls(), design.X, design.y)
    # two columns far from collinear
    np.testing.assert_allclose(path.state.w, [1.1, -0.6], rtol=1e-12)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: online.lags(S, 0), "m is a whole number of at least 1, got 0"),
        (lambda: online.lags(S, -3), "m is a whole number of at least 1, got -3"),
        (lambda: online.lags(S, 5), "5 lags from 1 on need 6 values, there are 5"),
        (lambda: online.lags(S, 9, delay=0, target=S), "there are 5"),
        (lambda: online.lags([], 1), "there are 0"),
        (
            lambda: online.lags(S, 1, delay=-1),
            "delay is a whole number of at least 0, got -1",
        ),
        (
            lambda: online.lags(S, 1, delay=-1, target=S),
            "delay is a whole number of at least 0, got -1",
        ),
        (lambda: online.lags(S, 2, delay=0), "give a target"),
        (lambda: online.lags([1.0, 2.0, np.nan, 4.0], 1), r"s\[2\] is nan"),
        (
            lambda: online.lags(S, 1, target=[0.0, -np.inf, 0.0, 0.0, 0.0]),
            r"target\[1\] is -inf",
        ),
        (
            lambda: online.lags(S, 1, target=S[:3]),
            r"target has shape \(3,\): expected one channel \(5,\)",
        ),
        (lambda: online.lags(S[:, None], 1), r"s has shape \(5, 1\)"),
        (
            lambda: online.echo_return_loss(S, S[:2], window=1),
            r"e has shape \(2,\): expected one channel \(5,\)",
        ),
        (
            lambda: online.echo_return_loss(S, S, window=0),
            "window is a whole number of at least 1, got 0",
        ),
        (lambda: online.echo_return_loss(S, S, window=6), "window is 6"),
        (lambda: online.echo_return_loss([np.inf], [1.0], window=1), r"d\[0\] is inf"),
        (lambda: online.echo_return_loss([1.0], [np.nan], window=1), r"e\[0\] is nan"),
    ],
)
def test_what_cannot_be_is_said(call, match):
    with pytest.raises(DataError, match=match):
        call()


@pytest.mark.parametrize("window", [1, 2, 3, 7, 49, 50])
def test_echo_return_loss_is_the_ratio_of_mean_squares(window, rng):
    d, e = rng.standard_normal((2, 50))
    means = [
        (np.mean(d[k : k + window] ** 2), np.mean(e[k : k + window] ** 2))
        for k in range(51 - window)
    ]
    by_hand = [10 * np.log10(a / b) for a, b in means]
    np.testing.assert_allclose(
        online.echo_return_loss(d, e, window=window), by_hand, atol=1e-12
    )  # rounding of sums


def test_an_echo_cut_to_a_tenth_has_gained_20_decibels(rng):
    d = rng.standard_normal(30)
    np.testing.assert_allclose(
        online.echo_return_loss(d, 0.1 * d, window=8), 20.0, rtol=1e-13
    )


def test_what_is_left_may_be_tiny_beside_what_there_was():
    # A running sum of squares from 1 to 1e-24 would leave nothing but rounding here.
    e = np.r_[np.ones(10), np.full(15, 1e-12)]
    np.testing.assert_allclose(
        online.echo_return_loss(np.ones(25), e, window=5)[-5:], 240.0, rtol=1e-12
    )


def test_squares_that_overflow_do_not(rng):
    d = rng.standard_normal(9)
    expected = online.echo_return_loss(d, 2 * d, window=3)
    np.testing.assert_allclose(
        online.echo_return_loss(1e200 * d, 2e200 * d, window=3), expected, rtol=1e-12
    )


def test_silence():
    found = online.echo_return_loss([1.0, 0.0, 0.0], [0.0, 1.0, 0.0], window=1)
    np.testing.assert_array_equal(found, [np.inf, -np.inf, np.nan])
