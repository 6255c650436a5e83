"""Laws of processes with unknown hyperparameters: slopes, the same evidence by every way, the same posterior by nodes and chains."""

import re
import sys
from dataclasses import replace

import numpy as np
import pytest

import probreg as pr
from probreg.comparison.differences import same_prior
from probreg.diagnostics.after.prior import (
    PowerScalingDiagnostic,
    power_scaling,
    sensitivity,
)
from probreg.errors import Incompatible
from probreg.inference import Draws, Integrate
from probreg.inference.exact.evidence_problem import EvidenceProblem
from probreg.inference.exact.process_surface import ProcessSurface, RebasedSurface
from probreg.inference.sampling.convergence import with_served_lengths
from probreg.kernels import RBF, Matern, Periodic, RationalQuadratic
from probreg.model.descriptions import prior_line
from probreg.model.draws import log_prior_of_draws, needed_hyper
from probreg.model.term_priors import LARGEST_SINE_ERROR
from probreg.priors import GaussianProcess, HalfNormal, LogNormal, Normal

from .cases import Array, gradient

RNG = np.random.default_rng(3)
X = np.sort(RNG.uniform(0.0, 3.0, 40))
Z = RNG.uniform(0.0, 2.0, 40)
Y = np.sin(3.0 * X) + 0.5 * Z + 0.3 * RNG.standard_normal(40)
DATA = {
    "x": X,
    "z": Z,
    "y": Y,
    "b": (Y > 0.3).astype(int),
    "k": RNG.poisson(np.exp(0.5 + Y / 2)),
}
KERNELS = [
    RBF(0.7),
    Matern(0.8, nu=2.5),
    RationalQuadratic(0.7, alpha=1.5),
    2.0 * RBF(0.4) + Periodic(1.5, 1.0),
]


def model_of(formula: str = "y ~ gp(x)", **more) -> pr.Model:
    return pr.Model.from_formula(formula, DATA, **more)


def dense(model: pr.Model, V: Array) -> float:
    """The restricted likelihood of y ~ N(F b, V), b flat, by plain inverses."""
    F, y = model.design.X[:, model.design.is_intercept], model.design.observed
    W = np.linalg.inv(V)
    A = F.T @ W @ F
    r = y - F @ np.linalg.solve(A, F.T @ W @ y)
    logs = np.linalg.slogdet(V)[1] + np.linalg.slogdet(A)[1]
    return float(-0.5 * ((len(y) - F.shape[1]) * np.log(2 * np.pi) + logs + r @ W @ r))


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_the_evidence_of_a_process_is_that_of_its_rows(kernel):
    others = dict.fromkeys(
        [n for n in kernel.hyper if "length" not in n], HalfNormal(2.0)
    )
    model = model_of(
        prior={
            "gp(x)": GaussianProcess(kernel, HalfNormal(2.0), HalfNormal(1.0), others)
        }
    )
    surface = EvidenceProblem(model, False).surface
    assert isinstance(surface, ProcessSurface)
    theta = np.log([1.3, *(1.1 * v for v in kernel.hyper.values()), 0.4])
    at = surface(theta)
    names = list(model.joint.blocks[-1].prior.hyper)[1:]
    k = kernel.at(**dict(zip(names, np.exp(theta[1:-1]).tolist())))
    V = 1.3**2 * k(X) + 0.4**2 * np.eye(len(X))
    assert at.evidence == pytest.approx(dense(model, V), rel=1e-11)
    assert surface.values(theta[None])[0] == pytest.approx(at.value, rel=1e-13)
    np.testing.assert_allclose(
        at.gradient,
        gradient(lambda t: surface(t).value, theta, 4e-4),
        rtol=1e-6,
        atol=1e-6,
    )


@pytest.mark.parametrize(
    "kernel", [RBF(0.8), Matern(0.8, nu=2.5), Matern(0.8, nu=0.5)], ids=str
)
def test_standard_deviations_of_sines_in_symbols_are_those_in_numbers(kernel):
    pt = pytest.importorskip("pytensor.tensor")
    prior = GaussianProcess(kernel, HalfNormal(2.0), LogNormal(0.2))
    model = model_of("y ~ gp(x, basis='hsgp')", prior={"gp(x)": prior})
    block = model.joint.blocks[-1].prior
    values = {"amplitude": 1.3, "length": 0.7}
    symbols = {name: pt.as_tensor(value) for name, value in values.items()}
    found = block.spread(**symbols).eval()
    expected = block.given(**values).independent(len(found))
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_a_process_without_a_symbolic_density_has_no_pymc_model():
    prior = GaussianProcess(RBF(0.7) + Matern(1.2, nu=1.5), length=LogNormal(0.2))
    model = model_of("y ~ gp(x, basis='hsgp')", prior={"gp(x)": prior})
    with pytest.raises(Incompatible, match=r"not written in symbols.*or 'rbf'"):
        model.to_pymc()


