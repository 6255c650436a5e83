"""What a density or a user does while chains run: exceptions, overflow, no start, an interrupt. Nothing is lost or left behind."""

import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import probreg as pr
from probreg.errors import NotConverged
from probreg.inference.sampling.chains import (
    SamplerOutput,
    SamplerSettings,
    sample as _sample,
)
from probreg.inference.sampling.density import SampledDensity
from probreg.system.memory import Interrupts
from tests.conftest import covering

SHORT = SamplerSettings(1, 200, 100, 2)


def sample(
    density: Any, run: SamplerSettings, interrupts: Interrupts | None = None
) -> SamplerOutput:
    if interrupts is None:
        with Interrupts() as own:
            return _sample([density], run, own)
    return _sample([density], run, interrupts)


def density(log_prob) -> Any:
    """A density with the attributes that chains use."""
    return SimpleNamespace(
        size=1,
        log_prob=log_prob,
        unfold=lambda z: {"beta": z},
        start=lambda rng: rng.standard_normal(1),
        holds_lock=True,
        target=None,
        at=SimpleNamespace(whitened=False),
    )


def normal(x):
    return -0.5 * float(x @ x), -x


@pytest.mark.parametrize("after", [0, 250])  # at the start, and in the midst of a chain
def test_an_exception_of_a_density_is_passed_on_as_it_is(after):
    calls = iter(range(10**9))

    def breaks(x):
        if next(calls) >= after:
            raise KeyError("the density's own")
        return normal(x)

    with pytest.raises(KeyError, match="the density's own"):
        sample(density(breaks), SHORT)


@pytest.mark.parametrize(
    "far", [lambda: 10.0**400, lambda: 1.0 / 0.0, lambda: np.nan, lambda: np.inf]
)
def test_what_overflows_far_away_is_a_divergence(far):
    """The normal cut at 2, for beyond it there is no density."""
    found = sample(
        density(lambda x: normal(x) if abs(x[0]) < 2 else (far(), x * np.nan)), SHORT
    )
    assert found.stats["diverging"].any()
    assert np.abs(found.posterior["beta"]).max() < 2


def test_a_density_that_is_nowhere_finite_is_refused_before_a_chain_starts():
    with pytest.raises(NotConverged, match="no chain could start"):
        sample(density(lambda x: (np.nan, x)), SHORT)


def test_a_start_without_density_is_drawn_again():
    found = sample(density(lambda x: normal(x) if x[0] > 0.5 else (-np.inf, x)), SHORT)
    assert found.posterior["beta"].min() > 0.5


def test_an_interrupt_is_passed_on_and_leaves_no_chain_running():
    """No partial draws."""
    calls = iter(range(10**9))

    def slow(x):
        if next(calls) == 100:
            os.kill(os.getpid(), signal.SIGINT)
        time.sleep(1e-4)
        return normal(x)

    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        sample(density(slow), SamplerSettings(1, 100_000, 100, 2))
    assert threading.active_count() <= before  # others may have ended meanwhile
    time.sleep(0.05)
    seen = next(calls)
    time.sleep(0.1)
    assert next(calls) == seen + 1


class Loses:
    """Its destructor is where the interrupt arrives: Python prints it there, and goes on."""

    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(1000):  # a signal is looked for between two steps of Python
            pass


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_that_a_destructor_loses_ends_the_run_all_the_same():
    def lost_then_sampled() -> None:
        with Interrupts() as kept:
            Loses()
            assert kept.met
            sample(density(normal), SamplerSettings(1, 10**7, 100, 1), kept)

    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        lost_then_sampled()
    assert threading.active_count() <= before
    with pytest.raises(KeyboardInterrupt), Interrupts():
        Loses()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_lost_while_chains_run_ends_them():
    """In the main thread, which waits."""
    timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))

    def lost_while_sampling() -> None:
        with Interrupts() as kept:
            # met, and raised into nothing
            signal.signal(signal.SIGINT, lambda *_: setattr(kept, "met", True))
            timer.start()
            sample(density(normal), SamplerSettings(1, 10**7, 100, 1), kept)

    with pytest.raises(KeyboardInterrupt):
        lost_while_sampling()
    timer.join()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_handler_of_the_user_stays_and_threads_have_none():
    mine = lambda *_: None
    before = signal.signal(signal.SIGINT, mine)
    try:
        with Interrupts():
            assert signal.getsignal(signal.SIGINT) is mine
    finally:
        signal.signal(signal.SIGINT, before)
    found = []

    def elsewhere() -> None:
        with Interrupts():
            found.append(sample(density(normal), SHORT).posterior["beta"].shape)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert found == [(2, 200, 1)]


