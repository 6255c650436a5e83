"""No fit at scales found by evidence has a higher criterion at moved scales, correlations or nuisance parameters."""

import itertools

import numpy as np
import pytest

import probreg as pr
from probreg.inference.base import Status
from probreg.inference.exact.evidence_problem import EvidenceProblem
from probreg.inference.varying import FoundScales
from probreg.likelihoods import Likelihood, SmoothLikelihood
from probreg.priors import Normal

from .cases import LIKELIHOOD_CASES, Array, auxiliaries, given_for, named, recipe_of

SMOOTH = [
    likelihood
    for likelihood in LIKELIHOOD_CASES
    if isinstance(likelihood, SmoothLikelihood)
    and likelihood.curvature_has_slope
    and not likelihood.levels
    # the curvature of Huber's loss jumps where a residual passes k, and log |H| with it
    and not isinstance(likelihood, pr.likelihoods.Huber)
]
TERMS = {
    "(1 | g)": "y ~ x + (1 | g)",
    "(x | g)": "y ~ x + (x | g)",
    "nested": "y ~ x + (1 | g / h)",
    "s(x)": "y ~ s(x, k=6)",
    "gp(x)": "y ~ gp(x, basis='hsgp')",
    "unknown scale": "y ~ x + z",
}
G, EACH = 12, 8


