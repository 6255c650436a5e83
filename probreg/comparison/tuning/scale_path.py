"""The mode as a function of one factor on every scale of the prior: from its centre to maximum likelihood."""

import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from probreg.arguments.scalars import (
    Count,
    Flag,
    Positive,
    Seed,
    check_arguments,
    read_argument,
)
from probreg.arguments.types import ArrayLike, DataArray, Dataset
from probreg.comparison.tuning.criteria import (
    Array,
    all_aux_at,
    aux_columns,
    criteria,
    evidence_along,
    found_modes,
    has_closed_evidence,
    modes,
)
from probreg.errors import DataError, Incompatible, ProbregWarning, warn_caller
from probreg.fits.fit import Fit, fit
from probreg.fits.inference_data import (
    coefficient_dims,
    model_coordinates,
    reported_coefficients,
)
from probreg.inference import (
    Method,
    MethodName,
    PathSolution,
    default_scales,
    mode_path,
)
from probreg.inference.penalized.paths import rescale_original
from probreg.model.descriptions import coefficient_prior_line
from probreg.model.model import Model
from probreg.priors import Flat
from probreg.priors.base import PositivePerColumn
from probreg.system.progress import progress_bar
from probreg.tables.render import PrintsLines

DF = "trace(H (H + P)^-1) over the coefficients off their kinks, H the information, P the curvature of -log prior, given aux"


@dataclass(frozen=True, eq=False, repr=False)
class RegularisationPath(PrintsLines):
    """The modes of a model along a grid of scales; `data` is a Dataset over (scale, coef[, outcome]).

    `data` contains beta; df, the effective degrees of freedom; log_likelihood at the
    mode; AIC and BIC, with k = df + unknown auxiliary parameters; log_evidence if it
    has a closed form; penalty, the weight in -log p = weight R(w) of each column, and
    lam = 2 sigma^2 weight in RSS + lam R(w) for a Gaussian likelihood; auxiliary
    parameters (the `scale` of a likelihood as noise_scale); kkt and status. nan where
    no mode was found.
    """

    model: Model
    solution: PathSolution

    @cached_property
    def data(self) -> Dataset:
        """Everything along the path, labelled; attrs define df and the quantity that the scale multiplies."""
        import xarray as xr

        solution = self.solution
        model = self.model
        good = found_modes(solution)
        mode = np.where(good[:, None, None], solution.beta, np.nan)
        if model.joint.contrast is None:
            beta = reported_coefficients(model, mode)
        else:  # the shift of an elastic net depends on its scale
            beta = np.stack(
                [
                    reported_coefficients(solution.model(i), v)
                    for i, v in enumerate(mode)
                ]
            )
        counted = criteria(solution)
        weight = penalties(solution)
        in_rss = {}
        if model.likelihood.least_squares:
            # -log p = RSS / (2 sigma^2) + weight R + constant, times 2 sigma^2: RSS + lam R with lam = 2 sigma^2 weight.
            sigma = np.array(
                [all_aux_at(solution, i)[model.noise_scale] for i in range(len(weight))]
            )
            in_rss = {"lam": (("scale", "coef"), 2.0 * sigma[:, None] ** 2 * weight)}
        columns: dict[str, Any] = {
            "beta": (("scale", *coefficient_dims(model)), beta),
            "df": np.where(good, solution.df, np.nan), "log_likelihood": np.where(good, solution.log_lik, np.nan),
            "AIC": counted["aic"], "BIC": counted["bic"], **aux_columns(solution),
            "penalty": (("scale", "coef"), weight), **in_rss,
            "kkt": solution.kkt, "status": np.array([s.value for s in solution.status]),
        }  # fmt: skip
        if has_closed_evidence(model):
            columns["log_evidence"] = evidence_along(solution)
        columns = {
            k: v if isinstance(v, tuple) else (("scale",), v)
            for k, v in columns.items()
        }
        attrs = {
            "df": DF,
            "scale": f"multiplies every scale of the prior: {coefficient_prior_line(model)}",
        }
        return xr.Dataset(
            columns, {"scale": solution.scales, **model_coordinates(model)}, attrs
        )

    @property
    def scales(self) -> Array:
        """(S,), increasing."""
        return self.solution.scales

    @property
    def coef(self) -> DataArray:
        """Coefficients on the raw columns, DataArray (scale, coef[, outcome])."""
        return self.data["beta"]

    @check_arguments
    def model_at(self, scale: Positive) -> Model:
        """The model with every scale of its prior multiplied by `scale`, on the grid or off it. DataError unless positive."""
        return rescale_original(self.model, float(scale))

    @check_arguments
    def fit_at(
        self, scale: Positive, method: Method | MethodName = "auto", *, seed: Seed = 0
    ) -> Fit:
        """`fit(path.model_at(scale), method)`: the mode at this scale as a Fit, or the posterior."""
        return fit(self.model_at(scale), method, seed=seed)

    @check_arguments
    def scale_at(self, df: Positive) -> float:
        """The scale at which a model with normal priors has `df` effective degrees of freedom, free columns counted.

        Incompatible for other priors, where df may jump or turn; DataError for more than there are, or fewer than are free.
        """
        if not self.model.joint.gaussian:
            raise Incompatible(
                "scale_at is for normal priors, under which df rises steadily with the scale; read data['df']"
            )
        from scipy.optimize import brentq

        low, high = np.log(default_scales(self.model, 2)) + np.array([-5.0, 5.0])
        ends = mode_path(self.model, np.exp([low, high])).df
        if not ends[0] < df < ends[1]:
            raise DataError(
                f"df goes from {ends[0]:.4g} to {ends[1]:.4g} along this path, so no scale has df = {df!r}"
            )

        # df(s) = tr J (J + P / s^2)^-1 rises with s: one root of df(exp u) = df.
        def off(u: float) -> float:
            return float(mode_path(self.model, np.exp([u])).df[0]) - df

        return float(np.exp(brentq(off, low, high, xtol=1e-13, rtol=1e-13)))

    @cached_property
    def ml(self) -> Fit | None:
        """The end of the path without prior: maximum likelihood; None if it does not exist."""
        with warnings.catch_warnings(action="ignore", category=ProbregWarning):
            ml_fit = fit(replace(self.model, prior=Flat()))
        return ml_fit if ml_fit.solution.status.good else None

    @property
    def _summary_lines(self) -> list[str]:
        """The model of the path, its scales, and the scale at the minimum of each criterion."""
        scales = self.scales
        bad = int((~found_modes(self.solution)).sum())
        lines = [
            f"Path: {self.model.likelihood.describe(self.model.design.response)}",
            f"{len(scales)} modes, every scale of {coefficient_prior_line(self.model)}, times {scales[0]:.4g} to {scales[-1]:.4g}",
        ]
        if bad < len(scales):
            data = self.data
            df = data["df"].values
            best = {q: scales[np.nanargmin(data[q].values)] for q in ("AIC", "BIC")}
            lines.append(
                f"effective degrees of freedom {np.nanmin(df):.4g} to {np.nanmax(df):.4g}; "
                f"least AIC at {best['AIC']:.4g}, least BIC at {best['BIC']:.4g}"
            )
        if bad:
            lines.append(f"note: {bad} modes were not found (variable status)")
        return lines


