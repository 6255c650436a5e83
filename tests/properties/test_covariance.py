"""Laws of the prior of effects by group: correlations, natural values, densities, draws and the graphs that are sampled."""

from typing import Any

import arviz_stats
import numpy as np
import pytest
from scipy import stats
from scipy.special import betaln

import probreg as pr
from probreg.inference.base import with_proper_correlations
from probreg.inference.sampling.density import SampledDensity
from probreg.inference.sampling.reparameterisation import typical_scales
from probreg.model.draws import log_prior_of_draws
from probreg.model.term_priors import hyper_names
from probreg.priors import (
    LKJ,
    PRIORS,
    Covariance,
    GroupNormal,
    HalfNormal,
    Normal,
    VaryingEffects,
)
from probreg.priors.correlations import pairs_of, partial_of, root_of, root_slopes
from tests.pymc_density import density_of

from .cases import Array, covering, dkw, gradient

NAMES = ("a", "b", "c", "d")
EFFECTS = [
    VaryingEffects(("a",), 4, (HalfNormal(1.3),), (), "g"),
    VaryingEffects(
        ("a", "b"),
        3,
        (HalfNormal(1.3), pr.priors.LogNormal(0.6, location=0.2)),
        (LKJ(2.0).partial(0, 2),),
        "g",
    ),
    VaryingEffects(("a", "b"), 3, (HalfNormal(1.3), 0.8), (0.4,), "g"),
    VaryingEffects(("a", "b"), 3, (HalfNormal(1.3), HalfNormal(0.4)), (0.0,), "g"),
    VaryingEffects(
        NAMES[:3],
        2,
        (HalfNormal(1.3), 0.7, HalfNormal(0.4)),
        tuple(LKJ(1.5).partial(j, 3) for _, j in pairs_of(3)),
        "g",
    ),
]
every = pytest.mark.parametrize(
    "prior", EFFECTS, ids=lambda p: f"{len(p.effects)}-{len(p.hyper)}"
)


def drawn(prior: VaryingEffects, size: int, seed: int = 0) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    return {name: h.prior.sample(rng, size) for name, h in prior.hyper.items()}


def matrices(prior: VaryingEffects, natural: dict[str, Array], size: int) -> Array:
    """Correlation matrices of natural values."""
    R = np.tile(np.eye(len(prior.effects)), (size, 1, 1))
    for (i, j), held in zip(prior.pairs, prior.cors):
        R[:, i, j] = R[:, j, i] = natural.get(prior.cor_name(i, j), held)
    return R


def log_lkj(eta: float, R: Array) -> Array:
    """log p(R) of matrices (..., K, K), as a density of the entries below the diagonal."""
    K = R.shape[-1]
    k = np.arange(1, K)
    # p(R) = det(R)^(eta - 1) / c, c = prod_(k = 1)^(K - 1) [2^(2 b_k - 1) B(b_k, b_k)]^(K - k), b_k = eta + (K - k - 1) / 2
    b = eta + 0.5 * (K - k - 1)
    log_c = ((K - k) * ((2.0 * b - 1.0) * np.log(2.0) + betaln(b, b))).sum()
    return (eta - 1.0) * np.linalg.slogdet(R)[1] - log_c


# ---- correlation matrices --------------------------------------------------------------------------------------------


def test_the_mass_of_correlation_matrices_is_one():
    x, w = np.polynomial.legendre.leggauss(60)
    two = np.tile(np.eye(2), (60, 1, 1))
    two[:, 0, 1] = two[:, 1, 0] = x
    assert w @ np.exp(log_lkj(3.0, two)) == pytest.approx(1.0, abs=1e-12)
    # three effects: the density vanishes with its slope at the edge of what is positive definite
    r, s, t = np.meshgrid(x, x, x, indexing="ij")
    R = np.tile(np.eye(3), (60**3, 1, 1))
    for (i, j), v in zip(pairs_of(3), (r, s, t)):
        R[:, i, j] = R[:, j, i] = v.ravel()
    det = np.linalg.det(R)
    inside = det > 0
    weight = np.einsum("i,j,k->ijk", w, w, w).ravel()[inside]
    assert weight @ np.exp(log_lkj(4.0, R[inside])) == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize("K", [2, 3, 4])
