"""Laws of the graphs that are sampled: whatever the coordinates, the density is that of the model, Jacobian included."""

import numpy as np
import pytest

import probreg as pr
from probreg.inference.sampling.density import SampledDensity
from probreg.inference.sampling.nuts import hyper_draws
from probreg.inference.sampling.reparameterisation import reparameterise, typical_scales
from probreg.model.term_priors import hyper_names
from probreg.priors import (
    R2,
    ExponentialPower,
    GPrior,
    HierarchicalPrior,
    Horseshoe,
    Normal,
    ScaleMixture,
)
from tests.pymc_density import density_of

from .cases import (
    PRECISION,
    Array,
    covering,
    dkw,
    gradient,
    half_line,
    model_for,
    named,
)

UNKNOWN = [
    Normal(pr.HalfNormal(0.8)),
    Normal(
        pr.priors.InverseGamma(2.0, 0.7), location=0.3, sigma_units=True, scaled=True
    ),
    ScaleMixture(
        Normal(precision_matrix=PRECISION, location=(0.3, -0.2, 0.1)),
        pr.priors.HalfCauchy(0.5),
    ),
    GPrior(pr.priors.InverseGamma(0.5, 1 / 16)),
    R2(1.5, 2.5),
    pr.Laplace(pr.priors.HalfStudentT(0.6, nu=3.3), location=-0.2),
    Horseshoe((0.7, 1.6, 1.1), tau=0.4, slab=3.0),
    {
        "x1": Normal(pr.HalfNormal(0.8)),
        ("x3", "x2"): Horseshoe(tau=0.4),
        "Intercept": Normal(2.0),
    },
    {
        ("x1", "x2"): Normal(pr.priors.Exponential(0.7), location=0.2),
        "x3": pr.priors.StudentT(pr.priors.LogNormal(0.7, location=-0.4), nu=4.4),
    },
]
LIKELIHOODS = [
    pr.Gaussian(),
    pr.Bernoulli(),
    pr.Poisson(),
    pr.Categorical(levels=("a", "b", "c"), reference="b"),
    pr.StudentT(),
]


def log_joint(model: pr.Model, values: dict[str, Array]) -> float:
    """log p(y | beta, aux) + log p(beta | hyperparameters) + log p(hyperparameters) + log p(aux), each by its own class."""
    beta, aux = (
        np.asarray(values["beta"]).reshape(model.shape),
        {a: float(values[a]) for a in model.unknown},
    )
    total = float(model.log_lik(beta, **aux)) + sum(
        float(model.aux_prior(a).log_prob(v)) for a, v in aux.items()
    )
    names = hyper_names(model.joint, model.design)
    for i, b in enumerate(model.joint.blocks):
        unit, part = (
            (model.likelihood.noise(aux) if b.prior.sigma_units else 1.0),
            b.take(beta),
        )
        if not isinstance(b.prior, HierarchicalPrior):
            total += float(b.prior.log_prob(part, unit))
            continue
        hyper = {k: np.asarray(values[name]) for k, name in names[i].items()}
        total += sum(
            float(h.prior.log_prob(hyper[k]).sum()) for k, h in b.prior.hyper.items()
        )
        for m in range(part.shape[1]):
            own = {k: v[m] if v.ndim == 2 else v for k, v in hyper.items()}
            total += float(b.prior.given(**own).log_prob(part[:, [m]], unit))
    return total


