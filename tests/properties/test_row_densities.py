"""Laws of the densities of rows at many points: compiled code and NumPy give what the model says row by row."""

from typing import Any

import numpy as np
import pytest

import probreg as pr
from probreg.data import Block
from probreg.data.checked_arrays import times_weights
from probreg.fits import inference_data, leave_one_out
from probreg.fits.leave_one_out import leave_rows_out
from probreg.likelihoods import DifferentiableLikelihood
from probreg.model import likelihood_sums as sums

from .cases import LIKELIHOOD_CASES, auxiliaries, compiled_cases, given_for, named

N, S, P = 30, 17, 3
COMPILED = [
    v
    for v in LIKELIHOOD_CASES
    if isinstance(v, DifferentiableLikelihood) and v.compiled_density is not None
]


def agree(likelihood: Any) -> None:
    rng, m, aux = np.random.default_rng(1), likelihood.width, auxiliaries(likelihood)
    X, beta = rng.normal(size=(N, P)), 0.4 * rng.normal(size=(S, P, m))
    y = likelihood.sample(rng, X @ beta[0], **aux, **given_for(likelihood, N))
    drawn = {a: v * rng.uniform(0.8, 1.25, (S, 1)) for a, v in aux.items()}
    precisions = (
        [None, rng.uniform(0.5, 2.0, N)] if likelihood.noise_scale in aux else [None]
    )
    for precision in precisions:
        for weights, offset in (
            (None, None),
            (rng.uniform(0.5, 2.0, N), rng.normal(size=(N, 1))),
        ):
            block = Block(X, y, weights, offset, precision=precision)
            eta = block.eta(beta)
            exact = likelihood.log_prob(y, eta, **likelihood.at_rows(drawn, precision))
            exact = exact if weights is None else exact * weights
            of = sums.log_densities_at(block, likelihood, beta, drawn)
            found = [of(block.part(slice(i, i + 8))) for i in range(0, N, 8)]
            found = times_weights(np.hstack(found).T, weights)
            np.testing.assert_allclose(found, exact.T, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("likelihood", LIKELIHOOD_CASES, ids=named)
def test_the_density_of_each_row_at_each_point_in_numpy(likelihood):
    agree(likelihood)


@pytest.mark.parametrize("likelihood", compiled_cases(COMPILED))
def test_the_density_of_each_row_at_each_point_compiled(likelihood, monkeypatch):
    monkeypatch.setattr(sums, "COMPILED", 1)
    agree(likelihood)


def counted(kind: str) -> pr.Model:
    """Rows of which most occur more than once."""
    rng = np.random.default_rng(4)
    X, n = rng.integers(0, 3, (80, 2)).astype(float), 80
    more: dict[str, Any] = (
        {"weights": rng.integers(0, 4, n).astype(float)}
        if kind == "frequencies"
        else {}
    )
    if kind == "precisions":
        more = {"weights": pr.weights.precision(rng.choice([0.5, 2.0], n))}
        return pr.Model.from_arrays(
            X,
            rng.integers(0, 2, n) + 0.5 * X[:, 0],
            prior=pr.Normal(1.0),
            aux={"sigma": 0.5},
            **more,
        )
    if kind == "offsets":
        more = {"offset": rng.choice([0.0, 0.5], n)}
    return pr.Model.from_arrays(
        X,
        rng.poisson(1.0 + X[:, 0]),
        likelihood="poisson",
        prior=pr.Normal(1.0),
        **more,
    )


@pytest.mark.parametrize("kind", ["plain", "frequencies", "precisions", "offsets"])
def test_rows_that_are_alike_are_weighed_once(kind):
    model = counted(kind)
    fit = pr.fit(model, "laplace" if kind != "precisions" else "conjugate", seed=1)
    rows, place = inference_data.distinct_observations(model)
    assert rows.rows < 60
    log_lik = fit.tree["log_likelihood"]["y"].to_numpy()
    assert log_lik.shape[-1] == len(place)
    stats = fit.tree["sample_stats"]
    ratio = (
        (stats["lp"] - stats["log_q"]).to_numpy().ravel() if "log_q" in stats else None
    )
    slow = leave_rows_out(log_lik.reshape(-1, len(place)), ratio)
    found = fit.once(leave_one_out.left_out_rows)
    for name in ("elpd", "lppd", "k"):
        np.testing.assert_allclose(
            getattr(found, name), getattr(slow, name), rtol=1e-9, atol=1e-10
        )
