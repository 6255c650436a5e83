"""A likelihood, a prior, a method or a kernel can be given as the text that the library prints of it."""

from collections.abc import Sequence
from typing import Any

import pytest

import probreg as pr
from probreg.kernels.base import KERNELS
from probreg.likelihoods import Truncated
from probreg.priors import AUX_PRIORS

from .cases import AUX_CASES, LIKELIHOOD_CASES, METHOD_CASES, PRIOR_CASES


@pytest.mark.parametrize(
    ("registry", "things"),
    [
        (pr.LIKELIHOODS, [*LIKELIHOOD_CASES, Truncated(pr.Poisson(), lower=2.0)]),
        (pr.PRIORS, PRIOR_CASES),
        (pr.METHODS, METHOD_CASES),
        (AUX_PRIORS, AUX_CASES),
        (KERNELS, [pr.kernels.RBF(0.3), pr.kernels.Matern(2, nu=1.5)]),
    ],
    ids=["likelihoods", "priors", "methods", "nuisance priors", "kernels"],
)
def test_what_is_printed_is_read_again(registry: Any, things: Sequence[Any]) -> None:
    for thing in things:
        assert registry.resolve(repr(thing)) == thing
        assert registry.resolve(str(thing)) == thing


def test_names_without_settings_are_those_of_presets_too() -> None:
    assert pr.PRIORS.resolve("weak") == pr.PRIORS.parse("weak")
    with pytest.raises(pr.DataError, match=r"such as rbf\(0.3\)"):
        KERNELS.resolve("rbf(1) + rbf(2)")


def test_numbers_are_whole_where_counts_are_asked_for() -> None:
    assert repr(pr.PRIORS.resolve("student(2, nu=4)")) == repr(
        pr.priors.StudentT(2.0, nu=4.0)
    )
    assert pr.METHODS.resolve("nuts(draws=2e3)") == pr.NUTS(draws=2000)
    with pytest.raises(pr.DataError, match=r"whole number of at least 1, got 2\.5"):
        pr.METHODS.resolve("nuts(draws=2.5)")
    with pytest.raises(pr.DataError, match="not a finite number"):
        pr.PRIORS.resolve("normal((1, x))")


def test_unpacked_settings_are_refused() -> None:
    with pytest.raises(pr.DataError, match=r"such as nuts\(draws=2000\)"):
        pr.METHODS.resolve("nuts(2000, **settings)")
