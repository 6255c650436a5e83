"""Pictures of Markov chains and of data replicated from a posterior or from priors. arviz-plots draws them, except for classes."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np

from probreg.arguments.scalars import Figure, check_arguments
from probreg.errors import Incompatible
from probreg.fits.fit import Fit
from probreg.fits.inference_data import (
    integer_response,
    observation_rows,
    repeat_observations,
)
from probreg.likelihoods import OfTrials
from probreg.model.model import Model
from probreg.show.plot.style import (
    INK,
    LIGHT,
    Size,
    label,
    mark,
    panels,
    shorten,
    top_legend,
)

Array = np.ndarray


@check_arguments
def trace(fit: Fit, *, figsize: Size | None = None) -> Figure:
    """Draw the density of each parameter by chain and its draws in order, with divergent steps marked.

    Parameters
    ----------
    fit : Fit
        A fit with Markov chains; the first 12 parameters are drawn, without the effects of groups.
    figsize : pair of float, optional
        Width and height in inches.

    Returns
    -------
    Figure
        `arviz_plots.plot_trace_dist`, outside pyplot.

    Raises
    ------
    Incompatible
        For a fit without Markov chains.
    """
    return _draw("plot_trace_dist", _chains(fit), figsize, compact=False)


@check_arguments
def rank(fit: Fit, *, figsize: Size | None = None) -> Figure:
    """Draw the ranks of each chain's draws among all draws, as the difference of their distribution from uniform.

    Parameters
    ----------
    fit : Fit
        A fit with Markov chains; the first 12 parameters are drawn, without the effects of groups.
    figsize : pair of float, optional
        Width and height in inches.

    Returns
    -------
    Figure
        `arviz_plots.plot_rank`, outside pyplot.

    Raises
    ------
    Incompatible
        For a fit without Markov chains, or with only one.
    """
    tree = _chains(fit)
    if tree["posterior"].sizes["chain"] < 2:
        raise Incompatible(
            "ranks compare chains, and this fit has one: fit with chains=4"
        )
    return _draw("plot_rank", tree, figsize)


@check_arguments
def energy(fit: Fit, *, figsize: Size | None = None) -> Figure:
    """Draw the energies of the sampler, their changes from draw to draw, and E-BFMI of each chain.

    Parameters
    ----------
    fit : Fit
        A fit by NUTS.
    figsize : pair of float, optional
        Width and height in inches.

    Returns
    -------
    Figure
        `arviz_plots.plot_energy`, outside pyplot.

    Raises
    ------
    Incompatible
        For a fit without Markov chains.
    """
    return _draw("plot_energy", _chains(fit), figsize)


@check_arguments
def ppc(fit: Fit | Model, *, figsize: Size | None = None) -> Figure:
    """Draw the response and replicated data: from the posterior of a fit, or from the priors of a model.

    A continuous response is drawn by its distributions, and a count by a rootogram. Classes have bars of the observed frequency of
    each level with 95 % predictive intervals. If rows have different numbers of trials, successes have bars for ten bins of the
    proportion.
    The frequencies of two classes fit nearly every model; `plot.reliability` compares probabilities with observed shares.

    Parameters
    ----------
    fit : Fit or Model
        A posterior, or a model with proper priors before the fit.
    figsize : pair of float, optional
        Width and height in inches.

    Returns
    -------
    Figure
        A figure outside pyplot: bars, `arviz_plots.plot_ppc_dist` or `arviz_plots.plot_ppc_rootogram`.

    Raises
    ------
    Incompatible
        For a point estimate, for censored responses, and for a model with a flat prior.

    Examples
    --------
    >>> import probreg as pr
    >>> data = {"y": [1.0, 2.0, 2.5, 4.0], "x": [0.0, 1.0, 2.0, 3.0]}
    >>> priors = {"Intercept": pr.Normal(3.0), "x": pr.Normal(1.0)}
    >>> model = pr.Model.from_formula("y ~ x", data, prior=priors, aux={"sigma": pr.HalfNormal(1.0)})
    >>> picture = ppc(model)
    """
    model = fit if isinstance(fit, Model) else fit.model
    likelihood = model.likelihood
    if isinstance(fit, Fit) and fit.target != "posterior":
        raise Incompatible(
            f"a posterior predictive check needs a posterior, and {fit.method.name} gives a {fit.target}; plot.ppc(fit.model) draws from "
            "its priors"
        )
    model.design.need_rows("a predictive check")
    likelihood.require_exact(
        model.design.observed, "a predictive check", "use plot.diagnose(fit)"
    )
    rows, _ = observation_rows(model)
    name, data = "plot_ppc_dist", "observed_dist"
    if likelihood.is_discrete:
        name, data = "plot_ppc_rootogram", "observed_markers"
    visuals: dict[str, Any] = {}
    if isinstance(fit, Fit):
        tree, group = fit.tree, "posterior_predictive"
    else:  # arviz-plots leaves the data out of prior predictive pictures by default
        tree, group = _prior_tree(model), "prior_predictive"
        visuals = {data: {}}
    trials = likelihood.given(model.design.observed[rows]).get("trials")
    if likelihood.levels or (trials is not None and np.ptp(trials) > 0):
        return _draw_bars(model, tree, group, trials, figsize)
    return _draw(name, tree, figsize, group=group, visuals=visuals)


def _prior_tree(model: Model) -> Any:
    """Return responses drawn from the priors at the row of each observation, and the observed responses, in the form that arviz-plots needs."""
    import xarray as xr

    repeated = repeat_observations(model)
    drawn = repeated.prior_predictive()
    if drawn.y is None:
        raise Incompatible(f"no draws of the response: {'; '.join(drawn.notes)}")
    y = integer_response(model, drawn.y[None])
    observed = model.likelihood.drawn(repeated.design.observed)
    dims = ("chain", "draw", "obs", "level")
    return xr.DataTree.from_dict(
        {
            "prior_predictive": xr.Dataset({"y": (dims[: y.ndim], y)}),
            "observed_data": xr.Dataset(
                {"y": (dims[2 : y.ndim], integer_response(model, observed))}
            ),
        }
    )


def _draw_bars(
    model: Model, tree: Any, group: str, trials: Array | None, figsize: Size | None
) -> Figure:
    """Draw bars of the observed frequencies of levels, or of bins of a proportion, with their predictive medians and intervals."""
    (name,) = tree["observed_data"].data_vars
    names, observed = _frequencies(model, tree["observed_data"][name].values, trials)
    _, drawn = _frequencies(model, tree[group][name].values, trials)
    low, middle, high = np.quantile(drawn, (0.025, 0.5, 0.975), axis=(0, 1))
    fig, (ax,) = panels(1, 1, width=5.0, height=3.4, figsize=figsize)
    places = np.arange(len(names))
    ax.bar(places, observed, 0.8, color=LIGHT, label="observed")
    source = "prior" if group == "prior_predictive" else "posterior"
    look = mark(0) | {"linestyle": "", "markersize": 4.5, "capsize": 3.0}
    ends = [middle - low, high - middle]
    words = f"{source} predictive median and 95 % interval"
    ax.errorbar(places, middle, ends, label=words, **look)
    crowded = max(map(len, names)) * len(names) > 45  # letters in the width of the axes
    ax.set_xticks(places, names, rotation=90 if crowded else 0, color=INK)
    counted = "trials" if trials is not None and model.likelihood.levels else "rows"
    response = shorten(model.design.response)
    x = response if model.likelihood.levels else f"proportion, {response}"
    label(ax, x=x, y=f"number of {counted}")
    top_legend(fig, [ax])
    return fig


def _frequencies(
    model: Model, y: Array, trials: Array | None
) -> tuple[list[str], Array]:
    """Return the names and frequencies (..., K) of the levels in responses (..., n), or of bins of their share of the trials."""
    levels = [shorten(level, 20) for level in model.likelihood.level_names]
    if levels and isinstance(model.likelihood, OfTrials):  # counts of each class
        return levels, y.sum(-2)
    if levels:
        return levels, _count_codes(y, len(levels))
    bins = 10
    assert trials is not None
    names = [f"{k / bins:g} to {(k + 1) / bins:g}" for k in range(bins)]
    # bins [0, 0.1), ..., [0.9, 1], in whole numbers
    codes = np.minimum(bins * y // np.maximum(trials, 1).astype(int), bins - 1)
    return names, _count_codes(codes, bins)


def _count_codes(codes: Array, number: int) -> Array:
    """Return the frequencies (..., number) of 0, 1, ... in codes (..., n)."""
    return np.stack([(codes == k).sum(-1) for k in range(number)], -1)


def _chains(fit: Fit) -> Any:
    """Return the groups of a fit, with the first parameters that all rows share, each as a separate variable."""
    import xarray as xr

    most = 12  # parameters in one picture

    if not fit.method.makes_chains:
        raise Incompatible(
            f"{fit.method.name} runs no Markov chains: fit with 'nuts' to draw chains"
        )
    tree = fit.inference_data()
    effects = [name for name in tree["posterior"] if name.startswith("effects[")]
    shared = tree["posterior"].to_dataset().drop_vars(effects)
    parameters = _single_parameters(shared)
    tree["posterior"] = xr.Dataset(dict(islice(parameters, most)))
    return tree


def _single_parameters(posterior: Any) -> Iterator[tuple[str, Any]]:
    """Yield each entry (chain, draw) of the variables, named by its labels."""
    for name, values in posterior.items():
        dims = values.dims[2:]
        for place in np.ndindex(values.shape[2:]):
            entry = values[(..., *place)]
            labels = ", ".join(str(entry[dim].item()) for dim in dims)
            title = f"{name}[{labels}]" if dims else name
            yield title, entry.drop_vars(dims)


def _draw(name: str, tree: Any, figsize: Size | None, **options: Any) -> Figure:
    """Return the figure of an arviz-plots function, closed in pyplot so that a notebook shows it once."""
    import arviz_plots
    import matplotlib.pyplot as plt

    from probreg.show.plot.picture import Picture

    kwargs = {"FigureClass": Picture, "layout": "constrained"}
    if figsize is not None:
        kwargs["figsize"] = figsize
    collection = getattr(arviz_plots, name)(tree, figure_kwargs=kwargs, **options)
    figure = collection.viz["figure"].item()
    plt.close(figure)
    return figure
