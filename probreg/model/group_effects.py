"""Effects of groups that are not in the fit: b_g ~ N(0, S(theta)), S = Lambda Lambda', independent between groups and predictors.

The columns of a design are zero at rows of new groups, which have numbers from G on (`data.terms.grouped`). The missing part of the
linear predictor is z'b_g ~ N(0, z'S z), and two rows of one group have the covariance z_1'S z_2. Predictions add it, as they add the
residual of a process (`off_span`).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np

from probreg.data import Design
from probreg.data.design import ColumnRecipe
from probreg.data.implicit_columns import LazyColumns, columns_of
from probreg.data.terms.grouped import GroupedTerm
from probreg.errors import DataError
from probreg.kernels.sums import RowSums
from probreg.priors.joint import same_term

Array = np.ndarray
Groups = Literal["known", "new", "typical"]
GroupsLike = Groups | Mapping[str, Groups]

WORDS = {
    "known": "each row has the effects of its own group",
    "new": "groups are new: their effects are drawn from their normal distribution, beside those of known groups in a row that has both",
    "typical": "effects of groups are zero: the typical group",
}
NOT_THE_MEAN = "; on the scale of the response it is the median over groups, not their mean, which groups='new' gives"

_REMEDY = "groups='new' is for a group like those of the fit, its effects drawn; groups='typical' for effects of zero"


@dataclass(frozen=True, eq=False)
class GroupEffects:
    """z'b_g of one term at rows of new groups.

    Attributes
    ----------
    term : GroupedTerm
        The term.
    columns : list of int
        The places of its columns in the design.
    root : callable
        Returns Lambda (S, K, K) at each atom; S = 1 for all atoms. It is called for new groups only.
    predictor : int or None
        The linear predictor; None if the effects on all linear predictors have this root.
    """

    term: GroupedTerm
    columns: list[int]
    root: Callable[[], Array]
    predictor: int | None = None

    @cached_property
    def roots(self) -> Array:
        """Lambda (S, K, K)."""
        return self.root()

    @property
    def key(self) -> str:
        return self.term.key

    def moments(self, design: Design) -> tuple[float, Array | None]:
        """The mean 0, and z'S z (S, n), which is zero at rows of known groups; None if all groups are known."""
        rows = inputs_of(design, self.key)
        new = self.is_new(rows)
        if not new.any():
            return 0.0, None
        variances = np.zeros((len(self.roots), len(rows)))
        # z'S z = |Lambda'z|^2
        variances[:, new] = np.square(
            np.einsum("nk,skl->snl", rows[new, 1:], self.roots)
        ).sum(-1)
        return 0.0, variances if variances.any() else None

    def is_new(self, rows: Array) -> Array:
        """(...,) bool: rows of a new group with an effect that is not multiplied by 0."""
        return (rows[..., 0] >= len(self.term.levels)) & rows[..., 1:].any(-1)

    def draws(self, rows: Array, scores: Any) -> Array | float:
        """z'b_g (S, n, m) at rows, one b_g for each new group, atom and predictor; scores(k) gives standard normal noise (S, k, m)."""
        if not self.is_new(rows).any():
            return 0.0
        every = slice(None)
        return self._draw_sums(RowSums.values(rows), scores).at(every, every)

    # ---- sums over rows, as for a process --------------------------------------------------------------------------

    def covariance(self, sums: RowSums, weights: list[Any]) -> Array:
        """sum_l A_l C A_l' (E, E), C the covariance of the sums."""
        C = np.zeros((weights[0].shape[0],) * 2)
        M, _ = self._effects_in(sums)
        for A in weights_of(self.predictor, weights):
            # C = M (I kron S) M'
            weighted = (A @ M).toarray().reshape(len(C), -1, len(self.term.effects))
            C += sum(
                np.einsum("egk,kl,fgl->ef", weighted, L @ L.T, weighted)
                for L in self.roots
            ) / len(self.roots)
        return C

    def draws_of_sums(
        self, sums: RowSums, weights: list[Any], size: int, rng: np.random.Generator
    ) -> Array | float:
        """Draws (S, E) of weighted sums."""
        every = slice(None)
        return weigh_sums(
            weights, self.joint(sums, size, len(weights), rng).at(every, every)
        )

    def joint(
        self, sums: RowSums, size: int, width: int, rng: np.random.Generator
    ) -> "LinearSums":
        """Draws of all sums."""
        return self._draw_sums(sums, lambda k: rng.standard_normal((size, k, width)))

    def _draw_sums(self, sums: RowSums, scores: Any) -> "LinearSums":
        M, groups = self._effects_in(sums)
        K = len(self.term.effects)
        u = scores(groups * K)
        S, _, m = u.shape
        # b_g = Lambda u_g, and zeros for other linear predictors
        b = np.einsum(
            "skl,sglm->sgkm",
            np.broadcast_to(self.roots, (S, K, K)),
            u.reshape(S, groups, K, m),
        )
        if self.predictor is not None:
            b = b * (np.arange(m) == self.predictor)
        return LinearSums(M, b.reshape(S, groups * K, m))

    def new_in(self, sums: RowSums) -> bool:
        """Whether effects of a new group are in some sum."""
        return bool(((sums.coefficients != 0) & self.is_new(sums.rows)).any())

    def _effects_in(self, sums: RowSums) -> tuple[Any, int]:
        """The sums as a sparse matrix M (n, H K) over the effects of H new groups, and H."""
        from scipy.sparse import csr_array

        K = len(self.term.effects)
        i, k = np.nonzero((sums.coefficients != 0) & self.is_new(sums.rows))
        rows = sums.rows[i, k]
        groups, place = np.unique(rows[:, 0], return_inverse=True)
        values = sums.coefficients[i, k][:, None] * rows[:, 1:]
        columns = K * place[:, None] + np.arange(K)
        shape = (sums.n, K * len(groups))
        return csr_array(
            (values.ravel(), (np.repeat(i, K), columns.ravel())), shape=shape
        ), len(groups)


