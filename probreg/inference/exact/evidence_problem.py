"""Maximisation of the evidence of a model over its unknown hyperparameters: the
surface, and the model at its maximum."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import cached_property, partial
from itertools import compress
from operator import attrgetter
from typing import Any

import numpy as np

from probreg.data.terms.process import ProcessTerm
from probreg.errors import DataError, Incompatible, NotConverged
from probreg.inference.base import Array
from probreg.inference.exact.arrow_layout import require_flat_rank, require_memory
from probreg.inference.exact.gaussian_surface import GaussianSurface, QuadratureSurface
from probreg.inference.exact.laplace_surface import LaplaceSurface
from probreg.inference.exact.latent_groups import (
    EvidenceSurface,
    LatentGroup,
    LikelihoodCriterion,
    NoMode,
    as_groups,
)
from probreg.inference.exact.process_surface import ProcessSurface, RebasedSurface
from probreg.inference.exact.scale_search import (
    HELD,
    EvidenceMaximum,
    make_last_step,
    maximise_log_scales,
)
from probreg.inference.modes.closed_form import (
    PriorRows,
    posterior_given_sigma,
    require_full_rank,
)
from probreg.inference.modes.existence import find_separation, separation_by_block
from probreg.inference.modes.newton import fixed_coefficients
from probreg.inference.modes.separation import Separation, separation, weighted_rows
from probreg.inference.status import (
    SCALES_AS_KNOWN,
    Note,
    Status,
    Topic,
    important_note,
    routine_note,
)
from probreg.inference.varying import FoundScales, number_of_scales
from probreg.kernels import KernelBasis
from probreg.kernels.anchored import AnchoredBasis, RowValues
from probreg.likelihoods import MayDiverge, SmoothLikelihood
from probreg.linalg import one_blas_thread
from probreg.model.model import Model
from probreg.model.off_span import variance_left_at_rows
from probreg.model.term_priors import LARGEST_SINE_ERROR, bound_terms, hyper_names
from probreg.priors import (
    AuxPrior,
    BlockPrior,
    Flat,
    LatentPrior,
    Normal,
    Prior,
    ScaleMixture,
    VaryingEffects,
)
from probreg.priors.gaussian_process import ProcessPrior, UnknownLength, is_length
from probreg.priors.joint import Key, mapping_of

_FAR_UP = 4.0  # a log: a scale 50 times its start


def with_values(model: Model) -> Model:
    """Return the model with function values at the distinct rows as coefficients of
    exact processes of unknown length.

    These columns do not depend on the hyperparameters. Returns the model itself if it
    has no such process.
    """
    # one by one, because a new basis changes the places of later columns
    while unknown_lengths := [
        (b.columns, b.prior.basis)
        for b in model.joint.blocks
        if isinstance(b.prior, UnknownLength)
        and not isinstance(b.prior.basis, RowValues)
    ]:
        (columns, basis), *_ = unknown_lengths
        term = model.design.process_of(columns)
        assert term is not None
        assert isinstance(basis, AnchoredBasis)
        basis_new = RowValues(
            basis.kernel, basis.kind, basis.width, 0.0, True, basis.anchors, basis.rows
        )
        assert isinstance(model.prior, Mapping)  # by term
        model = _with_basis(model, term, basis_new, model.prior)
    return model


def _with_basis(
    model: Model, term: ProcessTerm, basis: KernelBasis, priors: Mapping[Key, Prior]
) -> Model:
    """Return the model with another basis of a process; the new columns keep the
    process's prior from `priors`."""
    design = model.design.with_basis(term.key, basis, length_found=True)
    new = design.recipe.processes[term.key].columns
    moved = {new if key == term.columns else key: p for key, p in priors.items()}
    return replace(model, design=design, prior=moved)


