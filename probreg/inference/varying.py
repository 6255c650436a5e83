"""Effects that vary by a group, as a fit reports them: their columns, standard
deviations and correlations.

The search over theta uses unconstrained coordinates: log sd, and atanh of partial
correlations. Reported are sd(x | g) and cor(x, z | g) of the covariance S = Lambda
Lambda' of the effects of one group.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy

from probreg.data.checked_arrays import full_weights
from probreg.data.terms.grouped import GroupedTerm
from probreg.likelihoods.base import OfClasses, OfTrials
from probreg.model.model import Model
from probreg.model.term_priors import hyper_names
from probreg.priors import (
    AuxPrior,
    GaussianPrior,
    GroupNormal,
    LatentPrior,
    Prior,
)

Array = np.ndarray
OF_EFFECTS = ("sd(", "cor(")  # prefixes of names in the covariance of effects


# ---- columns of effects
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class EffectsOfGroup:
    """The effects of one grouping factor in all its terms.

    Attributes
    ----------
    group : str
        For example "Subject".
    levels : tuple of str
        G groups.
    effects : tuple of str
        K names.
    columns : array (G, K)
        Their positions among the columns of the design.
    keys : tuple of str
        The term of each effect.
    """

    group: str
    levels: tuple[str, ...]
    effects: tuple[str, ...]
    columns: Array
    keys: tuple[str, ...]


def has_improper_sd(model: Model, term: GroupedTerm) -> bool:
    """Whether a standard deviation of the term has an improper prior, so that only the
    data determine it."""
    place = model.design.place
    columns = {place[c] for c in term.columns if c in place}
    for b, prior in model.joint.hierarchical:
        if columns & set(b.columns):
            return any(
                isinstance(h.prior, AuxPrior) and not h.prior.proper
                for h in prior.hyper.values()
            )
    return False


def explain_unidentified(model: Model, term: GroupedTerm) -> str | None:
    """Return why the rows do not identify the standard deviations of a term; None if
    they do.

    Gaussian noise of precisions w: the covariance of the rows of group g is Z_g S Z_g'
    + sigma^2 diag(w_g)^-1. If one symmetric S0 has Z_g S0 Z_g' = diag(w_g)^-1 in every
    group, S + t S0 and sigma^2 - t give the same density. With one trial in each group,
    the standard deviations change only the scale and the shape of the link.
    """
    G, K = term.shape
    n = model.design.n
    weights = model.design.weights
    repeated = weights is not None and bool((weights > 1).any())
    # rows were not kept
    moments = not n and term.effects == ("Intercept",) and model.design.total == G
    in_memory = 0 < n <= G * K and not repeated and term.key in model.design.inputs
    if not (in_memory or moments) or not has_improper_sd(model, term):
        return None
    n = n or G
    names = " and ".join(f"sd({c} | {term.group})" for c in term.coefficients[:2])
    if (
        model.noise_unknown
        and not model.noise_prior.proper
        and (moments or _noise_is_covariance(model, term))
    ):
        noise = model.noise_scale
        return (
            f"{term.key}: {names} and {noise} are not identified, because {n} rows and {G * K} effects leave the likelihood flat: it "
            "depends on the sum of their variances alone"
        )
    if (
        in_memory
        and K == 1
        and n == G
        and isinstance(model.likelihood, OfClasses)
        and (
            not isinstance(model.likelihood, OfTrials)
            or (model.given(model.design)["trials"] == 1).all()
        )
    ):
        return (
            f"{term.key}: {names} is not identified, because each group of {term.group} has one trial: with the coefficients it "
            "changes the scale of the link alone, and the likelihood is flat or nearly so"
        )
    return None


def explain_repeated(model: Model, term: GroupedTerm) -> str | None:
    """Return why the restricted likelihood does not depend on a standard deviation: flat
    columns contain an effect of every group, as in "g + (1 | g)"; None if it does.

    The restricted likelihood is the likelihood of the residuals of flat columns, where
    these effects vanish.
    """
    max_ratio = 20  # of the rows to the columns in the first check
    design = model.design
    ungrouped = design.ungrouped
    flat = ungrouped[~model.joint.informative[ungrouped]]
    G = term.shape[0]
    sample = design.sample
    few_columns = len(flat) < G or not has_improper_sd(model, term)
    # columns of different linear predictors are independent
    if few_columns or not sample.n or design.owner is not None:
        return None
    places = np.array([design.place[c] for c in term.columns]).reshape(term.shape)
    # effects that the columns contain are contained in part of the rows as well
    some = slice(None, None, max(1, sample.n // (max_ratio * len(flat))))
    for k, effect in enumerate(term.coefficients):
        if all(
            _contains_effects(sample.X[rows, :], flat, places[:, k])
            for rows in (some, slice(None))
        ):
            return (
                f"{term.key}: sd({effect} | {term.group}) is not identified, because the fixed effects already contain {effect} by "
                f"{term.group}"
            )
    return None


def _contains_effects(X: Array, flat: Array, effects: Array) -> bool:
    """Whether the columns `flat` of X (n, p) contain the columns `effects`."""
    F, Z = (np.asarray(X[:, columns]) for columns in (flat, effects))
    Q = scipy.linalg.orth(F / np.maximum(np.abs(F).max(0), np.finfo(float).tiny))
    residual = Z - Q @ (Q.T @ Z)
    return bool(np.abs(residual).max() <= 1e-9 * np.abs(Z).max())


def _noise_is_covariance(model: Model, term: GroupedTerm) -> bool:
    """Whether one symmetric S0 has Z_g S0 Z_g' = diag(w_g)^-1 in every group."""
    from scipy.sparse import csr_array

    if not model.likelihood.least_squares:
        return False
    inputs = model.design.inputs[term.key]
    codes = inputs[:, 0].astype(int)
    Z = inputs[:, 1:]
    K = term.shape[1]
    if np.bincount(codes).max() > K:  # Z_g S0 Z_g' has not full rank
        return False
    every = np.arange(len(Z))
    in_group = csr_array((np.ones(len(Z)), (every, codes)))
    i, k = (in_group @ in_group.T).nonzero()  # pairs of rows of one group
    noise = 1.0 / full_weights(model.design.precision, len(Z))
    A = np.column_stack(
        [
            Z[i, a] * Z[k, b] + Z[i, b] * Z[k, a]
            for a in range(K)
            for b in range(a + 1)
            if term.correlated or a == b
        ]
    )
    target = np.where(i == k, noise[i], 0.0)
    size = np.abs(A).max(0)
    A = A / np.where(size > 0, size, 1.0)
    residual = target - A @ np.linalg.lstsq(A, target)[0]
    # relative to the largest noise variance of a row
    return bool(np.abs(residual).max() < 1e-9 * noise.max())