@pytest.mark.parametrize("weights", ["frequency", "precision"])
def test_weights_of_a_process_count_rows_and_noise(weights):
    """Frequencies are rows that stand several times; precisions divide the variance of the noise."""
    w = np.r_[np.ones(20), np.full(20, 2.0)]
    given = w if weights == "frequency" else pr.weights.precision(w)
    model = model_of(weights=given, prior={"gp(x)": GaussianProcess()})
    theta = np.log([1.2, 0.5, 0.4])
    surface = EvidenceProblem(model, False).surface
    if weights == "precision":
        V = 1.2**2 * RBF(0.5)(X) + 0.4**2 * np.diag(1.0 / w)
        expected = dense(model, V)
    else:
        rows = {name: np.repeat(values, w.astype(int)) for name, values in DATA.items()}
        expected = (
            EvidenceProblem(pr.Model.from_formula("y ~ gp(x)", rows), False)
            .surface(theta)
            .evidence
        )
    assert surface(theta).evidence == pytest.approx(expected, rel=1e-11)
    np.testing.assert_allclose(
        surface(theta).gradient,
        gradient(lambda t: surface(t).value, theta),
        rtol=1e-6,
        atol=1e-6,
    )


def test_the_likelihood_of_a_process_with_flat_coefficients_at_their_maximum():
    model = model_of("y ~ z + gp(x)")
    surface, theta = (
        EvidenceProblem(model, False, criterion="ML").surface,
        np.log([1.2, 0.5, 0.4]),
    )
    V = 1.2**2 * RBF(0.5)(X) + 0.4**2 * np.eye(40)
    F, W = model.design.X[:, :2], np.linalg.inv(V)
    r = Y - F @ np.linalg.solve(F.T @ W @ F, F.T @ W @ Y)
    assert surface(theta).evidence == pytest.approx(
        -0.5 * (40 * np.log(2 * np.pi) + np.linalg.slogdet(V)[1] + r @ W @ r), rel=1e-11
    )
    np.testing.assert_allclose(
        surface(theta).gradient, gradient(lambda t: surface(t).value, theta), atol=1e-6
    )


