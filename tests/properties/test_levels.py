"""The order of levels is that which was declared, else the sorted one, wherever the rows are: never that of appearance."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import probreg as pr

pa = pytest.importorskip("pyarrow")
from pyarrow import feather, parquet  # noqa: E402

ORDER = ["mid", "low", "high"]  # neither sorted nor that of appearance
VALUES = [*("high", "low", "mid", "mid", "low", "high", "low", "mid") * 3]
N = len(VALUES)
Y = np.arange(float(N)) ** 1.5 + np.tile([0.0, 3.0, -2.0], N // 3)
CODES = [ORDER.index(v) for v in VALUES]
DECLARED, SORTED = tuple(ORDER), tuple(sorted(ORDER))


def frame(g):
    return pd.DataFrame({"y": Y, "g": g})


def arrow(g):
    return pa.table({"y": Y, "g": g})


DICTIONARY = pa.array(VALUES).dictionary_encode()
ORDERED = pa.DictionaryArray.from_arrays(pa.array(CODES), pa.array(ORDER), ordered=True)
CATEGORIES = frame(pd.Categorical(VALUES, categories=ORDER))
POLARS = {
    SORTED: pl.DataFrame({"y": Y, "g": pl.Series(VALUES, dtype=pl.Categorical)}),
    DECLARED: pl.DataFrame({"y": Y, "g": pl.Series(VALUES, dtype=pl.Enum(ORDER))}),
}
TABLES = {
    "text": (frame(VALUES), SORTED),
    "pandas, categories by appearance": (frame(pd.Categorical(VALUES)), SORTED),
    "pandas, categories given": (CATEGORIES, DECLARED),
    "arrow dictionary": (arrow(DICTIONARY), SORTED),
    "arrow dictionary, ordered": (arrow(ORDERED), DECLARED),
    "arrow of pandas, categories given": (pa.Table.from_pandas(CATEGORIES), DECLARED),
    "arrow text": (arrow(pa.array(VALUES)), SORTED),
    "polars categorical": (POLARS[SORTED], SORTED),
    "polars enum": (POLARS[DECLARED], DECLARED),
    "mapping to arrow dictionary": ({"y": Y, "g": DICTIONARY}, SORTED),
    "mapping to arrow dictionary, ordered": ({"y": Y, "g": ORDERED}, DECLARED),
    "mapping to polars enum": ({"y": Y, "g": POLARS[DECLARED]["g"]}, DECLARED),
    "pandas over arrow": (
        frame(pd.Series(DICTIONARY, dtype=pd.ArrowDtype(DICTIONARY.type))),
        SORTED,
    ),
    "pandas over arrow, ordered": (
        frame(pd.Series(ORDERED, dtype=pd.ArrowDtype(ORDERED.type))),
        DECLARED,
    ),
}


def stands(made, order, **settings):
    """The columns of a predictor and the classes of a response have this order."""
    predictor = made("y ~ g", **settings)
    assert predictor.design.columns == (
        "Intercept",
        *(f"g[T.{level}]" for level in order[1:]),
    )
    assert (
        made("g ~ y", likelihood="categorical", **settings).likelihood.levels == order
    )
    return predictor


@pytest.mark.parametrize("name", TABLES)
def test_in_memory(name):
    table, order = TABLES[name]
    stands(
        lambda formula, **settings: pr.Model.from_formula(formula, table, **settings),
        order,
    )
    column = table["g"].combine_chunks() if isinstance(table, pa.Table) else table["g"]
    # a column has no word of pandas
    order = SORTED if name == "arrow of pandas, categories given" else order
    model = pr.Model.from_arrays(Y, column, likelihood="categorical")
    assert model.likelihood.levels == order


@pytest.mark.parametrize("make", [dict, pd.DataFrame])
def test_numbers_of_the_other_byte_order(make):
    here = {"y": Y, "g": np.array(CODES)}
    there = make({k: v.astype(v.dtype.newbyteorder("S")) for k, v in here.items()})
    for formula in ("y ~ C(g)", "y ~ 1 + (1 | g)"):
        designs = [pr.Model.from_formula(formula, t).design for t in (here, there)]
        assert designs[0].columns == designs[1].columns
        np.testing.assert_array_equal(*[np.asarray(d.X) for d in designs])


@pytest.mark.parametrize(
    "write",
    [
        parquet.write_table,
        lambda t, p: feather.write_feather(t, p, compression="uncompressed"),
    ],
)
@pytest.mark.parametrize(
    "name",
    [
        n
        for n, (t, _) in TABLES.items()
        if not isinstance(t, dict) and "pandas over" not in n
    ],
)
def test_in_files(name, write, tmp_path):
    table, order = TABLES[name]
    if isinstance(table, pd.DataFrame):
        table = pa.Table.from_pandas(table)
    table = table.to_arrow() if isinstance(table, pl.DataFrame) else table
    path = tmp_path / ("rows.parquet" if write is parquet.write_table else "rows.arrow")
    write(table, path)
    there = stands(
        lambda formula, **settings: pr.Model.from_files(formula, path, **settings),
        order,
    )
    here = pr.Model.from_formula("y ~ g", TABLES[name][0])
    np.testing.assert_allclose(
        pr.fit(there).coef.values, pr.fit(here).coef.values, rtol=1e-9
    )  # sums by the block


def test_in_files_of_polars(tmp_path):
    for order, table in POLARS.items():
        table.write_parquet(tmp_path / "rows.parquet")
        stands(
            lambda formula, **settings: pr.Model.from_files(
                formula, tmp_path / "rows.parquet", **settings
            ),
            order,
        )


@pytest.mark.parametrize(
    "name",
    [
        "text",
        "pandas, categories given",
        "pandas over arrow",
        "pandas over arrow, ordered",
    ],
)
def test_on_a_cluster(name, tmp_path):
    pytest.importorskip("dask")
    from dask import dataframe

    table, order = TABLES[name]
    data = dataframe.from_pandas(table, npartitions=3)
    stands(
        lambda formula, **settings: pr.Model.from_dask(formula, data, **settings), order
    )


def test_groups_of_averages_have_the_order_of_the_levels():
    for formula in ("y ~ g", "y ~ 1"):  # `by` may be a column of the data alone
        groups = pr.predictions(pr.ols(formula, CATEGORIES), by="g", data=CATEGORIES)
        assert groups.table["g"].tolist() == ORDER
    fit = pr.ols(
        "y ~ C(g, levels=['z', 'a'])", {"y": [1.0, 2.0, 4.0], "g": list("aaz")}
    )
    assert pr.predictions(fit, by="g").table["g"].tolist() == ["z", "a"]


def test_intervals_of_pandas_are_levels():
    cut = pd.cut(np.arange(float(N)), [-1.0, 4.0, 9.0, 30.0])
    fit = pr.ols("y ~ g", frame(cut))
    assert fit.coef.coords["coef"].values.tolist() == [
        "Intercept",
        "g[T.(4.0, 9.0]]",
        "g[T.(9.0, 30.0]]",
    ]
    new = fit.predict({"g": pd.cut([20.0], [-1.0, 4.0, 9.0, 30.0])})
    assert float(new["mean"][0]) == pytest.approx(Y[10:].mean())


def response_of_levels(response, likelihood, where, tmp_path):
    table = pd.DataFrame({"c": response, "x": Y})
    if where == "files":
        table.to_csv(tmp_path / "rows.csv", index=False)
        return pr.Model.from_files(
            "c ~ x", tmp_path / "rows.csv", likelihood=likelihood
        )
    if where == "arrays":
        return pr.Model.from_arrays(Y, response, likelihood=likelihood)
    return pr.Model.from_formula("c ~ x", table, likelihood=likelihood)


@pytest.mark.parametrize("where", ["table", "arrays", "files"])
@pytest.mark.parametrize(
    "likelihood",
    [
        pr.Categorical(levels=("mid", "low", "high", "never")),
        pr.Ordinal(levels=("mid", "low", "high", "never")),
        pr.Bernoulli(levels=("mid", "low")),
    ],
)
def test_levels_of_the_likelihood_are_in_its_order_and_include_those_of_the_rows(
    likelihood, where, tmp_path
):
    """The second level of Bernoulli is the event, the first of Categorical the reference."""
    met = [v for v in likelihood.levels if v != "never"]
    response = [v if v in met else met[0] for v in VALUES]
    model = response_of_levels(response, likelihood, where, tmp_path)
    assert model.likelihood.levels == tuple(met)
    empty = any("levels without rows, left out: never" in v for v in model.design.notes)
    assert empty == ("never" in likelihood.levels)
    other = [*response[:-1], "none"]
    with pytest.raises(
        pr.DataError, match="row 23 of the response holds 'none', which is not a level"
    ):
        response_of_levels(other, likelihood, where, tmp_path)


def test_levels_of_text_are_told_from_numbers_in_errors():
    data = {"y": [1, 2, 1, 2], "x": [0.0, 1.0, 2.0, 4.0]}
    with pytest.raises(pr.DataError, match=r"holds 1, which is .*: '1', '2'$"):
        pr.Model.from_formula("y ~ x", data, likelihood=pr.Ordinal(levels=("1", "2")))


def test_no_level_of_the_likelihood_is_in_the_rows():
    for likelihood in (
        pr.Bernoulli(levels=("no", "yes")),
        pr.Ordinal(levels=(1, 2, 3)),
    ):
        with pytest.raises(pr.DataError, match="row 0 of the response holds 'high'"):
            pr.Model.from_arrays(Y, VALUES, likelihood=likelihood)


def test_a_declared_level_without_rows_has_one_note():
    declared = frame(pd.Categorical(VALUES, categories=[*ORDER, "never"]))
    stated = pr.Categorical(levels=(*ORDER, "never"))
    model = pr.Model.from_formula("g ~ y", declared, likelihood=stated)
    assert len(model.design.notes) == 1


def test_levels_of_a_multinomial_are_names_of_its_columns():
    counts = np.array([[1, 2, 3], [2, 0, 1], [4, 1, 1], [0, 2, 2]])
    x = [0.0, 1.0, 2.0, 4.0]
    named = pr.likelihoods.Multinomial(levels=("u", "v", "w"))
    fit = pr.fit(pr.Model.from_arrays(x, counts, likelihood=named))
    assert fit.coef["outcome"].values.tolist() == ["v", "w"]
    with pytest.raises(pr.DataError, match="of 2 columns has as many classes"):
        pr.Model.from_arrays(x, counts[:, :2], likelihood=named)
    table = {"x": x, **dict(zip("vuw", counts.T))}
    with pytest.raises(
        pr.DataError, match="are not the columns of counts, v, u, w, in their order"
    ):
        pr.Model.from_formula("counts(v, u, w) ~ x", table, likelihood=named)
