"""Laws of every picture: its size or place is the caller's, it shows itself once, its words lie apart, its colours keep their meaning."""

import warnings
from collections import defaultdict
from functools import cache
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import PathCollection
from matplotlib.colors import to_hex
from matplotlib.container import BarContainer
from scipy.stats import poisson

import probreg as pr
from probreg.comparison.tuning import path, tune
from probreg.likelihoods import OfClasses, OfTrials, SmoothLikelihood, SoftmaxLikelihood
from probreg.show import plot
from probreg.show.plot import chains
from probreg.show.plot.picture import Picture

from .drawn import faults

matplotlib.use("Agg")
N = 60
PICTURES = {name: getattr(plot, name) for name in plot.__all__}
CHAINS = ("trace", "rank", "energy", "ppc")  # drawn by arviz-plots
OF_FITS = (
    "coefficients",
    "fitted",
    "reliability",
    "prior_weight",
    "diagnose",
)
EACH = pytest.mark.parametrize(
    "name",
    [
        pytest.param(k, marks=pytest.mark.slow if k in CHAINS else ())
        for k in sorted(PICTURES)
    ],
)


@cache
def table() -> pd.DataFrame:
    rng = np.random.default_rng(4)
    x, z = rng.normal(50.0, 10.0, N), rng.normal(size=N)
    group = np.array(["control", "low dose", "high dose"])[np.arange(N) % 3]
    eta = (x - 50.0) / 10.0
    y = eta + rng.normal(0.0, 0.7, N)
    classes = np.array(["ash", "beech", "cedar"])[
        np.clip(np.round(y) + 1, 0, 2).astype(int)
    ]
    columns = {
        "gaussian": y,
        "quantile": y,
        "categorical": classes,
        "poisson": rng.poisson(np.exp(0.5 * eta)),
    }
    columns |= {"bernoulli": (rng.random(N) < 1 / (1 + np.exp(-eta))).astype(int)}
    return pd.DataFrame({"age of the patient": x, "z": z, "group": group, **columns})


def model_of(likelihood: str) -> pr.Model:
    formula = f"{likelihood} ~ `age of the patient` + z + group"
    return pr.Model.from_formula(
        formula, table(), likelihood=likelihood, prior=pr.Normal(1.0, scaled=True)
    )


@cache
def fit_of(likelihood: str) -> pr.Fit:
    return pr.fit(model_of(likelihood))


@cache
def posterior() -> pr.Fit:
    # four short chains are enough to be drawn
    with warnings.catch_warnings(action="ignore"):
        return pr.fit(model_of("gaussian"), pr.NUTS(draws=100, chains=4), seed=1)


@cache
def grouped(likelihood: str, count: int = 12) -> pr.Fit:
    rng = np.random.default_rng(6)
    number = np.tile(np.arange(count), 6)
    x = rng.normal(size=len(number))
    eta = (
        rng.normal(size=count)[number]
        + (1.0 + 0.7 * rng.normal(size=count)[number]) * x
    )
    y = eta + 0.5 * rng.normal(size=len(eta))
    if likelihood == "categorical":
        y = np.array(["ash", "beech", "cedar"])[
            np.clip(np.round(y) + 1, 0, 2).astype(int)
        ]
    data = {
        "y": y,
        "dose": x,
        "the school": [f"school at the end of road {i}" for i in number],
    }
    bars = "1" if likelihood == "categorical" else "dose"
    return pr.fit(
        pr.Model.from_formula(
            f"y ~ dose + ({bars} || `the school`)", data, likelihood=likelihood
        ),
        "evidence",
    )


@cache
def wide() -> pr.Fit:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(120, 31)) * rng.uniform(0.1, 50.0, 31)
    y = (X[:, 0] / X[:, 0].std() + rng.normal(size=120) > 0).astype(int)
    names = [f"measurement_of_site_{j}" for j in range(31)]
    prior = pr.Normal(1.0, scaled=True)
    return pr.fit(
        pr.Model.from_arrays(X, y, columns=names, likelihood="bernoulli", prior=prior)
    )


