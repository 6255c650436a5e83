"""What follows from a method that makes Markov chains, whoever wrote it: its class says so, and nothing is guessed. Every
registered one draws from the posterior, which here has few coefficients and is integrated on a grid."""

import warnings
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest

import probreg as pr
from probreg.diagnostics.before import Verdict
from probreg.inference import METHODS, Draws, Method, Solution, Status
from probreg.inference.sampling import convergence
from probreg.inference.sampling.convergence import (
    mixing_measures,
    with_convergence_status,
)

from .cases import LIKELIHOOD_CASES, model_for, named, proper_aux

X = np.random.default_rng(0).normal(size=(30, 1))
Y = (X[:, 0] + np.random.default_rng(1).logistic(size=30) > 0).astype(int)
MODEL = pr.Model.from_arrays(
    X, Y, columns=["x"], likelihood="bernoulli", prior=pr.Normal(1.0)
)


def moments_of(draws: Any) -> tuple[Any, Any]:
    """The mean (p, m) and the covariance (p m, p m) of draws (chain, draw, p, m)."""
    flat = draws.reshape(-1, draws.shape[2] * draws.shape[3])
    return flat.mean(0).reshape(draws.shape[2:]), np.cov(flat.T)


@dataclass(frozen=True)
class Metropolis(Method):
    """A user's sampler: random-walk Metropolis, which keeps no statistics of its steps and claims nothing of its status."""

    draws: int = 30
    chains: int = 4
    step: float = 0.5

    name = "metropolis"
    target = "posterior"
    makes_chains: ClassVar[bool] = True

    def obstacle(self, model: pr.Model) -> str | None:
        return None

    def solve(self, model: pr.Model, rng: np.random.Generator) -> Solution:
        draws = self._drawn(model, rng)
        beta, cov = moments_of(draws)
        return Solution(beta, cov, draws=Draws({"beta": draws}))

    def _drawn(self, model: pr.Model, rng: np.random.Generator) -> Any:
        """(chain, draw, p, m), all chains a step at a time."""
        at, kept = rng.normal(size=(self.chains, *model.shape)), []
        value = model.log_posterior(at)
        for _ in range(self.draws):
            new = at + self.step * rng.normal(size=at.shape)
            there = model.log_posterior(new)
            taken = np.log(rng.random(self.chains)) < there - value
            at, value = (
                np.where(taken[:, None, None], new, at),
                np.where(taken, there, value),
            )
            kept.append(at)
        return np.stack(kept, axis=1)


@pytest.mark.parametrize(
    ("chains", "status"), [(4, Status.UNMIXED), (1, Status.TOO_SHORT)]
)
def test_thirty_draws_are_no_posterior(chains: int, status: Status) -> None:
    with pytest.warns(pr.ProbregWarning, match=f"metropolis: {status.value}"):
        fit = pr.fit(MODEL, Metropolis(chains=chains))
    assert fit.solution.status is status
    assert not fit.solution.status.good
    with pytest.raises(pr.NotConverged, match=r"R-hat|effective sample size"):
        pr.fit(MODEL, Metropolis(chains=chains), strict=True)


def test_all_that_reads_chains_reads_these() -> None:
    with pytest.warns(pr.ProbregWarning):
        fit = pr.fit(MODEL, Metropolis())
    assert {"r_hat", "ess_bulk", "ess_tail"} <= set(fit.summary().columns)
    found = pr.diagnose(fit, skipped=True)
    assert found["mixing"].worst >= Verdict.WARNING
    assert (
        "metropolis stores no statistic 'diverging'"
        in found["divergences"].items[0].sentence
    )
    for picture in (pr.plot.trace, pr.plot.rank):
        assert picture(fit) is not None


def test_enough_draws_are_sampled() -> None:
    fit = pr.fit(MODEL, Metropolis(draws=4000, step=1.0))
    assert fit.solution.status is Status.SAMPLED
    exact = pr.fit(MODEL, "nuts", seed=1)
    np.testing.assert_allclose(
        fit.coef, exact.coef, atol=0.15 * float(exact.std_error.max())
    )


