"""Rows that are not in memory, asked by every public function: the answer is that of the rows in memory, or words that say why
there is none and what to do. Rows that are read by the block are never said to be lost with a file, nor lost ones to be read."""

import contextlib
import inspect
import pickle
import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest

import probreg as pr
from probreg.data import ArrayColumns
from probreg.diagnostics.after.functional_form import reset
from probreg.diagnostics.before import (
    condition_indices,
    separation,
    vif,
)
from probreg.diagnostics.before.columns import design_leverage
from probreg.inference.uncertainty.information import (
    RowDerivatives,
    estimate_of,
    sum_of_parts,
)
from probreg.model.likelihood_sums import expected_information
from probreg.show import plot
from tests.properties.cases import own

pytest.importorskip("pyarrow")
Array = np.ndarray
SAME = 1e-10  # relative: sums over the same 150 rows in another order, and Newton's steps from them
N = 150
PLACES = {
    "parquet": r"reads its rows by the block \(a\.parquet\)",
    "blocks": r"reads its rows by the block \(blocks\)",
    "saved": "saved without",
}
FEW: Any = {"draws": 40, "chains": 2}


def table() -> pd.DataFrame:
    rng = np.random.default_rng(3)
    x, z = rng.normal(size=(2, N))
    y = 1.0 + x - 0.5 * z + rng.normal(size=N)
    yes = (0.8 * x + rng.logistic(size=N) > 0).astype(int)
    return pd.DataFrame(
        {"Intercept": 1.0, "x": x, "z": z, "gaussian": y, "bernoulli": yes}
    )


def blocks(likelihood: str) -> list[tuple[Array, Array]]:
    rows = table()
    X, y = rows[["x", "z"]].to_numpy(), rows[likelihood].to_numpy()
    return [(X[a : a + 40], y[a : a + 40]) for a in range(0, N, 40)]


class Fits(NamedTuple):
    """One model wherever its rows are: by maximum likelihood, under a prior, and its posterior; and what it has answered."""

    model: pr.Model
    mode: pr.Fit
    post: pr.Fit
    answers: dict[str, tuple[Any, pr.ProbregError | None]]

    @property
    def prior(self) -> pr.Model:
        return self.model.with_prior(pr.Normal(1.0))

    @property
    def lasso(self) -> pr.Model:
        return self.model.with_prior(pr.Laplace(0.2)).with_aux(
            **dict.fromkeys(self.model.unknown, 1.0)
        )

    @property
    def proper(self) -> pr.Model:
        columns = self.model.with_prior(
            dict.fromkeys(self.model.design.columns, pr.Normal(1.0))
        )
        return columns.with_aux(**dict.fromkeys(self.model.unknown, pr.HalfNormal(1.0)))

    @property
    def units(self) -> pr.Model:
        return self.model.with_prior(
            pr.Normal(1.0, sigma_units=bool(self.model.unknown))
        )

    @property
    def scales(self) -> pr.Model:
        return self.model.with_prior(pr.Normal(pr.priors.Reference()))


def made(likelihood: str, place: str, folder: Path) -> Fits:
    rows, options = table(), {"likelihood": likelihood}
    if place == "parquet":
        rows.to_parquet(folder / "a.parquet", row_group_size=40)
        model = pr.Model.from_parquet(
            f"{likelihood} ~ x + z", folder / "a.parquet", **options
        )
    elif place == "blocks":
        model = pr.Model.from_blocks(
            blocks(likelihood), columns=["x", "z"], response=likelihood, **options
        )
    else:
        model = pr.Model.from_arrays(
            rows[["x", "z"]].to_numpy(),
            rows[likelihood].to_numpy(),
            columns=["x", "z"],
            response=likelihood,
            **options,
        )
    mode, post = (
        pr.fit(model),
        pr.fit(model.with_prior(pr.Normal(1.0)), pr.LaplaceApproximation(**FEW)),
    )
    if place != "saved":
        return Fits(model, mode, post, {})
    mode, post = (
        pr.load_fit(f.save(folder / f"{name}.nc"))
        for name, f in (("mode", mode), ("post", post))
    )
    return Fits(mode.model, mode, post, {})


