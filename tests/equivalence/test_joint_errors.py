"""Standard errors that include the uncertainty of scales against the delta method: refits of the model at other scales."""

from dataclasses import replace

import numpy as np
import pytest

import probreg as pr
from probreg.inference.exact.evidence import joint_covariance
from probreg.inference.exact.evidence_problem import EvidenceProblem, with_values

RNG = np.random.default_rng(8)
N = 60
GROUP = np.repeat(np.arange(10), 6)
X = RNG.uniform(0.0, 10.0, N)
Z = RNG.normal(size=N)
ETA = np.sin(X) + RNG.normal(size=10)[GROUP]
TABLE = {
    "x": X, "z": Z, "g": GROUP, "y": ETA + 0.4 * RNG.normal(size=N), "k": (ETA > 0.0) * 1,
    "u": ETA + RNG.normal(size=10)[GROUP] * Z + 0.4 * RNG.normal(size=N),
    "count": RNG.negative_binomial(2.0, 2.0 / (2.0 + np.exp(2.0 + 1.5 * np.sin(X)))),
    "c": np.array(["a", "b", "c"])[np.digitize(ETA + RNG.logistic(size=N), [-0.7, 0.7])],
}  # fmt: skip
# a function of z that is no straight line, for which amplitude and length would not be determined
TABLE["w"] = TABLE["y"] + np.cos(2.0 * Z)
RIDGE = {"x": pr.Normal(pr.priors.Reference()), "z": pr.Normal(pr.priors.Reference())}
CASES = [  # formula, likelihood, criterion, priors, kind of the default
    ("y ~ s(x)", "gaussian", "REML", {}, "joint"),
    ("y ~ s(x)", "gaussian", "ML", {}, "joint"),
    ("y ~ x + z", "gaussian", "REML", RIDGE, "joint"),
    ("y ~ z + (1 | g)", "gaussian", "REML", {}, "conditional"),
    ("u ~ z + (z | g)", "gaussian", "ML", {}, "conditional"),
    ("y ~ s(x) + z + (1 | g)", "gaussian", "REML", {}, "joint"),
    ("y ~ gp(x)", "gaussian", "REML", {}, "joint"),
    ("y ~ gp(x, basis='cholesky')", "gaussian", "REML", {}, "joint"),
    ("y ~ gp(x, basis='hsgp')", "gaussian", "REML", {}, "joint"),
    ("y ~ z + gp(x) + (1 | g)", "gaussian", "REML", {}, "joint"),
    ("k ~ s(x)", "bernoulli", "REML", {}, "joint"),
    ("k ~ z + (1 | g)", "bernoulli", "REML", {}, "joint"),
    ("k ~ gp(x)", "bernoulli", "REML", {}, "joint"),
    ("k ~ gp(x, basis='hsgp')", "bernoulli", "REML", {}, "joint"),
    ("count ~ s(x)", "negative_binomial", "REML", {}, "joint"),
    ("count ~ gp(x, basis='cholesky')", "negative_binomial", "REML", {}, "joint"),
    ("w ~ gp(x) + gp(z)", "gaussian", "REML", {}, "joint"),
]


def second_derivatives(f, at: np.ndarray, h: float = 0.01) -> np.ndarray:
    """By central differences of values, with an error near 1e-4 of a log."""
    steps = h * np.eye(len(at))
    points = [
        at + a * si + b * sj
        for si in steps
        for sj in steps
        for a, b in ((1, 1), (1, -1), (-1, 1), (-1, -1))
    ]
    value = f(np.array(points)).reshape(len(at), len(at), 4)
    return (value @ [1.0, -1.0, -1.0, 1.0]) / (4.0 * h**2)


# The curvature over the scales is that of one criterion; more terms and likelihoods are refitted below.
CURVED = ("s(x)", "x + z", "z + (1 | g)", "z + (z | g)", "gp(x)", "gp(x, basis='cholesky')", "gp(x) + gp(z)")  # fmt: skip


