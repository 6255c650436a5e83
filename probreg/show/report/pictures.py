"""The pictures of a report, each as an image inside the page with a caption and alternative text."""

import base64
import platform
from collections.abc import Callable, Mapping
from functools import partial
from importlib.metadata import version
from io import BytesIO
from typing import TYPE_CHECKING, Any, NamedTuple

from probreg.errors import DataError, Incompatible, NotConverged
from probreg.fits.fit import Fit
from probreg.inference.base import has_effects
from probreg.inference.varying import effects_of_groups
from probreg.likelihoods import OfClasses
from probreg.show.plot.chains import rank, trace
from probreg.show.plot.coefficients import coefficients
from probreg.show.plot.diagnose import diagnose
from probreg.show.plot.effects import effects
from probreg.show.plot.fitted import fitted
from probreg.show.plot.prior_weight import columns_to_draw, prior_weight

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LIBRARIES = (
    "probreg",
    "numpy",
    "scipy",
    "xarray",
    "pymc",
    "nutpie",
    "arviz",
    "matplotlib",
)


def versions() -> list[tuple[str, str]]:
    """Library and version."""
    numbers = [("Python", platform.python_version())]
    return numbers + [(name, version(name)) for name in _LIBRARIES]


class Shown(NamedTuple):
    """A picture, or the reason why there is none; title and caption are the alternative text."""

    title: str
    caption: str
    source: str = ""
    width: float = 0.0  # inches


def curve_picture(
    fits: Mapping[str, Fit], prob: float, data: Any, variable: str | None
) -> Shown:
    """The fitted curve over the data, along `variable` or the first numeric one."""
    likelihood = next(iter(fits.values())).model.likelihood
    quantity = likelihood.centre.capitalize()
    if isinstance(likelihood, OfClasses):
        quantity = "Probability"
    caption = f"{quantity} with its {100 * prob:g} % interval, over the data."
    draw = partial(fitted, fits, variable, data=data, prob=prob)
    return picture_of("Fitted curve", caption, draw)


def coefficients_picture(fits: Mapping[str, Fit], prob: float) -> Shown:
    """Estimates of all fits with their intervals."""
    caption = f"Estimates with {100 * prob:g} % intervals, one panel per parameter, each with its own axis."
    return picture_of("Coefficients", caption, partial(coefficients, fits, prob))


def effects_pictures(fits: Mapping[str, Fit], prob: float) -> list[Shown]:
    """Draw the effects of each grouping factor of the main fit among those with effects by group."""
    grouped = {name: fit for name, fit in fits.items() if has_effects(fit.model)}
    if not grouped:
        return []
    name, fit = judged_fit(grouped)
    caption = f"{name}: deviations from the coefficient that all groups share, with {100 * prob:g} % intervals."
    return [
        picture_of(f"Effects of {group}", caption, partial(effects, fit, group, prob))
        for group in effects_of_groups(fit.model)
    ]


def influence_picture(fits: Mapping[str, Fit]) -> list[Shown]:
    """Draw prior, likelihood and posterior of the main fit, if some prior is informative and no effect varies by a group."""
    name, fit = judged_fit(fits)
    if not columns_to_draw(fit.model).any() or has_effects(fit.model):
        return []
    caption = f"{name}: prior, likelihood and posterior density of each coefficient."
    title = "Prior, likelihood, posterior"
    return [picture_of(title, caption, partial(prior_weight, fit))]


def diagnostic_pictures(fits: Mapping[str, Fit]) -> list[Shown]:
    """Draw the diagnostics of the main fit, and the chains of each fit that has them."""
    name, fit = judged_fit(fits)
    caption = f"{name}, at the rows of the fit: residuals are level at zero when the mean is right, quantiles and calibration on the line when the distribution is right."
    pictures = [picture_of("Diagnostics", caption, partial(diagnose, fit))]
    for name, each_fit in fits.items():
        if each_fit.method.makes_chains:
            pictures += [
                picture_of(
                    f"Chains of {name}",
                    "Density and trace of each chain: chains that mix lie on top of one another, without trend.",
                    partial(trace, each_fit),
                ),
                picture_of(
                    f"Ranks of {name}",
                    "Ranks of the draws of each chain among all draws, as differences from uniform: inside the band when the chains mix.",
                    partial(rank, each_fit),
                ),
            ]
    return pictures


def judged_fit(fits: Mapping[str, Fit]) -> tuple[str, Fit]:
    """Return the fit of the answer and of the predictive check: the last posterior, else the last fit with an estimate."""
    good = [
        (name, fit) for name, fit in fits.items() if fit.solution.status.good
    ] or list(fits.items())
    return next(
        (pair for pair in reversed(good) if pair[1].target == "posterior"), good[-1]
    )


def picture_of(title: str, caption: str, draw: Callable[[], "Figure"]) -> Shown:
    """Return the picture from `draw`, or the reason why there is none."""
    try:
        figure = draw()
    except (DataError, Incompatible, NotConverged) as error:
        return Shown(title, f"No picture: {error}")
    return Shown(title, caption, embed_figure(figure), figure.get_figwidth())


def embed_figure(figure: "Figure") -> str:
    """The figure as an SVG data address; the same figure gives the same text."""
    import matplotlib

    dpi = 120.0  # of rasterized parts
    buffer = BytesIO()
    metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with matplotlib.rc_context({"svg.fonttype": "path", "svg.hashsalt": "probreg"}):
        figure.savefig(buffer, format="svg", dpi=dpi, metadata=metadata)
    text = base64.b64encode(buffer.getvalue()).decode("ascii")
    return f"data:image/svg+xml;base64,{text}"
