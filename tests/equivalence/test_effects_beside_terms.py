"""Effects by group beside smooths, processes and priors of unknown scale: the evidence is that of dense matrices in plain numpy.

With y ~ N(F b + X mu, V), V = sum of the covariances of the terms plus that of the noise, b flat: REML and ML. For counts Laplace's
approximation about the mode over b and the values of the terms at the rows.
"""

from typing import Any

import numpy as np
import pytest

import probreg as pr
from probreg.errors import Incompatible
from probreg.inference.exact.evidence_problem import EvidenceProblem, with_values
from probreg.inference.varying import hyper_at_logs
from probreg.kernels import RationalQuadratic
from probreg.model.model import Model
from probreg.priors import (
    R2,
    Covariance,
    GaussianProcess,
    GPrior,
    HalfNormal,
    Horseshoe,
    Laplace,
    LogNormal,
    Normal,
)

N = 30


def data() -> dict[str, Any]:
    rng = np.random.default_rng(3)
    g, x, z, w = (
        rng.integers(0, 5, N),
        rng.normal(size=N),
        np.sort(rng.uniform(0, 5, N)),
        rng.normal(size=N),
    )
    y = 1 + x + np.sin(z) + 0.7 * rng.normal(size=5)[g] + 0.5 * rng.normal(size=N)
    return {
        "y": y,
        "k": rng.poisson(np.exp(0.3 * y)),
        "x": x,
        "z": z,
        "w": w,
        "g": g.astype(str),
    }


DATA = data()
PROCESS = GaussianProcess(amplitude=HalfNormal(1.5), length=LogNormal(0.5))
# the terms beside the effects, and their priors
BESIDE: dict[str, tuple[str, dict[Any, Any]]] = {
    "smooth": ("s(z, k=6)", {"s(z, k=6)": Normal(HalfNormal(1.0))}),
    "sines": ("gp(z, basis='hsgp')", {"gp(z, basis='hsgp')": PROCESS}),
    "process": ("gp(z)", {"gp(z)": PROCESS}),
    "known length": (
        "gp(z, length=1.5)",
        {"gp(z, length=1.5)": Normal(HalfNormal(1.0))},
    ),
    "ridge": ("w", {"x": Normal(HalfNormal(1.0)), "w": Normal(HalfNormal(2.0))}),
    "g prior": ("w", {("x", "w"): GPrior()}),
    "r2": ("w", {("x", "w"): R2()}),
}
EFFECTS = ["1", "x", "0 + x"]


def model(response: str, beside: str, effects: str, **more: Any) -> Model:
    term, prior = BESIDE[beside]
    own = {f"{effects} | g": Covariance(sd=HalfNormal(1.0), cor=pr.LKJ(2.0))}
    likelihood = {"y": "gaussian", "k": "poisson"}[response]
    return Model.from_formula(
        f"{response} ~ x + {term} + ({effects} | g)",
        DATA,
        likelihood=likelihood,
        prior={**prior, **own},
        **more,
    )


def covariance_of_effects(effects: str, values: dict[str, float]) -> np.ndarray:
    """Of z_i'b_g at the rows, b_g ~ N(0, S)."""
    names = {"1": ["Intercept"], "x": ["Intercept", "x"], "0 + x": ["x"]}[effects]
    z = np.column_stack([DATA["x"] if name == "x" else np.ones(N) for name in names])
    sd = np.array([values[f"sd({name} | g)"] for name in names])
    cor = values.get("cor(Intercept, x | g)", 0.0)
    S = np.outer(sd, sd) * (np.eye(len(sd)) + cor * (1 - np.eye(len(sd))))
    return (z @ S @ z.T) * (DATA["g"][:, None] == DATA["g"])


