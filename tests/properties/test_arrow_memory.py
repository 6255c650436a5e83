"""What eliminating groups takes: memory that is told before, and no fill where factors are nested."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse  # noqa: F401  an import is no memory of a fit

import probreg as pr
from probreg.data import implicit_columns
from probreg.inference.exact import gaussian_sums
from probreg.inference.exact.arrow_layout import require_memory
from probreg.inference.exact.evidence_problem import EvidenceProblem
from probreg.linalg import Arrow
from probreg.model.model import Model

CROSSED, NESTED = "y ~ 1 + (1 | a) + (1 | b)", "y ~ 1 + (1 | a / b / c)"


def crossed(n: int, A: int, B: int) -> Model:
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, A, n), rng.integers(0, B, n)
    y = rng.normal(size=A)[a] + rng.normal(size=B)[b] + rng.normal(size=n)
    return Model.from_formula(CROSSED, {"y": y, "a": a.astype(str), "b": b.astype(str)})


def nested(n: int = 3600, sizes: tuple[int, int, int] = (20, 200, 1200)) -> Model:
    rng = np.random.default_rng(0)
    c = np.arange(n) % sizes[2]
    codes = {"a": c % sizes[0], "b": c % sizes[1], "c": c}
    y = sum(
        (rng.normal(size=size)[code] for size, code in zip(sizes, codes.values())),
        rng.normal(size=n),
    )
    return Model.from_formula(
        NESTED, {"y": y, **{name: code.astype(str) for name, code in codes.items()}}
    )


@pytest.mark.slow
def test_a_fit_takes_no_more_memory_than_is_told(monkeypatch):
    # columns up to 64 MB would be written out
    monkeypatch.setattr(implicit_columns, "MIN_IMPLICIT_BYTES", 0)
    # modules that a first fit imports are no memory of the second
    pr.fit(crossed(600, 70, 35))
    made = crossed(6_000, 700, 350)
    G, r = 700, 351
    tracemalloc.start()
    pr.fit(made)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * (4 * (G * r + r * r) + 16 * made.design.n)


@pytest.mark.parametrize("formula", [CROSSED, "k ~ 1 + (1 | a) + (1 | b)"])
def test_what_is_more_than_the_machine_has_is_refused_before_it_is_allocated(
    formula, monkeypatch
):
    rng, n = np.random.default_rng(0), 4000
    groups = {
        name: (np.arange(n) // size).astype(str) for name, size in (("a", 2), ("b", 4))
    }
    made = Model.from_formula(
        formula,
        {"y": rng.normal(size=n), "k": rng.integers(0, 2, n).astype(bool), **groups},
    )
    monkeypatch.setattr(
        "probreg.inference.exact.arrow_layout.physical_memory", lambda: 50 * 10**6
    )
    tracemalloc.start()
    with pytest.raises(
        pr.Incompatible,
        match=r"2000 groups of 1 effect in \(1 \| a\) and 1000 groups .* need 96.6 MB of memory, and this machine has 50 MB",
    ):
        pr.fit(made, "evidence")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * 2000 * 1000 / 4
    monkeypatch.setattr(
        "probreg.inference.exact.arrow_layout.physical_memory", lambda: 10**9
    )
    require_memory(EvidenceProblem(made, False).surface.layout, "evidence")


def test_nested_factors_are_eliminated_one_after_the_other():
    surface = EvidenceProblem(nested(), False).surface
    theta = np.array([-0.3, 0.2, 0.1, 0.05])
    assert surface.sums.has_sparse_border
    rest = surface.at_nodes(theta[None]).factor.T
    assert isinstance(rest, Arrow)
    # c in b in a: one entry of the border for each group and each factor above it, and no others
    factor, (A, B, C) = surface.at_nodes(theta[None]).factor, (20, 200, 1200)
    assert factor.C.nnz == 3 * C  # b, a and the intercept
    assert np.count_nonzero(rest.C) == 2 * B  # a and the intercept
    assert rest.shape == (B, 1, A + 1)


@pytest.mark.parametrize("criterion", ["REML", "ML"])
def test_the_order_of_elimination_changes_nothing(criterion, monkeypatch):
    one_by_one = EvidenceProblem(nested(), False, criterion=criterion).surface
    assert one_by_one.sums.has_sparse_border
    monkeypatch.setattr(gaussian_sums, "MIN_SPARSE_SIZE", 10**12)
    dense = EvidenceProblem(nested(), False, criterion=criterion).surface
    assert not dense.sums.has_sparse_border
    for theta in np.array([[-0.3, 0.2, 0.1, 0.05], [0.5, -1.0, 0.3, -0.2]]):
        a, b = one_by_one(theta), dense(theta)
        assert a.value == pytest.approx(b.value, rel=1e-11)
        np.testing.assert_allclose(a.gradient, b.gradient, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(a.hessian, b.hessian, rtol=1e-7, atol=1e-7)
