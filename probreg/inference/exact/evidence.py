"""Type-II maximum likelihood: unknown prior scales and sigma at the maximum of the evidence, then any method at those.

The maximum is found by Newton's method over the logs of the scales, some of which run to zero.
"""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from probreg.arguments.scalars import Count, Flag, check_fields
from probreg.data import Design
from probreg.errors import DataError, Incompatible
from probreg.inference.base import METHODS, Array, Method, MethodName, Resolved, Solution, edges
from probreg.inference.exact.gaussian_surface import GaussianSurface, LikelihoodCriterion
from probreg.inference.exact.laplace_surface import LaplaceSurface
from probreg.inference.exact.latent_groups import EvidencePoint, LatentGroup, LatentGroups, Surface, as_groups
from probreg.inference.exact.process_surface import ProcessSurface
from probreg.inference.exact.profiled_surface import ProfiledMode, ProfiledSurface
from probreg.inference.exact.rebased_surface import RebasedSurface
from probreg.inference.modes.closed_form import PriorRows, posterior_given_sigma, require_full_rank
from probreg.inference.modes.newton import newton_step
from probreg.likelihoods import SmoothLikelihood
from probreg.model.model import LocalModel, Model
from probreg.model.off_span import variance_left_at_rows
from probreg.model.pymc_graph import hyper_names
from probreg.numerics.linalg import one_blas_thread
from probreg.priors import (
    AuxPrior,
    Flat,
    GaussianPrior,
    HierarchicalPrior,
    LatentPrior,
    Normal,
    Prior,
    ScaleMixture,
    SmoothPrior,
)
from probreg.priors.gaussian_process import ProcessPrior, RebuiltProcess
from probreg.priors.joint import Key

_VANISHED = 1e-6  # of its parameters: a group of which the data settle less, on the way down, has no scale
_ROUNDING = 1e-5  # of a decrement, in standard errors of the log scales
_MANY = 400  # coordinates: above, a second thread of BLAS is worth its wait
_SOFT = 1e-3  # curvature that is added to that of the surface
_SECANT = 1e-4  # cosine between a move and the change of the gradient, below which it says nothing of the curvature
_NO_SLOPE = 1e-9  # of the evidence over a log: rounding
_ROUNDS = 5  # of searches, with anchors chosen where the last one ended
_STILL = 1e-4  # of the logs between two of them
_HELD = 1e5  # it is held at a scale this much smaller still, where its coefficients are zero to 1e-16


class EvidenceMaximum(NamedTuple):
    """A maximum of a surface; `vanished` are the scales that run to zero. Not `ended`: where the last step was."""

    theta: Array
    at: EvidencePoint
    vanished: Array  # (d,) bool
    steps: int
    decrement: float
    ended: bool = True