def check(model: pr.Model) -> SampledDensity:
    """The density at x is the joint density times |d (beta, scales) / d x|, but for a constant, and has its gradient."""
    density = SampledDensity.of(model)
    scales = [
        n
        for names in hyper_names(model.joint, model.design).values()
        for n in names.values()
    ]
    rng, apart = np.random.default_rng(0), []

    def vector(x: Array) -> Array:
        found = density.unfold(x)
        return np.concatenate(
            [np.ravel(found[k]) for k in ("beta", *model.unknown, *scales)]
        )

    for _ in range(3):
        x = rng.normal(0.0, 0.4, density.size)
        jacobian = np.linalg.slogdet(gradient(vector, x))[1]
        value, slopes = density.log_prob(x)
        apart.append(value - log_joint(model, density.unfold(x)) - jacobian)
        # a step that crosses no kink
        rise = gradient(lambda v: np.array([density.log_prob(v)[0]]), x, 1e-5).ravel()
        np.testing.assert_allclose(slopes, rise, rtol=1e-5, atol=1e-5)
    # differences of the map cost 1e-8
    np.testing.assert_allclose(apart, apart[0], atol=1e-7)
    return density


SAMPLED = [
    (v, p)
    for v in LIKELIHOODS
    for p in UNKNOWN
    if v.nuisance or not getattr(p, "sigma_units", False)
]


@pytest.mark.parametrize(
    ("likelihood", "prior"), covering(SAMPLED, lambda v, _: v, lambda _, p: named(p))
)
def test_the_density_in_sampling_coordinates_is_the_models(likelihood, prior):
    check(model_for(likelihood, prior, n=20))


@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("prior", covering(UNKNOWN[:6]))
def test_centred_and_non_centred_coordinates_have_one_density(
    prior, centred, monkeypatch
):
    """Whichever the data would choose."""
    from probreg.inference.sampling import reparameterisation as room

    model = model_for(pr.Gaussian(), prior, n=20)
    chosen = {i: s._replace(centred=centred) for i, s in typical_scales(model).items()}
    monkeypatch.setattr(room, "typical_scales", lambda _: chosen)
    assert len(check(model).at.noncentred) == (0 if centred else 1)


@pytest.mark.parametrize(
    "prior",
    [Horseshoe((0.7, 1.6, 1.1), tau=0.4, slab=3.0), Horseshoe(tau=0.3)],
    ids=named,
)
def test_local_scales_are_sampled_in_units_of_the_prior_at_scales_of_one(prior):
    model = model_for(pr.Gaussian(), prior, n=20)
    at, block = reparameterise(model), model.joint.blocks[-1]
    (noncentred,) = at.noncentred
    ones = block.prior.given(**dict.fromkeys(block.prior.hyper, 1.0))
    np.testing.assert_allclose(
        np.linalg.norm(at.A[noncentred.entries], axis=1), ones.scales, rtol=1e-12
    )
    np.testing.assert_array_equal(at.centre[noncentred.entries], 0.0)


def test_an_intercept_follows_the_slopes_by_the_means_of_their_columns():
    """E[b0 | b] = mean(y) - mean(x)'b under a flat prior of b0: the regression of the rest on what is sampled non-centred."""
    X = np.random.default_rng(0).normal(size=(20, 3)) * [1.0, 5.0, 0.2] + [
        3.0,
        -40.0,
        0.1,
    ]
    y = np.random.default_rng(1).normal(size=20)
    priors = {"Intercept": pr.Flat(), ("x1", "x2", "x3"): Horseshoe(tau=0.4)}
    at = reparameterise(pr.Model.from_arrays(X, y, prior=priors))
    np.testing.assert_allclose(at.regression[:1], -X.mean(0)[None], rtol=1e-8)


def test_a_block_is_centred_where_the_data_settle_more_than_half_of_it():
    X, e = (
        np.random.default_rng(seed).normal(size=size)
        for seed, size in ((0, (40, 3)), (1, 40))
    )
    met = []
    for noise in np.geomspace(2.0, 8.0, 25):
        model = pr.Model.from_arrays(
            X, X @ [1.0, -0.5, 0.7] + noise * e, prior=Normal(pr.HalfNormal(1.0))
        )
        (typical,) = typical_scales(model).values()
        met.append(100.0 * typical.share)
        assert typical.centred == (met[-1] > 50.0)
    assert any(40.0 < share < 50.0 for share in met)
    assert any(50.0 < share < 60.0 for share in met)


