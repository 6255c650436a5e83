"""Laws of likelihoods: derivatives, mass, draws, distribution functions and PyMC's density all say the same p(y | eta)."""

import itertools
from typing import Any

import numpy as np
import pytest

import probreg as pr
from probreg.likelihoods import (
    LIKELIHOODS,
    CountLikelihood,
    DifferentiableLikelihood,
    ExponentialFamily,
    Likelihood,
    MayDiverge,
    OfTrials,
    PiecewiseLinearLikelihood,
    ProximalLikelihood,
    Quantile,
    SmoothLikelihood,
    UnivariateLikelihood,
)
from probreg.likelihoods.binary import BinaryLikelihood
from probreg.likelihoods.location_scale import AdditiveNoise
from probreg.registry import Registry

from .cases import (
    LIKELIHOOD_CASES,
    Array,
    auxiliaries,
    covering,
    dkw,
    given_for,
    gradient,
    half_line,
    line,
    model_for,
    named,
    pieces,
    recipe_of,
    rows_for,
    slope,
)

# with the same trials in every row, and with trials that vary
CASES = [
    *LIKELIHOOD_CASES,
    pr.Binomial(),
    pr.ZeroInflated(pr.NegativeBinomial()),
    pr.Hurdle(pr.NegativeBinomial()),
    pr.StudentT(nu=None),
]
every = pytest.mark.parametrize("likelihood", CASES, ids=named)
registered = pytest.mark.parametrize("likelihood", LIKELIHOOD_CASES, ids=named)


def of_kind(kind: type) -> Any:
    return pytest.mark.parametrize(
        "likelihood", [v for v in CASES if isinstance(v, kind)], ids=named
    )


smooth, ordered, separable = (
    of_kind(SmoothLikelihood),
    of_kind(UnivariateLikelihood),
    of_kind(MayDiverge),
)
sloped, kinked = of_kind(DifferentiableLikelihood), of_kind(ProximalLikelihood)


def rows(likelihood: Likelihood, n: int = 25) -> tuple[Array, Array]:
    """y (n,) or (n, c) and eta (n, m), far enough from zero that curvature shows."""
    rng = np.random.default_rng(11)
    eta = rng.normal(0.4, 1.2, (n, likelihood.width))
    y = likelihood.sample(
        rng, eta, **auxiliaries(likelihood), **given_for(likelihood, n)
    )
    # differences do not reach over a kink
    if (breaks := kinks(likelihood)) is not None:
        y = y + 0.2 * (np.abs((y - eta[:, 0])[:, None] - breaks).min(1) < 0.1)
    return y, eta


def nodes(likelihood: Likelihood, centre: float = 0.0) -> tuple[Array, Array]:
    """Points and weights that sum over the support, of TRIALS trials where the likelihood counts them."""
    if not likelihood.is_discrete:
        breaks = kinks(likelihood)
        if likelihood.support == "positive":
            return half_line()
        if likelihood.support == "unit":  # y = v / (1 + v)
            v, w = half_line()
            inside = np.minimum(v / (1.0 + v), 1.0 - np.finfo(float).epsneg)
            return inside, w / (1.0 + v) ** 2
        return line(centre, SCALE) if breaks is None else pieces(centre + breaks, SCALE)
    y = likelihood.support
    if isinstance(likelihood, OfTrials):
        n, k = (
            int(told(likelihood).get("trials", likelihood.trials)),
            len(likelihood.levels),
        )
        every = itertools.product(range(n + 1), repeat=k)
        y = (
            np.array([v for v in every if sum(v) == n], dtype=float)
            if k
            else likelihood.join(np.arange(n + 1.0), trials=n)
        )
    return y, np.ones(len(y))


def kinks(likelihood: Likelihood) -> Array | None:
    """Residuals at which the density is not analytic, of the auxiliary parameters of these laws; None for those without."""
    aux = auxiliaries(likelihood)
    if isinstance(likelihood, PiecewiseLinearLikelihood):
        return likelihood.slopes(**aux).tube * np.array([-1.0, 1.0])
    return {
        "huber": getattr(likelihood, "k", 0.0)
        * aux.get("sigma", 1.0)
        * np.array([-1.0, 1.0]),
        "power": np.zeros(1),
    }.get(likelihood.name)