def effects_of_groups(model: Model) -> dict[str, EffectsOfGroup]:
    """Return the grouping factors of a model by name."""
    place = model.design.place
    groups: dict[str, EffectsOfGroup] = {}
    for key, term in model.design.recipe.grouped.items():
        columns = np.array([place[c] for c in term.columns], dtype=np.intp).reshape(
            term.shape
        )
        effects = EffectsOfGroup(
            term.group, term.levels, term.effects, columns, (key,) * len(term.effects)
        )
        before = groups.get(term.group)
        if before is None:
            groups[term.group] = effects
        else:
            groups[term.group] = _side_by_side(before, effects)
    return groups


def _side_by_side(a: EffectsOfGroup, b: EffectsOfGroup) -> EffectsOfGroup:
    twice = set(a.effects) & set(b.effects)
    later = tuple(
        f"{name} of {key}" if name in twice else name
        for name, key in zip(b.effects, b.keys)
    )
    columns = np.concatenate([a.columns, b.columns], 1)
    return EffectsOfGroup(
        a.group, a.levels, (*a.effects, *later), columns, (*a.keys, *b.keys)
    )


def describe_groups(model: Model) -> str:
    """Return the numbers of groups in words.

    >>> data = {"y": [1.0, 2.0, 4.0, 3.0], "g": ["a", "a", "b", "b"]}
    >>> describe_groups(Model.from_formula("y ~ 1 + (1 | g)", data))
    '2 groups of g'
    """
    return " and ".join(
        f"{len(effects.levels)} groups of {name}"
        for name, effects in effects_of_groups(model).items()
    )


# ---- standard deviations and correlations --------------------------------------------------------------------------------


def stated_covariance(prior: Prior, shape: tuple[int, int]) -> Array | None:
    """Return S (K, K) of the effects of one group if the prior gives numbers, for (G,
    K) effects; None for other priors.

    >>> from probreg.priors import GroupNormal, Normal
    >>> stated_covariance(Normal(2.0), (3, 1)).tolist(), stated_covariance(GroupNormal(((2.0, 0.0), (1.0, 1.0)), 3), (3, 2)).tolist()
    ([[4.0]], [[4.0, 2.0], [2.0, 2.0]])
    """
    if isinstance(prior, GroupNormal):
        return prior.covariance
    if not isinstance(prior, GaussianPrior) or prior.sigma_units:
        return None
    scales = prior.independent(shape[0] * shape[1])
    if scales is None or not np.isfinite(scales).all():
        return None
    sds = np.reshape(scales, shape)
    if (sds == sds[0]).all():
        return np.diag(np.square(sds[0]))
    return None