def table_for(likelihood: Likelihood, seed: int = 2) -> dict[str, Array]:
    """Rows of 12 groups, each of two parts, with effects of both."""
    rng = np.random.default_rng(seed)
    g = np.repeat(np.arange(G), EACH)
    h = g * 2 + np.tile(np.repeat([0, 1], EACH // 2), G)
    x, z = rng.uniform(-1.5, 1.5, len(g)), rng.normal(size=len(g))
    m = likelihood.width
    effects = (
        rng.normal(size=(G, m))[g]
        + 0.6 * rng.normal(size=(2 * G, m))[h]
        + 0.5 * x[:, None] * rng.normal(size=(G, m))[g]
    )
    eta = 0.4 + np.sin(2 * x)[:, None] + 0.3 * z[:, None] + 0.8 * effects
    y = likelihood.sample(
        rng, eta, **auxiliaries(likelihood), **given_for(likelihood, len(g))
    )
    y = y if y.ndim == 1 else y[:, 0]  # of aggregated trials the successes
    return {"y": y, "x": x, "z": z, "g": g.astype(str), "h": h.astype(str)}


def moves_of(found: FoundScales, rng: np.random.Generator) -> Array:
    """Random moves of all coordinates, one in three of a single one, of sizes between 0.01 and 1 standard errors or logs."""
    size, d = np.sqrt(np.abs(np.diagonal(found.covariance))), len(found.theta)
    size = np.where(np.isfinite(size), np.minimum(size, 1.0), 1.0)
    moves = rng.normal(size=(20, d)) * size * 10.0 ** rng.uniform(-2.0, 0.0, (20, 1))
    moves[::3] *= np.eye(d)[rng.integers(0, d, len(moves[::3]))]
    return moves


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::probreg.errors.ProbregWarning")
@pytest.mark.parametrize(
    ("likelihood", "terms", "criterion"),
    # one in 55, which meets every term and both criteria
    list(itertools.product(SMOOTH, TERMS, ["REML", "ML"]))[::55],
    ids=named,
)
def test_no_fit_has_a_higher_criterion_at_moved_parameters(
    likelihood: Likelihood, terms: str, criterion: str
) -> None:
    require_maximum(likelihood, terms, criterion)


@pytest.mark.parametrize(
    ("likelihood", "terms"),
    [
        (pr.NegativeBinomial(), "(1 | g)"),
        (pr.NegativeBinomial(), "unknown scale"),
        (pr.StudentT(nu=4.0), "s(x)"),
    ],
    ids=named,
)
def test_no_fit_has_a_higher_criterion_at_another_nuisance_parameter(
    likelihood: Likelihood, terms: str
) -> None:
    require_maximum(likelihood, terms, "REML")


def require_maximum(likelihood: Likelihood, terms: str, criterion: str) -> None:
    prior = (
        {("x", "z"): Normal(pr.priors.Reference())} if terms == "unknown scale" else {}
    )
    model = pr.Model.from_formula(
        TERMS[terms], table_for(likelihood), **recipe_of(likelihood), prior=prior
    )
    method = pr.Evidence(criterion=criterion)
    if (why := method.obstacle(model)) is not None:
        pytest.skip(why)
    fit = pr.fit(model, method)
    found = fit.solution.scales
    assert found is not None
    problem = EvidenceProblem(found.stated, False, criterion=criterion)
    surface = problem.surface
    top = surface(found.theta).value
    for move in moves_of(found, np.random.default_rng(5)):
        assert surface(found.theta + move).value <= top + 1e-6 * (1.0 + abs(top))


@pytest.mark.parametrize("terms", ["(1 | g)", "s(x)"])
def test_a_criterion_that_jumps_is_noted_as_a_local_maximum(terms: str) -> None:
    likelihood = pr.likelihoods.Huber()
    table = table_for(likelihood, 3)
    fit = pr.fit(pr.Model.from_formula(TERMS[terms], table, likelihood=likelihood))
    assert any("local maximum" in str(note) for note in fit.notes)
    assert "local maximum" in " ".join(str(fit).split())
    found = fit.solution.scales
    assert found is not None
    surface = EvidenceProblem(found.stated, False).surface
    top = surface(found.theta)
    # smooth between the jumps
    np.testing.assert_allclose(top.gradient, 0.0, atol=1e-4)  # of differences
    moves = moves_of(found, np.random.default_rng(5))
    assert max(surface(found.theta + m).value for m in moves) < top.value + 0.3
    smooth = pr.fit(pr.Model.from_formula(TERMS[terms], table, likelihood="student"))
    assert "jumps" not in str(smooth)


# ---- maxima at infinity ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("terms", ["s(x)", "gp(x, basis='hsgp')"])
def test_a_function_that_separates_the_classes_has_no_estimate_of_its_scale(
    terms: str,
) -> None:
    x = np.linspace(-1, 1, 40)
    data = {"x": x, "y": (np.abs(x) > 0.5).astype(int)}
    with pytest.warns(pr.errors.ProbregWarning, match="without bound"):
        fit = pr.fit(
            pr.Model.from_formula(f"y ~ {terms}", data, likelihood="bernoulli")
        )
    assert fit.solution.status is Status.SCALE_AT_INFINITY
    assert not fit.solution.status.good
    with pytest.raises(pr.errors.NotConverged, match="proper prior"):
        fit.predict({"x": [0.0, 0.2]})


@pytest.mark.parametrize("terms", ["s(x)", "z + s(x)", "s(x) + (1 | g)"])
@pytest.mark.parametrize("seed", [1, 5])
def test_scales_of_separated_classes_end_where_the_evidence_still_has_digits(
    terms: str, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(0, 1, 40))
    data = {
        "x": x, "y": (np.sin(11 * x + seed) > 0) * 1, "z": rng.normal(size=40), "g": np.repeat(list("abcdefgh"), 5)
    }  # fmt: skip
    with pytest.warns(pr.errors.ProbregWarning, match="without bound"):
        fit = pr.fit(
            pr.Model.from_formula(f"y ~ {terms}", data, likelihood="bernoulli")
        )
    assert fit.solution.status is Status.SCALE_AT_INFINITY


def test_a_proper_prior_of_the_scale_is_the_remedy_for_separated_classes() -> None:
    x = np.linspace(-1, 1, 40)
    data = {"x": x, "y": (np.abs(x) > 0.5).astype(int)}
    prior = {"s(x)": Normal(pr.HalfNormal(2.0))}
    fit = pr.fit(
        pr.Model.from_formula("y ~ s(x)", data, likelihood="bernoulli", prior=prior),
        "evidence",
    )
    assert fit.solution.status.good
    assert np.isfinite(fit.predict({"x": [0.0]})["mean"]).all()


@pytest.mark.parametrize(
    ("formula", "likelihood"),
    [
        ("y ~ s(x, k=6)", "gamma"),
        ("y ~ s(x, k=6)", "negative_binomial"),
        ({"y": "y ~ s(x, k=6)", "log sigma": "~ s(z, k=5)"}, "gaussian"),
        ("y ~ x + (1 | g)", "gamma"),
        ("y ~ x + (1 | g) + (1 | h)", "poisson"),
    ],
)
@pytest.mark.parametrize("criterion", ["REML", "ML"])
def test_the_search_ends_within_a_millionth_of_a_standard_error(
    formula: str | dict[str, str], likelihood: str, criterion: str
) -> None:
    rng = np.random.default_rng(4)
    x, z = rng.uniform(-1.5, 1.5, (2, 96))
    g, h = np.repeat(np.arange(12), 8), np.tile(np.arange(8), 12)
    mean = np.exp(1.0 + np.sin(2 * x) + 0.5 * rng.normal(size=12)[g])
    y = {
        "gamma": rng.gamma(4.0, mean / 4.0),
        "gaussian": rng.normal(mean, np.exp(0.5 * z)),
    }.get(likelihood, rng.poisson(rng.gamma(4.0, mean / 4.0)))
    data = {"y": y, "x": x, "z": z, "g": g.astype(str), "h": h.astype(str)}
    model = pr.Model.from_formula(formula, data, likelihood=likelihood)
    top = EvidenceProblem(model, False, criterion=criterion).maximise(100)
    free = ~top.vanished
    g, H = top.at.gradient[free], -top.at.hessian[np.ix_(free, free)]
    assert np.sqrt(abs(g @ np.linalg.solve(H, g))) < 1e-6