def told(likelihood: Likelihood) -> dict[str, float]:
    """What the rows of `nodes` are told of themselves."""
    return (
        {"trials": TRIALS}
        if isinstance(likelihood, OfTrials) and not likelihood.trials
        else {}
    )


SCALE, TRIALS = 0.8, 5.0


def test_every_registered_likelihood_has_a_case():
    of_base = {pr.likelihoods.Censored, pr.likelihoods.Truncated}
    by_name = {LIKELIHOODS[v.name] for v in LIKELIHOOD_CASES}
    assert by_name == set(LIKELIHOODS.values()) - of_base


def test_unknown_degrees_of_freedom_are_written_as_text():
    assert LIKELIHOODS.resolve("student(nu=None)") == pr.StudentT(nu=None)


@registered
def test_a_likelihood_prints_the_call_that_returns_it(likelihood):
    classes = {cls.__name__: cls for cls in LIKELIHOODS.values()}
    assert eval(str(likelihood), classes) == likelihood


@sloped
def test_score_is_the_slope_of_log_prob(likelihood):
    y, eta = rows(likelihood)
    aux = auxiliaries(likelihood)
    for k, e in enumerate(np.eye(likelihood.width)):
        numeric = slope(lambda t, e=e: likelihood.log_prob(y, eta + t * e, **aux))
        np.testing.assert_allclose(
            likelihood.score(y, eta, **aux)[:, k], numeric, rtol=1e-8, atol=1e-9
        )


@pytest.mark.parametrize(
    "likelihood",
    [v for v in CASES if isinstance(v, SmoothLikelihood) and not v.expected_curvature],
    ids=named,
)
def test_expansion_is_the_slope_and_curvature_over_eta_and_log_aux(likelihood):
    y, eta = rows(likelihood, 12)
    names, m = likelihood.nuisance, likelihood.width

    def at(i: int, x: Array) -> Any:
        aux = {a: np.exp(v) for a, v in zip(names, x[m:])}
        return likelihood.value_grad_hessian(y[i : i + 1], x[None, :m], **aux)

    for i in range(len(y)):
        x = np.r_[eta[i], np.log(list(auxiliaries(likelihood).values()))]
        value, g, H = (v[0] for v in at(i, x))
        aux = {a: np.exp(v) for a, v in zip(names, x[m:])}
        assert value == pytest.approx(
            float(likelihood.log_prob(y[i], eta[i], **aux)), rel=1e-13, abs=1e-14
        )
        numeric = gradient(lambda v, i=i: at(i, v).log_prob[0], x)
        # exp(4 log sigma) has large fifth derivatives
        np.testing.assert_allclose(g, numeric, rtol=1e-7, atol=1e-8)
        np.testing.assert_allclose(
            H, -gradient(lambda v, i=i: at(i, v).gradient[0], x), rtol=1e-7, atol=1e-7
        )
        np.testing.assert_allclose(H, H.T, rtol=1e-14, atol=1e-16)


@sloped
def test_information_is_the_expected_square_of_the_score(likelihood):
    _, eta = rows(likelihood, 8)
    aux = auxiliaries(likelihood)
    for e in eta:
        y, w = nodes(likelihood, e[0])
        at = np.broadcast_to(e, (len(y), len(e)))
        p, s = (
            w * np.exp(likelihood.log_prob(y, at, **aux)),
            likelihood.score(y, at, **aux),
        )
        expected = np.einsum("n,na,nb->ab", p, s, s)
        found = likelihood.information(e[None], **aux, **told(likelihood))[0]
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
        # and the score has mean zero
        np.testing.assert_allclose(p @ s, 0.0, atol=1e-10)


@pytest.mark.parametrize(
    "likelihood",
    [
        v
        for v in CASES
        if v.nuisance and v.is_orthogonal and isinstance(v, SmoothLikelihood)
    ],
    ids=named,
)
def test_an_orthogonal_likelihood_has_uncorrelated_scores(likelihood):
    _, eta = rows(likelihood, 4)
    aux = auxiliaries(likelihood)
    for e in eta:
        y, w = nodes(likelihood, e[0])
        at = np.broadcast_to(e, (len(y), len(e)))
        values = {a: np.full(len(y), v) for a, v in aux.items()}
        local = likelihood.value_grad_hessian(y, at, **values)
        g = np.nan_to_num(local.gradient)
        products = (w * np.exp(local.log_prob))[:, None] * g
        information = products.T @ g
        m = likelihood.width
        scale = np.sqrt(np.diagonal(information))
        # the sums over nodes have an error of about 1e-10
        assert np.abs((information / np.outer(scale, scale))[:m, m:]).max() < 1e-8