def test_what_the_data_settle_is_centred_and_said():
    def words(noise: float) -> str:
        X = np.random.default_rng(0).normal(size=(40, 3))
        y = X @ [1.0, -0.5, 0.7] + noise * np.random.default_rng(1).normal(size=40)
        model = pr.Model.from_arrays(X, y, prior=pr.Laplace(pr.HalfNormal(1.0)))
        return " ".join(reparameterise(model).notes)

    assert "sampled centred" in words(0.3)
    assert "sampled non-centred" in words(20.0)


@pytest.mark.parametrize(
    "likelihood", covering(LIKELIHOODS, lambda likelihood: likelihood.width > 1)
)
def test_the_plain_pymc_model_has_named_scales_and_the_models_density(likelihood):
    prior = {
        "x1": Normal(pr.HalfNormal(0.8)),
        ("x3", "x2"): Horseshoe(tau=0.4),
        "Intercept": Normal(2.0),
    }
    model = model_for(likelihood, prior, n=20)
    made = model.to_pymc(noncentered=False)
    offsets = {v.name for v in model.to_pymc().free_RVs if "_offset" in v.name}
    # hyperparameters of each linear predictor
    each = [f"[{outcome}]" for outcome in likelihood.outcomes] or [""]
    scales = {
        f"{name}{of}"
        for of in each
        for name in ("tau[x1]", "tau[x3..x2]", "lambda[x3..x2]")
    }
    assert {*scales, "beta", "y"} <= set(made.named_vars)
    assert {
        made.named_vars_to_dims[f"lambda[x3..x2]{of}"][-1].partition("_")[0]
        for of in each
    } == {"coef"}
    assert offsets == {f"{x}{of}_offset" for of in each for x in ("x1", "x2", "x3")}
    assert {"Intercept", *(f"{x}{of}" for of in each for x in ("x1", "x2", "x3"))} <= {
        v.name for v in made.free_RVs
    }
    density = density_of(made)
    x = np.random.default_rng(0).normal(0.0, 0.3, density.size)
    values = density.expand(x)
    named = [
        [column] if column in values else [f"{column}{of}" for of in each]
        for column in model.design.columns
    ]
    beta = np.array(
        [
            np.concatenate([np.atleast_1d(values[name]) for name in names])
            for names in named
        ]
    )
    named_scales = [
        v
        for k, v in values.items()
        if k in model.unknown or k.startswith(("tau", "lambda"))
    ]
    jacobian = sum(np.log(v).sum() for v in named_scales)
    assert float(density.log_prob(x)) == pytest.approx(
        log_joint(model, {**values, "beta": beta}) + jacobian, abs=2e-6
    )
    one = model_for(likelihood, Normal(pr.HalfNormal(0.8)), n=20).to_pymc()
    assert {f"tau{of}" for of in each} <= set(one.named_vars)


def test_the_non_centred_pymc_model_has_the_models_density():
    prior = {
        "x1": Normal(pr.HalfNormal(0.8), location=0.3),
        ("x3", "x2"): pr.Laplace(pr.HalfNormal(0.6), location=-0.2, sigma_units=True),
        "Intercept": Normal(2.0),
    }
    model = model_for(pr.Gaussian(), prior, n=20, aux={"sigma": pr.HalfNormal(1.5)})
    made = model.to_pymc()
    assert sum(v.name.endswith("_offset") for v in made.free_RVs) == 3
    density = density_of(made)
    names = hyper_names(model.joint, model.design).values()
    scales = [name for of_block in names for name in of_block.values()]

    def vector(x: Array) -> Array:
        values = density.expand(x)
        return np.concatenate(
            [np.ravel(values[k]) for k in ("beta", *model.unknown, *scales)]
        )

    x = np.random.default_rng(0).normal(0.0, 0.3, density.size)
    # the Jacobian by differences costs 1e-8
    assert float(density.log_prob(x)) == pytest.approx(
        log_joint(model, density.expand(x)) + np.linalg.slogdet(gradient(vector, x))[1],
        abs=1e-6,
    )


