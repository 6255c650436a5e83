"""Regressions by their usual names: each combines a likelihood, a prior and `fit`.

`x` is a formula with a table as `data`, or a matrix X with the response y as `data`; options are the options of
`Model.from_formula` and `Model.from_arrays` (weights, offset, columns, ...). Only penalised recipes, such as `ridge`, add a penalty.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from probreg.arguments.scalars import (
    ArrayLike,
    Flag,
    Fraction,
    NonNegative,
    Positive,
    RowsLike,
    Share,
    TableLike,
    Word,
    check_arguments,
    refuse_unknown,
)
from probreg.data.formula.functions import term_functions
from probreg.errors import DataError, Incompatible
from probreg.fits.fit import Fit, fit
from probreg.fits.penalty_weight import (
    Penalty,
    fit_penalised,
    lam_of_radius,
    only_one,
    ridge_norm,
    with_dual,
)
from probreg.formula.terms import left_of
from probreg.kernels import CovarianceFunction, Linear, read_kernel
from probreg.kernels.ridge import refuse_rounding
from probreg.likelihoods import (
    LIKELIHOODS,
    EpsilonInsensitive,
    Likelihood,
    LikelihoodName,
    Quantile,
)
from probreg.model.from_kernel import inputs_of_formula, model_of_kernel
from probreg.model.model import Model
from probreg.priors import (
    ElasticNet,
    ExponentialPower,
    Jeffreys,
    Laplace,
    Normal,
    Reference,
)
from probreg.priors.base import PositivePerColumn
from probreg.priors.exponential_power import Power
from probreg.priors.gaussian_process import process_prior


@check_arguments
def ols(x: str | ArrayLike, data: RowsLike, **options: Any) -> Fit:
    """Least squares, argmin ||y - X beta||^2: Gaussian noise and a flat prior.

    Intervals are Student-t with n - rank degrees of freedom.

    Parameters
    ----------
    x : str or array (n, q)
        A formula ("y ~ x1 + C(g)") or the matrix X.
    data : table or array (n,)
        The table that a formula reads, or the response y of a matrix.
    **options
        As in `Model.from_formula` and `Model.from_arrays`: `weights`, `offset`, `columns`, `aux`, ...

    Returns
    -------
    Fit
        The fit, to summarise, compare and predict with.

    Raises
    ------
    DataError
        For data that cannot be read, naming column and row.

    Examples
    --------
    >>> ols([[0.0], [1.0], [2.0]], [1.0, 3.0, 6.0], columns=["x"]).coef.sel(coef="x").round(6).item()
    2.5
    """
    return fit(_read_model(x, data, options, likelihood="gaussian"))


@check_arguments
def ridge(
    x: str | ArrayLike, data: RowsLike, *, scale: PositivePerColumn | None = None, lam: Positive | None = None, radius: Positive | None = None,
    sigma_units: Flag = False, scaled: Flag = False,
    likelihood: Likelihood | LikelihoodName = "gaussian", **options: Any,
) -> Fit:  # fmt: skip
    """Ridge regression: argmin RSS + lam |beta|^2, the posterior mode under N(0, scale^2) on every coefficient except the intercept.

    `lam` corresponds to the scale lam^(-1/2), for Gaussian noise in units of sigma: one linear solve. A `scale` in raw
    units is argmin RSS + (sigma/scale)^2 |beta|^2. In this case sigma is given as `aux={"sigma": ...}` (one linear solve), or is
    at its joint mode with beta over log sigma (Newton's method). With `sigma_units` it is argmin RSS + |beta|^2 / scale^2.
    `Normal.from_ridge` reads the settings of other packages.

    Parameters
    ----------
    x : str or array (n, q)
        A formula ("y ~ x1 + C(g)") or the matrix X.
    data : table or array (n,)
        The table that a formula reads, or the response y of a matrix.
    scale : float or tuple of float, optional
        Positive, in units of y (of the linear predictor) per unit of the column: one number, or one per penalised
        column. Give exactly one of `scale`, `lam` and `radius`.
    lam : float, optional
        Weight of the penalty in RSS + lam |beta|_2^2; for other likelihoods in -2 log L + lam |beta|_2^2. scikit-learn's
        Ridge has alpha = lam, its LogisticRegression C = 1 / lam.
    radius : float, optional
        Least RSS (-2 log L) subject to |beta|_2 <= radius. A note states the dual `lam`; the fit is maximum likelihood
        if the maximum is in the ball.
    sigma_units : bool
        Whether the prior scale is `scale` times sigma; not with `lam` or `radius`.
    scaled : bool
        Whether `scale`, `lam` or `radius` is stated for standardised columns.
    likelihood : Likelihood or str
        A likelihood, or its name in `LIKELIHOODS`.
    **options
        As in `Model.from_formula` and `Model.from_arrays`: `weights`, `offset`, `columns`, `aux`, ...

    Returns
    -------
    Fit
        The fit, to summarise, compare and predict with.

    Raises
    ------
    DataError
        For data that cannot be read, and for settings out of range.
    Incompatible
        Unless exactly one of `scale`, `lam` and `radius` is given.

    References
    ----------
    Hoerl & Kennard 1970.

    Examples
    --------
    >>> ridge([[-1.0], [0.0], [1.0]], [1.0, 3.0, 6.0], lam=1.0).coef.values.round(6).tolist()
    [3.333333, 1.666667]
    >>> shortest = ridge([[-1.0], [0.0], [1.0]], [1.0, 3.0, 6.0], radius=1.25)
    >>> print(shortest.coef.values[1].round(6), shortest.notes[0])
    1.25 the constraint |beta|_2 <= 1.25 has the dual lam = 2
    >>> ridge([[-1.0], [0.0], [1.0]], [1.0, 3.0, 6.0], scale=1.0, sigma_units=True, columns=["x"]).coef.sel(coef="x").item()
    1.666666666666...
    """
    prior = Normal(scale or 1.0, sigma_units=sigma_units, scaled=scaled)
    model = _read_model(x, data, options, likelihood=likelihood, prior=prior)
    penalty = Penalty(
        "|beta|_2", 2.0, lambda w: replace(prior, scale=(2.0 * w) ** -0.5)
    )
    return fit_penalised(model, penalty, scale, lam, radius)


@check_arguments
def lasso(
    x: str | ArrayLike, data: RowsLike, *, scale: PositivePerColumn | None = None, lam: Positive | None = None, radius: Positive | None = None,
    sigma_units: Flag = False, scaled: Flag = False,
    likelihood: Likelihood | LikelihoodName = "gaussian", **options: Any,
) -> Fit:  # fmt: skip
    """The lasso: argmin RSS + lam |beta|_1, the posterior mode under Laplace(0, scale) on every coefficient except the intercept.

    -log p = sum_j |beta_j| / scale: coefficients that the data do not support are exactly zero. A mode at a kink has no
    standard errors. The posterior is `fit(model, "nuts")`; its means are never zero. `Laplace.from_lasso` reads the
    settings of other packages.

    For Gaussian noise `lam` corresponds to the scale 2 sigma^2 / lam, at the given sigma or the joint mode of log sigma and beta;
    for other likelihoods to 2 / lam.

    Parameters
    ----------
    x : str or array (n, q)
        A formula ("y ~ x1 + C(g)") or the matrix X.
    data : table or array (n,)
        The table that a formula reads, or the response y of a matrix.
    scale : float or tuple of float, optional
        Positive, in units of y (of the linear predictor) per unit of the column: one number, or one per penalised
        column. Give exactly one of `scale`, `lam` and `radius`.
    lam : float, optional
        Weight of the penalty in RSS + lam |beta|_1; for other likelihoods in -2 log L + lam |beta|_1. scikit-learn's
        Lasso and glmnet have alpha, lambda = lam / (2 n), LogisticRegression C = 2 / lam.
    radius : float, optional
        Least RSS (-2 log L) subject to |beta|_1 <= radius. A note states the dual `lam`; the fit is maximum likelihood
        if the maximum is in the ball.
    sigma_units : bool
        Whether the prior scale is `scale` times sigma; not with `lam` or `radius`.
    scaled : bool
        Whether `scale`, `lam` or `radius` is stated for standardised columns.
    likelihood : Likelihood or str
        A likelihood, or its name in `LIKELIHOODS`.
    **options
        As in `Model.from_formula` and `Model.from_arrays`: `weights`, `offset`, `columns`, `aux`, ...

    Returns
    -------
    Fit
        The fit, to summarise, compare and predict with.

    Raises
    ------
    DataError
        For data that cannot be read, and for settings out of range.
    Incompatible
        Unless exactly one of `scale`, `lam` and `radius` is given.

    References
    ----------
    Tibshirani 1996.

    Examples
    --------
    >>> X = [[-1.0, 1.0], [0.0, -2.0], [1.0, 1.0]]
    >>> lasso(X, [1.0, 3.0, 6.0], lam=2.5).coef.values.round(6).tolist()
    [3.333333, 1.875, 0.0]
    >>> lasso(X, [1.0, 3.0, 6.0], scale=0.8, aux={"sigma": 1.0}).coef.values.round(6).tolist()
    [3.333333, 1.875, 0.0]
    """
    prior = Laplace(scale or 1.0, sigma_units=sigma_units, scaled=scaled)
    model = _read_model(x, data, options, likelihood=likelihood, prior=prior)
    penalty = Penalty("|beta|_1", 1.0, lambda w: replace(prior, scale=1.0 / w))
    return fit_penalised(model, penalty, scale, lam, radius)


@check_arguments
def elastic_net(
    x: str | ArrayLike, data: RowsLike, *, scale: PositivePerColumn | None = None, lam: Positive | None = None, radius: Positive | None = None,
    ratio: Share = 0.5, sigma_units: Flag = False, scaled: Flag = False,
    likelihood: Likelihood | LikelihoodName = "gaussian", **options: Any,
) -> Fit:  # fmt: skip
    """The elastic net: the posterior mode under ElasticNet(scale, ratio) on every coefficient except the intercept.

    -log p = sum_j ratio |r_j| + (1 - ratio) r_j^2 / 2 with r_j = beta_j / scale. `ElasticNet.from_elastic_net` reads
    the settings of other packages.

    Parameters
    ----------
    x : str or array (n, q)
        A formula ("y ~ x1 + C(g)") or the matrix X.
    data : table or array (n,)
        The table that a formula reads, or the response y of a matrix.
    scale : float or tuple of float, optional
        Positive, in units of y (of the linear predictor) per unit of the column: one number, or one per penalised
        column. Give exactly one of `scale`, `lam` and `radius`.
    lam : float, optional
        Weight of the penalty in RSS + lam R(beta); for other likelihoods in -2 log L + lam R(beta). R(beta) =
        ratio |beta|_1 + (1 - ratio) |beta|_2^2 / 2, so that scikit-learn's ElasticNet has alpha = lam / (2 n) and l1_ratio = ratio.
    radius : float, optional
        Least RSS (-2 log L) subject to R(beta) <= radius. A note states the dual `lam`; the fit is maximum likelihood
        if the maximum is in the ball.
    ratio : float
        Share of the absolute values, from 0 (ridge) to 1 (lasso).
    sigma_units : bool
        Whether the prior scale is `scale` times sigma; not with `lam` or `radius`.
    scaled : bool
        Whether `scale`, `lam` or `radius` is stated for standardised columns.
    likelihood : Likelihood or str
        A likelihood, or its name in `LIKELIHOODS`.
    **options
        As in `Model.from_formula` and `Model.from_arrays`: `weights`, `offset`, `columns`, `aux`, ...

    Returns
    -------
    Fit
        The fit, to summarise, compare and predict with.

    Raises
    ------
    DataError
        For data that cannot be read, and for settings out of range.
    Incompatible
        Unless exactly one of `scale`, `lam` and `radius` is given.

    References
    ----------
    Zou & Hastie 2005.

    Examples
    --------
    >>> elastic_net([[-1.0], [0.0], [1.0]], [1.0, 3.0, 6.0], scale=1.0, ratio=0.5, aux={"sigma": 1.0}).coef.values.round(6).tolist()
    [3.333333, 1.8]
    """
    prior = ElasticNet(scale or 1.0, ratio, sigma_units=sigma_units, scaled=scaled)
    model = _read_model(x, data, options, likelihood=likelihood, prior=prior)

    def prior_of_weight(w: float) -> ElasticNet:
        # RSS / 2 + w (ratio |b|_1 + (1 - ratio) |b|^2 / 2) at n = sigma = 1
        same = ElasticNet.from_elastic_net(alpha=w, l1_ratio=ratio, n=1, sigma=1.0)
        return replace(same, scaled=scaled)

    penalty = Penalty("R(beta)", 1.0, prior_of_weight, ratio)
    return fit_penalised(model, penalty, scale, lam, radius)


@check_arguments
def bridge(
    x: str | ArrayLike, data: RowsLike, *, scale: PositivePerColumn | None = None, lam: Positive | None = None, radius: Positive | None = None,
    q: Power, sigma_units: Flag = False, scaled: Flag = False,
    likelihood: Likelihood | LikelihoodName = "gaussian", **options: Any,
) -> Fit:  # fmt: skip
    """Bridge regression: the posterior mode under ExponentialPower(scale, q) on every coefficient except the intercept.

    -log p = sum_j |beta_j / scale|^q: q = 1 is the lasso, q = 2 ridge with the scale sqrt(2) times smaller. Below 1 there
    can be several modes; the fit has one of them, and a note.

    Parameters
    ----------
    x : str or array (n, q)
        A formula ("y ~ x1 + C(g)") or the matrix X.
    data : table or array (n,)
        The table that a formula reads, or the response y of a matrix.
    scale : float or tuple of float, optional
        Positive, in units of y (of the linear predictor) per unit of the column: one number, or one per penalised
        column. Give exactly one of `scale`, `lam` and `radius`.
    lam : float, optional
        Weight of the penalty in RSS + lam sum_j |beta_j|^q; for other likelihoods in -2 log L + lam sum_j |beta_j|^q. Any q for
        `lam`, q of at least 1 for `radius`.
    radius : float, optional
        Least RSS (-2 log L) subject to |beta|_q <= radius. A note states the dual `lam`; the fit is maximum likelihood
        if the maximum is in the ball.
    q : float
        The power, above 0 and at most 2.
    sigma_units : bool
        Whether the prior scale is `scale` times sigma; not with `lam` or `radius`.
    scaled : bool
        Whether `scale`, `lam` or `radius` is stated for standardised columns.
    likelihood : Likelihood or str
        A likelihood, or its name in `LIKELIHOODS`.
    **options
        As in `Model.from_formula` and `Model.from_arrays`: `weights`, `offset`, `columns`, `aux`, ...

    Returns
    -------
    Fit
        The fit, to summarise, compare and predict with.

    Raises
    ------
    DataError
        For data that cannot be read, and for settings out of range.
    Incompatible
        Unless exactly one of `scale`, `lam` and `radius` is given.

    References
    ----------
    Frank & Friedman 1993.

    Examples
    --------
    >>> bridge([[-1.0], [0.0], [1.0]], [1.0, 3.0, 6.0], scale=1.0, q=2.0, aux={"sigma": 1.0}).coef.values.round(6).tolist()
    [3.333333, 1.25]
    """
    prior = ExponentialPower(scale or 1.0, q, sigma_units=sigma_units, scaled=scaled)
    model = _read_model(x, data, options, likelihood=likelihood, prior=prior)
    penalty = Penalty("|beta|_q", q, lambda w: replace(prior, scale=w ** (-1.0 / q)))
    return fit_penalised(model, penalty, scale, lam, radius)


@check_arguments
def bayesian_ridge(
    x: str | ArrayLike, data: RowsLike, *, scaled: Flag = False, **options: Any
) -> Fit:
    """Ridge regression with the prior scale tau and noise sigma that maximise the evidence p(y | tau, sigma).

    beta is integrated out (type-II maximum likelihood) under N(0, tau^2) on every coefficient except the intercept;
    sigma^2 / tau^2 is the ridge weight. The fit is the posterior mode and covariance at these scales, which are in
    its notes. It is exact for any scale of the data.

    Parameters
    ----------
    x : str or array (n, q)
        A formula ("y ~ x1 + C(g)") or the matrix X.
    data : table or array (n,)
        The table that a formula reads, or the response y of a matrix.
    scaled : bool
        Whether tau is stated for standardised columns and response.
    **options
        As in `Model.from_formula` and `Model.from_arrays`: `weights`, `offset`, `columns`, `aux`, ...

    Returns
    -------
    Fit
        The fit, to summarise, compare and predict with.

    Raises
    ------
    DataError
        For data that cannot be read, naming column and row.

    References
    ----------
    MacKay 1992.

    Examples
    --------
    >>> x = [[-1.0, 0.0], [0.0, 1.0], [1.0, 0.5], [2.0, -1.0], [3.0, 0.3]]
    >>> print(bayesian_ridge(x, [1e7, 2.1e7, 2.9e7, 4.2e7, 4.8e7], columns=["a", "b"]).notes[1])
    prior scale (times the stated scale) of a, b ...e+06
    """
    prior = Normal(Reference(), scaled=scaled)
    return fit(
        _read_model(x, data, options, likelihood="gaussian", prior=prior), "evidence"
    )


@check_arguments
def ard(
    x: str | ArrayLike, data: RowsLike, *, scaled: Flag = False, **options: Any
) -> Fit:
    """Automatic relevance determination: N(0, tau_j^2) on each coefficient, with scales at a maximum of the evidence.

    The scales are every tau_j and sigma. Columns with tau_j = 0 are pruned: their coefficients are fixed at 0,
    and the notes name them.

    Parameters
    ----------
    x : str or array (n, q)
        A formula ("y ~ x1 + C(g)") or the matrix X.
    data : table or array (n,)
        The table that a formula reads, or the response y of a matrix.
    scaled : bool
        Whether tau_j is stated for standardised columns and response.
    **options
        As in `Model.from_formula` and `Model.from_arrays`: `weights`, `offset`, `columns`, `aux`, ...

    Returns
    -------
    Fit
        The fit, to summarise, compare and predict with.

    Raises
    ------
    DataError
        For data that cannot be read, naming column and row.

    References
    ----------
    MacKay 1992; Tipping 2001.

    Examples
    --------
    >>> x = [[-1.0, 1.0], [0.0, 0.0], [1.0, 0.0], [2.0, 0.0], [3.0, 1.0]]
    >>> print(ard(x, [1.0, 2.1, 2.9, 4.1, 5.0], columns=["a", "b"]).notes[2])
    pruned, because the evidence increases as their scale goes to 0: b; their coefficients are fixed at 0 (a singular fit)
    """
    from probreg.inference.exact.evidence import Evidence

    prior = Normal(Reference(), scaled=scaled)
    return fit(
        _read_model(x, data, options, likelihood="gaussian", prior=prior),
        Evidence(per_column=True),
    )


@check_arguments
def kernel_ridge(
    x: str | ArrayLike, data: RowsLike, *, kernel: CovarianceFunction | str, lam: Positive | None = None, radius: Positive | None = None,
    intercept: Flag = True, basis: Word = "exact", **options: Any,
) -> Fit:  # fmt: skip
    """Kernel ridge regression: argmin_f,b sum_i (y_i - f(x_i) - b)^2 + lam ||f||^2 over the functions of a kernel.

    It is the mode of a Gaussian model with a Gaussian process f of covariance (sigma^2 / lam) k: the columns
    come from the exact basis of k at the rows, under Normal(lam^(-1/2)) in units of sigma. Without an intercept it is
    scikit-learn's KernelRidge with alpha = lam. sigma, unless it is given, is at the maximum of the evidence at this lam.

    Parameters
    ----------
    x : str or array (n, d) or (n,)
        The inputs of the kernel, at most 5,000 distinct rows of the exact basis, or a formula of plain columns ("y ~ x1 + x2").
    data : table or array (n,)
        The table that a formula reads, or the response y of an array.
    kernel : CovarianceFunction or str
        A function of `pr.kernels` (`pr.kernels.RBF(1.0)`) or the name of one with its defaults.
    lam : float, optional
        Positive: sigma^2 / tau^2, the variance of the noise over the variance of the process. Give `lam` or `radius`.
    radius : float, optional
        Least sum of squares subject to ||f|| <= radius. A note states the dual `lam`.
    intercept : bool
        Whether a constant b without a penalty is added; a formula without one writes "- 1".
    basis : {"exact", "cholesky", "hsgp"}
        The columns; all but "exact" are approximations, for many rows "cholesky".
    **options
        `weights`, `offset` and `aux`; `columns` and `response` of an array, as in `Model.from_arrays`; `missing` of a formula.

    Returns
    -------
    Fit
        The fit, to summarise, compare and predict with.

    Raises
    ------
    DataError
        For data that cannot be read, and for a lam that is not positive, or so small that K + lam I is not positive
        definite to rounding; the message has the smallest valid lam.
    Incompatible
        Unless one of `lam` and `radius` is given, and for a radius that has no effect.

    References
    ----------
    Saunders, Gammerman & Vovk 1998.

    Examples
    --------
    >>> from probreg.kernels import RBF
    >>> fit = kernel_ridge([0.0, 1.0, 2.0, 4.0], [0.0, 1.0, 0.0, 2.0], kernel=RBF(1.0), lam=0.1, intercept=False)
    >>> fit.predict([[1.5], [3.0]])["mean"].values.round(6).tolist()
    [0.516761, 0.671134]
    """
    names = ["weights", "offset", "aux"]
    _check_inputs("kernel_ridge", x, intercept, options, names)
    inputs, y, options = _read_inputs(x, data, {"intercept": intercept, **options})
    only_one(lam=lam, radius=radius)
    model = model_of_kernel(
        inputs, y, kernel, Normal(1.0, sigma_units=True), basis=basis, **options
    )
    if lam is None:
        assert radius is not None
        norm = ridge_norm(model.with_aux(sigma=1.0))
        lam = lam_of_radius(norm, radius, identified=False)
    refuse_rounding(lam, model.design.X[:, model.joint.informative])
    prior = Normal(lam**-0.5, sigma_units=True)
    model = model.with_prior(dict.fromkeys(model.design.recipe.processes, prior))
    # beta is the same at every sigma. A joint maximum over beta and sigma would count the columns as observations; the evidence does not
    fitted = fit(model, "evidence" if model.noise_unknown else "auto")
    if radius is None:
        return fitted
    return with_dual(fitted, "||f||", radius, lam)


@check_arguments
def gp(
    X: ArrayLike, y: ArrayLike, *, kernel: CovarianceFunction | str = "rbf", intercept: Flag = True, basis: str | None = None,
    likelihood: Likelihood | LikelihoodName = "gaussian", **options: Any,
) -> Fit:  # fmt: skip
    """Gaussian process regression: y given b + f(x), with a process f of covariance amplitude^2 k, at the maximum of the evidence.

    The amplitude, the hyperparameters of k and sigma maximise log p(y | amplitude, h, sigma), with f and b integrated out. For other
    likelihoods they maximise its Laplace approximation. Without an intercept it is scikit-learn's GaussianProcessRegressor with a WhiteKernel.

    Parameters
    ----------
    X : array (n, d) or (n,)
        The inputs of the kernel.
    y : array (n,)
        The response.
    kernel : CovarianceFunction or str
        A function of `pr.kernels`, or its name. The search starts from its hyperparameters.
    intercept : bool
        Whether a constant b with a flat prior is added.
    basis : {"exact", "cholesky", "hsgp"}, optional
        The columns of the process; "exact" up to 2,000 distinct rows; for more rows "hsgp" with up to three inputs, else "cholesky".
    likelihood : Likelihood or str
        A smooth likelihood, or its name in `LIKELIHOODS`.
    **options
        As in `Model.from_arrays`: `columns`, `weights`, `offset`, `aux`, `response`; and `prior`, a `pr.priors.GaussianProcess` that
        fixes hyperparameters or gives them priors.

    Returns
    -------
    Fit
        The fit at these hyperparameters, to summarise, compare and predict with.

    Raises
    ------
    DataError
        For data that cannot be read, naming column and row.
    Incompatible
        If the evidence has no maximum, because the process reproduces the response without noise.

    References
    ----------
    Rasmussen & Williams 2006, chapters 2, 3 and 5.

    Examples
    --------
    >>> x = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    >>> fit = gp(x, [0.1, 0.8, 0.9, 0.2, -0.8, -0.9, -0.3, 0.7], kernel="rbf", intercept=False)
    >>> fit.model.joint.blocks[-1].prior.name
    'normal'
    """
    refuse_unknown(
        "gp", options, ["columns", "weights", "offset", "aux", "response", "prior"]
    )
    read = read_kernel(kernel)
    prior = options.pop("prior", None) or process_prior(read)
    model = model_of_kernel(
        X, y, kernel, prior, basis=basis, length_known=False, intercept=intercept, likelihood=LIKELIHOODS.resolve(likelihood), **options
    )  # fmt: skip
    return fit(model, "evidence")


@check_arguments
def firth(
    x: str | ArrayLike,
    data: RowsLike,
    *,
    likelihood: Likelihood | LikelihoodName = "bernoulli",
    **options: Any,
) -> Fit:
    """Firth's estimate: the posterior mode under Jeffreys' prior |I(beta)|^(1/2), finite under separation.

    Standard errors come from the posterior's curvature. `fit.covariance("expected")` and profile intervals
    (`fit.interval(kind="profile")`) are alternatives.

    Parameters
    ----------
    x : str or array (n, q)
        A formula ("y ~ x1 + C(g)") or the matrix X.
    data : table or array (n,)
        The table that a formula reads, or the response y of a matrix.
    likelihood : Likelihood or str
        A likelihood, or its name in `LIKELIHOODS`.
    **options
        As in `Model.from_formula` and `Model.from_arrays`: `weights`, `offset`, `columns`, `aux`, ...

    Returns
    -------
    Fit
        The fit, to summarise, compare and predict with.

    Raises
    ------
    DataError
        For data that cannot be read, naming column and row.

    References
    ----------
    Firth 1993; Heinze & Schemper 2002.

    Examples
    --------
    >>> firth([0.0, 0.0, 1.0, 1.0], [0, 0, 1, 1]).coef.values.round(6).tolist()
    [-1.609438, 3.218876]
    """
    return fit(_read_model(x, data, options, likelihood=likelihood, prior=Jeffreys()))


@check_arguments
def logistic(x: str | ArrayLike, data: RowsLike, **options: Any) -> Fit:
    """Logistic regression by maximum likelihood: P(y = event) = 1 / (1 + exp(-X beta)).

    Parameters
    ----------
    x : str or array (n, q)
        A formula ("y ~ x1 + C(g)") or the matrix X.
    data : table or array (n,)
        The table that a formula reads, or the response y of a matrix.
    **options
        As in `Model.from_formula` and `Model.from_arrays`; `event=` names the modelled level.

    Returns
    -------
    Fit
        The fit, to summarise, compare and predict with.

    Raises
    ------
    DataError
        For data that cannot be read, naming column and row.

    Examples
    --------
    >>> logistic([[0.0], [0.0], [1.0], [1.0]] * 3, [0, 1, 1, 1] * 2 + [0, 0, 1, 0]).coef.round(6).values.tolist()
    [-0.693147, 2.302585]
    """
    return fit(_read_model(x, data, options, likelihood="bernoulli"))


@check_arguments
def linear_probability(x: str | ArrayLike, data: RowsLike, **options: Any) -> Fit:
    """The linear probability model: argmin ||1[y = event] - X beta||^2, a linear estimate of P(y = event | x).

    The mean that minimises expected squared error is E[1[y = event] | x] = P(y = event | x). Standard errors are the sandwich
    HC1, because the variance p (1 - p) differs by row; `covariance("HC3")` is for few rows. Predictions may be outside [0, 1] and
    are not clipped: a note counts such predictions at the training rows. docs/explanation/least-squares.md compares it with `logistic`.

    Parameters
    ----------
    x : str or array (n, q)
        A formula ("y ~ x1 + C(g)") or the matrix X.
    data : table or array (n,)
        The table that a formula reads, or the response y of a matrix, with two levels.
    **options
        As in `Model.from_formula` and `Model.from_arrays`; `event=` names the modelled level, by default the last in
        sorted order.

    Returns
    -------
    Fit
        The fit, to summarise, compare and predict with. Its response is the indicator I(y == event), unless y is 0 and 1 with
        the event 1; new responses for a matrix must be such indicators.

    Raises
    ------
    DataError
        For data that cannot be read, and for a response that does not have two levels.
    Incompatible
        For a prior, or weights that are precisions.

    References
    ----------
    White 1980; MacKinnon & White 1985; Devroye, Györfi & Lugosi 1996, theorem 2.2.

    Examples
    --------
    >>> found = linear_probability([0.0, 0.0, 1.0, 1.0, 1.0, 1.0], ["no", "yes", "yes", "no", "yes", "yes"])
    >>> found.coef.values.round(6).tolist(), found.std_error.values.round(6).tolist()
    ([0.5, 0.25], [0.433013, 0.507752])
    """
    from probreg.fits.penalty_weight import fit_linear_probability
    from probreg.model.compatibility import AbsentOutcomeError

    if "prior" in options:
        raise Incompatible(
            "linear_probability is least squares and takes no prior: fit pr.ridge to I(y == event)"
        )
    event = options.pop("event", None)
    try:
        model = _read_model(x, data, options, likelihood="bernoulli", event=event)
    except AbsentOutcomeError:
        raise DataError(
            "linear_probability: the response is constant; it needs rows of both levels"
        ) from None
    if not model.likelihood.binary:
        raise Incompatible(
            "linear_probability needs one outcome in each row, not successes out of trials=: use pr.logistic"
        )
    base_level, met = model.likelihood.levels
    response_name = f"{model.design.response} = {met}"
    # written into the formula, which also reads new responses
    if (base_level, met) != (0, 1) and isinstance(x, str):
        response = left_of(x)
        model = _read_model(
            f"I({response.strip()} == {met!r}) {x[len(response) :]}",
            data,
            options,
            likelihood="bernoulli",
        )
    elif (base_level, met) != (0, 1):
        model = replace(
            model,
            design=replace(
                model.design, response=f"I({model.design.response} == {met!r})"
            ),
        )
    return fit_linear_probability(model, response_name)


@check_arguments
def softmax(x: str | ArrayLike, data: RowsLike, **options: Any) -> Fit:
    """Multinomial logistic regression by maximum likelihood: P(y = k) ∝ exp(x'beta_k).

    Parameters
    ----------
    x : str or array (n, q)
        A formula ("y ~ x1 + C(g)") or the matrix X.
    data : table or array (n,)
        The table that a formula reads, or the response y of a matrix.
    **options
        As in `Model.from_formula` and `Model.from_arrays`; `reference=` names the base class of the log odds.

    Returns
    -------
    Fit
        The fit, to summarise, compare and predict with.

    Raises
    ------
    DataError
        For data that cannot be read, naming column and row.

    Examples
    --------
    >>> softmax([[0.0], [1.0]] * 4, ["a", "a", "b", "b", "c", "c", "a", "b"]).coef.sizes["outcome"]
    2
    """
    return fit(_read_model(x, data, options, likelihood="categorical"))


@check_arguments
def poisson(x: str | ArrayLike, data: RowsLike, **options: Any) -> Fit:
    """Poisson regression by maximum likelihood: log E[y] = X beta + offset.

    Parameters
    ----------
    x : str or array (n, q)
        A formula ("y ~ x1 + C(g)") or the matrix X.
    data : table or array (n,)
        The table that a formula reads, or the response y of a matrix.
    **options
        As in `Model.from_formula` and `Model.from_arrays`: `weights`, `offset`, `columns`, `aux`, ...

    Returns
    -------
    Fit
        The fit, to summarise, compare and predict with.

    Raises
    ------
    DataError
        For data that cannot be read, naming column and row.

    Examples
    --------
    >>> poisson([[0.0], [0.0], [1.0], [1.0]], [1, 3, 5, 3]).coef.round(6).values.tolist()
    [0.693147, 0.693147]
    """
    return fit(_read_model(x, data, options, likelihood="poisson"))


@check_arguments
def gam(
    x: str, data: TableLike, *, df: Positive | Mapping[str, float] | None = None, sp: Positive | Mapping[str, float] | None = None,
    likelihood: Likelihood | LikelihoodName = "gaussian", **options: Any,
) -> Fit:  # fmt: skip
    """A generalised additive model: smooth functions at the maximum of the evidence (REML), or with stated smoothness.

    It is the mode of log p(y | eta) - sum_j |u_j|^2 / (2 tau_j^2), where eta is the sum of the functions and the other columns, and
    u_j are the penalised coefficients of a function. By default every tau and sigma maximise the evidence p(y | tau, sigma). With `df` or
    `sp` Gaussian noise has sigma^2 = (RSS + penalty) / (n - flat columns), its restricted maximum.

    Parameters
    ----------
    x : str
        A formula with smooth functions: "y ~ g + s(x, by=g) + t2(lon, lat)".
    data : table
        The table for the formula.
    df : float or mapping from str to float, optional
        Effective degrees of freedom of each function, as in `fit.smooths`: between the number of its unpenalised columns (1 for
        `s(x)`, the line, without the intercept) and of all its columns. One number, or one for each term or function. Blocks
        of one function share a scale.
    sp : float or mapping from str to float, optional
        In place of `df`: weights of the penalties J(f) in RSS + sum_j sp_j J_j(f), or in -2 log L + sum_j sp_j J_j(f).
        `fit.model.penalty()` describes J and returns the weights; for `s(x)` J is the integral of f''(x)^2.
    likelihood : Likelihood or str
        A likelihood, or its name in `LIKELIHOODS`.
    **options
        As in `Model.from_formula`: `weights`, `offset`, `prior`, `aux`, ...

    Returns
    -------
    Fit
        The fit, to summarise, compare and predict with, and to draw with `plot.smooth`.

    Raises
    ------
    DataError
        For data that cannot be read, a formula without smooth functions, and degrees of freedom out of range.
    Incompatible
        For `df` and `sp` at once, and for a penalty that has no single weight.

    References
    ----------
    Wood 2017, chapters 4 to 6.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace(0.0, 6.0, 40)
    >>> table = {"x": x, "y": np.sin(x) + 0.1 * np.cos(40.0 * x)}
    >>> float(gam("y ~ s(x)", table, df=4.0).smooths.loc["s(x)", "edf"].round(6))
    4.0
    """
    from probreg.fits.penalty_weight import fit_with_degrees, fit_with_penalty

    model = Model.from_formula(x, data, likelihood=likelihood, **options)
    if not term_functions(model.design):
        raise DataError(
            f"the formula {x!r} has no smooth function: write y ~ s(x), s(x, by=g) or t2(x, z)"
        )
    if df is not None and sp is not None:
        raise Incompatible("df= and sp= both state the smoothness: give one of them")
    if df is not None:
        return fit_with_degrees(model, df)
    if sp is None:
        return fit(model, "evidence")
    return fit_with_penalty(model, sp)


@check_arguments
def quantile_regression(
    x: str | ArrayLike,
    data: RowsLike,
    *,
    tau: Fraction | Sequence[float] | np.ndarray = 0.5,
    **options: Any,
) -> Fit | dict[float, Fit]:
    """Quantile regression: argmin_b sum_i rho(y_i - x_i b), rho(r) = r (tau - 1[r < 0]), with sandwich standard errors.

    It is maximum likelihood under asymmetric Laplace noise, `pr.likelihoods.Quantile(tau)`. The covariance is Powell's sandwich,
    which estimates the density of the residuals at the quantile by a kernel; `covariance("expected")` uses the assumed density instead.
    If fewer than five observations for each column are expected on one side of the quantile, there are no standard errors, and a note
    gives the reason: use `fit(model, Bootstrap("interior_point"))`.

    Parameters
    ----------
    x : str or array (n, q)
        A formula ("y ~ x1 + C(g)") or the matrix X.
    data : table or array (n,)
        The table that a formula reads, or the response y of a matrix.
    tau : float or sequence or array of float
        The probability below the quantile, between 0 and 1; each of several is fitted separately.
    **options
        As in `Model.from_formula` and `Model.from_arrays`: `weights`, `offset`, `prior`, `columns`, ...

    Returns
    -------
    Fit or dict from float to Fit
        The fit, or a fit for each tau in increasing order. A note reports rows with crossing quantiles.

    Raises
    ------
    DataError
        For data that cannot be read, naming column and row.

    References
    ----------
    Koenker & Bassett 1978; Powell 1991; Koenker 2005, section 3.4.

    Examples
    --------
    >>> quantile_regression([0.0, 0.0, 0.0, 1.0, 1.0, 1.0], [1.0, 2.0, 9.0, 2.0, 4.0, 6.0]).coef.values.round(6).tolist()
    [2.0, 2.0]
    """
    from probreg.fits.penalty_weight import fit_quantiles

    # an array without dimensions is a number
    several = isinstance(tau, Sequence) or np.ndim(tau) > 0
    model = _read_model(x, data, options, likelihood=Quantile(0.5))
    fits = fit_quantiles(model, list(tau) if several else [float(tau)])  # type: ignore[arg-type]
    return fits if several else next(iter(fits.values()))


@check_arguments
def svr(
    x: str | ArrayLike, data: RowsLike, *, C: Positive, epsilon: NonNegative, kernel: CovarianceFunction | str = "rbf", intercept: Flag = True,
    basis: Word = "exact", **options: Any,
) -> Fit:  # fmt: skip
    """Support vector regression: argmin_f,b ||f||^2 / 2 + C sum_i max(0, |y_i - f(x_i) - b| - epsilon) over the functions of a kernel.

    It is the mode of a tube likelihood, `pr.likelihoods.EpsilonInsensitive(epsilon)` with scale c, under Normal(tau) on the columns of
    the kernel, where C = tau^2 / c. The mode needs only this ratio: c is the maximum likelihood scale given the residuals, and
    tau = (C c)^(1/2). Standard errors and predictions use c; if no residual is outside the tube, there are none. For a posterior state
    both c and tau.
    `fit.support` lists the support vectors.

    Parameters
    ----------
    x : str or array (n, q)
        The inputs of the kernel, or a formula of plain columns ("y ~ x1 + x2").
    data : table or array (n,)
        The table that a formula reads, or the response y of a matrix.
    C : float
        Positive, the weight of the loss.
    epsilon : float
        Half the width of the tube, in units of y, at least 0.
    kernel : CovarianceFunction or str
        A function of `pr.kernels` (`pr.kernels.RBF(1.0)`) or the name of one with its defaults; "linear" takes the columns
        themselves.
    intercept : bool
        Whether a constant b without a penalty is added; a formula without one writes "- 1".
    basis : {"exact", "cholesky", "hsgp"}
        The columns of the kernel; all but "exact" are approximations, for many rows "cholesky".
    **options
        `weights` and `offset`; `columns` and `response` of a matrix, as in `Model.from_arrays`; `missing` of a formula.

    Returns
    -------
    Fit
        The fit, to summarise, compare and predict with.

    Raises
    ------
    DataError
        For data that cannot be read, and settings out of range.

    References
    ----------
    Vapnik 1995; Smola & Schölkopf 2004.

    Examples
    --------
    >>> from probreg.kernels import RBF
    >>> fit = svr([0.0, 1.0, 2.0, 4.0], [0.0, 1.0, 0.0, 2.0], kernel=RBF(1.0), C=10.0, epsilon=0.1)
    >>> fit.support["weight"].round(6).tolist()
    [-1.932021, 2.645328, -2.157503, 1.444197]
    """
    from probreg.inference.penalized.piecewise_linear import SupportVectors

    _check_inputs("svr", x, intercept, options, ["weights", "offset"])
    likelihood = EpsilonInsensitive(epsilon)
    read = read_kernel(kernel)
    if isinstance(read, Linear):
        if basis != "exact":
            raise Incompatible(
                f"svr: basis={basis!r} is for other kernels: kernel='linear' takes the columns themselves"
            )
        if not isinstance(x, str):
            options["intercept"] = intercept
        return fit(
            _read_model(x, data, options, likelihood=likelihood, prior=Normal(1.0)),
            SupportVectors(C=C),
        )
    inputs, y, options = _read_inputs(x, data, {"intercept": intercept, **options})
    model = model_of_kernel(
        inputs,
        y,
        read,
        Normal(1.0),
        basis=basis,
        likelihood=likelihood,
        triangular=True,
        **options,
    )
    return fit(model, SupportVectors(C=C))


def _check_inputs(
    recipe: str, x: Any, intercept: bool, options: dict[str, Any], names: list[str]
) -> None:
    """Raise Incompatible for an option that a recipe of a kernel does not have, and for `intercept=False` with a formula."""
    others = ["missing"] if isinstance(x, str) else ["columns", "response"]
    refuse_unknown(recipe, options, [*names, *others])
    if isinstance(x, str) and not intercept:
        raise Incompatible(
            f"{recipe}: a formula says itself whether there is a constant: write '- 1' in it for intercept=False"
        )


def _read_inputs(
    x: Any, data: Any, options: dict[str, Any]
) -> tuple[Any, Any, dict[str, Any]]:
    """Return the inputs of a kernel, the response, and the options of `model_of_kernel`, of a formula or of arrays."""
    if isinstance(x, str):
        return inputs_of_formula(x, data, options)
    if isinstance(data, str):
        raise DataError(f"the formula {data!r} is the second argument: write it first")
    return x, data, options


def _read_model(x: Any, data: Any, options: dict[str, Any], **choices: Any) -> Model:
    """Return the model of a formula and a table, or of a matrix and a response.

    Raises Incompatible for an option that the recipe chooses itself.
    """
    for name in choices.keys() & options.keys():
        raise Incompatible(
            f"{name}={options[name]!r}: this function chooses the {name}; write fit(Model.from_formula(..., {name}=...)) for another"
        )
    if isinstance(x, str):
        return Model.from_formula(x, data, **options, **choices)
    if isinstance(data, str):
        raise DataError(f"the formula {data!r} is the second argument: write it first")
    return Model.from_arrays(x, data, **options, **choices)
