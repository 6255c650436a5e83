"""Priors of terms that have their own scale, and the names of their hyperparameters. A term has the prior that is stated for it, else its
default; a prior for all columns comes last."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from probreg.data import Design
from probreg.data.checked_arrays import is_intercept
from probreg.data.terms.process import ProcessTerm, with_spread
from probreg.data.terms.smooths import BasisTerm
from probreg.errors import DataError
from probreg.formula.terms import read_bar_term
from probreg.kernels import CovarianceFunction, KernelBasis
from probreg.kernels.anchored import RowValues
from probreg.kernels.spectral import SineBasis
from probreg.model.descriptions import describe_prior
from probreg.priors import (
    LKJ,
    AuxPrior,
    BlockPrior,
    Covariance,
    Flat,
    GaussianProcess,
    HierarchicalPrior,
    Normal,
    Prior,
    Reference,
)
from probreg.priors.gaussian_process import is_length
from probreg.priors.joint import JointPrior, Key, same_term
from probreg.priors.text import PriorLike, read_prior

Array = np.ndarray
_DRAWS_OF_QUANTILES = 4001  # number of draws of a prior for its quantiles
_ENDS = (0.01, 0.99)
# share of k(x, x): with a larger error sines are no approximation
LARGEST_SINE_ERROR = 0.01


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
    """Return the basis that a prior requires, or None if the term already has it."""
    basis = term.basis
    names = term.inputs
    kernel = prior.kernel_on(basis.kernel)
    x = design.inputs.get(term.key)
    if kernel != basis.kernel and x is None:
        design.need_rows("another covariance function of a process")
    if kernel != basis.kernel and x is not None:
        counts = None
        if design.weight_kind == "frequency":
            counts = design.weights
        kernel = kernel.resolve(with_spread(x, counts), names)
        if kernel != basis.kernel:
            basis = basis.rebuilt(kernel, x, **term.settings)
    unknown = prior.unknown(kernel)
    if isinstance(basis, RowValues) and not unknown:
        # function values have the covariance k; columns of a known k have independent coefficients
        basis = basis.rebuilt(kernel, basis.anchors)
    lengths = {name: p for name, p in unknown.items() if is_length(name)}
    if isinstance(basis, SineBasis) and unknown and x is not None:
        if lengths:
            ends = _ends_of(kernel, lengths, basis)
            sines = basis.for_kernel_range(*ends, x, **term.settings)
        else:
            sines = replace(basis, plain=True)
        if not _same_sines(sines, basis):
            basis = sines
    elif unknown and term.settings and not isinstance(basis, SineBasis):
        raise DataError(
            f"{term.key}: this basis is made anew at each {' and '.join(unknown)}, without {'=, '.join(term.settings)}=: state the "
            "hyperparameters in the formula, such as length=1.0, or write basis='hsgp'"
        )
    return None if basis is term.basis else basis


def _same_sines(first: SineBasis, second: SineBasis) -> bool:
    a, b = first.frequencies, second.frequencies
    same = a.shape == b.shape and first.plain == second.plain
    return same and bool(np.allclose(a, b, rtol=1e-9, atol=0.0))


def _ends_of(
    kernel: CovarianceFunction, lengths: Mapping[str, AuxPrior], basis: SineBasis
) -> tuple[CovarianceFunction, CovarianceFunction]:
    """Return the function at the shortest and at the longest lengths that the basis must cover: quantiles 0.01 and 0.99 of their
    priors, or shares of the range if a prior is improper."""
    # limits of lengths without a proper prior, as shares of the range, by the number of inputs
    shares = {1: (0.05, 1.0), 2: (1 / 6, 0.5), 3: (1 / 3, 0.5)}
    low: dict[str, float] = {}
    high: dict[str, float] = {}
    span = float(2.0 * basis.reach.max())
    for name, prior in lengths.items():
        if prior.proper:
            draws = prior.sample(np.random.default_rng(0), _DRAWS_OF_QUANTILES)
            low[name], high[name] = (float(v) for v in np.quantile(draws, _ENDS))
        else:
            low[name], high[name] = (span * share for share in shares[basis.width])
    return kernel.at(**low), kernel.at(**high)


def lengths_beyond(basis: SineBasis, hyper_draws: Mapping[str, Any]) -> Array:
    """Whether the sines are no approximation, for all draws of these hyperparameters (S,) or 100 of them, evenly by the first one."""
    max_draws = 100  # a draw costs a sum over 20,000 frequencies
    table = np.column_stack(list(hyper_draws.values()))
    count = min(max_draws, len(table))
    chosen = np.argsort(table[:, 0], kind="stable")[
        ((np.arange(count) + 0.5) * len(table) / count).astype(int)
    ]
    kernels = [
        basis.kernel.at(**dict(zip(hyper_draws, row))) for row in table[chosen].tolist()
    ]
    return np.array([basis.error_of(kernel) > LARGEST_SINE_ERROR for kernel in kernels])


# The scale of a block is unknown: a mode sets it at the maximum of the evidence, and a posterior needs a proper prior.
DEFAULT = Normal(Reference())


def bound_terms(
    spec: PriorLike, design: Design
) -> tuple[Design, Prior | Mapping[Key, Prior]]:
    """Return the design with the bases that the priors of its processes need, and the priors with one entry for each block of each
    term. Both are unchanged if there are no such terms.

    A prior for all columns leaves the default priors of terms, unless it is one density of all columns together, of processes, or of
    terms. A term as a key, with or without its options, applies to all its blocks, each with its own scale. Raise DataError for a
    key that matches two terms.
    """
    read: Prior | Mapping[Key, Prior] = read_prior(spec)
    if (isinstance(read, Prior) and read.whole) or not isinstance(
        read, Prior | Mapping
    ):
        return design, read
    if not design.recipe.terms:
        return design, _without_terms(read, design)
    terms = _present(design)
    by_term: dict[str, Prior] = {}
    by_column: dict[Key, Prior] = {}
    if isinstance(read, GaussianProcess):
        by_term = {t.name: read for t in terms if t.name in design.recipe.processes}
    elif isinstance(read, Prior) and read.of_terms:
        by_term = {t.name: read for t in terms}
    elif isinstance(read, Mapping):
        for key, prior in read.items():
            term = _term_called(key, terms)
            if term is None:
                by_column[key] = prior
            else:
                _refuse_scale(term, prior, design)
                by_term[term.name] = prior
    named_columns = {
        c for key in by_column for c in (key if isinstance(key, tuple) else (key,))
    }
    for term in terms:
        if term.name in design.recipe.grouped:
            _refuse_part(term, by_column)
        if not named_columns.intersection(term.columns):
            by_term.setdefault(term.name, _default_prior(term, design))
    design = with_process_bases(design, by_term)
    terms = _present(design)
    if isinstance(read, Prior) and not isinstance(read, GaussianProcess | Flat):
        taken = {c for t in terms for c in t.columns}
        remaining = [c for c in design.columns if c not in taken]
        by_column = dict(_by_predictor(read, design, remaining))
    blocks: dict[Key, Prior] = {
        block: by_term.get(t.name, DEFAULT)
        for t in terms
        for block in t.blocks
        if not named_columns.intersection(block)
    }
    return design, {**by_column, **blocks}


def with_prior_note(
    design: Design, spec: PriorLike, bound: Prior | Mapping[Key, Prior]
) -> Design:
    """Return the design with a note if no column uses a prior for all columns, and without a note on an earlier prior."""
    start = "no column takes the prior "
    notes = [note for note in design.notes if not note.startswith(start)]
    prior = read_prior(spec)
    if isinstance(prior, Prior) and not isinstance(prior, Flat):
        if isinstance(bound, Mapping):
            is_used = any(own is prior for own in bound.values())
        else:
            is_used = prior.whole or not all(map(is_intercept, design.columns))
        if not is_used:
            notes.append(
                f"{start}{describe_prior(prior)}: an intercept and terms with a scale of their own take one by name, such as "
                "prior={'Intercept': ...}"
            )
    return replace(design, notes=tuple(notes))


def _without_terms(
    read: Prior | Mapping[Key, Prior], design: Design
) -> Prior | Mapping[Key, Prior]:
    """Return the priors of a design without smooth functions, processes and effects by group."""
    if isinstance(read, Mapping) or design.owner is None:
        return read
    return _by_predictor(read, design, design.columns)


def _by_predictor(
    prior: Prior, design: Design, columns: Sequence[str]
) -> Mapping[Key, Prior]:
    """Return a prior for the columns of each linear predictor, without their intercepts: each has its own scales."""
    owner = design.owner
    groups: dict[int, list[str]] = {}
    for j, column in enumerate(design.columns):
        if column in columns and not is_intercept(column):
            groups.setdefault(0 if owner is None else int(owner[j]), []).append(column)
    return {tuple(group): prior for group in groups.values()}


def _present(design: Design) -> list[BasisTerm]:
    columns = set(design.columns)
    return [t for t in design.recipe.terms if columns.issuperset(t.columns)]


def _refuse_scale(term: BasisTerm, prior: Any, design: Design) -> None:
    """Raise DataError if effects or columns get a prior of a positive number or of correlations."""
    name = type(prior).__name__
    if isinstance(prior, LKJ):
        raise DataError(
            f"LKJ is the prior of correlations: write pr.Covariance(cor=pr.LKJ(...)) for {term.name}"
        )
    if not isinstance(prior, AuxPrior):
        return
    scale = f"pr.priors.{name}(...)"
    written = f"pr.Normal({scale})"
    if term.name in design.recipe.grouped:
        written = f"pr.Covariance(sd={scale})"
    raise DataError(
        f"{name} is the prior of a positive number: write {written} for {term.name}, whose scale it is"
    )


def _refuse_part(term: BasisTerm, priors: Mapping[Key, Prior]) -> None:
    """Raise DataError for a prior of only some of the effects that vary by a group."""
    term_columns = set(term.columns)
    for key in priors:
        key_columns = set(key if isinstance(key, tuple) else (key,))
        shared = key_columns & term_columns
        if shared and key_columns != term_columns:
            raise DataError(
                f"a prior was given for {min(shared)!r}, of some columns of {term.name}: its groups share one, under the key {term.name!r}"
            )


def _default_prior(term: BasisTerm, design: Design) -> Prior:
    """Return default priors: for a process without a stated length all hyperparameters are unknown, for other terms the scale."""
    if term.name in design.recipe.grouped:
        return Covariance()
    process = design.recipe.processes.get(term.name)
    if process is None or process.length_known:
        return DEFAULT
    return GaussianProcess()


def flat_processes(design: Design, joint: JointPrior) -> tuple[ProcessTerm, ...]:
    """Return the Gaussian processes with a flat prior of their columns."""
    flat = set(np.array(design.columns)[~joint.informative].tolist())
    return tuple(
        term
        for term in design.recipe.processes.values()
        if flat.issuperset(term.columns)
    )


def interpolation(design: Design, joint: JointPrior) -> str | None:
    """Return a sentence if processes under flat priors have so many columns that fewer than two rows are left over; else None."""
    if not design.recipe.processes:
        return None
    flat = flat_processes(design, joint)
    q = sum(len(term.columns) for term in flat)
    if not flat or q < design.count - 1:
        return None
    keys = " and ".join(term.key for term in flat)
    return f"{keys}: under a flat prior {'its' if len(flat) == 1 else 'their'} {q} columns interpolate the {design.count} rows"


def _term_called(key: Key, terms: list[BasisTerm]) -> BasisTerm | None:
    if not isinstance(key, str):
        return None
    if "|" in key and (bar := read_bar_term(key)) is not None:
        return next(
            (
                t
                for t in terms
                if (term_bar := read_bar_term(t.name)) is not None
                and term_bar.same(bar)
            ),
            None,
        )
    exact = [t for t in terms if same_term(key, t.name)]
    matches = exact or [t for t in terms if same_term(key, t.short)]
    if len(matches) > 1:
        raise DataError(
            f"a prior was given for {key!r}, which may be {' or '.join(t.name for t in matches)}: write the term with its options"
        )
    return matches[0] if matches else None


def plain_name(text: str) -> str:
    """Return a name without slashes, which separate the groups of a tree and of a file."""
    return text.replace("/", "|")


def hyper_names(prior: JointPrior, design: Design) -> dict[int, dict[str, str]]:
    """Return the names of the hyperparameters of each block: `tau`, or `tau[x]` if several blocks have hyperparameters, where x
    is the smooth function or the block's columns. With several linear predictors the name of the predictor is added."""
    blocks = {
        i: b
        for i, b in enumerate(prior.blocks)
        if isinstance(b.prior, HierarchicalPrior)
    }
    terms = {label for t in design.recipe.terms for label in t.labels}
    several = len({b.columns for b in blocks.values()}) > 1
    names = {}
    for i, b in blocks.items():
        columns = design.describe_columns(b.columns)
        suffix = ""
        if columns in terms:
            suffix = f"[{columns}]"
        elif several:
            ends = dict.fromkeys((b.columns[0], b.columns[-1]))
            suffix = f"[{'..'.join(design.columns[j] for j in ends)}]"
        outcome = "" if b.predictor is None else f"[{b.outcome}]"
        this: Any = b.prior
        labels = this.hyper_labels
        names[i] = {
            k: plain_name(labels.get(k, f"{k}{suffix}") + outcome) for k in this.hyper
        }
    return names


def hyper_at(
    prior: JointPrior, design: Design, i: int, values: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the hyperparameters of block i by the names of the prior, from the names in draws and reports."""
    this: Any = prior.blocks[i].prior
    return dict(
        this.internal(
            {k: values[name] for k, name in hyper_names(prior, design)[i].items()}
        )
    )


def unit_prior(block: BlockPrior) -> Prior:
    """Return the prior of a block given its hyperparameters, at a spread of 1."""
    if isinstance(block.prior, HierarchicalPrior):
        return block.prior.base
    return block.prior
