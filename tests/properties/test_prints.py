"""What a person reads: which notes matter, and how long a print is."""

import re

import numpy as np
import pytest

import probreg as pr
from probreg.diagnostics.before.collinearity import condition_indices
from probreg.inference.status import Severity
from tests.properties.texts import unfolded

RNG = np.random.default_rng(0)
N = 60
X = RNG.normal(size=(N, 2))
Y = X @ [1.0, -1.0] + RNG.normal(size=N)
X[0, 0] = np.nan  # a row that is dropped
MATTERS = {  # the first words of what must be read beside the numbers, by method
    "auto": ["sigma is the maximum likelihood estimate"],
    "laplace": ["log sigma is"],
    "posterior": [],
    "nuts": [],
    "evidence": ["prior scale"],
}


@pytest.mark.parametrize("method", MATTERS)
def test_notes_on_the_computation_are_kept_apart_and_return_from_a_file(
    method, tmp_path
):
    prior = (
        {"a": pr.Normal(pr.HalfNormal(1.0)), "b": pr.Normal(pr.HalfNormal(1.0))}
        if method == "evidence"
        else pr.Flat()
    )
    model = pr.Model.from_formula(
        "y ~ a + b", {"y": Y, "a": X[:, 0], "b": X[:, 1]}, prior=prior, missing="drop"
    )
    found = pr.fit(model, pr.NUTS(draws=500) if method == "nuts" else method)
    *own, dropped = found.essential_notes
    assert dropped.startswith("1 of 60 rows were dropped")
    assert [
        note[: len(start)] for note, start in zip(own, MATTERS[method], strict=True)
    ] == MATTERS[method]
    every = found.described["notes"]
    assert any(note.severity is Severity.ROUTINE for note in found.all_notes)
    assert len(every) > len(found.essential_notes)
    again = pr.load_fit(found.save(tmp_path / "fit.nc"))
    assert (again.essential_notes, again.described["notes"]) == (
        found.essential_notes,
        every,
    )


# ---- checks and diagnostics ------------------------------------------------------------------------------------------

WIDE = RNG.normal(size=(100, 1)) + 0.05 * RNG.normal(size=(100, 30))
Z = RNG.normal(size=100)


def _lines(found) -> list[str]:
    return unfolded(found)


def test_what_needs_attention_is_printed_and_what_passed_is_counted():
    found = pr.check(
        pr.Model.from_arrays(
            np.c_[Z, 1e6 + 0.1 * RNG.normal(size=100)], Z, columns=["a", "b"]
        )
    )
    *said, _, last = _lines(found)
    assert said == [f"! Scales: {found['scale'].items[0].sentence}"]
    passed = [f.check for f in found if not f.verdict and f.applies]
    assert found.passed == tuple(passed)
    assert last == f"✓ {len(passed)} other checks passed; .show(verbose=True) lists all"
    whole = _lines(found.show(verbose=True))
    assert len(whole) == 1 + len(found)
    html = found._repr_html_()
    front, _, folded = html.partition("<details>")
    assert "nearly constant" in front
    assert "nearly constant" not in folded
    assert "largest leverage" in folded
    assert "not applicable" in folded
    assert "largest leverage" not in front


def test_a_near_collinearity_is_one_finding_with_all_its_columns():
    beside = Z + 0.01 * RNG.normal(size=100)
    found = pr.check(
        pr.Model.from_arrays(
            np.c_[Z, beside, RNG.normal(size=100)], Z, columns=["a", "b", "c"]
        )
    )
    (flagged,) = [f for f in found if f.verdict]
    assert (flagged.check, set(flagged.columns)) == ("collinearity", {"a", "b"})
    several = pr.check(pr.Model.from_arrays(WIDE, Z))["collinearity"]
    assert "and 25 more" in several.items[0].sentence
    assert len(several.items[0].columns) == 30
    # two pairs that have nothing in common are both found
    pairs = np.c_[
        Z,
        Z + 0.005 * RNG.normal(size=100),
        WIDE[:, 0],
        WIDE[:, 0] + 0.005 * RNG.normal(size=100),
    ]
    apart = pr.check(
        pr.Model.from_arrays(pairs, RNG.normal(size=100), columns=["a", "b", "c", "d"])
    )
    assert {c for f in apart if f.verdict for c in f.columns} == {"a", "b", "c", "d"}
    # two factors whose first levels are nearly one: an average over five contrasts hides it
    g = np.repeat(np.arange(6), 1000)
    h = np.where(g == 0, 0, 1 + np.tile(np.arange(5), 1200))
    h[1000] = 0
    factors = {"g": g.astype(str), "h": h.astype(str), "y": np.sin(np.arange(6000.0))}
    hidden = pr.check(pr.Model.from_formula("y ~ g + h", factors))["collinearity"]
    assert hidden.worst.name == "NOTE"
    assert {c[0] for c in hidden.items[0].columns} == {"g", "h"}


@pytest.mark.parametrize(("noise", "verdict"), [(1e-2, "NOTE"), (1.5e-3, "WARNING")])
def test_near_collinearity_is_a_warning_from_a_condition_index_of_a_thousand(
    noise, verdict
):
    columns = np.c_[Z, Z + noise * np.cos(np.arange(100.0))]
    model = pr.Model.from_arrays(columns, Z)
    index = condition_indices(model, centred=True)["index"].max()
    assert (verdict == "WARNING") == (index >= 1000.0)
    assert pr.check(model)["collinearity"].worst.name == verdict


