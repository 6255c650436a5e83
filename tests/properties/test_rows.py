"""A model of rows that are read by the block is the model of the same rows in memory: every number of it, everywhere."""

import itertools
import pickle
from collections.abc import Iterator
from decimal import Decimal
from functools import partial, reduce
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import probreg as pr
from probreg.data import Block
from probreg.data.blocks.block import SAMPLE, add
from probreg.data.blocks.survey import survey_of
from probreg.data.design import moments_of
from probreg.likelihoods import LIKELIHOODS, Likelihood, ProximalLikelihood
from tests.properties.cases import (
    LIKELIHOOD_CASES,
    covering,
    likelihood_kind,
    recipe_of,
    rows_for,
)

pytest.importorskip("pyarrow")
Array = np.ndarray
SAME = 1e-10  # relative: sums over the same rows in another order, of at most 1e3 rows, differ by some 1e-13
N = 203  # rows: no multiple of any block


def cut(rows: int, *values: Array | None) -> list[tuple[Array | None, ...]]:
    """Arrays in blocks of so many rows; the last is shorter."""
    n = len(values[0])
    return [
        tuple(None if v is None else v[a : a + rows] for v in values)
        for a in range(0, n, rows)
    ]


def agree(a: Any, b: Any, tol: float = SAME) -> None:
    a, b = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    np.testing.assert_allclose(
        a, b, rtol=tol, atol=tol * max(1.0, np.abs(b[np.isfinite(b)]).max(initial=0.0))
    )


def same_model(here: pr.Model, there: pr.Model, rng: np.random.Generator) -> None:
    """Densities and derivatives at a point that is no maximum."""
    assert here.design.columns == there.design.columns
    assert (here.design.count, here.design.total) == (
        there.design.count,
        there.design.total,
    )
    assert here.likelihood == there.likelihood
    beta, aux = 0.3 * rng.normal(size=here.shape), dict.fromkeys(here.unknown, 0.8)
    agree(there.log_lik(beta, **aux), here.log_lik(beta, **aux))
    draws = 0.3 * rng.normal(size=(2, 3, *here.shape))
    many = dict.fromkeys(here.unknown, np.array([[0.5, 0.7, 0.9], [1.1, 1.3, 1.5]]))
    agree(there.log_lik(draws, **many), here.log_lik(draws, **many))
    for at in (
        pr.Model.value_grad_hessian,
        pr.Model.value_grad_hessian_standardised,
    ):
        found, wanted = at(there, beta, **aux), at(here, beta, **aux)
        if at is pr.Model.value_grad_hessian:
            agree(found.value, wanted.value)
            agree(found.gradient, wanted.gradient)
            agree(found.curvature, wanted.curvature)
    if here.likelihood.exact_information:
        agree(there.information(beta, **aux), here.information(beta, **aux))
    agree(there.design.moments.gram[0], here.design.moments.gram[0])
    agree(there.design.moments.scale, here.design.moments.scale)


def same_fit(here: pr.Model, there: pr.Model, method: str) -> None:
    a, b = pr.fit(here, method), pr.fit(there, method)
    agree(b.solution.beta, a.solution.beta)
    agree(b.solution.scale.matrix(), a.solution.scale.matrix())
    agree(b.log_likelihood, a.log_likelihood)
    agree(b.summary().to_numpy(), a.summary().to_numpy())