@pytest.mark.parametrize("q", covering([0.5, 0.3, 0.9]))
def test_a_mixture_of_uniforms_is_the_exponential_power(q):
    import pymc as pm

    prior, n = ExponentialPower(0.7, q=q, location=0.4), 5_000
    with pm.Model(coords={"coef": ["a"]}):
        value = 0.4 + 0.7 * 1.8 * prior.uniforms("b", ("coef",))
        draws = np.sort(pm.draw(value, draws=n, random_seed=1)[:, 0]) - 0.4
    y, w = half_line(0.7 * 1.8)
    side = np.cumsum(w * np.exp(prior.log_prob(0.4 + y[:, None, None], 1.8)))
    exact = 0.5 + np.sign(draws) * np.interp(np.abs(draws), y, side)
    # half a step of the quadrature
    assert np.abs(exact - (np.arange(n) + 0.5) / n).max() < dkw(n) + 2e-3


def test_a_prior_with_a_cusp_is_written_as_a_mixture_of_uniforms():
    X = np.random.default_rng(0).normal(size=(60, 3))
    model = pr.Model.from_arrays(X, X[:, 0], prior=ExponentialPower(0.1, q=0.5))
    names = {v.name for v in model.to_pymc().free_RVs}
    assert {"x1_u", "x1_v"} <= names
    assert "x1_u" not in {v.name for v in model.to_pymc(noncentered=False).free_RVs}


def test_an_improper_hyperprior_is_refused():
    with pytest.raises(
        pr.Incompatible,
        match=r"the scale of x1, x2, x3 has an improper prior.*evidence",
    ):
        pr.fit(model_for(pr.Gaussian(), Normal(pr.priors.Reference())), "nuts")


def test_scales_of_single_coefficients_have_the_names_of_column_and_outcome():
    model = pr.Model.from_formula(
        "k ~ x + z",
        {"k": list("abcabc"), "x": np.arange(6.0), "z": [1.0, 0.0, 2.0, 1.0, 0.0, 3.0]},
        likelihood="categorical",
        prior=Horseshoe(),
    )
    rng = np.random.default_rng(0)
    tau, scales = rng.random((2, 5, 7)), rng.random((2, 5, 7, 2))
    posterior = dict(zip(("tau[b]", "tau[c]"), tau))
    posterior |= dict(zip(("lambda[b]", "lambda[c]"), scales))
    shared, local = hyper_draws(model, posterior)
    assert list(shared) == ["tau[b]", "tau[c]"]
    assert list(local) == ["lambda[x][b]", "lambda[z][b]", "lambda[x][c]", "lambda[z][c]"]  # fmt: skip
    np.testing.assert_array_equal(local["lambda[z][c]"], scales[1, ..., 1])


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore::probreg.ProbregWarning"
)  # so few draws need not have mixed
def test_scales_stand_in_draws_summary_and_file(tmp_path):
    model = model_for(
        pr.Gaussian(),
        {"x1": Normal(pr.HalfNormal(0.8)), ("x2", "x3"): Horseshoe(tau=0.4)},
        n=30,
    )
    fit = pr.fit(model, pr.NUTS(draws=30, tune=50, chains=2))
    names = ["tau[x1]", "tau[x2..x3]", "lambda[x2]", "lambda[x3]"]
    assert set(fit.solution.draws.values) == {"beta", "sigma", *names}
    assert {"Intercept", "x1", "sigma", *names} <= set(fit.tree["posterior"].data_vars)
    table = fit.summary()
    assert table.index[-2:].tolist() == names[:2]
    draws = fit.solution.draws["tau[x1]"]
    assert table.loc["tau[x1]", "mean"] == draws.mean()
    assert table.loc["tau[x1]", "sd"] == draws.std()
    assert tuple(table.loc["tau[x1]", ["lower", "upper"]]) == pytest.approx(
        tuple(np.quantile(draws, [0.025, 0.975]))
    )
    assert table.loc["tau[x1]", "r_hat"] > 0.9
    again = pr.load_fit(fit.save(tmp_path / "fit.nc"))
    assert again.summary().equals(table)
    assert again.solution.scalars == fit.solution.scalars
    np.testing.assert_array_equal(
        again.solution.draws["lambda[x3]"], fit.solution.draws["lambda[x3]"]
    )
    marginal = model.joint.log_prob(
        fit.solution.draws["beta"], fit.solution.draws["sigma"]
    )
    log_prior = fit.tree["log_prior"].to_dataset().drop_vars("sigma")
    np.testing.assert_allclose(
        log_prior.to_array().sum("variable"), marginal, rtol=1e-9
    )