@cache
def told(name: str) -> Any:
    """What the picture of this name draws."""
    fit = fit_of("gaussian")
    if name in CHAINS:
        return posterior()
    if name == "reliability":
        return fit_of("bernoulli")
    if name == "rootogram":
        return fit_of("poisson")
    if name == "smooth":
        return pr.gam("gaussian ~ s(z) + s(`age of the patient`)", table())
    if name == "effects":
        return grouped("gaussian")
    if name == "path":
        return path(fit.model, n=8)
    if name == "tune":
        return tune(fit.model, "aic")
    if name == "bias_variance":
        known = fit.model.with_aux(sigma=0.7)
        return pr.bias_variance(known, np.zeros(5), scales=[0.1, 1.0, 10.0])
    if name == "regret":
        rng = np.random.default_rng(4)
        X = rng.uniform(-1.0, 1.0, (N, 2))
        y = X @ [1.0, -1.0] + 0.1 * rng.normal(size=N)
        return pr.online.run(pr.online.lms(0.2), X, y)
    if name == "sbc":
        known = pr.Model.from_arrays(
            [[0.0], [1.0], [2.0]],
            [1.0, 3.0, 6.0],
            columns=["dose"],
            prior=pr.Normal(1.0),
            intercept=False,
        )
        return pr.sbc(known.with_aux(sigma=1.0), "conjugate", 20, seed=1)
    return fit


def hues(fig: Any) -> dict[str, str]:
    """The colour of each word of the legends, and of the rings that are rows."""
    found = {}
    for ax in fig.axes:
        rings = [
            c
            for c in ax.collections
            if isinstance(c, PathCollection) and not len(c.get_facecolor())
        ]
        found |= {
            f"rows {i}": to_hex(c.get_edgecolor()[0]) for i, c in enumerate(rings)
        }
        for handle, word in zip(*ax.get_legend_handles_labels(), strict=True):
            if isinstance(handle, BarContainer):
                handle = handle.patches[0]
            take = (
                handle.get_color
                if hasattr(handle, "get_color")
                else handle.get_facecolor
            )
            colour = handle.get_edgecolor() if word == "data" else take()
            found[word] = to_hex(
                np.asarray(colour)[0] if np.ndim(colour) == 2 else colour
            )
    return found


@EACH
def test_a_picture_is_of_the_size_that_is_asked_for_and_shows_itself_once(name):
    open_before = plt.get_fignums()
    fig = PICTURES[name](told(name), figsize=(9.0, 8.0))
    assert tuple(fig.get_size_inches()) == (9.0, 8.0)
    assert isinstance(fig, Picture)
    # pyplot, which would show it again, does not know it
    assert plt.get_fignums() == open_before


@pytest.mark.slow
def test_the_value_of_a_cell_is_an_image():
    fig = plot.coefficients(fit_of("gaussian"))
    assert fig._repr_png_().startswith(b"\x89PNG")


@cache
def usual(name: str) -> Any:
    return PICTURES[name](told(name))


@pytest.mark.parametrize("name", sorted(set(PICTURES) - set(CHAINS)))
def test_words_of_a_picture_lie_inside_it_and_apart(name):
    assert faults(usual(name)) == []


@pytest.mark.slow
def test_words_lie_apart_with_classes():
    for name in OF_FITS:
        assert faults(PICTURES[name](fit_of("categorical"))) == [], name


@pytest.mark.slow
def test_words_lie_apart_with_many_long_names():
    fit = wide()
    for name in OF_FITS:
        draw = PICTURES[name]
        shown: Any = fit
        if name in ("coefficients", "fitted"):
            shown = {"maximum likelihood": fit, "another": fit, "a third one": fit}
        assert faults(draw(shown)) == [], name
    assert faults(plot.path(path(fit.model, n=6))) == []


def test_the_law_of_words_sees_what_it_forbids():
    from matplotlib.figure import Figure

    fig = Figure()
    ax = fig.subplots()
    ax.plot([0, 1], [0, 1], label="line")
    ax.legend(loc="center")
    ax.text(0.1, 0.9, "one word")
    ax.text(0.12, 0.9, "another")
    ax.text(0.9, 0.1, "a text that runs over the edge of the canvas")
    said = " ".join(faults(fig))
    assert all(
        words in said
        for words in (
            "'one word' over 'another'",
            "outside the canvas",
            "legend over the frame",
        )
    )


@pytest.mark.slow
def test_a_colour_has_one_meaning():
    seen = defaultdict(set)
    for name in set(PICTURES) - set(CHAINS):
        for word, colour in hues(usual(name)).items():
            seen[word.partition(" ")[0] if word.startswith("rows") else word].add(
                colour
            )
    assert {word: colours for word, colours in seen.items() if len(colours) > 1} == {}