@pytest.mark.parametrize(
    ("likelihood", "size", "extra"),
    covering(
        itertools.product(
            LIKELIHOOD_CASES, [50, 1], ["both", "plain", "weights", "offset"]
        ),
        lambda likelihood, *_: likelihood,
        lambda likelihood, size, extra: (
            likelihood_kind(likelihood),
            extra in ("both", "plain"),
        ),  # a softmax may take no offset
        lambda _, size, extra: size,
        lambda _, size, extra: extra,
        one_in=240,
    ),
)
def test_every_likelihood_over_blocks(
    likelihood: Likelihood, extra: str, size: int
) -> None:
    X, y = rows_for(likelihood, N)
    rng = np.random.default_rng(8)
    weights = (
        rng.integers(0, 4, N).astype(float) if extra in ("weights", "both") else None
    )
    offset = 0.2 * rng.normal(size=N) if extra in ("offset", "both") else None
    options = recipe_of(likelihood)
    blocks = cut(size, X, y, weights, offset)
    try:
        here = pr.Model.from_arrays(X, y, weights=weights, offset=offset, **options)
    except pr.Incompatible:
        with pytest.raises(pr.Incompatible):
            pr.Model.from_blocks(blocks, **options)
        return
    there = pr.Model.from_blocks(blocks, **options)
    assert there.design.n == 0
    assert there.design.source is not None
    same_model(here, there, rng)
    if isinstance(likelihood, ProximalLikelihood):
        with pytest.raises(
            pr.Incompatible, match="interior_point takes rows in memory"
        ):
            pr.fit(there, "interior_point")
        return
    same_fit(here, there, "newton")


RELATIVE = [pr.Normal(0.7, scaled=True), pr.priors.GPrior(3.0), pr.priors.Jeffreys()]


@pytest.mark.parametrize(
    ("name", "prior"),
    covering(
        [
            (k, prior)
            for prior in RELATIVE
            for k in ("gaussian", "student", "categorical", "binomial", "poisson")
        ],
        lambda k, _: k,
        lambda _, prior: prior.name,
        name=str,
    ),
)
def test_priors_stated_relative_to_the_rows(name: str, prior: Any) -> None:
    special = {
        "categorical": pr.Categorical(levels=("a", "b", "c")),
        "binomial": pr.Binomial(trials=6),
    }
    drawn = special[name] if name in special else LIKELIHOODS[name]()
    X, y = rows_for(drawn, N)
    likelihood = drawn if isinstance(drawn, pr.Binomial) else name
    try:
        here = pr.Model.from_arrays(X, y, likelihood=likelihood, prior=prior)
    except pr.Incompatible:
        pytest.skip("this likelihood and prior do not go together")
    there = pr.Model.from_blocks(cut(64, X, y), likelihood=likelihood, prior=prior)
    agree(
        there.joint.log_prob(np.ones(here.shape), 1.0),
        here.joint.log_prob(np.ones(here.shape), 1.0),
    )
    same_model(here, there, np.random.default_rng(2))
    if pr.inference.METHODS["newton"]().obstacle(here) is None:
        same_fit(here, there, "newton")


@pytest.mark.parametrize(
    "method", ["closed_form", "conjugate", "quadrature", "newton", "laplace"]
)
def test_methods_of_a_gaussian_model(method: str) -> None:
    X, y = rows_for(pr.Gaussian(), N)
    prior = pr.Normal(1.3, sigma_units=method in ("closed_form", "conjugate"))
    here = pr.Model.from_arrays(X, y, prior=prior)
    there = pr.Model.from_blocks(cut(60, X, y), prior=prior)
    same_fit(here, there, method)


def test_a_gaussian_model_reads_its_rows_once() -> None:
    X, y = rows_for(pr.Gaussian(), N)
    passes = []

    def blocks() -> Iterator[tuple[Array, Array]]:
        passes.append(1)
        yield from cut(60, X, y)

    model = pr.Model.from_blocks(blocks, columns=["a", "b", "c"], prior=pr.Normal(1.0))
    for method in ("newton", "quadrature", "laplace"):
        pr.fit(model, method).summary()
    model.log_lik(np.zeros((2, 5, 4, 1)), sigma=np.ones((2, 5)))
    assert len(passes) == 1


def test_newton_reads_the_rows_once_per_step() -> None:
    X, y = rows_for(pr.Bernoulli(levels=(0, 1)), N)
    passes = []

    def blocks() -> Iterator[tuple[Array, Array]]:
        passes.append(1)
        yield from cut(60, X, y)

    fit = pr.fit(
        pr.Model.from_blocks(blocks, columns=["a", "b", "c"], likelihood="bernoulli"),
        "newton",
    )
    steps = int(fit.solution.stats["steps"])
    # the survey; the start; one per step; and one to see how far the linear predictors reach
    assert len(passes) <= steps + 3