@pytest.mark.filterwarnings(
    "ignore::probreg.ProbregWarning"
)  # so few draws need not have mixed
def test_intervals_are_of_the_draws_unless_their_law_is_known() -> None:
    """A sampler that claims nothing of its posterior has quantiles of draws, not a normal about their mean."""
    fit = pr.fit(MODEL, Metropolis(draws=100))
    ends = fit.interval(0.8)
    found = np.stack([ends["lower"], ends["upper"]])
    beta = fit.solution.draws["beta"]
    np.testing.assert_allclose(
        found, np.quantile(beta[..., 0].reshape(400, 2), [0.1, 0.9], axis=0), atol=1e-12
    )
    claimed = replace(
        fit,
        solution=replace(
            fit.solution, draws=replace(fit.solution.draws, elliptical=True)
        ),
    )
    np.testing.assert_allclose(
        claimed.interval(0.8)["upper"] - fit.coef,
        1.2815515655446004 * fit.std_error,
        rtol=1e-12,
    )


def test_a_chain_that_stands_still_is_no_posterior() -> None:
    with pytest.warns(pr.ProbregWarning, match="chains disagree"):
        fit = pr.fit(MODEL, Metropolis(draws=500, step=1e9))
    assert fit.solution.status is Status.UNMIXED


def claimed(beta: Any) -> tuple[Solution, dict[str, Any]]:
    """The verdict on these draws (chain, draw, p, m), and the measures that it is made from."""
    mean, cov = moments_of(beta)
    solution = Solution(mean, cov, draws=Draws({"beta": beta}), status=Status.SAMPLED)
    measures = mixing_measures(pr.Fit(MODEL, pr.NUTS(), solution))
    return with_convergence_status(MODEL, solution), measures


def test_chains_disagree_from_an_r_hat_of_one_hundredth_above_one() -> None:
    """One of four chains of independent draws is moved, little by little."""
    draws, met = np.random.default_rng(0).normal(size=(4, 400, 2, 1)), []
    for shift in np.linspace(0.0, 0.4, 41):
        verdict, measures = claimed(
            draws + shift * np.array([0, 0, 0, 1]).reshape(4, 1, 1, 1)
        )
        met.append(measures["r_hat"].max())
        assert verdict.status is (Status.UNMIXED if met[-1] > 1.01 else Status.SAMPLED)
    assert any(1.007 < r <= 1.01 for r in met)
    assert any(1.01 < r < 1.013 for r in met)


@pytest.mark.parametrize("part", ["ess_bulk", "ess_tail"])
def test_one_chain_is_worth_a_hundred_independent_draws(part: str) -> None:
    """Draws that repeat a little in the middle or in the tails, of one chain, which has no R-hat between chains."""
    rng, met = np.random.default_rng(1), []
    draws = rng.normal(size=(1, 160, 2, 1))
    if part == "ess_bulk":
        for t in range(1, 160):
            draws[:, t] = 0.3 * draws[:, t - 1] + 0.95 * draws[:, t]
    for n in range(110, 160):  # about a hundred
        verdict, measures = claimed(draws[:, :n])
        least = min(measures["ess_bulk"].min(), measures["ess_tail"].min())
        assert verdict.status is (Status.TOO_SHORT if least < 100.0 else Status.SAMPLED)
        if least == measures[part].min():
            met.append(least)
    assert any(95.0 < v < 100.0 for v in met)
    assert any(100.0 <= v < 105.0 for v in met)


def test_independent_draws_are_no_chains() -> None:
    """Draws without memory have no R-hat, whatever statistics they keep beside them."""
    fit = pr.fit(MODEL, "laplace")
    draws = replace(
        fit.solution.posterior, stats={"diverging": np.zeros((4, 1000), bool)}
    )
    claimed = replace(fit, solution=replace(fit.solution, draws=draws))
    assert "r_hat" not in claimed.summary().columns
    with pytest.raises(pr.Incompatible, match="runs no Markov chains"):
        pr.plot.trace(claimed)
    assert not any(
        METHODS[name].makes_chains
        for name in ("laplace", "importance", "conjugate", "quadrature")
    )