class EvidenceProblem:
    """A model with unknown scales, and the map from their values to a model.

    Parameters
    ----------
    model : Model
        The model.
    per_column : bool
        Whether each column has its own scale.
    method : str
        The name of the method in error messages.
    criterion : {"REML", "ML"}
        Whether flat columns are integrated.
    points : int
        Points of quadrature in each group.

    Attributes
    ----------
    exact : bool
        Whether the likelihood is Gaussian.
    groups : LatentGroups
        All informative groups of a Gaussian model, else the groups of unknown scale.
    unknown : list of LatentGroup
        The groups of unknown scale.
    outer : tuple of str
        Nuisance parameters that are coordinates of the surface after the
        hyperparameters; others are integrated with the coefficients.
    moving : list of tuple
        The groups of processes with unknown hyperparameters in their columns.
    jumps : bool
        Whether the evidence is not continuous.
    by_groups : bool
        Whether columns of effects are eliminated by group, from rows in memory or their
        moments by group.
    """

    def __init__(
        self,
        model: Model,
        per_column: bool = False,
        method: str = "evidence",
        criterion: LikelihoodCriterion = "REML",
        points: int = 1,
    ) -> None:
        self.model, self.per_column, self.method = model, per_column, method
        self.criterion, self.points = criterion, points
        assert isinstance(model.likelihood, SmoothLikelihood)  # in `scales_obstacle`
        self.likelihood = model.likelihood
        self.exact = self.likelihood.least_squares
        self.jumps = self.likelihood.curvature_jumps
        blocks = list(model.joint.blocks)
        left = dict[int, float]()
        if self.exact:
            left = variance_left_at_rows(model)
        else:
            # with the other priors of columns with unknown hyperparameters in one linear predictor
            columns = {b.columns for b in blocks if isinstance(b.prior, LatentPrior)}
            blocks = [
                b if b.columns in columns else replace(b, prior=Flat()) for b in blocks
            ]
        self.groups = as_groups(blocks, per_column, left)
        self.unknown = [g for g in self.groups.groups if g.prior is not None]
        self.moving = [
            (g, g.prior) for g in self.unknown if isinstance(g.prior, UnknownLength)
        ]
        self.outer = model.unknown if self.exact or method != "integrate" else ()
        design = model.design
        self.by_groups = not design.inputs.keys().isdisjoint(design.recipe.grouped)
        if not design.n:
            self.by_groups = (
                self.exact and not self.moving and design.moments_by_group is not None
            )

    @property
    def ratios_found(self) -> int:
        """The number of ratios of prior scales, to the noise or to one another, that
        the rows determine.

        0 if the coefficients do not depend on the estimates, for example if all priors
        are in units of the noise; 1 if only one factor of the whole prior is estimated.
        """
        blocks = [b for b in self.model.joint.blocks if not isinstance(b.prior, Flat)]
        n_found = len(self.groups.priors)
        if not n_found:
            units = {b.prior.sigma_units for b in blocks}
            return 0 if units == {True} else len(units)
        return n_found if len(blocks) == 1 else max(n_found, 2)

    @cached_property
    def surface(self) -> EvidenceSurface:
        if (
            self.moving
            and self.exact
            and all(p.basis.kind == "exact" for _, p in self.moving)
        ):
            return ProcessSurface(self.model, self.groups, self.criterion)
        if self.moving:
            return RebasedSurface(
                self.model, self.groups, self._rebased_surface, self.outer
            )
        if self.exact:
            return GaussianSurface(
                self.model, self.groups, self.criterion, by_group=self.by_groups
            )
        if self.by_groups and self.points > 1:
            return QuadratureSurface(self.model, self.groups, self.points)
        return LaplaceSurface(
            self.model,
            self.groups,
            self.criterion,
            self.outer,
            by_group=self.by_groups,
        )

    def require_solvable(self) -> None:
        """Raise an error if the matrices are too large, or the columns collinear."""
        if self.moving:
            return
        if self.by_groups:
            surface = self.surface
            assert isinstance(surface, GaussianSurface | LaplaceSurface)
            require_memory(surface.layout, self.method)
            require_flat_rank(surface.layout, self.method)
        elif self.model.design.moments.rank.dropped:
            # otherwise every column has a proper prior
            start = PriorRows.of(self.starting_model.joint)
            given = posterior_given_sigma(self.model.design.moments, start, 1.0)
            require_full_rank(given, self.model, self.method)

    def _with_kernel(
        self,
        model: Model,
        group: LatentGroup,
        values: Mapping[str, float],
        after: Prior,
        chosen: Mapping[str, float] | None,
    ) -> Model:
        """Return a model with the columns of one process rebuilt at the hyperparameters
        `values`, with the prior `after`.

        Anchors are selected at the hyperparameters `chosen`, by default at `values`; a
        basis with every row as an anchor selects none.
        """
        before = self.model.design
        term = before.process_of(group.columns)
        prior = group.prior
        assert term is not None  # a ProcessPrior has a term
        assert isinstance(prior, ProcessPrior)
        if prior.basis.kind == "exact":
            chosen = None
        try:
            basis = prior.basis_at(
                prior.kernel_at(**(chosen or values)), before.inputs.get(term.key)
            )
            if chosen is not None:
                basis = basis.with_kernel(prior.kernel_at(**values))
        except DataError as error:
            raise Incompatible(
                f"evidence: it increases until the process of {term.key} has no smooth curve at these rows ({error}). Fix the length, or give it "
                "a prior such as length=LogNormal(0.5, location=1.0)"
            ) from None
        stated = [b for b in model.joint.blocks if b.stated]
        priors = mapping_of(stated, model.design.columns)
        return _with_basis(model, term, basis, {**priors, term.columns: after})

    def _rebased_surface(self, values: Array, chosen: Array) -> EvidenceSurface:
        """Return the surface over the other hyperparameters, given `values` of the hyperparameters in
        columns; anchors are selected at `chosen`."""
        model = self.model
        ends = np.cumsum([len(prior.in_columns) for _, prior in self.moving])
        parts = np.split(np.stack([values, chosen]), ends, axis=1)
        for (g, prior), part in zip(self.moving, parts):
            here, anchors_at = (
                dict(zip(prior.in_columns, row)) for row in part.tolist()
            )
            plain: Prior
            if isinstance(prior.amplitude, AuxPrior):
                plain = ScaleMixture(Normal(1.0), prior.amplitude, shared=True)
            else:
                plain = Normal(prior.amplitude)
            model = self._with_kernel(model, g, here, plain, anchors_at)
        return EvidenceProblem(
            model, self.per_column, self.method, self.criterion
        ).surface

    @cached_property
    def starts(self) -> list[Array]:
        """Starting points of the search for the maximum."""
        return self.surface.starts()

    @cached_property
    def separation(self) -> Separation | None:
        """The separation of the response by flat columns, for any scales; None if
        there is none, or if columns change with the hyperparameters.

        An exact check decides it if the coefficients at the start look like divergence.
        """
        model = self.model
        if self.exact or self.moving or not isinstance(self.likelihood, MayDiverge):
            return None
        with np.errstate(over="ignore", invalid="ignore"):  # diverging coefficients
            try:
                beta = self.surface.coefficients(self.starts[0])
            except NoMode:
                return separation_by_block(model)[0] or None
            return find_separation(model, beta, Status.CONVERGED, 0)[0]

    @cached_property
    def names(self) -> list[str]:
        """The hyperparameters in the order of theta."""
        labels = hyper_names(self.model.joint, self.model.design)
        return [labels[g.block][name] for g in self.unknown for name in g.hyper]

    def _search(self, max_steps: int, **options: Any) -> Callable[..., EvidenceMaximum]:
        """Return a search over theta from a start, with the `options` of `maximise_log_scales`."""
        widths = np.array([g.width(self.model.shape[1]) for g in self.groups.groups])
        sizes = self.groups.sizes * widths[self.groups.group_of]
        # a correlation, or the length of a vanished part, may be unidentified; a small
        # scale of effects may grow
        ridge = 1e-3 * np.array(
            [
                float(not g.prior.scalar and not (g.prior.hyper_labels and is_scale))
                for g in self.unknown
                if g.prior is not None
                for is_scale in g.prior.scales
            ]
        )
        limits = [name in self.likelihood.at_zero for name in self.outer]
        return partial(
            maximise_log_scales,
            self.surface,
            sizes=sizes,
            ridge=ridge,
            tol=self.surface.tol,
            max_steps=max_steps,
            secant=self.surface.secant,
            limits=limits,
            jumps=self.jumps,
            **options,
        )

    def maximise_given(
        self, k: int, value: float, starts: Sequence[Array]
    ) -> tuple[Array, float]:
        """Return the best theta with coordinate k fixed at a value from these starts, and the surface there."""
        max_steps = 100  # of a search with one fixed coordinate
        search = self._search(max_steps, fixed=k)
        points = np.array(starts)
        points[:, k] = value
        top = max(map(search, points), key=attrgetter("at.value"))
        # a later search starts at a larger value of a vanished scale
        theta = top.theta + np.log(HELD) * top.vanished
        return theta, top.at.value

    def maximise(self, max_steps: int) -> EvidenceMaximum:
        """Return the maximum of the evidence; raise an error if there is none."""
        rounds = 5  # searches, each with anchors chosen at the end of the previous one
        tie = 1e-7  # tolerance of the evidence, within which the maximum with a scale of zero is preferred
        settled_change = 1e-4  # tolerance of the logs between two of them
        surface = self.surface
        diverges = isinstance(self.likelihood, MayDiverge)
        search = self._search(max_steps)
        with self._blas_threads():
            starts = self.starts
            if diverges:
                search, tops = self._search_below(starts, max_steps)
            else:
                tops = [search(start) for start in starts]
            top = max(tops, key=attrgetter("at.value"))
            tops = [
                search(start)
                for start in surface.beyond(top.theta, top.vanished, starts[0])
            ]
        d = len(self.groups.priors)
        top = max(
            [top, *tops], key=lambda t: t.at.value + tie * bool(t.vanished[:d].any())
        )
        for _ in range(rounds):
            if not surface.choose_at(top.theta):
                break
            repeated = search(top.theta, vanished=top.vanished)
            settled = float(np.abs(repeated.theta - top.theta).max()) < settled_change
            top = repeated._replace(ended=repeated.ended or (settled and top.ended))
            if settled:
                break
        if diverges and (rising := self._diverging_scales(top, starts[0])):
            # the maximum with the diverging scales fixed at a large value
            theta = top.theta.copy()
            vanished = top.vanished.copy()
            theta[list(rising)] = starts[0][list(rising)] + _FAR_UP
            vanished[list(rising)] = False
            return top._replace(
                theta=theta,
                at=surface(theta),
                vanished=vanished,
                ended=True,
                rising=rising,
            )
        self._require_maximum(top, max_steps)
        if not top.ended:
            return top
        with self._blas_threads():
            return make_last_step(surface, top)

    def _blas_threads(self) -> AbstractContextManager[None]:
        max_serial = 400  # coordinates above which a second BLAS thread is faster
        return nullcontext() if len(self.groups.of) > max_serial else one_blas_thread()

    def _search_below(
        self, starts: list[Array], max_steps: int
    ) -> tuple[Callable[..., EvidenceMaximum], list[EvidenceMaximum]]:
        """Search from every start within limits of the scales, because scales beyond may diverge, and
        farther only if no search ends; return the last search and its ends."""
        d = len(self.groups.scaling)
        upper = np.where(self.groups.scaling, starts[0][:d] + 2.0 * _FAR_UP, np.inf)

        def is_decided(top: EvidenceMaximum) -> bool:
            return top.ended or bool(self._diverging_scales(top, starts[0]))

        search = self._search(max_steps, upper=upper)
        tops = [search(start) for start in starts]
        if not any(map(is_decided, tops)):
            # the evidence does not increase with the scale that became large
            ends = [t.theta for t in tops]
            for theta in ends:
                theta[:d] = np.where(theta[:d] > upper, starts[0][:d], theta[:d])
            tops = [search(theta) for theta in ends]
        if not any(map(is_decided, tops)):
            search = self._search(max_steps)
            tops = [search(start) for start in starts]
        return search, tops

    def _require_maximum(self, top: EvidenceMaximum, max_steps: int) -> None:
        """Raise an error if the noise goes to zero, or the search did not converge."""
        smallest = 1e-7  # relative to the spread of y: the noise variance is comparable to the rounding of the columns
        if top.ended:
            smallest = 1e-9
        name = self.likelihood.noise_scale
        if name in self.outer and (top.ended or top.steps < max_steps):
            # Near sigma = 0 f increases without bound, or is flat:
            # -d^2 f / d (log sigma)^2 is negligible compared with 2 n. Rounding ends
            # the search on its way down.
            k = len(self.groups.priors) + self.outer.index(name)
            noiseless = (
                top.theta[k] < np.log(smallest * self.surface.response_scale)
                or -top.at.hessian[k, k] < 1e-6 * self.model.design.total
            )
        else:
            noiseless = False
        if noiseless:
            if self.model.noise_prior.proper:
                give = ""
            else:
                give = f", or give it a proper prior, such as aux={{{name!r}: HalfNormal(1.0)}}"
            reason = f"the evidence increases as {name} goes to 0, because the columns can reproduce the response"
            raise Incompatible(f"{self.method}: {reason}; fix {name}{give}")
        if top.ended or (top.steps < max_steps and self._is_large(top).any()):
            return
        # a start may end on a plateau below the best maximum, such as at lengths so
        # small that rows are independent
        if top.steps < max_steps:
            raise NotConverged(
                f"evidence: the search for the scales stopped {top.decrement:.2g} standard errors away from the maximum, because no step "
                f"raises the evidence beyond rounding. {self._remedy_of_stop()}"
            )
        if name in self.outer:
            hold = f"fix {name}"
        else:
            hold = "give the scales priors"
        raise Incompatible(
            f"evidence: no maximum over the scales within {max_steps} steps; raise max_steps, or {hold}"
        )

    def _is_large(self, top: EvidenceMaximum) -> Array:
        """Return whether each length, or other hyperparameter of columns, is so large that the evidence hardly depends on it, (d,)."""
        d = len(self.groups.scaling)
        far = top.theta[:d] > self.starts[0][:d] + _FAR_UP
        return far & ~self.groups.scaling

    def _remedy_of_stop(self) -> str:
        """Return the remedy for a search that stopped before the maximum."""
        if self.likelihood.concave:
            return "Rescale columns and response to similar units, or give the scales priors"
        return (
            f"With {self.likelihood.named} likelihood a random effect may have two posterior modes, and Laplace's method fails where one "
            "vanishes. Leave out random slopes, or use method='nuts' with priors for the scales"
        )

    def _diverging_scales(self, top: EvidenceMaximum, start: Array) -> tuple[int, ...]:
        """Return scales far above their start for which the evidence still increases:
        their function separates the classes."""
        # increase of the evidence between this scale and the end of the search
        rise = 0.5
        # at the limit of double precision an increasing scale may look like a vanished one
        distant = np.flatnonzero(self.groups.scaling)
        distant = distant[top.theta[distant] > start[distant] + _FAR_UP]

        def value(theta: Array) -> float:
            try:
                return self.surface(theta).value
            except (
                Incompatible,
                NotConverged,
                np.linalg.LinAlgError,
            ):  # too far out for double precision
                return -np.inf

        def rises(j: int) -> bool:
            # compare points on the path of the search, and beyond its end
            e = np.arange(len(start)) == j
            low, end = (
                value(t)
                for t in (np.where(e, start + _FAR_UP, top.theta), top.theta + 3.0 * e)
            )
            return max(
                top.at.value if np.isfinite(top.at.value) else -np.inf, end
            ) > low + rise and (not top.ended or end > top.at.value)

        return tuple(int(j) for j in distant if rises(int(j)))

    def found(self, top: EvidenceMaximum) -> FoundScales | None:
        """Return the estimates at a maximum for reports; None if each column has its own scale."""
        if self.per_column or len(self.groups.priors) + len(
            self.outer
        ) != number_of_scales(self.model):
            return None
        hessian_of = partial(np.array, top.at.hessian)
        if self.surface.secant:
            hessian_of = partial(
                _hessian_from_rows,
                self.model,
                self.criterion,
                self.points,
                top.theta,
                top.at.hessian,
            )
        plain = not self._informative_priors(top)
        return FoundScales(
            self.model,
            self.criterion,
            top.theta,
            hessian_of,
            top.at.evidence,
            top.vanished,
            plain,
            self.points,
        )

    def model_at(self, theta: Array, chosen: Array | None = None) -> Model:
        """Return the model at theta; the anchors of its processes are selected at `chosen`, by default theta."""
        d = len(self.groups.priors)
        outer_values = dict(zip(self.outer, np.exp(theta[d:]).tolist()))
        design, prior = bound_terms(self.prior_at(np.exp(theta[:d])), self.model.design)
        model = replace(
            self.model,
            design=design,
            prior=prior,
            aux={**self.model.aux, **outer_values},
            scales_compared=0,
        )
        for g, place in self.groups.with_hyper:
            # otherwise each predictor has its own scales of sines
            if isinstance(g.prior, ProcessPrior) and g.predictor is None:
                values = g.values_at(theta[place])
                anchors_at = None if chosen is None else g.values_at(chosen[place])
                plain = Normal(g.prior.size_at(values))
                model = self._with_kernel(model, g, values, plain, anchors_at)
        return model

    @cached_property
    def starting_model(self) -> Model:
        """A model of the same kind as the final one."""
        model = self.model.with_prior(self.prior_at(np.exp(self.groups.starts()[0])))
        if self.exact:
            return model.with_aux(**{model.noise_scale: 1.0})
        return model

    def prior_at(self, hyper: Array) -> Prior | Mapping[Key, Prior]:
        """Return the plain priors at these hyperparameters (d,), by block if the model has them by block."""
        blocks = list[BlockPrior]()
        for i, b in enumerate(self.model.joint.blocks):
            if isinstance(b.prior, Flat) and not b.stated:
                continue
            prior: Prior = b.prior
            if isinstance(prior, LatentPrior):
                own_hyper = hyper[
                    [self.unknown[k].block == i for k in self.groups.group_of]
                ]
                values = dict(zip(prior.hyper, own_hyper.tolist()))
                if self.per_column and isinstance(prior, ScaleMixture):
                    prior = prior.base.times(own_hyper)  # type: ignore[arg-type]
                elif isinstance(prior, UnknownLength):
                    # for the columns of `_with_kernel`
                    prior = Normal(prior.size_at(values))
                else:
                    prior = prior.given(**values)
            if isinstance(self.model.prior, Prior) and b.predictor is None:
                return prior
            blocks.append(replace(b, prior=prior))
        return mapping_of(blocks, self.model.design.columns)

    def _value_notes(self, top: EvidenceMaximum) -> list[Note]:
        """Return notes on the criterion of the search, and its value."""
        if self.points > 1:
            name = f"the likelihood by {self.points} points of adaptive Gauss-Hermite quadrature"
        elif self.criterion == "ML":
            name = (
                "the likelihood log p(y | scales, flat coefficients at their maximum)"
            )
        elif any(map(attrgetter("left"), self.groups.groups)):
            name = "a lower bound of log p(y | scales), minus tau^2 trace(K - Q) / (2 sigma^2)"
        elif self.exact:
            name = "log p(y | scales)"
        else:
            name = "the Laplace approximation of log p(y | scales)"
        value = f"evidence: {name} = {top.at.evidence:.6g}"
        priors = self._informative_priors(top)
        if priors:
            value += f", which has a maximum of {top.at.value:.6g} together with the log density of the logs of {' and '.join(priors)}"
        else:
            value += ", its maximum over the scales"
        # for grouped effects the search started from several points, and from each boundary
        if len(self.groups.priors) > 1 and not self.model.design.recipe.grouped:
            value += " (a local maximum)"
        if self.criterion == "REML" and not self.model.joint.informative.all():
            value += "; flat columns count with density 1"
        notes = [routine_note(Topic.SCALES, value)]
        if self.jumps:
            notes.append(
                important_note(
                    Topic.SCALES,
                    "a local maximum: {name} jumps at scales where a residual passes the threshold of {likelihood} likelihood, and "
                    "may be some tenths higher at other scales",
                    name=name,
                    likelihood=self.likelihood.named,
                )
            )
        return notes

    @property
    def has_effects_alone(self) -> bool:
        """Whether all unknown hyperparameters belong to effects that vary by group."""
        return all(isinstance(g.prior, VaryingEffects) for g in self.unknown)

    def notes(self, top: EvidenceMaximum, joint: bool = False) -> tuple[Note, ...]:
        """Return notes on the maximum; `joint` standard errors include the uncertainty of the scales."""
        scales = list[str]()
        pruned = list[str]()
        others = list[Note]()
        for g, place in self.groups.with_hyper[: len(self.unknown)]:
            vanished = top.vanished[place]
            values = g.values_at(top.theta[place])
            if isinstance(g.prior, VaryingEffects):
                zero = [name for name, is_zero in zip(g.hyper, vanished) if is_zero]
                others += [
                    important_note(Topic.SINGULAR, "singular fit: {reason}", reason=r)
                    for r in self._singular_reasons(g, g.prior, values, zero)
                ]
            elif vanished.any():
                pruned.append(self._smooth_prefix(g) + self.named(g))
            elif isinstance(g.prior, ProcessPrior):
                texts = ", ".join(f"{name} {v:.6g}" for name, v in values.items())
                text = f"{self.named(g)}: {texts} at the maximum"
                large = list(compress(values, self._is_large(top)[place]))
                if large:
                    text = f"{self.named(g)}: {texts}; larger values of {' and '.join(large)} hardly change the evidence"
                if any(map(is_length, large)):
                    text += ", because the process is close to linear in this input, which could be a column in place of the process"
                others.append(important_note(Topic.SCALES, text))
                error = g.prior.error_at(values)
                if error > LARGEST_SINE_ERROR:
                    lengths = " and ".join(name for name in g.hyper if is_length(name))
                    text = (
                        f"{self.named(g)}: its sine basis does not cover the estimated {lengths}, with an error of {error:.0%} of k(x, x): "
                        "give a prior with quantiles 0.01 to 0.99 that include it"
                    )
                    others.append(important_note(Topic.SCALES, text))
            else:
                text = ", ".join(f"{v:.6g}" for v in values.values())
                scales.append(f"{self.named(g)} {text}")
        notes = self._value_notes(top)
        if scales:
            notes.append(
                important_note(
                    Topic.SCALES,
                    "prior scale (times the stated scale) of {scales}",
                    scales="; ".join(scales),
                )
            )
        notes += others
        if pruned:
            notes.append(
                important_note(
                    Topic.SINGULAR,
                    "pruned, because the evidence increases as their scale goes to 0: {terms}; their coefficients are fixed at 0 "
                    "(a singular fit)",
                    terms=", ".join(pruned),
                )
            )
        if joint:
            return tuple(notes)
        if self.has_effects_alone:
            return (*notes, SCALES_AS_KNOWN)
        intervals_note = important_note(
            Topic.SCALES,
            "intervals treat the scales estimated by evidence as known; integrate and nuts include their uncertainty",
        )
        return (*notes, intervals_note)

    def _singular_reasons(
        self,
        group: LatentGroup,
        prior: VaryingEffects,
        values: Mapping[str, float],
        zero: Sequence[str],
    ) -> list[str]:
        """Return why the covariance of effects by group is singular, with these scales of zero."""
        reasons = [
            f"the variance of {name[3:-1]} | {prior.group} is 0" for name in zero
        ]
        remaining = [
            k for k, name in enumerate(prior.effects) if f"sd[{name}]" not in zero
        ]
        reasons += prior.collinear(values, remaining)
        outcome = self._outcome(group)
        return [f"{reason} {outcome}".rstrip() for reason in reasons]

    def _informative_priors(self, top: EvidenceMaximum) -> list[str]:
        """Return the parameters with a prior that is not flat in its coordinate, which changes the maximum."""
        names = [*self.names, *self.outer]
        return [
            name
            for name, prior, log in zip(names, self.surface.priors, top.theta)
            if any(prior.slopes(float(np.exp(log))))
        ]

    def _smooth_prefix(self, group: LatentGroup) -> str:
        """Return a prefix for the scale of a smooth function if its straight lines are
        other columns; a cyclic one has none."""
        columns = {self.model.design.columns[j] for j in group.columns}
        terms = [term for term in self.model.design.recipe.terms if term.flat]
        return "the bends of " * any(columns < set(term.columns) for term in terms)

    def named(self, group: LatentGroup) -> str:
        """Its columns, and its linear predictor if there are several."""
        return self.model.design.describe_columns(group.columns) + self._outcome(group)

    def _outcome(self, group: LatentGroup) -> str:
        if group.predictor is None:
            return ""
        return f"[{self.model.joint.blocks[group.block].outcome}]"


