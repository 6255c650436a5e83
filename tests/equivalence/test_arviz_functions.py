"""Every public function of ArviZ on every kind of fit: the table of docs/how-to/arviz.md, cell by cell.

`python tests/equivalence/test_arviz_functions.py` prints the table as it is found.
"""

import inspect
import pathlib
import re
import sys
import warnings

import numpy as np
import pandas as pd
import pytest

import probreg as pr

PAGE = pathlib.Path(__file__).parents[2] / "docs/how-to/arviz.md"
KINDS = ("exact", "logistic", "softmax", "grouped", "ML")
N = 40
# Functions of az that no fit is given to: what they read in its place.
ELSEWHERE = {
    "results of other packages": {
        "from_cmdstanpy", "from_dict", "from_emcee", "from_netcdf", "from_numpyro", "from_numpyro_svi", "from_zarr",
    },
    "no results": {
        "citations", "clear_data_home", "get_data_home", "get_function", "list_datasets", "load_arviz_data", "make_attrs",
    },
    "plain arrays": {"dict_to_dataset", "generate_dims_coords", "ndarray_to_dataarray"},
    "times to an event": {"generate_survival_curves", "kaplan_meier", "plot_ppc_censored"},
}  # fmt: skip
# Why a cell does not run: what ArviZ says, by the letter in the table.
WHY = {
    "a": r"log likelihood not found|posterior_predictive|Can not extract posterior|compute ELPD from model|sample_stats|log prior not found",
    "b": r"no attribute 'prior'",
    "c": r"requires at least 2 chains",
    "d": r"energy",
    "e": r"are continuous",
    "f": "a measured response has no probability of an event",
    "g": "classes have no mean",
    "h": "laplace needs flat or normal",
    "i": "has no posterior to calibrate",
}


class LackingError(Exception):
    """What a call of ArviZ's needs and this kind of fit has not, where ArviZ itself would not notice."""


def table(rng: np.random.Generator) -> pd.DataFrame:
    x, g, s = (
        rng.normal(size=N),
        np.resize(list("abc"), N),
        np.resize(list("uvw"), N),
    )
    eta = 0.3 + 0.5 * x + 0.6 * (g == "b")
    columns = {
        "x": x,
        "g": g,
        "s": s,
        "weight": eta + rng.normal(size=N),
        "count": rng.poisson(np.exp(eta)),
    }
    return pd.DataFrame(
        columns
        | {
            "won": (rng.random(N) < 1 / (1 + np.exp(-eta))).astype(int),
            "kind": np.resize(["p", "q", "r", "q"], N),
        }
    )


class Case:
    """A fit of one kind, its tree, and how it is fitted again."""

    def __init__(self, kind: str, data: pd.DataFrame, fit: pr.Fit) -> None:
        self.kind, self.data, self.fit = kind, data, fit
        has_prior = kind != "ML"
        draws = 100 if has_prior else None
        self.dt = fit.inference_data(prior=has_prior, prior_draws=draws)
        self.group = "sampling" if kind == "ML" else "posterior"
        self.y = fit.model.design.response

    @property
    def draws(self):
        return self.dt[self.group].to_dataset()

    def of_group(self, function, *given, **more):
        return function(
            self.dt,
            *given,
            **({"group": "sampling"} if self.kind == "ML" else {}),
            **more,
        )


def cases() -> dict[str, Case]:
    data = table(np.random.default_rng(0))
    prior = {"Intercept": pr.Normal(2.0), "x": pr.Normal(1.5), "g": pr.Normal(1.5)}
    short, sd = pr.NUTS(draws=60, tune=120, chains=2), {"sigma": pr.HalfNormal(2.0)}
    varying = {
        "Intercept": pr.Normal(2.0),
        "x": pr.Normal(1.5),
        "(1 | s)": pr.Covariance(sd=pr.HalfNormal(1.0)),
    }

    def model(formula, likelihood="gaussian", prior=prior, aux=None):
        return pr.Model.from_formula(
            formula, data, likelihood=likelihood, prior=prior, aux=aux or {}
        )

    made = {
        "exact": (model("weight ~ x + g", aux=sd), pr.Quadrature(draws=60, chains=2)),
        "logistic": (model("won ~ x + g", "bernoulli"), short),
        "softmax": (model("kind ~ x + g", "categorical"), short),
        "grouped": (model("weight ~ x + (1 | s)", prior=varying, aux=sd), short),
        "ML": (model("weight ~ x + g", prior=pr.Flat()), "newton"),
    }
    return {kind: Case(kind, data, pr.fit(*how, seed=1)) for kind, how in made.items()}