@pytest.mark.parametrize(
    "likelihood",
    [v for v in CASES if getattr(v, "expected_curvature", False)],
    ids=named,
)
def test_expansion_is_the_slope_and_the_expected_curvature(likelihood):
    y, eta = rows(likelihood)
    names, aux = likelihood.nuisance, auxiliaries(likelihood)
    found = likelihood.value_grad_hessian(y, eta, **aux)
    np.testing.assert_allclose(
        found.log_prob, likelihood.log_prob(y, eta, **aux), rtol=1e-13
    )
    np.testing.assert_allclose(
        found.gradient[:, 0], likelihood.score(y, eta, **aux)[:, 0], rtol=1e-13
    )
    for k, a in enumerate(names):
        numeric = slope(
            lambda t, a=a: likelihood.log_prob(y, eta, **{**aux, a: aux[a] * np.exp(t)})
        )
        np.testing.assert_allclose(
            found.gradient[:, 1 + k], numeric, rtol=1e-7, atol=1e-8
        )
    y, w = nodes(likelihood, 0.3)
    at = likelihood.value_grad_hessian(y, np.full((len(y), 1), 0.3), **aux)
    p = w * np.exp(at.log_prob)
    np.testing.assert_allclose(
        at.curvature[0],
        (p[:, None] * at.gradient).T @ at.gradient,
        rtol=1e-9,
        atol=1e-10,
    )
    np.testing.assert_allclose(p @ at.gradient, 0.0, atol=1e-10)


@kinked
def test_the_variance_of_a_response_is_that_of_the_density(likelihood):
    aux, (y, w) = auxiliaries(likelihood), nodes(likelihood, 0.3)
    p = w * np.exp(likelihood.log_prob(y, np.full((len(y), 1), 0.3), **aux))
    variance = likelihood.response_variance(np.full((1, 1), 0.3), **aux)[0]
    assert variance == pytest.approx(p @ (y - p @ y) ** 2, rel=1e-9)


@every
def test_total_mass_is_one_and_the_mean_is_the_first_moment(likelihood):
    _, eta = rows(likelihood)
    aux = auxiliaries(likelihood)
    for e in eta:
        y, w = nodes(likelihood, e[0])
        p = w * np.exp(
            likelihood.log_prob(y, np.broadcast_to(e, (len(y), len(e))), **aux)
        )
        assert p.sum() == pytest.approx(1.0, abs=1e-10)
        mean = likelihood.mean(e[None], **aux)[0]
        tau = 0.5 if likelihood.centre == "median" else None
        tau = likelihood.tau if isinstance(likelihood, Quantile) else tau
        if tau is not None:  # its linear predictor gives a quantile
            assert likelihood.cdf(mean, e[None], **aux)[0] == pytest.approx(
                tau, abs=1e-12
            )
            continue
        np.testing.assert_allclose(
            mean, p @ likelihood.response(y), rtol=1e-9, atol=1e-10
        )


@ordered
def test_cdf_is_the_integral_of_the_density(likelihood):
    _, eta = rows(likelihood, 10)
    aux = auxiliaries(likelihood)
    if not likelihood.is_discrete:
        y = {
            "real": np.linspace(-6, 6, 10),
            "positive": np.geomspace(0.1, 10, 10),
            "unit": np.linspace(0.05, 0.95, 10),
        }[likelihood.support]
        # steps relative to the distance from the ends, where the density may change fast
        unit = {"real": np.ones(10), "positive": y, "unit": y * (1.0 - y)}[
            likelihood.support
        ]
        numeric = slope(lambda t: likelihood.cdf(y + t * unit, eta, **aux)) / unit
        np.testing.assert_allclose(
            numeric, np.exp(likelihood.log_prob(y, eta, **aux)), rtol=1e-7, atol=1e-9
        )
        np.testing.assert_allclose(
            likelihood.cdf(np.full(10, -1e9), eta, **aux), 0.0, atol=1e-12
        )
        np.testing.assert_allclose(
            likelihood.cdf(np.full(10, 1e9), eta, **aux), 1.0, atol=1e-12
        )
        return
    y, _ = nodes(likelihood)

    def moved(by: float) -> Array:
        return likelihood.join(likelihood.drawn(y) + by, **told(likelihood))

    for e in eta:
        at = np.broadcast_to(e, (len(y), 1))
        total = np.cumsum(np.exp(likelihood.log_prob(y, at, **aux)))
        np.testing.assert_allclose(likelihood.cdf(y, at, **aux), total, rtol=1e-11)
        np.testing.assert_allclose(
            likelihood.cdf(moved(0.5), at, **aux), total, rtol=1e-11
        )  # constant between atoms
        assert likelihood.cdf(moved(-0.5)[:1], at[:1], **aux)[0] == 0.0