def test_residuals_beyond_what_double_precision_tells_are_counted():
    rng = np.random.default_rng(0)
    x = rng.normal(size=40)
    y = rng.poisson(np.exp(0.2 * x))
    y[7] = 60
    fit = pr.fit(
        pr.Model.from_arrays(x, y, likelihood="poisson", prior=pr.Normal(0.01))
    )
    assert "1 beyond ±7.9 drawn there" in plot.diagnose(fit).get_supxlabel()
    assert "beyond" not in plot.diagnose(fit_of("poisson")).get_supxlabel()


def _of(likelihood: str) -> pr.Model:
    """A small model of any likelihood of the registry."""
    known, rng = pr.LIKELIHOODS[likelihood], np.random.default_rng(5)
    x = rng.normal(size=N)
    eta = x[:, None] * np.array([0.0, 1.0, -1.0])
    probability = np.exp(eta) / np.exp(eta).sum(1, keepdims=True)
    rest: dict[str, Any] = {}
    if issubclass(known, OfTrials):
        counts = np.array([rng.multinomial(8, p) for p in probability])
        several = issubclass(known, SoftmaxLikelihood)
        y, rest = (counts, {}) if several else (counts[:, 1], {"trials": np.full(N, 8)})
    elif issubclass(known, SoftmaxLikelihood):
        y = np.array([*"abc"])[[rng.choice(3, p=p) for p in probability]]
    elif issubclass(known, pr.Ordinal):
        y = np.clip(np.round(x + rng.normal(size=N)) + 1, 0, 2)
    elif str(known().support) == "unit":
        y = rng.beta(2.0 * np.exp(0.5 * x), 2.0)
    elif str(known().support) == "positive":
        y = rng.gamma(2.0, np.exp(0.5 * x) / 2.0)
    elif issubclass(known, OfClasses):
        y = (x + rng.normal(size=N) > 0).astype(int)
    elif not known.is_count:
        y = x + rng.normal(size=N)
    else:
        y = rng.poisson(np.exp(0.5 * x) * rng.gamma(1.0, 1.0, N))
    rest["aux"] = dict.fromkeys(
        {**known().at_zero, **known().at_infinity}, pr.HalfNormal(1.0)
    )
    return pr.Model.from_arrays(
        np.c_[x, rng.normal(size=N)],
        y,
        likelihood=likelihood,
        prior=pr.Normal(1.0),
        **rest,
    )


def titles_of(fit: pr.Fit) -> list[str]:
    fig = plot.diagnose(fit)
    assert faults(fig) == []
    assert all(len(ax.lines) + len(ax.collections) for ax in fig.axes)
    assert all(ax.get_xlabel() for ax in fig.axes)
    return [ax.get_title(loc="left") for ax in fig.axes]


# One likelihood of each kind, see the assertions; for those of a base see test_censoring.py.
EVERY = ["multinomial", "quantile"] + [
    pytest.param(k, marks=pytest.mark.slow)
    for k in ("gaussian", "bernoulli", "poisson", "beta_binomial", "categorical")
]


@pytest.mark.parametrize("likelihood", EVERY)
def test_the_panels_of_diagnose_are_those_that_apply(likelihood):
    titles = titles_of(pr.fit(_of(likelihood)))
    family = pr.LIKELIHOODS[likelihood]
    smooth = issubclass(family, SmoothLikelihood)
    assert ("Leverage" in titles) == smooth
    assert ("Calibration" in titles) == issubclass(family, OfClasses)
    assert ("Rootogram" in titles) == family.is_count
    assert ("Quantiles" in titles) != issubclass(family, SoftmaxLikelihood)


@pytest.mark.slow
def test_a_prior_with_kinks_has_no_panel_of_leverage():
    lasso = pr.fit(_of("gaussian").with_prior(pr.Laplace(1.0)))
    assert titles_of(lasso) == ["Residuals", "Quantiles", "Spread", "Response"]


def test_a_rootogram_shows_the_expected_number_of_rows_of_each_count():
    fit = fit_of("poisson")
    ax = next(
        ax for ax in plot.diagnose(fit).axes if ax.get_title(loc="left") == "Rootogram"
    )
    y, mean = table()["poisson"].to_numpy(), fit.predictive().mean()
    np.testing.assert_allclose(
        [p.get_height() ** 2 for p in ax.patches], np.bincount(y), atol=1e-12
    )
    expected = poisson.pmf(np.arange(y.max() + 1)[:, None], mean).sum(1)
    np.testing.assert_allclose(ax.lines[0].get_ydata() ** 2, expected, rtol=1e-9)


