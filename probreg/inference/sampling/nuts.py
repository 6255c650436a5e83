"""The No-U-Turn sampler on one of two densities.

The compiled engine is made from the densities of likelihood and priors (see `log_density`); where all of them are compiled, so is the
sampler (`trajectory`, `chains`), and else nutpie's samples. The other density is PyMC's model, for what has no density, and to judge by: the likelihood and the priors each name their PyMC distribution. Both are written in
coordinates z with beta = centre + A z that make the posterior nearly round (the mode and its curvature, or the
triangular factor of the rows for a Gaussian model), so that short tuning suffices. A Gaussian likelihood enters through
its sufficient statistics: ||y - X beta||^2 = RSS + ||R beta - Q'y||^2, at a cost that does not grow with the rows.
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
    improper,
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

    A flat prior is allowed where the posterior is proper. Divergent steps, and chains that disagree
    or are too short, are the status of the fit, never hidden (see `convergence`).

    Parameters
    ----------
    draws : int
        Draws of each chain.
    tune : int, optional
        Steps of adaptation of each chain; 300 with the compiled engine, 400 with PyMC's, unless given.
    chains : int
        Number of Markov chains.
    target_accept : float
        Mean acceptance probability that the adaptation of the step size aims at, between 0 and 1. A higher value means
        shorter steps, fewer divergences and more time.
    progress : bool, optional
        Whether a bar is shown; by default after a second, at a terminal or in a notebook.
    engine : {"auto", "compiled", "pymc"}
        "compiled" is the compiled density of this package, "pymc" the graph of `to_pymc`. "auto" takes the compiled one
        where likelihood and priors carry compiled densities, and says which and why.

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
        why = improper(self, model)
        if why is not None:
            return why
        missing = compiled_obstacle(model)
        if missing is not None and self.engine == "compiled":
            return f"nuts: the compiled engine cannot sample this model: {missing}"
        if not model.design.n and not model.likelihood.least_squares:
            return f"nuts passes over the rows at every step, and {model.design.rows_absent}; use laplace or importance"
        for b in model.joint.blocks:
            if isinstance(b.prior, HierarchicalPrior) and not b.prior.proper:
                columns = model.design.called(b.columns)
                return (
                    f"nuts: the scale of {columns} has an improper prior, under which the posterior has no finite mass. Give a "
                    "proper one such as Normal(HalfNormal(1.0)), or use evidence, which takes its most probable value"
                )
        return None

    def solve(self, model: Model, rng: np.random.Generator) -> Solution:
        model, said = with_proper_correlations(model)
        found = self._solution(model, rng)
        if said:
            return replace(found, notes=(*said, *found.notes))
        return found

    def _solution(self, model: Model, rng: np.random.Generator) -> Solution:
        _proper(model)
        engine, why = self._engine(model)
        if self.tune is None:
            tune = _TUNE[engine]
        else:
            tune = self.tune
        seed = int(rng.integers(2**31))
        with (
            Interrupts() as interrupts
        ):  # from here on: making a graph runs many destructors
            if engine == "compiled":
                densities, notes = _native(model)
            else:
                densities, notes = _by_pymc(model, why)
            run = SamplerSettings(
                seed, self.draws, tune, self.chains, self.target_accept, self.progress
            )
            drawn = _sample_all(densities, run, interrupts)
        return with_corrected_intervals(
            model, _solution(model, drawn, engine, (why, *notes))
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
    model: Model, drawn: SamplerOutput, engine: str, notes: tuple[Note, ...]
) -> Solution:
    draws: dict[str, Array] = {a: drawn.posterior[a] for a in ("beta", *model.unknown)}
    beta = draws["beta"].reshape(-1, *model.shape)
    if model.unknown:
        log_aux = np.log(np.stack([draws[a].ravel() for a in model.unknown], 1))
    else:
        log_aux = None
    shared, local = pymc_engine.hyper_draws(model, drawn.posterior)
    return Solution(
        beta=beta.mean(0),
        scale=DenseCovariance.of_sample(
            model.design.frame, beta, log_aux, log_names(model)
        ),
        aux={a: float(draws[a].mean()) for a in model.unknown},
        aux_sd={a: float(draws[a].std()) for a in model.unknown},
        draws=Draws(
            draws | shared | local, drawn.stats, hyper=tuple(shared), engine=engine
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
    """Draws of one density, or of the same one in several coordinates, which chains take in turn."""
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


def _native(model: Model) -> tuple[list[Density], tuple[Note, ...]]:
    """The compiled density, in coordinates about each mode where there are several; chains start at draws of the normal
    approximation where there is one."""
    if any(isinstance(b.prior, HierarchicalPrior) for b in model.joint.blocks):
        density, notes = _native_by_groups(model)
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
        made = [_affine(model, at) for at in maps]
    else:
        made = [_affine(model)]
    at = made[0][1]
    remarks = [routine_note(Topic.SAMPLING, at.note)]
    if modes:
        use = f"chains start in turn at those with more than {percent(SHARE)}"
        text: str | None = describe_modes(model, modes, use)
    else:
        text = multimodality_cause(model) if at.whitened else None
    if text:
        remarks.append(important_note(Topic.MODES, text))
    return [density for density, _ in made], tuple(remarks)


def _modes(model: Model) -> list[Peak]:
    """The modes that are found, of a posterior that can have several."""
    if multimodality_cause(model) is None or not model.joint.smooth:
        return []
    try:
        return find_peaks(model, "nuts", tol=1e-7, max_steps=100)
    except (ProbregError, np.linalg.LinAlgError):  # a sampler needs no mode
        return []


def _affine(model: Model, at: AffineMap | None = None) -> tuple[Density, AffineMap]:
    whole = compiled_whole(
        model
    )  # then compiled code is worth loading for a few rows too: it runs the sampler
    found = ReparameterisedDensity.of(model, at, compiled=whole or None)
    shapes = {"beta": model.shape, **dict.fromkeys(model.unknown, ())}
    size = found.at.A.shape[1]

    def start(rng: np.random.Generator) -> Array:
        return np.asarray(
            rng.standard_normal(size) if found.at.whitened else rng.uniform(-1, 1, size)
        )

    if whole and found.rows is not None:
        target = affine_density(model, found.at, found.rows)
    else:
        target = None
    density = Density(
        size,
        found.log_prob,
        found.unfold,
        start,
        shapes,
        found.compiled,
        target,
        found.at.whitened,
    )
    return density, found.at


def _native_by_groups(model: Model) -> tuple[Density, tuple[Note, ...]]:
    """The same of a model with effects by group, their covariance unknown."""
    found = GroupDensity.of(model)
    names = [name for b in found.blocks for name in b.names]
    shapes = {"beta": model.shape, **dict.fromkeys((*model.unknown, *names), ())}
    notes = tuple(
        routine_note(Topic.SAMPLING, text) for text in (found.at.note, *found.at.words)
    )
    return Density(
        found.size, found.log_prob, found.unfold, found.start, shapes, found.compiled
    ), notes


def _by_pymc(model: Model, why: Note) -> tuple[list[Density], tuple[Note, ...]]:
    """PyMC's graph; loading PyMC takes seconds the first time, so that a terminal is told."""
    if "pymc" not in sys.modules and sys.stderr.isatty():
        print(f"probreg: {why}; PyMC is loading", file=sys.stderr)  # noqa: T201  progress, on a terminal alone
    graph, notes = pymc_engine.made(model)
    return [density_of(graph)], notes