def by_hand(
    problem: EvidenceProblem, theta: np.ndarray, effects: str
) -> tuple[np.ndarray, np.ndarray]:
    """Flat columns, and the covariance of what the terms give at the rows."""
    made, hyper = problem.model, np.exp(theta[: len(problem.groups.priors)])
    values = {
        name: float(v)
        for name, v in hyper_at_logs(problem.model, np.log(hyper)).items()
    }
    values = {name.split(" / ")[0]: v for name, v in values.items()}
    K, inside = covariance_of_effects(effects, values), set[int]()
    given = made.with_prior(problem.prior_at(hyper))
    sigma = float(np.exp(theta[-1])) if problem.outer else 1.0
    for stated, block in zip(made.joint.blocks, given.joint.blocks):
        columns = list(stated.columns)
        if not made.joint.informative[columns].any():
            continue
        inside |= set(columns)
        names = [made.design.columns[j] for j in columns]
        if "| g" in names[0]:
            continue
        if names[0].startswith("gp(z)"):
            amplitude, length = (
                values[f"{what}[gp(z)]"] for what in ("amplitude", "length")
            )
            K += amplitude**2 * np.exp(
                -0.5 * np.square(np.subtract.outer(DATA["z"], DATA["z"]) / length)
            )
        elif names[0].startswith("gp(z, length"):
            tau = values["tau[gp(z, length=1.5)]"]
            K += tau**2 * np.exp(
                -0.5 * np.square(np.subtract.outer(DATA["z"], DATA["z"]) / 1.5)
            )
        else:
            X = made.design.X[:, columns]
            unit = sigma if block.prior.sigma_units else 1.0
            K += unit**2 * X @ np.linalg.solve(block.prior.precision(len(columns)), X.T)
    flat = [j for j in range(made.shape[0]) if j not in inside]
    return made.design.X[:, flat], K


def gaussian(F: np.ndarray, K: np.ndarray, sigma: float, criterion: str) -> float:
    V = K + sigma**2 * np.eye(N)
    W = np.linalg.inv(V)
    A = F.T @ W @ F
    r = DATA["y"] - F @ np.linalg.solve(A, F.T @ W @ DATA["y"])
    reml, k = criterion == "REML", F.shape[1]
    log_det = np.linalg.slogdet(V)[1] + reml * np.linalg.slogdet(A)[1]
    return float(-0.5 * ((N - reml * k) * np.log(2 * np.pi) + log_det + r @ W @ r))


def laplace(F: np.ndarray, K: np.ndarray) -> float:
    """Of counts, b flat and integrated."""
    value, vector = np.linalg.eigh(K)
    R = vector * np.sqrt(np.maximum(value, 0.0))
    A, keep = np.hstack([R, F]), np.diag([1.0] * N + [0.0] * F.shape[1])
    v = np.zeros(A.shape[1])
    for _ in range(200):
        mean = np.exp(np.minimum(A @ v, 30.0))
        H = A.T @ (mean[:, None] * A) + keep
        step = np.linalg.solve(H, A.T @ (DATA["k"] - mean) - keep @ v)
        v = v + step * min(1.0, 2.0 / np.abs(A @ step).max())
    log_factorial = np.array(
        [np.log(np.arange(1, k + 1)).sum() for k in DATA["k"]]
    ).sum()
    log_p = DATA["k"] @ (A @ v) - mean.sum() - log_factorial - 0.5 * v @ keep @ v
    return float(
        log_p - 0.5 * np.linalg.slogdet(H)[1] + 0.5 * F.shape[1] * np.log(2 * np.pi)
    )


def differences(f: Any, x: np.ndarray, h: float = 1e-3) -> np.ndarray:
    each = [
        8 * (f(x + h * e) - f(x - h * e)) - (f(x + 2 * h * e) - f(x - 2 * h * e))
        for e in np.eye(len(x))
    ]
    return np.array(each) / (12 * h)


@pytest.mark.parametrize("effects", EFFECTS)
@pytest.mark.parametrize("beside", BESIDE)
@pytest.mark.parametrize("criterion", ["REML", "ML"])
def test_a_gaussian_evidence_is_that_of_dense_matrices(criterion, beside, effects):
    problem = EvidenceProblem(model("y", beside, effects), False, criterion=criterion)
    f = problem.surface
    theta = np.random.default_rng(0).normal(-0.3, 0.3, len(f.priors))
    at = f(theta)
    wanted = gaussian(
        *by_hand(problem, theta, effects), float(np.exp(theta[-1])), criterion
    )
    # sines and an exact basis leave 1e-8 of a process
    np.testing.assert_allclose(at.evidence, wanted, atol=1e-6)
    np.testing.assert_allclose(
        at.gradient, differences(lambda t: f(t).value, theta), rtol=1e-5, atol=1e-5
    )


def test_parameters_determined_by_the_data_are_those_of_both_criteria():
    surfaces = [
        EvidenceProblem(model("y", "process", "1"), False, criterion=criterion).surface
        for criterion in ("REML", "ML")
    ]
    theta = np.random.default_rng(0).normal(-0.3, 0.3, len(surfaces[0].priors))
    by_reml, by_ml = (surface(theta).effective for surface in surfaces)
    np.testing.assert_allclose(by_ml, by_reml, rtol=1e-10)