@every
def test_draws_follow_the_density(likelihood):
    _, eta = rows(likelihood, 4)
    aux, n = auxiliaries(likelihood), 20_000
    for i, e in enumerate(eta):
        at = np.broadcast_to(e, (n, len(e)))
        y = likelihood.sample(np.random.default_rng(i), at, **aux, **told(likelihood))
        if isinstance(likelihood, UnivariateLikelihood):
            drawn = np.sort(likelihood.drawn(y))
            steps = np.searchsorted(drawn, drawn, side="right") / n
            met = likelihood.join(drawn, **told(likelihood))
            assert np.abs(likelihood.cdf(met, at, **aux) - steps).max() < dkw(n)
        else:
            atoms, _ = nodes(likelihood)
            p = np.exp(
                likelihood.log_prob(
                    atoms, np.broadcast_to(e, (len(atoms), len(e))), **aux
                )
            )
            share = np.array([(y == k).reshape(n, -1).all(1).mean() for k in atoms])
            # five standard errors
            assert (np.abs(share - p) < 5 * np.sqrt(p * (1 - p) / n) + 1e-12).all()


@every
def test_leading_axes_are_draws(likelihood):
    y, eta = rows(likelihood, 6)
    draws = np.random.default_rng(0).normal(size=(2, 3, 1, 1)) + eta
    values = {a: np.linspace(0.5, 1.5, 6).reshape(2, 3, 1) for a in likelihood.nuisance}
    functions = ["log_prob"] + ["score"] * isinstance(likelihood, SmoothLikelihood)
    functions += ["cdf"] * isinstance(likelihood, UnivariateLikelihood)
    together = {f: getattr(likelihood, f)(y, draws, **values) for f in functions}
    together |= {"mean": likelihood.mean(draws, **values)}
    given = likelihood.given(y)
    if isinstance(likelihood, SmoothLikelihood):
        together["information"] = likelihood.information(draws, **values, **given)
    assert likelihood.sample(
        np.random.default_rng(0), draws, **values, **given
    ).shape == (2, 3, *y.shape)
    for i in np.ndindex(2, 3):
        one = {a: v[i] for a, v in values.items()}
        for f, value in together.items():
            first, known = (
                ((y,), one)
                if f in functions
                else ((), one | given if f == "information" else one)
            )
            np.testing.assert_allclose(
                value[i],
                getattr(likelihood, f)(*first, draws[i], **known),
                rtol=1e-14,
                err_msg=f,
            )


@every
def test_rows_are_drawn_independently(likelihood):
    """Two rows with the same eta must not share their draw."""
    eta = np.zeros((2000, 2, likelihood.width))
    y = likelihood.drawn(
        likelihood.sample(
            np.random.default_rng(5), eta, **auxiliaries(likelihood), **told(likelihood)
        )
    )
    y = y if y.ndim == 2 else y[..., 0]
    assert abs(np.corrcoef(y.T)[0, 1]) < 6 / np.sqrt(2000)


@every
def test_the_line_of_the_mean_and_its_slope(likelihood):
    _, eta = rows(likelihood, 12)
    aux = auxiliaries(likelihood)
    centre, J, A = likelihood.link_mean_and_slope(eta, **aux)
    mean = likelihood.mean(eta, **aux).reshape(centre.shape)
    np.testing.assert_allclose(likelihood.link.inverse(centre), mean, rtol=1e-13)
    np.testing.assert_allclose(
        likelihood.link.forward(mean), centre, rtol=1e-10, atol=1e-12
    )
    np.testing.assert_allclose(
        slope(lambda t: likelihood.link.inverse(centre + t)),
        likelihood.link.slope(centre),
        rtol=1e-8,
    )
    for k, e in enumerate(np.eye(likelihood.width)):
        np.testing.assert_allclose(
            J[..., k],
            slope(lambda t, e=e: likelihood.link_mean_and_slope(eta + t * e, **aux)[0]),
            atol=1e-9,
        )
    assert A.shape == (*centre.shape, len(likelihood.nuisance))
    for k, name in enumerate(likelihood.nuisance):

        def moved(t, name=name):
            return {**aux, name: aux[name] * np.exp(t)}

        np.testing.assert_allclose(
            A[..., k],
            slope(lambda t: likelihood.link_mean_and_slope(eta, **moved(t))[0]),
            atol=1e-9,
        )