def _proper(model: Model) -> None:
    """Incompatible where the posterior has no finite mass: columns without an estimate or prior, separation, or a noise
    scale that runs to zero. A sampler would wander there for ever and call it draws."""
    moments = model.design.moments
    require_full_rank(
        posterior_given_sigma(
            moments, PriorRows.of(replace(model, prior=proxy_prior(model)).joint), 1.0
        ),
        model,
        "nuts",
    )
    found = separation(model)
    if found:
        raise Incompatible(
            f"nuts: the posterior is improper: {found.kind} separation by {', '.join(found.labels)}, whose prior is flat; "
            "give these columns a proper prior such as Normal(2.5)"
        )
    if found.kind == "unknown" and (lost := _runs_away(model)) is not None:
        raise Incompatible(
            f"nuts: the posterior is improper: {lost.words}, with a flat prior; give a proper one such as Normal(2.5)"
        )


def _runs_away(model: Model) -> Divergence | None:
    """Where Newton's search runs to, where the likelihood does not say whether it may and has the derivatives to ask."""
    if not isinstance(model.likelihood, SmoothLikelihood) or not model.joint.of_kind(
        SmoothPrior
    ):
        return None
    mode = find_mode(model)
    lost = check_divergence(model, mode.gamma, mode.log_aux, mode.local)
    if lost is not None and lost.not_estimable.any():
        return lost
    return None