@pytest.fixture(scope="module", autouse=True)
def _folder_of_its_own(tmp_path_factory: Any) -> Iterator[None]:
    with contextlib.chdir(tmp_path_factory.mktemp("here")):
        yield


# Fits of least squares have their moments when rows are lost.
WHERE = {
    f"{likelihood}-{place}": (likelihood, place)
    for place, likelihood in (
        ("parquet", "gaussian"),
        ("blocks", "bernoulli"),
        ("saved", "gaussian"),
        ("saved", "bernoulli"),
    )
}


@pytest.fixture(scope="module", params=WHERE)
def where(request: Any) -> tuple[str, str]:
    return WHERE[request.param]


@pytest.fixture(scope="module")
def likelihood(where: tuple[str, str]) -> str:
    return where[0]


@pytest.fixture(scope="module")
def here(likelihood: str, tmp_path_factory: Any) -> Fits:
    return made(likelihood, "memory", tmp_path_factory.mktemp("here"))


@pytest.fixture(scope="module")
def place(where: tuple[str, str]) -> str:
    return where[1]


@pytest.fixture(scope="module")
def there(likelihood: str, place: str, tmp_path_factory: Any) -> Fits:
    return made(likelihood, place, tmp_path_factory.mktemp("there"))


# ---- what is asked -------------------------------------------------------------------------------------------------------

Answer = Callable[[Fits], Any]


def unseen() -> pd.DataFrame:
    return table()[["x", "z"]].iloc[:30]


def scored(a: Fits) -> pd.DataFrame:
    """Further rows with their response."""
    return table()[["x", "z", a.model.design.response]].iloc[:30]


def updated(a: Fits) -> Any:
    more = scored(a)
    if isinstance(a.model.design.recipe, ArrayColumns):
        return a.post.update(
            more[["x", "z"]].to_numpy(), more[a.model.design.response].to_numpy()
        ).coef
    return a.post.update(more).coef


def drawn(figure: Any) -> float:
    """That there is a picture."""
    import matplotlib.pyplot as plt

    plt.close(figure)
    return 1.0


def numbers(frame: Any) -> Array:
    return np.asarray(frame.select_dtypes("number").to_numpy())


def chosen(a: Fits, by: Any) -> Array:
    return numbers(pr.tune(a.prior, by, scales=[0.5, 1.0]).table)


OF_A_FIT: dict[str, Answer] = {
    "coef": lambda a: a.mode.coef,
    "std_error": lambda a: a.mode.std_error,
    "summary": lambda a: a.mode.summary(),
    "log_likelihood": lambda a: a.mode.log_likelihood,
    "spread": lambda a: a.mode.spread("HC1").matrix.matrix(),
    "predict": lambda a: a.mode.predict(unseen())["mean_upper"],
    "predict at the rows": lambda a: a.mode.predict()["mean"],
    "predictive": lambda a: a.post.predictive(unseen()).mean(),
    "predictive at the rows": lambda a: a.post.predictive().mean(),
    "update": updated,
    "save": lambda a: a.mode.save("never.nc", rows=True),
    "covariance cluster": lambda a: a.mode.covariance(
        "cluster", groups=np.arange(N) % 7
    ),
}
for kind in (
    "classical",
    "ml",
    "observed",
    "expected",
    "sampling",
    "HC0",
    "HC1",
    "HC2",
    "HC3",
    "HAC",
):
    OF_A_FIT[f"covariance {kind}"] = lambda a, kind=kind: a.mode.covariance(kind)
for kind in ("t", "wald", "profile", "score"):
    OF_A_FIT[f"interval {kind}"] = lambda a, kind=kind: a.mode.interval(kind=kind)[
        "lower"
    ]

OF_A_MODEL: dict[str, Answer] = {
    "log_lik": lambda a: a.model.log_lik(a.mode.solution.beta, **a.mode.solution.aux),
    "eta": lambda a: a.model.eta(a.mode.solution.beta),
    "pointwise": lambda a: a.model.pointwise(
        a.mode.solution.beta, **a.mode.solution.aux
    ),
    "gradient": lambda a: (
        1.0 + a.prior.gradient(a.mode.solution.beta, **a.mode.solution.aux)
    ),
    "information": lambda a: a.prior.information(
        a.mode.solution.beta, **a.mode.solution.aux
    ),
    "to_pymc": lambda a: a.model.to_pymc(),
    "scaled prior": lambda a: a.model.with_prior(pr.Normal(1.0, scaled=True)).log_prior(
        a.mode.solution.beta, **a.mode.solution.aux
    ),
    "separation": lambda a: separation(a.model).not_estimable,
    "vif": lambda a: vif(a.model)["gvif"],
    "condition_indices": lambda a: condition_indices(a.model)["index"],
    "design_leverage": lambda a: design_leverage(a.model),
}