def test_sines_have_the_evidence_of_their_process():
    theta = np.log([1.2, 0.5, 0.4])
    exact = EvidenceProblem(model_of(), False).surface(theta)
    near = EvidenceProblem(model_of("y ~ gp(x, basis='hsgp')"), False).surface
    at = near(theta)
    assert at.evidence == pytest.approx(exact.evidence, abs=1e-4)
    np.testing.assert_allclose(
        at.gradient, gradient(lambda t: near(t).value, theta), rtol=1e-7, atol=1e-7
    )
    np.testing.assert_allclose(
        at.hessian, gradient(lambda t: near(t).gradient, theta), rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("likelihood", ["bernoulli", "poisson"])
@pytest.mark.parametrize("basis", ["exact", "hsgp"])
def test_slopes_of_the_approximate_evidence_of_a_process(likelihood, basis):
    y = {"bernoulli": "b", "poisson": "k"}[likelihood]
    model = model_of(f"{y} ~ gp(x, basis='{basis}')", likelihood=likelihood)
    surface, theta = EvidenceProblem(model, False).surface, np.log([1.2, 0.5])
    assert isinstance(surface, RebasedSurface) == (basis == "exact")
    np.testing.assert_allclose(
        surface(theta).gradient,
        gradient(lambda t: surface(t).value, theta, 0.02),
        rtol=2e-5,
        atol=2e-5,
    )


def test_a_process_by_maximum_likelihood_is_at_its_mode_given_flat_coefficients():
    rng = np.random.default_rng(3)
    x = rng.uniform(-2.0, 2.0, 50)
    data = {"x": x, "k": rng.poisson(np.exp(np.sin(2.0 * x) + 1.0))}
    model = pr.Model.from_formula("k ~ gp(x, basis='hsgp')", data, likelihood="poisson")
    fit = pr.fit(model, pr.Evidence(criterion="ML"))
    slope = fit.model.gradient(fit.solution.beta)
    errors = np.sqrt(np.diag(np.linalg.inv(fit.model.information(fit.solution.beta))))
    assert (np.abs(slope[1:]) * errors[1:]).max() < 1e-4


def test_every_basis_finds_the_length_of_the_exact_one():
    found = {}
    for basis in ("exact", "cholesky", "hsgp"):
        fit = pr.fit(model_of(f"y ~ gp(x, basis='{basis}')"), "evidence")
        (term,) = fit.model.design.recipe.processes.values()
        found[basis] = [
            term.basis.kernel.hyper["length"],
            fit.model.joint.blocks[-1].prior.scale,
            fit.aux["sigma"],
        ]
    np.testing.assert_allclose(found["cholesky"], found["exact"], rtol=1e-3)
    np.testing.assert_allclose(found["hsgp"], found["exact"], rtol=1e-3)


def test_a_basis_of_few_anchors_does_not_overstate_its_evidence():
    """Titsias' bound is below the evidence of the process, which the columns alone may exceed; its slopes are exact."""
    model = model_of(
        "y ~ gp(x, length=0.3, basis='cholesky', size=7)",
        prior={"gp(x)": Normal(HalfNormal(1.0))},
    )
    surface, theta = EvidenceProblem(model, False).surface, np.log([1.0, 0.35])
    V = 1.0 * RBF(0.3)(X) + 0.35**2 * np.eye(40)
    (term,) = model.design.recipe.processes.values()
    phi = term.basis.columns_at(X)
    left = np.trace(RBF(0.3)(X) - phi @ phi.T)
    below = dense(model, phi @ phi.T + 0.35**2 * np.eye(40)) - 0.5 * left / 0.35**2
    assert surface(theta).evidence == pytest.approx(below, rel=1e-10)
    assert below < dense(model, V)
    np.testing.assert_allclose(
        surface(theta).gradient, gradient(lambda t: surface(t).value, theta), rtol=1e-7
    )


@pytest.mark.parametrize("likelihood", ["gaussian", "negative_binomial"])
def test_a_nearly_linear_function_has_a_fit_that_can_be_saved(likelihood, tmp_path):
    """Its length is long, so the density at most frequencies of the sines is below 1e-150."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=80)
    mean = np.exp(x / 2)
    y = {
        "gaussian": x + rng.normal(size=80),
        "negative_binomial": rng.negative_binomial(2, 2 / (2 + mean)),
    }[likelihood]
    model = pr.Model.from_formula(
        "y ~ gp(x, basis='hsgp')", {"x": x, "y": y}, likelihood=likelihood
    )
    basis = model.joint.blocks[-1].prior.basis
    assert np.ptp(np.log(basis.roots(length=100.0))) == pytest.approx(23.0)
    fit = pr.fit(model)
    assert fit.solution.status.good
    back = pr.load_fit(fit.save(tmp_path / "fit.json"))
    np.testing.assert_array_equal(back.std_error, fit.std_error)


def test_methods_that_cannot_make_columns_anew_say_so():
    for method in ("nuts", "laplace", "newton", "importance", "conjugate"):
        with pytest.raises(
            pr.Incompatible,
            match=r"cannot estimate the length of gp\(x\).*use\s+evidence, or basis='hsgp'",
        ):
            pr.fit(model_of(), method)


@pytest.mark.parametrize(("centre", "beyond"), [(-0.5, False), (0.5, True)])
def test_a_posterior_at_lengths_that_sines_do_not_serve_is_told(centre, beyond):
    prior = {
        "gp(x)": GaussianProcess(
            amplitude=HalfNormal(1.5), length=LogNormal(0.25, location=centre)
        )
    }
    model = model_of(
        "y ~ gp(x, basis='hsgp')", prior=prior, aux={"sigma": HalfNormal(1.0)}
    )
    fit = pr.fit(model, Integrate(nodes=512, draws=100))
    name = "length[gp(x, basis='hsgp')]"
    told = [note for note in fit.described["notes"] if note.startswith(f"{name}: ")]
    assert bool(told) == beyond
    if beyond:
        basis, drawn = model.joint.blocks[-1].prior.basis, fit.solution.draws.flat[name]
        share = np.mean([basis.error_of(RBF(v)) > LARGEST_SINE_ERROR for v in drawn])
        said = re.search(
            r"(\d+)% of the draws",
            told[0],
        )
        # by 100 of the 400 draws
        assert 0 < int(said[1]) / 100 == pytest.approx(share, abs=0.011)
        by_chain = with_served_lengths(
            model,
            replace(fit.solution, notes=(), draws=Draws(fit.solution.draws.values)),
        )
        # whatever made the draws
        assert [str(note) for note in by_chain.notes] == [told[0]]


def test_a_length_found_beyond_what_sines_serve_is_told():
    """Where nothing is stated the shortest length that is served is a twentieth of the range."""
    short = {
        "x": X,
        "y": np.sin(45.0 * X) + 0.05 * np.random.default_rng(1).standard_normal(40),
    }
    found, served = (
        pr.Model.from_formula("y ~ gp(x, basis='hsgp')", rows) for rows in (short, DATA)
    )
    notes = pr.fit(found, "evidence").described["notes"]
    said = [
        re.search(r"sine basis does not cover .* error of (\d+)% of k", note)
        for note in notes
    ]
    (match,) = [m for m in said if m]
    basis = found.joint.blocks[-1].prior.basis
    at = next(
        float(m[1])
        for note in notes
        if (m := re.search(r"length ([\d.e-]+) at the maximum", note))
    )
    assert int(match[1]) / 100 == pytest.approx(basis.error_of(RBF(at)), abs=0.006)
    assert not any(
        "does not cover" in note
        for note in pr.fit(served, "evidence").described["notes"]
    )


@pytest.mark.slow
def test_nodes_follow_a_bent_posterior():
    """About the maximum a few carry the weight: short lengths have a long tail; the next nodes lie where these found the mass."""
    prior = {
        "gp(x)": GaussianProcess(
            amplitude=HalfNormal(1.5), length=LogNormal(0.5, location=-0.5)
        )
    }
    model = model_of(
        "y ~ gp(x, basis='hsgp')", prior=prior, aux={"sigma": HalfNormal(1.0)}
    )
    found = pr.fit(model, Integrate(draws=250), seed=1)
    assert found.solution.stats["k_hat"] < 0.5
    # the mean of log length by a plain grid over the three logs
    surface = EvidenceProblem(model, False).surface
    axes = np.meshgrid(
        np.linspace(-2.5, 2.5, 21),
        np.linspace(-3.0, 1.5, 29),
        np.linspace(-1.8, 0.3, 17),
        indexing="ij",
    )
    theta = np.stack([a.ravel() for a in axes], 1)
    value = surface.values(theta)
    weight = np.exp(value - value.max())
    mean = weight @ theta[:, 1] / weight.sum()
    sd = np.sqrt(weight @ (theta[:, 1] - mean) ** 2 / weight.sum())
    drawn = np.log(found.solution.draws.flat[found.solution.draws.hyper[1]])
    assert drawn.mean() == pytest.approx(mean, abs=0.1 * sd)
    assert drawn.std() == pytest.approx(sd, rel=0.08)


def test_a_hyperparameter_of_sines_that_is_no_length():
    kernel = RBF(0.7) + 1.5 * RBF(2.0)
    prior = {
        "gp(x)": GaussianProcess(
            kernel, HalfNormal(2.0), None, {"scaled.variance": HalfNormal(2.0)}
        )
    }
    sines, exact = (
        model_of(f"y ~ gp(x, basis='{b}')", prior=prior) for b in ("hsgp", "exact")
    )
    theta = np.log([1.2, 1.5, 0.4])
    near, there = (
        EvidenceProblem(m, False).surface(theta).evidence for m in (sines, exact)
    )
    assert near == pytest.approx(there, abs=0.1)


def test_an_unknown_length_needs_rows_in_memory(tmp_path):
    path = tmp_path / "rows.csv"
    np.savetxt(path, np.column_stack([X, Y]), delimiter=",", header="x,y", comments="")
    with pytest.raises(
        pr.errors.DataError,
        match="cannot be unknown where rows are read in blocks: state it",
    ):
        pr.Model.from_files("y ~ gp(x, basis='hsgp')", path)


@pytest.mark.slow
def test_functions_with_other_columns_stand_in_one_table():
    """What is not of the functions is compared; they are, by their degrees of freedom."""
    prior = {
        "gp(x)": GaussianProcess(
            amplitude=HalfNormal(2.0), length=LogNormal(0.5, location=-0.5)
        )
    }
    sines = model_of("y ~ z + gp(x, basis='hsgp')")
    fits = {
        "line": pr.fit(model_of("y ~ z")),
        "smooth": pr.fit(model_of("y ~ z + s(x)")),
        "process": pr.fit(sines),
        "posterior": pr.fit(
            sines.with_prior(prior).with_aux(sigma=HalfNormal(1.0)), "posterior"
        ),
    }
    table = pr.compare(fits)
    assert table.data["param"].values.tolist() == ["Intercept", "z", "sigma"]
    for name, fit in fits.items():
        assert (
            table.data["estimate"].sel(fit=name, param="z").item()
            == fit.coef.sel(coef="z").item()
        )
    assert set(table.smooths.index.get_level_values("fit")) == {
        "smooth",
        "process",
        "posterior",
    }
    assert "its coefficients are left out" in repr(table)
    without = pr.compare(
        {"with": fits["smooth"], "without": pr.fit(model_of("y ~ s(x)"))}
    )
    assert np.isnan(without.data["estimate"].sel(fit="without", param="z"))
    assert set(without.causes["cause"]) >= {"columns"}
    assert "smooth functions" not in set(without.causes["cause"])


@pytest.mark.parametrize(
    ("likelihood", "amplitude", "y"),
    [
        ("poisson", 1.0, [6, 9, 10, 11, 10, 8, 5, 3, 1, 1, 2, 5]),
        ("gamma", HalfNormal(2.0), [7, 6, 12, 13, 9, 8, 5, 2, 2, 1, 3, 3]),
    ],
)
def test_exact_columns_have_the_evidence_of_sines(likelihood, amplitude, y):
    """Few rows at equal distances, where the least start of a length makes them independent."""
    table = {"x": np.linspace(0.0, 6.0, 12), "y": y}
    fits = [
        pr.fit(
            pr.Model.from_formula(
                f"y ~ gp(x, basis={basis!r})",
                table,
                likelihood=likelihood,
                prior={"gp(x)": GaussianProcess(amplitude=amplitude)},
            )
        )
        for basis in ("exact", "hsgp")
    ]
    exact, sines = [fit.solution.stats["log_evidence"] for fit in fits]
    assert exact == pytest.approx(sines, abs=1e-4)  # the error of the sines


def test_frequencies_of_a_process_that_reproduces_the_response_are_refused():
    with pytest.raises(
        pr.Incompatible, match="the evidence increases as sigma goes to 0"
    ):
        pr.fit(model_of(weights=np.full(40, 2.0)), "evidence")


def test_sigma_alone_at_the_top_of_the_evidence():
    """Columns that can reproduce the response, of a known prior: beta is integrated, and sigma has a maximum."""
    fit = pr.fit(
        model_of("y ~ gp(x, length=0.5)", prior={"gp(x)": Normal(1.0)}), "evidence"
    )
    K = RBF(0.5)(X)
    model = fit.model
    values = [
        dense(model, K + (fit.aux["sigma"] * f) ** 2 * np.eye(40))
        for f in (0.99, 1.0, 1.01)
    ]
    assert values[1] == max(values)
    assert fit.solution.stats["log_evidence"] == pytest.approx(values[1], rel=1e-10)


def test_a_search_settles_where_the_evidence_is_nearly_flat():
    """A straight line in counts: the Hessian that steers has the wrong sign near the maximum."""
    rng = np.random.default_rng(1023)
    x = rng.uniform(0, 1, 100)
    rng.uniform(0, 1, 100), rng.random(100), rng.normal(size=100)
    y = rng.poisson(np.exp(2 * x))
    model = pr.Model.from_formula("y ~ s(x)", {"x": x, "y": y}, likelihood="poisson")
    problem = EvidenceProblem(model, False)
    top = problem.maximise(60)
    values = [problem.surface(top.theta + h).value for h in (-0.5, 0.0, 0.5)]
    assert values[1] == max(values)


def test_a_part_of_a_sum_that_tells_nothing_does_not_keep_a_search_from_its_end():
    others = {"scaled.variance": pr.priors.Reference(), "scaled.length": 4.0}
    prior = {"gp(x)": GaussianProcess(RBF(0.5) + 1.0 * Matern(4.0), others=others)}
    both, one = (
        pr.fit(model_of(prior=p), "evidence")
        for p in (prior, {"gp(x)": GaussianProcess()})
    )
    assert (
        both.solution.stats["log_evidence"] >= one.solution.stats["log_evidence"] - 1e-6
    )


def test_a_report_says_what_of_a_process_is_unknown() -> None:
    prior = pr.priors.GaussianProcess(
        amplitude=pr.priors.HalfNormal(2.0),
        length=pr.priors.LogNormal(0.5, location=0.5),
    )
    table = {"x": np.arange(9.0), "y": np.arange(9.0) % 4.0}
    model = pr.Model.from_formula(
        "y ~ gp(x, basis='hsgp')", table, prior={"gp(x)": prior}
    )
    unknown = "amplitude ~ HalfNormal(2), length ~ LogNormal(scale=0.5, location=0.5)"
    assert prior_line(model) == f"Gaussian process, {unknown} on gp(x, basis='hsgp')"


@pytest.mark.slow
def test_a_start_that_wanders_on_a_plain_does_not_hide_the_top() -> None:
    """From the longest start the lengths of these rows run to zero, where the evidence is level and below the top."""
    rows = pr.load_dataset("motorcycle")
    for options in ("", ", range=(0, 70)"):
        found = pr.fit(
            pr.Model.from_formula(f"accel ~ gp(times, basis='hsgp'{options})", rows)
        )
        assert found.solution.stats["log_evidence"] == pytest.approx(-617.032, abs=1e-3)
        assert found.aux["sigma"] == pytest.approx(22.553, abs=1e-3)


@pytest.fixture(scope="module")
def drawn() -> pr.Fit:
    prior = {
        "gp(x)": GaussianProcess(
            amplitude=HalfNormal(2.0), length=LogNormal(0.5, location=0.5)
        )
    }
    model = model_of(
        "y ~ z + gp(x, basis='hsgp')", prior=prior, aux={"sigma": HalfNormal(1.0)}
    )
    return pr.fit(model, Integrate(draws=200), seed=1)


def test_the_log_prior_of_a_draw_is_that_of_its_coefficients_given_its_hyperparameters(
    drawn,
) -> None:
    model, draws = drawn.model, drawn.solution.draws.flat
    (i, names), *_ = needed_hyper(model).items()
    block = model.joint.blocks[i]
    found = log_prior_of_draws(model, draws)
    for s in (0, 7, 150):
        h = {name: float(draws[called][s]) for name, called in names.items()}
        beta = draws["beta"][s][list(block.columns), 0]
        D = h["amplitude"] * np.sqrt(
            RBF(h["length"]).spectral_density(block.prior.basis.frequencies)
        )
        D = np.maximum(D, np.exp(-23.0) * D.max())
        given = np.sum(-0.5 * (beta / D) ** 2 - np.log(D) - 0.5 * np.log(2.0 * np.pi))
        assert block.prior.given(**h).log_prob(beta[:, None]) == pytest.approx(
            given, rel=1e-9
        )
        each = [given, HalfNormal(1.0).log_prob(draws["sigma"][s])]
        each += [
            HalfNormal(2.0).log_prob(h["amplitude"]),
            LogNormal(0.5, location=0.5).log_prob(h["length"]),
        ]
        assert found[s] == pytest.approx(sum(map(float, each)), rel=1e-9)


def test_a_posterior_of_a_process_comes_back_from_its_file(drawn, tmp_path) -> None:
    drawn.save(tmp_path / "fit.nc")
    again = pr.load_fit(tmp_path / "fit.nc")
    for name, values in drawn.solution.draws.values.items():
        np.testing.assert_array_equal(again.solution.draws[name], values)
    tree, back = drawn.tree, again.tree
    total = sum(
        values.values
        for group in ("log_prior", "log_prior_of_effects")
        for values in tree[group].data_vars.values()
    )
    np.testing.assert_allclose(
        total.ravel(),
        log_prior_of_draws(drawn.model, drawn.solution.draws.flat),
        rtol=1e-10,
    )
    for group in ("log_prior", "log_prior_of_effects"):
        for name in tree[group].data_vars:
            np.testing.assert_allclose(
                back[group][name].values, tree[group][name].values, rtol=1e-12
            )
    draws = drawn.solution.draws.flat
    lp = drawn.model.log_lik(draws["beta"], sigma=draws["sigma"]) + log_prior_of_draws(
        drawn.model, draws
    )
    np.testing.assert_allclose(tree["sample_stats"]["lp"].values.ravel(), lp)


def test_power_scaling_of_a_process_is_of_its_hyperparameters_and_not_of_its_columns(
    drawn,
) -> None:
    table, draws = power_scaling(drawn), drawn.solution.draws
    assert list(table.index) == ["Intercept", "z", "sigma", *draws.hyper]
    values = np.column_stack([draws.flat[name] for name in draws.hyper])
    hyper = drawn.model.joint.blocks[-1].prior.hyper
    log_p = sum(
        h.prior.log_prob(draws.flat[name])
        for h, name in zip(hyper.values(), draws.hyper)
    )
    log_p = log_p + HalfNormal(1.0).log_prob(draws.flat["sigma"])
    expected = sensitivity(values, log_p)
    np.testing.assert_allclose(table.loc[list(draws.hyper), "prior"], expected)
    assert (table["prior"] > 0).all()
    assert {f.check for f in PowerScalingDiagnostic().run(drawn)} == {"power_scaling"}


def test_of_hyperparameters_it_is_not_said_that_the_data_hardly_move_the_function(
    drawn, monkeypatch
) -> None:
    table = power_scaling(drawn).assign(
        prior=0.2, likelihood=0.01, reading="the prior alone decides"
    )
    # whose name its function has too
    module = sys.modules[PowerScalingDiagnostic.__module__]
    monkeypatch.setattr(module, "power_scaling", lambda fit: table)
    alone, above = PowerScalingDiagnostic().run(drawn)
    assert set(alone.columns) == {"Intercept", "z", "sigma"}
    assert set(above.columns) == set(drawn.solution.draws.hyper)
    assert above.verdict.name == "NOTE"


def test_a_process_is_one_thing_beside_its_prior(drawn) -> None:
    (size,) = drawn.smooths["tau"].iloc[0]
    assert size == pytest.approx(
        drawn.solution.draws[drawn.solution.draws.hyper[0]].mean()
    )
    found = pr.prior_weight(drawn)
    assert list(found.table.index) == ["Intercept", "z"]
    with pytest.raises(Incompatible, match="flat or belong to smooth functions"):
        pr.plot.prior_weight(drawn)
    prior = {"z": Normal(1.0), "gp(x)": Normal(1.0)}
    both = pr.fit(
        model_of(
            "y ~ z + gp(x, basis='hsgp', length=0.5)", prior=prior, aux={"sigma": 0.3}
        )
    )
    assert [
        ax.get_title(loc="left")
        for ax in pr.plot.prior_weight(both).axes
        if ax.get_visible()
    ] == ["z"]


def test_processes_of_other_priors_are_compared_without_their_density(drawn) -> None:
    prior = {
        "gp(x)": GaussianProcess(
            amplitude=HalfNormal(1.0), length=LogNormal(0.5, location=0.5)
        )
    }
    other = pr.fit(
        model_of(
            "y ~ z + gp(x, basis='hsgp')", prior=prior, aux={"sigma": HalfNormal(1.0)}
        ),
        Integrate(draws=200),
    )
    assert same_prior(drawn, drawn)
    assert not same_prior(drawn, other)


def test_processes_with_all_else_held_are_compared() -> None:
    prior = GaussianProcess(amplitude=1.0, length=0.5)
    formulas = {b: f"y ~ gp(x, basis='{b}') - 1" for b in ("exact", "hsgp")}
    fits = {
        b: pr.fit(model_of(f, prior={f"gp(x, basis='{b}')": prior}, aux={"sigma": 0.3}))
        for b, f in formulas.items()
    }
    said = str(pr.compare(fits))
    assert "no intervals" in said
    assert re.search(r"sigma .* 0\.3 +fixed", said)


@pytest.mark.filterwarnings("ignore:standard errors treat the scales as known")
@pytest.mark.parametrize("seed", [6, 15])
def test_the_process_of_a_straight_line_is_the_line(seed: int) -> None:
    """The evidence increases with the length to its limit; for the second seed rounding ends the search."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=300)
    data = {"x": x, "y": x + rng.normal(size=300)}
    fit = pr.fit(pr.Model.from_formula("y ~ gp(x)", data))
    assert any("larger values of length hardly change" in str(n) for n in fit.notes)
    line = pr.fit(pr.Model.from_formula("y ~ x", data))
    new = {"x": np.array([-2.0, 0.0, 2.0])}
    found, expected = (f.predict(new)["mean"].values for f in (fit, line))
    np.testing.assert_allclose(found, expected, atol=0.01)
