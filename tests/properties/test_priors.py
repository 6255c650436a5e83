"""Laws of priors: mass, location, units, curvature, draws, penalties and PyMC's density all say the same p(beta)."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from scipy import stats

import probreg as pr
from probreg.priors import (
    AUX_PRIORS,
    PRIORS,
    R2,
    BetaPrime,
    Covariance,
    Flat,
    GaussianPrior,
    GaussianProcess,
    GPrior,
    GroupLaplace,
    Horseshoe,
    MultivariateNormal,
    Normal,
    Prior,
    joint,
)
from probreg.priors.correlations import PartialCorrelation

from .cases import (
    AUX_CASES,
    DATA_DEPENDENT_PRIORS,
    HIERARCHICAL_PRIORS,
    PRECISION,
    PRIOR_CASES,
    PROPER_PRIORS,
    SCALAR_PRIORS,
    Array,
    Q,
    covering,
    dkw,
    gradient,
    half_line,
    line,
    model_for,
    named,
    slope,
)

UNIT = 1.8  # the sigma in whose units a scale may be stated: not 1
COLUMNS = ["Intercept", "a", "b", "c"]
FREE = np.array([True, False, False, False])

GROUPED = [p for p in PRIOR_CASES if isinstance(p, GroupLaplace)]
every = pytest.mark.parametrize("prior", PRIOR_CASES, ids=named)
proper = pytest.mark.parametrize("prior", PROPER_PRIORS, ids=named)
scalar = pytest.mark.parametrize(
    "prior", [p for p in SCALAR_PRIORS if not isinstance(p, Flat)], ids=named
)
quadratic = pytest.mark.parametrize(
    "prior", [p for p in PRIOR_CASES if isinstance(p, GaussianPrior)], ids=named
)
scales = pytest.mark.parametrize("prior", AUX_CASES, ids=named)
proper_scales = pytest.mark.parametrize(
    "prior", [p for p in AUX_CASES if p.proper], ids=named
)


def log_p(prior: Prior, w: Array, unit: float = 1.0) -> Array:
    """log p of the scalar w, elementwise."""
    return prior.log_prob(w[:, None, None], unit)


def locations(prior: Any, q: int = Q) -> Array:
    return np.broadcast_to(np.asarray(getattr(prior, "location", 0.0)), q)


def test_every_registered_prior_has_a_case():
    assert {
        type(p) for p in [*PRIOR_CASES, *DATA_DEPENDENT_PRIORS, *HIERARCHICAL_PRIORS]
    } >= set(PRIORS.values()) - {
        MultivariateNormal,
        GaussianProcess,  # of the columns of a term, see test_gaussian_process.py
        Covariance,  # as well, see test_covariance.py
    }
    assert {type(p) for p in AUX_CASES} == set(AUX_PRIORS.values())


@pytest.mark.parametrize("unit", [1.0, UNIT])
@scalar
def test_total_mass_is_one(prior, unit):
    # cut at the location, where a Laplace density has its kink
    y, w = half_line(prior.scale)
    for side in (-1, 1):
        assert w @ np.exp(
            log_p(prior, prior.location + side * y, unit)
        ) == pytest.approx(0.5, abs=1e-9)


@every
def test_a_unit_multiplies_every_scale(prior):
    beta = np.random.default_rng(0).normal(size=(Q, 2))
    centre = locations(prior)[:, None]
    wide = prior.log_prob(centre + UNIT * (beta - centre), UNIT)
    jacobian = 0.0 if isinstance(prior, Flat) else beta.size * np.log(UNIT)
    assert wide == pytest.approx(float(prior.log_prob(beta)) - jacobian, rel=1e-12)


@every
def test_a_location_moves_the_density_and_is_its_highest_point(prior):
    centre = locations(prior)[:, None]
    beta = np.random.default_rng(1).normal(size=(5, Q, 2))
    if hasattr(prior, "location"):
        at_zero = dataclasses.replace(prior, location=0.0)
        np.testing.assert_allclose(
            prior.log_prob(centre + beta), at_zero.log_prob(beta), rtol=1e-12
        )
    np.testing.assert_allclose(
        prior.log_prob(centre + beta), prior.log_prob(centre - beta), rtol=1e-12
    )
    assert (prior.log_prob(centre + beta) <= prior.log_prob(centre + 0 * beta)).all()


@proper
def test_units_reach_each_draw(prior):
    """A vector of sigma meets a vector of draws."""
    beta, unit = (
        np.random.default_rng(2).normal(size=(4, 6, Q, 2)),
        np.linspace(0.5, 2, 24).reshape(4, 6),
    )
    together = prior.log_prob(beta, unit)
    assert together.shape == (4, 6)
    for i in np.ndindex(4, 6):
        assert together[i] == pytest.approx(
            float(prior.log_prob(beta[i], unit[i])), rel=1e-12
        )


@scalar
def test_columns_and_predictors_are_independent_copies(prior):
    w = np.random.default_rng(3).normal(size=(Q, 2))
    each = log_p(prior, w.ravel(), UNIT).sum()
    assert float(prior.log_prob(w, UNIT)) == pytest.approx(each, rel=1e-12)


@pytest.mark.parametrize(
    "prior",
    [
        p
        for p in PROPER_PRIORS
        if isinstance(getattr(p, "scale", 0), tuple) and p not in GROUPED
    ],
    ids=named,
)
def test_per_column_settings_are_those_columns_settings(prior):
    w = np.random.default_rng(4).normal(size=(Q, 2))
    single = [
        dataclasses.replace(prior, scale=s, location=m)
        for s, m in zip(prior.scale, prior.location)
    ]
    total = sum(float(p.log_prob(w[j : j + 1], UNIT)) for j, p in enumerate(single))
    assert float(prior.log_prob(w, UNIT)) == pytest.approx(total, rel=1e-12)
    assert prior.size == Q


@quadratic
def test_precision_and_center_are_the_curvature_and_its_zero(prior):
    def log_prob(b: Array) -> float:
        return float(prior.log_prob(b[:, None]))

    start = np.random.default_rng(5).normal(size=Q)
    H = -gradient(lambda b: gradient(log_prob, b), start)
    # two differences of a quadratic: rounding only
    np.testing.assert_allclose(H, prior.precision(Q), atol=1e-7)
    np.testing.assert_allclose(
        gradient(log_prob, start),
        -prior.precision(Q) @ (start - prior.center(Q)),
        atol=1e-9,
    )


def test_a_precision_matrix_is_that_of_a_multivariate_normal():
    prior = Normal(precision_matrix=PRECISION, location=(0.3, -0.2, 0.1))
    b = np.random.default_rng(6).normal(size=(7, Q))
    theirs = stats.multivariate_normal(
        prior.location, UNIT**2 * np.linalg.inv(PRECISION)
    )
    np.testing.assert_allclose(
        prior.log_prob(b[..., None], UNIT), theirs.logpdf(b), rtol=1e-12
    )
    two = np.stack([b, b[::-1]], -1)  # two predictors are independent copies
    np.testing.assert_allclose(
        prior.log_prob(two, UNIT), theirs.logpdf(b) + theirs.logpdf(b[::-1]), rtol=1e-12
    )


@scalar
def test_draws_follow_the_density(prior):
    n = 8000
    rng = np.random.default_rng(7)
    draws = prior.sample(rng, (1, 2 * n), UNIT).reshape(n, 1, 2)
    y, w = line(prior.location, UNIT * prior.scale)
    total = np.cumsum(w * np.exp(log_p(prior, y, UNIT)))
    for j in range(2):
        x = np.sort(draws[:, 0, j])
        exact = np.interp(x, y, total)
        # half a step of the quadrature, 1e-3 of the mass at most, is added to the bound
        assert np.abs(exact - (np.arange(n) + 0.5) / n).max() < dkw(n) + 2e-3
    # heavy tails double the spread
    assert abs(np.corrcoef(draws[:, 0].T)[0, 1]) < 6 / np.sqrt(n) * 2


@proper
def test_draws_have_each_columns_own_scale_and_location(prior):
    rng, n = np.random.default_rng(8), 4000
    draws = prior.sample(rng, (Q, n), UNIT).T  # independent copies of Q coefficients
    iqr = np.subtract(*np.quantile(draws, [0.75, 0.25], axis=0))
    # 4000 draws fix a median to about 0.03 of a quartile range (five standard errors 0.07)
    np.testing.assert_allclose(
        (np.median(draws, 0) - locations(prior)) / iqr, 0.0, atol=0.07
    )
    if isinstance(prior, GaussianPrior):
        S = UNIT**2 * np.linalg.inv(prior.precision(Q))
        sd = np.sqrt(np.diagonal(S))
        error = (np.cov(draws.T) - S) / np.outer(sd, sd)
        assert np.abs(error).max() < 6 * np.sqrt(2 / n)
    elif isinstance(prior.scale, tuple):
        scaled = iqr / np.array(prior.scale)
        # five standard errors of a ratio
        np.testing.assert_allclose(scaled / scaled[0], 1.0, atol=0.12)


@proper
def test_the_unit_is_one_unless_said(prior):
    beta = np.random.default_rng(3).normal(size=(Q, 2))
    assert prior.log_prob(beta) == prior.log_prob(beta, 1.0)
    plain, said = (
        prior.sample(np.random.default_rng(3), (Q, 2), *unit) for unit in ((), (1.0,))
    )
    np.testing.assert_array_equal(plain, said)


def test_a_flat_prior_has_no_draws():
    with pytest.raises(pr.DataError, match="flat prior is improper and has no draws"):
        Flat().sample(np.random.default_rng(0), (2, 1))


@pytest.mark.parametrize("unit", [1.0, UNIT])
@every
def test_pymc_says_the_same_density(prior, unit):
    import pymc as pm

    beta = np.random.default_rng(9).normal(size=(Q, 2))
    cls, parameters = prior.pymc(unit)
    if isinstance(prior, Flat):
        assert cls is pm.Flat
        return
    theirs = pm.logp(cls.dist(**parameters), beta.T).sum().eval(mode="FAST_COMPILE")
    assert float(theirs) == pytest.approx(float(prior.log_prob(beta, unit)), rel=1e-12)


def is_diagonal(prior: Prior) -> bool:
    return getattr(prior, "precision_matrix", None) is None


# R(w) of -log p(w) = weight R(w) + constant, at a scale of 0.6
PENALTIES = {
    Normal(0.6): lambda w: w**2,
    pr.Laplace(0.6): abs,
    pr.priors.ElasticNet(0.6, ratio=0.3): lambda w: 0.3 * abs(w) + 0.35 * w**2 / 0.6,
    pr.priors.ExponentialPower(0.6, q=0.7): lambda w: abs(w) ** 0.7,
    pr.priors.StudentT(0.6, nu=3.0): lambda w: np.log1p((w / 0.6) ** 2 / 3.0),
    pr.priors.Cauchy(0.6): lambda w: np.log1p((w / 0.6) ** 2),
}


@pytest.mark.parametrize("prior", PENALTIES, ids=named)
def test_the_penalty_is_the_negative_log_density(prior):
    weight = prior.penalty_weight(Q)
    w, w0 = np.random.default_rng(10).normal(size=(2, Q))
    fall = float(prior.log_prob(w0[:, None]) - prior.log_prob(w[:, None]))
    R = PENALTIES[prior](w) - PENALTIES[prior](w0)
    assert fall == pytest.approx(float(weight @ R), rel=1e-12)
    assert weight.shape == (Q,)


def test_known_rows_of_the_table_of_penalties():
    sigma, tau = 1.7, 0.6
    lam = 2 * sigma**2
    assert lam * Normal(tau).penalty_weight(1) == pytest.approx([sigma**2 / tau**2])
    assert lam * pr.Laplace(tau).penalty_weight(1) == pytest.approx([lam / tau])
    in_units = [
        lam * p(tau, sigma_units=True).penalty_weight(1, sigma)
        for p in (Normal, pr.Laplace)
    ]
    assert in_units == [pytest.approx([tau**-2]), pytest.approx([2 * sigma / tau])]
    full = Normal(precision_matrix=((2.0, 0.9), (0.9, 1.0)))
    assert full.penalty_weight(2).tolist() == [0.5, 0.5]


@every
def test_a_prior_is_written_and_read_back(prior):
    again = PRIORS.from_spec(PRIORS.to_spec(prior))
    assert again == prior
    assert hash(again) == hash(prior)  # a frozen value


# ---- groups of columns -----------------------------------------------------------------------------------------------


def test_known_masses_of_a_group():
    """Z = 2 pi^(d/2) Gamma(d) s^d / Gamma(d/2): 2 s, 2 pi s^2 and 8 pi s^3."""
    for d, Z in ((1, 2 * 0.7), (2, 2 * np.pi * 0.7**2), (3, 8.62053024)):
        prior = GroupLaplace(0.7, groups=(tuple(range(d)),))
        assert np.exp(-float(prior.log_prob(np.zeros((d, 1))))) == pytest.approx(
            Z, rel=1e-9
        )


def test_total_mass_of_a_group_with_scales_by_column_is_one():
    prior = GroupLaplace((0.7, 1.3), groups=((0, 1),), location=(0.2, -0.1))
    # half lines from the kink, in polar coordinates: w = location + r (cos t, sin t)
    (r, weight), t = half_line(), np.linspace(0, 2 * np.pi, 80, endpoint=False)
    at = (
        np.array([[0.2], [-0.1]])
        + r[:, None, None, None] * np.stack([np.cos(t), np.sin(t)], -1)[:, :, None]
    )
    assert (weight * r) @ np.exp(prior.log_prob(at, UNIT)).mean(
        1
    ) * 2 * np.pi == pytest.approx(1.0, abs=1e-9)


def test_a_group_of_one_column_is_laplace():
    one, lasso = (
        GroupLaplace((0.7, 1.3), groups=((0,), (1,)), location=0.2),
        pr.Laplace((0.7, 1.3), location=0.2),
    )
    beta = np.random.default_rng(0).normal(size=(5, 2, 3))
    np.testing.assert_allclose(
        one.log_prob(beta, UNIT), lasso.log_prob(beta, UNIT), rtol=1e-13
    )
    np.testing.assert_allclose(
        one.subgradient(beta[0]), lasso.subgradient(beta[0]), rtol=1e-13
    )


@pytest.mark.parametrize("prior", GROUPED, ids=named)
def test_draws_of_a_group_have_gamma_lengths_and_no_direction(prior):
    n = 8000
    draws = prior.sample(np.random.default_rng(7), (n, Q, 2), UNIT)
    r = (draws - locations(prior)[:, None]) / (
        UNIT * np.broadcast_to(prior.scales, Q)[:, None]
    )
    for g in prior.members(Q):
        length = np.linalg.norm(r[:, g], axis=1)
        exact = stats.gamma(len(g)).cdf(np.sort(length[:, 1]))
        assert np.abs(exact - (np.arange(n) + 0.5) / n).max() < dkw(n)
        towards = (r[:, g] / length[:, None]).mean(0)
        assert np.abs(towards).max() < 5 / np.sqrt(n)
        assert abs(np.corrcoef(length.T)[0, 1]) < 5 / np.sqrt(n)


def test_groups_are_terms_columns_or_places():
    rng = np.random.default_rng(0)
    data = {
        "y": rng.normal(size=30),
        "g": np.resize(["a", "b", "c"], 30),
        "x": rng.normal(size=30),
        "z": rng.normal(size=30),
    }
    model = pr.Model.from_formula(
        "y ~ g + bs(x, df=4) + z + g:z", data, prior=GroupLaplace(0.5)
    )
    assert model.joint.blocks[-1].prior.groups == ((0, 1), (2, 3, 4, 5), (6,), (7, 8))
    quoted = {
        "y": data["y"],
        "the dose": data["g"],
        "x[1]": data["x"],
        "x[2]": data["z"],
    }
    terms = pr.Model.from_formula(
        "y ~ `the dose` + `x[1]` + `x[2]`", quoted, prior=GroupLaplace(0.5)
    )
    assert terms.joint.blocks[-1].prior.groups == ((0, 1), (2,), (3,))
    smooth = pr.Model.from_formula(
        "y ~ s(x, k=5) + gp(z, length=1) + g", data, prior=GroupLaplace(0.5)
    )
    blocks = [b for b in smooth.joint.blocks if isinstance(b.prior, GroupLaplace)]
    assert [[len(g) for g in b.prior.groups] for b in blocks] == [
        [2],
        [3],
        [len(blocks[2].columns)],
    ]
    assert smooth.design.describe_columns(blocks[2].columns) == "gp(z, length=1)"
    own = smooth.with_prior(GroupLaplace(0.5, groups=[["g"]]))
    assert [
        len(b.columns) for b in own.joint.blocks if isinstance(b.prior, GroupLaplace)
    ] == [2]
    stated = GroupLaplace(0.5, groups={"both": ["g", "z"]}, root_size=True)
    found = model.with_prior(stated).joint.blocks[-1].prior
    assert found.groups[0] == (0, 1, 6)
    assert found.scales[[0, 1, 6, 2]] == pytest.approx([0.5 / np.sqrt(3)] * 3 + [0.5])
    assert model.with_prior({"g": GroupLaplace(0.5)}).joint.blocks[-1].prior.groups == (
        (0, 1),
    )
    plain = pr.Model.from_arrays(
        rng.normal(size=(30, 2)),
        data["y"],
        columns=["a[1]", "a[2]"],
        prior=GroupLaplace(),
    )
    assert plain.joint.blocks[-1].prior.groups == ((0,), (1,))
    apart = pr.Model.from_formula(
        "y ~ x + z", data, prior=GroupLaplace(1.0, groups=[["x", "z"]], scaled=True)
    )
    sd = [np.std(data[k], ddof=1) for k in "xz"]
    np.testing.assert_allclose(
        apart.joint.blocks[-1].prior.scales, np.std(data["y"], ddof=1) / sd, rtol=1e-12
    )


def test_groups_that_cannot_be():
    X = np.random.default_rng(0).normal(size=(9, 3))
    for groups, said in (
        ([["a", "b"], ["b", "c"]], "'b' is in two groups"),
        ([["a", "d"]], "'d', which is no column under this prior: a, b, c"),
        ([[0, 5]], "has column 5, and there are 3"),
        ([["a", 1]], "a sequence of groups"),
        ("ab", "a sequence of groups"),
        ([[]], "a sequence of groups"),
        ([[0.5]], "a sequence of groups"),
    ):
        with pytest.raises(pr.DataError, match=said):
            pr.Model.from_arrays(
                X,
                X[:, 0],
                columns=["a", "b", "c"],
                prior=GroupLaplace(1.0, groups=groups),
            )
    data = {"y": X[:, 0], "g": np.resize(["a", "b", "c"], 9)}
    with pytest.raises(
        pr.DataError, match=r"'g\[T.b\]' is in two groups, by 'g' and by 'g\[T.b\]'"
    ):
        pr.Model.from_formula(
            "y ~ g", data, prior=GroupLaplace(1.0, groups=[["g"], ["g[T.b]"]])
        )


# ---- priors of columns together ------------------------------------------------------------------------------------


def mixed() -> Any:
    spec = {
        "a": Normal(0.7, location=0.2, sigma_units=True),
        ("c", "Intercept"): Normal((1.3, 2.1), location=(-0.4, 0.5)),
    }
    return joint(spec, COLUMNS, FREE)


@pytest.mark.parametrize(
    "prior",
    [
        mixed(),
        *(joint(p, COLUMNS, FREE) for p in PRIOR_CASES if isinstance(p, GaussianPrior)),
    ],
    ids=lambda j: "+".join(named(b.prior) for b in j.blocks),
)
def test_expansion_of_a_joint_prior_is_its_slope_and_curvature_over_beta_and_log_sigma(
    prior,
):
    m, p = 2, len(COLUMNS)
    x = np.r_[np.random.default_rng(12).normal(size=p * m), np.log(UNIT)]

    def at(v: Array) -> Any:
        return prior.value_grad_hessian(v[:-1].reshape(p, m), float(np.exp(v[-1])))

    value, g, H = at(x)
    assert value == pytest.approx(
        float(prior.log_prob(x[:-1].reshape(p, m), UNIT)), rel=1e-13
    )
    np.testing.assert_allclose(g, gradient(lambda v: at(v)[0], x), rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(
        H, -gradient(lambda v: at(v)[1], x), rtol=1e-7, atol=1e-7
    )
    P = prior.precision(UNIT)
    np.testing.assert_allclose(H[:-1, :-1], np.kron(P, np.eye(m)), rtol=1e-13)


def test_a_mapping_gives_each_column_its_prior():
    prior, b = mixed(), np.random.default_rng(13).normal(size=(5, 4, 1))
    c = [3, 0]
    expected = stats.norm(0.2, 0.7 * UNIT).logpdf(b[:, 1, 0]) + stats.norm(
        [-0.4, 0.5], [1.3, 2.1]
    ).logpdf(b[:, c, 0]).sum(1)
    np.testing.assert_allclose(prior.log_prob(b, UNIT), expected, rtol=1e-12)
    assert prior.informative.tolist() == [True, True, False, True]
    assert prior.sigma_units.tolist() == [False, True, False, False]
    np.testing.assert_allclose(prior.center, [0.5, 0.2, 0.0, -0.4])
    np.testing.assert_allclose(
        np.diagonal(prior.precision(UNIT)), [2.1**-2, (0.7 * UNIT) ** -2, 0, 1.3**-2]
    )
    assert prior.gaussian
    assert not joint(pr.Laplace(1.2), COLUMNS, FREE).gaussian


def test_one_prior_leaves_the_intercept_free_and_a_term_stands_for_its_columns():
    whole = joint(Normal(0.5), COLUMNS, FREE)
    assert whole.informative.tolist() == [False, True, True, True]
    columns = ["Intercept", "g[T.b]", "g[T.c]", "gg"]
    assert joint({"g": Normal(0.5)}, columns, FREE).informative.tolist() == [
        False,
        True,
        True,
        False,
    ]


def test_draws_of_a_joint_prior_go_to_their_columns():
    rng = np.random.default_rng(14)
    spec = {
        "c": Normal(0.01, location=5.0),
        ("a", "b", "Intercept"): Normal((0.01, 0.01, 0.02), location=(1.0, 2.0, 3.0)),
    }
    draws, _ = joint(spec, COLUMNS, FREE).sample_with_hyper(rng, (4, 2), 9.0)
    # seven standard deviations
    np.testing.assert_allclose(draws, np.array([[3.0, 1.0, 2.0, 5.0]] * 2).T, atol=0.15)
    inside = {
        "a": Normal(0.01, sigma_units=True),
        ("b", "c", "Intercept"): Normal(0.01),
    }
    spread = np.array(
        [
            joint(inside, COLUMNS, FREE).sample_with_hyper(rng, (4, 1), 50.0)[0][:, 0]
            for _ in range(400)
        ]
    ).std(0)
    # five standard errors of 400 draws
    np.testing.assert_allclose(spread, [0.01, 0.5, 0.01, 0.01], rtol=0.2)


# ---- coefficients that share hyperparameters ------------------------------------------------------------------------

hierarchical = pytest.mark.parametrize("prior", HIERARCHICAL_PRIORS, ids=named)


def one_column(prior: Any) -> Any:
    """The same for a single column, the first."""
    if isinstance(prior, Horseshoe):
        return dataclasses.replace(prior, scale=float(np.ravel(prior.scale)[0]))
    base = prior.base
    if getattr(base, "precision_matrix", None) is not None:
        return dataclasses.replace(
            prior, base=dataclasses.replace(base, precision_matrix=((2.0,),))
        )
    if isinstance(base, GroupLaplace):
        base = dataclasses.replace(base, groups=((0,),))
    return dataclasses.replace(
        prior, base=dataclasses.replace(base, scale=float(np.ravel(base.scale)[0]))
    )


def centre_of(prior: Any) -> float:
    return float(getattr(prior.base, "location", 0.0))


each_kind = pytest.mark.parametrize(
    "prior",
    covering(HIERARCHICAL_PRIORS, lambda prior: named(prior).split("(")[0], one_in=2),
)


@each_kind
def test_the_density_without_its_hyperparameters_has_mass_one(prior):
    one = one_column(prior)
    y, w = half_line()
    for side in (-1, 1):
        # exp(-pi^2 / 0.4) is the error of the inner rules
        assert w @ np.exp(log_p(one, centre_of(one) + side * y, UNIT)) == pytest.approx(
            0.5, abs=1e-9
        )


@pytest.mark.parametrize(
    "prior",
    covering(HIERARCHICAL_PRIORS[::-1], lambda prior: isinstance(prior, Horseshoe)),
)
def test_the_density_of_a_block_is_the_integral_over_its_hyperparameters(prior):
    """By Monte Carlo over draws of the hyperparameters, each a plain prior through `given`."""
    beta, n = np.array([[0.4], [-0.9], [0.25]]), 3000
    values = {
        k: h.prior.sample(np.random.default_rng(i), n * (Q if h.each else 1))
        for i, (k, h) in enumerate(prior.hyper.items())
    }
    values = {
        k: v.reshape(n, Q) if prior.hyper[k].each else v for k, v in values.items()
    }
    each = [
        prior.given(**{k: v[i] for k, v in values.items()}).log_prob(beta, UNIT)
        for i in range(n)
    ]
    p = np.exp(each)
    assert abs(
        p.mean() - np.exp(float(prior.log_prob(beta, UNIT)))
    ) < 5 * p.std() / np.sqrt(n)


@hierarchical
def test_a_unit_reaches_each_draw_of_a_block_and_multiplies_every_scale(prior):
    beta, unit = (
        np.random.default_rng(2).normal(size=(4, 6, Q, 2)),
        np.linspace(0.5, 2, 24).reshape(4, 6),
    )
    together = prior.log_prob(beta, unit)
    assert together.shape == (4, 6)
    for i in ((0, 0), (2, 3), (3, 5)):
        # nodes follow the smallest coefficient: 1e-9 is ten times the error of the rule
        assert together[i] == pytest.approx(
            float(prior.log_prob(beta[i], unit[i])), abs=1e-9
        )
    centre = centre_of(prior)
    wide = prior.log_prob(centre + UNIT * (beta[0] - centre), UNIT)
    np.testing.assert_allclose(
        wide, prior.log_prob(beta[0]) - 2 * Q * np.log(UNIT), atol=1e-9
    )
    np.testing.assert_allclose(
        prior.times(1.3).log_prob(beta[0]), prior.log_prob(beta[0], 1.3), atol=1e-9
    )


@each_kind
def test_draws_of_a_block_follow_its_density(prior):
    one, n = one_column(prior), 4000
    rng = np.random.default_rng(7)
    x = np.sort([one.sample(rng, (1, 1), UNIT)[0, 0] for _ in range(n)])
    y, w = half_line(UNIT)
    side = np.cumsum(w * np.exp(log_p(one, centre_of(one) + y, UNIT)))
    above = np.interp(np.abs(x - centre_of(one)), y, side)
    exact = 0.5 + np.sign(x - centre_of(one)) * above
    # half a step of the quadrature
    assert np.abs(exact - (np.arange(n) + 0.5) / n).max() < dkw(n) + 2e-3
    scale = np.array([prior.sample(rng, (Q, 2)) for _ in range(200)])
    assert np.isfinite(scale).all()


@hierarchical
def test_pymc_says_the_same_density_given_the_hyperparameters(prior):
    import pymc as pm

    rng = np.random.default_rng(9)
    values = {
        k: rng.uniform(0.5, 2.0, Q) if h.each else float(rng.uniform(0.5, 2.0))
        for k, h in prior.hyper.items()
    }
    beta = rng.normal(size=(Q, 1))
    cls, parameters = prior.base.pymc(UNIT * prior.spread(**values))
    theirs = pm.logp(cls.dist(**parameters), beta.T).sum().eval(mode="FAST_COMPILE")
    assert float(theirs) == pytest.approx(
        float(prior.given(**values).log_prob(beta, UNIT)), rel=1e-12
    )
    with pytest.raises(pr.DataError, match="has hyperparameters"):
        prior.pymc()


def test_the_zellner_siow_prior_is_a_multivariate_cauchy():
    """g/n ~ InverseGamma(1/2, r^2/2) makes beta a Cauchy with scale matrix r^2 n sigma^2 (X'X)^-1."""
    X = np.random.default_rng(1).normal(size=(40, Q)) @ np.array(
        [[1.0, 0.5, 0.0], [0.0, 2.0, 0.3], [0.0, 0.0, 0.7]]
    )
    prior = (
        pr.Model.from_arrays(
            X, X[:, 0], prior=GPrior(pr.priors.InverseGamma(0.5, 1 / 16))
        )
        .joint.blocks[-1]
        .prior
    )
    Xc = X - X.mean(0)
    S = UNIT**2 * 40 / 8 * np.linalg.inv(Xc.T @ Xc)
    beta = np.random.default_rng(2).normal(size=(6, Q))
    np.testing.assert_allclose(
        prior.log_prob(beta[..., None], UNIT),
        stats.multivariate_t(np.zeros(Q), S, df=1).logpdf(beta),
        rtol=1e-11,
    )


@pytest.mark.parametrize(
    ("likelihood", "information"),
    [(pr.Gaussian(), 1.0), (pr.Bernoulli(), 0.25), (pr.Poisson(), 1.0)],
)
def test_a_g_prior_is_the_information_of_so_many_rows(likelihood, information):
    model = model_for(likelihood, GPrior(g=5.0), weights=np.arange(60) % 3 + 1)
    X, w = model.design.X[:, 1:], model.design.weights
    Xc = X - w @ X / w.sum()
    np.testing.assert_allclose(
        model.joint.precision(1.0)[1:, 1:],
        (Xc.T * w) @ Xc * information / 5.0,
        rtol=1e-10,
    )
    assert (
        model.joint.sigma_units.tolist()[1:]
        == [information == 1.0 and "sigma" in likelihood.nuisance] * Q
    )
    unit = model_for(
        likelihood, GPrior(), weights=np.arange(60) % 3 + 1
    ).joint.precision(1.0)
    np.testing.assert_allclose(
        unit[1:, 1:], (Xc.T * w) @ Xc * information / w.sum(), rtol=1e-10
    )


@pytest.mark.slow
def test_r2_is_the_share_of_the_variance_that_the_columns_explain():
    model = model_for(pr.Gaussian(), R2(2.0, 3.0), n=50)
    prior, X = model.joint.blocks[-1].prior, model.design.X[:, 1:]
    Xc, rng = X - X.mean(0), np.random.default_rng(3)
    # given tau the signal's variance has mean q tau^2 sigma^2, so that its ratio to sigma^2 is R / (1 - R), here 1 in mean
    ratio = [
        np.square(Xc @ prior.sample(rng, (Q, 1))[:, 0]).mean() for _ in range(5_000)
    ]
    # heavy tailed: five standard errors
    assert np.mean(ratio) == pytest.approx(2.0 / (3.0 - 1.0), rel=0.3)
    tau = prior.tau.sample(rng, 50_000)
    share = Q * tau**2 / (1 + Q * tau**2)
    assert share.mean() == pytest.approx(2 / 5, abs=5 * share.std() / np.sqrt(50_000))


@pytest.mark.parametrize("prior", [GPrior(), R2()], ids=named)
def test_a_g_prior_names_the_columns_that_are_combinations(prior):
    X = np.random.default_rng(0).normal(size=(30, 2))
    X = np.c_[X, 2 * X[:, 1] - X[:, 0]]
    with pytest.raises(pr.DataError, match="column 'c' is a combination of 'a', 'b'"):
        pr.Model.from_arrays(X, X[:, 0], columns=["a", "b", "c"], prior=prior)
    X[:, 1] = 4.0
    with pytest.raises(pr.DataError, match="column 'b' does not vary"):
        pr.Model.from_arrays(
            X[:, :2], X[:, 0], columns=["a", "b"], intercept=True, prior=prior
        )
    with pytest.raises(pr.DataError, match="depends on the rows"):
        prior.log_prob(np.ones((2, 1)))


# ---- priors of a scale ---------------------------------------------------------------------------------------------


@proper_scales
def test_mass_of_a_prior_of_a_scale_is_one(prior):
    if isinstance(prior, pr.priors.Uniform):
        v, w = (
            np.linspace(prior.low, prior.high, 3)[1:2],
            np.array([prior.high - prior.low]),
        )
    else:
        v, w = half_line()
    assert w @ np.exp(prior.log_prob(v)) == pytest.approx(1.0, abs=1e-9)


@scales
def test_slopes_are_those_of_the_density_of_log_v(prior):
    for v in (0.6, 1.4, 3.0):
        first, second = prior.slopes(v)

        def log_p(t: float, v: float = v) -> float:
            return float(prior.log_prob(np.asarray(v * np.exp(t)))) + np.log(v) + t

        assert first == pytest.approx(float(slope(log_p)), rel=1e-7, abs=1e-9)
        numeric = slope(lambda t, v=v: prior.slopes(v * float(np.exp(t)))[0])
        assert second == pytest.approx(float(numeric), rel=1e-7, abs=1e-9)


@pytest.mark.parametrize(
    "prior", [PartialCorrelation(2.5), BetaPrime(0.5, 1.5), pr.priors.HalfCauchy(2.0)]
)
def test_far_slopes_are_the_powers_of_the_density(prior):
    """p(v) v is a power of v at both ends, so that its second derivative over log v is 0."""
    for v in (1e-200, 1e-100, 1e100):
        first, second = prior.slopes(v)
        change = np.diff(prior.log_prob(v * np.array([0.1, 10.0]))) / np.log(100.0)
        assert first == pytest.approx(change.item() + 1.0, rel=1e-9)
        assert second == pytest.approx(0.0, abs=1e-9)


@proper_scales
def test_draws_of_a_scale_follow_the_density(prior):
    n = 20_000
    x = np.sort(prior.sample(np.random.default_rng(15), n))
    if isinstance(prior, pr.priors.Uniform):
        exact = (x - prior.low) / (prior.high - prior.low)
    else:
        v, w = half_line()
        exact = np.interp(x, v, np.cumsum(w * np.exp(prior.log_prob(v))))
    # the quadrature's step holds at most 2e-3 of the mass
    assert np.abs(exact - (np.arange(n) + 0.5) / n).max() < dkw(n) + 2e-3


@scales
def test_powers_are_those_of_the_density_far_out(prior):
    """The slope of log p(v) + log v over log v, by differences: constant where it is a power, else beyond any bound."""
    for power, sign in zip(prior.powers, (1.0, -1.0)):
        u = -sign * np.array([100.0, 101.0, 200.0, 201.0])
        with np.errstate(all="ignore"):
            value = prior.log_prob(np.exp(u)) + u
        if power == np.inf:
            assert not value[2] > value[0] - 50.0 or np.isinf(value[:2]).any()
        else:
            np.testing.assert_allclose(value[[0, 2]] - value[[1, 3]], power, atol=1e-9)


@pytest.mark.parametrize("prior", [p for p in AUX_CASES if not p.proper], ids=named)
def test_an_improper_prior_of_a_scale_has_no_draws(prior):
    with pytest.raises(pr.DataError, match="improper and has no draws"):
        prior.sample(np.random.default_rng(0), 3)


def in_pymc(prior: Any, plain: Any, v: float) -> tuple[dict[str, float], float]:
    """The variable of PyMC's model at this v, and the log of its derivative by v."""
    if "sigma_squared" in plain.named_vars:
        return {"sigma_squared": v**2}, np.log(2 * v)
    # of a variance: w / (1 + w), w = (v / scale)^2
    if "sigma_share" in plain.named_vars:
        w = (v / prior.scale) ** 2
        return {"sigma_share": w / (1 + w)}, np.log(2 * w / v / (1 + w) ** 2)
    return {"sigma": v}, 0.0


@scales
def test_pymc_says_the_same_density_of_a_scale(prior):
    import pymc as pm
    from pymc.model.transform.conditioning import remove_value_transforms

    with pm.Model() as model:
        prior.pymc("sigma")
    plain = remove_value_transforms(model)
    logp = plain.compile_logp(jacobian=False, mode="FAST_COMPILE")
    assert "sigma" in plain.named_vars
    for v in (0.5, 1.2, 3.3):
        point, jacobian = in_pymc(prior, plain, v)
        # PyMC takes the logarithm of some whole numbers in single precision: constants differ by 2e-9
        assert float(logp(point)) + jacobian == pytest.approx(
            float(prior.log_prob(np.asarray(v))), rel=1e-8, abs=1e-8
        )


@scales
def test_a_prior_of_a_scale_is_written_and_read_back(prior):
    again = AUX_PRIORS.from_spec(AUX_PRIORS.to_spec(prior))
    assert again == prior
    assert hash(again) == hash(prior)


def test_the_half_t_is_a_half_normal_and_a_half_cauchy_at_its_ends():
    v = np.linspace(0.1, 6, 20)
    np.testing.assert_allclose(
        pr.priors.HalfStudentT(1.3, nu=1e8).log_prob(v),
        pr.HalfNormal(1.3).log_prob(v),
        atol=1e-6,
    )
    np.testing.assert_allclose(
        pr.priors.HalfCauchy(1.3).log_prob(v),
        stats.halfcauchy(scale=1.3).logpdf(v),
        rtol=1e-12,
    )
    np.testing.assert_allclose(
        pr.HalfNormal(1.3).log_prob(v), stats.halfnorm(scale=1.3).logpdf(v), rtol=1e-12
    )
    inverse = stats.invgamma(2.5, scale=0.6).logpdf(v**2) + np.log(2 * v)
    np.testing.assert_allclose(
        pr.priors.InverseGamma(2.5, 0.6).log_prob(v), inverse, rtol=1e-12
    )