def maximise_log_scales(
    surface: Surface, theta: Array, sizes: Array, soft: Array, *, tol: float, max_steps: int, secant: bool = False
) -> EvidenceMaximum:
    """Newton's method on the logs, made to rise; a scale that falls for ever is taken out, and comes back if it would rise.

    `sizes` (d,) holds the coefficients that a scale multiplies, and 0 for what is no scale and cannot vanish. `soft` (d,) marks
    hyperparameters of which data may tell nothing, such as the length of a part that has vanished: they stay where they are then.
    `secant` says that the Hessian is not exact: it is made to agree with the last changes of the gradient.
    """
    d, at = len(sizes), surface(theta)
    vanished = np.zeros(len(theta), bool)
    decrement = np.inf
    moves: list[tuple[Array, Array]] = []
    ridge = np.append(_SOFT * soft, np.zeros(len(theta) - d))
    for number in range(1, max_steps + 1):
        free = ~vanished
        # Newton on the free logs: -f'' step = f', made to rise where -f'' is not positive definite; decrement
        # (f'step)^(1/2).
        step, H = np.zeros(len(theta)), _with_secants(-at.hessian + np.diag(ridge), moves)
        step[free], convex = newton_step(LocalModel(at.value, at.gradient[free], H[np.ix_(free, free)]))
        before, decrement = decrement, float(np.sqrt(max(float(at.gradient @ step), 0.0)))
        # So near the maximum each step squares the error: a decrement that no longer falls is rounding of the surface.
        if convex and (decrement < tol or before <= decrement < _ROUNDING):
            # A pruned scale comes back where the evidence rises with it: d f / d log tau_k > 0.
            up = theta + np.log(_HELD) * vanished
            back = vanished & (surface(up).gradient > _NO_SLOPE) if vanished.any() else vanished
            if not back.any():
                return EvidenceMaximum(theta, at, vanished[:d], number, decrement)
            vanished, theta = vanished & ~back, np.where(back, up, theta)
            at = surface(theta)
            continue
        # No log moves by more than 2 at once: the expansion is of no use farther away.
        moved = _rise(surface, theta, step / max(1.0, float(np.abs(step).max()) / 2.0), at)
        if moved is None:
            return EvidenceMaximum(theta, at, vanished[:d], number, decrement)
        moves = [*moves, (moved[0] - theta, at.gradient - moved[1].gradient)][-2 * len(theta) :] if secant else []
        theta, at = moved
        # gamma_k = n_k - tr_k S: where it vanishes and f falls with tau_k, the maximum is at tau_k = 0.
        lost = ~vanished[:d] & (sizes > 0) & (at.effective < _VANISHED * sizes) & (at.gradient[:d] < 0)
        if lost.any():
            vanished[:d] |= lost
            theta = theta - np.log(_HELD) * np.append(lost, np.zeros(len(theta) - d))
            at = surface(theta)
    return EvidenceMaximum(theta, at, vanished[:d], max_steps, decrement, ended=False)


def _with_secants(H: Array, moves: Sequence[tuple[Array, Array]]) -> Array:
    """H changed so that H s = y for the last of the moves s with their changes y of the gradient, and nearly for those before."""
    for s, y in moves:
        if s @ y <= _SECANT * np.linalg.norm(s) * np.linalg.norm(y):
            continue
        Hs = H @ s
        if s @ Hs > 0:  # H <- H - H s s'H / s'Hs + y y' / s'y (BFGS)
            H = H - np.outer(Hs, Hs) / (s @ Hs) + np.outer(y, y) / (s @ y)
        else:  # H <- H + r r' / r's, r = y - H s
            H = H + np.outer(y - Hs, y - Hs) / ((y - Hs) @ s)
    return H


def _rise(surface: Surface, theta: Array, step: Array, at: EvidencePoint) -> tuple[Array, EvidencePoint] | None:
    """The first of the step, its half, its quarter, ... that does not lower the surface beyond rounding."""
    for t in 0.5 ** np.arange(30):
        new = surface(theta + t * step)
        if np.isfinite(new.value) and new.value >= at.value - 1e-12 * abs(at.value):
            return theta + t * step, new
    return None


_NO_NOISE = 1e-9  # of the spread of y


