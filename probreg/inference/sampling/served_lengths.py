"""Whether the sines of a process serve the lengths that were drawn for it."""

from dataclasses import replace

import numpy as np

from probreg.inference.base import Solution
from probreg.model.model import Model
from probreg.model.process_bases import lengths_beyond
from probreg.model.pymc_graph import hyper_names
from probreg.priors.gaussian_process import SineProcess, is_length


def with_served_lengths(model: Model, solution: Solution) -> Solution:
    """The solution, with a note for each process that has a part of its posterior at lengths which its sines do not serve."""
    if solution.draws is None or not any(
        isinstance(b.prior, SineProcess) for b in model.joint.blocks
    ):
        return solution
    draws = solution.draws.flat
    said = list[str]()
    for i, names in hyper_names(model.joint, model.design).items():
        prior = model.joint.blocks[i].prior
        if not isinstance(prior, SineProcess) or not all(
            called in draws for called in names.values()
        ):
            continue
        lengths = [names[name] for name, _ in prior.unknown if is_length(name)]
        beyond = lengths_beyond(
            prior.basis, {name: draws[names[name]] for name, _ in prior.unknown}
        )
        if lengths and beyond.any():
            said.append(
                f"{' and '.join(lengths)}: {np.mean(beyond):.0%} of the draws are beyond what the sines serve; give a prior whose "
                "quantiles 0.01 to 0.99 hold them"
            )
    if said:
        return replace(solution, notes=(*solution.notes, *said))
    return solution