# ---- laws of every registered method that makes chains --------------------------------------------------------------

MAKERS = pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow) if name == "pymc" else name
        for name, cls in METHODS.items()
        if cls.makes_chains
    ],
)
WEIGHTS, OFFSET = np.arange(30) % 3 + 1, np.cos(np.arange(30.0))
POSTERIORS = {
    "bernoulli": MODEL,
    "gaussian": pr.Model.from_arrays(
        X, X[:, 0] + 0.5 * OFFSET, columns=["x"], aux={"sigma": 0.7}
    ),
    "poisson": pr.Model.from_arrays(
        X,
        WEIGHTS - 1,
        columns=["x"],
        likelihood="poisson",
        weights=WEIGHTS,
        offset=OFFSET,
        prior=pr.Normal(0.4),
    ),
}


def exact_quantiles(model: pr.Model, probs: Any) -> Any:
    """Quantiles (len(probs), 2) of the two coefficients by the trapezoidal rule on a grid of 401 points a side, from -8 to 8
    standard errors about the mode, where what is left out is below 1e-13."""
    mode, t = pr.fit(model, "newton").solution, np.linspace(-8.0, 8.0, 401)
    se = np.sqrt(mode.scale.diagonal())
    each = (
        np.stack(np.meshgrid(t, t, indexing="ij"), -1)[..., None] * se[:, None]
        + mode.beta
    )
    lp = model.log_posterior(each)
    density = np.exp(lp - lp.max())
    out = []
    for j in (0, 1):
        margin = density.sum(1 - j)
        up_to = np.cumsum(margin) - margin / 2  # of half a cell about each node
        out.append(mode.beta[j, 0] + se[j] * np.interp(probs, up_to / margin.sum(), t))
    return np.stack(out, -1)


# PyMC compiles each density anew: a posterior by it is in test_posteriordb.py
OF_POSTERIORS = [
    (cls(), kind)
    for name, cls in METHODS.items()
    if cls.makes_chains and name != "pymc"
    for kind in POSTERIORS
]


@pytest.mark.parametrize(("method", "kind"), OF_POSTERIORS, ids=named)
def test_draws_are_from_the_posterior(method: Method, kind: str) -> None:
    """The share of the draws below a quantile of the posterior is its probability, within five standard errors of as many
    independent draws as the chains are worth."""
    probs = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
    fit = pr.fit(POSTERIORS[kind], method, seed=5, strict=True)
    draws = fit.solution.draws["beta"].reshape(-1, 1, 2)
    share = (draws <= exact_quantiles(fit.model, probs)).mean(0)
    worth = fit.summary()[["ess_bulk", "ess_tail"]].min(axis=1).to_numpy()
    error = np.sqrt(probs * (1.0 - probs))[:, None] / np.sqrt(worth)
    assert np.abs((share - probs[:, None]) / error).max() < 5.0
    assert error.max() < 0.05  # so that a wrong scale of a fifth is seen
    lp = fit.model.log_posterior(fit.solution.draws["beta"][:1, :3])
    np.testing.assert_allclose(
        fit.tree["sample_stats"]["lp"].values[:1, :3], lp, rtol=1e-9
    )


@MAKERS
def test_a_seed_gives_the_same_chains_and_another_gives_others(name: str) -> None:
    # PyMC compiles, and draws slowly
    short = pr.PyMC(draws=20, tune=30) if name == "pymc" else name
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so few draws need not have mixed
        one, same, other = (
            pr.fit(MODEL, short, seed=s).solution.draws["beta"] for s in (8, 8, 9)
        )
    np.testing.assert_array_equal(one, same)
    assert not (one == other).any()
    # no chain is another's copy
    assert len({chain.tobytes() for chain in one}) == len(one)