@of_kind(BinaryLikelihood)
@pytest.mark.parametrize("d", [0.0, 0.1, 1.0, 6.0])
def test_the_largest_change_of_a_probability_is_the_largest_of_a_grid(likelihood, d):
    eta = np.linspace(-12.0, 12.0, 40_001)[:, None]
    grid = likelihood.mean(eta + d) - likelihood.mean(eta)
    # the grid misses the top by at most half of its square step
    assert likelihood.tails.largest_change(np.array(d)) == pytest.approx(
        grid.max(), abs=1e-7
    )


@of_kind(ExponentialFamily)
def test_the_variance_is_that_of_the_density_and_its_slope_that_of_the_variance(
    likelihood,
):
    _, eta = rows(likelihood, 12)
    aux, mean = auxiliaries(likelihood), likelihood.mean(eta)
    if likelihood.canonical:
        np.testing.assert_allclose(
            likelihood.variance(mean, **aux),
            likelihood.link.slope(eta[:, 0]),
            rtol=1e-12,
        )
    numeric = slope(lambda h: likelihood.variance(mean * (1 + h), **aux)) / mean
    np.testing.assert_allclose(
        likelihood.variance_slope(mean, **aux), numeric, rtol=1e-8, atol=1e-9
    )
    numeric = slope(lambda h: likelihood.link.slope(eta[:, 0] + h))
    np.testing.assert_allclose(
        likelihood.link.hessian(eta[:, 0]), numeric, rtol=1e-8, atol=1e-9
    )
    for e in eta:
        y, w = nodes(likelihood, e[0])
        p = w * np.exp(likelihood.log_prob(y, np.broadcast_to(e, (len(y), 1)), **aux))
        known = aux | told(likelihood)
        spread = p @ (likelihood.response(y) - likelihood.mean(e[None])[0]) ** 2
        assert float(
            likelihood.response_variance(e[None], **known)[0]
        ) == pytest.approx(spread, rel=1e-8)


@of_kind(CountLikelihood)
def test_the_excess_kurtosis_is_the_fourth_cumulant(likelihood):
    aux, y = auxiliaries(likelihood), likelihood.support
    for e in (-0.5, 0.3, 1.4):
        mu = likelihood.mean(np.array([[e]]))
        p = np.exp(likelihood.log_prob(y, np.full((len(y), 1), e), **aux))
        second, fourth = (p @ (y - mu) ** k for k in (2, 4))
        assert float(likelihood.excess_kurtosis(mu, **aux)[0]) == pytest.approx(
            fourth / second**2 - 3.0, rel=1e-7
        )


@separable
def test_the_recession_cone_is_where_the_likelihood_never_falls(likelihood):
    """Far along a direction in the cone log p has not fallen, and along one outside it it has."""
    y, eta = rows(likelihood, 40)
    cone, rng, met = likelihood.recession(y), np.random.default_rng(2), set()
    direction = rng.normal(size=eta.shape) * rng.integers(0, 2, (len(y), 1))
    assert cone.directions.shape == (len(cone.rows), likelihood.width)
    side = (cone.directions * direction[cone.rows]).sum(1)
    bad = np.where(cone.equal, np.abs(side) > 0, side < 0)
    outside = np.isin(np.arange(len(y)), cone.rows[bad])
    steps = np.linspace(0, 30, 40)[:, None, None]
    aux = auxiliaries(likelihood)
    path = likelihood.log_prob(y, eta + steps * direction, **aux)
    # counts that nearly balance fall late
    far = likelihood.log_prob(y, eta + 1e6 * direction, **aux)
    for i in range(len(y)):
        met.add((bool(outside[i]), bool(direction[i].any())))
        if outside[i]:
            assert far[i] < path[0, i]
        else:
            assert (np.diff(path[:, i]) >= -1e-12).all()
    assert {(True, True), (False, True)} <= met  # both kinds were met
    # a row without a direction does not depend on eta
    unlisted = np.setdiff1d(np.arange(len(y)), cone.rows)
    assert np.ptp(path[:, unlisted], axis=0).max(initial=0.0) == 0.0


