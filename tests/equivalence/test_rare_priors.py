"""Priors that few models have, each against a second computation."""

import numpy as np
import pytest
from scipy.sparse import csc_array
from scipy.stats import multivariate_normal

import probreg as pr
from probreg import DataError, kernels, priors
from probreg.inference.base import with_proper_correlations
from probreg.inference.penalized.paths import rescale_original
from probreg.kernels import RBF, Constant, Linear
from probreg.kernels.anchored import root_at_rows
from probreg.kernels.base import RowPairs
from probreg.kernels.sums import RowSums, covariance_left
from probreg.priors.gaussian_process import process_prior
from tests.errors.test_refused_questions import ROWS

KERNELS = [
    2.0 * RBF(1.0),
    RBF(1.0) + 2.0 * RBF(3.0),
    2.0 * RBF(1.0) + RBF(3.0),
    2.0 * RBF(1.0) + 3.0 * Linear(),
    (2.0 * RBF(1.0)).on(0) + (3.0 * RBF(1.0)).on(1),
    (2.0 * RBF(1.0)) * (3.0 * RBF(2.0)),
    Constant(2.0) * RBF(1.0),
    2.0 * (2.0 * RBF(1.0) + 3.0 * Linear()),
    RBF(1.0) + (2.0 * RBF(1.0)) * (3.0 * RBF(2.0)),
    (2.0 * RBF(1.0) + 3.0 * Linear()) * (Constant(1.0) + 2.0 * RBF(3.0)),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_unknown_variances_of_a_process_are_identified(kernel):
    X = np.random.default_rng(0).normal(size=(12, 2))
    slopes = kernel.slopes(RowPairs(X, X))
    amplitude = kernel(X, X).ravel()
    variances = [name for name in slopes if name.endswith("variance")]
    unknown = [n for n in dict(process_prior(kernel).others) if n in variances]

    def directions(names):
        return np.column_stack([amplitude, *(slopes[name].ravel() for name in names)])

    rank = np.linalg.matrix_rank(directions(unknown))
    assert rank == len(unknown) + 1 == np.linalg.matrix_rank(directions(variances))


@pytest.mark.parametrize("basis", ["exact", "hsgp"])
def test_the_amplitude_alone_may_be_unknown(basis):
    rng = np.random.default_rng(3)
    x = np.sort(rng.uniform(0.0, 4.0, 30))
    y = np.sin(2.0 * x) + 0.3 * rng.normal(size=30)
    term = f"gp(x, basis='{basis}', length=0.8)"
    prior = {term: priors.GaussianProcess(amplitude=pr.HalfNormal(1.0), length=None)}
    data = {"x": x, "y": y}
    model = pr.Model.from_formula(f"y ~ 0 + {term}", data, prior=prior, aux={"sigma": 0.3})  # fmt: skip
    fit = pr.fit(model, "evidence")
    amplitudes = np.exp(np.linspace(-1.5, 1.5, 3001))
    value, vector = np.linalg.eigh(RBF(0.8)(x, x))
    z = vector.T @ y
    spread = np.square(amplitudes)[:, None] * value + 0.09
    log_p = -0.5 * (np.log(spread) + z**2 / spread).sum(1) - 0.5 * amplitudes**2
    log_p += np.log(amplitudes)  # the mode over the log of the amplitude
    found = fit.model.joint.blocks[-1].prior.scale
    best = amplitudes[np.argmax(log_p)]
    # the grid has steps of 0.001
    assert found == pytest.approx(best, rel=2e-3)


def test_a_group_normal_prior_is_multiplied_as_its_covariance():
    root = ((1.5, 0.0), (0.4, 0.8))
    prior = priors.GroupNormal(root, 3).times(2.0)
    S = 4.0 * np.array(root) @ np.array(root).T
    beta = np.random.default_rng(0).normal(size=(6, 1))
    expected = multivariate_normal(np.zeros(6), np.kron(np.eye(3), S)).logpdf(beta.T)
    assert prior.log_prob(beta) == pytest.approx(expected, rel=1e-12)


def test_groups_of_unknown_scale_count_the_root_of_their_size():
    prior = priors.GroupLaplace(pr.HalfNormal(1.0), (("x", "z"),), root_size=True)
    bound = pr.Model.from_formula("y ~ x + z", ROWS, prior=prior).joint.blocks[-1].prior
    np.testing.assert_allclose(bound.base.scales, 2.0**-0.5, rtol=1e-15)
    assert bound.tau == pr.HalfNormal(1.0)


def test_priors_of_each_predictor_are_rescaled_and_made_proper():
    options = {"likelihood": "categorical"}
    prior = {"x": pr.Normal(pr.HalfNormal(1.0))}
    model = pr.Model.from_formula("c ~ x", ROWS, prior=prior, **options)
    at_scales = pr.fit(model, "evidence").model
    (before,), (after,) = (
        m.prior.values() for m in (at_scales, rescale_original(at_scales, 2.0))
    )
    assert [b.scale for b in after.priors] == [2.0 * a.scale for a in before.priors]
    model = pr.Model.from_formula("c ~ x + (1 + x | g)", ROWS, **options)
    stated, frozen = (
        with_proper_correlations(m)[0].joint.blocks[1:]
        for m in (model, model.with_prior_frozen)
    )
    assert [b.prior.hyper for b in stated] == [b.prior.hyper for b in frozen]


@pytest.mark.slow  # PyTensor compiles a sampler for each
@pytest.mark.parametrize(
    "prior",
    [
        priors.ElasticNet((0.7, 1.0, 2.0), ratio=0.4, location=(1.0, 2.0, 3.0)),
        priors.GroupLaplace((0.5, 1.0, 2.0), ((0, 1),), location=(1.0, 2.0, 3.0)),
    ],
    ids=lambda p: p.name,
)
@pytest.mark.filterwarnings("ignore:Numba will use object mode")
def test_pymc_draws_from_the_prior(prior):
    import pymc as pm

    X = np.random.default_rng(0).normal(size=(5, 3))
    names = ("a", "b", "c")
    model = pr.Model.from_arrays(X, X[:, 0], columns=names, intercept=False, aux={"sigma": 1.0}, prior={names: prior})  # fmt: skip
    with model.to_pymc():
        drawn = pm.sample_prior_predictive(4000, random_seed=1).prior["beta"].values[0]
    own = prior.sample(np.random.default_rng(0), (4000, 3, 1))[..., 0]
    sd = own.std(0)
    np.testing.assert_allclose(drawn.mean(0), own.mean(0), atol=0.1 * sd.max())
    np.testing.assert_allclose(drawn.std(0) / sd, 1.0, atol=0.1)  # 4 standard errors
    corner = lambda d: np.mean(np.abs((d - [1.0, 2.0, 3.0]) / sd)[:, :2].min(1) < 0.1)
    assert corner(drawn) == pytest.approx(corner(own), abs=0.03)


PAIR = ((1.0, 0.0), (0.0, 1.0))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: pr.Normal.from_ridge(C=2.0, likelihood="bernoulli", l1_ratio=0.5), "weight 0.25"),
        (lambda: pr.Laplace.from_lasso(C=2.0, likelihood="bernoulli", l1_ratio=0.5), "ElasticNet"),
        (lambda: pr.Normal.from_ridge(alpha=np.nan), "alpha = nan"),
        (lambda: pr.Normal(location=(1.0, 2.0, 3.0), precision_matrix=PAIR).size, "3 locations"),
        (lambda: priors.MultivariateNormal(((0.0, 1.0),), precision=((1.0,),)), r"\(1, 2\) and \(1, 1\)"),
        (lambda: priors.GroupLaplace(1.0, 5), "groups= .* got 5"),
        (lambda: model_of("y ~ x", {"x": pr.Covariance(sd=1.0)}), "x are not the columns"),
        (lambda: model_of("y ~ x", {"x": priors.GaussianProcess()}), "x are not the columns"),
        (lambda: priors.MultivariateNormal(PAIR, precision=np.eye(4)).log_prob(np.zeros((2, 1))), r"\(2, 2\) coefficients"),
        (lambda: priors.Uniform(0.5, np.inf).pymc("sigma"), "finite upper bound"),
    ],
)  # fmt: skip
def test_priors_that_do_not_fit_are_named(make, message):
    with pytest.raises(DataError, match=message):
        make()


