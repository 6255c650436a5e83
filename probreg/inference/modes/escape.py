"""To which side each coefficient runs away where the data are separated: one linear programme per coefficient and side."""

import numpy as np

from probreg.inference.modes.recession import Cone, _maximise
from probreg.inference.modes.separation import _basis, _coordinates, separation
from probreg.likelihoods import MayDiverge
from probreg.model.model import Model

Array = np.ndarray
_MOVES = 1e-6  # of the largest movement in the box, below which a coefficient stays where it is


def escapes(model: Model) -> Array:
    """(2, p, D) bool: along some direction in which the likelihood never falls, reported coefficient (j, d) goes to
    -infinity (first) or +infinity (second). A profile likelihood is then at its limit on that side, and its interval open.

    >>> model = Model.from_arrays([1.0, 2.0, 3.0, 4.0], [0, 0, 1, 1], columns=["dose"], likelihood="bernoulli")
    >>> escapes(model)[:, :, 0]  # the intercept falls, the slope rises
    array([[ True, False],
           [False,  True]])
    """
    likelihood, D = model.likelihood, model.likelihood.contrast_matrix
    out = np.zeros((2, model.shape[0], len(D)), bool)
    if not isinstance(likelihood, MayDiverge):
        return out
    found = separation(model)
    design = model.design.take(slice(None) if model.design.weights is None else model.design.weights > 0)
    if not found:
        return out
    free = np.flatnonzero(~model.joint.informative)
    Q, T = _coordinates(design.X, free, _basis(model, free))
    cone = Cone(Q, likelihood.recession(design.observed))
    equal = cone.recession.equal
    inside = cone.span(equal) if equal.any() else np.eye(int(np.prod(cone.shape)))
    normals = np.unique((cone.normals(np.flatnonzero(~equal)) @ inside).round(14), axis=0)
    for j, d in np.argwhere(found.not_estimable):
        goal = np.kron(T[j], D[d]) @ inside
        goal = goal / np.linalg.norm(goal)
        for side, sign in enumerate((-1.0, 1.0)):
            out[side, j, d] = sign * (goal @ _maximise(sign * goal, normals)) > _MOVES
    return out