# ---- files -------------------------------------------------------------------------------------------------------------


def table(n: int = N, seed: int = 4) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    x, z = rng.normal(size=n), rng.uniform(0.5, 3.0, n)
    g = np.array(["low", "mid", "high"], dtype=object)[rng.integers(3, size=n)]
    eta = 0.4 * x - 0.3 * z + 0.5 * (g == "mid")
    return pd.DataFrame({
        "x": x, "z": z, "g": g, "k": rng.integers(1, 4, n), "t": rng.random(n) < 0.4,
        "y": eta + rng.normal(size=n), "hit": np.where(rng.random(n) < 1 / (1 + np.exp(-eta)), "yes", "no"),
        "count": rng.poisson(np.exp(0.5 + eta / 2)), "kind": np.array(["a", "b", "c"], dtype=object)[rng.integers(3, size=n)],
        "w": rng.integers(0, 4, n), "m": rng.integers(1, 9, n), "e": rng.uniform(0.5, 2.0, n),
    }).assign(s=lambda d: np.minimum(d.m, rng.integers(0, 9, n)))  # fmt: skip


def write(
    folder: Path, data: pd.DataFrame, kind: str, files: int = 1, group: int = 37
) -> list[Path]:
    import pyarrow as pa
    from pyarrow import feather, parquet

    out = []
    for i, rows in enumerate(np.array_split(np.arange(len(data)), files)):
        part, path = data.iloc[rows], folder / f"part{i}.{kind}"
        if kind == "parquet":
            parquet.write_table(
                pa.Table.from_pandas(part, preserve_index=False),
                path,
                row_group_size=group,
            )
        elif kind == "feather":
            feather.write_feather(part.reset_index(drop=True), path, chunksize=group)
        else:
            part.to_csv(path, index=False, sep="\t" if kind == "tsv" else ",")
        out.append(path)
    return out


FORMULAS = [
    ("y ~ x + z", {}),
    ("y ~ x * g + log(z)", {}),
    ("y ~ C(k) + t + x:z", {"offset": "log(e)"}),
    ("y ~ center(x) + bs(z, df=4) + scale(e)", {"weights": "w"}),
    ("y ~ C(g, contr.sum) + poly(x, 2)", {}),
    ("log(z) ~ x + {x**2}", {}),
    ("hit ~ x + g", {"likelihood": "bernoulli", "event": "no", "weights": "w"}),
    ("t ~ x + g", {"likelihood": "bernoulli"}),
    ("p(s, m) ~ x + z", {"likelihood": "bernoulli"}),
    (
        "p(s, m) ~ x + g",
        {"likelihood": "bernoulli", "weights": "w", "offset": "log(e)"},
    ),
    ("count ~ x + g", {"likelihood": "poisson", "offset": "log(e)"}),
    ("kind ~ x + z", {"likelihood": "categorical", "reference": "b"}),
    ("y ~ x + z", {"likelihood": "student"}),
    ("y ~ 0 + g", {}),
    ("y ~ 1", {}),
]


@pytest.mark.parametrize(
    ("formula", "options", "kind"),
    covering(
        [
            (formula, options, kind)
            for formula, options in FORMULAS
            for kind in ("parquet", "feather", "csv")
        ],
        lambda formula, options, kind: (formula, *options),
        lambda formula, options, kind: kind,
    ),
)
def test_a_formula_at_files(
    tmp_path: Path, monkeypatch: Any, formula: str, options: dict[str, Any], kind: str
) -> None:
    # several batches in each file
    monkeypatch.setattr("probreg.data.blocks.files._SMALLEST", 29)
    monkeypatch.setattr("probreg.data.blocks.files._NUMBERS_OF_BATCH", 29)
    data = table()
    here = pr.Model.from_formula(formula, data, **options)
    there = pr.Model.from_files(
        formula, write(tmp_path, data, kind, files=3), **options
    )
    assert here.design.response == there.design.response
    same_model(here, there, np.random.default_rng(1))
    same_fit(here, there, "newton")
    new = data[:9]
    a, b = pr.fit(here, "newton").predict(new), pr.fit(there, "newton").predict(new)
    for name in a.data_vars:
        # from draws, whose axes are free where standard errors coincide
        if not name.startswith("new_"):
            agree(b[name].values, a[name].values)


