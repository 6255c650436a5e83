"""A model with unknown hyperparameters as a search for the maximum of its evidence: its surface, and the way back to a model."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from probreg.data import Design
from probreg.errors import DataError, Incompatible, NotConverged
from probreg.inference.base import Array
from probreg.inference.exact.arrow_laplace import ArrowLaplaceSurface
from probreg.inference.exact.arrow_quadrature import ArrowQuadratureSurface
from probreg.inference.exact.arrow_surface import ArrowSurface
from probreg.inference.exact.gaussian_surface import (
    GaussianSurface,
    LikelihoodCriterion,
)
from probreg.inference.exact.laplace_surface import LaplaceSurface
from probreg.inference.exact.latent_groups import (
    EvidencePoint,
    EvidenceSurface,
    LatentGroup,
    LatentGroups,
    as_groups,
)
from probreg.inference.exact.process_surface import ProcessSurface
from probreg.inference.exact.profiled_surface import ProfiledSurface
from probreg.inference.exact.rebased_surface import RebasedSurface
from probreg.inference.exact.scale_search import (
    HELD,
    EvidenceMaximum,
    maximise_log_scales,
    with_held,
)
from probreg.inference.notes import (
    SCALES_AS_KNOWN,
    Note,
    Topic,
    important_note,
    routine_note,
)
from probreg.inference.varying import FoundScales, number_of_scales
from probreg.kernels.anchored import AnchoredBasis
from probreg.kernels.row_values import RowValues
from probreg.likelihoods import MayDiverge, SmoothLikelihood
from probreg.model.model import Model
from probreg.model.off_span import variance_left_at_rows
from probreg.model.process_bases import FAR
from probreg.model.pymc_graph import hyper_names
from probreg.model.term_priors import bound_terms
from probreg.numerics.linalg import one_blas_thread
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

_MANY = 400  # coordinates: above, a second thread of BLAS is worth its wait
_FAR_UP = 4.0  # of a log: a scale 50 times that of the start
_RISE = 0.5  # of the evidence, over the scales between there and the end of the search
_STEPS = 100  # of a search with one coordinate held
_ROUNDS = 5  # of searches, with anchors chosen where the last one ended
_STILL = 1e-4  # of the logs between two of them
_CLOSE = 1e-7  # of the evidence: of two maxima so close the one with a scale of zero is the simpler
_NO_NOISE = 1e-9  # of the spread of y
_IN_ROUNDING = 1e-7  # of the spread of y: noise whose variance is next to the rounding of that of the columns


def with_kernel(
    model: Model, before: Design, columns: Sequence[int], prior: ProcessPrior, values: Mapping[str, float], after: Prior,
    chosen: Mapping[str, float] | None = None,
) -> Model:  # fmt: skip
    """The model whose process of these columns of `before` has its function at these hyperparameters, under the prior `after`; its
    anchors are those of the hyperparameters `chosen`, by default the same."""
    term = before.process_of(columns)
    assert term is not None  # a ProcessPrior is bound to one
    try:
        basis = prior.basis_at(
            prior.kernel_at(**(chosen or values)), before.inputs.get(term.key)
        )
        if chosen is not None:
            basis = basis.with_kernel(prior.kernel_at(**values))
    except DataError as error:
        raise Incompatible(
            f"evidence: it rises until the process of {term.key} is no curve at these rows ({error}). State the length, or give it "
            "a prior such as length=LogNormal(0.5, location=1.0)"
        ) from None
    design = model.design.with_basis(term.key, basis, found=True)
    new = design.recipe.processes[term.key].columns
    priors = {
        new if key == term.columns else key: p for key, p in _by_columns(model).items()
    }
    return replace(model, design=design, prior=priors | {new: after})


def with_values(model: Model) -> Model:
    """The model whose exact processes of unknown lengths have their values at the distinct rows as coefficients: columns that these
    hyperparameters do not move; itself where it has none."""
    # one by one: a new basis moves the columns that stand behind it
    while moving := [
        (b.columns, b.prior.basis)
        for b in model.joint.blocks
        if isinstance(b.prior, UnknownLength)
        and not isinstance(b.prior.basis, RowValues)
    ]:
        (columns, basis), *_ = moving
        term = model.design.process_of(columns)
        assert term is not None
        assert isinstance(basis, AnchoredBasis)
        made = RowValues(
            basis.kernel, basis.kind, basis.width, 0.0, True, basis.anchors, basis.rows
        )
        design = model.design.with_basis(term.key, made, found=True)
        new = design.recipe.processes[term.key].columns
        assert isinstance(model.prior, Mapping)  # by term
        stated = {
            new if key == term.columns else key: p for key, p in model.prior.items()
        }
        model = replace(model, design=design, prior=stated)
    return model


def _by_columns(model: Model) -> dict[Key, Prior]:
    """The prior of a model by tuples of columns."""
    return mapping_of((b for b in model.joint.blocks if b.stated), model.design.columns)


@dataclass(frozen=True, eq=False)
class EvidenceProblem:
    """A model with unknown scales, and the way back from their values to a model."""

    model: Model
    per_column: bool
    method: str = "evidence"  # whose errors these are
    criterion: LikelihoodCriterion = "REML"
    points: int = 1  # of quadrature in each group

    @cached_property
    def groups(self) -> LatentGroups:
        """All informative groups of a Gaussian model, else those of unknown scale."""
        blocks = self.model.joint.blocks
        unknown: dict[int, LatentPrior] = {
            i: b.prior for i, b in enumerate(blocks) if isinstance(b.prior, LatentPrior)
        }
        # of columns with unknown hyperparameters in one linear predictor, the others too
        here = {blocks[i].columns for i in unknown}
        kept = (
            blocks
            if self.exact
            else [b if b.columns in here else replace(b, prior=Flat()) for b in blocks]
        )
        return as_groups(
            kept,
            unknown,
            self.per_column,
            variance_left_at_rows(self.model) if self.exact else {},
        )

    @property
    def exact(self) -> bool:
        return self.model.likelihood.least_squares

    @cached_property
    def unknown(self) -> tuple[LatentGroup, ...]:
        return tuple(g for g in self.groups.groups if g.prior is not None)

    @property
    def outer(self) -> tuple[str, ...]:
        """Nuisance parameters that are coordinates of the surface behind the hyperparameters; others are integrated with the
        coefficients."""
        if self.method == "integrate" and not self.exact:
            return ()
        return self.model.unknown

    @property
    def ratios_found(self) -> int:
        """How many ratios of prior scales, to the noise or to one another, a maximum finds on the rows.

        0 where the coefficients do not depend on what is found, a noise in whose units all priors are; 1 where one factor of
        the whole prior is; then the prior is known up to that factor.
        """
        blocks = [b for b in self.model.joint.blocks if not isinstance(b.prior, Flat)]
        found = len(self.groups.priors)
        if not found:
            units = {b.prior.sigma_units for b in blocks}
            return 0 if units == {True} else len(units)
        return found if len(blocks) == 1 else max(found, 2)

    @cached_property
    def moving(self) -> tuple[tuple[LatentGroup, UnknownLength], ...]:
        """The groups of processes whose unknown hyperparameters are in their columns."""
        return tuple(
            (g, g.prior) for g in self.unknown if isinstance(g.prior, UnknownLength)
        )

    @property
    def by_groups(self) -> bool:
        """Columns of effects that vary by a group are eliminated group by group, from rows in memory or their moments by group."""
        design = self.model.design
        if not design.n:
            return (
                self.exact and not self.moving and design.moments_by_group is not None
            )
        return any(map(design.inputs.__contains__, design.recipe.grouped))

    @property
    def effects_alone(self) -> bool:
        """Gaussian noise, and effects by group have all unknown scales: errors of coefficients are conditional, as those of REML."""
        effects = all(
            g.prior is not None and bool(g.prior.hyper_labels) for g in self.unknown
        )
        return self.exact and effects and bool(self.model.design.recipe.grouped)

    @cached_property
    def surface(self) -> EvidenceSurface:
        if (
            self.moving
            and self.exact
            and all(p.basis.kind == "exact" for _, p in self.moving)
        ):
            return ProcessSurface(self.model, self.groups, self.criterion)
        if self.moving:
            return RebasedSurface(self.model, self.groups, self._rebased, self.outer)
        if self.exact and self.by_groups:
            return ArrowSurface(self.model, self.groups, self.criterion)
        if self.exact:
            return GaussianSurface(self.model, self.groups, self.criterion)
        if self.by_groups and self.points > 1:
            return ArrowQuadratureSurface(self.model, self.groups, self.points)
        if self.by_groups:
            return ArrowLaplaceSurface(
                self.model, self.groups, self.criterion, self.outer
            )
        made = ProfiledSurface if self.criterion == "ML" else LaplaceSurface
        return made(self.model, self.groups, self.prior_at, self.outer)

    def _rebased(self, values: Array, chosen: Array) -> EvidenceSurface:
        """The surface over the other hyperparameters where those that are in columns have these values; anchors that are chosen are
        those of the values `chosen`."""
        found = self.model
        at = 0
        for g in self.unknown:
            if isinstance(g.prior, UnknownLength):
                names = [name for name, _ in g.prior.unknown]
                own = slice(at, at + len(names))
                here, there = (
                    dict(zip(names, v[own].tolist())) for v in (values, chosen)
                )
                at += len(names)
                amplitude = g.prior.amplitude
                plain = (
                    ScaleMixture(Normal(1.0), amplitude, shared=True)
                    if isinstance(amplitude, AuxPrior)
                    else Normal(amplitude)
                )
                found = with_kernel(
                    found,
                    self.model.design,
                    g.columns,
                    g.prior,
                    here,
                    plain,
                    None if _has_all_rows(g) else there,
                )
        return EvidenceProblem(
            found, self.per_column, self.method, self.criterion
        ).surface

    @cached_property
    def names(self) -> list[str]:
        """Of the hyperparameters, in the order of theta."""
        found = hyper_names(self.model.joint, self.model.design)
        return [found[g.block][name] for g in self.unknown for name in g.hyper]

    def natural(self, hyper: Array) -> dict[str, Array]:
        """What a user reads at hyperparameters (..., d), in the order of theta, by name."""
        found = hyper_names(self.model.joint, self.model.design)
        out = dict[str, Array]()
        for k, g in enumerate(self.unknown):
            values = dict(
                zip(g.hyper, np.moveaxis(hyper[..., self.groups.group_of == k], -1, 0))
            )
            if g.prior is None:
                read = values
            else:
                read = g.prior.natural(values)
            out |= {found[g.block][name]: read[name] for name in g.hyper}
        return out

    def _search(
        self,
        max_steps: int,
        held: tuple[int, float] | None = None,
        upper: Array | None = None,
    ) -> Callable[[Array], EvidenceMaximum]:
        """A search over theta; with coordinate k held at a value, over the others. It ends above `upper`."""
        width = np.array([g.width(self.model.shape[1]) for g in self.groups.groups])[
            self.groups.group_of
        ]
        if self.exact:
            sizes = self.groups.sizes
        else:
            sizes = self.groups.sizes * width
        # a correlation, or the length of a part that has vanished, may matter to nothing; a scale of effects that is small may grow
        by_group = [
            bool(g.prior and g.prior.hyper_labels)
            for g in self.unknown
            for _ in g.hyper
        ]
        soft = np.array(
            [not g.prior.scalar for g in self.unknown for _ in g.hyper if g.prior],
            dtype=float,
        )
        soft[np.array(by_group, dtype=bool) & self.groups.scaling] = 0.0
        limits = [name in self.model.likelihood.at_zero for name in self.outer]
        surface: Callable[[Array], EvidencePoint] = self.surface
        if held is not None:
            k = held[0]
            d = len(sizes)
            surface = with_held(surface, *held)
            sizes, soft = (np.delete(v, k) if k < d else v for v in (sizes, soft))
            if d <= k < d + len(limits):
                limits = limits[: k - d] + limits[k - d + 1 :]
        return partial(
            maximise_log_scales,
            surface,
            sizes=sizes,
            soft=soft,
            tol=self.surface.tol,
            max_steps=max_steps,
            secant=self.surface.secant,
            limits=limits,
            jumps=isinstance(likelihood := self.model.likelihood, SmoothLikelihood)
            and likelihood.curvature_jumps,
            upper=upper,
        )

    def maximise_given(
        self, k: int, value: float, starts: Sequence[Array]
    ) -> tuple[Array, float]:
        """The best theta with coordinate k at a value from these starts, and the surface there."""
        search = self._search(_STEPS, (k, value))
        tops = [search(np.delete(start, k)) for start in starts]
        top = max(tops, key=lambda t: t.at.value)
        # a later search begins where a scale that vanished can still rise
        theta = top.theta + np.log(HELD) * np.append(top.vanished, top.at_limit)
        return np.insert(theta, k, value), float(top.at.value)

    def maximise(self, max_steps: int) -> EvidenceMaximum:
        surface = self.surface
        with nullcontext() if len(self.groups.of) > _MANY else one_blas_thread():
            starts = surface.starts()
            upper = None
            if isinstance(self.model.likelihood, MayDiverge):
                upper = np.where(
                    self.groups.scaling,
                    starts[0][: len(self.groups.scaling)] + 2.0 * _FAR_UP,
                    np.inf,
                )
            search = self._search(max_steps, upper=upper)
            tops = [search(start) for start in starts]
            if upper is not None and not any(
                t.ended or self._rising(t, starts[0]) for t in tops
            ):
                search = self._search(max_steps)
                tops = [search(start) for start in starts]
            top = max(tops, key=lambda t: t.at.value)
            tops = [
                search(start)
                for start in surface.beyond(top.theta, top.vanished, starts[0])
            ]
        top = max(
            [top, *tops], key=lambda t: t.at.value + _CLOSE * bool(t.vanished.any())
        )
        for _ in range(_ROUNDS):
            if not surface.choose_at(top.theta):
                break
            again = search(top.theta)
            settled = float(np.abs(again.theta - top.theta).max()) < _STILL
            top = again._replace(ended=again.ended or (settled and top.ended))
            if settled:
                break
        rising = self._rising(top, starts[0])
        if rising:
            return self._bounded(top, rising, starts[0])
        name = self.model.likelihood.noise_scale
        if (
            name in self.outer
            and (top.ended or top.steps < max_steps)
            and self._noiseless(top)
        ):
            if self.model.noise_prior.proper:
                give = ""
            else:
                give = f", or give it a proper prior, such as aux={{{name!r}: HalfNormal(1.0)}}"
            why = f"the evidence rises as {name} falls to 0, because the columns can reproduce the response"
            raise Incompatible(f"{self.method}: {why}; hold {name}{give}")
        # a start may end on a plain below the top of another, such as at lengths so small that rows share nothing
        if not top.ended and top.steps < max_steps:
            raise NotConverged(
                f"evidence: the search for the scales stopped {top.decrement:.2g} standard errors away from the maximum, because no step "
                "raises the evidence beyond rounding. State columns and response in units of similar size, or give the scales priors"
            )
        if not top.ended:
            if name in self.outer:
                hold = f"hold {name}"
            else:
                hold = "give the scales priors"
            raise Incompatible(
                f"evidence: no maximum over the scales within {max_steps} steps; raise max_steps, or {hold}"
            )
        return top

    def _rising(self, top: EvidenceMaximum, start: Array) -> tuple[int, ...]:
        """Scales far above their start with which the evidence rises still: their function separates the classes."""
        if not isinstance(self.model.likelihood, MayDiverge):
            return ()
        # beyond the digits of a double a scale that rises may look like one that vanished
        far = np.flatnonzero(self.groups.scaling)
        far = far[top.theta[far] > start[far] + _FAR_UP]

        def value(theta: Array) -> float:
            try:
                return self.surface(theta).value
            except (
                Incompatible,
                NotConverged,
                np.linalg.LinAlgError,
            ):  # too far out for a double
                return -np.inf

        def rises(j: int) -> bool:
            # from where the search passed, and beyond its end
            e = np.arange(len(start)) == j
            low, end = (
                value(t)
                for t in (np.where(e, start + _FAR_UP, top.theta), top.theta + 3.0 * e)
            )
            return max(
                top.at.value if np.isfinite(top.at.value) else -np.inf, end
            ) > low + _RISE and (not top.ended or end > top.at.value)

        return tuple(int(j) for j in far if rises(int(j)))

    def _bounded(
        self, top: EvidenceMaximum, rising: tuple[int, ...], start: Array
    ) -> EvidenceMaximum:
        """The maximum with the scales that rise for ever at a large value."""
        theta = top.theta.copy()
        vanished = top.vanished.copy()
        theta[list(rising)] = start[list(rising)] + _FAR_UP
        vanished[list(rising)] = False
        return top._replace(
            theta=theta,
            at=self.surface(theta),
            vanished=vanished,
            ended=True,
            rising=rising,
        )

    def _noiseless(self, top: EvidenceMaximum) -> bool:
        """sigma has run away, or to where nothing depends on it."""
        # Near sigma = 0 f rises without end, or is flat: -d^2 f / d (log sigma)^2 is next to nothing beside its 2 n.
        k = len(self.groups.priors) + self.outer.index(self.model.noise_scale)
        least = (
            _NO_NOISE if top.ended else _IN_ROUNDING
        )  # where rounding ends the search on its way down
        far = top.theta[k] < np.log(least * self.surface.response_scale)
        return bool(far or -top.at.hessian[k, k] < 1e-6 * self.model.design.total)

    @property
    def noise(self) -> bool:
        """sigma is one of the coordinates of the surface."""
        return self.exact and bool(self.model.unknown)

    def hyper(self, top: EvidenceMaximum) -> Array:
        """The hyperparameters (d,) at a maximum."""
        return np.exp(top.theta[: len(self.groups.priors)])

    def found(self, top: EvidenceMaximum) -> FoundScales | None:
        """What stands at a maximum, for reports; None where each column has its own scale."""
        if self.per_column or len(self.groups.priors) + len(
            self.outer
        ) != number_of_scales(self.model):
            return None
        hessian_of = partial(np.array, top.at.hessian)
        if self.surface.secant:
            hessian_of = partial(
                _hessian_anew,
                self.model,
                self.criterion,
                self.points,
                top.theta,
                top.at.hessian,
            )
        vanished = np.append(top.vanished, top.at_limit)
        plain = not self._took_part(top)
        return FoundScales(
            self.model,
            self.criterion,
            top.theta,
            hessian_of,
            float(top.at.evidence),
            vanished,
            plain,
            self.points,
        )

    def model_at(self, theta: Array, chosen: Array | None = None) -> Model:
        """The model at theta; the anchors of its processes are those of `chosen`, by default the same."""
        d = len(self.groups.priors)
        hyper = np.exp(theta[:d])
        if chosen is None:
            anchors = None
        else:
            anchors = np.exp(chosen[:d])
        held = dict(zip(self.outer, np.exp(theta[d:]).tolist()))
        design, prior = bound_terms(self.prior_at(hyper), self.model.design)
        found = replace(
            self.model,
            design=design,
            prior=prior,
            aux={**self.model.aux, **held},
            scales_compared=0,
        )
        for g in self.unknown:
            if (
                isinstance(g.prior, ProcessPrior) and g.predictor is None
            ):  # else each predictor has its own scales of sines
                own = self.groups.group_of == self.unknown.index(g)
                values = dict(zip(g.hyper, hyper[own].tolist()))
                if anchors is not None:
                    held_at = dict(zip(g.hyper, anchors[own].tolist()))
                else:
                    held_at = None
                plain = Normal(g.prior.size_at(values))
                found = with_kernel(
                    found,
                    self.model.design,
                    g.columns,
                    g.prior,
                    values,
                    plain,
                    None if _has_all_rows(g) else held_at,
                )
        return found

    @cached_property
    def starting_model(self) -> Model:
        """A model of the kind that will be found."""
        found = self.model.with_prior(self.prior_at(np.exp(self.groups.starts()[0])))
        if self.exact:
            return found.with_aux(**{found.noise_scale: 1.0})
        return found

    def prior_at(self, hyper: Array) -> Prior | Mapping[Key, Prior]:
        """The plain priors at these hyperparameters (d,), block by block where the model states them so."""
        out = list[BlockPrior]()
        for i, b in enumerate(self.model.joint.blocks):
            if isinstance(b.prior, Flat) and not b.stated:
                continue
            prior: Prior = b.prior
            if isinstance(prior, LatentPrior):
                each = hyper[[self.unknown[k].block == i for k in self.groups.group_of]]
                if self.per_column and isinstance(prior, ScaleMixture):
                    prior = prior.base.times(each)  # type: ignore[arg-type]
                elif isinstance(
                    prior, UnknownLength
                ):  # of the columns that `with_kernel` makes
                    prior = Normal(prior.size_at(dict(zip(prior.hyper, each.tolist()))))
                else:
                    prior = prior.given(**dict(zip(prior.hyper, each.tolist())))
            if isinstance(self.model.prior, Prior) and b.predictor is None:
                return prior
            out.append(replace(b, prior=prior))
        return mapping_of(out, self.model.design.columns)

    def notes(self, top: EvidenceMaximum, joint: bool = False) -> tuple[Note, ...]:
        """Return notes on the maximum; `joint` standard errors include the uncertainty of the scales."""
        hyper = self.hyper(top)
        several = len(self.groups.priors) > 1
        if self.exact:
            name = "log p(y | scales)"
        else:
            name = "the Laplace approximation of log p(y | scales)"
        if any(g.left for g in self.groups.groups):
            name = "a lower bound of log p(y | scales), less tau^2 trace(K - Q) / (2 sigma^2)"
        if self.points > 1:
            name = f"the likelihood by {self.points} points of adaptive Gauss-Hermite quadrature"
        elif self.criterion == "ML":
            name = (
                "the likelihood log p(y | scales, flat coefficients at their maximum)"
            )
        # of grouped effects the search has begun at several places, and gone back from every edge
        took = self._took_part(top)
        local = " (a local maximum)" * (
            several and not self.model.design.recipe.grouped
        )
        if took:
            what = f"maximised {name} plus the log density of {took}, {top.at.value:.6g} together"
            value = f"evidence: {what}{local}; {name} = {top.at.evidence:.6g} there"
        else:
            value = f"evidence: {name} = {top.at.evidence:.6g}, its maximum over the scales{local}"
        value += "; flat columns count with density 1" * (
            self._flat and self.criterion == "REML"
        )
        of = self.groups.group_of
        lost = {k for k, out in zip(self.groups.group_of, top.vanished) if out}
        effects = {
            k
            for k, g in enumerate(self.unknown)
            if g.prior is not None and g.prior.hyper_labels
        }
        varying = [
            self._told_effects(self.unknown[k], hyper[of == k], top.vanished[of == k])
            for k in sorted(effects)
        ]
        lost -= effects
        kept = [
            (g, hyper[of == k])
            for k, g in enumerate(self.unknown)
            if k not in lost | effects
        ]
        scales = [
            self._told(g, h) for g, h in kept if not isinstance(g.prior, ProcessPrior)
        ]
        notes = [routine_note(Topic.SCALES, value)]
        if scales:
            notes.append(
                important_note(
                    Topic.SCALES,
                    "prior scale (times the stated scale) of {scales}",
                    scales="; ".join(scales),
                )
            )
        texts = [
            f"{self._told(g, h)} at the maximum"
            for g, h in kept
            if isinstance(g.prior, ProcessPrior)
        ]
        texts += [self._unserved(g, h) for g, h in kept]
        notes += [important_note(Topic.SCALES, text) for text in texts if text]
        notes += [note for each in varying for note in each]
        if lost:
            gone = ", ".join(
                self._bends(self.unknown[k]) + self.named(self.unknown[k])
                for k in sorted(lost)
            )
            notes.append(
                important_note(
                    Topic.SINGULAR,
                    "pruned, since the evidence rises as their scale falls to 0: {terms}; their coefficients are held at 0 "
                    "(a singular fit)",
                    terms=gone,
                )
            )
        aux = zip(self.outer, np.exp(top.theta[len(hyper) :]))
        notes += [
            routine_note(
                Topic.SCALES,
                "{name} = {value:.6g}, at the maximum too",
                name=name,
                value=value,
            )
            for name, value in aux
        ]
        if joint:
            return tuple(notes)
        if len(effects) == len(self.unknown):
            return (*notes, SCALES_AS_KNOWN)
        known = important_note(
            Topic.SCALES,
            "intervals treat the scales found by evidence as known; integrate and nuts include their uncertainty",
        )
        return (*notes, known)

    def _told(self, group: LatentGroup, hyper: Array) -> str:
        """The hyperparameters of a group in a sentence; those of a process by name, one scale by the columns alone."""
        if isinstance(group.prior, ProcessPrior):
            return f"{self.named(group)}: " + ", ".join(
                f"{name} {v:.6g}" for name, v in zip(group.hyper, hyper)
            )
        return f"{self.named(group)} " + ", ".join(f"{v:.6g}" for v in hyper)

    def _told_effects(
        self, group: LatentGroup, hyper: Array, vanished: Array
    ) -> list[Note]:
        """Return notes on the standard deviations and correlations of effects by group, and on a singular fit."""
        prior = group.prior
        assert isinstance(prior, VaryingEffects)
        values = dict(zip(group.hyper, hyper.tolist()))
        gone = {name for name, out in zip(group.hyper, vanished) if out}
        kept = [k for k, name in enumerate(prior.effects) if f"sd[{name}]" not in gone]
        of = self._outcome(group)
        told = [
            f"{prior.hyper_labels[n]}{of} {0.0 if n in gone else v:.6g}"
            for n, v in values.items()
            if n.startswith("sd[")
        ]
        read = prior.natural(values)
        for i, j in prior.pairs:
            name = prior.cor_name(i, j)
            if name in read and i in kept and j in kept:
                told.append(
                    f"cor{of} {read[name]:.3g}"
                    if len(prior.pairs) == 1
                    else f"{prior.hyper_labels[name]}{of} {read[name]:.3g}"
                )
        out = [routine_note(Topic.SCALES, ", ".join(told))] if told else []
        reasons = [
            f"the variance of {n[3:-1]} | {prior.group}{of} is 0"
            for n in values
            if n in gone
        ]
        reasons += [
            f"{sentence}{f' {of}' * bool(of)}"
            for sentence in prior.collinear(values, kept)
        ]
        return out + [
            important_note(Topic.SINGULAR, "singular fit: {reason}", reason=reason)
            for reason in reasons
        ]

    def _unserved(self, group: LatentGroup, hyper: Array) -> str:
        """That a process was found where its columns are no approximation of it, in words; empty where they are one."""
        if not isinstance(group.prior, ProcessPrior):
            return ""
        error = group.prior.error_at(dict(zip(group.hyper, hyper.tolist())))
        if error <= FAR:
            return ""
        lengths = " and ".join(name for name in group.hyper if is_length(name))
        return (
            f"{self.named(group)}: its sines do not serve the {lengths} found, off by {error:.0%} of k(x, x): give a prior whose quantiles "
            "0.01 to 0.99 hold it"
        )

    def _took_part(self, top: EvidenceMaximum) -> str:
        """What has a prior that is not flat in its coordinate, so that it moved the maximum, in words; empty for nothing."""
        priors = [
            (
                "the prior scale"
                if name == "tau"
                else g.prior.hyper_labels.get(name, name) + self._outcome(g),
                p,
            )
            for g in self.unknown
            if g.prior is not None
            for name, p in g.hyper.items()
        ]
        priors += [(name, self.model.aux_prior(name)) for name in self.outer]
        moved = {
            what: None
            for (what, p), t in zip(priors, top.theta)
            if any(p.slopes(float(np.exp(t))))
        }
        turned = [what for what in moved if what.startswith("cor(")]
        logs = [what for what in moved if what not in turned]
        parts = [f"the logs of {' and '.join(logs)}"] * bool(logs) + [
            f"atanh of {' and '.join(turned)}"
        ] * bool(turned)
        return " and ".join(parts)

    @property
    def _flat(self) -> bool:
        return not self.model.joint.informative.all()

    def _bends(self, group: LatentGroup) -> str:
        """What a scale of a smooth function is of, where straight lines without a prior are columns of it too."""
        names = self.model.design.columns
        flat = ~self.model.joint.informative
        own = {names[j] for j in group.columns}
        lines = {names[j] for j in np.flatnonzero(flat)}
        return "the bends of " * any(
            own < set(t.columns) and lines & set(t.columns)
            for t in self.model.design.recipe.terms
        )

    def named(self, group: LatentGroup) -> str:
        """Its columns, and its linear predictor where there are several."""
        return self.model.design.called(group.columns) + self._outcome(group)

    def _outcome(self, group: LatentGroup) -> str:
        if group.predictor is None:
            return ""
        return f"[{self.model.joint.blocks[group.block].outcome}]"


def _has_all_rows(group: LatentGroup) -> bool:
    """Whether the basis of a process has every row for an anchor, so that none are chosen."""
    return isinstance(group.prior, ProcessPrior) and group.prior.basis.kind == "exact"


@one_blas_thread()
def _hessian_anew(
    model: Model, criterion: LikelihoodCriterion, points: int, theta: Array, near: Array
) -> Array:
    """The Hessian at theta from the rows, so that a fit holds no moments of them."""
    problem = EvidenceProblem(model, False, criterion=criterion, points=points)
    problem.surface.choose_at(theta)
    return problem.surface.hessian(theta, near)