@METHODS.register
@dataclass(frozen=True)
class Evidence(Method):
    """The scales that maximise log p(y | tau, sigma) + log p(tau) + log p(sigma), beta integrated out.

    Then `method` fits the model at these scales, which are taken as known. tau is the unknown scale of a block of
    coefficients: `Normal(HalfNormal(1.0))`, `Normal(Reference())` for type-II maximum likelihood proper, `GPrior(...)`,
    `R2(...)`. Densities are of the logs, on which `Reference()` is flat.

    Exact for Gaussian likelihoods (Newton's method from the moments, whatever the scale of the data). For other smooth
    ones log p(y | tau) is its Laplace approximation. The maximum is the best one above a grid of common scales, with
    many scales a local one. At it, with flat densities of the scales, MacKay's equations hold: |m|^2 / tau^2 = gamma
    and RSS / sigma^2 = n - gamma - (flat columns). m is the posterior mean and gamma the number of parameters that the
    data settle.

    Parameters
    ----------
    method : str or Method
        What fits the model at these scales.
    per_column : bool
        Whether each column has its own scale (automatic relevance determination). Columns whose scale runs to zero are
        pruned, and named.
    max_steps : int
        The most steps of the search.
    criterion : {"REML", "ML"}
        "REML" integrates the coefficients of flat columns too, with density 1: the restricted likelihood, and the evidence that a
        posterior uses. "ML" puts them at their maximum; elsewhere than for a Gaussian they are estimated there with the scales, and
        nuisance parameters too; `stats` then holds "log_likelihood_of_scales" in place of "log_evidence".

    References
    ----------
    MacKay 1992; Tipping 2001; Patterson & Thompson 1971.

    Examples
    --------
    >>> from probreg.model.model import Model
    >>> from probreg.priors import Normal, Reference
    >>> x = np.array([-1.0, 0.0, 1.0, 2.0])
    >>> model = Model.from_arrays(x, [-1.1, 0.1, 0.9, 2.1], prior=Normal(Reference()), aux={"sigma": 0.1})
    >>> found = Evidence().resolve(model, np.random.default_rng(0)).model.joint.blocks[-1].prior
    >>> b, v = 1.04, 0.1**2 / 5  # least squares and its variance: tau^2 + v = b^2
    >>> round(found.scale**2 + v, 9), round(b**2, 9)
    (1.0816, 1.0816)
    """

    method: MethodName | str | Method = "auto"
    per_column: Flag = False
    max_steps: Count = 300
    criterion: LikelihoodCriterion = "REML"

    name = "evidence"
    rebuilds = True
    likelihood = SmoothLikelihood

    def __post_init__(self) -> None:
        check_fields(self)
        if isinstance(self._inner, Evidence):
            raise Incompatible("evidence wraps a method that fits at given scales, not itself")

    @property
    def _inner(self) -> Method:
        return METHODS.resolve(self.method)

    def obstacle(self, model: Model) -> str | None:
        why = scales_obstacle(self, model, "finds")
        if why is None and self.per_column:
            for b in model.joint.blocks:
                if isinstance(b.prior, ScaleMixture) and getattr(b.prior.base, "precision_matrix", None) is not None:
                    return f"evidence with per_column=True needs a prior of independent columns, and {b.prior.name} correlates them"
        moving = any(isinstance(b.prior, RebuiltProcess) for b in model.joint.blocks)
        if why is None and self.criterion == "ML" and moving and not model.likelihood.least_squares:
            return "evidence with criterion='ML' cannot move the length of a process with this likelihood: state it, or use 'REML'"
        return why or self._inner.obstacle(EvidenceProblem(model, self.per_column).starting_model)

    def resolve(self, model: Model, rng: np.random.Generator) -> Resolved:
        problem = EvidenceProblem(model, self.per_column, criterion=self.criterion)
        if not problem.moving:
            start = PriorRows.of(problem.starting_model.joint)
            require_full_rank(posterior_given_sigma(model.design.moments, start, 1.0), model, self.name)
        top = problem.maximise(self.max_steps)
        found = problem.model_at(top)
        inner = self._inner.resolve(found, rng)
        surface = problem.surface
        if isinstance(surface, ProfiledSurface) and inner.method.target == "mode":
            solved = inner.method.solve(inner.model, rng) if inner.solution is None else inner.solution
            inner = inner._replace(solution=_at_profile(solved, surface.mode(top.theta)))
        # a likelihood at estimated coefficients is not to be read beside evidences
        stat = "log_likelihood_of_scales" if self.criterion == "ML" else "log_evidence"
        return inner._replace(
            notes=(*problem.words(top), *inner.notes), stats={stat: float(top.at.evidence), **inner.stats}
        )

    def solve(self, model: Model, rng: np.random.Generator) -> Solution:
        settled = self.resolve(model, rng)
        solution = settled.method.solve(settled.model, rng)
        return replace(solution, stats={**solution.stats, **settled.stats}, notes=(*settled.notes, *solution.notes))


