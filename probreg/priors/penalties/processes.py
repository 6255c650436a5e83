"""A prior on the columns of a Gaussian process as a call of scikit-learn's KernelRidge."""

from probreg.kernels import CovarianceFunction
from probreg.kernels.sklearn_words import ridge_kernel, shown_number
from probreg.priors.penalties.spelling import Spelling


def spell_process(
    kernel: CovarianceFunction, width: int, l2: float, sigma: float
) -> tuple[Spelling, ...]:
    """Return the call with the same fit as -log p = l2 |w|^2 / 2 on the columns of an exact basis of `kernel`.

    >>> from probreg.kernels import RBF
    >>> [s.call for s in spell_process(RBF(5.0), 10, 0.25, 2.0)][0]
    "KernelRidge(alpha=1, kernel='rbf', gamma=0.02)"
    """
    ridge = ridge_kernel(kernel.spec(), width)
    if ridge is None:
        return ()
    factor, arguments, numbers = ridge
    # the prior of f is tau^2 k, tau^2 = 1 / l2: lam = sigma^2 / tau^2 for k, lam / v for k / v
    alpha = sigma**2 * l2 / factor
    call = f"KernelRidge(alpha={shown_number(alpha)}, {arguments})"
    criterion = "RSS + alpha ||f||^2, without an offset"
    return (Spelling("sklearn", call, criterion, {"alpha": alpha, **numbers}),)
