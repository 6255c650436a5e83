"""Laws of every check and diagnostic: the answer does not depend on how observations are written down. A row of weight 3 is
three rows, and rows come in any order where order has no meaning, with an offset and without."""

from dataclasses import replace

import numpy as np
import pytest

import probreg as pr
from probreg.diagnostics.after import DIAGNOSTICS
from probreg.diagnostics.before import CHECKS
from probreg.inference import METHODS
from probreg.likelihoods import OfTrials, ProximalLikelihood

from .cases import LIKELIHOOD_CASES, covering, model_for, proper_aux, quick

N = 30
# both fits stop when their gradient is below 1e-8 standard errors or so
CLOSE = {"rtol": 1e-5, "atol": 1e-7}


def written(likelihood, offset):
    """A model of weighted rows, the same of rows written out, and of those in another order. Their weights of one say that
    they are counted, and have no order."""
    rng = np.random.default_rng(5)
    plain = model_for(likelihood, n=N, aux=proper_aux(likelihood))
    w = rng.integers(1, 4, N)
    out = np.repeat(np.arange(N), w)
    there = rng.normal(size=N) if offset else None

    def at(rows, weights):
        design = replace(plain.design.take(rows), weights=weights)
        return replace(
            plain,
            design=design
            if there is None
            else replace(design, offset=there[rows, None]),
        )

    counts = (w.astype(float), np.ones(len(out)), np.ones(len(out)))
    return [
        at(*each)
        for each in zip((np.arange(N), out, rng.permutation(out)), counts, strict=True)
    ]


def alike(one, two):
    """The same findings: verdicts, columns and numbers."""
    assert [(f.check, f.verdict, f.columns) for f in one] == [
        (f.check, f.verdict, f.columns) for f in two
    ]
    for a, b in zip(one, two, strict=True):
        np.testing.assert_allclose(
            [a.statistic, a.p_value], [b.statistic, b.p_value], **CLOSE, err_msg=a.check
        )


def answers(fit):
    """The findings of each diagnostic, or the reason why it does not apply."""
    found = {name: cls().run(fit) for name, cls in DIAGNOSTICS.items()}
    return {k: v if v[0].applies else v[0].sentence for k, v in found.items()}


def takes_offset(likelihood):
    try:
        written(likelihood, True)
    except pr.Incompatible:
        return False
    return True


CASES = [
    (k, offset)
    for k in LIKELIHOOD_CASES
    for offset in (False, True)
    if not offset or takes_offset(k)
]
METHODS_HERE = [METHODS["auto"](), quick(METHODS["laplace"])]  # a mode, and a posterior


@pytest.mark.parametrize(
    ("likelihood", "offset"),
    covering(
        CASES,
        lambda k, _: k.name,
        lambda k, offset: (k.width > 1, isinstance(k, OfTrials), offset),
        one_in=200,
    ),
)
def test_checks_count_observations(likelihood, offset):
    for cls in CHECKS.values():
        first, *others = (cls().run(m) for m in written(likelihood, offset))
        for other in others:
            alike(first, other)


@pytest.mark.parametrize(
    ("likelihood", "offset", "method"),
    covering(
        [
            (k, offset, method)
            for k, offset in CASES
            for method in METHODS_HERE
            if method.target == "mode"
            # laplace refuses kinks, and flat priors of which the posterior is improper
            or not (isinstance(k, ProximalLikelihood) or k.positive_limit)
        ],
        lambda k, _, method: (
            method.target,
            k.width > 1,
            bool(k.nuisance),
            isinstance(k, OfTrials),
            isinstance(k, ProximalLikelihood),
        ),
        lambda _, offset, method: (offset, method.target),
        one_in=200,
    ),
)
def test_diagnostics_count_observations(likelihood, offset, method):
    weighted, repeated, moved = (
        answers(pr.fit(m, method, seed=3)) for m in written(likelihood, offset)
    )
    for name in DIAGNOSTICS:
        for other in (repeated, moved):
            if isinstance(weighted[name], str) or isinstance(other[name], str):
                assert weighted[name] == other[name]
            else:
                alike(weighted[name], other[name])


def test_two_ways_have_the_degrees_of_freedom_of_the_fewer_groups():
    rng = np.random.default_rng(2)
    x = rng.normal(size=60)
    fit = pr.fit(pr.Model.from_arrays(x, x + rng.normal(size=60)))
    few, many = np.arange(60) % 5, np.arange(60) % 12
    for groups in (np.c_[few, many], np.c_[many, few]):
        assert fit.covariance("cluster", groups=groups).attrs["df"] == 4.0
    assert fit.covariance("cluster", groups=many).attrs["df"] == 11.0


@pytest.mark.parametrize("kind", ["HC0", "HC1", "HC2", "HC3"])
def test_a_robust_covariance_counts_a_row_of_weight_two_twice(kind):
    """HC1's n / (n - k) counts observations, not rows of the table."""
    rng = np.random.default_rng(4)
    x, w = rng.normal(size=12), np.arange(12) % 3 + 1
    y = x + rng.normal(size=12)
    weighted = pr.fit(pr.Model.from_arrays(x, y, weights=w))
    repeated = pr.fit(pr.Model.from_arrays(np.repeat(x, w), np.repeat(y, w)))
    np.testing.assert_allclose(
        weighted.covariance(kind), repeated.covariance(kind), rtol=1e-9
    )
