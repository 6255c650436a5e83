"""A search for scales that has not moved has not converged, from every container and for every kind of likelihood."""

import itertools

import numpy as np
import pandas as pd
import pytest

import probreg as pr
from probreg.inference.exact import evidence_problem, scale_search
from probreg.inference.exact.latent_groups import EvidencePoint
from probreg.inference.exact.scale_search import maximise_log_scales

N = 120
RNG = np.random.default_rng(5)
TABLE = pd.DataFrame(
    {"x": RNG.normal(size=N), "g": np.sort(RNG.integers(0, 9, N)).astype(str)}
)
ETA = np.sin(3.0 * TABLE["x"]) + RNG.normal(size=9)[TABLE["g"].astype(int)]
TABLE["gaussian"] = TABLE["huber"] = ETA + RNG.normal(size=N)
TABLE["student"] = ETA + RNG.standard_t(4, size=N)
TABLE["poisson"] = RNG.poisson(np.exp(0.5 * ETA))
TABLE["bernoulli"] = (RNG.random(N) < 1.0 / (1.0 + np.exp(-ETA))).astype(int)


def from_memory(formula, likelihood, tmp_path):
    return pr.Model.from_formula(formula, TABLE, likelihood=likelihood)


def from_files(formula, likelihood, tmp_path):
    pytest.importorskip("pyarrow")
    TABLE.to_parquet(tmp_path / "rows.parquet")
    return pr.Model.from_files(
        formula, tmp_path / "rows.parquet", likelihood=likelihood
    )


def from_dask(formula, likelihood, tmp_path):
    dask = pytest.importorskip("dask.dataframe")
    return pr.Model.from_dask(
        formula, dask.from_pandas(TABLE, npartitions=3), likelihood=likelihood
    )


@pytest.mark.parametrize(
    ("terms", "likelihood", "container"),
    [
        *itertools.product(
            ["x + (1|g)", "s(x)"],
            ["gaussian", "student", "poisson", "bernoulli", "huber"],
            [from_memory],
        ),
        ("x + (1|g)", "gaussian", from_files),
        ("x + (1|g)", "poisson", from_files),
        ("s(x)", "bernoulli", from_files),
        pytest.param("s(x)", "bernoulli", from_dask, marks=pytest.mark.slow),
    ],
)
def test_a_fit_with_a_search_that_stays_at_its_start_is_refused(
    terms, likelihood, container, tmp_path, monkeypatch
):
    model = container(f"{likelihood} ~ {terms}", likelihood, tmp_path)
    fit = pr.fit(model)
    assert fit.solution.status.good
    monkeypatch.setattr(
        scale_search, "_rise", lambda surface, theta, step, point: (theta, point)
    )
    with pytest.raises(pr.NotConverged, match="scales"):
        pr.fit(model)


@pytest.mark.parametrize("jumps", [False, True])
def test_a_surface_that_falls_along_its_gradient_has_no_maximum(jumps):
    def surface(theta):
        return EvidencePoint(-float(theta[0]), np.ones(1), -np.eye(1), 0.0, np.ones(1))

    found = maximise_log_scales(
        surface,
        np.zeros(1),
        np.zeros(1),
        np.zeros(1),
        tol=1e-6,
        max_steps=50,
        jumps=jumps,
    )
    assert not found.ended


def test_a_jump_that_the_search_rises_to_is_a_maximum():
    def surface(theta):
        at = float(theta[0])
        value = at if at < 1.0 else at - 5.0
        return EvidencePoint(value, np.ones(1), -np.eye(1), 0.0, np.ones(1))

    found = maximise_log_scales(
        surface,
        np.zeros(1),
        np.zeros(1),
        np.zeros(1),
        tol=1e-6,
        max_steps=500,
        jumps=True,
    )
    assert found.ended
    assert found.theta[0] == pytest.approx(1.0, abs=1e-6)


def test_a_length_without_bound_has_a_note(monkeypatch):
    """The function is a straight line: the evidence has no maximum, and rounding ends the search somewhere on its way."""
    search = evidence_problem.maximise_log_scales

    def stopped(surface, theta, *args, **options):
        top = search(surface, theta, *args, **options)
        return top._replace(theta=theta + 9.0, ended=False)

    monkeypatch.setattr(evidence_problem, "maximise_log_scales", stopped)
    data = {"x": TABLE["x"][:20], "y": TABLE["x"][:20] + 0.1 * ETA[:20]}
    fit = pr.fit(pr.Model.from_formula("y ~ gp(x)", data))
    assert any("length hardly change the evidence" in str(note) for note in fit.notes)