@pytest.mark.parametrize(
    "aux",
    covering(
        [
            pr.priors.InverseGamma(3.0, 1.0),
            pr.priors.HalfCauchy(1.0),
            pr.priors.LogNormal(1.0),
        ]
    ),
)
@pytest.mark.filterwarnings(
    "ignore::probreg.errors.ProbregWarning"
)  # four rows leave a funnel, which the status says
def test_a_sigma_that_a_prior_alone_holds_does_not_end_in_an_overflow(aux):
    rng = np.random.default_rng(3)
    X, names = rng.normal(size=(4, 6)), ["Intercept", *(f"x{i}" for i in range(1, 7))]
    model = pr.Model.from_arrays(
        X, X.sum(1), prior=dict.fromkeys(names, pr.Normal(2.0)), aux={"sigma": aux}
    )
    fit = pr.fit(model, pr.NUTS(draws=20, tune=60, chains=2))
    assert np.isfinite(fit.solution.draws["beta"]).all()


def test_the_smallest_of_runs():
    x = np.arange(10.0)
    model = pr.Model.from_arrays(
        x, x % 3 > 1, likelihood="bernoulli", prior=pr.Normal(1.0)
    )
    with pytest.warns(pr.ProbregWarning, match="too few effective draws"):
        fit = pr.fit(model, pr.NUTS(draws=2, tune=1, chains=1), threads=1)
    assert fit.solution.draws["beta"].shape == (1, 2, 2, 1)
    with pytest.warns(pr.ProbregWarning, match="too few effective draws"):
        one = pr.fit(model, pr.NUTS(draws=1, tune=1, chains=1), threads=1)
    assert np.isnan(one.covariance()).all()
    assert not one.solution.status.good
    said = {f.check: f.sentence for f in pr.diagnose(one, skipped=True)}
    assert "at least 25 draws, got 1" in said["loo"]


@pytest.mark.slow
def test_the_same_seed_gives_the_same_draws_in_every_process():
    code = (
        "import numpy as np, probreg as pr, warnings\n"
        "warnings.simplefilter('ignore')\n"
        "x = np.linspace(-2, 2, 300)\n"
        "m = pr.Model.from_arrays(x, np.sin(9 * x) > 0, likelihood='bernoulli', prior=pr.Normal(1.0))\n"
        "said = pr.fit(m, pr.NUTS(draws=20, tune=20, chains=2), seed=5).solution.draws['beta'].tobytes().hex()\n"
    )
    here: dict[str, str] = {}
    with warnings.catch_warnings():
        exec(code, here)
    run = subprocess.run(
        [sys.executable, "-c", f"{code}print(said)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.strip() == here["said"]
    assert len(here["said"]) == 20 * 2 * 2 * 16


@pytest.mark.slow
def test_chains_have_a_start_where_no_scales_maximise_the_evidence():
    """A response without noise has no typical scales, but chains need none."""
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(4), 5)
    x = rng.normal(size=20)
    effects = rng.normal(size=4)[group]
    data = {"g": group, "x": x, "y": np.exp(0.3 * x + effects)}
    half = pr.HalfNormal(2.5)
    model = pr.Model.from_formula(
        "y ~ x + (1 | g)", data, likelihood="gamma", prior={"(1 | g)": pr.Covariance(half), "x": pr.Normal(2.0)}, aux={"phi": half}
    )  # fmt: skip
    density = SampledDensity.of(model)
    value, slopes = density.log_prob(density.start(np.random.default_rng(1)))
    assert np.isfinite(value)
    assert np.isfinite(slopes).all()
