"""What is read as what: intercepts by name, terms by name, declared orders, ragged and missing input, improper posteriors."""

import numpy as np
import pandas as pd
import pytest

import probreg as pr

X = np.arange(10.0)


def test_a_column_called_intercept_is_all_ones():
    with pytest.raises(pr.DataError, match="column 'Intercept' holds 3 in row 1"):
        pr.Model.from_arrays(
            [[1.0], [3.0]], [1.0, 2.0], columns=["Intercept"], intercept=False
        )


@pytest.mark.parametrize(
    ("formula", "key", "touched"),
    [
        ("y ~ g * x", "g", {"g[T.b]", "g[T.c]"}),
        ("y ~ x * g", "g", {"g[T.b]", "g[T.c]"}),
        ("y ~ g * x", "g:x", {"g[T.b]:x", "g[T.c]:x"}),
        ("y ~ g * x", "x", {"x"}),
        ("y ~ poly(x, 2)", "poly(x, 2)", {"poly(x, 2)[1]", "poly(x, 2)[2]"}),
    ],
)
def test_a_key_of_a_prior_is_one_whole_term(
    formula: str, key: str, touched: set[str], rng: np.random.Generator
):
    data = {"y": rng.normal(size=30), "x": rng.normal(size=30), "g": list("abc") * 10}
    model = pr.Model.from_formula(formula, data, prior={key: pr.Normal(0.1)})
    assert {
        c for c, held in zip(model.design.columns, model.joint.informative) if held
    } == touched


def test_a_declared_order_decides_the_event_through_both_doors():
    r = pd.Series(
        pd.Categorical(["yes", "no"] * 5, categories=["yes", "no"], ordered=True)
    )
    by_formula = pr.Model.from_formula(
        "r ~ x", {"r": r, "x": X}, likelihood="bernoulli"
    )
    by_arrays = pr.Model.from_arrays(X, r, likelihood="bernoulli")
    assert by_formula.likelihood.levels == by_arrays.likelihood.levels == ("yes", "no")


def test_tables_and_named_columns_are_read_as_such():
    frame = pd.DataFrame({"a": [1.0, 2.0, 4.0, 5.0], "b": [0.0, 1.0, 1.0, 0.0]})
    assert pr.Model.from_arrays(frame, [1.0, 2.0, 4.0, 7.0]).design.columns == (
        "Intercept",
        "a",
        "b",
    )
    assert pr.Model.from_arrays(frame["a"], [1.0, 2.0, 4.0, 7.0]).design.columns == (
        "Intercept",
        "a",
    )


@pytest.mark.parametrize(
    ("X", "y", "options", "message"),
    [
        ([[1], [2, 3]], [1, 2], {}, "X is no array, its rows differ in length"),
        ([[1.0], [2.0]], [[1], [2, 3]], {}, "y is no array, its rows differ in length"),
        (X, X, {"columns": "ab"}, r"columns is a sequence of names, got the text 'ab'"),
        (
            X,
            ["a", None] * 5,
            {"likelihood": "bernoulli"},
            "row 1 of the response holds None",
        ),
        (
            X,
            X,
            {"aux": {"sigma": True}},
            "sigma is a positive finite number .*got True",
        ),
    ],
)
def test_what_cannot_be_read_is_said(X, y, options, message):
    with pytest.raises(pr.DataError, match=message):
        pr.Model.from_arrays(X, y, **options)


def test_an_offset_goes_where_it_belongs():
    plain = pr.ols(X, X**2)
    with pytest.raises(pr.DataError, match="fitted without an offset"):
        plain.predict([1.0], offset=[1.0])
    with pytest.raises(pr.DataError, match="goes with new data"):
        plain.predict(offset=np.ones(10))
    shifted = pr.ols(X, X**2, offset=np.ones(10))
    with pytest.raises(pr.DataError, match="the offset has 2 columns, and 1 when"):
        shifted.predict([1.0], offset=[[1.0, 2.0]])


def test_a_missing_value_at_prediction_is_named():
    with pytest.raises(pr.DataError, match="column 'x1' holds nan in row 0"):
        pr.ols(X, X**2).predict([[None], [2.0]])


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            pr.Model.from_arrays(np.c_[X, 2 * X], X**2),
            "improper, because columns are not identified: x2 = 2 x1",
        ),
        (
            pr.Model.from_arrays(X, (X > 4).astype(int), likelihood="bernoulli"),
            "complete separation by Intercept, x1",
        ),
        (pr.Model.from_arrays(X, 1 + 2 * X), "reproduce the response exactly"),
        (
            pr.Model.from_arrays(np.eye(4), [1.0, 2, 4, 7], prior=pr.Normal(1.0)),
            "reproduce the response exactly",
        ),
    ],
    ids=["collinear", "separated", "exact line", "as many columns as rows"],
)
def test_a_sampler_refuses_an_improper_posterior(model: pr.Model, message: str):
    with pytest.raises(pr.Incompatible, match=message):
        pr.fit(model, "nuts")


def test_a_model_without_rows_answers_from_its_moments_or_says_why_not(tmp_path):
    fitted = pr.ols(X, X**2)
    again = pr.load_fit(fitted.save(tmp_path / "fit.nc"))
    assert again.model.log_lik(
        fitted.solution.beta, **fitted.solution.aux
    ) == pytest.approx(fitted.log_likelihood, rel=1e-12)
    assert "rows 10," in repr(again.model)
    assert again.model.design.total == 10
    for ask in (lambda: pr.check(again.model), again.model.to_pymc):
        with pytest.raises(pr.DataError, match="holds no rows"):
            ask()
    counts = pr.load_fit(pr.poisson(X, X).save(tmp_path / "counts.nc"))
    with pytest.raises(pr.DataError, match="holds no rows"):
        counts.model.log_lik(counts.solution.beta)