def test_bars_of_a_rootogram_hang_from_the_expected_frequencies():
    fit = fit_of("poisson")
    ax = plot.rootogram(fit, prob=0.9).axes[0]
    y, mean = table()["poisson"].to_numpy(), fit.predictive().mean()
    p = poisson.pmf(np.arange(y.max() + 1)[:, None], mean)
    top = ax.lines[-1].get_ydata()
    np.testing.assert_allclose(top**2, p.sum(1), rtol=1e-9)
    bottom = [bar.get_y() + bar.get_height() for bar in ax.patches]
    np.testing.assert_allclose(bottom, top - np.sqrt(np.bincount(y)), atol=1e-9)
    corners = ax.collections[0].get_paths()[0].vertices
    half = 1.6448536269514722 * np.sqrt((p * (1.0 - p)).sum(1))
    lowest = top - np.sqrt(p.sum(1) + half)
    for k, end in enumerate(lowest):
        assert np.abs(corners - [k, end]).sum(1).min() < 1e-9
    with pytest.raises(pr.Incompatible, match="counts"):
        plot.rootogram(fit_of("gaussian"))


@pytest.mark.slow
def test_chains_show_single_parameters_of_a_factor():
    rows = {"g": [*"abcdefghijklmnop"] * 2, "y": np.arange(32.0) % 7}
    model = pr.Model.from_formula("y ~ g", rows, prior=pr.Normal(1.0))
    with warnings.catch_warnings(action="ignore"):
        fit = pr.fit(model, pr.NUTS(draws=20, tune=50, chains=2))
    titles = [ax.get_title() for ax in plot.rank(fit).axes]
    assert len(titles) == 12
    assert titles[:2] == ["Intercept", "g[b]"]


@pytest.mark.slow
def test_chains_and_replicates_are_refused_where_there_are_none():
    for draw in (plot.trace, plot.rank, plot.energy):
        with pytest.raises(pr.Incompatible, match="no Markov chains"):
            draw(fit_of("gaussian"))
    with pytest.raises(pr.Incompatible, match="needs a posterior"):
        plot.ppc(fit_of("gaussian"))
    counts = pr.fit(model_of("poisson"), pr.LaplaceApproximation(draws=50))
    assert len(plot.ppc(counts).axes) == 1


CLASSES = {
    "event": ["no", "yes", "yes", "yes"],
    "fruit": ["fig", "kiwi", "fig", "plum"],
    "grade": pd.Categorical(["low", "mid", "high", "mid"], ["low", "mid", "high"], ordered=True),
    "fig": [2, 0, 1, 0],
    "plum": [1, 3, 0, 1],
    "k": [0, 3, 2, 10],
    "n": [3, 3, 4, 10],
    "w": [1, 2, 1, 3],
}  # fmt: skip


def of_classes(response: str, likelihood: object) -> pr.Model:
    """A model of an intercept under a proper prior."""
    likelihood = likelihood or pr.Binomial()
    prior = {"Intercept": pr.Normal(1.0)}
    if isinstance(likelihood, pr.Multinomial):
        y = np.column_stack([CLASSES["fig"], CLASSES["plum"]])
        ones = np.ones((4, 1))
        return pr.Model.from_arrays(
            ones,
            y,
            columns=["Intercept"],
            likelihood=likelihood,
            prior=prior,
            intercept=False,
        )
    aux = {"gap_2": pr.HalfNormal(1.0)} if response == "grade" else {}
    weights = {"weights": "w"} if response == "event" else {}
    return pr.Model.from_formula(
        f"{response} ~ 1",
        CLASSES,
        likelihood=likelihood,
        prior=prior,
        aux=aux,
        **weights,
    )