def _at_profile(found: Solution, at: ProfiledMode) -> Solution:
    """The solution of another method at the coefficients that maximise the likelihood, with the curvature there."""
    k = at.model.shape[0] * at.model.shape[1]
    scale = np.linalg.inv(at.local.curvature)
    aux = dict(zip(at.model.unknown, np.exp(at.point[k:]).tolist()))
    spread = np.sqrt(np.diagonal(scale)[k:])  # of log aux
    aux_sd = {name: value * float(sd) for (name, value), sd in zip(aux.items(), spread)}
    return replace(
        found,
        beta=at.point[:k].reshape(at.model.shape),
        scale=scale[:k, :k],
        aux={**found.aux, **aux},
        aux_sd={**found.aux_sd, **aux_sd},
    )


def scales_obstacle(method: Method, model: Model, does: str) -> str | None:
    """Why the evidence is no smooth function of the logs of unknown scales, for a method that `does` something with them."""
    blocks, gaussian = model.joint.blocks, model.likelihood.least_squares
    if not isinstance(model.likelihood, SmoothLikelihood):
        return f"{method.name} needs a smooth likelihood, and {model.likelihood.name} is not one"
    sigma_alone = does == "finds" and gaussian and model.noise_unknown and model.joint.informative.any()
    if not sigma_alone and not any(isinstance(b.prior, HierarchicalPrior) for b in blocks):
        return (
            f"{method.name} {does} prior scales that are unknown, and this model has none: Normal(Reference()) or "
            "Normal(HalfNormal(1.0)) has"
        )
    if wrong := [b.prior.name for b in blocks if isinstance(b.prior, HierarchicalPrior) and not _tunable(b.prior)]:
        return f"{method.name} needs unknown scales to be those of normal priors, and this model has {', '.join(wrong)}; use nuts"
    kind, word = (GaussianPrior, "normal") if gaussian else (SmoothPrior, "smooth")
    for b in blocks:
        if not isinstance(b.prior, LatentPrior | kind):
            return (
                f"{method.name} needs the other priors to be {word} with a {model.likelihood.name} likelihood, and "
                f"{b.prior.name} is not"
            )
        if isinstance(b.prior, LatentPrior) and b.prior.sigma_units and not gaussian:
            return f"{method.name} with this likelihood needs prior scales that are not in units of sigma"
    if (why := edges(method, model)) is not None:
        return why
    # an exact basis has a column for every row at lengths that are short enough
    moving = [b for b in blocks if isinstance(b.prior, RebuiltProcess) and b.prior.basis.kind == "exact"]
    if moving and not gaussian and model.unknown:
        aux, called = " and ".join(model.unknown), model.design.called(moving[0].columns)
        return (
            f"{method.name} cannot move the length of {called}, as exact as the rows, with a {model.likelihood.name} likelihood of "
            f"unknown {aux}, which runs to its edge: take basis='hsgp', or hold {aux}"
        )
    for b in blocks:
        for name, hyper in b.prior.hyper.items() if isinstance(b.prior, LatentPrior) else ():
            if hyper.prior.bounded:
                what = "a scale" if name == "tau" else name
                return f"{method.name} looks for a vanishing gradient, and the {hyper.prior.name} prior of {what} has an edge; use nuts"
    return None


def _tunable(prior: Prior) -> bool:
    return isinstance(prior, LatentPrior) and prior.normal