ROOMS: dict[str, Answer] = {
    "bias_variance": lambda a: pr.bias_variance(a.model, a.mode, reps=2).data["bias"],
    "check": lambda a: [f.verdict for f in pr.check(a.model)],
    "compare": lambda a: numbers(pr.compare({"a": a.mode, "b": a.post}).to_pandas()),
    "explain": lambda a: numbers(
        pr.explain(a.mode, a.post).shares.to_dataframe().reset_index()
    ),
    "tidy": lambda a: a.mode.tidy()[["estimate", "std.error", "p.value"]].to_numpy(),
    "compare_models": lambda a: numbers(
        pr.compare_models([a.mode]).table[["k", "log_lik", "AIC", "AICc", "BIC"]]
    ),
    "compare_models, heldout": lambda a: pr.compare_models(
        [a.mode], heldout=scored(a)
    ).table["heldout"],
    "comparisons": lambda a: numbers(pr.comparisons(a.mode, "x").table),
    "conformal": lambda a: pr.conformal(a.mode).predict(unseen()),
    "conformal, unseen rows": lambda a: (
        pr.conformal(
            a.mode, unseen(), y=scored(a)[a.model.design.response].to_numpy(), prob=0.7
        ).count
    ),
    "coverage": lambda a: numbers(
        pr.coverage(a.model, a.mode, kinds=["wald"], reps=2).table
    ),
    "guarantee": lambda a: [
        line.bound.value
        for line in pr.guarantee(a.mode, y_range=(-50.0, 50.0)).lines
        if line.bound
    ],
    "hypothesis": lambda a: numbers(pr.hypothesis(a.mode, "x = z").table),
    "anova": lambda a: numbers(pr.anova(a.mode).drop(columns="law")),
    "hypothesis of a posterior": lambda a: numbers(
        pr.hypothesis(a.post, "x > 0").table
    ),
    "prior_weight": lambda a: numbers(pr.prior_weight(a.post).table),
    "prior_sensitivity": lambda a: numbers(pr.prior_sensitivity(a.post)),
    "influence_measures": lambda a: pr.influence_measures(a.mode),
    "interval_panel": lambda a: numbers(
        pr.interval_panel(a.mode, "x", kinds=["wald", "HC3"]).table
    ),
    "interval_panel at a row": lambda a: numbers(
        pr.interval_panel(a.mode, at=unseen().iloc[:1], kinds=["wald"]).table
    ),
    "path": lambda a: pr.path(a.prior, n=4).coef,
    "path of a lasso": lambda a: pr.path(a.lasso, n=4).coef,
    "power_scaling": lambda a: numbers(pr.power_scaling(a.post)),
    "predictions": lambda a: numbers(pr.predictions(a.mode).table),
    "reset": lambda a: reset(a.mode).statistic,
    "residuals": lambda a: pr.residuals(a.mode),
    "sbc": lambda a: (
        pr.sbc(a.proper, pr.LaplaceApproximation(**FEW), reps=2, draws=9).ranks
    ),
    "simulate": lambda a: pr.simulate(a.proper, np.random.default_rng(0)).beta,
    "slopes": lambda a: numbers(pr.slopes(a.mode, "x").table),
    "slopes, other rows": lambda a: numbers(
        pr.slopes(a.mode, "x", data=unseen()).table
    ),
}
for name in ("cv", "loo", "aic", "bic", "evidence"):
    ROOMS[f"tune by {name}"] = lambda a, name=name: chosen(a, name)

PICTURES: dict[str, Answer] = {
    f"plot {name}": lambda a, name=name: drawn(
        getattr(plot, name)(a.post if name == "prior_weight" else a.mode)
    )
    for name in (
        "coefficients",
        "fitted",
        "reliability",
        "prior_weight",
        "diagnose",
    )
}

