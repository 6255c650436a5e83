"""The No-U-Turn sampler on the compiled density of a model (see `density`).

If all parts of the density are compiled, no step needs the interpreter. The coordinates
make the posterior nearly round (the mode and its curvature, or the triangular factor of
the rows for a Gaussian model), so a short warm-up is enough. Models without a compiled
density are sampled by PyMC.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator

from probreg.arguments.scalars import Count, Flag, Fraction
from probreg.errors import Incompatible, ProbregError
from probreg.inference.base import (
    METHODS,
    Array,
    Draws,
    Method,
    Resolved,
    Solution,
    Status,
    coefficients_of_reported,
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
from probreg.inference.modes.existence import (
    Divergence,
    find_divergence,
    multimodality_cause,
)
from probreg.inference.modes.newton import find_mode
from probreg.inference.modes.peaks import (
    SHARE,
    Peak,
    describe_modes,
    find_peaks,
    probability_shares,
)
from probreg.inference.modes.separation import separation
from probreg.inference.obstacles import improper_aux, improper_scales
from probreg.inference.sampling.chains import (
    SamplerOutput,
    SamplerSettings,
    sample,
)
from probreg.inference.sampling.density import SampledDensity, compiled_obstacle
from probreg.inference.sampling.laplace import with_corrected_intervals
from probreg.inference.sampling.reparameterisation import (
    Reparameterisation,
    reparameterise,
    with_proxy_priors,
)
from probreg.inference.status import Note, Topic, important_note, routine_note
from probreg.likelihoods import SmoothLikelihood
from probreg.linalg import threads
from probreg.model.model import Model
from probreg.model.term_priors import hyper_names, plain_name
from probreg.priors import SmoothPrior
from probreg.priors.joint import PENALTY_OF_CLASSES
from probreg.system.memory import Interrupts
from probreg.system.terminal import percent, progress_bar


@METHODS.register
@dataclass(frozen=True)
class NUTS(Method):
    """Draws of p(beta, aux | y) by Hamiltonian Monte Carlo, for any likelihood and any prior.

    A likelihood or prior without a compiled density is sampled by PyMC, with a note.
    A flat prior is allowed if the posterior is proper. The status of the fit reports
    divergent steps, and chains that disagree or are too short (see `convergence`).

    Parameters
    ----------
    draws : int
        Draws of each chain.
    tune : int
        Warm-up steps of each chain.
    chains : int
        Number of Markov chains.
    target_accept : float
        Target for the mean acceptance probability in the adaptation of the step size,
        between 0 and 1. A higher value gives shorter steps, fewer divergences and
        longer runs.
    progress : bool, optional
        Whether to show a bar; by default after a second, at a terminal or in a
        notebook.

    References
    ----------
    Hoffman & Gelman 2014.

    Examples
    --------
    >>> model = Model.from_arrays([0.0, 0.0, 1.0, 1.0], [0, 1, 1, 1], likelihood="bernoulli", prior="normal(1)")
    >>> NUTS(draws=50).solve(model, np.random.default_rng(0)).draws["beta"].shape
    (4, 50, 2, 1)
    """

    draws: Count = 1000
    tune: Count = 300
    chains: Count = 4
    target_accept: Fraction = 0.9
    progress: Flag | None = None

    name = "nuts"
    target = "posterior"
    makes_chains = True

    def obstacle(self, model: Model) -> str | None:
        if model.joint.contrast is not None:
            return f"{self.name}: {PENALTY_OF_CLASSES}"
        reason = improper_aux(self, model)
        if reason is not None:
            return reason
        if not model.design.n and compiled_obstacle(model) is not None:
            return f"{self.name} evaluates the rows at every step, and {model.design.rows_absent}; use laplace or importance"
        return improper_scales(self, model)

    def resolve(self, model: Model, rng: Generator) -> Resolved:
        missing = compiled_obstacle(model)
        if missing is None:
            return super().resolve(model, rng)
        resolved = self.by_pymc.resolve(model, rng)
        note = important_note(Topic.SAMPLING, f"sampled by PyMC: {missing}")
        return resolved._replace(notes=(*resolved.notes, note))

    @property
    def by_pymc(self) -> "PyMC":
        """PyMC's sampler with these settings, and at least its default warm-up steps."""
        tune = max(self.tune, PyMC.tune)
        return PyMC(self.draws, tune, self.chains, self.target_accept, self.progress)

    def solve(self, model: Model, rng: Generator) -> Solution:
        if compiled_obstacle(model) is not None:
            return self.by_pymc.solve(model, rng)
        model, notes = with_proper_correlations(model)
        _require_proper(model, self.name)
        seed = int(rng.integers(2**31))
        with Interrupts() as interrupts:
            densities, remarks = _densities(model)
            run = SamplerSettings(
                seed, self.draws, self.tune, self.chains, self.target_accept, self.progress
            )  # fmt: skip
            output = sample(densities, run, interrupts)
        return _solution(model, output, (*notes, *remarks))


