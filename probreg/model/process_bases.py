"""The bases of Gaussian process terms under the priors that are stated for them: another function, other lengths, enough sines."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from probreg.data import Design
from probreg.data.terms.process import ProcessTerm, with_spread
from probreg.kernels import CovarianceFunction, KernelBasis
from probreg.kernels.spectral import SineBasis
from probreg.priors import AuxPrior, GaussianProcess, Prior
from probreg.priors.gaussian_process import is_length

Array = np.ndarray
_DRAWS = 4001  # of a prior, for its quantiles
_ENDS = (0.01, 0.99)
FAR = 0.01  # of k(x, x): an error of sines above it is no approximation


def with_process_bases(design: Design, chosen: Mapping[str, Prior]) -> Design:
    """Return the design with the bases that the priors of its processes need."""
    for key, term in design.recipe.processes.items():
        prior = chosen.get(key)
        if (
            isinstance(prior, GaussianProcess)
            and (new_basis := _requested_basis(prior, term, design)) is not None
        ):
            design = design.with_basis(key, new_basis)
    return design


def _requested_basis(
    prior: GaussianProcess, term: ProcessTerm, design: Design
) -> KernelBasis | None:
    """Return the basis that a prior requires, or None where the term has it."""
    basis = term.basis
    names = term.inputs
    kernel = prior.kernel_on(basis.kernel)
    x = design.inputs.get(term.key)
    if kernel != basis.kernel and x is None:
        design.need_rows("another covariance function of a process")
    if kernel != basis.kernel and x is not None:
        if design.weight_kind == "frequency":
            counts = design.weights
        else:
            counts = None
        kernel = kernel.resolve(with_spread(x, counts), names)
        if kernel != basis.kernel:
            basis = basis.rebuilt(kernel, x)
    unknown = prior.unknown(kernel)
    lengths = {name: p for name, p in unknown.items() if is_length(name)}
    if isinstance(basis, SineBasis) and unknown and x is not None:
        if lengths:
            sines = basis.for_kernel_range(*_ends_of(kernel, lengths, basis), x)
        else:
            sines = replace(basis, plain=True)
        if not _same_sines(sines, basis):
            basis = sines
    return None if basis is term.basis else basis


def _same_sines(first: SineBasis, second: SineBasis) -> bool:
    a, b = first.frequencies, second.frequencies
    same = a.shape == b.shape and first.plain == second.plain
    return same and bool(np.allclose(a, b, rtol=1e-9, atol=0.0))


def _ends_of(
    kernel: CovarianceFunction, lengths: Mapping[str, AuxPrior], basis: SineBasis
) -> tuple[CovarianceFunction, CovarianceFunction]:
    """The function at the shortest lengths that are to be served, and at the longest: quantiles 0.01 and 0.99 of their priors,
    or shares of the range where a prior is improper."""
    # of the range between which lengths without a proper prior are served, by the number of inputs
    shares = {1: (0.05, 1.0), 2: (1 / 6, 0.5), 3: (1 / 3, 0.5)}
    low: dict[str, float] = {}
    high: dict[str, float] = {}
    span = float(2.0 * basis.reach.max())
    for name, prior in lengths.items():
        if prior.proper:
            draws = prior.sample(np.random.default_rng(0), _DRAWS)
            low[name], high[name] = (float(v) for v in np.quantile(draws, _ENDS))
        else:
            low[name], high[name] = (span * share for share in shares[basis.width])
    return kernel.at(**low), kernel.at(**high)


def lengths_beyond(basis: SineBasis, hyper_draws: Mapping[str, Any]) -> Array:
    """Bool of 100 draws, evenly by the first of these hyperparameters (S,), or of all: the sines are no approximation there."""
    max_draws = 100  # each of which costs a sum over 20,000 frequencies
    table = np.column_stack(
        [np.asarray(values, dtype=float) for values in hyper_draws.values()]
    )
    count = min(max_draws, len(table))
    chosen = np.argsort(table[:, 0], kind="stable")[
        ((np.arange(count) + 0.5) * len(table) / count).astype(int)
    ]
    kernels = [
        basis.kernel.at(**dict(zip(hyper_draws, row))) for row in table[chosen].tolist()
    ]
    return np.array([basis.error_of(kernel) > FAR for kernel in kernels])