def limit_of_separation(model: Model, found: Separation) -> Model:
    """Return the model of the limit of a separated likelihood.

    The separated rows reach their limit for any values of the other coefficients, so they are
    left out. One coefficient of each direction along which the limit is constant has a
    proper prior, which is then independent of the others and does not change their
    evidence.
    """
    assert found.separated_rows is not None
    model = model.with_prior_frozen
    design = weighted_rows(model)
    rows = np.delete(np.arange(design.n), found.separated_rows)
    informative = model.joint.informative
    stated = [b for b in model.joint.blocks if informative[list(b.columns)].any()]
    fixed = np.flatnonzero(fixed_coefficients(model, found, None).any(1))
    pivots = tuple(design.columns[j] for j in fixed)
    prior = {**mapping_of(stated, design.columns), pivots: Normal(1.0)}
    return replace(model, design=design.take(rows), prior=prior, scales_compared=0)


def problem_of(scales: FoundScales) -> EvidenceProblem:
    """Return the problem with a maximum at these scales."""
    model = scales.stated
    if scales.separated:
        model = limit_of_separation(model, separation(model))
    return EvidenceProblem(
        model,
        criterion=scales.criterion,  # type: ignore[arg-type]
        points=scales.points,
    )


@one_blas_thread()
def _hessian_from_rows(
    model: Model,
    criterion: LikelihoodCriterion,
    points: int,
    theta: Array,
    hessian_near: Array,
) -> Array:
    """Return the Hessian at theta from the rows, so that a fit needs no moments of them."""
    problem = EvidenceProblem(model, criterion=criterion, points=points)
    problem.surface.choose_at(theta)
    return problem.surface.hessian(theta, hessian_near)