def weigh_sums(weights: list[Any], values: Array) -> Array:
    """Weighted sums (S, E) of values (S, n, m), with sparse weights A_l (E, n) of each predictor."""
    return sum((A @ values[..., k].T).T for k, A in enumerate(weights))


def weights_of(predictor: int | None, weights: list[Any]) -> list[Any]:
    """The weights of one linear predictor, or of all."""
    if predictor is None:
        return weights
    return [weights[predictor]]


@dataclass(frozen=True, eq=False)
class LinearSums:
    """Draws of sums: a matrix (n, r), dense or sparse, times standard normal or other draws (S, r, m)."""

    matrix: Any
    draws: Array

    @property
    def empty(self) -> bool:
        return not self.matrix.shape[1]

    def at(self, sums: slice, atoms: slice) -> Array:
        """Return the draws of some sums for some atoms, (S', n', m)."""
        draws = self.draws[atoms]
        S, r, m = draws.shape
        product = self.matrix[sums] @ np.moveaxis(draws, 1, 0).reshape(r, S * m)
        return np.moveaxis(product.reshape(product.shape[0], S, m), 0, 1)


def inputs_of(design: Design, key: str) -> Array:
    """Return the inputs of a term at the rows of a design; raise DataError if they are missing."""
    if key not in design.inputs:
        raise DataError(
            f"{key}: the inputs of these rows were not kept; give the rows as new data"
        )
    return design.inputs[key]


# ---- selection of groups -------------------------------------------------------------------------------------------------


def groups_by_term(
    recipe: ColumnRecipe, groups: GroupsLike | None
) -> dict[str, Groups | None]:
    """Return the value of `groups` for each term with effects by group, by its key: None for known groups by default.

    Raises
    ------
    DataError
        For another value, for a grouping factor that the model does not have, and for known groups within new ones.
    """
    terms = recipe.grouped
    if not terms and groups is not None:
        raise DataError(
            f"groups={groups!r} goes with effects that vary by a group, and this model has none"
        )
    if not isinstance(groups, Mapping):
        return {key: _checked_groups(groups, "groups") for key in terms}
    groups_of: dict[str, Groups | None] = dict.fromkeys(terms)
    for name, how in groups.items():
        keys = [
            key
            for key, term in terms.items()
            if same_term(str(name), term.group) or same_term(str(name), key)
        ]
        if not keys:
            factors = ", ".join(
                map(repr, dict.fromkeys(t.group for t in terms.values()))
            )
            raise DataError(
                f"groups: {name!r} is no grouping factor of this model; there are: {factors}"
            )
        groups_of |= dict.fromkeys(keys, _checked_groups(how, f"groups[{name!r}]"))
    for key, outer in terms.items():
        if groups_of[key] in (None, "known"):
            continue
        for k, inner in terms.items():
            known = groups_of[k] in (None, "known")
            if known and set(outer.factors) < set(inner.factors):
                raise DataError(
                    f"groups: {outer.group} is {groups_of[key]!r}, so its {inner.group} is not known: "
                    f"groups={{{outer.group!r}: {groups_of[key]!r}, {inner.group!r}: {groups_of[key]!r}}}"
                )
    return groups_of


def _checked_groups(how: Any, name: str) -> Groups | None:
    if how is not None and how not in get_args(Groups):
        kinds = ", ".join(map(repr, get_args(Groups)))
        raise DataError(
            f"{name} is one of {kinds}, or a mapping from grouping factors to these, got {how!r}"
        )
    return how


