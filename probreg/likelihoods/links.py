"""Invertible links g with eta = g(mu): the scale on which a linear predictor meets a mean. Leaf module."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, log_expit, logit

Elementwise = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True, slots=True)
class Link:
    """A link by its three functions: forward mu -> eta, inverse eta -> mu, slope d mu / d eta.

    >>> float(LOGIT.inverse(LOGIT.forward(np.array(0.3))))
    0.3
    """

    name: str
    forward: Elementwise
    inverse: Elementwise
    slope: Elementwise


IDENTITY = Link("identity", lambda m: m, lambda e: e, np.ones_like)
LOG = Link("log", np.log, np.exp, np.exp)
LOGIT = Link("logit", logit, expit, lambda e: np.exp(log_expit(e) + log_expit(-e)))