@check_arguments
def path(
    model: Model,
    scales: ArrayLike | None = None,
    *,
    n: Count = 100,
    progress: Flag | None = None,
) -> RegularisationPath:
    """The mode of a model at each scale of its prior, each started from the one before: a regularisation path.

    A scale multiplies every scale of the model's prior, so 1 is the model itself, small is a strong prior and large is
    maximum likelihood. The grid of a prior with kinks starts at the scale at which the first coefficient leaves its
    kink and spans a factor of 1000; other grids span the eigenvalues of the information. It warns if a mode was not found.

    Parameters
    ----------
    model : Model
        A model.
    scales : sequence of float, optional
        The scales; a grid of `n` of them otherwise.
    n : int
        Number of scales of the grid.
    progress : bool, optional
        Whether a bar is shown; by default after a second, at a terminal or in a notebook.

    Returns
    -------
    RegularisationPath
        `coef` over (scale, coef).

    Raises
    ------
    Incompatible
        For a flat prior, or one of unknown scale, and for effects by group.
    DataError
        For a prior without a scale.

    References
    ----------
    Friedman, Hastie & Tibshirani 2010.

    Examples
    --------
    >>> from probreg.priors import Laplace
    >>> model = Model.from_arrays([-1.0, 0.0, 1.0], [-1.0, 0.0, 1.0], prior=Laplace(1.0), aux={"sigma": 1.0})
    >>> path(model, [1 / 3, 1 / 1.5, 1 / 0.3]).coef.sel(coef="x1").values.round(9)
    array([0.  , 0.25, 0.85])
    """
    model.design.refuse_sampling("a path of scales with its AIC and BIC")
    refuse_groups(model, "path")
    with progress_bar("path", show=progress):
        solution = modes(model, grid_of(model, scales, n))
    bad = solution.scales[~found_modes(solution)].tolist()
    if bad:
        first = next(s for s in solution.status if not s.is_mode)
        message = f"path: no mode at {len(bad)} of {len(solution.scales)} scales, from {min(bad):.4g}: {first.value}"
        warn_caller(message)
    return RegularisationPath(model, solution)


def refuse_groups(model: Model, verb: str) -> None:
    """Raise Incompatible for effects by group."""
    if model.design.recipe.grouped:
        raise Incompatible(
            f"{verb} moves the scales that were stated, and effects by group have standard deviations. Fit by evidence, which "
            "finds them, and compare models by compare_models(fits, leave_out=...)"
        )


def grid_of(model: Model, scales: Any, n: int) -> Array:
    """Return the scales, increasing. DataError unless they are positive finite numbers."""
    if scales is None:
        return default_scales(model, n)
    return np.unique(read_argument("scales", scales, PositivePerColumn))


def penalties(solution: PathSolution) -> Array:
    """(S, p) weights of each column in -log p = weight R(w); 0 for a flat prior, nan for a prior that is not a penalty."""
    weights = np.zeros((len(solution.scales), solution.base.shape[0]))
    for i in range(len(weights)):
        sigma = solution.base.likelihood.noise(all_aux_at(solution, i))
        for b in solution.model(i).joint.blocks:
            if not isinstance(b.prior, Flat):
                weight = b.prior.penalty_weight(len(b.columns), b.prior.unit(sigma))
                weights[i, list(b.columns)] = np.nan if weight is None else weight
    return weights