@pytest.mark.parametrize("effects", EFFECTS)
@pytest.mark.parametrize("beside", BESIDE)
def test_an_approximate_evidence_is_that_of_dense_matrices(beside, effects):
    problem = EvidenceProblem(model("k", beside, effects), False)
    f = problem.surface
    theta = np.random.default_rng(0).normal(-0.5, 0.2, len(f.priors))
    np.testing.assert_allclose(
        f(theta).evidence, laplace(*by_hand(problem, theta, effects)), atol=2e-5
    )


def test_kernels_of_several_processes_have_their_own_values():
    prior = GaussianProcess(kernel=RationalQuadratic(), others={"alpha": HalfNormal(2.0)})  # fmt: skip
    formula = "k ~ gp(x) + gp(z)"
    made = Model.from_formula(formula, DATA, likelihood="poisson", prior={"gp(x)": prior})  # fmt: skip
    theta = 0.1 * np.arange(5)  # amplitude, length and alpha, and amplitude and length
    inner, others = EvidenceProblem(made, False).surface.inner_at(theta)
    np.testing.assert_allclose(others, [0.0, 0.3])
    terms = inner.model.design.recipe.processes.values()
    first, second = (term.basis.kernel for term in terms)
    found = [first.length, first.alpha, second.length]
    np.testing.assert_allclose(np.log(found), [0.1, 0.2, 0.4], atol=1e-12)


def test_coefficients_beside_a_process_are_those_of_dense_matrices():
    made = with_values(model("y", "process", "x"))
    problem = EvidenceProblem(made, False)
    theta = np.random.default_rng(1).normal(-0.3, 0.3, len(problem.surface.priors))
    mean = problem.surface.conditional(theta)[0]
    F, K = by_hand(problem, theta, "x")
    W = np.linalg.inv(K + np.exp(2 * theta[-1]) * np.eye(N))
    b = np.linalg.solve(F.T @ W @ F, F.T @ W @ DATA["y"])
    fitted = F @ b + K @ W @ (DATA["y"] - F @ b)
    np.testing.assert_allclose(made.design.X @ mean, fitted, atol=1e-6)


@pytest.mark.parametrize("effects", ["1", "x"])
@pytest.mark.parametrize("response", ["y", "k"])
@pytest.mark.parametrize(
    "prior", [Horseshoe(), Laplace(1.0), Laplace(HalfNormal(1.0))], ids=repr
)
@pytest.mark.parametrize("method", ["evidence", "integrate"])
def test_what_has_no_smooth_evidence_is_refused(method, prior, response, effects):
    own = {
        f"{effects} | g": Covariance(sd=HalfNormal(1.0), cor=pr.LKJ(2.0)),
        ("x", "w"): prior,
    }
    likelihood = {"y": "gaussian", "k": "poisson"}[response]
    made = Model.from_formula(
        f"{response} ~ x + w + ({effects} | g)", DATA, prior=own, likelihood=likelihood
    )
    with pytest.raises(Incompatible, match="nuts"):
        pr.fit(made, method)


def test_a_search_that_comes_too_far_out_for_a_double_leaves_the_others():
    # a start with large scales runs to a standard deviation of e^20 and a correlation of 1, where the factor has no digits
    made = Model.from_formula(
        "y ~ x + s(z, k=6) + (x | g)", DATA, prior=BESIDE["smooth"][1]
    )
    top = EvidenceProblem(made, False).maximise(300)
    assert np.isfinite(top.at.value)
    assert np.linalg.norm(top.at.gradient[~top.vanished]) < 1e-3


def test_a_mode_is_found_again_where_the_last_one_is_no_start():
    prior = {
        ("x", "w"): GPrior(),
        "x | g": Covariance(sd=HalfNormal(1.0), cor=pr.LKJ(1.0)),
    }
    f = EvidenceProblem(
        Model.from_formula(
            "k ~ x + w + (x | g)", DATA, prior=prior, likelihood="poisson"
        ),
        False,
    ).surface
    near, far = (
        np.array([-0.5, -0.5, 0.0]),
        np.array([-5.84623232, 5.39963509, -7.00637163]),
    )
    alone = f.values(far[None])
    f.values(near[None])
    np.testing.assert_allclose(f.values(far[None]), alone, rtol=1e-9)