def model_of(formula, prior):
    return pr.Model.from_formula(formula, ROWS, prior=prior)


def test_a_sum_of_a_kernel_and_a_text_is_a_type_error():
    for wrong in (lambda: RBF() + "x", lambda: "x" + RBF(), lambda: RBF() * "x"):
        with pytest.raises(TypeError):
            wrong()
    with pytest.raises(DataError, match="0 at every row"):
        kernels.exact(Linear(), np.zeros((3, 1)))


@pytest.mark.parametrize("length", [0.6, 1.19, 2.0, 2.83])
@pytest.mark.parametrize("n", [25, 60])
def test_the_variance_of_a_slope_is_left_up_to_rounding(n, length):
    x = np.random.default_rng(n).normal(size=(n, 1))
    basis = root_at_rows(RBF(length), x)[0]
    h = 1 / 8192
    slopes = RowSums(np.tile([4096.0, -4096.0], (n, 1)), np.stack([x + h, x - h], 1))
    left = np.diagonal(covariance_left(basis, slopes, csc_array(np.eye(n))))
    # cov(f'(x), f(a)) = -(x - a) k(x, a) / length^2 and T T' = k(a, a)^-1
    across = -(x - basis.anchors.T) / length**2 * RBF(length)(x, basis.anchors)
    expected = 1 / length**2 - np.square(across @ np.asarray(basis.T)).sum(1)
    # terms of 8192^2 cancel, up to a rounding error of 32 eps of them
    np.testing.assert_allclose(left, expected, atol=32 * 8192**2 * 2.2e-16)


