"""Prior, likelihood and posterior of each coefficient on one axis: what the prior did, at a glance."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from probreg.arguments.scalars import Flag, check_arguments
from probreg.comparison.prior_weight import maximum_likelihood
from probreg.errors import Incompatible, ProbregError
from probreg.fits.fit import Fit
from probreg.fits.inference_data import reported_coefficients
from probreg.inference.base import has_effects
from probreg.model.model import Model
from probreg.priors import Flat, LocationScale
from probreg.show.plot.parameters import (
    Order,
    Rename,
    Scale,
    intercepts,
    names_to_show,
    order_names,
    spreads,
)
from probreg.show.plot.style import (
    DASHED,
    GREY,
    INK,
    Size,
    few_ticks,
    footnote,
    label,
    mark,
    message,
    paper,
    shorten,
    top_legend,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = np.ndarray
MOST = 12  # coefficients in one picture
_POINTS = 401


@check_arguments
def prior_weight(
    fit: Fit,
    *,
    rename: Rename | None = None,
    sort: Order | None = None,
    intercept: Flag = True,
    scale: Scale = "raw",
    figsize: Size | None = None,
) -> "Figure":
    """Densities of each coefficient that has a prior, each scaled to its own height: prior, likelihood and posterior.

    The likelihood is a normal about maximum likelihood with its standard error. The posterior is that of the draws, or
    the normal about the mode. At most 12 coefficients are drawn, none of smooth functions, whose columns say nothing one by one.

    Parameters
    ----------
    fit : Fit
        A fit.
    rename : mapping from str to str, optional
        New names of columns.
    sort : {"estimate", "name"}, optional
        From the largest estimate down, or by name; by default in the order of the model.
    intercept : bool
        Whether an intercept that has a prior is drawn.
    scale : {"raw", "sd"}
        Per unit of the column, or per standard deviation of it, on one axis for all.
    figsize : pair of float, optional
        Width and height in inches.

    Returns
    -------
    Figure
        A matplotlib figure outside pyplot.

    Raises
    ------
    Incompatible
        When every prior is flat, but for those of smooth functions, and for effects that vary by a group.

    Examples
    --------
    >>> import probreg as pr
    >>> model = pr.Model.from_arrays([[2.0], [3.0], [4.0], [6.0]], [5.0, 7.0, 9.0, 13.5], columns=["dose"], prior=pr.Normal(1.0))
    >>> [ax.get_title(loc="left") for ax in prior_weight(pr.fit(model)).axes]
    ['dose']
    """
    drawn = columns_to_draw(fit.model)
    if has_effects(fit.model):
        raise Incompatible(
            "the effects of groups have their prior in common, so that no maximum likelihood stands beside it; "
            "fit.effects says how far each is pooled"
        )
    if not drawn.any():
        raise Incompatible(
            "every prior of coefficients in this model is flat or of a smooth function: there is no prior to draw"
        )
    rows, words = _select_coefficients(
        fit, drawn, rename=rename, sort=sort, intercept=intercept, scale=scale
    )
    shown = rows[:MOST]
    if scale == "sd":
        unit = spreads(fit)
    else:
        unit = dict.fromkeys(words, 1.0)
    ml, se, _ = maximum_likelihood(fit)
    prior = _prior_draws(fit)
    posterior = _posterior(fit)
    if len(shown) == 1:
        cols = 1
    elif len(shown) <= 6:
        cols = 2
    else:
        cols = 3
    deep = -(-len(shown) // cols)
    fig, axes = paper(
        deep, cols, size=(7.4, 0.9 + 1.75 * deep), figsize=figsize, sharex=scale == "sd"
    )
    for ax, i in zip(axes.flat, shown):
        name = str(fit.parameter_names[i])
        _draw_densities(
            ax,
            None if prior is None else prior[:, i],
            _prior_density(fit, i),
            (ml[i], se[i]),
            posterior[i],
            unit[name],
        )
        label(ax, title=shorten(words[name], 40))
    for i, ax in enumerate(axes.flat):
        ax.set_visible(i < len(shown))
        ax.tick_params(labelbottom=scale == "raw" or i + cols >= len(shown))
    top_legend(fig, axes.flat[0])
    if len(rows) > MOST:
        left_out = f"; {MOST} of {len(rows)} coefficients"
    else:
        left_out = ""
    if scale == "sd":
        units = "per standard deviation of the column"
    else:
        units = "in the units of the coefficient"
    footnote(fig, f"densities, each to its own height, {units}{left_out}")
    return fig


def _select_coefficients(
    fit: Fit,
    drawn: Array,
    *,
    rename: Rename | None,
    sort: Order | None,
    intercept: bool,
    scale: Scale,
) -> tuple[list[int], dict[str, str]]:
    """The numbers of the coefficients to draw in their order, and the name to show of each."""
    k = fit.coef.size // fit.model.shape[0]
    number = {
        str(name): i for i, name in enumerate(fit.parameter_names) if drawn[i // k]
    }
    words = names_to_show(list(number), rename)
    sd = spreads(fit)
    dropped = set() if intercept else intercepts([fit])
    dropped |= {name for name in number if scale == "sd" and not np.isfinite(sd[name])}
    value = fit.coef.values.ravel()
    size = {
        name: value[i] * (sd[name] if scale == "sd" else 1.0)
        for name, i in number.items()
    }
    return [
        number[n]
        for n in order_names(
            list(number), dropped, sort=sort, estimate=size, shown=words
        )
    ], words


def columns_to_draw(model: Model) -> Array:
    """(p,) bool: columns with a prior that are not of a smooth function."""
    return np.asarray(model.joint.informative & ~model.design.of_terms)


def _prior_draws(fit: Fit, draws: int = 4000) -> Array | None:
    """Draws of the reported coefficients from their prior (draws, parameters); None when it has none."""
    model = fit.model
    rng = np.random.default_rng(0)
    if model.joint.contrast is not None:
        return None  # a penalty of all classes
    sigma = fit.model.noise(fit.aux)
    out = np.zeros((draws, *model.shape))
    for b in model.joint.blocks:
        if isinstance(b.prior, Flat) or model.design.of_terms[list(b.columns)].all():
            continue
        try:
            unit = sigma if b.prior.sigma_units else 1.0
            shape = (draws, len(b.columns), b.width(model.shape[1]))
            b.put(out, b.prior.sample(rng, shape, unit))
        except ProbregError:
            return None
    return reported_coefficients(model, out).reshape(draws, -1)


def _prior_density(fit: Fit, i: int) -> Callable[[Array], Array] | None:
    """The prior density of one reported coefficient where it is a formula; None where it has to be drawn."""
    model = fit.model
    k = fit.coef.size // model.shape[0]
    if k != model.shape[1]:
        return None  # a reported coefficient of a symmetric softmax is a combination of several
    block = next(
        b
        for b in model.joint.blocks
        if i // k in b.columns and b.predictor in (None, i % k)
    )
    prior: Any = block.prior
    if (
        not isinstance(prior, LocationScale)
        or getattr(prior, "precision_matrix", None) is not None
    ):
        return None
    at = block.columns.index(i // k)
    scale, location = (
        np.broadcast_to(np.asarray(v), len(block.columns))[at]
        for v in (prior.scales, prior.location)
    )
    this: Any = prior
    single = replace(this, scale=float(scale), location=float(location))
    if prior.sigma_units:
        unit = fit.model.noise(fit.aux)
    else:
        unit = 1.0
    return lambda x: np.exp(single.log_prob(x[:, None, None], unit))


def _posterior(fit: Fit) -> list[Any]:
    """For each parameter draws (S,), or (mode, sd)."""
    s = fit.solution
    if s.draws is not None and not s.draws.elliptical:
        beta = s.draws["beta"]
        return list(
            reported_coefficients(fit.model, beta.reshape(-1, *beta.shape[2:]))
            .reshape(beta.shape[0] * beta.shape[1], -1)
            .T
        )
    return list(zip(fit.coef.values.ravel(), fit.std_error.values.ravel()))


def _draw_densities(
    ax: Any,
    prior: Array | None,
    density: Callable[[Array], Array] | None,
    likelihood: tuple[float, float],
    posterior: Any,
    unit: float,
) -> None:
    low, high = _range(prior, likelihood, posterior)
    if not np.isfinite([low, high]).all():
        message(ax, "no estimate and no spread to draw")
        return
    x = np.linspace(low, high, _POINTS)
    curves = [
        (
            "prior",
            density(x)
            if density is not None
            else None
            if prior is None
            else _kernel_density(prior, x),
            2,
        ),
        ("likelihood", _normal_density(x, *likelihood), 1),
        (
            "posterior",
            _kernel_density(posterior, x)
            if isinstance(posterior, np.ndarray)
            else _normal_density(x, *posterior),
            0,
        ),
    ]
    for name, y, i in curves:
        if y is None:
            continue
        look = mark(i)
        ax.plot(
            x * unit,
            y / y.max(),
            color=look.color,
            linestyle=look.line,
            linewidth=2.2 if name == "posterior" else 1.5,
            label=name,
        )
    if low <= 0 <= high:
        ax.axvline(0.0, color=GREY, linewidth=0.8, linestyle=DASHED, zorder=0)
    ax.set_ylim(0, 1.06)
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)
    ax.tick_params(labelcolor=INK)
    few_ticks(ax)


def _range(
    prior: Array | None, likelihood: tuple[float, float], posterior: Any
) -> tuple[float, float]:
    """What holds likelihood and posterior whole, and as much of the prior as does not make them a spike."""
    ends = []
    for centre, sd in (
        likelihood,
        posterior
        if not isinstance(posterior, np.ndarray)
        else (posterior.mean(), posterior.std()),
    ):
        if np.isfinite([centre, sd]).all() and sd > 0:
            ends += [centre - 4 * sd, centre + 4 * sd]
    if prior is not None:
        low, high = np.quantile(prior, [0.01, 0.99])
        if not ends:
            return float(low), float(high)
        width = max(ends) - min(ends)
        middle = 0.5 * (min(ends) + max(ends))
        ends += [max(low, middle - 2 * width), min(high, middle + 2 * width)]
    return (min(ends), max(ends)) if ends else (np.nan, np.nan)


def _normal_density(x: Array, centre: float, sd: float) -> Array | None:
    if not (np.isfinite([centre, sd]).all() and sd > 0):
        return None
    return np.exp(-0.5 * ((x - centre) / sd) ** 2)


def _kernel_density(draws: Array, x: Array) -> Array | None:
    """A kernel estimate with Silverman's width from the quartiles, which heavy tails do not widen."""
    low, high = np.quantile(draws, [0.25, 0.75])
    width = 0.9 * min(draws.std(), (high - low) / 1.34) * len(draws) ** -0.2
    if not width > 0:
        return None
    edges = np.linspace(x[0] - 5 * width, x[-1] + 5 * width, 2048)
    counts, _ = np.histogram(draws, edges)
    middle = 0.5 * (edges[1:] + edges[:-1])
    kernel = np.exp(-0.5 * ((x[:, None] - middle) / width) ** 2)
    return kernel @ counts