@pytest.mark.parametrize(
    ("formula", "likelihood", "criterion", "prior", "kind"),
    [
        case
        for case in CASES
        if case[0].partition(" ~ ")[2] in CURVED and case[0][0] in "yuw"
    ]
    + [case for case in CASES if case[0] == "k ~ s(x)"]
    + [pytest.param(*CASES[15], marks=pytest.mark.slow)],
)
def test_joint_errors_are_those_of_the_delta_method(
    formula, likelihood, criterion, prior, kind
):
    model = pr.Model.from_formula(formula, TABLE, likelihood=likelihood, prior=prior)
    fit = pr.fit(model, pr.Evidence(criterion=criterion))
    problem, theta = (
        EvidenceProblem(model, False, criterion=criterion),
        fit.solution.scales.theta,
    )
    problem.surface.choose_at(theta)

    def eta(at: np.ndarray) -> np.ndarray:
        held = problem.model_at(at, theta)
        beta = pr.fit(
            held, "closed_form" if likelihood == "gaussian" else pr.Newton(tol=1e-12)
        ).solution.beta
        return held.design.X @ beta[:, 0]

    free = ~fit.solution.scales.vanished
    V = np.zeros((len(theta), len(theta)))
    V[np.ix_(free, free)] = np.linalg.inv(
        -second_derivatives(problem.surface.values, theta)[np.ix_(free, free)]
    )
    h = 0.003
    J = np.array(
        [
            (eta(theta + h * e) - eta(theta - h * e)) / (2.0 * h)
            for e in np.eye(len(theta))
        ]
    ).T
    X = fit.model.design.X
    joint, conditional = (
        fit.spread(k).matrix.of_rows(X)[:, 0, 0] for k in ("joint", "conditional")
    )
    added = np.einsum("ij,jk,ik->i", J, V, J)
    assert added.max() > 1e-3 * conditional.max()
    np.testing.assert_allclose(
        joint - conditional, added, rtol=0.01, atol=1e-3 * added.max()
    )
    assert fit.covariance().attrs["kind"] == kind
    np.testing.assert_array_equal(fit.covariance(), fit.covariance(kind))
    assert f"{kind} covariance" in repr(fit)


REFITTED = [  # functions of a Cholesky basis leave its columns as their length moves
    *[
        case[:4]
        for case in CASES
        if "cholesky" not in case[0] and case[0] not in ("y ~ gp(x)", "k ~ gp(x)")
    ],
    (
        "y ~ x + z",
        "gaussian",
        "REML",
        {"x": pr.Normal(pr.priors.Reference(), sigma_units=True), "z": pr.Normal(3.0)},
    ),
    (
        "y ~ x + z",
        "gaussian",
        "REML",
        {("x", "z"): pr.priors.GPrior(pr.priors.Reference())},
    ),
    ("k ~ z + (z | g)", "bernoulli", "ML", {}),
    ("count ~ z + (1 | g)", "negative_binomial", "ML", {}),
    ("count ~ x + z", "poisson", "REML", RIDGE),
    ("c ~ x + z", "categorical", "REML", RIDGE),
]


@pytest.mark.parametrize(("formula", "likelihood", "criterion", "prior"), REFITTED)
def test_joint_errors_move_the_mode_as_refits_do(formula, likelihood, criterion, prior):
    fit = pr.fit(
        pr.Model.from_formula(formula, TABLE, likelihood=likelihood, prior=prior),
        pr.Evidence(criterion=criterion),
    )
    scales, X = fit.solution.scales, fit.model.design.X
    problem = EvidenceProblem(scales.stated, False, criterion=criterion)
    problem.surface.choose_at(scales.theta)

    def eta(at: np.ndarray) -> np.ndarray:
        # flat coefficients are coordinates
        if criterion == "ML" and likelihood != "gaussian":
            return X @ problem.surface.estimate(at)[0]
        held = problem.model_at(at, scales.theta)
        method = "closed_form" if likelihood == "gaussian" else pr.Newton(tol=1e-13)
        return held.design.X @ pr.fit(held, method).solution.beta

    def slope(e: np.ndarray, h: float) -> np.ndarray:
        return (eta(scales.theta + h * e) - eta(scales.theta - h * e)) / (2.0 * h)

    # the error of differences is of the fourth order
    J = np.array(
        [
            (4.0 * slope(e, 0.01) - slope(e, 0.02)) / 3.0
            for e in np.eye(len(scales.theta))
        ]
    )
    free = np.isfinite(np.diagonal(scales.covariance))
    joint, conditional = (fit.spread(kind).matrix for kind in ("joint", "conditional"))
    if criterion == "ML" and likelihood != "gaussian":
        conditional = conditional.condition_on(
            np.flatnonzero(~fit.model.joint.informative)
        )
    expected = np.einsum(
        "dni,de,enj->nij", J[free], scales.covariance[np.ix_(free, free)], J[free]
    )
    found = joint.of_rows(X) - conditional.of_rows(X)
    np.testing.assert_allclose(
        found, expected, rtol=0.0, atol=2e-6 * np.abs(expected).max()
    )


@pytest.mark.parametrize("basis", ["exact", "hsgp"])
def test_joint_errors_between_the_rows_are_those_of_the_delta_method(basis):
    model = pr.Model.from_formula(f"y ~ gp(x, basis='{basis}')", TABLE)
    fit = pr.fit(model)
    scales, problem = fit.solution.scales, EvidenceProblem(model, False)
    new = {"x": np.linspace(0.5, 9.5, 13)}

    def mean(at: np.ndarray) -> np.ndarray:
        return (
            pr.fit(problem.model_at(at, scales.theta), "closed_form")
            .predict(new)["mean"]
            .values
        )

    J = np.array(
        [
            (mean(scales.theta + e) - mean(scales.theta - e)) / 0.006
            for e in 0.003 * np.eye(3)
        ]
    ).T
    X = fit.model.design.at(new).X
    joint, conditional = (
        fit.spread(k).matrix.of_rows(X)[:, 0, 0] for k in ("joint", "conditional")
    )
    added = np.einsum("ij,jk,ik->i", J, scales.covariance, J)
    np.testing.assert_allclose(
        joint - conditional, added, rtol=0.01, atol=1e-3 * added.max()
    )


