"""Rows on a dask cluster give what the same rows give on one machine, and only sums leave the workers."""

import itertools
import os
from functools import partial

import numpy as np
import pandas as pd
import pytest

import probreg as pr
from probreg.data.blocks.block import SAMPLE
from probreg.inference import Newton
from probreg.likelihoods import ProximalLikelihood
from probreg.linalg import threads
from probreg.model import likelihood_sums as sums

dd = pytest.importorskip("dask.dataframe", reason="dask with pandas is not installed")
da = pytest.importorskip("dask.array", reason="dask is not installed")
distributed = pytest.importorskip("distributed", reason="distributed is not installed")

N = 1200
SUM = 1e-10  # sums of a thousand terms in another order differ by 1e-13 of their size, and Newton ends within 1e-11 of the mode


@pytest.fixture(scope="module")
def cluster_client(tmp_path_factory):
    """Two worker processes; not dask's default, so that a model without a client shows what dask's own threads do."""
    own = {
        "dashboard_address": ":0",
        "local_directory": str(tmp_path_factory.mktemp("workers")),
    }
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, **own) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client


@pytest.fixture(
    scope="module",
    params=["threads", pytest.param("processes", marks=pytest.mark.slow)],
)
def client(request):
    """None, so that dask's own threads work, in the quick part; processes, whose start takes most of the time, in the other."""
    return (
        None
        if request.param == "threads"
        else request.getfixturevalue("cluster_client")
    )


def table(n: int = N) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    data = pd.DataFrame(
        {
            "x": rng.normal(30.0, 2.0, n),
            "g": np.array(["plain", "north", "west"])[rng.integers(3, size=n)],
            "w": rng.integers(0, 4, n),
            "exposure": rng.uniform(0.5, 2.0, n),
        }
    )
    eta = 0.2 * (data["x"] - 30.0) - 0.5 * (data["g"] == "north")
    data["gaussian"] = eta + rng.normal(size=n)
    data["student"] = eta + rng.standard_t(4, size=n)
    data["positive"] = np.exp(0.2 * data["student"])
    data["bernoulli"] = np.where(rng.random(n) < 1 / (1 + np.exp(-eta)), "yes", "no")
    data["poisson"] = rng.poisson(np.exp(eta))
    data["trials"] = rng.integers(1, 6, n)
    data["hits"] = rng.binomial(data["trials"], 1 / (1 + np.exp(-eta)))
    data["misses"] = data["trials"] - data["hits"]
    data["categorical"] = np.array(["u", "v", "w"])[
        np.clip(np.round(eta + rng.normal(1, 1, n)), 0, 2).astype(int)
    ]
    data["event"] = rng.random(n) < 0.8
    data["seen"] = data["poisson"] + 1
    data["ordinal"] = np.clip(np.round(eta + rng.normal(1, 1, n)), 0, 2).astype(int)
    return data


DATA = table()
RESPONSE = {
    # a formula states the interval of a family
    "censored": "cens(positive, event)",
    "truncated": "trunc(seen, lower=1)",
    "huber": "gaussian",
    "binomial": "p(hits, trials)",
    "multinomial": "counts(hits, misses, poisson)",
}
FAMILY = {"censored": "weibull", "truncated": "poisson"}


@pytest.fixture(scope="module")
def frame(client):
    """In the memory of the workers where there are some, in uneven partitions."""
    split = dd.from_pandas(DATA, npartitions=5)
    return split if client is None else client.persist(split)


def both(name, frame, client, **more):
    """The model of the cluster and that of one machine, under a prior that the rows have to be put beside."""
    settings = {
        "likelihood": FAMILY.get(name, name),
        "prior": pr.Normal(0.7),
        "weights": "w",
        "offset": None if name in ("categorical", "multinomial") else "log(exposure)",
        **more,
    }
    formula = f"{RESPONSE.get(name, name)} ~ x + g"
    return (
        pr.Model.from_dask(formula, frame, client=client, **settings),
        pr.Model.from_formula(formula, DATA, **settings),
    )


