"""The pages of the API reference: names that are exported at the top by what they are for, and modules by their registries.

What one adds to a registry or to a namespace stands in the reference without a line here; a name at the top needs one.
"""

import inspect
import re
import types
from pathlib import Path

import probreg as pr
import probreg.sklearn

TOP = {
    "model": (
        "Models and fits",
        "A model is a design, a likelihood and a prior; `fit` finds its mode or its posterior.",
        {
            "The model": ["Model", "censored"],
            "The fit": ["fit", "Fit", "load_fit"],
            "Data sets": ["list_datasets", "describe_dataset", "load_dataset"],
            "Errors and warnings": ["ProbregError", "DataError", "Incompatible", "NotConverged", "ProbregWarning"],
        },
    ),
    "recipes": (
        "Regressions by name",
        "Functions that fit a model with a well-known name: each combines a likelihood, a prior and a method.",
        {
            "Least squares and its penalties": [
                "ols", "ridge", "lasso", "elastic_net", "bridge", "bayesian_ridge", "ard", "linear_probability"
            ],
            "Classes and counts": ["logistic", "softmax", "firth", "poisson"],
            "Other losses": ["quantile_regression", "svr"],
            "Curves": ["gam", "gp", "kernel_ridge"],
        },
    ),
    "diagnostics": (
        "Checks and diagnostics",
        "Checks of a model before the fit, diagnostics of a fit, and simulations that test a method.",
        {
            "Before and after a fit": ["check", "diagnose", "residuals", "influence_measures", "power_scaling"],
            "A method on a model": ["simulate", "sbc", "bias_variance", "Truth"],
            "Guarantees of predictions": ["conformal", "Split", "JackknifePlus", "guarantee"],
        },
    ),
    "compare": (
        "Comparison, intervals, effects",
        "Comparison of fits, intervals, marginal effects, tests and tables for a paper.",
        {
            "Comparison of fits": ["compare", "Comparison", "compare_models", "explain"],
            "Intervals": ["interval_panel", "coverage"],
            "Effects and hypotheses": ["predictions", "comparisons", "slopes", "hypothesis", "anova"],
            "The prior": ["prior_weight", "prior_sensitivity", "path", "tune", "tune_svr"],
            "Tables and reports": ["table", "table_one", "report"],
        },
    ),
}  # fmt: skip
# The modules: title, first sentence.
SECTIONS = {
    "likelihoods": (
        "Likelihoods",
        "The first term of a model: the density of the response given the linear predictor.",
    ),
    "priors": (
        "Priors",
        "The second term of a model. Every penalty is a prior, and each prior prints its penalty.",
    ),
    "methods": (
        "Methods",
        "Algorithms of `fit`, by name or as an object with settings.",
    ),
    "kernels": (
        "Covariance functions",
        "Covariance functions, their sums and products, their columns, and ridge paths.",
    ),
    "online": (
        "Online learning",
        "Learners on streams of rows, with losses, regret and guarantees.",
    ),
    "scores": (
        "Scoring rules",
        "Proper scores of forecasts, their decompositions, and comparisons of forecasters.",
    ),
    "bounds": (
        "Generalisation bounds",
        "Bounds of the risk from numbers and arrays, each with its assumptions.",
    ),
    "plot": ("Pictures", "Each returns a matplotlib figure."),
    "sklearn": (
        "Estimators of scikit-learn",
        "A model that runs in a Pipeline, in GridSearchCV and in cross_val_score.",
    ),
    "weights": (
        "Weights",
        "Precision weights and sampling weights. A plain array has frequencies.",
    ),
}
CLASSES = {
    "likelihoods": [pr.LIKELIHOODS],
    "priors": [pr.PRIORS, pr.priors.AUX_PRIORS],
    "kernels": [pr.kernels.KERNELS],
}
# What a person calls methods of; other classes are settings, and their page is their docstring.
RESULTS = {
    "Model",
    "Fit",
    "Comparison",
    "Run",
    "RidgePath",
    "KernelBasis",
    "CovarianceFunction",
    "Rule",
}


def path_of(section: str, name: str, thing: object) -> str:
    """The shortest path by which a person reaches it: at the top if it is exported there."""
    return (
        f"probreg.{name}"
        if getattr(pr, name, None) is thing
        else f"probreg.{section}.{name}"
    )