def test_slopes_beside_an_exact_process_are_differences_of_the_conditional_mean():
    """With a correlated effect, whose root is no multiple of its slopes, and a scale in units of sigma."""
    scale = pr.Normal(pr.priors.Reference(), sigma_units=True)
    formula = "y ~ x + gp(x, basis='exact') + (z | g)"
    model = with_values(pr.Model.from_formula(formula, TABLE, prior={"x": scale}))
    surface = EvidenceProblem(model, False).surface
    theta = 0.3 * np.sin(1.0 + np.arange(len(surface.priors)))
    for k, step in enumerate(1e-4 * np.eye(len(theta))):
        low, high = (surface.conditional(theta + s * step)[0] for s in (-1.0, 1.0))
        slope = surface.slope_of_mode(theta, k, model.design)[:, 0]
        np.testing.assert_allclose(slope, (high - low) / 2e-4, atol=1e-7)


def test_a_nuisance_parameter_has_the_error_of_its_coordinate():
    model = pr.Model.from_formula(
        "count ~ x", TABLE, likelihood="negative_binomial", prior={"x": RIDGE["x"]}
    )
    fit = pr.fit(model, "evidence")
    joint, scales = fit.spread("joint").matrix, fit.solution.scales
    assert joint.further == ("log alpha",)
    error = np.sqrt(scales.covariance[-1, -1])
    assert error > 0.1
    assert joint.errors()[-1] == pytest.approx(error, rel=1e-10)


def test_a_separated_column_leaves_the_joint_errors_of_the_others():
    rows = {**TABLE, "s": GROUP % 5 == 0, "h": np.arange(N) % 10}
    rows["count"] = np.where(rows["s"], 0, TABLE["count"])
    model = pr.Model.from_formula("count ~ s + (1 | h)", rows, likelihood="poisson")
    with pytest.warns(pr.errors.ProbregWarning):
        fit = pr.fit(model, "evidence")
    scales = fit.solution.scales
    surface, theta = EvidenceProblem(scales.stated, False).surface, scales.theta
    slope = surface.coefficients(theta + 1e-3) - surface.coefficients(theta - 1e-3)
    joint, conditional = (fit.spread(k).matrix.errors() for k in ("joint", "conditional"))  # fmt: skip
    added = np.square(slope[:, 0] / 2e-3) * scales.covariance[0, 0]
    assert np.isnan(joint).tolist() == np.isnan(conditional).tolist() == [False, True, *[False] * 10]  # fmt: skip
    found = np.square(joint) - np.square(conditional)
    np.testing.assert_allclose(np.delete(found, 1), np.delete(added, 1), rtol=1e-3, atol=1e-12)  # fmt: skip


def test_joint_errors_of_many_columns_are_those_of_few():
    """More columns than rows: the covariance in factors."""
    wide = np.random.default_rng(2).normal(size=(30, 50))
    y = wide[:, :5].sum(1) + np.random.default_rng(3).normal(size=30)
    names = [f"x{j}" for j in range(50)]
    prior = {
        tuple(names[:20]): pr.Normal(pr.priors.Reference()),
        tuple(names[20:]): pr.Normal(pr.priors.Reference()),
    }
    fit = pr.fit(pr.Model.from_arrays(wide, y, columns=names, prior=prior), "evidence")
    assert fit.covariance().attrs["kind"] == "joint"
    joint, conditional = (
        fit.covariance("joint").values,
        fit.covariance("conditional").values,
    )
    added = np.linalg.eigvalsh(joint - conditional)
    assert added.min() > -1e-9 * added.max()
    assert (added > 1e-9 * added.max()).sum() <= 3  # two scales and sigma


def test_a_model_of_known_scales_has_no_joint_covariance():
    fit = pr.fit(pr.Model.from_formula("y ~ z", TABLE))
    for kind in ("joint", "conditional"):
        with pytest.raises(pr.errors.Incompatible):
            fit.covariance(kind)


def test_scales_without_a_curvature_are_taken_as_known_with_a_warning():
    fit = pr.fit(pr.Model.from_formula("y ~ s(x)", TABLE))
    # the criterion has no maximum there
    scales = replace(fit.solution.scales, hessian_of=lambda: np.eye(2))
    with pytest.warns(pr.errors.ProbregWarning):
        found = joint_covariance(scales, fit.solution.conditional, fit.model)
    assert found is fit.solution.conditional
