"""Words of other packages are answered with the word to write, and that word exists."""

import contextlib
import re
import warnings
from pathlib import Path

import numpy as np
import pytest

import probreg as pr
from probreg import online
from probreg.errors import DataError, Incompatible, ProbregError

X, Y = (
    np.array([[0.0], [1.0], [2.0], [3.0], [4.0]]),
    np.array([0.0, 1.5, 1.0, 3.0, 4.5]),
)
TABLE = {"y": Y, "x": X[:, 0]}
FIT = pr.fit(pr.Model.from_arrays(X, Y))


def test_an_unknown_likelihood_or_method_is_answered_with_a_close_name():
    for name, answer in (
        ("negative binomial", "did you mean 'negative_binomial'"),
        ("gausian", "did you mean 'gaussian'"),
        ("spam", "There are: absolute"),
    ):
        with pytest.raises(
            ProbregError, match=f"no likelihood is called '{name}'.*{answer}"
        ):
            pr.Model.from_arrays(X, Y, likelihood=name)
    with pytest.raises(ProbregError, match=r"no method is called 'nut'.*'nuts'"):
        pr.fit(FIT.model, "nut")


DOORS = {
    "from_formula": lambda **more: pr.Model.from_formula("y ~ x", TABLE, **more),
    "from_arrays": lambda **more: pr.Model.from_arrays(X, Y, **more),
    "from_files": lambda **more: pr.Model.from_files("y ~ x", "rows.parquet", **more),
    "from_blocks": lambda **more: pr.Model.from_blocks([(X, Y)], **more),
    "from_dask": lambda **more: pr.Model.from_dask("y ~ x", TABLE, **more),
    "at": lambda **more: FIT.model.at(X, Y, **more),
    "fit": lambda **more: pr.fit(FIT.model, **more),
    "predict": lambda **more: FIT.predict(X, **more),
    "predictive": lambda **more: FIT.predictive(X, **more),
    "update": lambda **more: FIT.update(X, Y, **more),
    "run": lambda **more: online.run(online.lms(0.01), X, Y, **more),
}


@pytest.mark.parametrize("door", DOORS)
def test_an_unknown_keyword_is_refused(door):
    with pytest.raises(Incompatible, match=f"{door} takes no family="):
        DOORS[door](family="binomial")


@pytest.mark.parametrize(
    ("door", "keyword", "said"),
    [
        ("from_arrays", "likelihod", "did you mean likelihood=?"),
        (
            "fit",
            "prior",
            "prior= belongs to the model, such as Model.from_formula(..., prior=...)",
        ),
        ("predict", "spam", "it takes data, "),
    ],
)
def test_other_keywords(door, keyword, said):
    with pytest.raises(Incompatible, match=re.escape(said)):
        DOORS[door](**{keyword: 1})


def test_arguments_of_other_makes_are_named():
    table = {"x": [1.0, 2.0, 4.0, 5.0], "y": [1.0, 3.0, 2.0, 5.0]}
    found = pr.fit(pr.Model.from_formula("y ~ x", table))
    for labels in ({}, float("nan"), 10**400, [[1, 2], [3]]):
        with pytest.raises(
            pr.DataError,
            match=r"groups(=|:| is ).*(one label per row|differ in length)",
        ):
            found.covariance("cluster", groups=labels)
    for at in ("x", 3, [1]):
        with pytest.raises(pr.DataError, match="at is a mapping"):
            pr.predictions(found, at=at)
    for empty in ({}, ()):
        with pytest.raises(pr.DataError, match="variables is empty"):
            pr.comparisons(found, empty)
    with pytest.raises(pr.DataError, match="missing a value in row 1;"):
        pr.slopes(found, data={"x": [1.0, np.nan, 3.0]})
    with pytest.raises(
        pr.Incompatible, match=r"the class Gaussian: write Gaussian\(...\)"
    ):
        pr.Model.from_arrays([1.0, 2.0], [1.0, 2.0], likelihood=pr.Gaussian)
    for X in (np.float64(3.0), np.datetime64("2020")):
        with pytest.raises(
            pr.DataError, match="X: expected a pandas, polars or pyarrow table"
        ):
            pr.Model.from_arrays(X, [1.0])
    with pytest.raises(pr.DataError, match="of is text"):
        pr.Normal.from_ridge(alpha=1.0, of=np.array([1.0, 2.0]))
    run = online.run(online.lms(0.01), [[1.0, 0.0], [0.0, 1.0]], [1.0, 2.0])
    for comparator in ([1], 3.0, [[1.0, 2.0]]):
        with pytest.raises(pr.DataError, match="expected one weight per column"):
            run.guarantee(comparator=comparator)
        with pytest.raises(pr.DataError, match="expected one weight per column"):
            run.regret(comparator)
    with pytest.raises(pr.DataError, match="kinds is a list of names"):
        pr.interval_panel(found, "x", kinds=3.0)
    with pytest.raises(pr.DataError, match="folds is no array"):
        pr.tune(
            pr.Model.from_formula("y ~ x", table, prior=pr.Normal(1.0)),
            folds=[[1, 2], [3]],
        )
    for forecasts in (None, 3, {1: [1.0], 2: [2.0]}):
        with pytest.raises(pr.DataError, match="a paired comparison"):
            pr.scores.compare_scores(forecasts)