METHODS: dict[str, Answer] = {
    "auto": lambda a: pr.fit(a.model).coef,
    "bootstrap": lambda a: pr.fit(a.model, pr.Bootstrap(reps=3)).coef,
    "closed_form": lambda a: pr.fit(a.model, "closed_form").coef,
    "conjugate": lambda a: pr.fit(a.units, pr.Conjugate(**FEW)).coef,
    "coordinate_descent": lambda a: pr.fit(a.lasso, "coordinate_descent").coef,
    "evidence": lambda a: pr.fit(a.scales, "evidence").coef,
    "importance": lambda a: pr.fit(a.prior, pr.Importance(**FEW)).coef,
    "integrate": lambda a: (
        pr.fit(
            a.scales.with_prior(pr.Normal(pr.HalfNormal(1.0))),
            pr.Integrate(draws=200, chains=1, nodes=32),
        ).coef
    ),
    "laplace": lambda a: pr.fit(a.prior, pr.LaplaceApproximation(**FEW)).coef,
    "lms": lambda a: pr.fit(a.model, "lms").coef,
    "newton": lambda a: pr.fit(a.prior, "newton").coef,
    "nuts": lambda a: np.isfinite(
        pr.fit(a.prior, pr.NUTS(draws=50, tune=50, chains=1, progress=False)).coef
    ),
    "perceptron": lambda a: pr.fit(a.model, "perceptron").coef,
    "posterior": lambda a: np.isfinite(
        pr.fit(a.prior, "posterior").coef
    ),  # by another rung of its ladder
    "interior_point": lambda a: (
        pr.fit(
            replace(a.model, likelihood=pr.likelihoods.AbsoluteLoss(), aux={}),
            "interior_point",
        ).coef
    ),
    "proximal_newton": lambda a: pr.fit(a.lasso, "proximal_newton").coef,
    "quadrature": lambda a: pr.fit(a.prior, pr.Quadrature(**FEW)).coef,
    "sgd": lambda a: pr.fit(a.model, pr.SGD(epochs=1, tol=1e9)).coef,
}
ASKED = {
    **OF_A_FIT,
    **OF_A_MODEL,
    **ROOMS,
    **PICTURES,
    **{f"fit {k}": v for k, v in METHODS.items()},
}
# tested one by one below, or not about a model: they make one or its response, or read a file or a table
ELSEWHERE = {
    "censored",
    "table",
    "table_one",
    "diagnose",
    "fit",
    "load_fit",
    "report",
    "describe_dataset",
    "list_datasets",
    "load_dataset",
}
RECIPES = {
    "ard",
    "bayesian_ridge",
    "bridge",
    "elastic_net",
    "firth",
    "gam",
    "gp",
    "kernel_ridge",
    "quantile_regression",
    "svr",
    "tune_svr",
    "lasso",
    "linear_probability",
    "logistic",
    "ols",
    "poisson",
    "ridge",
    "softmax",
}


IN_PART = (
    "compare",
    "explain",
    "hypothesis",
    "interval_panel",
)  # of a saved fit: with a sentence for what is missing, see below


def answer(name: str, fits: Fits) -> tuple[Any, pr.ProbregError | None]:
    """The numbers, or the refusal; asked once of each."""
    if name not in fits.answers:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", pr.ProbregWarning)
                fits.answers[name] = ASKED[name](fits), None
        except pr.ProbregError as error:
            fits.answers[name] = None, error
    return fits.answers[name]


def agree(a: Any, b: Any) -> None:
    a, b = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    np.testing.assert_allclose(a, b, rtol=SAME, atol=SAME)


# ---- the answer of the rows in memory, or why there is none ----------------------------------------------------------------


ONE_EACH = pytest.mark.parametrize(
    "where", ["gaussian-parquet", "bernoulli-blocks", "gaussian-saved"], indirect=True
)