def held_scales(model: Model) -> dict[str, float]:
    """Standard deviations and correlations of effects that the priors of a model state as numbers, under their names.

    >>> from probreg.priors import Normal
    >>> data = {"y": [1.0, 2.0, 4.0, 3.0], "g": ["a", "a", "b", "b"]}
    >>> held_scales(Model.from_formula("y ~ 1 + (1 | g)", data, prior={"(1 | g)": Normal(2.0)}))
    {'sd(Intercept | g)': 2.0}
    """
    scales: dict[str, float] = {}
    for b in model.joint.blocks:
        term = model.design.grouped_of(b.columns)
        prior: Any = b.prior
        if term is None:
            continue
        if isinstance(b.prior, LatentPrior):
            known_sds = zip(term.coefficients, prior.sds) if prior.hyper_labels else ()
            scales |= {
                f"sd({e} | {term.group})": float(v)
                for e, v in known_sds
                if f"sd[{e}]" not in prior.hyper
            }
        elif (S := stated_covariance(prior, term.shape)) is not None:
            sd = np.sqrt(np.diagonal(S))
            effects = term.coefficients
            scales |= {f"sd({e} | {term.group})": float(v) for e, v in zip(effects, sd)}
            pairs = [
                (i, j)
                for j in range(len(sd))
                for i in range(j)
                if term.correlated and sd[i] * sd[j] > 0.0
            ]
            scales |= {
                f"cor({effects[i]}, {effects[j]} | {term.group})": float(
                    S[i, j] / (sd[i] * sd[j])
                )
                for i, j in pairs
            }
    return scales


def hyper_of_blocks(model: Model) -> list[tuple[slice, Any, dict[str, str]]]:
    """Return blocks with hyperparameters that are logs of positive numbers: the places
    of these among all, the prior, and their names in draws."""
    names = hyper_names(model.joint, model.design)
    found = []
    start = 0
    for i, b in enumerate(model.joint.blocks):
        if isinstance(b.prior, LatentPrior):
            places = slice(start, start + len(names[i]))
            found.append((places, b.prior, names[i]))
            start = places.stop
    return found


def hyper_at_logs(model: Model, logs: Array) -> dict[str, Array]:
    """Return reported hyperparameters at logs (..., d) in block order."""
    reported: dict[str, Array] = {}
    for places, prior, names in hyper_of_blocks(model):
        positive = np.moveaxis(np.exp(logs[..., places]), -1, 0)
        reported |= {
            names[name]: np.asarray(v)
            for name, v in prior.natural(dict(zip(prior.hyper, positive))).items()
        }
    return reported


def natural_of(model: Model, logs: Array) -> dict[str, Array]:
    """Return reported hyperparameters at logs (..., d), and nuisance parameters; their
    logs follow."""
    start = number_of_scales(model) - len(model.unknown)
    aux = np.exp(logs[..., start : start + len(model.unknown)])
    return hyper_at_logs(model, logs) | dict(
        zip(model.unknown, np.moveaxis(aux, -1, 0))
    )


def number_of_scales(model: Model) -> int:
    """Return the number of unknown hyperparameters and of nuisance parameters estimated
    with them."""
    return sum(len(names) for _, _, names in hyper_of_blocks(model)) + len(
        model.unknown
    )


