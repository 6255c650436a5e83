"""The No-U-Turn sampler on one of two densities.

The compiled engine uses the densities of likelihood and priors (see `log_density`). If
all of them are compiled, so is the sampler (`trajectory`, `chains`); otherwise nutpie
samples. The other engine is PyMC's model, for likelihoods and priors without a compiled
density, and for comparison: the likelihood and the priors define their PyMC
distributions. Both use coordinates z with beta = centre + A z that make the posterior
nearly round (the mode and its curvature, or the triangular factor of the rows for a
Gaussian model), so a short warm-up is enough. A Gaussian likelihood uses its sufficient
statistics: ||y - X beta||^2 = RSS + ||R beta - Q'y||^2, at a cost independent of the
number of rows.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from probreg.arguments.scalars import Count, Flag, Fraction, check_fields
from probreg.errors import Incompatible, ProbregError
from probreg.inference.base import (
    METHODS,
    Array,
    Draws,
    Method,
    Solution,
    Status,
    improper_aux,
    log_names,
    sigma_note,
    with_proper_correlations,
)
from probreg.inference.covariance import DenseCovariance
from probreg.inference.modes.closed_form import (
    PriorRows,
    posterior_given_sigma,
    require_full_rank,
)
from probreg.inference.modes.existence import Divergence, multimodality_cause
from probreg.inference.modes.newton import check_divergence, find_mode
from probreg.inference.modes.peaks import (
    SHARE,
    Peak,
    describe_modes,
    find_peaks,
    probability_shares,
)
from probreg.inference.modes.separation import separation
from probreg.inference.notes import Note, Topic, important_note, routine_note
from probreg.inference.sampling import pymc_engine
from probreg.inference.sampling.affine_density import affine_density, compiled_whole
from probreg.inference.sampling.group_density import GroupDensity
from probreg.inference.sampling.log_density import (
    ReparameterisedDensity,
    compiled_obstacle,
)
from probreg.inference.sampling.reparameterisation import AffineMap, proxy_prior
from probreg.inference.sampling.sampler import (
    Density,
    SamplerOutput,
    SamplerSettings,
    density_of,
    sample,
)
from probreg.inference.sampling.working import with_corrected_intervals
from probreg.likelihoods import SmoothLikelihood
from probreg.model.model import Model
from probreg.priors import HierarchicalPrior, SmoothPrior
from probreg.priors.joint import PENALTY_OF_CLASSES
from probreg.system.interrupts import Interrupts
from probreg.system.terminal import percent

_TUNE = {"compiled": 300, "pymc": 400}
Engine = Literal["auto", "compiled", "pymc"]


@METHODS.register
@dataclass(frozen=True)
class NUTS(Method):
    """Draws of p(beta, aux | y) by Hamiltonian Monte Carlo, for any likelihood and any prior.

    A flat prior is allowed if the posterior is proper. The status of the fit reports
    divergent steps, and chains that disagree or are too short (see `convergence`).

    Parameters
    ----------
    draws : int
        Draws of each chain.
    tune : int, optional
        Warm-up steps of each chain; by default 300 with the compiled engine, 400 with
        PyMC's.
    chains : int
        Number of Markov chains.
    target_accept : float
        Target for the mean acceptance probability in the adaptation of the step size,
        between 0 and 1. A higher value gives shorter steps, fewer divergences and
        longer runs.
    progress : bool, optional
        Whether to show a bar; by default after a second, at a terminal or in a
        notebook.
    engine : {"auto", "compiled", "pymc"}
        "compiled" is the compiled density of this package, "pymc" the graph of
        `to_pymc`. "auto" uses the compiled one if likelihood and priors have compiled
        densities; a note gives the choice and its reason.

    References
    ----------
    Hoffman & Gelman 2014.

    Examples
    --------
    >>> from probreg.priors import Laplace
    >>> model = Model.from_arrays([0.0, 0.0, 1.0, 1.0], [0, 1, 1, 1], likelihood="bernoulli")
    >>> NUTS(engine="compiled").obstacle(model.with_prior({"x1": Laplace(1.0)}))
    'nuts: the compiled engine cannot sample this model: the laplace prior of x1 has no compiled density'
    """

    draws: Count = 1000
    tune: Count | None = None
    chains: Count = 4
    target_accept: Fraction = 0.9
    progress: Flag | None = None
    engine: Engine = "auto"

    name = "nuts"
    target = "posterior"
    makes_chains = True

    def __post_init__(self) -> None:
        check_fields(self)

    def obstacle(self, model: Model) -> str | None:
        if model.joint.contrast is not None:
            return f"nuts: {PENALTY_OF_CLASSES}"
        reason = improper_aux(self, model)
        if reason is not None:
            return reason
        missing = compiled_obstacle(model)
        if missing is not None and self.engine == "compiled":
            return f"nuts: the compiled engine cannot sample this model: {missing}"
        if not model.design.n and not model.likelihood.least_squares:
            return f"nuts evaluates the rows at every step, and {model.design.rows_absent}; use laplace or importance"
        for b in model.joint.blocks:
            if isinstance(b.prior, HierarchicalPrior) and not b.prior.proper:
                columns = model.design.called(b.columns)
                return (
                    f"nuts: the scale of {columns} has an improper prior, so the posterior is improper. Give a "
                    "proper one such as Normal(HalfNormal(1.0)), or use evidence, which takes its most probable value"
                )
        return None

    def solve(self, model: Model, rng: np.random.Generator) -> Solution:
        model, notes = with_proper_correlations(model)
        solution = self._solution(model, rng)
        if notes:
            return replace(solution, notes=(*notes, *solution.notes))
        return solution

    def _solution(self, model: Model, rng: np.random.Generator) -> Solution:
        _require_proper(model)
        engine, choice = self._engine(model)
        if self.tune is None:
            tune = _TUNE[engine]
        else:
            tune = self.tune
        seed = int(rng.integers(2**31))
        with (
            Interrupts() as interrupts
        ):  # from here on: creating a graph runs many destructors
            if engine == "compiled":
                densities, notes = _compiled_densities(model)
            else:
                densities, notes = _by_pymc(model, choice)
            run = SamplerSettings(
                seed, self.draws, tune, self.chains, self.target_accept, self.progress
            )
            output = _sample_all(densities, run, interrupts)
        return with_corrected_intervals(
            model, _solution(model, output, engine, (choice, *notes))
        )

    def _engine(self, model: Model) -> tuple[str, Note]:
        """Return the engine and a note on the choice."""
        if self.engine != "auto":
            return self.engine, _engine_note(self.engine, ", as requested")
        missing = compiled_obstacle(model)
        if missing is None:
            return "compiled", _engine_note("compiled")
        return "pymc", _engine_note("pymc", f": {missing}")


def _engine_note(engine: str, reason: str = "") -> Note:
    return routine_note(
        Topic.SAMPLING,
        "sampled by the {engine}{reason}",
        engine=_WORDS[engine],
        reason=reason,
    )


_WORDS = {
    "compiled": "compiled engine, on the densities of this package",
    "pymc": "engine of PyMC's graph",
}


def _solution(
    model: Model, output: SamplerOutput, engine: str, notes: tuple[Note, ...]
) -> Solution:
    draws: dict[str, Array] = {a: output.posterior[a] for a in ("beta", *model.unknown)}
    beta = draws["beta"].reshape(-1, *model.shape)
    if model.unknown:
        log_aux = np.log(np.stack([draws[a].ravel() for a in model.unknown], 1))
    else:
        log_aux = None
    shared, local = pymc_engine.hyper_draws(model, output.posterior)
    return Solution(
        beta=beta.mean(0),
        scale=DenseCovariance.of_sample(
            model.design.frame, beta, log_aux, log_names(model)
        ),
        aux={a: float(draws[a].mean()) for a in model.unknown},
        aux_sd={a: float(draws[a].std()) for a in model.unknown},
        draws=Draws(
            draws | shared | local, output.stats, hyper=tuple(shared), engine=engine
        ),
        status=Status.SAMPLED,
        notes=(
            *sigma_note(model, routine_note(Topic.SIGMA, "sigma is sampled with beta")),
            *notes,
        ),
    )


def _sample_all(
    densities: Sequence[Density], run: SamplerSettings, interrupts: Interrupts
) -> SamplerOutput:
    """Sample one density, or the same density in several coordinates, which chains use
    in turn."""
    if len(densities) == 1:
        return sample(densities[0], run, interrupts)
    parts = [
        sample(
            densities[c % len(densities)],
            replace(run, seed=run.seed + c, chains=1),
            interrupts,
        )
        for c in range(run.chains)
    ]
    return SamplerOutput(
        *(
            {name: np.concatenate([p[i][name] for p in parts]) for name in parts[0][i]}
            for i in (0, 1)
        )
    )


def _compiled_densities(model: Model) -> tuple[list[Density], tuple[Note, ...]]:
    """Return the compiled density, in coordinates about each mode if there are several.

    Chains start at draws of the normal approximation if there is one.
    """
    if any(isinstance(b.prior, HierarchicalPrior) for b in model.joint.blocks):
        density, notes = _group_density(model)
        return [density], notes
    modes = _modes(model)
    shares = probability_shares(modes)
    if (shares > SHARE).sum() > 1:
        note = "sampled in coordinates whitened by the curvature at each mode"
        maps = [
            AffineMap(p.centre, p.root, True, note)
            for p, share in zip(modes, shares)
            if share > SHARE
        ]
        densities = [_affine(model, affine) for affine in maps]
    else:
        densities = [_affine(model)]
    affine = densities[0][1]
    remarks = [routine_note(Topic.SAMPLING, affine.note)]
    if modes:
        use = f"chains start in turn at the modes with more than {percent(SHARE)}"
        text: str | None = describe_modes(model, modes, use)
    else:
        text = multimodality_cause(model) if affine.whitened else None
    if text:
        remarks.append(important_note(Topic.MODES, text))
    return [density for density, _ in densities], tuple(remarks)


def _modes(model: Model) -> list[Peak]:
    """Return the modes of a posterior that can have several."""
    if multimodality_cause(model) is None or not model.joint.smooth:
        return []
    try:
        return find_peaks(model, "nuts", tol=1e-7, max_steps=100)
    except (ProbregError, np.linalg.LinAlgError):  # a sampler needs no mode
        return []


def _affine(model: Model, affine: AffineMap | None = None) -> tuple[Density, AffineMap]:
    is_compiled = compiled_whole(
        model
    )  # then compiled code is worth loading for few rows too, because it runs the sampler
    reparameterised = ReparameterisedDensity.of(
        model, affine, compiled=is_compiled or None
    )
    shapes = {"beta": model.shape, **dict.fromkeys(model.unknown, ())}
    size = reparameterised.at.A.shape[1]

    def start(rng: np.random.Generator) -> Array:
        return np.asarray(
            rng.standard_normal(size)
            if reparameterised.at.whitened
            else rng.uniform(-1, 1, size)
        )

    if is_compiled and reparameterised.rows is not None:
        target = affine_density(model, reparameterised.at, reparameterised.rows)
    else:
        target = None
    density = Density(
        size,
        reparameterised.log_prob,
        reparameterised.unfold,
        start,
        shapes,
        reparameterised.compiled,
        target,
        reparameterised.at.whitened,
    )
    return density, reparameterised.at


def _group_density(model: Model) -> tuple[Density, tuple[Note, ...]]:
    """The same for a model with effects by group and unknown covariance."""
    density = GroupDensity.of(model)
    names = [name for b in density.blocks for name in b.names]
    shapes = {"beta": model.shape, **dict.fromkeys((*model.unknown, *names), ())}
    notes = tuple(
        routine_note(Topic.SAMPLING, text)
        for text in (density.at.note, *density.at.words)
    )
    return Density(
        density.size,
        density.log_prob,
        density.unfold,
        density.start,
        shapes,
        density.compiled,
    ), notes


def _by_pymc(model: Model, reason: Note) -> tuple[list[Density], tuple[Note, ...]]:
    """Return PyMC's graph; the first import of PyMC takes seconds, so a terminal shows
    a message."""
    if "pymc" not in sys.modules and sys.stderr.isatty():
        print(f"probreg: {reason}; loading PyMC", file=sys.stderr)  # noqa: T201  progress, at a terminal only
    graph, notes = pymc_engine.build_graph(model)
    return [density_of(graph)], notes


def _require_proper(model: Model) -> None:
    """Raise Incompatible if the posterior is improper: columns without an estimate or
    prior, separation, or a noise scale that goes to zero. A sampler would not converge,
    but return draws."""
    moments = model.design.moments
    require_full_rank(
        posterior_given_sigma(
            moments, PriorRows.of(replace(model, prior=proxy_prior(model)).joint), 1.0
        ),
        model,
        "nuts",
    )
    separated = separation(model)
    if separated:
        raise Incompatible(
            f"nuts: the posterior is improper: {separated.kind} separation by {', '.join(separated.labels)}, with flat priors; "
            "give these columns a proper prior such as Normal(2.5)"
        )
    if (
        separated.kind == "unknown"
        and (divergence := _find_divergence(model)) is not None
    ):
        raise Incompatible(
            f"nuts: the posterior is improper: {divergence.words}, with a flat prior; give a proper one such as Normal(2.5)"
        )


def _find_divergence(model: Model) -> Divergence | None:
    """Return the divergence of Newton's search, for a smooth likelihood without a
    recession cone."""
    if not isinstance(model.likelihood, SmoothLikelihood) or not model.joint.of_kind(
        SmoothPrior
    ):
        return None
    mode = find_mode(model)
    divergence = check_divergence(model, mode.gamma, mode.log_aux, mode.local)
    if divergence is not None and divergence.not_estimable.any():
        return divergence
    return None