def test_the_plain_pymc_model_has_the_names_of_the_formula():
    """One variable for each term; a term whose name is taken is beta[name], a prior of several columns together one variable."""
    rng = np.random.default_rng(0)
    data = {k: rng.normal(size=12) for k in ("X", "x", "z", "y/z")} | {
        "g": np.array(list("abcd" * 3))
    }
    both = Normal(precision_matrix=((2.0, 0.3), (0.3, 1.0)))
    prior = {"C(g)[T.c]": Normal(0.5), ("x", "z"): both}
    made = pr.Model.from_formula(
        "`y/z` ~ X + x + z + C(g) + (1 | g)", data, prior=prior
    ).to_pymc()
    names = {v.name: made.named_vars_to_dims.get(v.name, ()) for v in made.free_RVs}
    assert names == {
        "Intercept": (),
        "beta[X]": (),
        "beta[x..z]": ("beta[x..z]_dim",),
        "C(g)[T.c]": (),
        "C(g)[b..d]": ("C(g)[b..d]_dim",),
        "effects[g]_offset": ("g", "effect"),
        "sigma": (),
        "sd(Intercept | g)": (),
    }
    assert made.observed_RVs[0].name == "y|z"


def test_effects_by_group_are_written_non_centred():
    import pymc as pm

    data = {
        "y": np.arange(12.0),
        "x": np.linspace(-1, 1, 12),
        "g": np.array(list("abcd" * 3)),
    }
    prior = {"(x | g)": pr.Covariance(pr.HalfNormal(2.0), cor=pr.LKJ(2.0))}
    made = pr.Model.from_formula("y ~ x + (x | g)", data, prior=prior).to_pymc()
    assert "effects[g]_offset" in {v.name for v in made.free_RVs}
    assert "effects[g]" in {v.name for v in made.deterministics}
    names = [
        "effects[g]",
        "effects[g]_offset",
        "sd(Intercept | g)",
        "sd(x | g)",
        "cor(Intercept, x | g)",
    ]
    effects, z, sd, sd_x, r = pm.draw(
        [made[n] for n in names], random_seed=1, mode="FAST_COMPILE"
    )
    root = np.array([[sd, 0.0], [sd_x * r, sd_x * np.sqrt(1 - r**2)]])
    np.testing.assert_allclose(effects, z @ root.T, rtol=1e-10)


def test_the_plain_pymc_model_may_end_at_the_linear_predictor():
    rng = np.random.default_rng(0)
    data = {k: rng.normal(size=12) for k in ("X", "x", "z")}
    open_end = pr.Model.from_formula("x ~ X", data).to_pymc(response=False)
    assert not open_end.observed_RVs
    assert open_end.named_vars_to_dims["eta"] == ("obs",)
    import pymc as pm

    moved = pr.Model.from_formula("x ~ X", data, offset="z").to_pymc(response=False)
    eta = pm.do(moved, {"Intercept": 0.5, "beta[X]": 2.0})["eta"].eval(
        mode="FAST_COMPILE"
    )
    np.testing.assert_allclose(eta, 0.5 + 2.0 * data["X"] + data["z"], rtol=1e-12)
