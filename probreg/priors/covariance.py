"""The prior of effects that vary by a group: b_g ~ N(0, Lambda Lambda'), one lower root Lambda (K, K) for all groups.

Lambda = diag(sd) T with T T' the correlations (see `correlations`). The free coordinates of all hyperparameters are log sd and
t = atanh(r) of partial correlations r, stored as positive numbers v = exp(t). `natural` converts them to the standard
deviations and correlations of S = Lambda Lambda', and `internal` back.

The module also has the normal prior of effects by group with a known covariance: b_g ~ N(0, Lambda Lambda'), independent over groups.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from probreg.arguments.scalars import (
    Correlation,
    Count,
    Matrix,
    Positive,
    read_argument,
)
from probreg.errors import DataError
from probreg.linalg import solve_blocks
from probreg.priors.base import (
    PRIORS,
    Array,
    ConditionalPrior,
    DataDependentPrior,
    GaussianPrior,
    Generator,
    Hyper,
    Prior,
    PriorData,
    PymcVariable,
    Shape,
)
from probreg.priors.correlations import (
    LKJ,
    pairs_of,
    partial_of,
    root_slopes,
    rows_of_root,
)
from probreg.priors.normal import Normal
from probreg.priors.positive import AuxPrior, Reference
from probreg.special import LOG_2PI


@PRIORS.register
@dataclass(frozen=True)
class GroupNormal(GaussianPrior):
    """The prior b_g ~ N(0, S) of the K effects of each of G groups, S = Lambda Lambda' known; coefficients are group by group.

    A singular S has no density. Directions without variance get a hundred-thousandth of the standard deviation of their
    effects, and an effect without variance gets 1e-8 of the largest standard deviation.

    Parameters
    ----------
    root : array (K, K)
        Lambda, lower triangular, in units of the coefficients.
    groups : int
        G.

    Examples
    --------
    >>> prior = GroupNormal(((2.0, 0.0), (0.3, 0.4)), groups=2)
    >>> prior.covariance.round(9).tolist()
    [[4.0, 0.6], [0.6, 0.25]]
    >>> prior.precision(4).shape, prior.singular
    ((4, 4), False)
    """

    root: Matrix = ((1.0,),)
    groups: Count = 1

    name = "group_normal"
    derived = True

    def __post_init__(self) -> None:
        super().__post_init__()
        L = np.array(self.root, dtype=float)
        if L.ndim != 2 or L.shape[0] != L.shape[1] or np.triu(L, 1).any():
            raise DataError(
                f"the root of a covariance is a square lower triangular matrix, got {self.root}"
            )
        if not np.isfinite(L).all() or not L.any():
            raise DataError(
                f"the root of a covariance is finite and not all zero, got {self.root}"
            )

    @property
    def effects(self) -> int:
        """K."""
        return len(self.root)

    @property
    def size(self) -> int | None:
        return self.groups * self.effects

    @property
    def covariance(self) -> Array:
        """S (K, K) as the user stated it."""
        L = np.array(self.root)
        return L @ L.T

    @cached_property
    def _regular_root(self) -> tuple[Array, bool]:
        """Return the root, where directions without variance get a small one, and whether there are any."""
        least_singular = 1e-5  # a smaller singular value of the root of the correlations counts as zero
        smallest_sd = 1e-8  # relative to the largest, for an effect without variance
        L = np.array(self.root, dtype=float)
        sd = np.linalg.norm(L, axis=1)
        is_zero = sd == 0.0
        # S = D R D, R = T T' the correlations, T = U s V': a smaller singular value is raised to the limit
        T = np.where(
            is_zero[:, None], np.eye(len(L)), L / np.where(is_zero, 1.0, sd)[:, None]
        )
        U, s, _ = np.linalg.svd(T)
        D = np.where(is_zero, smallest_sd * sd.max(), sd)[:, None]
        if s[-1] >= least_singular:
            return D * T, bool(is_zero.any())
        lower = np.linalg.qr((U * np.maximum(s, least_singular)).T, mode="r").T
        return D * (lower * np.where(np.diagonal(lower) < 0, -1.0, 1.0)), True

    @property
    def singular(self) -> bool:
        """Whether S has directions without variance."""
        return self._regular_root[1]

    @property
    def held_root(self) -> Array:
        """Lambda (K, K) with a positive diagonal: directions without variance get a small one."""
        return self._regular_root[0]

    def root_of_groups(self, values: Any) -> Array:
        return self.held_root

    def log_prob(self, beta: Array, unit: Array | float = 1.0) -> Array:
        L, (q, m) = self.held_root, beta.shape[-2:]
        u = np.asarray(unit, dtype=float)
        # log p = - G m log |Lambda| - q m log(u sqrt(2 pi)) - |Lambda^-1 b_g|^2 / (2 u^2), summed over groups and predictors
        b = np.moveaxis(
            beta.reshape(*beta.shape[:-2], self.groups, self.effects, m), -2, 0
        )
        r = solve_triangular(L, b.reshape(len(L), -1), lower=True).reshape(b.shape)
        square = np.square(r).sum((0, -2, -1))
        log_det = self.groups * m * float(np.log(np.abs(np.diagonal(L))).sum())
        return -0.5 * square / u**2 - q * m * (np.log(u) + 0.5 * LOG_2PI) - log_det

    def sample(
        self,
        rng: Generator,
        shape: Shape,
        unit: Array | float = 1.0,
    ) -> Array:
        u = rng.standard_normal((*shape[:-2], self.groups, self.effects, shape[-1]))
        return unit * np.einsum("kl,...glm->...gkm", self.held_root, u).reshape(shape)

    def times(self, factor: float) -> Prior:
        L = np.array(self.root) * factor
        return GroupNormal(tuple(map(tuple, L.tolist())), self.groups)

    def precision(self, q: int) -> Array:
        # kron(I, S^-1), S^-1 = Lambda'^-1 Lambda^-1
        inverse = solve_triangular(self.held_root, np.eye(self.effects), lower=True)
        return np.kron(np.eye(self.groups), inverse.T @ inverse)

    def independent(self, q: int) -> Array | None:
        L = self.held_root
        if not np.tril(L, -1).any():
            return np.tile(np.diagonal(L), self.groups)
        return None

    def pymc(self, unit: Any = 1.0) -> PymcVariable:
        """One variable for all coefficients; the graph of a model has a variable over groups and effects instead, by `root_of_groups`."""
        import pymc as pm

        return pm.MvNormal, {
            "mu": np.zeros(self.size),
            "chol": np.kron(np.eye(self.groups), self.held_root) * unit,
        }


UNKNOWN = Reference()


@PRIORS.register
@dataclass(frozen=True)
class Covariance(DataDependentPrior):
    """The prior of effects that vary by a group, b_g ~ N(0, S): the prior of a term `(x | g)` of a formula.

    S has standard deviations `sd` and correlations `cor`. Without a prior they are unknown: a mode sets them at the maximum of the
    evidence, and a posterior needs a proper prior of sd. Each linear predictor of a softmax has its own S; in the
    symmetric form all predictors share one S.

    Parameters
    ----------
    sd : float or AuxPrior or mapping
        The standard deviation of every effect, in units of its coefficient. A mapping names effects; other effects have the default.
    cor : LKJ or float, optional
        The prior of the correlations, or the correlation of two effects as a number. None is flat for a mode, LKJ(1) under a
        posterior and in draws from the priors.

    Raises
    ------
    DataError
        For a standard deviation that is not positive, and a correlation that is not between -1 and 1.

    Examples
    --------
    >>> from probreg.model.model import Model
    >>> from probreg.priors import HalfNormal
    >>> data = {"y": [1.0, 2.0, 4.0, 3.0], "x": [0.0, 1.0, 0.0, 1.0], "g": ["a", "a", "b", "b"]}
    >>> model = Model.from_formula("y ~ x + (1 | g)", data, prior={"1 | g": Covariance(sd=HalfNormal(2.0))})
    >>> list(model.joint.blocks[-1].prior.hyper_labels.values())
    ['sd(Intercept | g)']
    """

    sd: (
        Positive
        | AuxPrior
        | Mapping[str, float | AuxPrior]
        | tuple[tuple[str, float | AuxPrior], ...]
    ) = UNKNOWN
    cor: LKJ | Correlation | None = None

    name = "covariance"

    def __post_init__(self) -> None:
        kinds = Positive | AuxPrior
        sd: Any = self.sd
        of_effects = isinstance(sd, tuple) and all(isinstance(v, tuple) for v in sd)
        if isinstance(sd, Mapping) or of_effects:
            sd = tuple(
                (str(name), read_argument(f"sd of {name}", value, kinds))
                for name, value in dict(sd).items()
            )
        else:
            sd = read_argument("sd", sd, kinds)
        object.__setattr__(self, "sd", sd)
        cor = read_argument("cor", self.cor, Correlation | LKJ | None)
        object.__setattr__(self, "cor", cor)

    def prepare(self, rows: PriorData) -> Prior:
        term = rows.grouped
        if term is None:
            raise DataError(
                f"Covariance is the prior of a term (x | g), and {', '.join(rows.columns[:3])} are not the columns of one"
            )
        bound = VaryingEffects(
            term.coefficients,
            len(term.levels),
            self._sds(term),
            self._cors(term),
            term.group,
        )
        return bound if bound.hyper else bound.given()

    def for_posterior(self) -> Prior:
        if self.cor is not None:
            return self
        return replace(self, cor=LKJ(1.0))

    def _sds(self, term: Any) -> tuple[float | AuxPrior, ...]:
        sd: Any = self.sd
        if not isinstance(sd, tuple):
            return (sd,) * len(term.effects)
        by_effect = dict(sd)
        odd = [name for name in by_effect if name not in term.effects]
        if odd:
            raise DataError(
                f"sd names the effect {odd[0]!r}, and {term.key} has {', '.join(term.effects)}"
            )
        return tuple(by_effect.get(name, Reference()) for name in term.effects)

    def _cors(self, term: Any) -> tuple[float | AuxPrior, ...]:
        """The correlation of each pair (i, j < i) of effects, row by row."""
        size = len(term.effects)
        is_number = isinstance(self.cor, int | float)
        if is_number and size != 2:
            raise DataError(
                f"cor is a number for two effects, and {term.key} has {size}: {', '.join(term.effects)}; use LKJ(eta)"
            )
        if not term.correlated:
            if is_number and self.cor:
                raise DataError(
                    f"{term.key} has no correlations, and cor is {self.cor:g}; write | in place of ||"
                )
            return (0.0,) * len(pairs_of(size))
        if self.cor is None:
            return (Reference(),) * len(pairs_of(size))
        cor: Any = self.cor
        return tuple(
            float(cor) if is_number else cor.partial(j, size) for _, j in pairs_of(size)
        )


@dataclass(frozen=True, eq=False)
class VaryingEffects(ConditionalPrior):
    """b_g ~ N(0, Lambda Lambda') for G groups and K effects, group by group; hyperparameters with a prior are unknown.

    Parameters
    ----------
    effects : tuple of str
        K names.
    groups : int
        G.
    sds : tuple
        K standard deviations, each a number or its prior.
    cors : tuple
        K (K - 1) / 2 partial correlations, row by row of the lower triangle, each a number or a prior of v = exp(atanh r).
    group : str
        The name of the grouping variable.
    """

    effects: tuple[str, ...]
    groups: Count
    sds: tuple[float | AuxPrior, ...]
    cors: tuple[float | AuxPrior, ...] = ()
    group: str = ""

    name = "covariance"
    base = Normal(1.0)

    def __post_init__(self) -> None:
        read_argument("groups", self.groups, Count)

    @property
    def size(self) -> int | None:
        return self.groups * len(self.effects)

    @cached_property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """(i, j < i), row by row."""
        return pairs_of(len(self.effects))

    @cached_property
    def hyper(self) -> Mapping[str, Hyper]:
        return {
            name: Hyper(v)
            for name, v in (self._named_sds | self._named_cors).items()
            if isinstance(v, AuxPrior)
        }

    @cached_property
    def _named_sds(self) -> dict[str, float | AuxPrior]:
        """Return every standard deviation by name, fixed or unknown."""
        return {f"sd[{name}]": v for name, v in zip(self.effects, self.sds)}

    @cached_property
    def _named_cors(self) -> dict[str, float | AuxPrior]:
        """Return every correlation by name, fixed or unknown, in the order of `pairs`."""
        return {self.cor_name(i, j): v for (i, j), v in zip(self.pairs, self.cors)}

    @property
    def hyper_labels(self) -> Mapping[str, str]:
        suffix = f" | {self.group})" if self.group else ")"
        return {name: name.replace("[", "(", 1)[:-1] + suffix for name in self.hyper}

    @property
    def scales(self) -> tuple[bool, ...]:
        return tuple(map(self._named_sds.__contains__, self.hyper))

    def cor_name(self, i: int, j: int) -> str:
        """The name of the correlation of effects i and j < i."""
        return f"cor[{self.effects[j]}, {self.effects[i]}]"

    def collinear(self, values: Mapping[str, float], kept: Sequence[int]) -> list[str]:
        """Describe which of the effects `kept` are functions of earlier effects, because correlations are at their limit."""
        edge = 1e-4  # share of the standard deviation of an effect: a smaller part that is independent of earlier effects is rounding
        T = self.root_of_groups(values)
        T = T / np.linalg.norm(T, axis=1)[:, None]
        for n, i in enumerate(kept):
            R = T[kept[: n + 1]] @ T[kept[: n + 1]].T
            if n == 0 or np.linalg.eigvalsh(R)[0] > edge**2:
                continue
            effect = self.effects[i]
            for j, r in zip(kept, R[n, :n]):
                if abs(r) > 1.0 - edge**2:
                    sign = "1" if r > 0 else "-1"
                    return [
                        f"cor({self.effects[j]}, {effect} | {self.group}) is {sign}"
                    ]
            names = ", ".join(self.effects[j] for j in kept[:n])
            return [f"{effect} | {self.group} is a linear function of {names}"]
        return []

    @property
    def diagonal(self) -> bool:
        """Whether every correlation is zero."""
        return set(self.cors) <= {0.0}

    def starts(self) -> tuple[tuple[float, ...], ...]:
        return ((1.0,) * (len(self.hyper) - sum(self.scales)),)

    def for_posterior(self) -> Prior:
        cors = list(self.cors)
        for n, (_, j) in enumerate(self.pairs):
            if isinstance(cors[n], Reference):
                cors[n] = LKJ(1.0).partial(j, len(self.effects))
        if tuple(cors) == self.cors:
            return self
        return replace(self, cors=tuple(cors))

    # ---- hyperparameters, fixed and unknown ----------------------------------------------------------------------

    def _scales_and_root(
        self, values: Mapping[str, Any]
    ) -> tuple[list[Any], list[list[Any]], list[Any]]:
        """sd of each effect, T row by row up to its diagonal, and sech(t) of each pair: numbers, arrays or symbols."""
        sds = [values.get(name, v) for name, v in self._named_sds.items()]
        cors: dict[str, Any] = self._named_cors
        turned = [
            _tanh_sech(values[name]) if name in values else (v, (1.0 - v**2) ** 0.5)
            for name, v in cors.items()
        ]
        r = [tanh for tanh, _ in turned]
        s = [sech for _, sech in turned]
        return sds, rows_of_root(r, s, len(self.effects)), s

    def natural(self, values: Mapping[str, Any]) -> dict[str, Any]:
        sds, rows, _ = self._scales_and_root(values)
        names = [*self._named_sds, *self._named_cors]
        # R = T T'
        R = [sum(a * b for a, b in zip(rows[i], rows[j])) for i, j in self.pairs]
        return {name: v for name, v in zip(names, [*sds, *R]) if name in self.hyper}

    def internal(self, values: Mapping[str, Any]) -> dict[str, Any]:
        unknown = [
            (name, i, j)
            for name, (i, j) in zip(self._named_cors, self.pairs)
            if name in self.hyper
        ]
        if not unknown:
            return dict(values)
        values_by_effect = [
            np.asarray(values[name], dtype=float) for name, _, _ in unknown
        ]
        shape = np.broadcast_shapes(*(v.shape for v in values_by_effect))
        R = np.broadcast_to(
            np.eye(len(self.effects)),
            (int(np.prod(shape)), len(self.effects), len(self.effects)),
        ).copy()
        for v, (_, i, j) in zip(values_by_effect, unknown):
            R[:, i, j] = R[:, j, i] = np.broadcast_to(v, shape).ravel()
        v = np.exp(partial_of(R)).reshape(-1, *shape)
        by_pair = dict(zip(self.pairs, v))
        return {**values, **{name: by_pair[i, j] for name, i, j in unknown}}

    def log_prob_of_hyper(self, values: Mapping[str, Array]) -> dict[str, Array]:
        """The log density of a correlation, given the earlier ones in the lower triangle, row by row."""
        inside = self.internal(values)
        log_probs = super().log_prob_of_hyper(inside)
        _, rows, s = self._scales_and_root(inside)
        for n, (name, (_, j)) in enumerate(zip(self._named_cors, self.pairs)):
            if name in log_probs:
                # R_ij = T_jj T_ij + ..., T_ij = r_ij prod_(k < j) sech(t_ik), and dr / dv = sech(t)^2 / v
                product = np.prod(s[n - j : n], axis=0)
                log_probs[name] = (
                    log_probs[name]
                    + np.log(inside[name])
                    - np.log(s[n] ** 2 * product * rows[j][j])
                )
        return log_probs

    # ---- the prior of the coefficients ---------------------------------------------------------------------------

    def _log_sds(self, logs: Array) -> list[float]:
        """log sd of each effect, fixed or from the logs of the hyperparameters."""
        log_of = dict(zip(self.hyper, logs))
        return [
            log_of[n] if n in log_of else float(np.log(v))  # type: ignore[arg-type]
            for n, v in self._named_sds.items()
        ]

    def root(self, logs: Array) -> tuple[Array, Array]:
        """Lambda (K, K) and d Lambda / d logs (d, K, K) at the logs (d,) of the hyperparameters, in their order."""
        K = len(self.effects)
        log_of = dict(zip(self.hyper, logs))
        cors: dict[str, Any] = self._named_cors
        t = [log_of[n] if n in log_of else np.arctanh(v) for n, v in cors.items()]
        T, slopes = root_slopes(np.array(t), K)
        D = np.exp(self._log_sds(logs))[:, None]
        # over every log sd and every t
        slopes = np.concatenate([np.eye(K)[:, :, None] * D * T, D * slopes])
        is_unknown = [name in self.hyper for name in (*self._named_sds, *cors)]
        return D * T, slopes[is_unknown]

    def root_of_groups(self, values: Mapping[str, Any]) -> Any:
        sds, rows, _ = self._scales_and_root(values)
        K = len(sds)
        root_rows = [
            [sd * v for v in row] + [0.0] * (K - len(row)) for sd, row in zip(sds, rows)
        ]
        try:
            entries = np.broadcast_arrays(
                *[np.asarray(v, dtype=float) for row in root_rows for v in row]
            )
            return np.stack(entries, -1).reshape(*entries[0].shape, K, K)
        except (TypeError, ValueError):  # symbols
            import pytensor.tensor as pt

            return pt.stacklists(root_rows)

    def spread(self, **values: Any) -> Any:
        """The standard deviation (q,) of each column, which does not depend on the correlations."""
        sds: dict[str, Any] = self._named_sds
        return np.tile([float(values.get(n, v)) for n, v in sds.items()], self.groups)

    def log_scales(self, logs: Array, q: int) -> Array:
        assert self.diagonal  # checked in `scales_obstacle`
        return np.tile([self._log_sds(row) for row in logs], self.groups)

    def log_scale_slopes(self, logs: Array, q: int) -> Array:
        slopes = np.eye(len(self.effects))[
            :, [isinstance(v, AuxPrior) for v in self.sds]
        ]
        return np.tile(slopes, (self.groups, 1))

    def given(self, **values: Any) -> Prior:
        if self.diagonal:
            return Normal(tuple(self.spread(**values).tolist()))
        root = self.root_of_groups({name: float(v) for name, v in values.items()})
        return GroupNormal(tuple(map(tuple, root.tolist())), self.groups)

    def log_prob_given(
        self, beta: Array, values: Mapping[str, Array], unit: Array | float = 1.0
    ) -> Array:
        lead, (q, m), K = beta.shape[:-2], beta.shape[-2:], len(self.effects)
        L = self.root_of_groups(values)
        b = np.swapaxes(beta.reshape(*lead, self.groups, K, m), -3, -2)
        # L u = b: log p = log N(u; 0, I) - G m log |L|
        # an sd of 0 gives nan, only in the draws with this sd
        u = solve_blocks(L, b.reshape(*lead, K, self.groups * m))
        log_det = np.log(np.linalg.diagonal(L)).sum(-1)
        log_p = self.base.log_prob(u.reshape(*lead, q, m), unit)
        return log_p - self.groups * m * log_det

    def sample(
        self,
        rng: Generator,
        shape: Shape,
        unit: Array | float = 1.0,
    ) -> Array:
        return self.sample_with_hyper(rng, shape, unit)[0]

    def sample_with_hyper(
        self,
        rng: Generator,
        shape: Shape,
        unit: Array | float = 1.0,
    ) -> tuple[Array, dict[str, Array]]:
        """Draw hyperparameters from their priors, then effects (..., G K, m); the hyperparameters have their reported values."""
        lead = int(np.prod(shape[:-2]))
        hyper_draws = self.draw_hyper(rng, lead)
        root = self.root_of_groups(hyper_draws)
        u = rng.standard_normal((lead, self.groups, len(self.effects), shape[-1]))
        effects = root[..., None, :, :] @ u
        natural = {
            name: v.reshape(shape[:-2]) for name, v in self.natural(hyper_draws).items()
        }
        return unit * effects.reshape(shape), natural


def _tanh_sech(v: Any) -> tuple[Any, Any]:
    """tanh(t) and sech(t) at v = exp(t), numbers or symbols."""
    total = v + 1.0 / v
    return (v - 1.0 / v) / total, 2.0 / total