@MAKERS
@pytest.mark.parametrize(
    "other", [2 * X[:, 0], Y - 0.5], ids=["collinear", "separated"]
)
def test_chains_refuse_a_posterior_that_has_no_mass(name: str, other: Any) -> None:
    """A direction without an end under a flat prior: a walk would wander there for ever and call it draws."""
    endless = pr.Model.from_arrays(
        np.c_[X, other], Y, columns=["x", "endless"], likelihood="bernoulli"
    )
    with pytest.raises(pr.Incompatible, match="endless"):
        pr.fit(endless, name)


@MAKERS
@pytest.mark.parametrize("likelihood", LIKELIHOOD_CASES, ids=named)
def test_chains_take_a_model_or_say_which_methods_do(
    name: str, likelihood: Any
) -> None:
    model = model_for(likelihood, pr.Normal(0.8), aux=proper_aux(likelihood))
    if (why := METHODS[name]().obstacle(model)) is None:
        return
    with pytest.raises(
        pr.Incompatible, match=r"These can fit this model: \w"
    ) as refused:
        pr.fit(model, name)
    assert why in str(refused.value)


def test_the_same_draws_are_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    fit = pr.fit(MODEL, "nuts", seed=1)
    first = fit.summary()
    first.loc["x", "r_hat"] = 0.0  # a table of one's own
    monkeypatch.setattr(convergence, "_measure_series", None)
    assert (fit.summary()["r_hat"] > 0.9).all()


def counts_of_twelve_rows(seed: int) -> pr.Model:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=12)
    y = rng.poisson(np.exp(-0.5 + 0.6 * x))
    y[0] = max(y[0], 1)
    prior = {"Intercept": pr.Normal(3.0), "x": pr.Normal(2.0)}
    return pr.Model.from_formula(
        "y ~ x", {"x": x, "y": y}, likelihood="poisson", prior=prior
    )


@pytest.mark.slow
def test_nuts_has_no_divergences_at_its_default_target():
    fits = [pr.fit(counts_of_twelve_rows(seed), "nuts", seed=1) for seed in range(12)]
    assert (
        sum(int(fit.solution.posterior.stats["diverging"].sum()) for fit in fits) == 0
    )
    assert {fit.solution.status for fit in fits} == {Status.SAMPLED}


@pytest.mark.slow  # compiles a density
def test_a_few_divergences_of_chains_that_agree_explain_no_difference():
    model = counts_of_twelve_rows(6)
    with pytest.warns(pr.ProbregWarning):
        sampled = pr.fit(model, pr.NUTS(target_accept=0.7), seed=1)
    assert sampled.solution.status is Status.DIVERGED
    # of 4,000 draws
    assert 0 < sampled.solution.posterior.stats["diverging"].sum() < 40
    causes = pr.compare({"nuts": sampled, "mode": pr.fit(model, "newton")}).causes
    assert set(causes["cause"]) == {"skewness"}


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.filterwarnings("ignore::probreg.ProbregWarning")
@pytest.mark.parametrize(
    "case",
    [
        (1, 1),
        pytest.param((1, 2), marks=pytest.mark.slow),
        pytest.param((2, 1), marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_few_draws_have_no_spread_but_every_report(case, tmp_path):
    draws, chains = case
    fit = pr.fit(MODEL, pr.NUTS(draws=draws, tune=20, chains=chains), seed=1)
    mode = pr.fit(MODEL)
    for text in (
        fit,
        fit.summary(),
        pr.diagnose(fit),
        pr.compare({"mode": mode, "fit": fit}),
    ):
        assert str(text)
    sd = pr.slopes(fit).table["sd"].to_numpy()
    assert np.isnan(sd).all() == (draws * chains == 1)
    pr.hypothesis(fit, "x = 0")
    with pytest.raises(pr.Incompatible, match="draws"):
        pr.hypothesis(fit, "x = 0, Intercept = 0")
    pr.report(fit, tmp_path / "report.html")