def with_kernel(
    model: Model, before: Design, columns: Sequence[int], prior: ProcessPrior, values: Mapping[str, float], after: Prior,
    chosen: Mapping[str, float] | None = None,
) -> Model:  # fmt: skip
    """The model whose process of these columns of `before` has its function at these hyperparameters, under the prior `after`; its
    anchors are those of the hyperparameters `chosen`, by default the same."""
    term = before.process_of(columns)
    assert term is not None  # a ProcessPrior is bound to one
    try:
        basis = prior.basis_at(prior.kernel_at(**(chosen or values)), before.inputs.get(term.key))
        basis = basis if chosen is None else basis.with_kernel(prior.kernel_at(**values))
    except DataError as error:
        raise Incompatible(
            f"evidence: it rises until the process of {term.key} is no curve at these rows ({error}). State the length, or give it "
            "a prior such as length=LogNormal(...)"
        ) from None
    design = model.design.with_basis(term.key, basis, found=True)
    new = design.recipe.processes[term.key].columns
    priors = {new if key == term.columns else key: p for key, p in _by_columns(model).items()}
    return replace(model, design=design, prior=priors | {new: after})


def _by_columns(model: Model) -> dict[Key, Prior]:
    """The prior of a model by tuples of columns."""
    names = model.design.columns
    return {tuple(names[j] for j in b.columns): b.prior for b in model.joint.blocks if b.stated}


