"""Laws of sums over rows: compiled code and NumPy give the same, whatever the block looks like, and parts add up."""

import itertools
from functools import partial
from typing import Any

import numpy as np
import pytest

import probreg as pr
from probreg.data import Block, Frame
from probreg.likelihoods import SmoothLikelihood
from probreg.model import likelihood_sums as sums

from .cases import LIKELIHOOD_CASES, SOON, Array, auxiliaries, covering, given_for, soon

P = 3
SIZES = (0, 1, 127, 128, 513)  # none, one, and about the tiles of 128 and 512 rows
COMPILED = [
    v
    for v in LIKELIHOOD_CASES
    if isinstance(v, SmoothLikelihood)
    and v.compiled_density is not None
    and not v.least_squares  # summed by moments
]
# The plain functions of every density are asked in test_compiled.py.
# Those with one predictor and none or one nuisance parameter compile soon.
QUICK = ("bernoulli", "student")
every = pytest.mark.parametrize(
    "likelihood",
    [
        case
        if case.values[0].name in QUICK
        else pytest.param(*case.values, marks=pytest.mark.slow)
        for case in covering(
            sorted(COMPILED, key=lambda v: v.name not in SOON), soon, one_in=36
        )
    ],
)
BASIS = Frame(np.array([0.0, 0.3, -0.2]), np.array([1.0, 0.7, 1.9]), 0)


def block(
    likelihood: SmoothLikelihood,
    n: int,
    *,
    weighted: bool = False,
    offset: int = 0,
    order: Any = "C",
) -> Block:
    """Rows drawn from the likelihood, with an offset of so many columns."""
    rng = np.random.default_rng(n)
    X = np.column_stack([np.ones(n), rng.normal(size=(n, P - 1))])
    shift = rng.normal(size=(n, offset)) if offset else None
    eta = X @ coefficients(likelihood) + (0.0 if shift is None else shift)
    y = likelihood.sample(
        rng, eta, **auxiliaries(likelihood), **given_for(likelihood, len(eta))
    )
    weights = rng.integers(0, 4, n).astype(float) if weighted else None
    return Block(np.asarray(X, order=order), y, weights, shift)


def blocks(likelihood: SmoothLikelihood) -> list[Block]:
    """Every size, and 300 rows with weights, offsets, and columns in any order."""
    m = likelihood.width
    kinds = itertools.product((False, True), {0, 1, m}, ("C", "F"))
    return [block(likelihood, n) for n in SIZES] + [
        block(likelihood, 300, weighted=w, offset=o, order=order)
        for w, o, order in kinds
    ]


def coefficients(likelihood: SmoothLikelihood, *batch: int) -> Array:
    return np.random.default_rng(5).uniform(-0.8, 0.8, (*batch, P, likelihood.width))


def both(monkeypatch: Any, call: Any, *, compiled: bool = True) -> tuple[Any, Any]:
    """What compiled code says, and NumPy; each is seen to have been used."""
    found, loops_of, used = [], sums.loops_of, []
    with monkeypatch.context() as patch:
        patch.setattr(
            sums, "loops_of", lambda kernel: used.append(kernel) or loops_of(kernel)
        )
        for bound in (0, 10**18):
            patch.setattr(sums, "COMPILED", bound)
            found.append(call())
            assert bool(used) is (compiled and bound == 0)
            used.clear()
    return found[0], found[1]


def same(one: Any, other: Any) -> None:
    """Sums of up to 1300 terms in another order: 1e-12 of the terms' size, which is of order one to ten here."""
    assert len(one) == len(other)
    for a, b in zip(one, other):
        assert np.shape(a) == np.shape(b)
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-10)


@every
def test_expansions_agree(likelihood: SmoothLikelihood, monkeypatch: Any) -> None:
    known, gamma = auxiliaries(likelihood), coefficients(likelihood)
    for some, curved, basis in itertools.product(
        blocks(likelihood), (True, False), (None, BASIS)
    ):
        for unknown in {likelihood.nuisance, ()}:
            call = partial(
                sums.value_grad_hessian, some, likelihood=likelihood, unknown=unknown, gamma=gamma, frame=basis, aux_values=known,
                curved=curved,
            )  # fmt: skip
            has = likelihood.compiled_density.hessian is not None
            same(*both(monkeypatch, call, compiled=has))