def test_a_dot_and_quoted_names(tmp_path: Path) -> None:
    data = table()[["y", "x", "z"]].rename(columns={"z": "z (mm)"})
    there = pr.Model.from_parquet("y ~ .", write(tmp_path, data, "parquet"))
    assert there.design.columns == ("Intercept", "x", "z (mm)")
    same_fit(pr.Model.from_formula("y ~ .", data), there, "auto")


@pytest.mark.parametrize("declared", [["mid", "low", "high"], ["high", "low", "mid"]])
def test_declared_levels_keep_their_order(tmp_path: Path, declared: list[str]) -> None:
    data = table().assign(g=lambda d: pd.Categorical(d.g, categories=declared))
    data["hit"] = pd.Categorical(data.hit, categories=["yes", "no"])
    for formula, options in [("y ~ g", {}), ("hit ~ g", {"likelihood": "bernoulli"})]:
        here = pr.Model.from_formula(formula, data, **options)
        there = pr.Model.from_files(
            formula, write(tmp_path, data, "parquet", files=2), **options
        )
        same_model(here, there, np.random.default_rng(1))


@pytest.mark.parametrize(
    "orders", [["yes no", "no yes"], ["no yes", "yes no"], ["yes no", "yes no maybe"]]
)
def test_files_that_declare_several_orders_declare_none(
    tmp_path: Path, orders: list[str]
) -> None:
    data = table()
    parts = [data[:90], data[90:]]
    for i, (part, order) in enumerate(zip(parts, orders)):
        part = part.assign(hit=pd.Categorical(part.hit, categories=order.split()))
        write(tmp_path, part, "parquet")[0].rename(tmp_path / f"{i}.parquet")
    # joined, they are plain text
    here = pr.Model.from_formula("hit ~ x", data, likelihood="bernoulli")
    same_model(
        here,
        pr.Model.from_parquet("hit ~ x", tmp_path, likelihood="bernoulli"),
        np.random.default_rng(1),
    )


@pytest.mark.parametrize("kind", ["parquet", "csv", "feather"])
@pytest.mark.parametrize("column", ["x", "t", "g", "w", "decimal"])
def test_a_column_that_the_first_file_lacks_values_of(
    tmp_path: Path, kind: str, column: str
) -> None:
    data = table().drop(columns=["hit", "kind"])
    data["decimal"] = [Decimal(k) / 7 for k in data.k]
    data[column] = data[column].astype(object).where(np.arange(N) >= 80, None)
    here = pr.Model.from_formula(f"y ~ z + {column}", data, missing="drop")
    there = pr.Model.from_files(
        f"y ~ z + {column}", write(tmp_path, data, kind, files=3), missing="drop"
    )
    same_fit(here, there, "auto")


def test_a_csv_of_a_header_alone_comes_first(tmp_path: Path) -> None:
    data = table()
    paths = write(tmp_path, data, "csv", files=2)
    data[:0].to_csv(tmp_path / "empty.csv", index=False)
    there = pr.Model.from_files(
        "hit ~ x + g", [tmp_path / "empty.csv", *paths], likelihood="bernoulli"
    )
    same_fit(
        pr.Model.from_formula("hit ~ x + g", data, likelihood="bernoulli"),
        there,
        "newton",
    )


@pytest.mark.parametrize("name", ["a.csv.gz", "a.tsv.gz"])
def test_compressed_text(tmp_path: Path, name: str) -> None:
    table().to_csv(tmp_path / name, index=False, sep="\t" if "tsv" in name else ",")
    there = pr.Model.from_files("y ~ x + g", tmp_path / name)
    same_fit(pr.Model.from_formula("y ~ x + g", table()), there, "auto")