@every
def test_extreme_predictors_give_a_log_density_and_no_warning(likelihood):
    y, _ = rows(likelihood, 9)
    for size in (30.0, 300.0, 1000.0):
        for sign in (-1.0, 1.0):
            eta = np.full((9, likelihood.width), sign * size)
            assert not np.isnan(
                likelihood.log_prob(y, eta, **auxiliaries(likelihood))
            ).any()


@every
def test_y_is_what_is_drawn_and_what_is_given(likelihood):
    y, eta = rows(likelihood)
    np.testing.assert_array_equal(
        likelihood.join(likelihood.drawn(y), **likelihood.given(y)), y
    )
    mean = likelihood.mean(eta, **auxiliaries(likelihood))
    assert likelihood.response(y).shape == mean.shape


@every
def test_no_linear_predictor_says_more_than_the_saturated_one(likelihood):
    y, eta = rows(likelihood)
    best = likelihood.saturated_predictor(y, **auxiliaries(likelihood))
    assert best.shape == eta.shape
    top = likelihood.log_prob(y, best, **auxiliaries(likelihood))
    for step in (0.0, 1e-3, -1e-3, 0.5):
        moved = best + step * np.random.default_rng(1).normal(size=eta.shape)
        assert (
            likelihood.log_prob(y, moved, **auxiliaries(likelihood)) <= top + 1e-12
        ).all()
    assert (likelihood.log_prob(y, eta, **auxiliaries(likelihood)) <= top).all()


@pytest.mark.parametrize("likelihood", [v for v in CASES if told(v)], ids=named)
def test_trials_that_are_not_told_are_not_taken_for_one(likelihood):
    eta, rng = np.zeros((3, likelihood.width)), np.random.default_rng(0)
    for ask in (
        likelihood.information,
        likelihood.information_slope,
        lambda e: likelihood.sample(rng, e),
    ):
        with pytest.raises(pr.DataError, match="pass trials=, one per row"):
            ask(eta)


@registered
def test_a_binary_response_is_declared_and_is_one_of_0_and_1_in_each_row(likelihood):
    two = isinstance(likelihood, UnivariateLikelihood) and list(likelihood.support) == [
        0.0,
        1.0,
    ]
    assert likelihood.binary == (two and not isinstance(likelihood, OfTrials))


@registered
def test_a_response_is_read_and_written_back(likelihood):
    X, y = rows_for(likelihood)
    model = pr.Model.from_arrays(X, y, **recipe_of(likelihood))
    bound, codes = model.likelihood, model.design.observed
    levels = () if isinstance(likelihood, OfTrials) else bound.levels
    back = np.array(levels)[codes.astype(int)] if levels else bound.drawn(codes)
    assert (back == y).all()
    again = bound.prepare(
        y, levels=None, event=recipe_of(likelihood).get("event"), reference=None
    )
    assert again == bound
    assert LIKELIHOODS.from_spec(LIKELIHOODS.to_spec(bound)) == bound
    assert hash(again) == hash(bound)  # a frozen value
    assert isinstance(bound.describe("y"), str)
    assert bound.contrast_matrix.shape == (max(1, len(bound.outcomes)), bound.width)
    if levels:
        with pytest.raises(
            pr.DataError, match=r"row 2 of the response holds .*not a level"
        ):
            bound.encode(np.array([levels[0], levels[1], "purple"], dtype=object))


@every
def test_the_guess_is_a_place_to_start(likelihood):
    y, eta = rows(likelihood)
    start, aux = likelihood.initial_eta(y)
    assert start.shape == eta.shape
    assert np.isfinite(start).all()
    assert set(aux) == set(likelihood.nuisance)
    assert all(v > 0 for v in aux.values())


