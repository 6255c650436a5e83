"""A normal prior under a loss with a tube as scikit-learn spells it: SVR."""

from probreg.kernels import CovarianceFunction
from probreg.kernels.sklearn_words import ridge_kernel, shown_number
from probreg.priors.penalties.spelling import Spelling


def spell_support_vectors(
    kernel: CovarianceFunction | None, width: int, l2: float, slope: float, tube: float
) -> tuple[Spelling, ...]:
    """The call whose fit is the mode of slope max(0, |r| - tube) + l2 |w|^2 / 2 beside a free offset; without a kernel of its columns.

    >>> spell_support_vectors(None, 3, 0.25, 2.0, 0.1)[0].call
    "SVR(kernel='linear', C=8, epsilon=0.1)"
    """
    # slope sum max(0, |r| - tube) + l2 |w|^2 / 2 is l2 times |w|^2 / 2 + C sum max(0, |r| - tube) with C = slope / l2
    C = slope / l2
    text = "kernel='linear'"
    numbers: dict[str, float] = {}
    if kernel is not None:
        found = ridge_kernel(kernel.spec(), width)
        if found is None or not any(
            f"'{name}'" in found[1] for name in ("linear", "rbf", "polynomial")
        ):
            return ()
        factor, text, numbers = found
        C = C * factor
        text = text.replace("'polynomial'", "'poly'")
    call = f"SVR({text}, C={shown_number(C)}, epsilon={shown_number(tube)})"
    criterion = "|w|^2 / 2 + C sum max(0, |r| - epsilon), the offset free"
    return (Spelling("sklearn", call, criterion, {"C": C, "epsilon": tube, **numbers}),)