def test_the_response_of_a_row_of_weight_zero_is_not_looked_at(tmp_path: Path) -> None:
    data = table()
    data.loc[N - 1, ["hit", "w"]] = "maybe", 0
    options: dict[str, Any] = {"likelihood": "bernoulli"}
    here = pr.Model.from_formula("hit ~ x", data, weights="w", **options)
    same_fit(
        here,
        pr.Model.from_parquet(
            "hit ~ x", write(tmp_path, data, "parquet"), weights="w", **options
        ),
        "newton",
    )
    blocks = cut(
        50, data[["x"]].to_numpy(), data.hit.to_numpy(), data.w.to_numpy(dtype=float)
    )
    same_fit(
        here,
        pr.Model.from_blocks(blocks, columns=["x"], response="hit", **options),
        "newton",
    )


def test_a_model_outlives_a_change_of_folder(tmp_path: Path, monkeypatch: Any) -> None:
    write(tmp_path, table(), "parquet")
    monkeypatch.chdir(tmp_path)
    model = pr.Model.from_parquet("t ~ x", "part0.parquet", likelihood="bernoulli")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert pr.fit(pickle.loads(pickle.dumps(model))).solution.status.name == "CONVERGED"


def test_a_level_of_the_last_rows_gets_its_column(tmp_path: Path) -> None:
    data = table(3 * SAMPLE).drop(columns=["hit", "kind"])
    data["g"] = np.where(np.arange(len(data)) == len(data) - 2, "rare", data.g)
    here = pr.Model.from_formula("y ~ x + g", data)
    there = pr.Model.from_files(
        "y ~ x + g", write(tmp_path, data, "parquet", files=2, group=9000)
    )
    assert "g[T.rare]" in there.design.columns
    same_fit(here, there, "auto")
    assert any("g (4)" in note for note in there.design.notes)


def sample_few(monkeypatch: Any, few: int) -> None:
    for module in ("learning", "survey"):
        monkeypatch.setattr(f"probreg.data.blocks.{module}.SAMPLE", few)


@pytest.mark.parametrize("dtype", ["uint8", "uint64"])
def test_transforms_learn_from_integers_of_any_type(
    tmp_path: Path, monkeypatch: Any, dtype: str
) -> None:
    few = 500
    sample_few(monkeypatch, few)
    data = table(2 * few).drop(columns=["hit", "kind"])
    data["k"] = (1 + np.arange(len(data)) % 100).astype(dtype)
    # the least value, in a row that is not in the evenly spaced sample
    data.loc[3, "k"] = np.iinfo(dtype).min
    formula = "y ~ bs(k, knots=[30, 60])"
    here = pr.Model.from_formula(formula, data.astype({"k": float}))
    there = pr.Model.from_files(formula, write(tmp_path, data, "parquet"))
    same_fit(here, there, "auto")


def test_transforms_of_many_rows_learn_from_a_sample_and_say_so(
    tmp_path: Path, monkeypatch: Any
) -> None:
    sample_few(monkeypatch, 1000)
    data = table(2007)
    there = pr.Model.from_files(
        "y ~ center(x) + bs(z, df=4)", write(tmp_path, data, "parquet")
    )
    assert any("evenly spaced rows" in note for note in there.design.notes)
    # another basis of nearly the same space: the fit of a spline moves with its knots by less than its error
    here = pr.fit(pr.Model.from_formula("y ~ center(x) + bs(z, df=4)", data))
    a, b = here.predict(data[:50]), pr.fit(there).predict(data[:50])
    error = (a.mean_upper - a.mean_lower).values / 2
    assert (np.abs(a["mean"].values - b["mean"].values) < error).all()