@METHODS.register
@dataclass(frozen=True)
class PyMC(NUTS):
    """Draws of p(beta, aux | y) by `pm.sample` on the model of `to_pymc`, with nutpie's NUTS.

    PyMC compiles each model, which takes about ten seconds.

    Parameters
    ----------
    draws : int
        Draws of each chain.
    tune : int
        Warm-up steps of each chain.
    chains : int
        Number of Markov chains.
    target_accept : float
        Target for the mean acceptance probability, between 0 and 1.
    progress : bool, optional
        Whether to show progress bars; True adds PyMC's bar. By default they appear after a
        second, in a terminal or in a notebook.

    References
    ----------
    Abril-Pla et al. 2023.

    Examples
    --------
    >>> PyMC(draws=500, chains=2).tune
    1000
    """

    tune: Count = 1000

    name = "pymc"

    def obstacle(self, model: Model) -> str | None:
        reason = super().obstacle(model)
        if reason is None and not model.design.n:
            return f"pymc: {model.design.rows_absent}"
        return reason

    def resolve(self, model: Model, rng: Generator) -> Resolved:
        return Method.resolve(self, model, rng)

    def solve(self, model: Model, rng: Generator) -> Solution:
        import pymc as pm

        model, notes = with_proper_correlations(model)
        _require_proper(model, self.name)
        bar = progress_bar("compilation and draws by PyMC", show=self.progress)
        with Interrupts(), bar, model.to_pymc():
            tree: Any = pm.sample(
                self.draws, tune=self.tune, chains=self.chains, cores=threads(), random_seed=int(rng.integers(2**31)),
                progressbar=bool(self.progress), quiet=not self.progress, nuts_sampler="nutpie",
                compute_convergence_checks=False,
                nuts={"adaptation": "low_rank", "target_accept": self.target_accept},
            )  # fmt: skip
        posterior = {name: v.to_numpy() for name, v in tree["posterior"].items()}
        posterior["beta"] = coefficients_of_reported(model, posterior["beta"])
        statistics = {
            ours: tree["sample_stats"][theirs].to_numpy()
            for theirs, ours in _STATISTICS.items()
        }
        return _solution(model, SamplerOutput(posterior, statistics), notes)


# Names of statistics in nutpie, and in ArviZ.
_STATISTICS = {
    "diverging": "diverging",
    "energy": "energy",
    "depth": "tree_depth",
    "maxdepth_reached": "reached_max_treedepth",
    "n_steps": "n_steps",
    "step_size_bar": "step_size",
    "mean_tree_accept": "acceptance_rate",
    "logp": "lp_unconstrained",
}


def _solution(model: Model, output: SamplerOutput, notes: tuple[Note, ...]) -> Solution:
    """Return the solution of draws of every parameter."""
    shared, local = hyper_draws(model, output.posterior)
    sampled = {a: output.posterior[a] for a in ("beta", *model.unknown)}
    # contiguous, so that sums do not depend on how the sampler stores draws
    draws = {
        name: np.ascontiguousarray(v) for name, v in (sampled | shared | local).items()
    }
    beta = draws["beta"].reshape(-1, *model.shape)
    log_aux = None
    if model.unknown:
        log_aux = np.log(np.stack([draws[a].ravel() for a in model.unknown], 1))
    solution = Solution(
        beta=beta.mean(0),
        scale=DenseCovariance.of_sample(
            model.design.frame, beta, log_aux, log_names(model)
        ),
        aux={a: float(draws[a].mean()) for a in model.unknown},
        draws=Draws(draws, output.stats, hyper=tuple(shared)),
        status=Status.SAMPLED,
        notes=(
            *sigma_note(model, routine_note(Topic.SIGMA, "sigma is sampled with beta")),
            *notes,
        ),
    )
    return with_corrected_intervals(model, solution)