def rows_of_groups(
    design: Design, groups: GroupsLike | None, labels: Mapping[str, Array] | None = None
) -> Design:
    """Return the design at rows with the groups that `groups` selects.

    Parameters
    ----------
    design : Design
        Rows of known or new groups.
    groups : {"known", "new", "typical"} or mapping or None
        One value for all grouping factors, or one for each. None means "known", and all groups must then be known. "new" for all grouping
        factors keeps the known groups of a row that also has an unseen group, for example the known school of a new class. A row with
        only known groups gets new groups.
    labels : mapping
        The group (n,) of each row as text, by the term, for the message.

    Raises
    ------
    DataError
        For a group that is not in the fit, unless `groups` covers it; for `groups` of a model without groups.
    """
    terms = design.recipe.grouped
    groups_of = groups_by_term(design.recipe, groups)
    if not terms or set(groups_of.values()) <= {None, "known"}:
        refuse_unseen(design, labels or {}, _REMEDY)
        return design
    unseen = {
        key: inputs_of(design, key)[:, 0] >= len(term.levels)
        for key, term in terms.items()
    }
    mixed = np.any(list(unseen.values()), axis=0)
    inputs = dict(design.inputs)
    without = dict[str, Array]()
    for key, term in terms.items():
        rows = np.array(inputs_of(design, key))
        how = groups_of[key]
        if how in (None, "known"):
            refuse_unseen(design, labels or {}, _REMEDY, [term])
            continue
        without[key] = np.ones(len(rows), dtype=bool)
        if how == "typical":
            rows[:, 1:] = 0.0
        else:
            if not isinstance(groups, Mapping):
                without[key] = np.where(mixed, unseen[key], True)
            rows[without[key], 0] += len(term.levels)
        inputs[key] = rows
    return replace(design, X=_without_effects(design, without), inputs=inputs)


def _without_effects(design: Design, without: Mapping[str, Array]) -> Any:
    """Return the columns (n, p) with zeros for the effects of each term at its rows (n,) bool."""
    columns: Any = columns_of(design.X)
    if isinstance(columns, LazyColumns):
        X: Any = columns.without_effects(
            [without.get(key) for key in design.recipe.grouped]
        )
    else:
        X = columns.copy()
        place = design.place
        for key, rows in without.items():
            effects = [place[c] for c in design.recipe.grouped[key].columns]
            X[np.ix_(rows, effects)] = 0.0
    return design.recipe.assign_predictors(X)


def refuse_unseen(
    design: Design,
    labels: Mapping[str, Array],
    message: str,
    terms: Iterable[GroupedTerm] | None = None,
) -> None:
    """Raise DataError with `message` for rows of new groups, of some terms or of all."""
    for term in design.recipe.grouped.values() if terms is None else terms:
        new = inputs_of(design, term.key)[:, 0] >= len(term.levels)
        if new.any():
            row = int(np.argmax(new))
            label = f" {labels[term.key][row]!r}" if term.key in labels else ""
            raise DataError(
                f"row {row} is of {term.group}{label}, which the fit has not met: {message}"
            )


def group_levels(recipe: ColumnRecipe, name: str) -> tuple[str, ...]:
    """The groups in the fit of a grouping variable; none for other variables."""
    return next(
        (term.levels for term in recipe.grouped.values() if term.group == name), ()
    )


def describe_group_choice(groups: GroupsLike | None, *, identity: bool) -> str:
    """Return a description of `groups`."""
    if isinstance(groups, Mapping):
        return "; ".join(
            f"{name}: {describe_group_choice(how, identity=identity)}"
            for name, how in groups.items()
        )
    how = _checked_groups(groups, "groups") or "known"
    return WORDS[how] + (NOT_THE_MEAN if how == "typical" and not identity else "")


def is_known(recipe: ColumnRecipe, groups: GroupsLike | None, name: str) -> bool:
    """Whether rows have effects of known groups of a grouping variable."""
    groups_of = groups_by_term(recipe, groups)
    return any(
        groups_of[key] in (None, "known")
        for key, term in recipe.grouped.items()
        if name in (term.group, *term.factors)
    )


def groups_absent(recipe: ColumnRecipe, data: Any) -> list[str]:
    """The columns of groups that are missing in the data."""
    from probreg.data.formula.columns import read_table

    return [
        name for name in recipe.of_groups_alone if name not in read_table(data).columns
    ]


def with_group_columns(
    recipe: ColumnRecipe, data: Any, groups: GroupsLike | None = "typical"
) -> Any:
    """Return the data with the missing columns of groups, if `groups` does not need them: a separate group for each row if groups are new,
    otherwise any group, since its effects are zero."""
    from probreg.data.formula.columns import read_table

    if not recipe.of_groups_alone or not (absent := groups_absent(recipe, data)):
        return data
    table = read_table(data)
    groups_of = groups_by_term(recipe, groups)
    n = len(table.rows)
    labels = dict[str, Array]()
    for name in absent:
        kinds = {
            groups_of[key]
            for key, term in recipe.grouped.items()
            if name in term.factors
        }
        if kinds <= {"new", "typical"}:
            if "new" in kinds:
                group_labels = [f"row {i}" for i in range(n)]
            else:
                group_labels = ["any"] * n
            labels[name] = np.array(group_labels, dtype=object)
    return {**table.columns, **labels} if labels else data
