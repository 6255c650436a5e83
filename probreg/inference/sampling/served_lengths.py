"""Check whether the sine basis of a process covers the sampled lengths."""

from dataclasses import replace

import numpy as np

from probreg.inference.base import Solution
from probreg.inference.notes import Note, Topic, important_note
from probreg.model.hyperparameters import hyper_names
from probreg.model.model import Model
from probreg.model.term_priors import lengths_beyond
from probreg.priors.gaussian_process import SineProcess, is_length


def with_served_lengths(model: Model, solution: Solution) -> Solution:
    """Return the solution with a note for each process that has draws of lengths outside the range of its sine basis."""
    draws = solution.posterior.flat
    notes = list[Note]()
    for i, names in hyper_names(model.joint, model.design).items():
        prior = model.joint.blocks[i].prior
        if not isinstance(prior, SineProcess) or not all(
            label in draws for label in names.values()
        ):
            continue
        lengths = [names[name] for name, _ in prior.unknown if is_length(name)]
        is_outside = lengths_beyond(
            prior.basis, {name: draws[names[name]] for name, _ in prior.unknown}
        )
        if lengths and is_outside.any():
            notes.append(
                important_note(
                    Topic.PRIOR,
                    "{lengths}: {share:.0%} of the draws are outside the range of the sine basis; give a prior with quantiles "
                    "0.01 to 0.99 inside it",
                    lengths=" and ".join(lengths),
                    share=np.mean(is_outside),
                )
            )
    return replace(solution, notes=(*solution.notes, *notes))