@pytest.mark.parametrize(
    ("likelihood", "weighted"),
    covering(
        [
            (likelihood, weighted)
            for weighted in (False, True)
            for likelihood in LIKELIHOOD_CASES
            if not weighted or likelihood.name in ("poisson", "categorical")
        ],
        lambda likelihood, _: likelihood.name,
        lambda _, weighted: weighted,
        one_in=1,
    ),
)
def test_pymc_says_the_same_density(likelihood, weighted):
    """Point by point with all constants, under proper priors, with an offset and with weights."""
    from pymc.model.transform.conditioning import remove_value_transforms

    rng = np.random.default_rng(1)
    offset = None if getattr(likelihood, "symmetric", False) else rng.normal(size=12)
    aux = {a: pr.HalfNormal(1.7) for a in likelihood.nuisance}
    prior = (
        {"x1": pr.Normal(0.8), "Intercept": pr.Normal(2.3)}
        if not getattr(likelihood, "symmetric", False)
        else pr.Normal(0.8)
    )
    model = model_for(
        likelihood,
        prior,
        n=12,
        q=2,
        offset=offset,
        aux=aux,
        weights=rng.integers(1, 4, 12) if weighted else None,
    )
    theirs = remove_value_transforms(model.to_pymc())
    logp = theirs.compile_logp(jacobian=False, mode="FAST_COMPILE")
    # where P(y = n) is 1 to rounding, PyMC's beta-binomial is infinite
    size = 0.4 if isinstance(likelihood, pr.BetaBinomial) else 1.0
    for _ in range(3):
        beta, values = (
            size * rng.normal(size=model.shape),
            {a: rng.uniform(0.5, 2.0) for a in likelihood.nuisance},
        )
        point = dict(values)
        point |= {
            column: v if likelihood.outcomes else v[0]
            for column, v in zip(model.design.columns, beta)
        }
        np.testing.assert_allclose(
            logp(point), model.log_posterior(beta, **values), rtol=1e-12
        )


@of_kind(AdditiveNoise)
def test_draws_of_pymc_follow_the_distribution_function(likelihood):
    import pymc as pm

    n, aux = 4000, auxiliaries(likelihood)
    eta = np.linspace(-2.0, 2.0, n)[:, None]
    kind, parameters = likelihood.pymc(eta, **aux)
    y = pm.draw(kind.dist(**parameters), random_seed=1, mode="FAST_COMPILE")
    shares = np.sort(likelihood.cdf(y, eta, **aux))
    assert np.abs(shares - (np.arange(n) + 0.5) / n).max() < dkw(n)


@pytest.mark.parametrize("levels", [3, 5])
def test_the_symmetric_softmax_is_the_reference_form_in_other_coordinates(levels):
    X, y = rows_for(pr.Categorical(levels=tuple(range(levels))), 150)
    symmetric = pr.fit(
        pr.Model.from_arrays(X, y, likelihood=pr.Categorical(symmetric=True))
    )
    reference = pr.fit(
        pr.Model.from_arrays(X, y, likelihood=pr.Categorical(reference=levels - 1))
    )
    np.testing.assert_allclose(symmetric.coef.sum("outcome"), 0.0, atol=1e-12)
    # Newton stops at 1e-8 standard errors and takes one more step
    np.testing.assert_allclose(
        symmetric.predict()["mean"], reference.predict()["mean"], rtol=1e-9
    )
    assert symmetric.log_likelihood == pytest.approx(
        reference.log_likelihood, rel=1e-12
    )
    shift = symmetric.coef - symmetric.coef.sel(outcome=str(levels - 1))
    np.testing.assert_allclose(
        shift.sel(outcome=reference.coef["outcome"]),
        reference.coef,
        rtol=1e-7,
        atol=1e-9,
    )
    sums = symmetric.covariance().values.reshape(4, levels, 4, levels).sum(3)
    np.testing.assert_allclose(sums, 0.0, atol=1e-12)


def test_a_registry_names_what_it_lacks():
    assert isinstance(LIKELIHOODS, Registry)
    with pytest.raises(
        pr.ProbregError,
        match="no likelihood is called 'gausian'; did you mean 'gaussian'",
    ):
        LIKELIHOODS["gausian"]


@pytest.mark.parametrize(
    "likelihood", [k for k in CASES if isinstance(k, SmoothLikelihood)], ids=named
)
def test_the_slope_of_the_information_is_its_difference(likelihood):
    """Each family's own against the differences of fourth order that the base class takes."""
    _, eta = rows(likelihood, 6)
    known = auxiliaries(likelihood) | told(likelihood)
    found = likelihood.information_slope(eta, **known)
    expected = SmoothLikelihood.information_slope(likelihood, eta, **known)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)
