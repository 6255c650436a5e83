"""Filters of padasip, a progressive regression of river, recursive least squares of statsmodels."""

import csv
from typing import Any

import numpy as np
import pytest

import probreg.online as online
from tests.conftest import reference_path


def columns(name: str) -> dict[str, np.ndarray]:
    with reference_path(f"csv/{name}.csv").open() as file:
        table = list(csv.DictReader(file))
    return {k: np.array([float(row[k]) for row in table]) for k in table[0]}


# Learners as padasip's filters are set, with the state their RLS starts from: precision is its eps.
FILTERS = {
    "lms": online.lms(0.1),
    "nlms": online.nlms(1.0, eps=1.0),
    "rls": online.rls(0.9, precision=0.1),
}


# sum(y), final weights and sum(e^2) that padasip 1.2.2 gives for the certified rows: Filter(4, ..., w=w0).run(d, x)
COMPUTED = {
    "nlms": (
        17.075790883173543,
        [2.01387047747939, 0.13605068100247655, -4.028186635115874, 0.4654682861802195],
        105.5787710852335,
    ),
    "rls": (
        15.463186820823053,
        [
            1.9902874279896896,
            0.09223003923782622,
            -4.023248557189044,
            0.490942611227675,
        ],
        85.08970591309506,
    ),
}


@pytest.mark.filterwarnings(
    "ignore:step 0.1 times the largest"
)  # 2.15 in one row of theirs
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", FILTERS)
def test_padasip_filters(name: str, compiled: bool, certified: Any):
    case = certified("online/padasip_filters")
    learner, X, y, w0 = (
        FILTERS[name],
        np.array(case["x"]),
        np.array(case["d"]),
        np.array(case["w0"]),
    )
    start = learner.init(4)
    memory = dict(start.memory)
    if name == "rls":
        R = memory["factor"][:4, :4]
        memory["factor"] = np.block([[R, (R @ w0)[:, None]], [np.zeros((1, 5))]])
    start = online.State(w0, 0, memory)
    path = online.run(
        learner, X, y, state=start, record=online.Record(compiled=compiled)
    )
    told = case["results"]["lms"]
    total, w, loss = COMPUTED.get(
        name, (told["recomputed_sum_y"], told["final_w"], told["sum_e2"])
    )
    assert path.predictions.sum() == pytest.approx(total, abs=1e-10)
    np.testing.assert_allclose(path.state.w, w, atol=1e-10)
    assert path.loss == pytest.approx(loss, rel=1e-10)
    if name == "lms":
        assert round(path.predictions.sum(), 4) == told["published_sum_y"]
        np.testing.assert_allclose(path.predictions[:5], told["first5_y"], atol=1e-10)


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
def test_recursive_least_squares_of_cpi_on_m1():
    """statsmodels starts its filter diffuse, as the flat prior does: from the third quarter on they are one."""
    table = columns("macrodata")
    models = pytest.importorskip("statsmodels.api")
    X = np.column_stack([np.ones(len(table["m1"])), table["m1"]])
    told = models.RecursiveLS(table["cpi"], X).fit().recursive_coefficients.filtered.T
    path = online.run(online.rls(), X, table["cpi"], record=online.Record(every=1))
    # theirs starts from a variance of 1e6, not infinite
    np.testing.assert_allclose(path.weights[3:], told[2:], rtol=1e-5)
    exact = np.array(
        [
            np.linalg.lstsq(X[:t], table["cpi"][:t], rcond=None)[0]
            for t in range(3, len(X) + 1)
        ]
    )
    np.testing.assert_allclose(path.weights[3:], exact, rtol=1e-8)