def collinear() -> pr.Model:
    return pr.Model.from_arrays(np.c_[X, 2.0 * X], Y)


def far() -> tuple[pr.Model, pr.Model]:
    """Rows of which the first five have almost all of the squares, and these five."""
    x, y = np.arange(40.0) ** 1.5, np.arange(40.0) % 7
    x[:5] += 1e8
    whole = pr.Model.from_arrays(x, y)
    return pr.Model.from_moments(whole.moments), whole.at(x[:5], y[:5])


def separated() -> pr.Model:
    """No maximum under the flat prior of x."""
    z = np.array([1.0, -1.0, 0.5, 0.2, -0.3, 0.1])
    data = {"x": np.arange(6.0), "z": z, "y": np.array([0, 0, 0, 1, 1, 1])}
    return pr.Model.from_formula(
        "y ~ x + z", data, likelihood="bernoulli", prior={"z": pr.Normal(1.0)}
    )


@pytest.mark.parametrize(
    "call",
    [
        lambda: pr.fit(collinear(), "closed_form"),
        lambda: far()[0].moments - far()[1].moments,
        lambda: pr.fit(far()[0]).forget(far()[1]),
        lambda: pr.path(separated(), [0.5, 1.0]),
        lambda: online.run(online.perceptron(), X, np.array([1.0, -1.0, 1.0, -1.0, 1.0]), passes=2),
        lambda: online.run(online.lms(0.3), X, Y),
    ],
)  # fmt: skip
def test_a_warning_names_the_line_of_the_caller(call):
    with warnings.catch_warnings(record=True) as met:
        warnings.simplefilter("always")
        with contextlib.suppress(online.Diverged):
            call()
    assert met
    assert {w.filename for w in met} == {__file__}


def test_warnings_have_one_door():
    root = Path(pr.__file__).parent
    assert [
        p.name for p in root.rglob("*.py") if "warnings.warn(" in p.read_text()
    ] == ["errors.py"]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda: pr.predictions(FIT, TABLE),
            "predictions: too many positional arguments; it takes fit, .*",
        ),
        (
            lambda: pr.svr(X, Y),
            "svr: missing a required .*'C'; it takes x, data, C, epsilon, .*options",
        ),
    ],
)
def test_arguments_that_are_missing_or_too_many_are_answered_with_those_there_are(
    call, words
):
    with pytest.raises(Incompatible, match=words):
        call()


def test_weak_takes_no_settings():
    from probreg.priors.text import parse_prior

    with pytest.raises(DataError, match="weak takes no settings"):
        parse_prior("x=weak(3)")
    with pytest.raises(pr.errors.ProbregError, match="mean 'weak'"):
        parse_prior("weka")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("beta(link=log)", "Beta link is 'logit', 'probit' or 'cloglog', got 'log'"),
        ("beta(loglog)", "Beta link is 'logit', 'probit' or 'cloglog', got 'loglog'"),
        ("negative_binomial(nb3)", "NegativeBinomial variance is 'nb2' or 'nb1'"),
    ],
)
def test_a_wrong_option_in_text_lists_the_options(text, message):
    with pytest.raises(DataError, match=message):
        pr.Model.from_arrays(X, Y, likelihood=text)


@pytest.mark.parametrize("likelihood", ["gamma", "inverse_gaussian"])
def test_precision_weights_of_positive_responses_name_the_formula_of_phi(likelihood):
    w = np.array([1.0, 2.0, 1.0, 3.0, 1.0])
    data = {"y": Y + 1.0, "x": X[:, 0], "w": w}
    with pytest.raises(Incompatible, match=r"~ offset\(-log\(w\)\)"):
        pr.Model.from_formula(
            "y ~ x", data, likelihood=likelihood, weights=pr.weights.precision(w)
        )
    formulas = {"y": "y ~ x", "log phi": "~ offset(-log(w))"}
    pr.fit(pr.Model.from_formula(formulas, data, likelihood=likelihood))