# ---- calls that need more than the tree --------------------------------------------------------------------------------


def wrapped(case: Case):
    """What ArviZ refits with: docs/how-to/arviz.md has the same class."""
    import arviz as az
    import xarray as xr

    class Refit(az.SamplingWrapper):
        def sel_observations(self, idx):
            out = np.isin(np.arange(len(case.data)), idx)
            return case.data[~out], case.data[out]

        def sample(self, rows):
            return pr.fit(self.model.at(rows), case.fit.method, seed=1)

        def get_inference_data(self, fit):
            self.fit = fit
            return fit.tree

        def log_likelihood__i(self, rows, tree):
            draws = self.fit.solution.posterior.values
            aux = {a: draws[a] for a in self.model.unknown}
            each = [
                self.fit.model.at(rows.iloc[[i]]).log_lik(draws["beta"], **aux)
                for i in range(len(rows))
            ]
            return xr.DataArray(np.stack(each, -1), dims=("chain", "draw", "obs"))

    if case.kind == "ML":
        raise LackingError(
            "log likelihood not found: a point estimate has none by draw"
        )
    return Refit(case.fit.model, idata_orig=case.dt)


def second_largest(loo) -> float:
    return float(np.sort(loo.pareto_k)[-2])


def with_mean(case: Case):
    """The tree with the mean of each row, `mu`, and its variance where it has no sigma."""
    import xarray as xr

    if case.kind == "softmax":
        raise LackingError("classes have no mean")
    if case.kind == "ML":
        raise LackingError("Can not extract posterior: there is none")
    draws, model, tree = (
        case.fit.solution.posterior.values,
        case.fit.model,
        case.dt.copy(),
    )
    mu = model.likelihood.mean(model.design.X @ draws["beta"])
    variance = mu * (1.0 - mu) if case.kind == "logistic" else mu
    tree["posterior"]["mu"] = xr.DataArray(mu, dims=("chain", "draw", "obs"))
    tree["posterior"]["variance"] = xr.DataArray(
        variance.mean(-1), dims=("chain", "draw")
    )  # Gelman et al. 2019
    return tree


def bayesian_r2(case: Case):
    import arviz as az

    own = case.kind in ("exact", "grouped")
    return az.bayesian_r2(
        with_mean(case),
        "mu",
        "sigma" if own else "variance",
        scale_kind="sd" if own else "var",
    )


def moment_match(case: Case):
    import arviz as az
    import pytensor

    loo = az.loo(case.dt, pointwise=True)
    with pytensor.config.change_flags(mode="FAST_COMPILE"):
        graph = case.fit.model.to_pymc(noncentered=False)
        found = az.loo_moment_match(
            case.dt, loo, model=graph, k_threshold=second_largest(loo)
        )
    # the posterior has the names and dims of the PyMC model, so that one row moves and little
    assert float(np.abs(found.elpd_i - loo.elpd_i).max()) < 0.15
    return found


def reloo(case: Case):
    import arviz as az

    wrapper = wrapped(case)
    loo = az.loo(case.dt, pointwise=True)
    return az.reloo(wrapper, loo_orig=loo, k_threshold=second_largest(loo))


def approximate(case: Case):
    import arviz as az

    if case.kind == "ML":
        raise LackingError(
            "log likelihood not found: a point estimate has none by draw"
        )
    tree = pr.fit(case.fit.model, "laplace", seed=1).tree
    return az.loo_approximate_posterior(
        tree, tree["sample_stats"]["lp"], tree["sample_stats"]["log_q"]
    )


def calibration(case: Case):
    import arviz as az
    import xarray as xr

    if case.kind == "ML":
        raise LackingError("a point estimate has no posterior to calibrate")
    method = {
        "exact": "quadrature",
        "grouped": pr.NUTS(draws=20, tune=50, chains=2),
    }.get(case.kind, "laplace")
    found = pr.sbc(case.fit.model, method, reps=4, draws=19, progress=False)
    ranks = (found.ranks.rename(replicate="draw").expand_dims("chain") + 0.5) / (
        found.draws + 1
    )
    return az.plot_ecdf_pit(
        xr.DataTree.from_dict({"prior_sbc": ranks.to_dataset(dim="quantity")})
    )