def test_missing_rows_are_dropped_as_in_memory(tmp_path: Path) -> None:
    data = table()
    data.loc[[3, 70, 71], "x"] = np.nan
    data.loc[70, "g"] = None
    here = pr.Model.from_formula("y ~ x + g", data, missing="drop")
    for kind in ("parquet", "csv"):
        there = pr.Model.from_files(
            "y ~ x + g", write(tmp_path, data, kind, files=2), missing="drop"
        )
        same_fit(here, there, "auto")
        assert any(
            "3 of 203 rows were dropped" in n and "'x' 3" in n and "'g' 1" in n
            for n in there.design.notes
        )


def test_saved_and_loaded(tmp_path: Path) -> None:
    data = table()
    for formula, options in [
        ("y ~ x + g", {}),
        ("count ~ x + g", {"likelihood": "poisson", "offset": "log(e)"}),
    ]:
        model = pr.Model.from_files(
            formula, write(tmp_path, data, "parquet", files=2), **options
        )
        fit = pr.fit(model)
        again = pr.load_fit(fit.save(tmp_path / "fit.nc"))
        agree(again.summary().to_numpy(), fit.summary().to_numpy(), 1e-14)
        agree(again.predict(data[:5])["mean"], fit.predict(data[:5])["mean"], 1e-14)
        assert again.log_likelihood == fit.log_likelihood


def test_compared_with_the_fit_in_memory(tmp_path: Path) -> None:
    data = table()
    paths = write(tmp_path, data, "parquet", files=2)
    here = pr.fit(pr.Model.from_formula("hit ~ x + g", data, likelihood="bernoulli"))
    there = pr.fit(pr.Model.from_files("hit ~ x + g", paths, likelihood="bernoulli"))
    text = str(pr.compare({"memory": here, "files": there}))
    assert "memory" in text
    assert "files" in text


# ---- separation ----------------------------------------------------------------------------------------------------------


def many(separated: str) -> tuple[Array, Array]:
    """More rows than a sample holds, which are then those whose number is a multiple of four. In `sample` only those are
    separated; in `rare` all rows are, along a direction that the sample alone does not show."""
    rng = np.random.default_rng(3)
    n = 2 * SAMPLE + 10
    rare = (np.arange(n) % 4 == 1) & (rng.random(n) < 0.02)
    X = np.c_[rng.normal(size=n), rng.random(n) < 0.3, rare].astype(float)
    y = (rng.random(n) < 1 / (1 + np.exp(-X[:, 0] - rare))).astype(float)
    y = np.where(X[:, 1] == 1, 1.0, y)
    if separated == "sample":
        y[np.flatnonzero((X[:, 1] == 1) & (np.arange(n) % 4 == 2))[:3]] = 0.0
    X[0, 2] = 1.0  # one row of the sample, so that it knows the column
    if separated == "rare":
        y[0], y[1:] = 0.0, np.where(rare[1:], 0.0, y[1:])
    return X, y


@pytest.mark.filterwarnings("ignore::probreg.errors.ProbregWarning")
@pytest.mark.parametrize("separated", ["sample", "rare"])
def test_separation_is_that_of_all_rows(separated: str) -> None:
    X, y = many(separated)
    a = pr.fit(pr.Model.from_arrays(X, y, likelihood="bernoulli"), "newton")
    b = pr.fit(pr.Model.from_blocks(cut(9000, X, y), likelihood="bernoulli"), "newton")
    assert (b.solution.status.name, b.solution.detail) == (
        a.solution.status.name,
        a.solution.detail,
    )
    # the others have no end where they run away
    agree(b.summary().to_numpy()[:2], a.summary().to_numpy()[:2], 1e-6)
    assert (separated == "rare") == any(
        "holds in all" in note for note in map(str, b.solution.notes)
    )


def test_a_direction_that_separates_the_sample_only_is_not_believed() -> None:
    from probreg.inference.modes.existence import separation_by_block

    X, y = many("sample")
    found, notes = separation_by_block(
        pr.Model.from_blocks(cut(9000, X, y), likelihood="bernoulli")
    )
    assert not found
    assert "are not separated" in str(notes[0])