@dataclass(frozen=True, eq=False)
class EvidenceProblem:
    """A model with unknown scales, and the way back from their values to a model."""

    model: Model
    per_column: bool
    method: str = "evidence"  # whose errors these are
    criterion: LikelihoodCriterion = "REML"

    @cached_property
    def groups(self) -> LatentGroups:
        """All informative groups of a Gaussian model, else those of unknown scale."""
        blocks = self.model.joint.blocks
        unknown: dict[int, LatentPrior] = {i: b.prior for i, b in enumerate(blocks) if isinstance(b.prior, LatentPrior)}
        kept = blocks if self.exact else [b if i in unknown else replace(b, prior=Flat()) for i, b in enumerate(blocks)]
        return as_groups(kept, unknown, self.per_column, variance_left_at_rows(self.model) if self.exact else {})

    @property
    def exact(self) -> bool:
        return self.model.likelihood.least_squares

    @cached_property
    def unknown(self) -> tuple[LatentGroup, ...]:
        return tuple(g for g in self.groups.groups if g.prior is not None)

    @cached_property
    def moving(self) -> tuple[RebuiltProcess, ...]:
        """The processes whose unknown hyperparameters are in their columns."""
        return tuple(g.prior for g in self.unknown if isinstance(g.prior, RebuiltProcess))

    @cached_property
    def surface(self) -> GaussianSurface | LaplaceSurface | ProcessSurface | RebasedSurface:
        if self.moving and self.exact and all(p.basis.kind == "exact" for p in self.moving):
            return ProcessSurface(self.model, self.groups, self.criterion)
        if self.moving:
            aux = [self.model.aux_prior(a) for a in self.model.unknown] if self.exact else []
            return RebasedSurface(self.groups, aux, self._rebased)
        if self.exact:
            return GaussianSurface(self.model, self.groups, self.criterion)
        made = ProfiledSurface if self.criterion == "ML" else LaplaceSurface
        return made(self.model, self.groups, self.prior_at)

    def _rebased(self, values: Array, chosen: Array) -> tuple[Surface, list[Array]]:
        """The surface over the other hyperparameters where those that are in columns have these values, and its starts; anchors are
        those of the values `chosen`."""
        found, at = self.model, 0
        for g in self.unknown:
            if isinstance(g.prior, RebuiltProcess):
                names = [name for name, _ in g.prior.unknown]
                own = slice(at, at + len(names))
                here, there = (dict(zip(names, v[own].tolist())) for v in (values, chosen))
                at += len(names)
                amplitude = g.prior.amplitude
                plain = ScaleMixture(Normal(1.0), amplitude) if isinstance(amplitude, AuxPrior) else Normal(amplitude)
                found = with_kernel(found, self.model.design, g.columns, g.prior, here, plain, there)
        inner = EvidenceProblem(found, self.per_column, self.method, self.criterion).surface
        return inner, inner.starts()

    @cached_property
    def names(self) -> list[str]:
        """Of the hyperparameters, in the order of theta."""
        found = hyper_names(self.model.joint, self.model.design)
        return [found[g.block][name] for g in self.unknown for name in g.hyper]

    def maximise(self, max_steps: int) -> EvidenceMaximum:
        sizes = self.groups.sizes if self.exact else self.groups.sizes * self.model.shape[1]
        # in standard errors: where the Hessian is not exact, steps do not square the error
        tol = 1e-9 if isinstance(self.surface, GaussianSurface) else 1e-5 if self.exact else 1e-4
        secant = not isinstance(self.surface, GaussianSurface)
        soft = np.array([not g.prior.scalar for g in self.unknown for _ in g.hyper if g.prior], dtype=float)
        with nullcontext() if len(self.groups.of) > _MANY else one_blas_thread():
            tops = [
                maximise_log_scales(self.surface, s, sizes, soft, tol=tol, max_steps=max_steps, secant=secant)
                for s in self.surface.starts()
            ]
        top = max(tops, key=lambda t: t.at.value)
        for _ in range(_ROUNDS if isinstance(self.surface, RebasedSurface) else 0):
            self.surface.choose_at(top.theta)  # type: ignore[union-attr]
            again = maximise_log_scales(
                self.surface, top.theta, sizes, soft, tol=tol, max_steps=max_steps, secant=secant
            )
            settled, top = float(np.abs(again.theta - top.theta).max()) < _STILL, again
            if settled:
                break
        # a start may end on a plain below the top of another, such as at lengths so small that rows share nothing
        if not top.ended:
            raise Incompatible(
                f"evidence: no maximum over the scales within {max_steps} steps; raise max_steps, or hold sigma"
            )
        if self.exact and self.model.unknown and self._noiseless(top):
            name = self.model.noise_scale
            give = (
                ""
                if self.model.noise_prior.proper
                else f", or give it a proper prior, such as aux={{{name!r}: HalfNormal(1.0)}}"
            )
            raise Incompatible(
                f"{self.method}: the evidence rises as {name} falls to 0, because the columns can reproduce the response; "
                f"hold {name}{give}"
            )
        return top

    def _noiseless(self, top: EvidenceMaximum) -> bool:
        """sigma has run away, or to where nothing depends on it."""
        surface, d = self.surface, self.model.design
        size = surface.response_scale if isinstance(surface, ProcessSurface) else d.moments.y_scale
        # Near sigma = 0 f rises without end, or is flat: -d^2 f / d (log sigma)^2 is next to nothing beside its 2 n.
        far = top.theta[-1] < np.log(_NO_NOISE * (size or 1.0))
        return bool(far or -top.at.hessian[-1, -1] < 1e-6 * d.total)

    @property
    def noise(self) -> bool:
        """sigma is one of the coordinates of the surface."""
        return self.exact and bool(self.model.unknown)

    def hyper(self, top: EvidenceMaximum) -> Array:
        """The hyperparameters (d,) at a maximum."""
        return np.exp(top.theta[: len(self.groups.priors)])

    def model_at(self, top: EvidenceMaximum) -> Model:
        hyper = self.hyper(top)
        found = self.model.with_prior(self.prior_at(hyper))
        for g in self.unknown:
            if isinstance(g.prior, ProcessPrior):
                values = dict(zip(g.hyper, hyper[self.groups.group_of == self.unknown.index(g)].tolist()))
                plain = Normal(float(g.prior.amplitude_at(values)))
                found = with_kernel(found, self.model.design, g.columns, g.prior, values, plain)
        return (
            found.with_aux(**{found.noise_scale: float(np.exp(top.theta[-1]))})
            if self.exact and self.model.unknown
            else found
        )

    @cached_property
    def starting_model(self) -> Model:
        """A model of the kind that will be found."""
        found = self.model.with_prior(self.prior_at(np.exp(self.groups.starts()[0])))
        return found.with_aux(**{found.noise_scale: 1.0}) if self.exact else found

    def prior_at(self, hyper: Array) -> Prior | Mapping[Key, Prior]:
        """The plain priors at these hyperparameters (d,), block by block where the model states them so."""
        columns = self.model.design.columns
        out: dict[Key, Prior] = {}
        for i, b in enumerate(self.model.joint.blocks):
            if isinstance(b.prior, Flat) and not b.stated:
                continue
            prior: Prior = b.prior
            if isinstance(prior, LatentPrior):
                each = hyper[[self.unknown[k].block == i for k in self.groups.group_of]]
                if self.per_column and isinstance(prior, ScaleMixture):
                    prior = prior.base.times(each)  # type: ignore[arg-type]
                else:
                    prior = prior.given(**dict(zip(prior.hyper, each.tolist())))
            if isinstance(self.model.prior, Prior):
                return prior
            out[tuple(columns[j] for j in b.columns)] = prior
        return out

    def words(self, top: EvidenceMaximum) -> tuple[str, ...]:
        hyper, several = self.hyper(top), len(self.groups.priors) > 1
        name = "log p(y | scales)" if self.exact else "the Laplace approximation of log p(y | scales)"
        if any(g.left for g in self.groups.groups):
            name = "a lower bound of log p(y | scales), less tau^2 trace(K - Q) / (2 sigma^2)"
        if self.criterion == "ML":
            name = "the likelihood log p(y | scales, flat coefficients at their maximum)"
        took, local = self._took_part(top), " (a local maximum)" * several
        if took:
            what = f"maximised {name} plus the log density of the logs of {took}, {top.at.value:.6g} together"
            value = f"evidence: {what}{local}; {name} = {top.at.evidence:.6g} there"
        else:
            value = f"evidence: {name} = {top.at.evidence:.6g}, its maximum over the scales{local}"
        value += "; flat columns count with density 1" * (self._flat and self.criterion == "REML")
        of, lost = self.groups.group_of, {k for k, out in zip(self.groups.group_of, top.vanished) if out}
        kept = [(g, hyper[of == k]) for k, g in enumerate(self.unknown) if k not in lost]
        scales = [self._told(g, h) for g, h in kept if not isinstance(g.prior, ProcessPrior)]
        said = [value]
        said += [f"prior scale (times what was stated) of {'; '.join(scales)}"] if scales else []
        said += [f"{self._told(g, h)} at the maximum" for g, h in kept if isinstance(g.prior, ProcessPrior)]
        if lost:
            gone = ", ".join(self.named(self.unknown[k]) for k in sorted(lost))
            said += [
                f"pruned, since the evidence rises as their scale falls to 0: {gone}; their coefficients are held at 0 (a singular fit)"
            ]
        if self.exact and self.model.unknown:
            said += [f"sigma = {np.exp(top.theta[-1]):.6g}, at the maximum too"]
        return (
            *said,
            "scales found by evidence are taken as known: intervals leave out their uncertainty, which integrate and nuts count",
        )

    def _told(self, group: LatentGroup, hyper: Array) -> str:
        """The hyperparameters of a group in a sentence; those of a process by name, one scale by the columns alone."""
        if isinstance(group.prior, ProcessPrior):
            return f"{self.named(group)}: " + ", ".join(f"{name} {v:.6g}" for name, v in zip(group.hyper, hyper))
        return f"{self.named(group)} " + ", ".join(f"{v:.6g}" for v in hyper)

    def _took_part(self, top: EvidenceMaximum) -> str:
        """What has a prior that is not flat in its log, so that it moved the maximum, in words; empty for nothing."""
        priors = [
            ("the prior scale" if name == "tau" else name, p) for g in self.unknown for name, p in g.hyper.items()
        ]
        if self.exact and self.model.unknown:
            priors.append((self.model.noise_scale, self.model.noise_prior))
        moved = {what: None for (what, p), t in zip(priors, top.theta) if any(p.slopes(float(np.exp(t))))}
        return " and ".join(moved)

    @property
    def _flat(self) -> bool:
        return not self.model.joint.informative.all()

    def named(self, group: LatentGroup) -> str:
        """Its columns."""
        return self.model.design.called(group.columns)