def test_correlations_of_draws_are_beta_and_their_determinant_has_its_mean(K):
    prior, n = LKJ(1.7), 6000
    rng = np.random.default_rng(K)
    t = [np.log(prior.partial(j, K).sample(rng, n)) for i, j in pairs_of(K)]
    T = root_of(np.array(t), K)
    R = T @ np.swapaxes(T, -1, -2)
    # (1 + r) / 2 ~ Beta(b, b), b = eta + (K - 2) / 2, whichever the pair
    b = prior.eta + 0.5 * (K - 2)
    for i, j in pairs_of(K):
        x = np.sort(R[:, i, j])
        exact = stats.beta(b, b).cdf((1.0 + x) / 2.0)
        assert np.abs(exact - (np.arange(n) + 0.5) / n).max() < dkw(n)
    # E det(R) = c(eta + 1) / c(eta), c the constant of the density
    ratio = np.exp(log_lkj(prior.eta, np.eye(K)) - log_lkj(prior.eta + 1.0, np.eye(K)))
    det = np.linalg.det(R)
    assert abs(det.mean() - ratio) < 5 * det.std() / np.sqrt(n)


@pytest.mark.parametrize("K", [2, 3, 4])
def test_partial_correlations_and_matrices_are_one_to_one(K):
    t = np.random.default_rng(K).normal(0.0, 1.2, (K * (K - 1) // 2, 9))
    T = root_of(t, K)
    np.testing.assert_allclose(np.linalg.norm(T, axis=-1), 1.0, rtol=1e-14)
    np.testing.assert_allclose(partial_of(T @ np.swapaxes(T, 1, 2)), t, rtol=1e-8)
    found, slopes = root_slopes(t[:, 0], K)
    np.testing.assert_array_equal(found, T[0])
    numeric = gradient(lambda x: root_of(x[:, None], K)[0].ravel(), t[:, 0])
    np.testing.assert_allclose(slopes.reshape(len(t), -1).T, numeric, atol=1e-8)


# ---- effects with unknown covariance ---------------------------------------------------------------------------------


@every
def test_natural_values_are_those_of_the_covariance_and_lead_back(prior):
    values = drawn(prior, 5)
    natural = prior.natural(values)
    assert list(natural) == list(prior.hyper)
    for s in range(5):
        here = {k: float(v[s]) for k, v in values.items()}
        root = prior.root_of_groups(here)
        S = root @ root.T
        sd = np.sqrt(np.diagonal(S))
        R = matrices(prior, {k: v[s] for k, v in natural.items()}, 1)[0]
        np.testing.assert_allclose(S, R * np.outer(sd, sd), rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose([natural[k][s] for k in natural if k.startswith("sd")], sd[[
            k for k, v in enumerate(prior.sds) if not isinstance(v, float)]], rtol=1e-12)  # fmt: skip
        found = prior.root(np.log(list(here.values())))
        np.testing.assert_allclose(found[0], root, rtol=1e-12, atol=1e-15)
    back = prior.internal(natural)
    for name in values:
        np.testing.assert_allclose(
            np.log(back[name]), np.log(values[name]), rtol=1e-9, atol=1e-12
        )


@every
def test_slopes_of_the_root_are_those_of_its_differences(prior):
    logs = np.log([v[0] for v in drawn(prior, 1).values()])
    numeric = gradient(lambda x: prior.root(x)[0].ravel(), logs)
    np.testing.assert_allclose(
        prior.root(logs)[1].reshape(len(logs), -1).T, numeric, atol=1e-8
    )


@every
def test_the_density_given_hyperparameters_is_that_of_the_plain_prior(prior):
    values, q = drawn(prior, 6), prior.size
    beta = np.random.default_rng(1).normal(size=(2, 3, q, 2))
    lead = {k: v.reshape(2, 3) for k, v in values.items()}
    together = prior.log_prob_given(beta, lead, 1.8)
    for s in np.ndindex(2, 3):
        plain = prior.given(**{k: float(v[s]) for k, v in lead.items()})
        assert isinstance(plain, Normal if prior.diagonal else GroupNormal)
        assert together[s] == pytest.approx(
            float(plain.log_prob(beta[s], 1.8)), rel=1e-11
        )


@every
def test_a_draw_without_variance_leaves_the_density_of_other_draws(prior):
    values, q = drawn(prior, 3), prior.size
    beta = np.random.default_rng(1).normal(size=(3, q, 1))
    name = next(iter(values))
    zero = {**values, name: values[name] * [1.0, 0.0, 1.0]}
    with np.errstate(all="ignore"):
        found = prior.log_prob_given(beta, zero)
    expected = prior.log_prob_given(beta, values)
    np.testing.assert_array_equal(found[[0, 2]], expected[[0, 2]])
    assert not np.isfinite(found[1])


def test_densities_of_natural_correlations_are_lkj_and_those_of_sds_their_own():
    prior = EFFECTS[-1]
    natural = prior.natural(drawn(prior, 7))
    found = prior.log_prob_of_hyper(natural)
    cors = sum(v for name, v in found.items() if name.startswith("cor"))
    np.testing.assert_allclose(
        cors, log_lkj(1.5, matrices(prior, natural, 7)), rtol=1e-10
    )
    np.testing.assert_array_equal(
        found["sd[c]"], HalfNormal(0.4).log_prob(natural["sd[c]"])
    )


@every
def test_draws_have_the_moments_of_the_prior(prior):
    n = 4000
    beta = prior.sample(np.random.default_rng(3), (n, prior.size, 1))[..., 0]
    b = beta.reshape(n, prior.groups, -1)
    values = drawn(prior, 40_000, seed=4)
    expected = np.ones(
        (len(values and next(iter(values.values()))), len(prior.effects))
    )
    for k, (name, v) in enumerate(zip((f"sd[{e}]" for e in prior.effects), prior.sds)):
        expected[:, k] = np.square(values.get(name, v))
    variance = np.square(b).mean((0, 1))
    error = np.square(b).mean(1).std(0) / np.sqrt(n) + expected.std(0) / 200.0
    assert (np.abs(variance - expected.mean(0)) < 5 * error).all()
    if prior.groups > 1:  # groups share their sd and are otherwise independent
        r = np.corrcoef(b[:, 0, 0], b[:, 1, 0])[0, 1]
        assert abs(r) < 0.1


def test_a_covariance_is_written_and_read_back():
    for prior in (
        Covariance(),
        Covariance(3.0, 0.2),
        Covariance({"Days": HalfNormal(10.0), "Intercept": 4.0}, LKJ(2.0)),
    ):
        again = PRIORS.from_spec(PRIORS.to_spec(prior))
        assert again == prior
        assert hash(again) == hash(prior)


# ---- a known covariance ----------------------------------------------------------------------------------------------


def test_a_singular_covariance_is_held_and_said():
    edge = GroupNormal(((2.0, 0.0), (0.5, 0.0)), groups=3)
    assert edge.singular
    assert not GroupNormal(((2.0, 0.0), (0.5, 0.01)), groups=3).singular
    S = edge.held_root @ edge.held_root.T
    np.testing.assert_allclose(S, edge.covariance, atol=1e-8)
    P = edge.precision(6)
    assert np.isfinite(P).all()
    assert np.linalg.cholesky(P).shape == (6, 6)
    along, across = np.tile([2.0, 0.5], 3)[:, None], np.tile([2.0, 0.6], 3)[:, None]
    assert float(edge.log_prob(along)) > float(edge.log_prob(across)) + 1e6
    gone = GroupNormal(((2.0, 0.0), (0.0, 0.0)), groups=2)
    assert gone.singular
    assert gone.independent(4).tolist() == [2.0, 2e-8, 2.0, 2e-8]
    with pytest.raises(pr.DataError, match="not all zero"):
        GroupNormal(((0.0, 0.0), (0.0, 0.0)))
    with pytest.raises(pr.DataError, match="lower triangular"):
        GroupNormal(((1.0, 0.5), (0.0, 1.0)))


def rows(n: int = 40, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    g, x, z = rng.integers(0, 4, n), rng.normal(size=n), rng.normal(size=n)
    b = rng.normal(size=(4, 2)) @ [[0.8, 0.3], [0.0, 0.5]]
    eta = 0.5 + x + b[g, 0] + b[g, 1] * x
    return {
        "y": eta + 0.5 * rng.normal(size=n), "u": (eta + rng.logistic(size=n) > 0.5).astype(int),
        "count": rng.poisson(np.exp(np.clip(0.4 * eta, -2, 2))), "k": rng.choice(["r", "s", "t"], n),
        "x": x, "z": z, "g": np.array(list("pqrs"))[g], "h": rng.choice(["v", "w"], n),
    }  # fmt: skip


@pytest.mark.parametrize(
    "method", ["newton", "closed_form", "laplace", "conjugate", "auto", "posterior"]
)
def test_every_method_takes_a_known_covariance_as_the_dense_normal(method):
    held = {"x | g": Covariance({"Intercept": 0.8, "x": 0.5}, 0.3)}
    model = pr.Model.from_formula(
        "y ~ x + (x | g)", rows(), prior=held, aux={"sigma": 0.6}
    )
    prior = model.joint.blocks[-1].prior
    assert isinstance(prior, GroupNormal)
    columns = tuple(model.design.columns[j] for j in model.joint.blocks[-1].columns)
    dense = np.kron(np.eye(4), np.linalg.inv([[0.64, 0.12], [0.12, 0.25]]))
    same = model.with_prior(
        {columns: Normal(precision_matrix=tuple(map(tuple, dense.tolist())))}
    )
    one, two = (pr.fit(m, method).solution for m in (model, same))
    np.testing.assert_allclose(one.beta, two.beta, atol=1e-9)
    np.testing.assert_allclose(one.scale.matrix(), two.scale.matrix(), atol=1e-9)


@pytest.mark.slow
def test_the_compiled_engine_has_the_density_of_a_known_covariance():
    held = {"x | g": Covariance({"Intercept": 0.8, "x": 0.5}, 0.3)}
    for formula, likelihood in (
        ("y ~ x + (x | g)", "gaussian"),
        ("k ~ x + (x | g)", "categorical"),
    ):
        model = pr.Model.from_formula(
            formula, rows(), likelihood=likelihood, prior=held
        )
        found, rng, apart = (
            SampledDensity.of(model),
            np.random.default_rng(0),
            [],
        )
        for _ in range(3):
            z = rng.normal(size=found.at.A.shape[1])
            values = found.unfold(z)
            aux = {a: values[a] for a in model.unknown}
            exact = model.log_lik(values["beta"], **aux) + model.log_prior(
                values["beta"], **aux
            )
            apart.append(
                found.log_prob(z)[0]
                - float(exact)
                - sum(float(np.log(v)) for v in aux.values())
            )
            slope = gradient(lambda v, of=found: of.log_prob(v)[0], z)
            np.testing.assert_allclose(found.log_prob(z)[1], slope, atol=1e-5)
        np.testing.assert_allclose(apart, apart[0], atol=1e-8)


# ---- graphs ----------------------------------------------------------------------------------------------------------

CORRELATED = {
    "x | g": Covariance({"Intercept": HalfNormal(0.9), "x": HalfNormal(0.7)}, LKJ(2.0))
}
MODELS = {
    "correlated": ("y ~ x + (x | g)", "gaussian", CORRELATED),
    "diagonal": ("y ~ x + (x || g)", "gaussian", {"x || g": Covariance(HalfNormal(0.9))}),
    "one": ("u ~ x + (1 | g)", "bernoulli", {"1 | g": Covariance(HalfNormal(0.9))}),
    "several predictors": ("k ~ x + (x | g)", "categorical", CORRELATED),
    "three effects": ("count ~ x + (x + z | g)", "poisson", {"x + z | g": Covariance(HalfNormal(0.9), LKJ(1.5))}),
    "crossed": (
        "y ~ x + (x | g) + (1 | h)", "gaussian", CORRELATED | {"1 | h": Covariance(HalfNormal(0.4))},
    ),
    "number held": ("y ~ x + (x | g)", "gaussian", {"x | g": Covariance({"Intercept": 0.7, "x": HalfNormal(0.5)}, 0.4)}),
}  # fmt: skip


some_models = pytest.mark.parametrize(
    "which", covering(MODELS, lambda which: which == "several predictors")
)


def model_of(which: str) -> pr.Model:
    formula, likelihood, prior = MODELS[which]
    return pr.Model.from_formula(formula, rows(30), likelihood=likelihood, prior=prior)


def check(model: pr.Model, made: Any, parts: bool = False) -> None:
    """The density at x is that of (beta, natural hyperparameters, aux) times |d of these / d x|, but for a constant."""
    density, rng, apart = density_of(made), np.random.default_rng(0), []
    names = [
        n for of in hyper_names(model.joint, model.design).values() for n in of.values()
    ]

    def values_at(x: Array) -> dict[str, Array]:
        found = density.expand(x)
        if parts:  # the graph of a reader, with a variable for each term
            beta = np.empty(model.shape)
            for b in model.joint.blocks:
                term = model.design.grouped_of(b.columns)
                if b.predictor is not None:  # with scales of its own
                    assert term is not None
                    value = np.asarray(found[f"effects[{term.group}][{b.outcome}]"])
                    beta[list(b.columns), b.predictor] = value.ravel()
                    continue
                names = (
                    [f"effects[{term.group}]"]
                    if term
                    else [model.design.columns[j] for j in b.columns]
                )
                value = np.stack(
                    [
                        np.asarray(found[name]).reshape(model.shape[1], -1)
                        for name in names
                    ]
                )
                beta[list(b.columns)] = value[0].T if term else value[:, :, 0]
            return {**found, "beta": beta}
        return {**found, "beta": np.asarray(found["beta"]).reshape(model.shape)}

    def vector(x: Array) -> Array:
        found = values_at(x)
        return np.concatenate(
            [np.ravel(found[k]) for k in ("beta", *model.unknown, *names)]
        )

    for _ in range(3):
        x = rng.normal(0.0, 0.4, density.size)
        found = values_at(x)
        exact = model.log_lik(
            found["beta"], **{a: float(found[a]) for a in model.unknown}
        )
        exact = float(exact) + float(
            log_prior_of_draws(model, {k: np.asarray(v) for k, v in found.items()})
        )
        sign, jacobian = np.linalg.slogdet(gradient(vector, x))
        assert sign != 0
        apart.append(float(density.log_prob(x)) - exact - jacobian)
    # differences of the map cost 1e-8
    np.testing.assert_allclose(apart, apart[0], atol=2e-7)


@some_models
def test_the_plain_pymc_model_has_the_models_density(which):
    model = model_of(which)
    made = model.to_pymc()
    named = [
        f"effects[g][{b.outcome}]"
        for b in model.joint.blocks
        if b.predictor is not None
    ] or ["effects[g]"]
    for name in named:
        # groups with other effects have labels of their own
        effect = "effect of g" if which == "crossed" else "effect"
        assert (
            made.named_vars_to_dims[name]
            == made.named_vars_to_dims[f"{name}_offset"]
            == ("g", effect)
        )
    assert list(made.coords["g"]) == list("pqrs")
    check(model, made, parts=True)
    check(model, model.to_pymc(noncentered=False), parts=True)


@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("which", MODELS)
def test_the_compiled_engine_has_the_models_density_and_its_gradient(
    which, centred, monkeypatch
):
    from probreg.inference.sampling import reparameterisation as room

    chosen = {
        i: s._replace(centred=centred)
        for i, s in typical_scales(model_of(which)).items()
    }
    monkeypatch.setattr(room, "typical_scales", lambda _: chosen)
    model = model_of(which)
    density, rng, apart = SampledDensity.of(model), np.random.default_rng(0), []
    assert len(density.at.noncentred) == (0 if centred else len(chosen))
    names = [h.label for b in density.blocks for h in b.hyper]

    def vector(x: Array) -> Array:
        values = density.unfold(x)
        return np.concatenate(
            [np.ravel(values[k]) for k in ("beta", *model.unknown, *names)]
        )

    for _ in range(2):
        x = rng.normal(0.0, 0.4, density.size)
        values = density.unfold(x)
        exact = model.log_lik(
            values["beta"], **{a: float(values[a]) for a in model.unknown}
        )
        exact = (
            float(exact)
            + float(log_prior_of_draws(model, values))
            + np.linalg.slogdet(gradient(vector, x))[1]
        )
        value, slope = density.log_prob(x)
        apart.append(value - exact)
        np.testing.assert_allclose(
            slope, gradient(lambda v: density.log_prob(v)[0], x), atol=1e-6
        )
    np.testing.assert_allclose(apart, apart[0], atol=1e-7)


# ---- what a posterior does with what is not stated, and what is refused ----------------------------------------------


def test_correlations_without_a_prior_are_lkj_under_a_posterior_and_flat_under_a_mode():
    from probreg.inference.base import with_proper_correlations

    model = model_of("correlated").with_prior({"x | g": Covariance(HalfNormal(0.9))})
    bound, said = with_proper_correlations(model)
    stated, nothing = with_proper_correlations(
        model.with_prior({"x | g": Covariance(HalfNormal(0.9), LKJ(1.0))})
    )
    assert bound.joint.blocks[-1].prior.hyper == stated.joint.blocks[-1].prior.hyper
    assert ["cor(Intercept, x | g): LKJ(1)" in str(note) for note in said] == [True]
    assert nothing == ()
    assert not model.joint.blocks[-1].prior.proper
    assert pr.NUTS().obstacle(bound) is None
    assert pr.NUTS().resolve(model, np.random.default_rng(0)).notes == said
    frozen, told = with_proper_correlations(model.with_prior_frozen)
    assert frozen.joint.blocks[-1].prior.hyper == stated.joint.blocks[-1].prior.hyper
    assert told == said
    diagonal = model_of("diagonal")
    assert with_proper_correlations(diagonal) == (diagonal, ())


@pytest.mark.parametrize("method", ["nuts", "integrate", "posterior", "laplace"])
def test_an_improper_prior_of_a_standard_deviation_is_refused_with_one_in_units_of_the_response(
    method,
):
    data = rows()
    data["y"] = 1000.0 * data["y"]
    model = pr.Model.from_formula(
        "y ~ x + (x | g)", data, prior={"x | g": Covariance({"x": HalfNormal(300.0)})}
    )
    sd = np.std(data["y"])
    with pytest.raises(
        pr.Incompatible,
        match=rf"{method}: the posterior is improper, since the prior of sd\(Intercept \| g\) is",
    ) as met:
        pr.fit(model, method)
    given = f"such as prior={{'(x | g)': pr.Covariance(pr.HalfNormal({sd:.2g}))}}"
    assert f"{given}, or use evidence" in str(met.value)
    binary = pr.Model.from_formula("u ~ x + (1 | g)", data, likelihood="bernoulli")
    with pytest.raises(
        pr.Incompatible,
        match=r"pr.HalfNormal\(2.5\)\)}, or use evidence",
    ):
        pr.fit(binary, method)


BAD = [
    (
        {"sd": 0.0},
        "sd is a positive finite number or a prior.*got 0.0",
    ),
    ({"sd": -1.0}, "got -1.0"),
    ({"sd": {"x": 0.0}}, "sd of x is a positive finite number"),
    ({"sd": {"z": 1.0}}, "sd names the effect 'z', and .* has Intercept, x"),
    ({"sd": "large"}, "got 'large'"),
    ({"sd": np.inf}, "got inf"),
    ({"cor": 1.0}, "between -1 and 1.*got 1.0"),
    ({"cor": HalfNormal(1.0)}, "cor is a number between"),
    ({"cor": True}, "got True"),
]


@pytest.mark.parametrize(("given", "words"), BAD)
def test_bad_standard_deviations_and_correlations_are_refused(given, words):
    with pytest.raises(pr.DataError, match=words):
        pr.Model.from_formula(  # noqa: B018
            "y ~ x + (x | g)", rows(), prior={"x | g": Covariance(**given)}
        ).joint.blocks


@pytest.mark.parametrize(
    ("formula", "key", "words"),
    [
        (
            "y ~ x + (x + z | g)",
            "x + z | g",
            "cor is a number for two effects, and .* has 3: Intercept, x, z; use LKJ",
        ),
        ("y ~ x + (1 | g)", "1 | g", "cor is a number for two effects, and .* has 1"),
        ("y ~ x + (x || g)", "x || g", "has no correlations, and cor is 0.3"),
    ],
)
def test_a_correlation_as_a_number_is_that_of_two_correlated_effects(
    formula, key, words
):
    with pytest.raises(pr.DataError, match=words):
        pr.Model.from_formula(  # noqa: B018
            formula, rows(), prior={key: Covariance(1.0, 0.3)}
        ).joint.blocks


def test_a_prior_of_effects_is_of_a_term_with_a_bar():
    with pytest.raises(
        pr.DataError,
        match=r"Covariance is the prior of a term \(x \| g\), and x are not the columns of one",
    ):
        pr.Model.from_formula("y ~ x", rows(), prior={"x": Covariance()}).joint.blocks  # noqa: B018


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore::probreg.ProbregWarning"
)  # so few draws need not have mixed
def test_standard_deviations_and_correlations_stand_in_draws_summary_tree_and_file(
    tmp_path,
):
    model = model_of("correlated").with_prior({"x | g": Covariance(HalfNormal(0.9))})
    fit = pr.fit(model, pr.NUTS(draws=40, tune=100, chains=2))
    names = ["sd(Intercept | g)", "sd(x | g)", "cor(Intercept, x | g)"]
    assert set(fit.solution.draws.values) == {"beta", "sigma", *names}
    assert set(fit.tree["posterior"].data_vars) == {
        "Intercept",
        "x",
        "sigma",
        "effects[g]",
        *names,
    }
    r = fit.solution.draws[names[2]]
    assert (np.abs(r) < 1).all()
    assert (r < 0).any()
    table = fit.summary()
    assert table.loc[names[2], "mean"] == r.mean()
    log_prior = fit.tree["log_prior"]
    # LKJ(1) of two effects is uniform
    np.testing.assert_allclose(log_prior[names[2]], np.log(0.5), rtol=1e-12)
    np.testing.assert_allclose(
        log_prior[names[0]], HalfNormal(0.9).log_prob(fit.solution.draws[names[0]])
    )
    assert any("LKJ(1)" in note for note in map(str, fit.solution.notes)) or any(
        "LKJ(1)" in note for note in map(str, fit.notes)
    )
    again = pr.load_fit(fit.save(tmp_path / "fit.nc"))
    np.testing.assert_array_equal(again.solution.draws[names[2]], r)
    assert again.summary().equals(table)


def test_a_slash_in_a_name_parts_no_group_of_a_file():
    data = rows() | {"a/b": rows()["g"]}
    model = pr.Model.from_formula(
        "y ~ x + (1 | `a/b`)", data, prior={"1 | `a/b`": Covariance(HalfNormal(0.9))}
    )
    (names,) = hyper_names(model.joint, model.design).values()
    assert "/" not in "".join(names.values())


def test_words_of_the_evidence_name_each_standard_deviation_and_a_singular_fit():
    rng = np.random.default_rng(3)
    g, x = np.repeat(np.arange(8), 6), rng.normal(size=48)
    u, noise = rng.normal(size=8), rng.normal(size=48)
    data = {"y": 1 + x + u[g] * (1 + 2 * x) + 0.3 * noise, "x": x, "g": g.astype(str)}
    fit = pr.fit(pr.Model.from_formula("y ~ x + (x | g)", data), "evidence")
    found = " ".join(map(str, fit.notes))
    assert "singular fit: cor(Intercept, x | g) is 1" in found
    # no group differs at all
    flat = data | {"y": 1 + x + noise - np.repeat(noise.reshape(8, 6).mean(1), 6)}
    said = " ".join(
        map(
            str,
            pr.fit(pr.Model.from_formula("y ~ x + (1 | g)", flat), "evidence").notes,
        )
    )
    assert "singular fit: the variance of Intercept | g is 0" in said
    plain = data | {"y": 1 + x + u[g] + 0.5 * rng.normal(size=8)[g] * x + 0.3 * noise}
    assert "singular" not in " ".join(
        map(
            str,
            pr.fit(pr.Model.from_formula("y ~ x + (x | g)", plain), "evidence").notes,
        )
    )


# ---- long chains -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_chains_of_rows_that_say_nothing_draw_the_prior():
    """Of standard deviations and correlations, on whose free scales chains move: a density there without its Jacobian is another."""
    g, (x, z) = (
        np.repeat(np.arange(2), 4),
        np.random.default_rng(0).normal(size=(2, 8)),
    )
    prior: Any = {
        "x + z | g": Covariance(HalfNormal(1.0), LKJ(2.0)),
        **dict.fromkeys(("Intercept", "x", "z"), Normal(1.0)),
    }
    model = pr.Model.from_formula(
        "y ~ x + z + (x + z | g)",
        {"y": x, "x": x, "z": z, "g": g.astype(str)},
        prior=prior,
        aux={"sigma": 1e3},
    )
    fit = pr.fit(model, pr.NUTS(draws=400, tune=300, chains=1))
    draws, effective = fit.solution.draws.flat, fit.summary()["ess_bulk"]
    for name in (name for name in effective.index if name.startswith(("sd(", "cor("))):
        # r of LKJ(eta) in K = 3: (1 + r) / 2 ~ Beta(eta + 1/2, eta + 1/2)
        law = (
            stats.halfnorm
            if name.startswith("sd(")
            else stats.beta(2.5, 2.5, loc=-1.0, scale=2.0)
        )
        assert effective[name] > 180
        assert stats.kstest(draws[name], law.cdf).statistic < dkw(int(effective[name]))


@pytest.mark.parametrize("likelihood", ["gaussian", "student", "negative_binomial"])
def test_errors_of_nuisance_parameters_are_those_of_the_curvature_over_their_logs(
    likelihood,
):
    rng = np.random.default_rng(5)
    x = rng.normal(size=80)
    y = rng.negative_binomial(2, 2.0 / (2.0 + np.exp(1.0 + 0.3 * x)))
    model = pr.Model.from_arrays(x, y.astype(float) if likelihood != "negative_binomial" else y, likelihood=likelihood)  # fmt: skip
    fit = pr.fit(model, "newton")
    beta, (name,) = fit.solution.beta, model.unknown
    H = model.value_grad_hessian(beta, **fit.aux)[2]
    error = fit.aux[name] * np.sqrt(np.linalg.inv(H)[-1, -1])
    assert fit.solution.aux_sd[name] == pytest.approx(error, rel=1e-6)
    assert fit.solution.scalars[name] == (fit.aux[name], fit.solution.aux_sd[name])


@pytest.mark.parametrize(("sd_of_slopes", "is_centred"), [(3.0, True), (0.4, False)])
def test_effects_are_centred_if_the_rows_determine_each_of_them(
    sd_of_slopes, is_centred
):
    rng = np.random.default_rng(3)
    g = np.repeat(np.arange(18), 40)
    x = rng.normal(size=len(g))
    effects = rng.normal(size=(2, 18)) * [[5.0], [sd_of_slopes]]
    y = effects[0][g] + (4.0 + effects[1][g]) * x + 6.0 * rng.normal(size=len(g))
    model = pr.Model.from_formula(
        "y ~ x + (x | g)",
        {"y": y, "x": x, "g": g.astype(str)},
        prior={"(x | g)": pr.Covariance(pr.HalfNormal(9.0))},
    )
    (typical,) = typical_scales(with_proper_correlations(model)[0]).values()
    assert typical.centred == is_centred
    # of 4,000 draws; centred chains had fewer than 20 for the sd of hardly determined slopes
    tree = pr.fit(model, "nuts", seed=1).tree["posterior"]
    for name in ("sd(Intercept | g)", "sd(x | g)"):
        assert arviz_stats.ess(tree[name].to_numpy()) > 250
