"""Type-II maximum likelihood: unknown prior scales and sigma at the maximum of the
evidence, and then any method at these values.

Newton's method over the logs of the scales finds the maximum; some scales may go to
zero.

The covariance of the coefficients with the uncertainty of the scales and nuisance parameters at a maximum of the evidence.

Let theta be the free coordinates of the maximum and S their covariance, V the covariance of the coefficients b given theta, and
J = d mode / d theta. The joint covariance of b is V + J S J'. theta contains the logs of nuisance parameters. Under ML it also
contains the flat coefficients f, and V is the covariance given f.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator

from probreg.arguments.scalars import Count, Flag
from probreg.errors import Incompatible, NotConverged, warn_caller
from probreg.inference.base import (
    METHODS,
    Array,
    Method,
    MethodName,
    Resolved,
    Solution,
    Status,
)
from probreg.inference.covariance import DenseCovariance, ParameterCovariance
from probreg.inference.exact.evidence_problem import (
    EvidenceProblem,
    limit_of_separation,
    problem_of,
)
from probreg.inference.exact.gaussian_surface import points_obstacle
from probreg.inference.exact.latent_groups import (
    LikelihoodCriterion,
    NoMode,
    transfer_coefficients,
)
from probreg.inference.exact.scale_search import EvidenceMaximum
from probreg.inference.modes.existence import separation_by_block
from probreg.inference.modes.newton import fixed_coefficients, marks_by_predictor
from probreg.inference.modes.newton_method import Newton
from probreg.inference.modes.separation import Separation, smallest_increase
from probreg.inference.obstacles import bounded_aux
from probreg.inference.status import Topic, important_note, routine_note
from probreg.inference.varying import (
    FoundScales,
    explain_repeated,
    explain_unidentified,
)
from probreg.likelihoods import SmoothLikelihood
from probreg.linalg import one_blas_thread
from probreg.linalg.vec import vec_entries
from probreg.model.model import Model
from probreg.priors import (
    BlockPrior,
    GaussianPrior,
    HierarchicalPrior,
    LatentPrior,
    ScaleMixture,
    SmoothPrior,
)
from probreg.priors.covariance import VaryingEffects


@one_blas_thread()
def joint_covariance(
    scales: FoundScales, conditional: ParameterCovariance, model: Model
) -> ParameterCovariance:
    """Return the covariance of the coefficients of the final model and of the logs of its nuisance parameters, from
    the covariance of the coefficients given its scales."""
    free = scales.free
    if not len(free):
        if not scales.not_free.all():
            warn_caller(
                "standard errors treat the scales as known, because the criterion is not concave at its maximum over the scales"
            )
        return conditional
    problem = problem_of(scales)
    surface = problem.surface
    surface.choose_at(scales.theta)
    size = model.n_coefficients
    if len(scales.theta) > scales.count:
        flat = np.flatnonzero(~problem.model.joint.informative).tolist()
        conditional = conditional.condition_on(vec_entries(tuple(flat), model.shape[1]))
    slopes = [
        surface.slope_of_mode(scales.theta, k, model.design) for k in free.tolist()
    ]
    changes = np.column_stack([slope.ravel() for slope in slopes])
    if conditional.missing is not None:
        changes[conditional.missing[:size]] = 0.0
    # the logs of nuisance parameters are coordinates of theta, after the scales
    places = len(problem.groups.priors) + np.arange(len(problem.outer))
    known = np.isin(places, free)
    changes = np.vstack([changes, np.equal.outer(places[known], free)])
    names = [f"log {problem.outer[k]}" for k in np.flatnonzero(known)]
    root = np.linalg.cholesky(scales.covariance[np.ix_(free, free)])
    return conditional.with_spread(changes @ root, names)


# from this size of the columns a second pass over the rows, in doubled precision, dominates
SIZE_OF_SECOND_PASS = 10**5


@METHODS.register
@dataclass(frozen=True)
class Evidence(Method):
    """The scales that maximise log p(y | tau, sigma) + log p(tau) + log p(sigma).

    The coefficients beta are integrated out. Then `method` fits the model at these scales. Its standard errors include the
    uncertainty of scales and nuisance parameters. A Gaussian model with unknown scales
    only of effects by group has errors at known scales, as in lme4.
    `covariance("joint")` and `covariance("conditional")` give both kinds. tau is the
    unknown scale of a block of coefficients: `Normal(HalfNormal(1.0))`,
    `Normal(Reference())` for pure type-II maximum likelihood, `GPrior(...)`, `R2(...)`.
    Densities are over the logs, for which `Reference()` is flat.

    Exact for Gaussian likelihoods (Newton's method from the moments, for any scale of
    the data). For other smooth likelihoods log p(y | tau) is its Laplace approximation. The
    maximum is found from a grid of common scales; with many scales it may be local.
    With flat densities of the scales, it satisfies MacKay's equations: |m|^2 / tau^2 =
    gamma and RSS / sigma^2 = n - gamma - (flat columns), with m the posterior mean and
    gamma the number of parameters that the data determine.

    Parameters
    ----------
    method : str or Method
        The method that fits the model at these scales.
    per_column : bool
        Whether each column has its own scale (automatic relevance determination).
        Columns with a scale of zero are pruned, and listed in a note.
    max_steps : int
        Maximum number of steps of the search.
    criterion : {"REML", "ML"}
        "REML" integrates the coefficients of flat columns too, with density 1: the
        restricted likelihood, and the evidence of a posterior. "ML" maximises over
        them; for likelihoods other than the Gaussian they are estimated together with
        the scales and nuisance parameters; `stats` then has "log_likelihood_of_scales"
        instead of "log_evidence".
    points : int
        Above 1: points of adaptive Gauss-Hermite quadrature in each group, instead of
        Laplace's method, for one effect of one grouping factor with criterion="ML".

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
    points: Count = 1

    name = "evidence"
    rebuilds = True
    likelihood = SmoothLikelihood

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self._inner, Evidence):
            raise Incompatible(
                "evidence wraps a method that fits at given scales, not evidence itself"
            )

    @property
    def _inner(self) -> Method:
        return METHODS.resolve(self.method)

    def obstacle(self, model: Model) -> str | None:
        reason = scales_obstacle(self, model, "finds")
        if reason is None and self.points > 1:
            reason = points_obstacle(model, self.criterion)
        if reason is not None:
            return reason
        if self.per_column:
            for b in model.joint.blocks:
                if (
                    isinstance(b.prior, ScaleMixture)
                    and getattr(b.prior.base, "precision_matrix", None) is not None
                ):
                    return f"evidence with per_column=True needs a prior of independent columns, and {b.prior.name} correlates them"
        problem = EvidenceProblem(model, self.per_column)
        if self.criterion == "ML" and problem.moving and not problem.exact:
            return "evidence with criterion='ML' cannot estimate the length of a process with this likelihood: fix it, or use 'REML'"
        if self._by_arrow(problem):
            return None
        if (
            self.method == "auto"
            and model.likelihood.least_squares
            and not model.design.recipe.processes
        ):
            return None  # normal priors at known scales with a known sigma have a closed form
        return self._inner.obstacle(problem.starting_model)

    def _by_arrow(self, problem: EvidenceProblem) -> bool:
        """Whether the coefficients at the estimated scales are solved by group, because
        matrices over all of them are large."""
        max_together = 1000  # coefficients above which they are solved by group
        model = problem.model
        many = (
            model.design.X.size > SIZE_OF_SECOND_PASS
            or model.n_coefficients > max_together
        )
        large = model.design.is_lazy or not model.design.n or many
        mode = self.method in ("auto", "closed_form", "newton")
        return large and mode and not self.per_column and problem.by_groups

    def resolve(self, model: Model, rng: Generator) -> Resolved:
        unidentified = self._unidentified(model)
        if unidentified and model.likelihood.least_squares:
            raise Incompatible(
                f"{self.name}: {unidentified[0]}; drop the term, fix {model.noise_scale}, or give one of them a proper prior"
            )
        if self.criterion == "REML":
            for term in model.design.recipe.grouped.values():
                repeated = explain_repeated(model, term)
                if repeated is not None:
                    raise Incompatible(
                        f"{self.name}: {repeated}; leave out one of the two, or give the standard deviation a proper prior"
                    )
        problem = self._problem(model)
        problem.require_solvable()
        separation = problem.separation
        if not separation:
            try:
                top = problem.maximise(self.max_steps)
            except (NoMode, NotConverged):
                separation = separation_by_block(model)[0]
                if not separation:  # likelihoods without an exact check may diverge too
                    resolved = self._resolve_at_start(problem, rng)
                    if resolved.solve(rng).status is not Status.NO_MAXIMUM:
                        raise
                    return resolved
            else:
                return self._resolve_maximum(problem, top, rng)
        if separation.kind == "complete" or problem.moving:
            # the rows do not identify the scales, or are anchors of a process
            return self._resolve_at_start(problem, rng)
        return self._resolve_separated(problem, separation, rng)

    def _resolve_at_start(self, problem: EvidenceProblem, rng: Generator) -> Resolved:
        """Return the fit at the first scales of the search, which reports that coefficients have no estimate."""
        inner = self._inner.resolve(problem.starting_model, rng)
        return inner._replace(solution=inner.solve(rng))

    def _problem(self, model: Model) -> EvidenceProblem:
        return EvidenceProblem(
            model, self.per_column, criterion=self.criterion, points=self.points
        )

    def _unidentified(self, model: Model) -> list[str]:
        """Return why the scales of some effects are not identified."""
        reasons = (
            explain_unidentified(model, t) for t in model.design.recipe.grouped.values()
        )
        return [reason for reason in reasons if reason is not None]

    def _resolve_separated(
        self, problem: EvidenceProblem, separation: Separation, rng: Generator
    ) -> Resolved:
        """Return the estimates if flat columns separate the response: they are the estimates of the limit of the likelihood, far
        along the direction of the separation."""
        far = 30.0  # least increase of a separated predictor: exp(-30) is 1e-13
        model = problem.model
        fixed = fixed_coefficients(model, separation, None)
        is_shared = (fixed.any(1) == fixed.all(1)).all()  # by all predictors
        if (
            separation.direction is None
            or separation.separated_rows is None
            or not is_shared
        ):
            raise Incompatible(
                f"{self.name}: {separation.status.describe(separation.detail)}"
            )
        limit = self._problem(limit_of_separation(model, separation))
        top = limit.maximise(self.max_steps)
        inner = self._resolve_maximum(limit, top, rng)
        solution = inner.solve(rng)
        assert solution.scale is not None
        missing = fixed | marks_by_predictor(separation.not_estimable, model.shape[1])
        solution = replace(
            solution,
            beta=solution.beta
            + far / smallest_increase(model, separation) * separation.direction,
            scale=solution.scale.without_errors_of(missing.ravel()),
            status=separation.status,
            detail=separation.detail,
            not_estimable=separation.not_estimable,
            stats={**solution.stats, "n": model.design.total},
        )
        scales = inner.found
        if scales is not None:
            scales = replace(scales, stated=model, separated=True)
        return inner._replace(
            model=problem.model_at(top.theta), solution=solution, found=scales
        )

    def _resolve_maximum(
        self, problem: EvidenceProblem, top: EvidenceMaximum, rng: Generator
    ) -> Resolved:
        """Return the model and method at the maximum of the evidence."""
        inner = self._resolve_at(problem, top.theta, rng)
        if top.rising:
            names = ", ".join(problem.names[j] for j in top.rising)
            detail = f"the evidence increases with {names} without bound, because the function separates the classes, or a process is close to a straight line"
            solution = replace(
                inner.solve(rng),
                status=Status.SCALE_AT_INFINITY,
                detail=detail,
            )
            inner = inner._replace(solution=solution)
        # a likelihood at estimated coefficients must not be compared with evidences
        if self.criterion == "ML":
            stat = "log_likelihood_of_scales"
        else:
            stat = "log_evidence"
        found_scales = problem.found(top)
        # with Gaussian noise and only scales of effects by group unknown, errors are
        # conditional, as in REML
        effects_alone = (
            problem.exact
            and bool(problem.model.design.recipe.grouped)
            and problem.has_effects_alone
        )
        joint = inner.method.target == "mode" and not (effects_alone or top.rising)
        if found_scales is None:
            joint = False
        elif joint:
            found_scales = replace(found_scales, joint_of=joint_covariance)
        unidentified = self._unidentified(problem.model)
        return inner._replace(
            notes=(
                *[important_note(Topic.SCALES, text) for text in unidentified],
                *problem.notes(top, joint),
                *inner.notes,
            ),
            stats={
                stat: top.at.evidence,
                "ratios_found": float(problem.ratios_found),
                **inner.stats,
            },
            found=found_scales,
        )

    def _resolve_at(
        self, problem: EvidenceProblem, theta: Array, rng: Generator
    ) -> Resolved:
        """Return the model and method at scales theta, with the solution if the surface computed it."""
        model = problem.model_at(theta)
        if self._by_arrow(problem):
            beta, scale = problem.surface.estimate(theta)
            note = routine_note(
                Topic.STANDARD_ERRORS,
                "coefficients are estimated group by group, and their covariance is not formed",
            )
            solution = Solution(
                beta,
                scale,
                status=Status.CONVERGED,
                stats={"n": model.design.total},
                notes=(note,),
            )
            solver = METHODS.resolve("closed_form" if problem.exact else "newton")
            return Resolved(model, solver, solution=solution)
        inner = self._inner.resolve(model, rng)
        is_restricted = self.criterion == "REML"
        if inner.method.target != "mode" or problem.exact:
            return inner
        if is_restricted and (inner.method != Newton() or problem.moving):
            return inner
        # flat coefficients maximise the likelihood of scales
        beta, scale = problem.surface.estimate(theta)
        one = np.ones((len(beta), 1))
        unit = transfer_coefficients(one, problem.model.design, model.design)[:, 0]
        beta = unit[:, None] * beta
        if inner.method == Newton():
            # another start may lead to another mode than the mode of the evidence
            near = Newton(start=beta)  # type: ignore[arg-type]
            inner = inner._replace(solution=near.solve(inner.model, rng))
        if is_restricted:
            return inner
        if (unit != 1.0).any():
            entries = np.repeat(unit, model.shape[1])[:, None]
            scale = DenseCovariance.of_raw_root(
                model.design.frame, model.shape[1], entries * scale.raw_root()
            )
        solution = replace(inner.solve(rng), beta=beta, scale=scale)
        return inner._replace(solution=solution)

    def solve(self, model: Model, rng: Generator) -> Solution:
        return self.resolve(model, rng).complete(rng)