@pytest.mark.parametrize("name", ASKED)
@ONE_EACH
def test_the_answer_is_that_of_rows_in_memory_or_says_why_there_is_none(
    name: str, here: Fits, there: Fits, place: str
) -> None:
    wanted, refused = answer(name, here)
    found, why = answer(name, there)
    if refused is not None:
        # the question has no meaning for this model, wherever its rows are
        assert why is not None
        return
    if why is None:
        if not (place == "saved" and name in IN_PART):
            agree(found, wanted)
        return
    assert isinstance(why, pr.DataError | pr.Incompatible)
    assert re.search(PLACES[place], str(why)), why
    others = [words for other, words in PLACES.items() if other != place]
    assert not any(re.search(words, str(why)) for words in others), why
    assert place == "saved" or "saved" not in str(why)


NEEDS_ROWS = (
    "predict at the rows", "covariance cluster", "covariance HAC", "interval profile", "interval score", "eta", "to_pymc",
    "design_leverage", "check", "influence_measures", "residuals", "reset", "conformal", "coverage", "simulate", "sbc", "predictions",
    "bias_variance", "interval_panel at a row", "tune by cv", "tune by loo", "fit bootstrap", "fit sgd", "save",
)  # fmt: skip
NEEDS_SUMS = (
    "covariance observed", "covariance expected", "covariance sampling", "covariance HC0", "covariance HC1", "covariance HC2",
    "covariance HC3", "spread", "gradient", "information", "scaled prior", "compare", "compare_models", "hypothesis", "prior_weight",
    "power_scaling", "path", "path of a lasso", "tune by aic", "tune by bic", "tune by evidence", "fit newton", "fit laplace",
    "fit importance", "fit proximal_newton", "fit auto",
)  # fmt: skip


@pytest.mark.parametrize("name", NEEDS_ROWS)
@ONE_EACH
def test_what_needs_every_row_refuses(name: str, there: Fits) -> None:
    assert answer(name, there)[1] is not None


@pytest.mark.parametrize(
    "where", ["gaussian-parquet", "bernoulli-blocks"], indirect=True
)
@pytest.mark.parametrize("name", NEEDS_SUMS)
def test_what_needs_sums_over_rows_has_them(name: str, there: Fits) -> None:
    assert answer(name, there)[1] is None


def test_every_public_function_and_method_is_asked() -> None:
    public = {
        name
        for name, value in vars(pr).items()
        if inspect.isfunction(value) and not name.startswith("_")
    }
    asked = {name.split(",")[0].split(" ")[0] for name in ROOMS}
    assert public - ELSEWHERE - RECIPES - asked == set()
    # PyMC compiles each model for seconds, and it samples from rows in memory alone
    assert {*METHODS, "pymc"} == set(own(pr.METHODS))


# ---- what gives what is left, and says what is not ---------------------------------------------------------------------------


def words_of(place: str, text: str) -> None:
    assert re.search(PLACES[place], text), text
    assert place == "saved" or "saved" not in text


def test_a_diagnosis_says_what_was_not_asked(there: Fits, place: str) -> None:
    for fit in (there.mode, there.post):
        (note,) = pr.diagnose(fit)["rows"]
        assert note.verdict.name == "NOTE"
        assert note.remedy
        words_of(place, note.sentence)
    if place != "saved":
        assert len(pr.diagnose(there.post)["power_scaling"])  # needs no single rows


def test_diagnostics_that_are_skipped_say_why(there: Fits, place: str) -> None:
    (found,) = pr.diagnose(there.mode, skipped=True)["reset"]
    words_of(place, found.sentence)


def test_a_tree_says_which_groups_are_left_out(there: Fits, place: str) -> None:
    said = there.post.tree.attrs["left_out"]
    assert "log_likelihood" in said
    words_of(place, said)
    assert "log_likelihood" not in there.post.tree.children
    assert "log_likelihood" not in there.mode.tree.attrs["left_out"]


def test_the_density_of_draws_is_in_the_tree_where_it_can_be_had(
    here: Fits, there: Fits, place: str
) -> None:
    if place == "saved":
        assert "lp" in there.post.tree.attrs["left_out"]
        return
    agree(there.post.tree["sample_stats"]["lp"], here.post.tree["sample_stats"]["lp"])
    assert "left_out" not in here.post.tree.attrs


def test_models_are_compared_without_leave_one_out(there: Fits, place: str) -> None:
    if place == "saved":
        with pytest.raises(pr.DataError, match="saved without"):
            pr.compare_models([there.mode])
        return
    found = pr.compare_models({"a": there.mode, "b": there.post})
    assert found.table["elpd_loo"].isna().all()
    assert found.pointwise.shape == (0, 2)
    for note in found.notes[:2]:
        words_of(place, note)


