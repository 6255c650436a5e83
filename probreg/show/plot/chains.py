"""Pictures of Markov chains and of data replicated from a posterior, drawn by arviz-plots."""

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from probreg.arguments.scalars import check_arguments
from probreg.errors import Incompatible
from probreg.fits.fit import Fit
from probreg.show.plot.style import Size

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@check_arguments
def trace(fit: Fit, *, figsize: Size | None = None) -> "Figure":
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
def rank(fit: Fit, *, figsize: Size | None = None) -> "Figure":
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
def energy(fit: Fit, *, figsize: Size | None = None) -> "Figure":
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
        For a fit without energies.
    """
    tree = _chains(fit)
    if "energy" not in tree["sample_stats"]:
        raise Incompatible(f"{fit.method.name} does not store energies")
    return _draw("plot_energy", tree, figsize)


@check_arguments
def ppc(fit: Fit, *, figsize: Size | None = None) -> "Figure":
    """Draw the response and data replicated from the posterior: distributions, or a rootogram for counts.

    Parameters
    ----------
    fit : Fit
        A posterior of a numeric response.
    figsize : pair of float, optional
        Width and height in inches.

    Returns
    -------
    Figure
        `arviz_plots.plot_ppc_dist` or `arviz_plots.plot_ppc_rootogram`, outside pyplot.

    Raises
    ------
    Incompatible
        For a point estimate, and for classes.
    """
    likelihood = fit.model.likelihood
    if fit.target != "posterior":
        raise Incompatible(
            f"a posterior predictive check needs a posterior, and {fit.method.name} gives a {fit.target}"
        )
    if not likelihood.has_cdf or likelihood.binary:
        raise Incompatible(
            f"no posterior predictive distribution of {likelihood.named} response to draw: use plot.reliability(fit)"
        )
    fit.model.design.need_rows("a posterior predictive check")
    likelihood.require_exact(
        fit.model.design.observed,
        "a posterior predictive check",
        "use plot.diagnose(fit)",
    )
    name = "plot_ppc_rootogram" if likelihood.is_count else "plot_ppc_dist"
    return _draw(name, fit.tree, figsize)


def _chains(fit: Fit) -> Any:
    """Return the groups of a fit, with the first parameters that all rows share, each as a variable of its own."""
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


def _draw(name: str, tree: Any, figsize: Size | None, **options: Any) -> "Figure":
    """Return the figure of an arviz-plots function, closed in pyplot so that a notebook shows it once."""
    import arviz_plots
    import matplotlib.pyplot as plt

    from probreg.show.plot.picture import Picture

    kwargs: dict[str, Any] = {"FigureClass": Picture, "layout": "constrained"}
    if figsize is not None:
        kwargs["figsize"] = figsize
    collection = getattr(arviz_plots, name)(tree, figure_kwargs=kwargs, **options)
    figure: Figure = collection.viz["figure"].item()
    plt.close(figure)
    return figure