def hyper_draws(
    model: Model, posterior: Mapping[str, Array]
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Return draws (chain, draw) of the hyperparameters of blocks, and of the hyperparameters
    of single coefficients, such as `lambda[x]`."""
    shared: dict[str, Array] = {}
    local: dict[str, Array] = {}
    for i, names in hyper_names(model.joint, model.design).items():
        block: Any = model.joint.blocks[i]
        outcome = "" if block.predictor is None else f"[{block.outcome}]"
        for k, name in names.items():
            values = posterior[name]
            if not block.prior.hyper[k].each:
                shared[name] = values
                continue
            for place, j in enumerate(block.columns):
                label = plain_name(model.design.columns[j])
                local[f"{k}[{label}]{outcome}"] = values[..., place]
    return shared, local


def _densities(model: Model) -> tuple[list[SampledDensity], tuple[Note, ...]]:
    """Return the compiled density, in coordinates about each mode if there are several.

    Chains start at draws of the normal approximation if there is one.
    """
    modes = _modes(model)
    shares = probability_shares(modes)
    if (shares > SHARE).sum() > 1:
        note = "sampled in coordinates whitened by the curvature at each mode"
        maps = [
            Reparameterisation(p.centre, p.root, True, (note,))
            for p, share in zip(modes, shares)
            if share > SHARE
        ]
    else:
        maps = [reparameterise(model)]
    remarks = [routine_note(Topic.SAMPLING, note) for note in maps[0].notes]
    if modes:
        use = f"chains start in turn at the modes with more than {percent(SHARE)}"
        text: str | None = describe_modes(model, modes, use)
    else:
        text = multimodality_cause(model) if maps[0].whitened else None
    if text:
        remarks.append(important_note(Topic.MODES, text))
    return [SampledDensity.of(model, at) for at in maps], tuple(remarks)


def _modes(model: Model) -> list[Peak]:
    """Return the modes of a posterior that can have several."""
    if multimodality_cause(model) is None or not model.joint.smooth:
        return []
    try:
        return find_peaks(model, "nuts", tol=1e-7, max_steps=100)
    except (ProbregError, np.linalg.LinAlgError):  # a sampler needs no mode
        return []


def _require_proper(model: Model, method: str) -> None:
    """Raise Incompatible if the posterior is improper: columns without an estimate or
    prior, separation, or a noise scale that goes to zero. A sampler would not converge,
    but return draws."""
    moments = model.design.moments
    require_full_rank(
        posterior_given_sigma(
            moments, PriorRows.of(with_proxy_priors(model).joint), 1.0
        ),
        model,
        method,
    )
    separated = separation(model)
    if separated:
        raise Incompatible(
            f"{method}: the posterior is improper: {separated.kind} separation by {', '.join(separated.labels)}, with flat priors; "
            "give these columns a proper prior such as Normal(2.5)"
        )
    if (
        separated.kind == "unknown"
        and (divergence := _find_divergence(model)) is not None
    ):
        raise Incompatible(
            f"{method}: the posterior is improper: {divergence.detail}, with a flat prior; give a proper one such as Normal(2.5)"
        )


def _find_divergence(model: Model) -> Divergence | None:
    """Return the divergence of Newton's search, for a smooth likelihood without a
    recession cone."""
    if not isinstance(model.likelihood, SmoothLikelihood) or not model.joint.of_kind(
        SmoothPrior
    ):
        return None
    mode = find_mode(model)
    divergence = find_divergence(model, mode.gamma, mode.log_aux, mode.local)
    if divergence is not None and divergence.not_estimable.any():
        return divergence
    return None