def scales_obstacle(method: Method, model: Model, does: str) -> str | None:
    """Return why the evidence is not a smooth function of the logs of unknown scales,
    for a method that `does` something with them."""
    blocks = model.joint.blocks
    gaussian = model.likelihood.least_squares
    if not isinstance(model.likelihood, SmoothLikelihood):
        return f"{method.name} needs a smooth likelihood, and {model.likelihood.name} is not one"
    if not model.likelihood.curvature_has_slope:
        return f"{method.name} needs a differentiable second derivative of log p, and {model.likelihood!r} has none at y = eta; use nuts"
    sigma_alone = (
        does == "finds"
        and gaussian
        and model.noise_unknown
        and model.joint.informative.any()
    )
    if not sigma_alone and not model.joint.hierarchical:
        return (
            f"{method.name} {does} unknown prior scales, and this model has none; use a prior such as Normal(Reference()) or "
            "Normal(HalfNormal(1.0))"
        )
    reason = bounded_aux(method, model)
    if reason is not None:
        return reason
    for b in blocks:
        reason = _prior_obstacle(method, model, b)
        if reason is not None:
            return reason
    return None


def _prior_obstacle(method: Method, model: Model, block: BlockPrior) -> str | None:
    """Return why the evidence is not a smooth function because of one prior."""
    prior = block.prior
    gaussian = model.likelihood.least_squares
    kind, word = (GaussianPrior, "normal") if gaussian else (SmoothPrior, "smooth")
    if not isinstance(prior, HierarchicalPrior):
        if isinstance(prior, kind):
            return None
        return f"{method.name} needs the other priors to be {word} with {model.likelihood.named} likelihood, and {prior.name} is not"
    if not (isinstance(prior, LatentPrior) and prior.normal):
        return f"{method.name} needs unknown scales to be those of normal priors, and this model has {prior.name}; use nuts"
    if isinstance(prior, VaryingEffects) and not (
        prior.diagonal or gaussian or model.design.n
    ):
        return f"{method.name} of correlated effects, such as (x | g), needs a Gaussian likelihood or rows in memory: write (x || g) for independent effects, or fit a table in memory"
    for name, hyper in prior.hyper.items():
        if hyper.prior.has_bounded_support:
            scale_name = "a scale" if name == "tau" else name
            return f"{method.name} searches for a zero of the gradient, and the {hyper.prior.name} prior of {scale_name} has bounded support; use nuts"
    if gaussian:
        return None
    if prior.sigma_units:
        return f"{method.name} with this likelihood needs prior scales that are not in units of sigma"
    return None