@dataclass(frozen=True, eq=False)
class FoundScales:
    """Hyperparameters and nuisance parameters at the maximum of the evidence.

    The model of the fit has these values as fixed parameters.

    Attributes
    ----------
    stated : Model
        The model with unknown hyperparameters.
    criterion : str
        "REML" or "ML".
    theta : array (d,)
        The maximum in unconstrained coordinates: logs, atanh of correlations, and logs of nuisance parameters; then flat coefficients,
        if the criterion includes them.
    hessian_of : callable
        Returns the Hessian (d, d) of the criterion at the maximum, over theta, at the first use.
    value : float
        The maximum: the log of the likelihood with the effects, and under REML the flat coefficients, integrated over.
    vanished : array (d,) of bool
        Scales that run to zero.
    plain : bool
        No density of a hyperparameter was added, so only the criterion was maximised.
    points : int
        Of adaptive Gauss-Hermite quadrature in each group; one is Laplace's method, exact for Gaussian noise.
    joint_of : callable, optional
        Returns the covariance of the coefficients including the errors of these estimates, from this object, the covariance given the
        estimates and the model. None if the fit's standard errors are conditional.
    separated : bool
        Flat columns separate the response, and the criterion is computed for the limit of the likelihood.
    """

    stated: Model
    criterion: str
    theta: Array
    hessian_of: Callable[[], Array]
    value: float
    vanished: Array
    plain: bool
    points: int = 1
    joint_of: Callable[..., Any] | None = None
    separated: bool = False

    @property
    def count(self) -> int:
        """The number of scales, correlations and nuisance parameters in theta."""
        return number_of_scales(self.stated)

    @cached_property
    def hessian(self) -> Array:
        """(d, d) of the criterion at the maximum, over theta."""
        return self.hessian_of()

    @cached_property
    def covariance(self) -> Array:
        """(d, d) of theta: the inverse of -hessian; nan for vanished scales or if
        -hessian is not positive definite."""
        covariance = np.full(self.hessian.shape, np.nan)
        free = ~self.not_free
        H = -self.hessian[np.ix_(free, free)]
        if len(H) and np.isfinite(H).all() and np.linalg.eigvalsh(H)[0] > 0:
            covariance[np.ix_(free, free)] = np.linalg.inv(H)
        return covariance

    @property
    def free(self) -> Array:
        """The coordinates of theta with a standard error."""
        return np.flatnonzero(np.isfinite(np.diagonal(self.covariance)))

    @property
    def rows_absent(self) -> str:
        """Why the criterion cannot be computed again, "" if the rows or their sums are
        there."""
        design = self.stated.design
        if design.has_rows or design.kept is not None:
            return ""
        return design.rows_absent

    @cached_property
    def not_free(self) -> Array:
        """(d,) bool: vanished scales and their correlations, which have zero gradient
        and curvature."""
        # relative to the largest second derivative: the error of differences of
        # gradients
        flat_slope = 1e-8
        flat = np.abs(np.diagonal(self.hessian)) < flat_slope * max(
            1.0, float(np.abs(self.hessian).max(initial=0.0))
        )
        return self.vanished | flat

    @cached_property
    def values(self) -> dict[str, float]:
        """Reported hyperparameters and noise scale by name; 0 for a vanished scale, nan
        for its correlations, which are not
        defined. On the boundary a correlation is computed from the root."""
        values = {
            name: float(v) for name, v in natural_of(self.stated, self.theta).items()
        }
        for places, prior, names in hyper_of_blocks(self.stated):
            is_vanished = zip(prior.hyper, self.vanished[places])
            vanished = {name for name, vanishes in is_vanished if vanishes}
            values |= {names[name]: 0.0 for name in vanished}
            if not prior.hyper_labels:
                continue
            for i, j in prior.pairs:
                name = prior.cor_name(i, j)
                if (
                    name in names
                    and {f"sd[{prior.effects[k]}]" for k in (i, j)} & vanished
                ):
                    values[names[name]] = np.nan
        return values | dict.fromkeys(self.at_limit, 0.0)

    @property
    def at_limit(self) -> tuple[str, ...]:
        """Nuisance parameters that go to 0, where the likelihood has a limit."""
        return self._nuisance_of(self.vanished)

    @property
    def limits(self) -> dict[str, float]:
        """The limits, 0 or infinity, of nuisance parameters that go to one; towards infinity the criterion is flat."""
        limits = dict.fromkeys(self.at_limit, 0.0)
        least = 1e6  # smaller values have an effect on the criterion, so that the curvature, which costs more, is not needed
        large = [
            name
            for name in self.stated.likelihood.at_infinity
            if self.values.get(name, 0.0) > least
        ]
        if large:
            flat = self._nuisance_of(self.not_free)
            limits |= {name: np.inf for name in large if name in flat}
        return limits

    def _nuisance_of(self, marked: Array) -> tuple[str, ...]:
        """Return the nuisance parameters with a marked coordinate of theta, (d,) bool."""
        k = self.count - len(self.stated.unknown)
        marks = zip(self.stated.unknown, marked[k : self.count])
        return tuple(name for name, is_marked in marks if is_marked)

    def coordinate_of(self, name: str) -> int | None:
        """Return the only coordinate of theta that a reported value depends on; None if
        there are several."""
        k = list(self.slopes).index(name)
        if np.delete(self.slopes[name], k).any():
            return None
        return k

    @cached_property
    def slopes(self) -> dict[str, Array]:
        """The derivatives (d,) of each reported value over theta, by central differences."""
        # in unconstrained coordinates, for central differences: an error of about 1e-10
        h = 1e-5
        step = h * np.eye(len(self.theta))
        up, down = (natural_of(self.stated, self.theta + s * step) for s in (1.0, -1.0))
        return {name: (up[name] - down[name]) / (2.0 * h) for name in up}

    @cached_property
    def errors(self) -> dict[str, float]:
        """Their standard errors by the delta method on the reported scale; nan if there
        are none."""
        # a correlation above it equals one up to rounding and has no standard error
        almost_one = 1.0 - 1e-7
        errors = {}
        for name, g in self.slopes.items():
            on = g != 0.0
            v = float(g[on] @ self.covariance[np.ix_(on, on)] @ g[on])
            edge = name.startswith("cor(") and not abs(self.values[name]) < almost_one
            if v >= 0 and on.any() and not edge:
                errors[name] = float(np.sqrt(v))
            else:
                errors[name] = np.nan
        return errors