def of_events(function, case: Case, **more):
    if case.kind in ("exact", "grouped"):
        raise LackingError("a measured response has no probability of an event")
    kind = "categorical" if case.kind == "softmax" else "binary"
    return function(case.dt, data_type=kind, **more)


def some_variables(case: Case) -> dict[str, list[str]]:
    return (
        {"var_names": ["Intercept", "x"]} if case.kind in ("softmax", "grouped") else {}
    )


def calls():
    """How each function is called where `az.f(tree)`, with its group, is not enough."""
    import arviz as az

    def two(c):
        return {"one": c.dt, "other": c.dt}

    def half_of(c):
        return az.loo_subsample(c.dt, N // 2, pointwise=True)

    return {
        "add_bands": lambda c: az.add_bands(c.of_group(az.plot_dist), [(-0.1, 0.1)]),
        "add_lines": lambda c: az.add_lines(c.of_group(az.plot_dist), 0),
        "bayes_factor": lambda c: az.bayes_factor(c.dt, "x"),
        "bayesian_r2": bayesian_r2,
        "ci_in_rope": lambda c: c.of_group(az.ci_in_rope, (-0.1, 0.1)),
        "combine_plots": lambda c: c.of_group(
            az.combine_plots, [(az.plot_trace, {}), (az.plot_dist, {})], var_names=["x"]
        ),
        "compare": lambda c: az.compare(two(c)),
        "dataset_to_dataarray": lambda c: az.dataset_to_dataarray(c.draws),
        "dataset_to_dataframe": lambda c: az.dataset_to_dataframe(c.draws),
        "diagnose": lambda c: c.of_group(az.diagnose, show_diagnostics=False),
        "ecdf": lambda c: az.ecdf(c.draws),
        "explode_dataset_dims": lambda c: az.explode_dataset_dims(
            c.draws, "s" if c.kind == "grouped" else "g_dim"
        ),
        "hexbin": lambda c: az.hexbin(c.draws["x"], c.draws["Intercept"]),
        "histogram2d": lambda c: az.histogram2d(c.draws["x"], c.draws["Intercept"]),
        "kde2d": lambda c: az.kde2d(c.draws["x"], c.draws["Intercept"]),
        "kl_divergence": lambda c: az.kl_divergence(
            c.dt, c.dt, group=c.group, num_samples=5
        ),
        "lfo_cv": lambda c: az.lfo_cv(c.dt, wrapped(c), N - 2, 1, time_dim="obs"),
        "loo_approximate_posterior": approximate,
        "loo_i": lambda c: az.loo_i(0, c.dt),
        "loo_kfold": lambda c: az.loo_kfold(c.dt, wrapped(c), k=2),
        "loo_moment_match": moment_match,
        "loo_r2": lambda c: with_mean(c) and az.loo_r2(c.dt, c.y),
        "loo_subsample": half_of,
        "plot_bf": lambda c: az.plot_bf(c.dt, "x"),
        "plot_compare": lambda c: az.plot_compare(az.compare(two(c))),
        "plot_ecdf_pit": calibration,
        "plot_khat": lambda c: az.plot_khat(az.loo(c.dt, pointwise=True)),
        "plot_lm": lambda c: az.plot_lm(c.dt, x="x", y=c.y),
        "plot_loo_pava": lambda c: of_events(az.plot_loo_pava, c),
        "plot_pair": lambda c: c.of_group(az.plot_pair, **some_variables(c)),
        "plot_pair_focus": lambda c: c.of_group(
            az.plot_pair_focus,
            "x",
            **({"focus_var_coords": {"outcome": "q"}} if c.kind == "softmax" else {}),
        ),
        "plot_ppc_pava": lambda c: of_events(az.plot_ppc_pava, c),
        "plot_ppc_pava_residuals": lambda c: of_events(
            az.plot_ppc_pava_residuals, c, x_var="x"
        ),
        "references_to_dataset": lambda c: az.references_to_dataset({"x": 0}, c.draws),
        "reloo": reloo,
        "residual_r2": lambda c: az.residual_r2(with_mean(c), "mu", c.y),
        "rhat_nested": lambda c: c.of_group(
            az.rhat_nested, superchain_ids=list(range(c.draws.sizes["chain"]))
        ),
        "thin": lambda c: c.of_group(az.thin, factor=2),
        "update_subsample": lambda c: az.update_subsample(half_of(c), c.dt, N // 4),
        "wasserstein": lambda c: az.wasserstein(
            c.dt, c.dt, group=c.group, num_samples=5
        ),
        "weight_predictions": lambda c: az.weight_predictions(
            [c.dt, c.dt], weights=[0.5, 0.5]
        ),
        "xarray_sel_iter": lambda c: list(az.xarray_sel_iter(c.draws)),
        "xarray_to_ndarray": lambda c: az.xarray_to_ndarray(c.draws),
        "xarray_var_iter": lambda c: list(az.xarray_var_iter(c.draws)),
    }


# ---- the table ---------------------------------------------------------------------------------------------------------


def functions() -> list[str]:
    """The public functions of ArviZ, without the classes."""
    import arviz as az

    public = {n: getattr(az, n) for n in dir(az) if not n.startswith("_")}
    return sorted(
        n
        for n, f in public.items()
        if callable(f) and not inspect.isclass(f) and not inspect.ismodule(f)
    )


def cell(name: str, case: Case, special) -> str:
    """ "runs", or the letter of the reason that is met."""
    import arviz as az
    import matplotlib.pyplot as plt

    function = getattr(az, name)
    try:
        if name in special:
            special[name](case)
        elif (
            getattr(
                inspect.signature(function).parameters.get("group"), "default", None
            )
            == "posterior"
        ):
            case.of_group(function)
        else:
            function(case.dt)
    except Exception as error:
        met = [letter for letter, said in WHY.items() if re.search(said, str(error))]
        if case.kind != "ML":
            met = [letter for letter in met if letter not in "abci"]
        if len(met) != 1:
            raise AssertionError(
                f"az.{name} on {case.kind}: {type(error).__name__}: {str(error)[:300]}"
            ) from error
        return met[0]
    finally:
        plt.close("all")
    return "runs"


def found_table(stated: dict[str, list[str]]) -> list[list[str]]:
    """Return what each function does with each fit; of the fits with which it is stated to run two are tried, in turn, and one of
    those that a picture is drawn for."""
    import arviz as az
    import matplotlib

    matplotlib.use("Agg")
    elsewhere = set().union(*ELSEWHERE.values())
    assert elsewhere <= set(functions())
    table = []
    with warnings.catch_warnings():
        # so few draws need not have mixed; and what ArviZ warns of is its own
        warnings.simplefilter("ignore")
        special, every = calls(), cases()
        with az.rc_context({"plot.max_subplots": 50}):
            for i, name in enumerate(f for f in functions() if f not in elsewhere):
                cells = list(stated.get(name, [""] * 5))
                runs = [k for k in range(5) if cells[k] == "runs"]
                count = 1 if name.startswith("plot_") else 2
                tried = {k for j, k in enumerate(runs) if (j - i) % len(runs) < count}
                tried |= {k for k in range(5) if cells[k] != "runs"}
                for k in tried:
                    cells[k] = cell(name, list(every.values())[k], special)
                table.append([name, *cells])
    return table


@pytest.mark.slow
def test_the_table_of_the_page_is_what_arviz_does():
    import arviz as az

    if not az.__version__.startswith("1.3."):
        pytest.skip("the page is of ArviZ 1.3")
    text = PAGE.read_text()
    rows = [
        [v.strip() for v in line.strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith("| `")
    ]
    shown = {
        name.strip("`"): cells for names, *cells in rows for name in names.split(", ")
    }
    assert {name: cells for name, *cells in found_table(shown)} == shown
    for said, names in ELSEWHERE.items():
        line = next(line for line in text.splitlines() if line.startswith(f"- {said}"))
        assert set(re.findall(r"`(\w+)`", line)) == names


if __name__ == "__main__":
    names_by_cells: dict[str, list[str]] = {}
    for name, *cells in found_table({}):
        names_by_cells.setdefault(" | ".join(cells), []).append(f"`{name}`")
    for cells, names in names_by_cells.items():
        sys.stdout.write(f"| {', '.join(names)} | {cells} |\n")
