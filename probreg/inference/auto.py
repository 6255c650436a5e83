"""The method that fits best what was asked, and why."""

from dataclasses import dataclass

import numpy as np

from probreg.errors import Incompatible
from probreg.inference.base import METHODS, Method, Solution
from probreg.model import Model

_LADDER = {
    "closed_form": "the mode has a closed form",
    "newton": "the log posterior is smooth, so its mode is found by Newton's method",
    "nuts": "the prior has no smooth mode method here, so the posterior is sampled",
}


@METHODS.register
@dataclass(frozen=True)
class Auto(Method):
    """closed_form where it applies, else newton, else nuts; the choice and its reason stand in the notes of the fit."""

    name = "auto"

    def obstacle(self, model: Model) -> str | None:
        return None if any(METHODS[k]().obstacle(model) is None for k in _LADDER) else "no method fits this model"

    def choose(self, model: Model) -> tuple[Method, str]:
        """The method and the sentence that says why."""
        for name, reason in _LADDER.items():
            method = METHODS[name]()
            if method.obstacle(model) is None:
                return method, f"auto chose {name}: {reason}"
        raise Incompatible("no method fits this model")

    def solve(self, model: Model, rng: np.random.Generator) -> Solution:
        return self.choose(model)[0].solve(model, rng)