def close(a, b):
    np.testing.assert_allclose(a, b, rtol=SUM, atol=SUM)


# Every likelihood has its sums over blocks in test_rows.py; here each kind of response and of sums has one.
@pytest.mark.parametrize(
    ("client", "name"),
    [
        *itertools.product(
            ["threads"],
            [
                "bernoulli",
                "binomial",
                "categorical",
                "gaussian",
                "huber",
                "poisson",
                "student",
            ],
        ),
        *(
            pytest.param(client, name, marks=pytest.mark.slow)
            for client, names in {
                "threads": ("censored", "multinomial", "ordinal", "truncated"),
                "processes": ("categorical", "student"),
            }.items()
            for name in names
        ),
    ],
    indirect=["client"],
)
def test_each_kind_of_likelihood_gives_the_answers_of_one_machine(name, frame, client):
    far, near = both(name, frame, client)
    assert far.design.columns == near.design.columns
    assert (far.design.count, far.design.n) == ((DATA["w"] > 0).sum(), 0)
    assert far.design.total == near.design.total == DATA["w"].sum()
    if isinstance(far.likelihood, ProximalLikelihood):
        with pytest.raises(
            pr.Incompatible, match="interior_point takes rows in memory"
        ):
            pr.fit(far, "interior_point")
        return
    a, b = pr.fit(far, Newton()), pr.fit(near, Newton())
    close(a.solution.beta, b.solution.beta)
    close(a.solution.scale.matrix(), b.solution.scale.matrix())
    aux = {k: np.array([1.3, 0.8]) for k in far.likelihood.nuisance}
    draws = b.solution.beta + np.array([0.0, 0.1])[:, None, None]
    close(
        far.log_lik(draws, **aux) / far.design.total,
        near.log_lik(draws, **aux) / far.design.total,
    )
    one = dict.fromkeys(far.likelihood.nuisance, 1.3)
    for x, y in zip(
        far.value_grad_hessian(draws[1], **one),
        near.value_grad_hessian(draws[1], **one),
    ):
        # gradients are differences of sums
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-9 * np.abs(y).max())


@pytest.mark.parametrize(
    ("name", "method"),
    [("gaussian", "closed_form"), ("gaussian", "conjugate"), ("bernoulli", "laplace")],
)
def test_every_method_that_sums_gives_the_answers_of_one_machine(
    name, method, frame, client
):
    prior = (
        pr.Flat()
        if method == "closed_form"
        else pr.Normal(0.7, sigma_units=name == "gaussian")
    )
    far, near = both(name, frame, client, prior=prior)
    a, b = pr.fit(far, method, seed=1), pr.fit(near, method, seed=1)
    close(a.solution.beta, b.solution.beta)
    close(a.solution.scale.matrix(), b.solution.scale.matrix())


def test_parquet_files_give_the_model_of_from_files_to_the_sampled_row(
    client, tmp_path
):
    """More rows than the sample holds: what transforms learn from it is the same, since it is the same rows."""
    rng = np.random.default_rng(5)
    data = pd.DataFrame(
        {"y": rng.normal(size=SAMPLE + 5001), "x": rng.normal(2.0, 1.0, SAMPLE + 5001)}
    )
    for k, cut in enumerate(np.split(np.arange(len(data)), [3000, 17_001])):
        data.iloc[cut].to_parquet(tmp_path / f"part{k}.parquet")
    formula = "y ~ center(x) + bs(x, df=4)"
    far = pr.Model.from_dask(formula, dd.read_parquet(tmp_path), client=client)
    near = pr.Model.from_files(formula, tmp_path)
    assert far.design.recipe == near.design.recipe
    assert far.design.notes == near.design.notes != ()
    np.testing.assert_array_equal(far.design.sample.X, near.design.sample.X)
    close(far.design.moments.gram[0], near.design.moments.gram[0])


