"""Pictures of Markov chains and of data replicated from a posterior or from priors, drawn by arviz-plots."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np

from probreg.arguments.scalars import check_arguments
from probreg.arguments.types import Figure
from probreg.errors import Incompatible
from probreg.fits.fit import Fit
from probreg.fits.inference_data import integer_response
from probreg.model.model import Model
from probreg.show.plot.style import Size


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
        For a fit without energies.
    """
    tree = _chains(fit)
    if "energy" not in tree["sample_stats"]:
        raise Incompatible(f"{fit.method.name} does not store energies")
    return _draw("plot_energy", tree, figsize)


@check_arguments
def ppc(fit: Fit | Model, *, figsize: Size | None = None) -> Figure:
    """Draw the response and data replicated from the posterior, or of a model from its priors: distributions, or a rootogram for counts and ordered classes.

    Parameters
    ----------
    fit : Fit or Model
        A posterior of a numeric response, or a model with proper priors before the fit.
    figsize : pair of float, optional
        Width and height in inches.

    Returns
    -------
    Figure
        `arviz_plots.plot_ppc_dist` or `arviz_plots.plot_ppc_rootogram`, outside pyplot.

    Raises
    ------
    Incompatible
        For a point estimate, for classes without an order, and for a model with a flat prior.

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
    if not likelihood.has_cdf or likelihood.binary:
        instead = (
            "plot.reliability(fit)"
            if isinstance(fit, Fit)
            else "model.prior_predictive()"
        )
        raise Incompatible(
            f"no predictive distribution of {likelihood.named} response to draw: use {instead}"
        )
    model.design.need_rows("a predictive check")
    likelihood.require_exact(
        model.design.observed, "a predictive check", "use plot.diagnose(fit)"
    )
    name, data = "plot_ppc_dist", "observed_dist"
    if likelihood.is_discrete:
        name, data = "plot_ppc_rootogram", "observed_markers"
    if isinstance(fit, Fit):
        return _draw(name, fit.tree, figsize)
    # arviz-plots leaves the data out of prior predictive pictures by default
    options = {"group": "prior_predictive", "visuals": {data: {}}}
    return _draw(name, _prior_tree(model), figsize, **options)


def _prior_tree(model: Model) -> Any:
    """Return responses drawn from the priors of a model, and the observed ones, as arviz-plots takes them."""
    import xarray as xr

    drawn = model.prior_predictive()
    if drawn.y is None:
        raise Incompatible(f"no draws of the response: {'; '.join(drawn.notes)}")
    y = integer_response(model, drawn.y[None])
    observed = integer_response(model, model.likelihood.drawn(model.design.observed))
    return xr.DataTree.from_dict(
        {
            "prior_predictive": xr.Dataset({"y": (("chain", "draw", "obs"), y)}),
            "observed_data": xr.Dataset({"y": ("obs", observed)}),
        }
    )


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


def _draw(name: str, tree: Any, figsize: Size | None, **options: Any) -> Figure:
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