def test_rows_in_memory_and_rows_by_the_block_stand_side_by_side(
    here: Fits, there: Fits, place: str
) -> None:
    if place == "saved":
        return
    found = pr.compare_models({"here": here.mode, "there": there.mode})
    alone = pr.compare_models([here.mode]).table
    assert found.table["elpd_loo"]["here"] == alone["elpd_loo"].iloc[0]
    agree(found.table["BIC"]["there"], found.table["BIC"]["here"])


def test_other_rows_are_told_by_their_sums(
    there: Fits, place: str, likelihood: str
) -> None:
    if place == "saved":
        return
    (X, y), *rest = blocks(likelihood)
    other = np.r_[1 - y[0] if likelihood == "bernoulli" else y[0] + 1e-3, y[1:]]
    changed = pr.Model.from_blocks(
        [(X, other), *rest],
        columns=["x", "z"],
        response=likelihood,
        likelihood=likelihood,
    )
    said = "weight of '0'" if likelihood == "bernoulli" else r"sum of y(\^2)?"
    with pytest.raises(pr.DataError, match=f"they differ in their {said}: .* against"):
        pr.compare_models({"a": there.mode, "b": pr.fit(changed)})


def test_censored_rows_in_files_are_compared_by_the_sums_of_their_ends(
    tmp_path: Path,
) -> None:
    time = np.arange(1.0, 9.0)
    rows = pd.DataFrame({"time": time, "event": time % 2, "x": np.sqrt(time)})
    rows.to_csv(tmp_path / "rows.csv", index=False)
    rows.assign(event=1 - rows["event"]).to_csv(tmp_path / "other.csv", index=False)
    fits = {
        name: pr.fit(
            pr.Model.from_files(
                "cens(time, event) ~ x",
                tmp_path / f"{name}.csv",
                likelihood="exponential",
            )
        )
        for name in ("rows", "other")
    }
    here = pr.Model.from_formula(
        "cens(time, event) ~ x", rows, likelihood="exponential"
    )
    found = pr.compare_models({"files": fits["rows"], "memory": pr.fit(here)})
    assert found.table.loc["memory", "AIC"] == pytest.approx(
        found.table.loc["files", "AIC"], rel=SAME
    )
    with pytest.raises(pr.DataError, match="upper ends"):
        pr.compare_models(fits)


@ONE_EACH
def test_a_report_says_what_it_left_out(
    there: Fits, place: str, tmp_path: Path
) -> None:
    page = pr.report(
        {"a": there.mode, "b": there.post}, tmp_path / "report.html"
    ).read_text(encoding="utf-8")
    words_of(place, re.sub("not kept with the saved fit", "", page))
    assert "No picture" in page
    if place != "saved":
        assert f"{N} of " in page
        assert "log-likelihood" in page


def test_a_panel_says_why_an_interval_is_missing(there: Fits, place: str) -> None:
    reasons = pr.interval_panel(there.mode, "x", kinds=["wald", "profile"]).table[
        "reason"
    ]
    assert [bool(reason) for reason in reasons] == [False, True]
    words_of(place, reasons.iloc[1])


def test_a_likelihood_ratio_that_needs_lost_rows_is_missed(
    there: Fits, place: str, likelihood: str
) -> None:
    found = pr.hypothesis(there.mode, "x = 0")
    if place != "saved" or likelihood == "gaussian":  # whose moments are enough
        assert "LR" in found.tests
        return
    assert "LR" not in found.tests
    words_of(place, found.notes[0])


