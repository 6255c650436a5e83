"""The method `auto`: choose the first method that can fit the model."""

from dataclasses import dataclass

import numpy as np

from probreg.errors import Incompatible
from probreg.inference.base import METHODS, Method, Resolved, Solution
from probreg.inference.obstacles import method_obstacle
from probreg.inference.status import Topic, important_note, routine_note
from probreg.model.model import Model
from probreg.priors.gaussian_process import UnknownLength

_LADDER = {
    "closed_form": "the mode has a closed form",
    "newton": "the log posterior is smooth, so its mode is found by Newton's method",
    "coordinate_descent": "the prior has kinks, so the mode has exact zeros and is found by coordinate descent",
    "proximal_newton": "the prior has kinks, so the mode has exact zeros and is found by proximal Newton steps",
    "interior_point": "the likelihood has kinks, so its mode is found by an interior point",
    "nuts": "the prior has no smooth mode method here, so the posterior is sampled",
    "evidence": "the prior of a scale is improper, and so is the posterior: the scale is taken at its most probable value",
}


@METHODS.register
@dataclass(frozen=True)
class Auto(Method):
    """The first method that fits of closed_form, newton, coordinate_descent, proximal_newton, interior_point, nuts and evidence.

    The fit's notes contain the choice and its reason.

    Examples
    --------
    >>> model = Model.from_arrays([0.0, 1.0, 2.0], [1.0, 2.0, 4.0])
    >>> Auto().choose(model)[1]
    'auto chose closed_form: the mode has a closed form'
    """

    name = "auto"
    rebuilds = True
    pseudo = True

    def obstacle(self, model: Model) -> str | None:
        try:
            self.choose(model)
        except Incompatible as error:
            return str(error)
        return None

    def choose(self, model: Model) -> tuple[Method, str]:
        """Return the method and a sentence with the reason. Incompatible if none fits."""
        obstacles = {}
        for name, reason in _LADDER.items():
            method = METHODS[name]()
            obstacle = method_obstacle(method, model)
            if obstacle is not None:
                obstacles[name] = obstacle
                continue
            if name == "nuts" and model.design.recipe.grouped:
                # posterior takes exact methods first
                name = "posterior"
                method = METHODS[name]()
                reason = "standard deviations of effects have a prior"
            elif name == "evidence" and model.design.recipe.grouped:
                reason = "the standard deviations of effects have no proper prior, so REML estimates them"
            elif name == "nuts" and model.joint.hierarchical:
                reason = "the prior has an unknown scale, so the posterior is sampled with it"
                if METHODS["evidence"]().obstacle(model) is None:
                    reason += "; evidence is faster and fixes the scale at its most probable value"
            return method, f"auto chose {name}: {reason}"
        # nuts would advise evidence, which does not take sampling weights or rows in blocks either; and only evidence finds the
        # lengths of columns
        beyond_nuts = model.design.weight_kind == "sampling" or not model.design.n
        by_evidence = (beyond_nuts and model.design.recipe.grouped) or any(
            isinstance(b.prior, UnknownLength) for b in model.joint.blocks
        )
        last = obstacles["evidence" if by_evidence else "nuts"]
        raise Incompatible(f"no method fits this model; {last}")

    def resolve(self, model: Model, rng: np.random.Generator) -> Resolved:
        method, reason = self.choose(model)
        resolved = method.resolve(model, rng)
        # the user must know that a scale was fixed at its most probable value
        if method.name == "evidence":
            note = important_note(Topic.METHOD, reason)
        else:
            note = routine_note(Topic.METHOD, reason)
        return resolved._replace(notes=(note, *resolved.notes))

    def solve(self, model: Model, rng: np.random.Generator) -> Solution:
        return self.choose(model)[0].solve(model, rng)
