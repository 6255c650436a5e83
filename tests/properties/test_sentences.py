"""Sentences on data that make the usual one untrue: two classes under a normal likelihood, rows that are sorted."""

import re
from functools import cache

import numpy as np
import pytest

import probreg as pr
from probreg.diagnostics.after import DIAGNOSTICS
from probreg.diagnostics.before import Verdict

RNG = np.random.default_rng(0)
N = 300
X = RNG.normal(size=(N, 2))
ETA = X @ [1.0, -1.0]
CLASS = (RNG.random(N) < 1.0 / (1.0 + np.exp(-ETA))).astype(float)
Y = ETA + RNG.normal(size=N)
COUNTS = RNG.poisson(np.exp(0.5 * X[:, 0] + 1.0))
TAILED = (
    "normality",
    "distribution",
    "heteroscedasticity",
    "loo_pit",
    "predictive_checks",
)


@pytest.mark.parametrize(
    ("likelihood", "method"),
    [("gaussian", "auto"), ("student", "auto"), ("gaussian", "conjugate")],
)
def test_two_classes_are_told_of_bernoulli_and_never_of_student(likelihood, method):
    prior = pr.Normal(1.0, sigma_units=True) if method == "conjugate" else pr.Flat()
    fit = pr.fit(
        pr.Model.from_arrays(X, CLASS, likelihood=likelihood, prior=prior), method
    )
    (led,) = pr.check(fit.model)["response"].items
    assert led.verdict == Verdict.WARNING
    assert "bernoulli" in led.remedy
    assert not [f for f in pr.diagnose(fit) if "student" in f.remedy.lower()]
    for name in TAILED:
        assert not DIAGNOSTICS[name]().run(fit)[0].applies, name
    numbers = pr.check(pr.Model.from_arrays(X, np.round(Y), likelihood="gaussian"))
    assert numbers["response"].worst is Verdict.OK


def _autocorrelation(x, y, **settings):
    return DIAGNOSTICS["autocorrelation"]().run(
        pr.fit(pr.Model.from_arrays(x, y, **settings))
    )


@pytest.mark.parametrize(
    ("likelihood", "y"),
    [("gaussian", Y), ("student", Y), ("bernoulli", CLASS), ("poisson", COUNTS)],
)
@pytest.mark.parametrize("falling", [False, True])
def test_rows_sorted_by_the_response_are_not_judged_in_that_order(
    likelihood, y, falling
):
    order = np.argsort(-y if falling else y, kind="stable")
    (found,) = _autocorrelation(X[order], y[order], likelihood=likelihood)
    assert found.verdict is Verdict.NOTE
    assert "rows are sorted by y" in found.sentence
    moved = [f.verdict for f in _autocorrelation(X, y, likelihood=likelihood)]
    assert set(moved) == {Verdict.OK}


def test_a_series_that_rises_all_the_time_is_judged():
    t = np.arange(80.0)
    # y rises with every row, and so does the fit
    for f in _autocorrelation(t, t + np.sin(t / 4)):
        assert f.verdict is Verdict.WARNING
        assert "order of time" in f.remedy
        assert "in order of the fitted values" in f.remedy


def test_rows_sorted_by_the_fit_are_told_of_the_bend():
    bent = ETA**2 + Y
    order = np.argsort(pr.fit(pr.Model.from_arrays(X, bent)).predict(X)["mean"].values)
    for found in _autocorrelation(X[order], bent[order]):
        assert found.verdict is Verdict.WARNING
        assert "functional form first (reset)" in found.remedy


# ---- no share or probability is rounded to what it is not ------------------------------------------------------------


def _clumped(counts: str) -> pr.Model:
    """Rows of many trials that depend on one another, and one far out: p-values that underflow, shares near the whole."""
    rng = np.random.default_rng(3)
    x, z, n = rng.normal(size=510), np.arange(510) % 2, rng.integers(200, 900, 510)
    table = {"x": x, "z": z, "n": n}
    x[5] = 6.0
    p = 1.0 / (1.0 + np.exp(-0.2 * x - rng.normal(size=510)))
    table["a"] = rng.binomial(n, p)
    table["a"][5] = 0
    table["b"] = rng.binomial(n - table["a"], 0.4)
    table["c"] = n - table["a"] - table["b"]
    return pr.Model.from_formula(f"{counts} ~ x + z", table)


@cache
def _said(counts: str) -> list[str]:
    """What checks, diagnostics and the influence of a prior say of fits of this model."""
    model = _clumped(counts)
    strong = model.with_prior({"x": pr.Normal(1e-5), "z": pr.Normal(30.0)})
    fits = [
        pr.fit(model),
        pr.fit(strong),
        pr.fit(strong, pr.LaplaceApproximation(draws=200), seed=1),
    ]
    found = [f for fit in fits for f in pr.diagnose(fit)]
    assert {f.check for f in found} >= {
        "cook",
        "outliers",
        "dispersion",
        "loo_pit" if counts.startswith("p(") else "loo",
    }
    said = [f"{f.sentence} -> {f.remedy}" for f in found if f.p_value != 1.0]
    table = str(pr.compare({"ML": fits[0], "strong": fits[1], "posterior": fits[2]}))
    said += [line for line in table.splitlines() if "flat  " not in line]
    moves = (
        model.with_prior({c: pr.Normal(1.0) for c in model.design.columns})
        .prior_predictive(200)
        .moves
    )
    return [*said, *(m.sentence for m in moves)]


@pytest.mark.parametrize(
    "counts", ["p(a, n)", pytest.param("counts(a, b, c)", marks=pytest.mark.slow)]
)
def test_no_share_or_probability_is_rounded_to_what_it_is_not(counts):
    fit, said = pr.fit(_clumped(counts)), list(_said(counts))
    said += [
        str(pr.predictions(fit)),
        str(pr.slopes(fit)),
        str(pr.comparisons(fit, "x")),
    ]
    for text in said:
        assert not re.search(r"(?<![\d.])(0|0\.0+|100|1e\+02) %", text), text
        assert not re.search(r"\bp = [01](\.0+)?(?![\d.e])", text), text
        # successes of trials have no level
        assert not re.search(r"P\((\w+ of \w+|counts\(.*\)) = ", text), text
    assert any("p < 1e-15" in text for text in said)
    assert any("over 99.9 %" in text for text in said)
    mean = (
        "P(success), a of n" if counts.startswith("p(") else "P(class), counts(a, b, c)"
    )
    assert mean in said[-3]


@pytest.mark.slow
def test_remedies_name_likelihoods_that_there_are():
    """Every name of a family in a remedy or an obstacle of this package's text is one of the registry."""
    from probreg.likelihoods import LIKELIHOODS

    there = {type(cls()).__name__ for cls in LIKELIHOODS.values()}
    for counts in ("p(a, n)", "counts(a, b, c)"):
        for text in _said(counts):
            for name in re.findall(
                r"\b(?:a|an|fit|use|likelihood) ([A-Z]\w+) likelihood", text
            ):
                assert name in there, text
            assert not re.search(r"(?i)dirichlet|quasi-?poisson", text), text
