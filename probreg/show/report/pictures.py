"""The pictures of a report, each as an image inside the page with a caption and alternative text.

It also has the diagnostics of draws: R-hat, effective sample sizes, divergent steps, predictive accuracy.
"""

import base64
import platform
from collections.abc import Callable, Mapping
from importlib.metadata import version
from io import BytesIO
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from probreg.errors import DataError, Incompatible, NotConverged
from probreg.fits.fit import Fit
from probreg.fits.leave_one_out import FEWEST
from probreg.inference.base import has_chains, has_effects
from probreg.inference.sampling.convergence import R_HAT
from probreg.likelihoods import OfClasses, OfTrials
from probreg.show.plot.chains import rank, trace
from probreg.show.plot.coefficients import coefficients
from probreg.show.plot.fitted import fitted
from probreg.show.plot.leverage import leverage
from probreg.show.plot.prior_weight import columns_to_draw, prior_weight
from probreg.show.plot.reliability import reliability
from probreg.show.plot.residuals import residuals
from probreg.tables import Table
from probreg.tables.formats import format_digits

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ESS = 400.0  # Vehtari et al. 2021
# numbers in a pointwise log likelihood that is still quick to smooth
_MOST = 20_000_000
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


class Mixing(NamedTuple):
    """The diagnostics of one Markov chain Monte Carlo run."""

    name: str
    sentence: str
    good: bool
    table: Table


def mixing_summary(name: str, fit: Fit) -> Mixing:
    """R-hat and effective sample sizes per parameter, and a sentence about the worst of them."""
    import pandas as pd

    summary = fit.summary()[["mean", "sd", "ess_bulk", "ess_tail", "r_hat"]]
    frame = pd.DataFrame(summary).assign(
        mcse=summary["sd"] * summary["ess_bulk"] ** -0.5
    )
    formats = {
        "mcse": format_digits(2),
        "ess_bulk": "{:.0f}".format,
        "ess_tail": "{:.0f}".format,
        "r_hat": "{:.3f}".format,
    }
    worst = float(frame["r_hat"].max())
    smallest = float(frame[["ess_bulk", "ess_tail"]].min().min())
    posterior = fit.solution.posterior
    divergent = int(np.sum(posterior.stats.get("diverging", 0)))
    chains, draws = posterior["beta"].shape[:2]
    steps = f"{divergent} divergent steps; " if "diverging" in posterior.stats else ""
    sentence = (
        f"{chains} chains of {draws} draws; {steps}largest R-hat {worst:.3f} (good up to {R_HAT}); "
        f"smallest effective sample size {smallest:.0f} (good from {ESS:.0f})."
    )
    good = worst <= R_HAT and smallest >= ESS and not divergent
    return Mixing(name, sentence, good, Table.from_pandas(frame, formats=formats))


class Accuracy(NamedTuple):
    """Expected log predictive density by leave-one-out, and the fits for which it cannot be computed."""

    table: Table
    remarks: list[str]


def predictive_accuracy(fits: Mapping[str, Fit]) -> Accuracy | None:
    """PSIS-LOO of every posterior (Vehtari, Gelman & Gabry 2017); None if there is no posterior."""
    import pandas as pd

    rows: dict[str, dict[str, float]] = {}
    remarks: list[str] = []
    for name, fit in fits.items():
        if fit.target != "posterior":
            continue
        reason = _obstacle(fit)
        if reason is not None:
            remarks.append(f"{name}: {reason}")
            continue
        loo = fit.loo()
        rows[name] = {
            "elpd": loo.elpd,
            "SE": loo.se,
            "effective parameters": loo.p,
            "observations": loo.n_data_points,
            "Pareto k above 0.7": int((np.asarray(loo.pareto_k) > 0.7).sum()),
        }
    if not rows and not remarks:
        return None
    frame = pd.DataFrame.from_dict(rows, orient="index")
    table = Table.from_pandas(frame, number="{:.2f}".format)
    return Accuracy(table, remarks)


def _obstacle(fit: Fit) -> str | None:
    if "log_likelihood" not in fit.tree.children:
        return f"leave-one-out cannot be computed, since {fit.model.design.rows_absent}"
    if "weights" in fit.tree["constant_data"].data_vars:
        return "leave-one-out is left out here: weights stand for more observations than are written out"
    draws = fit.solution.posterior.count
    if draws < FEWEST:
        return f"leave-one-out needs {FEWEST} draws or more, and this fit has {draws}"
    size = fit.tree["log_likelihood"]["y"].size
    if size > _MOST:
        return f"leave-one-out is left out here for its size; fit.loo() computes it from {size:,} numbers"
    return None


def versions() -> list[tuple[str, str]]:
    """Library and version."""
    numbers = [("Python", platform.python_version())]
    return numbers + [(name, version(name)) for name in _LIBRARIES]


_MANY = 5_000  # rows above which a picture of single rows is unreadable
_DPI = 120.0  # of rasterized parts
_PANELS = 12  # coefficients with drawn priors


class Shown(NamedTuple):
    """A picture, or the reason why there is none."""

    title: str
    caption: str
    source: str
    alt: str
    width: float  # inches


def curve_picture(
    fits: Mapping[str, Fit], prob: float, data: Any, variable: str | None
) -> Shown:
    """The fitted curve over the data, along `variable` or the clearest one."""
    fit = next(iter(fits.values()))
    share = f"{100 * prob:g} %"
    likelihood = fit.model.likelihood
    if likelihood.outcomes:
        caption = f"Probability of each class with its {share} interval; markers are observed shares in bins of rows, whatever their other columns."
    elif isinstance(likelihood, OfTrials):
        caption = f"Probability of a success with its {share} interval; a circle is the share of a row, larger for more trials."
    elif isinstance(likelihood, OfClasses):
        caption = f"Probability of the event with its {share} interval, over the data."
    elif (
        fit.model.design.weight_kind == "sampling"
    ):  # under which there is no interval of a new observation
        caption = f"{likelihood.centre.capitalize()} with its {share} interval, over the data."
    else:
        caption = f"{likelihood.centre.capitalize()} with its {share} interval (dark) and that of a new observation (light), over the data."
    alt = f"Fitted curve of {fit.model.design.response} for {', '.join(fits)}"
    return picture_of(
        "Fitted curve",
        caption,
        alt,
        lambda: fitted(fits, variable, data=data, prob=prob),
    )


