"""The linear programme that decides separation, and its tolerances."""

import numpy as np

from probreg.errors import NotConverged

Array = np.ndarray
SLACK = 1e-9  # a margin above -SLACK is not negative; constraints have unit norm and the solver's tolerance is 1e-10
STRICT = 1e-7  # a margin above it is positive; directions lie in the box [-1, 1]


def maximise_linear(gain: Array, normals: Array) -> Array:
    """argmax gain'v subject to normals v >= 0 and -1 <= v <= 1."""
    from scipy.optimize import linprog

    tight = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    for method in ("highs-ds", "highs-ipm"):
        result = linprog(
            -gain,
            A_ub=-normals,
            b_ub=np.zeros(len(normals)),
            bounds=(-1.0, 1.0),
            method=method,
            options=tight,
        )
        if result.status == 0:
            return np.asarray(result.x)
    raise NotConverged(
        f"the check for separation is undecided: the linear programme of {len(normals)} constraints "
        f"on {len(gain)} coefficients stopped with: {result.message.rstrip('.')}. "
        "Rescale the columns, or use a prior on them."
    )