@pytest.mark.parametrize(
    "kind", ["observed", "expected", "sampling", "HC0", "HC1", "HC2", "HC3"]
)
@pytest.mark.parametrize("likelihood", ["categorical", "student", "poisson"])
def test_covariances_of_weighted_rows_with_an_offset(
    likelihood: str, kind: str
) -> None:
    rng = np.random.default_rng(5)
    X, w, offset = (
        rng.normal(size=(N, 2)),
        rng.integers(0, 4, N).astype(float),
        0.3 * rng.normal(size=N),
    )
    y: Array = (
        rng.choice(["a", "b", "c"], N)
        if likelihood == "categorical"
        else rng.poisson(1.5, N)
    )
    if likelihood == "student":
        y = X[:, 0] + rng.standard_t(4, N)
    shift = None if likelihood == "categorical" else offset
    here = pr.Model.from_arrays(X, y, weights=w, offset=shift, likelihood=likelihood)
    parts = [(X[a : a + 40], y[a : a + 40], w[a : a + 40]) for a in range(0, N, 40)]
    if shift is not None:
        parts = [
            (*part, shift[a : a + 40])
            for a, part in zip(range(0, N, 40), parts, strict=True)
        ]
    there = pr.Model.from_blocks(parts, likelihood=likelihood)
    agree(pr.fit(there).covariance(kind), pr.fit(here).covariance(kind))


def test_sums_travel_to_where_the_rows_are() -> None:
    model = pr.Model.from_blocks(blocks("bernoulli"), likelihood="bernoulli")
    at = estimate_of(model, pr.fit(model).solution, "this").at
    root = np.ones((at.beta.size, 3))
    meat = partial(RowDerivatives.meat, root=0.1 * root, power=1.0)
    information = partial(
        expected_information,
        likelihood=at.likelihood,
        beta=at.beta,
        aux_values={},
        view=model.design.frame.rows,
    )
    for fn in (information, partial(sum_of_parts, at=at, part=meat)):
        agree(
            pickle.loads(pickle.dumps(fn))(model.design.source.sample)[0],
            fn(model.design.source.sample)[0],
        )


def test_a_row_that_fits_itself_is_named_by_its_number_in_all_blocks() -> None:
    rows = table()
    X = np.column_stack([rows["x"], np.arange(N) == 57])
    y = rows["gaussian"].to_numpy()
    fit = pr.fit(pr.Model.from_blocks([(X[:50], y[:50]), (X[50:], y[50:])]))
    with pytest.raises(pr.DataError, match="row 57 has a leverage of at least 1"):
        fit.covariance("HC3")


# ---- folders that say columns by their names ---------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["year=2024", "year=2024/month=1"])
def test_a_partitioned_folder_is_refused(tmp_path: Path, what: str) -> None:
    folder = tmp_path / "rows" / what
    folder.mkdir(parents=True)
    table().to_parquet(folder / "a.parquet")
    with pytest.raises(
        pr.DataError, match="'year=2024' says a column by the name of a folder"
    ):
        pr.Model.from_parquet("gaussian ~ x", tmp_path / "rows")
    # a folder or a file that is named itself is read: what is left out is then no surprise
    assert pr.Model.from_parquet("gaussian ~ x", folder).design.count == N
    assert (
        pr.Model.from_parquet("gaussian ~ x", [folder / "a.parquet"]).design.count == N
    )


def test_a_folder_within_a_folder_is_read_without_hidden_files(tmp_path: Path) -> None:
    (tmp_path / "first").mkdir()
    (tmp_path / "_old").mkdir()
    for name in ("first/a=b.parquet", "first/.hidden.parquet", "_old/a.parquet"):
        table().to_parquet(tmp_path / name)
    assert pr.Model.from_parquet("gaussian ~ x", tmp_path).design.count == N


def test_a_cell_of_a_later_batch_is_named_by_its_row_in_the_file(
    tmp_path: Path,
) -> None:
    x = ["1"] * (2**17 + 1)
    x[-1] = "one"
    path = tmp_path / "text.parquet"
    pd.DataFrame({"x": x, "y": 1.0}).to_parquet(path)
    with pytest.raises(pr.DataError, match="'one' in row 131072 of"):
        pr.Model.from_parquet("y ~ log(x)", path)


def test_a_cell_among_truth_values_is_named(tmp_path: Path) -> None:
    for name, cells in (("0", ["true", "FALSE", ""]), ("1", ["true", "maybe"])):
        rows = pd.DataFrame({"y": np.arange(len(cells)), "late": cells})
        rows.to_csv(tmp_path / f"{name}.csv", index=False)
    with pytest.raises(pr.DataError, match=r"'late' of 1\.csv holds 'maybe' in row 1"):
        pr.Model.from_files("y ~ late", tmp_path, missing="drop")