@pytest.mark.parametrize(
    "term", ["bs(z, df=8)", "g", "s(z)", "gp(z, length=0.5)", "poly(z, 3)"]
)
def test_a_spline_a_factor_and_a_kernel_are_one_thing_to_check(term):
    # levels of two rows make columns that are nearly one another's
    g = np.repeat(["a", "b", "c", "d"], [94, 2, 2, 2])
    table = {"y": Z + RNG.normal(size=100), "z": Z, "g": g, "w": RNG.normal(size=100)}
    alone = pr.check(pr.Model.from_formula(f"y ~ {term} + w", table))
    assert not [f for f in alone if f.check in ("rank", "collinearity") and f.verdict]
    assert len(_lines(alone)) <= 5


def test_redundant_levels_of_a_factor_are_one_finding():
    twice = {
        "y": Z[:50],
        "g": np.resize(list("abcde"), 50),
        "h": np.resize(list("ABCDE"), 50),
    }
    (rank,) = pr.check(pr.Model.from_formula("y ~ g + h", twice))["rank"]
    assert "4 of its columns are combinations of g" in rank.sentence


def test_diagnose_reports_that_no_estimate_exists():
    y = (Z > 0).astype(float)
    with pytest.warns(pr.ProbregWarning, match="no maximum"):
        apart = pr.fit(pr.Model.from_arrays(Z, y, likelihood="bernoulli"))
    assert "✗ Existence: the likelihood has no maximum" in repr(pr.diagnose(apart))


# ---- the length of a print -------------------------------------------------------------------------------------------

LINES = 40


@pytest.fixture(scope="module")
def many():
    """A fit of sixty coefficients."""
    x = np.random.default_rng(2).normal(size=(200, 60))
    return pr.fit(
        pr.Model.from_arrays(
            x, x @ np.linspace(-1.0, 1.0, 60) + x[:, 0] ** 2, prior=pr.Normal(0.05)
        )
    )


SHOWN = {
    "model": lambda fit: fit.model.with_prior("weak"),
    "check": lambda fit: pr.check(fit.model),
    "diagnose": lambda fit: pr.diagnose(fit),
    "prior_weight": lambda fit: pr.prior_weight(fit),
    "prior_predictive": lambda fit: fit.model.prior_predictive(20),
    "penalty": lambda fit: fit.model.penalty(sigma=1.0),
    "path": lambda fit: pr.path(fit.model, scales=np.geomspace(0.1, 1.0, 30)),
    "slopes": lambda fit: pr.slopes(fit),
    "predictions": lambda fit: pr.predictions(fit),
    "comparisons": lambda fit: pr.comparisons(fit, "x1"),
    "hypothesis": lambda fit: pr.hypothesis(
        fit, " = ".join(f"x{j}" for j in range(1, 60)) + " = 0"
    ),
    "guarantee": lambda fit: pr.guarantee(fit, y_range=(-50.0, 50.0)),
    "conformal": lambda fit: pr.conformal(fit, np.zeros((100, 60)), y=np.arange(100.0)),
    "influence_measures": lambda fit: pr.influence_measures(fit),
}


@pytest.mark.parametrize("name", SHOWN)
def test_no_print_of_sixty_coefficients_is_longer_than_40_lines(name, many):
    assert len(repr(SHOWN[name](many)).splitlines()) <= LINES


def test_findings_of_many_problems_are_folded():
    X = 1e6 + 0.1 * RNG.normal(size=(100, 20))  # nearly constant columns
    found = pr.check(pr.Model.from_arrays(X, Z))
    assert len([f for f in found if f.verdict]) > 15
    assert len(repr(found).splitlines()) <= LINES
    assert any(line.startswith("… ") for line in _lines(found))


def test_a_run_prints_what_it_lost_and_where_it_ended():
    rows, signs = np.nan_to_num(X), np.sign(Y)
    for learner, y in ((pr.online.lms(0.01), Y), (pr.online.perceptron(), signs)):
        path = pr.online.run(learner, rows, y)
        said = repr(path)
        assert len(said.splitlines()) <= 10
        for number in (path.state.w[0], path.loss / 60):
            assert f"{number:.4g}" in said
        assert "60 rounds" in said
        assert (f"; {path.mistakes} mistakes" in said) == (y is signs)
        assert "60 rounds" in path._repr_html_()
    wide = repr(pr.online.run(pr.online.lms(0.001), np.tile(rows, 20), Y))
    assert "and 34 more" in wide


@pytest.mark.slow
def test_large_numbers_keep_every_digit_before_the_point():
    """Fits are told apart by the units of AIC, and degrees of freedom are whole numbers, however many rows there are."""
    x = np.linspace(-1.0, 1.0, 20_000)
    counts = np.round(np.exp(1.5 + 0.5 * x) * np.tile([0.0, 0.0, 3.0, 1.0], 5_000))
    for y, likelihood, own in (
        (counts, "poisson", "Pearson chi2(19998) = "),
        (counts**2, "gaussian", "F(2, 19996) = "),
    ):
        fit = pr.fit(pr.Model.from_arrays(x, y, likelihood=likelihood))
        said = f"{fit}\n{unfolded(str(pr.diagnose(fit).show(verbose=True)))}"
        assert not re.search(r"\de\+\d", said), said
        assert f"AIC {fit.aic:.0f}, BIC {fit.bic:.0f} (" in said
        assert own in said
        assert f"log-likelihood {fit.log_likelihood:.0f}" in said


@pytest.mark.slow
def test_responses_that_lie_far_out_are_named_together():
    x = np.arange(200.0)
    for far in ([7], [7, 30]):
        y = np.sin(9.0 * x)
        y[far] += 20.0 + 0.1 * np.array(far)
        (found,) = pr.diagnose(pr.fit(pr.Model.from_arrays(x, y)))["outliers"]
        assert set(found.rows) == set(far)