def test_slopes_of_a_process_of_unknown_length_are_averaged():
    rng = np.random.default_rng(0)
    x, z = rng.normal(size=25), np.random.default_rng(1).normal(size=25)
    prior = priors.GaussianProcess(amplitude=pr.HalfNormal(1.0), length=priors.LogNormal(0.5))  # fmt: skip
    data = {"x": x, "z": z, "y": np.sin(x) + z}
    term = "gp(x, basis='exact')"
    model = pr.Model.from_formula(f"y ~ z + {term}", data, prior={term: prior}, aux={"sigma": 0.3})  # fmt: skip
    table = pr.slopes(pr.fit(model, "integrate", seed=1)).table
    slope = table.loc[table["variable"] == "x", "estimate"].item()
    assert slope == pytest.approx(np.cos(x).mean(), abs=0.1)  # its sd is 0.1


def test_a_process_of_values_becomes_one_of_a_known_function():
    rng = np.random.default_rng(0)
    x = rng.normal(size=25)
    y = np.sin(x) + 0.3 * rng.normal(size=25)
    term = "gp(x, basis='exact')"
    unknown = priors.GaussianProcess(amplitude=pr.HalfNormal(1.0), length=priors.LogNormal(0.5))  # fmt: skip
    model = pr.Model.from_formula(f"y ~ 0 + {term}", {"x": x, "y": y}, prior={term: unknown}, aux={"sigma": 0.3})  # fmt: skip
    integrated = pr.fit(model, "integrate", seed=1).model
    known = {term: priors.GaussianProcess(amplitude=1.0, length=None)}
    fit = pr.fit(integrated.with_prior(known))
    kernel = fit.model.design.process_of(fit.model.joint.blocks[-1].columns).basis.kernel  # fmt: skip
    K = kernel(x, x)
    expected = K @ np.linalg.solve(K + 0.09 * np.eye(25), y)
    np.testing.assert_allclose(fit.predict()["mean"].values, expected, atol=1e-9)


@pytest.mark.parametrize(
    ("formula", "has_note"),
    [("y ~ 1", True), ("y ~ s(x, k=5)", True), ("y ~ x", False), ("y ~ 0 + f", False)],
)
def test_a_prior_that_no_column_takes_is_noted(formula, has_note, tmp_path):
    rng = np.random.default_rng(0)
    data = {"x": rng.normal(size=30), "f": [*"abc"] * 10, "y": rng.normal(size=30)}
    model = pr.Model.from_formula(formula, data, prior=pr.Normal(0.5))
    fit = pr.fit(model)
    saved = pr.load_fit(fit.save(tmp_path / "fit.nc"))
    for notes in (fit.all_notes, saved.all_notes):
        found = [str(n) for n in notes if "no column takes the prior" in str(n)]
        assert len(found) == has_note
        assert all("Normal(0.5)" in text for text in found)
    assert pr.fit(model.with_prior(pr.Flat())).model.design.notes == ()
    assert pr.fit(pr.Model.from_formula(formula, data)).model.design.notes == ()