def names_of(section: str) -> list[str]:
    """The public classes and functions of a section, as paths; methods are those of the registry."""
    if section == "methods":
        classes = {cls.__name__: cls for cls in pr.METHODS.values()}
        return [
            "probreg.Method",
            *sorted(path_of("inference", name, cls) for name, cls in classes.items()),
        ]
    module = getattr(pr, section)
    listed = (
        ["RowWeights", "precision", "sampling"]
        if section == "weights"
        else getattr(module, "__all__", dir(module))
    )
    out = []
    for name in listed:
        thing = getattr(module, name)
        ours = getattr(thing, "__module__", "").startswith("probreg")
        if (
            not name.startswith("_")
            and ours
            and isinstance(thing, type | types.FunctionType)
        ):
            out.append(path_of(section, name, thing))
    return sorted(out, key=lambda path: path.rpartition(".")[2].lower())


def registered() -> dict[str, list[str]]:
    """The names of the classes in the registries, as users write them."""
    found = {"likelihoods": pr.LIKELIHOODS, "priors": pr.PRIORS, "methods": pr.METHODS, "kernels": pr.kernels.KERNELS,
             "online": pr.online.LEARNERS, "scores": pr.scores.RULES}  # fmt: skip
    return {section: sorted(registry) for section, registry in found.items()}


def pages() -> dict[str, str]:
    """The text of each page by its file name."""
    out = {}
    met: set[int] = set()
    for file, (title, intro, groups) in TOP.items():
        parts = [_head(title, intro)]
        parts += [
            f"{group}\n{'-' * len(group)}\n\n{_summary(f'probreg.{n}' for n in names)}"
            for group, names in groups.items()
        ]
        out[file] = "\n".join(parts)
    for section, (title, intro) in SECTIONS.items():
        names = [path for path in names_of(section) if id(_thing(path)) not in met]
        met |= {id(_thing(path)) for path in names}
        if section in registered():
            intro += (
                " Names as text: "
                + ", ".join(f'``"{name}"``' for name in registered()[section])
                + "."
            )
        by_name = {
            id(cls)
            for registry in CLASSES.get(section, ())
            for cls in registry.values()
        }
        kinds = {"By name": [n for n in names if id(_thing(n)) in by_name]}
        others = "Base classes and parts" if kinds["By name"] else "Classes"
        kinds[others] = [
            n for n in names if inspect.isclass(_thing(n)) and n not in kinds["By name"]
        ]
        kinds["Functions"] = [n for n in names if not inspect.isclass(_thing(n))]
        parts = [
            f"{kind}\n{'-' * len(kind)}\n\n{_summary(found)}"
            for kind, found in kinds.items()
            if found
        ]
        out[section] = "\n".join([_head(title, intro), _entry(section), *parts])
    return out


def file_names() -> dict[str, str]:
    """Files of paths that differ from another only in case, as `fit` and `Fit`: some disks keep one file for both."""
    listed = re.findall(
        r"^   (probreg\.[\w.]+)$", "\n".join(pages().values()), re.MULTILINE
    )
    lower = [path.lower() for path in listed]
    return {
        path: f"{path}-function"
        for path in listed
        if lower.count(path.lower()) > 1 and not inspect.isclass(_thing(path))
    }


def _thing(path: str) -> object:
    thing: object = pr
    for name in path.split(".")[1:]:
        thing = getattr(thing, name)
    return thing


def _head(title: str, intro: str) -> str:
    return f"{title}\n{'=' * len(title)}\n\n{intro}\n"


def _entry(section: str) -> str:
    """The entry of a section in the index, and of the registry that stands at the top."""
    entry = (
        ""
        if section == "methods"
        else f".. py:module:: probreg.{section}\n\n.. py:currentmodule:: None\n"
    )
    if section.upper() in pr.__all__:
        entry += f"\n.. py:data:: probreg.{section.upper()}\n\n   The classes by name. Its ``register`` adds a class.\n"
    return entry


def _summary(names) -> str:
    rows = "\n".join(f"   {name}" for name in names)
    return f".. autosummary::\n   :toctree: generated\n   :nosignatures:\n\n{rows}\n"


def plain(app, what, name, obj, options, lines: list[str]) -> None:
    """Docstrings are plain text: bars, stars and names that end in _ are what they are; below Examples is code."""
    parameters = False
    for i, line in enumerate(lines):
        if line == "Examples" and lines[i + 1 : i + 2] == ["--------"]:
            break
        parameters |= line == "Parameters"
        if not (
            parameters and line.startswith("*")
        ):  # numpydoc reads the stars of *args itself
            parts = enumerate(line.split("`"))
            lines[i] = "`".join(
                part if k % 2 else re.sub(r"([|*]|(?<=\w)_(?!\w))", r"\\\1", part)
                for k, part in parts
            )


def write(here: Path) -> list[str]:
    """Write what has changed, so that Sphinx reads again only that; the pages, relative to `here`."""
    place = here / "api"
    for name, text in pages().items():
        path = place / f"{name}.rst"
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
    return [f"api/{name}.rst" for name in pages()]