@pytest.mark.parametrize(
    ("response", "likelihood", "heights"),
    [
        ("event", "bernoulli", {"no": 1, "yes": 6}),
        ("fruit", "categorical", {"fig": 2, "kiwi": 1, "plum": 1}),
        ("grade", "ordinal", {"low": 1, "mid": 2, "high": 1}),
        ("counts", pr.Multinomial(levels=("fig", "plum")), {"fig": 3, "plum": 5}),
        ("p(k, n)", None, {"0 to 0.1": 1, "0.5 to 0.6": 1, "0.9 to 1": 2}),
    ],
)
def test_classes_have_bars_of_observed_frequencies_and_predictive_intervals(
    response, likelihood, heights
):
    model = of_classes(response, likelihood)
    posterior = pr.fit(model, pr.LaplaceApproximation(draws=200))
    for source in (model, posterior):
        (ax,) = plot.ppc(source).axes
        names = [text.get_text() for text in ax.get_xticklabels()]
        bars, intervals = sorted(ax.containers, key=lambda c: hasattr(c, "has_yerr"))
        drawn = {k: bar.get_height() for k, bar in zip(names, bars, strict=True)}
        assert {k: v for k, v in drawn.items() if v} == heights
        ends = intervals.lines[2][0].get_segments()
        assert len(ends) == len(names)
        total = sum(heights.values())
        for (_, low), (_, high) in ends:
            assert 0 <= low <= high <= total


def test_intervals_of_two_classes_are_those_of_a_binomial_distribution():
    data = {"y": ["a", "b"] * 50}
    fixed = {"Intercept": pr.Normal(1e-6)}
    model = pr.Model.from_formula("y ~ 1", data, likelihood="bernoulli", prior=fixed)
    (ax,) = plot.ppc(model).axes
    (intervals,) = [c for c in ax.containers if hasattr(c, "has_yerr")]
    for (_, low), (_, high) in intervals.lines[2][0].get_segments():
        # 1,000 draws: each end within two of the quantiles of Binomial(100, 1/2)
        np.testing.assert_allclose([low, high], [40, 60], atol=2)


def test_successes_of_equal_trials_have_a_rootogram(monkeypatch):
    monkeypatch.setattr(chains, "_draw", lambda name, *a, **options: name)
    rows = {"k": [1, 2, 0, 1], "n": [3, 3, 3, 3]}
    priors = {"Intercept": pr.Normal(1.0)}
    model = pr.Model.from_formula("p(k, n) ~ 1", rows, prior=priors)
    assert plot.ppc(model) == "plot_ppc_rootogram"


@pytest.mark.slow
def test_a_model_is_drawn_from_its_priors_with_the_data():
    names = ["Intercept", "age of the patient", "z", "group"]
    priors = dict.fromkeys(names, pr.Normal(0.02))
    aux = {"sigma": pr.HalfNormal(1.0)}
    for likelihood in ("gaussian", "poisson"):
        model = model_of(likelihood).with_prior(priors)
        if likelihood == "gaussian":
            with pytest.raises(pr.Incompatible, match="sigma without a proper prior"):
                plot.ppc(model)
            model = model.with_aux(**aux)
        (ax,) = plot.ppc(model).axes
        assert len(ax.lines) + len(ax.collections) > 1
    with pytest.raises(pr.Incompatible, match="Intercept"):
        plot.ppc(model_of("gaussian"))


def test_a_quantile_is_called_what_it_is():
    fit = fit_of("quantile")
    assert plot.diagnose(fit).axes[0].get_xlabel() == "fitted 0.5 quantile of quantile"
    words = plot.fitted(fit).axes[0].get_legend_handles_labels()[1]
    assert "95 % interval of the 0.5 quantile of quantile" in words
    assert "mean" not in " ".join(words)


def test_smooth_functions_stand_in_their_own_picture():
    fit = pr.gam("gaussian ~ s(z) + group", table())
    fig = plot.coefficients(fit)
    assert not any("s(z)" in ax.get_title(loc="left") for ax in fig.axes)
    assert "plot.smooth draws the smooth functions" in fig.get_supxlabel().replace(
        "\n", " "
    )
    assert "plot.smooth" not in plot.coefficients(fit_of("gaussian")).get_supxlabel()


@pytest.mark.parametrize("name", ["fitted", "coefficients", "diagnose"])
def test_long_names_are_broken_into_lines(name):
    rng = np.random.default_rng(1)
    long = [
        f"concentration of the {k} substance in the blood after four hours (mg per litre)"
        for k in ("1st", "2nd")
    ]
    X = rng.normal(size=(30, 2))
    fit = pr.ols(
        X,
        X.sum(1) + rng.normal(size=30),
        columns=long,
        response=long[0].replace("1st", "measured"),
    )
    assert faults(PICTURES[name](fit)) == []