def test_responses_that_all_lack_an_end_are_read(client):
    rng = np.random.default_rng(3)
    x, low = rng.normal(size=(2, 60))
    x[:3] = np.nan
    data = pd.DataFrame({"x": x, "low": low + x, "high": np.nan})
    data.loc[::2, ["low", "high"]] = [np.nan, 1.0]
    frame = dd.from_pandas(data, npartitions=2)
    model = pr.Model.from_dask(
        "cens(lower=low, upper=high) ~ x", frame, client=client, missing="drop"
    )
    assert model.design.count == 57


def test_trials_missing_rows_and_declared_levels_are_read_as_on_one_machine(client):
    rng = np.random.default_rng(8)
    data = pd.DataFrame({"t": rng.integers(1, 6, 300), "x": rng.normal(size=300)})
    data["s"] = rng.binomial(data["t"], 0.4)
    data["size"] = pd.Categorical.from_codes(
        rng.integers(3, size=300), ["small", "mid", "large"], ordered=True
    )
    data.loc[[5, 250], "x"] = np.nan
    settings = {"likelihood": "bernoulli", "missing": "drop"}
    far = pr.Model.from_dask(
        "p(s, t) ~ x + size",
        dd.from_pandas(data, npartitions=4),
        client=client,
        **settings,
    )
    near = pr.Model.from_formula("p(s, t) ~ x + size", data, **settings)
    assert (
        far.design.columns
        == near.design.columns
        == ("Intercept", "x", "size[T.mid]", "size[T.large]")
    )
    assert far.design.response == near.design.response
    assert any(
        note.startswith("2 of 300 rows were dropped") for note in far.design.notes
    )
    close(pr.fit(far).solution.beta, pr.fit(near).solution.beta)


def test_a_partition_may_be_empty_and_hold_levels_that_no_other_has(client):
    # most partitions hold one level
    some = dd.from_pandas(DATA.sort_values("g", ignore_index=True), npartitions=6)
    kept = some[some["g"] != "north"]
    far = pr.Model.from_dask("gaussian ~ x + g", kept, client=client)
    near = pr.Model.from_formula("gaussian ~ x + g", DATA[DATA["g"] != "north"])
    assert far.design.columns == near.design.columns == ("Intercept", "x", "g[T.west]")
    close(pr.fit(far).solution.beta, pr.fit(near).solution.beta)


@pytest.mark.slow  # two processes; the quick part has one, in tests/errors/test_dask.py
def test_sums_are_added_in_the_order_of_the_partitions_by_other_processes(
    cluster_client,
):
    def starts(block):  # within, so that it travels whole: workers cannot import a test
        return [(os.getpid(), block.start, block.rows, threads())]

    frame = cluster_client.persist(dd.from_pandas(DATA, npartitions=5))
    far, near = both("bernoulli", frame, cluster_client)
    close(pr.fit(far).solution.beta, pr.fit(near).solution.beta)
    met = far.design.sum_over_rows(starts, lambda a, b: a + b)
    assert len(met) == 5
    assert [start for _, start, _, _ in met] == sorted(start for _, start, _, _ in met)
    assert sum(rows for _, _, rows, _ in met) == far.design.count
    assert os.getpid() not in {process for process, *_ in met}
    # a worker runs as many tasks as it has threads
    assert {count for *_, count in met} == {1}


def test_a_pass_gives_the_same_bits_each_time(frame, client):
    far, _ = both("student", frame, client)
    beta = np.full((4, 1), 0.01)
    fn = partial(
        sums.log_lik,
        likelihood=far.likelihood,
        beta=beta,
        aux_values={"sigma": np.ones(1)},
    )
    assert len({far.design.sum_over_rows(fn)[0].item() for _ in range(4)}) == 1


def test_only_a_sample_of_the_rows_is_kept_here(client):
    data = pd.DataFrame(
        {"y": np.arange(2.5 * SAMPLE) % 7, "x": np.arange(2.5 * SAMPLE)}
    )
    far = pr.Model.from_dask(
        "y ~ x", dd.from_pandas(data, npartitions=4), client=client
    )
    assert far.design.X.shape == (0, 2)
    assert SAMPLE / 4 < far.design.sample.n <= SAMPLE  # a power of 2 between two rows
    assert far.design.sample.total == far.design.count == len(data)