def coefficients_picture(fits: Mapping[str, Fit], prob: float) -> Shown:
    """Estimates of all fits with their intervals."""
    share = f"{100 * prob:g} %"
    caption = f"Estimates with {share} intervals, one panel per parameter, each with its own axis."
    alt = (
        f"Estimates and {share} intervals of {', '.join(fits)}, one panel per parameter"
    )
    return picture_of("Coefficients", caption, alt, lambda: coefficients(fits, prob))


def influence_picture(fits: Mapping[str, Fit]) -> list[Shown]:
    """Draw prior, likelihood and posterior of the main fit, if some prior is informative and no effect varies by a group."""
    judged, fit = judged_fit(fits)
    n_columns = int(columns_to_draw(fit.model).sum())
    if not n_columns or has_effects(fit.model):
        return []
    title = "Prior, likelihood, posterior"
    alt = f"Prior, likelihood and posterior densities of {judged}"
    if n_columns > _PANELS:
        return [
            Shown(
                title,
                f"Not drawn for {n_columns} coefficients; plot.prior_weight draws those of one fit.",
                "",
                alt,
                0.0,
            )
        ]
    caption = f"{judged}: what the prior and the data say of each coefficient, and both together."
    return [picture_of(title, caption, alt, lambda: prior_weight(fit))]


def diagnostic_pictures(fits: Mapping[str, Fit], prob: float) -> list[Shown]:
    """Draw the agreement with the data, the leverage, and the chains if there are any."""
    judged, fit = judged_fit(fits)
    if fit.model.likelihood.outcomes or fit.model.likelihood.binary:
        caption = f"{judged}: observed shares against predicted probabilities, in bins; right when on the diagonal. The rows are those of the fit, which flatters it."
        pictures = [
            picture_of(
                "Calibration",
                caption,
                f"Calibration of {judged}",
                lambda: reliability(fit, prob=prob),
            )
        ]
    else:
        caption = f"{judged}: left, residuals against fitted means with a smooth, level at zero when the mean is right. Right, quantile residuals, on the line when the distribution is right."
        pictures = [
            picture_of(
                "Residuals",
                caption,
                f"Residuals and normal quantiles of {judged}",
                lambda: residuals(fit),
            )
        ]
    pictures += _leverage_figure(fits)
    for name, single_fit in fits.items():
        if has_chains(single_fit.method, single_fit.solution):
            pictures += _chains(name, single_fit)
    return pictures


def _leverage_figure(fits: Mapping[str, Fit]) -> list[Shown]:
    """Draw the leverage of the first point estimate that has one."""
    good = (
        (n, f) for n, f in fits.items() if f.target == "mode" and f.solution.status.good
    )
    name, fit = next(good, ("", None))
    if fit is None or not 0 < fit.model.design.n <= _MANY:
        return []
    caption = f"{name}: rows that fit badly stand high or low, rows that pull the fit stand to the right; the curves are of equal Cook's distance."
    shown = picture_of(
        "Leverage",
        caption,
        f"Studentised residuals against leverage of {name}",
        lambda: leverage(fit),
    )
    return [shown] if shown.source else []


def _chains(name: str, fit: Fit) -> list[Shown]:
    return [
        picture_of(f"Chains of {name}", "Density and trace of each chain: chains that mix lie on top of one another, without trend.",
               f"Densities and traces of the chains of {name}", lambda: trace(fit)),
        picture_of(f"Ranks of {name}", "Ranks of the draws of each chain among all draws, as differences from uniform: inside the band when the chains mix.",
               f"Rank histograms of the chains of {name}", lambda: rank(fit)),
    ]  # fmt: skip


def judged_fit(fits: Mapping[str, Fit]) -> tuple[str, Fit]:
    """Return the fit of the answer and of the predictive check: the last posterior, else the last fit with an estimate."""
    good = [
        (name, fit) for name, fit in fits.items() if fit.solution.status.good
    ] or list(fits.items())
    return next(
        (pair for pair in reversed(good) if pair[1].target == "posterior"), good[-1]
    )


def picture_of(
    title: str, caption: str, alt: str, draw: Callable[[], "Figure"]
) -> Shown:
    """Return the picture from `draw`, or the reason why there is none."""
    try:
        figure = draw()
    except (DataError, Incompatible, NotConverged) as error:
        return Shown(title, f"No picture: {error}", "", alt, 0.0)
    return Shown(
        title, caption, embed_figure(figure), alt, float(figure.get_figwidth())
    )


def embed_figure(figure: "Figure") -> str:
    """The figure as an SVG data address; the same figure gives the same text."""
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    buffer = BytesIO()
    figure.set_dpi(_DPI)
    # savefig draws twice, the first time to lay the figure out, which drawing does itself: a fifth of the time, and the same bytes
    with matplotlib.rc_context({"svg.fonttype": "path", "svg.hashsalt": "probreg"}):
        FigureCanvasSVG(figure).print_svg(
            buffer, metadata=dict.fromkeys(("Date", "Creator", "Format", "Type"))
        )
    return "data:image/svg+xml;base64," + base64.b64encode(buffer.getvalue()).decode(
        "ascii"
    )