@every
def test_batches_of_log_likelihoods_agree(
    likelihood: SmoothLikelihood, monkeypatch: Any
) -> None:
    rng = np.random.default_rng(6)
    for batch in ((), (1,), (2, 35)):  # points come in groups of at most 64
        beta = coefficients(likelihood, *batch)
        known = {a: rng.uniform(0.5, 2.0, (*batch, 1)) for a in likelihood.nuisance}
        for some in blocks(likelihood):
            same(
                *both(
                    monkeypatch,
                    partial(
                        sums.log_lik,
                        some,
                        likelihood=likelihood,
                        beta=beta,
                        aux_values=known,
                    ),
                )
            )


@every
def test_one_point_at_many_aux_and_many_points_at_one(
    likelihood: SmoothLikelihood, monkeypatch: Any
) -> None:
    some = block(likelihood, 40)
    for batch, spread in (((), (5, 1)), ((5,), (1,)), ((4, 1), (5, 1))):
        known = {
            a: np.random.default_rng(7).uniform(0.5, 2.0, spread)
            for a in likelihood.nuisance
        }
        beta = coefficients(likelihood, *batch)
        same(
            *both(
                monkeypatch,
                partial(
                    sums.log_lik,
                    some,
                    likelihood=likelihood,
                    beta=beta,
                    aux_values=known,
                ),
            )
        )


@every
def test_far_points_stay_what_they_are(
    likelihood: SmoothLikelihood, monkeypatch: Any
) -> None:
    """Far out a density may be zero: -inf or a large negative number, never nan, and the same in both."""
    some, beta = block(likelihood, 30), 300.0 * coefficients(likelihood, 3)
    known = {a: np.ones(1) for a in likelihood.nuisance}
    with np.errstate(all="ignore"):
        one, other = both(
            monkeypatch,
            lambda: sums.log_lik(
                some, likelihood=likelihood, beta=beta, aux_values=known
            ),
        )
    assert not np.isnan(one[0]).any()
    np.testing.assert_allclose(one[0], other[0], rtol=1e-12)


@pytest.mark.slow
def test_rows_that_may_not_be_written_to_are_no_other_type(monkeypatch: Any) -> None:
    """Memory maps and the buffers of Arrow are read-only; a density is compiled once for all of them."""
    likelihood = pr.Categorical()
    some = block(likelihood, 50, weighted=True, offset=1)
    frozen = [np.array(a) for a in some[:4]]
    for a in frozen:
        a.flags.writeable = False
    seen: list[tuple[Array, ...]] = []
    loops = sums.loops_of(likelihood.compiled_density)

    def derivatives(*arrays: Array) -> float:
        seen.append(arrays)
        return loops.derivatives(*arrays)

    monkeypatch.setattr(sums, "COMPILED", 0)
    monkeypatch.setattr(
        sums, "loops_of", lambda kernel: loops._replace(derivatives=derivatives)
    )
    beta = coefficients(likelihood)
    beta.flags.writeable = False
    sums.value_grad_hessian(
        Block(*frozen), likelihood=likelihood, unknown=(), gamma=beta, frame=None, aux_values={}, curved=True
    )  # fmt: skip
    assert all(a.flags.writeable and a.flags.c_contiguous for a in seen[0])


def test_parts_add_up(monkeypatch: Any) -> None:
    """Rows past one block of the sweep, on one thread and on all."""
    likelihood = pr.Categorical()
    some = block(likelihood, 40_000, weighted=True)
    call = partial(
        sums.value_grad_hessian,
        some,
        likelihood=likelihood,
        unknown=(),
        gamma=coefficients(likelihood),
        frame=None,
        aux_values={},
        curved=True,
    )
    found = []
    monkeypatch.setattr(sums, "COMPILED", 0)
    for threads in (1, None):
        with pr.linalg.limit_threads(threads):
            found.append(call())
    for a, b in zip(*found):
        assert np.array_equal(a, b)
    monkeypatch.setattr(sums, "COMPILED", 10**18)
    same(found[0], call())


def test_a_fit_is_the_same_by_compiled_code(monkeypatch: Any) -> None:
    """Past the number of rows where the search starts on a sample; both end within 1e-7 sqrt(n) = 2e-5 standard errors of
    the maximum, and the last step squares that."""
    rng = np.random.default_rng(8)
    X = rng.normal(size=(40_000, 3)) + np.array([0.0, 50.0, -2.0])
    y = rng.integers(0, 3, 40_000)
    one, other = both(
        monkeypatch,
        lambda: pr.fit(pr.Model.from_arrays(X, y, likelihood="categorical"), "newton"),
    )
    apart = np.abs(one.coef - other.coef) / other.std_error
    assert float(apart.max()) < 1e-6
    np.testing.assert_allclose(one.std_error, other.std_error, rtol=1e-6)
