"""Residuals of a fit at its own rows, of six kinds."""

from probreg.arguments.scalars import Word, check_arguments
from probreg.arguments.types import DataArray
from probreg.fits.fit import Fit
from probreg.fits.residuals import labelled_residuals


@check_arguments
def residuals(fit: Fit, kind: Word = "response") -> DataArray:
    """Residuals at the estimate (posterior mean), one per row whatever its weight; y - E[y] by default.

    A row of precision w has noise scale sigma / sqrt(w): Pearson, deviance and quantile residuals are in its units, and
    response residuals in units of y. Rows of weight 0 have response residuals alone, nan otherwise.

    Parameters
    ----------
    fit : Fit
        A fit.
    kind : str
        "response": y - E[y], in units of y; for a softmax 1[y = k] - p_k over (obs, level); of n trials the share less
        its probability, k / n - p, as in R (statsmodels has k - n p).

        "pearson": the score over the root of its Fisher information, which is (y - E[y]) / sd(y) for Gaussian,
        Bernoulli and Poisson responses and (k - n p) / sqrt(n p (1 - p)) of n trials; over (obs, level) for a softmax,
        of n trials (y_k - n p_k) / sqrt(n p_k (1 - p_k)).

        "deviance": sign(y - E[y]) sqrt(2 (l_saturated - l)); the squares add up to `fit.deviance` over its dispersion
        (sigma^2 for a Gaussian, 1 for classes and counts).

        "working": score over Fisher information, on the scale of the linear predictor, (obs) or (obs, outcome).

        "partial": working residuals plus the centred contribution of a term, (obs, term); for a softmax predictor by
        predictor, (obs, term, outcome).

        "quantile": Phi^-1(P(Y <= y)) under the predictive distribution, for a discrete response drawn between P(Y < y)
        and P(Y <= y) with the seed of the fit: standard normal when the model is right (Dunn & Smyth 1996). Ordered
        responses only.

    Returns
    -------
    DataArray (obs)
        In the units of the kind.

    Raises
    ------
    DataError
        For an unknown kind and without rows.
    Incompatible
        Where a kind has no meaning.

    References
    ----------
    Dunn & Smyth 1996.

    Examples
    --------
    >>> import probreg as pr
    >>> fit = pr.fit(pr.Model.from_arrays([1.0, 2.0, 3.0], [1.0, 2.0, 4.0]))
    >>> residuals(fit).round(3).values.tolist()
    [0.167, -0.333, 0.167]
    """
    return labelled_residuals(fit, kind)
