"""Laws of the compiled sampler: the energy is kept, the tree is the recursive one, compiled and plain chains are the same, and draws
of known densities are from them."""

import math
from ctypes import POINTER, c_double
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import probreg as pr
from probreg.compiled import AffineData, Work, build
from probreg.compiled.addresses import table_of
from probreg.inference.sampling import chains, trajectory
from probreg.inference.sampling.density import CompiledTarget, SampledDensity
from probreg.linalg import limit_threads
from probreg.system.memory import Interrupts

from .cases import Array

T = trajectory
AT = T.Places()
HALT = np.zeros(1)


def normal(z: Array, slopes: Array, data: Any) -> float:
    """log p of a standard normal, as Python runs it."""
    slopes[:] = -z
    return -0.5 * float(z @ z)


def vectors(d: int, end: Array) -> Array:
    """The array of a chain, whose forward end is (z, p, slope), under a mass matrix of ones."""
    w = np.empty((T.ROWS, d))
    w[T.MASS], w[AT.forward : AT.forward + 3] = 1.0, end
    return w


def standard_normal(d: int) -> CompiledTarget:
    """The same compiled: a posterior without rows."""
    none, line = np.zeros(0), np.zeros(d)
    data = AffineData(
        np.zeros((0, d, 1)), np.zeros((0, d), dtype=np.int64), none, none, np.zeros((0, 0)), none, none, np.zeros((0, 6)), line, np.eye(d), line, np.eye(d),
        np.zeros(0, dtype=np.int64), none, none, none, np.zeros(1), np.zeros((0, 6)), np.zeros(0, dtype=np.int64), np.zeros((0, 3)),
        np.zeros((0, 0)), np.zeros((0, 4), dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros((0, 0)),
    )  # fmt: skip
    assert pr.Bernoulli.compiled_density is not None
    return CompiledTarget(
        (pr.Bernoulli.compiled_density, False, None, False, False), data, 1, 0
    )


def walked(
    target: CompiledTarget,
    *,
    aim: float = 0.8,
    draws: int = 1000,
    workers: int = 1,
    seed: int = 1,
) -> tuple[Array, dict[str, Array]]:
    """Draws (chain, draw, d) and their statistics."""
    run = chains.SamplerSettings(seed, draws, 300, 4, aim)
    with limit_threads(workers):
        found = chains.sample([density_of_target(target)], run, Interrupts())
    return found.posterior["z"], found.stats


def density_of_target(target: CompiledTarget) -> Any:
    """A density with the attributes that chains use."""
    d = target.data.A.shape[1]
    return SimpleNamespace(
        size=d,
        unfold=lambda z: {"z": z},
        start=lambda rng: rng.standard_normal(d),
        holds_lock=False,
        target=target,
        at=SimpleNamespace(whitened=True),
    )


def test_steps_can_be_run_back_and_keep_the_energy_to_second_order() -> None:
    z, p, end = np.array([0.3, -1.2]), np.array([1.0, 0.4]), AT.forward
    errors = []
    for step in (0.1, 0.05):
        w = vectors(2, np.stack([z, p, -z]))
        w[T.MASS] = [1.0, 0.5]
        start, changed = T.kinetic(w, end + 1) - normal(z, np.empty(2), None), 0.0
        for _ in range(round(2.0 / step)):
            log_p = T.leapfrog(normal, None, w, end, step)
            changed = max(changed, abs(T.kinetic(w, end + 1) - log_p - start))
        errors.append(changed)
        w[end + 1] = -w[end + 1]
        for _ in range(round(2.0 / step)):
            T.leapfrog(normal, None, w, end, step)
        np.testing.assert_allclose(w[end : end + 2], [z, -p], atol=1e-13)
    assert 3.5 < errors[0] / errors[1] < 4.5


def turns_somewhere(leaves: list[tuple[Array, Array]], way: float) -> bool:
    """By recursion: whether a piece of the binary tree, its joint with its neighbour, or a piece of it, has turned."""
    if len(leaves) == 1:
        return False
    left, right = leaves[: len(leaves) // 2], leaves[len(leaves) // 2 :]
    pairs = [(leaves[0], leaves[-1]), (leaves[0], right[0]), (left[-1], leaves[-1])]
    joint = any(
        way * (b[0] - a[0]) @ a[1] <= 0 or way * (b[0] - a[0]) @ b[1] <= 0
        for a, b in pairs
    )
    return joint or turns_somewhere(left, way) or turns_somewhere(right, way)


@pytest.mark.parametrize("doublings", [1, 2, 3, 4])
def test_the_tree_without_recursion_is_the_recursive_one(doublings: int) -> None:
    rng, met = np.random.default_rng(doublings), set()
    for trial in range(60):
        d, end = 3, AT.forward
        scale = np.exp(rng.normal(size=d))

        def density(z: Array, slopes: Array, data: Any, scale: Array = scale) -> float:
            slopes[:] = -z / scale**2
            return -0.5 * float((z / scale) @ (z / scale))

        step = float(rng.uniform(0.05, 2.5)) / 2**doublings * (1 if trial % 2 else -1)
        z, p = rng.normal(size=d) * scale, rng.normal(size=d)
        w = vectors(d, np.stack([z, p, -z / scale**2]))
        path, leaves, stats = w.copy(), [], np.zeros((1, 7))
        for _ in range(2**doublings):
            T.leapfrog(density, None, path, end, step)
            leaves.append((path[end].copy(), path[end + 1].copy()))
        start = T.kinetic(w, end + 1) - density(z, np.empty(d), None)
        whole, *_ = T.extend(
            density, None, w, AT, end, step, 2**doublings, start, rng, HALT, stats, 0
        )
        expected = not turns_somewhere(leaves, 1.0 if step > 0 else -1.0)
        assert whole == expected
        met.add(whole)
        assert stats[0, T.STEPS] <= 2**doublings
        if whole:
            np.testing.assert_allclose(w[end : end + 3], path[end : end + 3])
    assert met == {True, False}


def test_plain_chains_are_the_compiled_ones() -> None:
    density, plain = density_of_target(standard_normal(3)), []
    settings = chains.SamplerSettings(4, 20, 30, 1)
    compiled = chains._Walker(
        density, settings, chains.Shared(1), 0, np.random.SeedSequence(4)
    )
    assert compiled.begin()
    draws, stats = compiled.chain()
    rng, state = np.random.default_rng(4), chains._restart_state(0.8)
    w = vectors(3, np.zeros((3, 3)))
    w[AT.point] = rng.standard_normal(3)
    for count, aim in ((30, 0.8), (20, -1.0)):  # too short a tuning for a window
        plain = [rng.standard_normal((count, 3)), np.empty((count, 7))]
        T.run_chain(normal, None, w, AT, state, aim, rng, HALT, np.zeros(1), *plain)
    np.testing.assert_allclose(draws, plain[0], rtol=1e-8)
    np.testing.assert_allclose(stats, plain[1], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("d", [1, 11])
def test_draws_of_a_normal_are_normal(d: int) -> None:
    from scipy.stats import norm

    found, stats = walked(standard_normal(d), draws=4000)
    draws = found.reshape(-1, d)
    probs = np.array([0.01, 0.1, 0.5, 0.9, 0.99])
    share = (draws[:, None] <= norm.ppf(probs)[:, None]).mean(0)
    # 16,000 draws are worth 4,000 at the least
    assert (
        np.abs(
            (share - probs[:, None]) / np.sqrt(probs * (1 - probs) / 4000)[:, None]
        ).max()
        < 5.0
    )
    assert not stats["diverging"].any()
    np.testing.assert_allclose(
        stats["lp_unconstrained"].ravel(), -0.5 * (draws**2).sum(1), rtol=1e-12
    )
    assert (stats["n_steps"] < 2 ** (stats["tree_depth"] + 1)).all()


def test_draws_are_normal_whatever_the_mass_matrix() -> None:
    density = density_of_target(standard_normal(3))
    settings = chains.SamplerSettings(6)
    walker = chains._Walker(
        density, settings, chains.Shared(1), 0, np.random.SeedSequence(6)
    )
    walker.w[T.MASS], walker.state = [9.0, 1.0, 0.1], chains._restart_state(0.3)
    assert walker.begin()
    draws = walker.draw(8000, -1.0)[1]
    np.testing.assert_allclose(draws.mean(0), 0.0, atol=0.1)
    np.testing.assert_allclose(draws.var(0), 1.0, atol=0.12)


@pytest.mark.parametrize("aim", [0.65, 0.8, 0.95])
def test_the_acceptance_is_what_adaptation_aims_at(aim: float) -> None:
    met = walked(standard_normal(11), aim=aim)[1]["acceptance_rate"].mean()
    assert abs(met - aim) < 0.04


def test_chains_do_not_depend_on_threads_and_have_no_seed_in_common() -> None:
    one, two, other = (
        walked(standard_normal(4), draws=50, workers=w, seed=s)[0]
        for w, s in ((1, 3), (4, 3), (1, 4))
    )
    for a, b, c in zip(one, two, other):
        np.testing.assert_array_equal(a, b)
        assert not np.isin(a, c).any()
    assert len({c.tobytes() for c in one}) == 4


def test_a_step_off_the_density_diverges() -> None:
    def cut(z: Array, slopes: Array, data: Any) -> float:
        value = normal(z, slopes, data)
        return value if abs(z[0]) < 1.0 else math.nan

    rng, w, diverged = np.random.default_rng(0), vectors(1, np.zeros((3, 1))), 0
    w[AT.point], w[AT.point + 1] = 0.5, -0.5
    for _ in range(200):
        stats, log_p = np.empty((1, 7)), -0.5 * float(w[AT.point, 0]) ** 2
        T.transition(
            cut,
            None,
            w,
            AT,
            log_p,
            rng.standard_normal((1, 1)),
            0.8,
            rng,
            HALT,
            stats,
            0,
        )
        assert abs(w[AT.point, 0]) < 1.0
        diverged += int(stats[0, T.DIVERGING])
    assert 50 < diverged < 200


def test_windows_are_the_whole_tuning() -> None:
    for tune in (0, 1, 10, 49, 77, 300, 1000, 5000):
        parts = list(chains.windows(tune))
        assert sum(length for length, _ in parts) == tune
        assert all(length >= 25 for length, ends in parts if ends)
        assert not parts[-1][1]


X = np.random.default_rng(0).normal(size=(300, 2))
Y = (X @ [1.0, -0.5] + np.random.default_rng(1).logistic(size=300) > 0).astype(int)


@pytest.mark.slow
def test_the_compiled_chains_are_those_of_models_that_are_compiled_whole() -> None:
    def compiled(model: pr.Model) -> bool:
        return SampledDensity.of(model).target is not None

    Cauchy = pr.priors.Cauchy
    model = pr.Model.from_arrays(X, Y, likelihood="bernoulli", prior=pr.Normal(1.0))
    assert compiled(model)
    assert compiled(model.with_prior({"x1": Cauchy(1.0)}))
    assert compiled(model.with_prior({"x1": Cauchy(1.0), "x2": Cauchy(2.0)}))
    two = {"x1": Cauchy(1.0), "x2": pr.priors.StudentT(4.0)}
    assert not compiled(model.with_prior(two))
    assert compiled(model.with_prior({"x1": pr.Normal(pr.HalfNormal(1.0))}))
    assert not compiled(model.with_prior({"x1": pr.Normal(OtherHalfNormal(1.0))}))
    assert not compiled(model.with_prior({"x1": pr.Laplace(pr.HalfNormal(1.0))}))
    assert not compiled(model.with_prior(pr.priors.Horseshoe(1.0)))
    stated = {"(x | g)": pr.Covariance(SCALE, cor=0.3)}
    groups = pr.Model.from_formula(
        "y ~ x + (x | g)", TABLE, likelihood="bernoulli", prior=stated
    )
    assert not compiled(groups)
    # sigma differs by row, and nu is unknown
    by_row = pr.Model.from_formula(
        {"size": "size ~ x", "log sigma": "~ z"},
        TABLE,
        likelihood=pr.StudentT(nu=None),
        prior=pr.Normal(1.0),
    )
    assert not compiled(by_row.with_aux(nu=pr.HalfNormal(9.0)))
    gaussian = pr.Model.from_arrays(X, X[:, 0] ** 2)
    assert compiled(gaussian)
    assert not compiled(gaussian.with_prior(pr.Normal(1.0, sigma_units=True)))
    student = pr.Model.from_arrays(
        X, X[:, 0] ** 2, likelihood="student", prior=pr.Normal(1.0)
    )
    assert compiled(student.with_aux(sigma=pr.HalfNormal(1.0)))
    for other in (OtherPrior(), OtherHalfNormal(1.0)):
        assert not compiled(student.with_aux(sigma=other))


class OtherHalfNormal(pr.HalfNormal):
    """A density of a user, which has not the terms of its base."""

    def log_prob(self, v: Any) -> Any:
        return super().log_prob(v) - v

    def slopes(self, v: Any) -> Any:
        return 1.0 - (v / self.scale) ** 2 - v, -2.0 * (v / self.scale) ** 2 - v


class OtherPrior(pr.priors.AuxPrior):
    """p(v) of a user, with slopes and without terms for compiled code."""

    name = "other"

    def log_prob(self, v: Any) -> Any:
        return -np.asarray(v)

    def slopes(self, v: Any) -> Any:
        return 1.0 - v, -v

    def sample(self, rng: np.random.Generator, size: int) -> Any:
        return rng.exponential(1.0, size)


@pytest.mark.parametrize(
    ("y", "given"),
    [
        (np.arange(300) % 3, {"likelihood": "categorical", "prior": pr.priors.Cauchy(1.0), "offset": np.linspace(0, 1, 300)}),
        (Y, {"likelihood": "bernoulli", "prior": pr.Normal(0.5, location=(3.0, -2.0))}),
        pytest.param(
            X[:, 0] ** 2,
            {"likelihood": pr.StudentT(nu=3.0), "aux": {"sigma": 2.5}, "prior": pr.priors.Cauchy(1.0, sigma_units=True)},
            marks=pytest.mark.slow,
        ),
        *(
            (np.exp(X[:, 0]), {"likelihood": "gamma", "prior": pr.Normal(1.0), "aux": {"phi": prior}})
            for prior in (pr.priors.LogNormal(0.4, location=0.3), pr.priors.HalfStudentT(1.5), pr.priors.InverseGamma(1.2, 0.7))
        ),
        pytest.param(
            np.arange(300) % 5 * (np.arange(300) % 3 > 0),
            {"likelihood": pr.ZeroInflated(pr.NegativeBinomial()), "aux": {"alpha": pr.HalfNormal(1.0), "zero_odds": 0.3}, "prior": pr.Normal(1.0)},
            marks=pytest.mark.slow,
        ),
    ],
)  # fmt: skip
def test_the_compiled_density_is_the_plain_one(y: Any, given: Any) -> None:
    model = pr.Model.from_arrays(X, y, **given)
    found = SampledDensity.of(model)
    z = np.random.default_rng(2).normal(size=found.size)
    value, over = found.log_prob(z)
    found_there, slopes = compiled_value(found, z)
    assert found_there == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(slopes, over, rtol=1e-9, atol=1e-10)


def compiled_value(density: SampledDensity, x: Array) -> tuple[float, Array]:
    """The log density and its slopes at x by the C function."""
    target = density.target
    assert target is not None
    arrays = target.arrays
    table = table_of(arrays)
    slopes = np.empty(density.size)
    addresses = (v.ctypes.data_as(POINTER(c_double)) for v in (x, slopes))
    return target.function.ctypes(*addresses, table.ctypes.data), slopes


TABLE = {
    "x": X[:, 0],
    "z": X[:, 1],
    "g": np.char.mod("g%d", np.arange(300) % 7),
    "h": np.char.mod("h%d", np.arange(300) % 40),
    "y": Y,
    "size": np.exp(
        X[:, 0]
        + np.sin(np.arange(300) % 7)
        + 0.4 * np.random.default_rng(2).normal(size=300)
    ),
    "kind": np.char.mod("k%d", np.arange(300) % 3),
}
SCALE = pr.HalfNormal(2.5)


@pytest.mark.parametrize(
    ("formula", "given"),
    [
        # one factor is sampled centred, the other non-centred, beside a normal prior that is regressed on it
        ("y ~ x + (1 | g) + (1 | h)", {"likelihood": "bernoulli", "prior": {
            "x": pr.Normal(1.0, location=0.3), "(1 | g)": pr.Covariance(SCALE), "(1 | h)": pr.Covariance(pr.priors.HalfStudentT(1.5))}}),
        ("size ~ z + (x || g)", {"likelihood": "gamma", "prior": {"(x || g)": pr.Covariance(SCALE)}, "aux": {"phi": SCALE}}),
        ("size ~ x + (1 | g) + (1 | h)", {"prior": {"(1 | g)": pr.Covariance(SCALE), "(1 | h)": pr.Covariance(SCALE)}}),
        ("size ~ x + z", {"aux": {"sigma": 2.0}, "prior": pr.Normal(1.5, sigma_units=True), "weights": 1 + np.arange(300) % 3}),
        ("y ~ x + (x | g)", {"likelihood": "bernoulli", "prior": {"(x | g)": pr.Covariance(SCALE, cor=pr.priors.LKJ(1.5))}}),
        ("size ~ x + (x + z | h)", {"prior": {"(x + z | h)": pr.Covariance(SCALE, cor=pr.priors.LKJ(1.5))}}),
        ("size ~ x + s(z)", {"prior": {"s(z)": pr.Normal(SCALE), "x": pr.Normal(2.0)}, "aux": {"sigma": SCALE}}),
        pytest.param("kind ~ x + z", {"likelihood": "categorical", "prior": pr.Normal(SCALE)}, marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_unknown_scales_and_moments_have_the_plain_density(
    formula: str, given: Any
) -> None:
    density = SampledDensity.of(pr.Model.from_formula(formula, TABLE, **given))
    target = density.target
    assert target is not None
    whole = build.plain_log_density(*target.parts)
    slopes = np.empty(density.size)
    for seed in range(3):
        x = density.start(np.random.default_rng(seed))
        value, expected = density.log_prob(x)
        work = Work.of(target.data, target.width, target.nuisance)
        assert whole(x, slopes, (target.data, work)) == pytest.approx(value, rel=1e-11)
        np.testing.assert_allclose(slopes, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("formula", "likelihood"),
    [
        ("y ~ x + (x | g) + (1 | h)", "bernoulli"),
        ("size ~ x + (x | g) + (1 | h)", "gaussian"),
    ],
)
def test_scales_of_groups_are_compiled(formula: str, likelihood: str) -> None:
    correlated = pr.Covariance(SCALE, cor=pr.priors.LKJ(1.5))
    prior = {"(x | g)": correlated, "(1 | h)": pr.Covariance(SCALE)}
    model = pr.Model.from_formula(formula, TABLE, likelihood=likelihood, prior=prior)
    density = SampledDensity.of(model)
    # the rows determine the effects of the first factor, which are sampled centred
    assert any(b.noncentred is None for b in density.blocks) == (
        likelihood == "gaussian"
    )
    x = density.start(np.random.default_rng(3))
    value, slopes = compiled_value(density, x)
    expected = density.log_prob(x)
    assert value == pytest.approx(expected[0], rel=1e-11)
    np.testing.assert_allclose(slopes, expected[1], rtol=1e-9, atol=1e-9)


@pytest.mark.slow
def test_chains_that_call_python_draw_from_the_same_posterior() -> None:
    """A posterior that is not round: rare events, and a Cauchy prior."""
    from probreg.inference.sampling.chains import SamplerSettings, sample

    rare = (np.random.default_rng(5).random(300) < 0.03).astype(int)
    model = pr.Model.from_arrays(
        X, rare, likelihood="bernoulli", prior=pr.priors.Cauchy(1.0)
    )
    whole, plain = (SampledDensity.of(model) for _ in range(2))
    plain.__dict__["target"] = None
    draws = []
    for aim, density in ((0.7, whole), (0.9, plain)):
        draws.append(
            sample([density], SamplerSettings(3, 1000, 500, 4, aim), Interrupts())
            .posterior["beta"]
            .reshape(-1, model.shape[0])
        )
    # of some 2,000 independent draws each, two standard errors of the difference of deciles
    ours, theirs = (np.quantile(v, [0.1, 0.5, 0.9], axis=0) for v in draws)
    np.testing.assert_allclose(ours, theirs, atol=0.12 * float(draws[1].std(0).max()))
