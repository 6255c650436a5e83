"""A prior on the columns of a Gaussian process as scikit-learn spells it: KernelRidge and GaussianProcessRegressor."""

from probreg.kernels import CovarianceFunction
from probreg.kernels.sklearn_spelling import process_kernel, ridge_kernel, shown_number
from probreg.priors.penalties.spelling import Spelling


def spell_process(
    kernel: CovarianceFunction, width: int, l2: float, sigma: float, *, weighted: bool
) -> tuple[Spelling, ...]:
    """The calls whose fit is that of -log p = l2 |w|^2 / 2 on the columns of an exact basis of `kernel`, beside no others.

    >>> from probreg.kernels import RBF
    >>> [s.call for s in spell_process(RBF(5.0), 10, 0.25, 2.0, weighted=False)][0]
    "KernelRidge(alpha=1, kernel='rbf', gamma=0.02)"
    """
    spec = kernel.spec()
    said = []
    found = ridge_kernel(spec, width)
    if found is not None:
        factor, text, numbers = found
        # the prior of f is tau^2 k, tau^2 = 1 / l2: lam = sigma^2 / tau^2 beside k, lam / v beside k / v
        alpha = sigma**2 * l2 / factor
        call = f"KernelRidge(alpha={shown_number(alpha)}, {text})"
        said.append(
            Spelling(
                "sklearn",
                call,
                "RSS + alpha ||f||^2, without an offset",
                {"alpha": alpha, **numbers},
            )
        )
    process = process_kernel(spec, width)
    if process is not None and not weighted:
        whole = f"ConstantKernel({shown_number(1.0 / l2)}) * {process}"
        call = f"GaussianProcessRegressor({whole}, alpha={shown_number(sigma**2)}, optimizer=None)"
        settings = {"amplitude": 1.0 / l2, "alpha": sigma**2}
        said.append(
            Spelling(
                "sklearn",
                call,
                "-log p(y, f), alpha the variance of the noise",
                settings,
            )
        )
    return tuple(said)