# ---- tables and categories in blocks ---------------------------------------------------------------------------------------


def test_blocks_of_tables_go_by_their_names() -> None:
    data = table()
    first, second = data[["x", "z"]][:100], data[["z", "x"]][100:]
    here = pr.Model.from_arrays(data[["x", "z"]], data.y)
    there = pr.Model.from_blocks([(first, data.y[:100]), (second, data.y[100:])])
    assert there.design.columns == ("Intercept", "x", "z")
    same_fit(here, there, "auto")
    same_fit(
        here,
        pr.Model.from_blocks(
            [(dict(first), data.y[:100]), (dict(second), data.y[100:])]
        ),
        "auto",
    )


def test_blocks_may_come_from_a_builtin_without_signature() -> None:
    data = table()
    blocks = [(data[["x", "z"]], data.y)]
    a, b = (pr.fit(pr.Model.from_blocks(v)) for v in (blocks, partial(iter, blocks)))
    np.testing.assert_array_equal(a.coef, b.coef)


def test_a_categorical_response_keeps_its_order_in_blocks() -> None:
    data = table()
    X, hit = (
        data[["x", "z"]].to_numpy(),
        pd.Categorical(data.hit, categories=["yes", "no"]),
    )
    here = pr.Model.from_arrays(X, hit, likelihood="bernoulli")
    assert here.likelihood == pr.Bernoulli(levels=("yes", "no"))
    same_fit(
        here, pr.Model.from_blocks(cut(50, X, hit), likelihood="bernoulli"), "newton"
    )


# ---- the fold itself ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_what_is_folded_can_be_pickled() -> None:
    X, y = rows_for(pr.Bernoulli(levels=(0, 1)), N)
    model = pr.Model.from_blocks(
        cut(50, X, y), likelihood="bernoulli", prior=pr.priors.Jeffreys()
    )
    source = model.design.source
    assert source is not None
    sent = []

    class Far:
        n, weight, sample, name = source.n, source.weight, source.sample, source.name

        def sum_over_rows(self, fn: Any, add: Any) -> Any:
            sent.append(len(pickle.dumps((fn, add))))
            return source.sum_over_rows(
                pickle.loads(pickle.dumps(fn)), pickle.loads(pickle.dumps(add))
            )

    from dataclasses import replace

    far = replace(model, design=replace(model.design, source=Far()))
    same_fit(
        pr.Model.from_arrays(X, y, likelihood="bernoulli", prior=pr.priors.Jeffreys()),
        far,
        "newton",
    )
    assert 0 < max(sent) < 20_000  # coefficients and settings travel, rows do not


def test_surveys_add_up() -> None:
    rng = np.random.default_rng(0)
    n = 3 * SAMPLE + 11
    whole = Block(
        rng.normal(size=(n, 2)), rng.integers(0, 3, n).astype(float), rng.random(n)
    )
    fn = partial(survey_of, moments=partial(moments_of, columns=("a", "b")))
    parts = [fn(whole.part(slice(a, min(a + 7777, n)))) for a in range(0, n, 7777)]
    left, right = (
        reduce(lambda a, b: a + b, parts),
        reduce(lambda a, b: b + a, parts[::-1]),
    )
    for found in (left, right):
        assert found.n == n
        assert SAMPLE / 2 <= found.sample.rows <= SAMPLE
        np.testing.assert_array_equal(found.sample.X, whole.X[:: found.spaced.stride])
        assert sorted(found.values) == [0.0, 1.0, 2.0]
        assert not found.many
        agree(found.moments.gram[0], (whole.X * whole.weights[:, None]).T @ whole.X)


def test_a_sweep_adds_what_its_parts_say() -> None:
    rng = np.random.default_rng(0)
    block = Block(rng.normal(size=(40_000, 3)), rng.normal(size=40_000))
    agree(block.sweep(lambda some: (some.X.T @ some.y,))[0], block.X.T @ block.y)
    assert [a.item() for a in add((np.array(1.0),), (np.array(2.0),))] == [3.0]
