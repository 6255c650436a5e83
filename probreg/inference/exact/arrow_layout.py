"""The columns of a model with varying effects in arrow order, and the roots of their
priors.

The grouping factor with the most columns leads: its terms with the same groups form K
effects for each of G groups. The border has the other factors, then columns of diagonal
roots, then columns without a latent prior. With M = blkdiag(roots, I) the coefficients
are mu + M u in these columns, with the prior u ~ N(0, I) except for the last kind. Every
predictor has its own u: effect k of predictor a is number k m + a.
"""

from functools import cached_property
from typing import Any

import numpy as np

from probreg.data.frame import Frame, intercept_among
from probreg.data.grouped_columns import ArrowColumns, GroupColumns
from probreg.data.terms.grouped import GroupedTerm
from probreg.errors import Incompatible
from probreg.inference.base import Array
from probreg.inference.covariance import ArrowCovariance, DenseCovariance
from probreg.inference.exact.arrow_roots import ArrowRoots, BlockRoots, LatentBlock
from probreg.inference.exact.latent_groups import (
    LatentGroup,
    LatentGroups,
    sign_patterns,
)
from probreg.inference.modes.closed_form import combinations
from probreg.inference.modes.level_newton import Parts
from probreg.linalg import rank_of
from probreg.linalg.vec import vec_entries
from probreg.model.model import Model
from probreg.priors import VaryingEffects
from probreg.system.memory import in_bytes, physical_memory


class ArrowLayout:
    """The columns of the model in arrow order.

    Parameters
    ----------
    model : Model
        The model.
    groups : LatentGroups
        Groups with a latent prior, known or unknown.
    known : tuple of int
        Other columns with a prior, which are not flat.
    by_group : bool
        Whether effects of groups are eliminated by group; if not, every column is one
        of a dense border.

    Attributes
    ----------
    blocks : list of LatentBlock
        The leading blocks, then the blocks of the border: other factors, then diagonal
        roots.
    shape : tuple of int
        G, K of all predictors, and the number of latent border columns.
    border : int
        The number of border coefficients of all predictors.
    places : array (G, K m)
        The positions of the coefficients of each leading group in vec beta.
    flat : tuple of int
        The columns without a latent prior that are not `known`.
    centre : array (p,)
        mu of the groups, 0 elsewhere.
    """

    def __init__(
        self,
        model: Model,
        groups: LatentGroups,
        known: tuple[int, ...] = (),
        by_group: bool = True,
    ) -> None:
        self.model, self.groups, self.known = model, groups, known
        self.by_group = by_group
        p, m = model.shape
        terms = list[GroupedTerm | None]()
        if by_group:
            terms = [_repeating_term(model, g) for g in groups.groups]
        # the terms with a root that repeats by group, by the number of the group
        self.terms = {i: term for i, term in enumerate(terms) if term is not None}
        leading = self._leading_terms()
        # nested factors are eliminated one after the other
        sizes = [len(g.columns) for g in groups.groups]
        order = [i for i in self.terms if i not in leading]
        order.sort(key=sizes.__getitem__, reverse=True)
        order += [i for i in range(len(sizes)) if i not in self.terms]
        self.blocks = list[LatentBlock]()
        # the blocks of several linear predictors share the place of their columns
        first = dict[tuple[int, ...], LatentBlock]()
        ends = {True: 0, False: 0}  # of the leading effects, and of the border
        G = 1
        for i in [*leading, *order]:
            g, hyper = groups.with_hyper[i]
            leads = i in leading
            repeats, size = len(g.columns), 1
            if i in self.terms:
                repeats, size = self.terms[i].shape
            count = m * size
            if leads:
                G = repeats
            else:
                count *= repeats
            start = ends[leads]
            if g.columns in first:
                start = first[g.columns].start
            else:
                ends[leads] += count
            place = slice(start, start + count)
            if g.predictor is not None:
                place = slice(start + g.predictor, start + count, m)
            if i in self.terms:
                size *= g.width(m)
            else:
                repeats *= g.width(m)
            block = LatentBlock(
                g, hyper, start, place, repeats, size, i in self.terms, leads
            )
            self.blocks.append(block)
            first.setdefault(g.columns, block)
        self._first = list(first.values())
        self.shape = G, ends[True], ends[False]
        inside = {j for columns in first for j in columns}.union(known)
        self.flat = tuple(sorted({*range(p)} - inside))
        self.border = ends[False] + (len(known) + len(self.flat)) * m
        self.places = np.hstack(
            [
                np.zeros((G, 0), dtype=np.intp),
                *[
                    vec_entries(b.group.columns, m).reshape(G, -1)
                    for b in self._first
                    if b.leads
                ],
            ]
        )
        self.centre = np.zeros(p)
        for i, g in enumerate(groups.groups):
            if i not in self.terms:
                self.centre[list(g.columns)] = g.base.center(len(g.columns))

    def _leading_terms(self) -> list[int]:
        """The terms of the widest factor, and those with the same groups."""
        terms = self.terms
        if not terms:
            return []
        sizes = [len(g.columns) for g in self.groups.groups]
        widest = max(terms, key=sizes.__getitem__)
        inputs = self.model.design.inputs
        if self.model.design.n:
            codes = inputs[terms[widest].key][:, 0]
            return [
                i
                for i, term in terms.items()
                if np.array_equal(inputs[term.key][:, 0], codes)
            ]
        same = (terms[widest].factors, terms[widest].levels)
        return [i for i, term in terms.items() if (term.factors, term.levels) == same]

    # ---- the columns ------------------------------------------------------------------------------------------------

    @cached_property
    def columns(self) -> ArrowColumns:
        """[Z, X], diagonal blocks in coordinates of their roots and flat columns standardised."""
        design = self.model.design
        by_group = {
            self.groups.groups[i].columns: GroupColumns.of(
                term, design.inputs[term.key]
            )
            for i, term in self.terms.items()
        }
        lead: GroupColumns | None = None
        others = list[GroupColumns]()
        dense = list[Array]()
        for b in self._first:
            if not b.repeated:
                dense.append(design.X[:, list(b.group.columns)] @ b.group.root)
            elif not b.leads:
                others.append(by_group[b.group.columns])
            elif lead is None:
                lead = by_group[b.group.columns]
            else:
                lead = lead.beside(by_group[b.group.columns])
        assert lead is not None  # by group
        dense.append(design.X[:, list(self.known)])
        dense.append(self.frame.rows(np.asarray(design.X[:, list(self.flat)])))
        return ArrowColumns(lead, tuple(others), np.ascontiguousarray(np.hstack(dense)))

    @cached_property
    def owners(self) -> tuple[Array, Array] | None:
        """The linear predictors of the leading effects (K,) and of the border columns (r,); None if every column is in each."""
        design = self.model.design
        if design.owner is None:
            return None
        lead = [np.zeros(0, dtype=np.intp)]
        border = [np.zeros(0, dtype=np.intp)]
        for b in self._first:
            owner = design.owner[list(b.group.columns)]
            if b.leads:
                lead.append(owner[: len(owner) // self.shape[0]])
            else:
                border.append(owner)
        border += [design.owner[list(part)] for part in (self.known, self.flat)]
        return np.concatenate(lead), np.concatenate(border)

    @cached_property
    def map_of_rest(self) -> Any:
        """A (p, r), sparse, such that the border columns are X A."""
        return self._map_of_border(self.frame.T)

    @cached_property
    def map_to_frame(self) -> Any:
        """The same map to the frame of all columns."""
        return self._map_of_border(np.eye(len(self.flat)))

    def _map_of_border(self, of_flat: Array) -> Any:
        from scipy.sparse import block_diag, coo_array, csr_array, eye_array

        blocks = [b for b in self._first if not b.leads]
        roots = [
            eye_array(len(b.group.columns)) if b.repeated else b.group.root
            for b in blocks
        ]
        columns = [j for b in blocks for j in b.group.columns]
        rows = np.array([*columns, *self.known, *self.flat], dtype=np.intp)
        A = block_diag([*roots, eye_array(len(self.known)), of_flat], format="coo")
        shape = self.model.shape[0], A.shape[1]
        A = csr_array(coo_array((A.data, (rows[A.row], A.col)), shape=shape))
        A.eliminate_zeros()
        return A

    @cached_property
    def frame(self) -> Frame:
        """The standardised flat columns."""
        design = self.model.design
        flat = list(self.flat)
        f = len(self.flat)
        if not f:
            return Frame(np.zeros(0), np.ones(0), None)
        if design.n or not self.by_group:
            rows = design.sample.X[:, flat]
            X = np.ascontiguousarray(rows.T)  # by column, for faster sums
            shift = X.mean(1)
            scale = X.std(1)
        else:
            rows = None
            moments = design.moments_by_group or design.moments
            shift = moments.mean[flat]
            scale = moments.scale[flat]
        intercept = intercept_among(design.intercepts, np.array(flat))
        frame = Frame.of(shift, scale, intercept)
        if rows is None or frame.intercept is None:
            return frame
        return frame.with_mix(np.asarray(rows[:: max(1, len(rows) // 10_000)]))

    @cached_property
    def frame_of_all(self) -> Frame:
        """The frame of all columns: columns that are not flat are raw."""
        flat = np.array(self.flat, dtype=np.intp)
        return self.frame.embed(self.model.shape[0], flat)

    def coefficients(self, a: Array, c: Array, *, in_frame: bool = False) -> Array:
        """Return columns a (G, K m, s) and c (r m, s) as vec beta (p m, s), without
        mu; with `in_frame` in the frame of all columns."""
        map_of_border = self.map_to_frame if in_frame else self.map_of_rest
        p, m = self.model.shape
        s = a.shape[-1]
        border = c[: self.border].reshape(self.border // m, m * s)
        vec = (map_of_border @ border).reshape(p * m, s)
        vec[self.places.ravel()] = a.reshape(self.places.size, s)
        return vec

    def beta_of(self, roots: ArrowRoots, x: Parts) -> Array:
        """The coefficients (p, m, s) of coordinates of the roots, at one node."""
        beta = self.coefficients(*roots.map(x)).reshape(*self.model.shape, -1)
        return beta + self.centre[:, None, None]

    def covariance(
        self, blocks: Array, low: Array
    ) -> ArrowCovariance | DenseCovariance:
        """Return the covariance blocks blocks' by group (G, K, K) plus low low', low
        (p m, r) in the frame of all columns."""
        frame, m = self.frame_of_all, self.model.shape[1]
        if not self.by_group:
            return DenseCovariance(frame, m, root=low)
        return ArrowCovariance(frame, m, places=self.places, blocks=blocks, root=low)

    # ---- the roots --------------------------------------------------------------------------------------------------

    def roots(self, theta: Array, sigma: Array | None = None) -> ArrowRoots:
        """Return the roots at nodes theta (S, d), those in units of sigma times sigma (S,)."""
        unit = np.ones(len(theta)) if sigma is None else sigma
        roots = [self._root(b, theta[:, b.hyper], unit) for b in self.blocks]
        return ArrowRoots(roots, self.shape, len(self.groups.priors), len(theta))

    def _root(self, b: LatentBlock, logs: Array, unit: Array) -> BlockRoots:
        g = b.group
        m = g.width(self.model.shape[1])
        value, slopes = g.root_at(logs, repeated=b.repeated)
        if b.repeated:
            sd = g.base.independent(len(g.columns))
            assert sd is not None  # see `_repeating_term`
            value, slopes = value[:, :1] * sd[0], slopes[:, :1] * sd[0]
            if value.shape[-1] * m < b.size:
                eye = np.eye(b.size // m)
                value, slopes = value * eye, slopes * eye
            if m > 1:
                value, slopes = (np.kron(v, np.eye(m)) for v in (value, slopes))
        else:
            value, slopes = (np.repeat(v, m, 1) for v in (value, slopes))
        relative = bool(g.base.sigma_units)
        if relative:
            value, slopes = unit[:, None, None, None] * value, unit[0] * slopes
        return BlockRoots(b, relative, value, slopes)

    def log_scale_derivatives(self, theta: Array) -> tuple[Array, Array]:
        """Return the slopes (q, d) and second derivatives (q, d, d) over theta of the log scales of diagonal roots."""
        q, d = self.shape[2], len(self.groups.priors)
        slopes, curvature = np.zeros((q, d)), np.zeros((q, d, d))
        for b in self.blocks:
            prior, size, logs = b.group.prior, len(b.group.columns), theta[b.hyper]
            if prior is not None:
                first = prior.log_scale_slopes(logs, size)
                second = prior.log_scale_curvature(logs, size)
                copies = b.repeats // size
                slopes[b.place, b.hyper] = np.repeat(first, copies, 0)
                curvature[b.place, b.hyper, b.hyper] = np.repeat(second, copies, 0)
        return slopes, curvature

    def beyond(self, theta: Array, vanished: Array, start: Array) -> list[Array]:
        """Return new starts with vanished scales at a tenth of the others, or at their
        start if the others are fixed.

        The correlations of the effect are near either end: the evidence is linear in
        the covariance of an effect with the others if its standard deviation is 0, so
        it may decrease for one sign of a correlation and increase for the other.
        Correlations of effects that are linear functions of others are smaller.
        """
        points = []
        for b in self.blocks:
            hyper = np.arange(b.hyper.start, b.hyper.stop)
            scales = self.groups.scaling[hyper]
            stay = hyper[scales & ~vanished[hyper]]
            cors = hyper[~scales]
            if not (b.repeated and len(cors)):
                continue
            points += self._with_smaller_correlations(b, theta, vanished)
            for j in hyper[scales & vanished[hyper]]:
                start_again = theta.copy()
                if len(stay):
                    start_again[j] = theta[stay].mean() - np.log(10.0)
                else:
                    start_again[j] = start[j]
                root = self._root(b, start_again[None, b.hyper], np.ones(1))
                slopes = root.slopes[:, 0]
                # the effect: its row of the root contains this scale
                k = int(np.abs(slopes[j - b.hyper.start]).sum(1).argmax())
                pairs = [
                    i
                    for i in cors
                    if slopes[i - b.hyper.start][k].any()
                    or slopes[i - b.hyper.start][:, k].any()
                ]
                for signs in sign_patterns(len(pairs)):
                    point = start_again.copy()
                    point[pairs] = signs
                    points.append(point)
        return points

    def _with_smaller_correlations(
        self, b: LatentBlock, theta: Array, vanished: Array
    ) -> list[Array]:
        """Return theta with smaller correlations of three or more effects, if one effect
        is a linear function of others.

        A partial correlation of -1 or 1 leaves no variance for the later ones of its
        effect: the evidence is flat over them, although it may increase along other
        covariances.
        """
        shares = (0.9, 0.0)  # of each correlation
        prior = b.group.prior
        assert isinstance(prior, VaryingEffects)
        values = b.group.values_at(theta[b.hyper])
        zero = {name for name, z in zip(values, vanished[b.hyper]) if z}
        kept = [k for k, e in enumerate(prior.effects) if f"sd[{e}]" not in zero]
        if len(kept) < 3 or not prior.collinear(values, kept):
            return []
        natural = prior.natural(values)
        cors = [name for name, scales in zip(values, prior.scales) if not scales]
        points = []
        for share in shares:
            smaller = {name: share * natural[name] for name in cors}
            inside = prior.internal({**natural, **smaller})
            point = theta.copy()
            point[b.hyper] = np.log([inside[name] for name in values])
            points.append(point)
        return points


def require_memory(layout: ArrowLayout, method: str) -> None:
    """Raise Incompatible, before any allocation, if the matrices of the arrow need more memory than the machine has."""
    by_row = 16  # numbers per row while its columns are summed
    G, K, _ = layout.shape
    r = layout.border
    need = 8.0 * (4 * (G * K * r + r * r) + by_row * layout.model.design.n)
    memory = physical_memory()
    if memory is None or need <= memory:
        return
    counts = " and ".join(f"{t.size_words} in {t.key}" for t in layout.terms.values())
    raise Incompatible(
        f"{method}: {counts} need {in_bytes(need)} of memory, and this machine has {in_bytes(memory)}. That is 4 (G K r + r²) numbers and "
        f"{by_row} for each row: G K = {G * K:,} effects are eliminated, and r = {r:,} columns remain. Group the smaller factors "
        "more coarsely, or drop a term"
    )


def require_flat_rank(layout: ArrowLayout, method: str) -> None:
    """Raise Incompatible if flat columns depend on others, or effects of groups nearly do."""
    _require_near_intercept(layout.model, method)
    design = layout.model.design
    flat = list(layout.flat)
    if not flat:
        return
    if design.n:
        weights = design.row_weights
        F = np.sqrt(weights)[:, None] * design.X[:, flat]
        if design.owner is not None:
            owner = design.owner[flat]
            F = np.vstack([F * (owner == k) for k in np.unique(owner)])
    else:
        by_group = design.moments_by_group
        if by_group is not None and all(j in design.ungrouped for j in flat):
            moments = by_group.head
        else:
            moments = design.moments
        F = np.asarray(moments.R, dtype=float)[:, flat]
    rows = design.n or design.count
    if rows < len(flat):
        reason = f"{len(flat)} columns and {rows} rows"
    else:
        rank = rank_of(np.linalg.qr(F, mode="r"))
        if not rank.dropped:
            return
        reason = combinations(rank, tuple(design.columns[j] for j in flat))
    raise Incompatible(
        f"{method}: the posterior is improper, because columns are not identified: {reason}. Drop one, or give these columns a "
        "proper prior."
    )


def _require_near_intercept(model: Model, method: str) -> None:
    """Raise Incompatible if an effect with an intercept lies so far from zero that sums
    of its squares lose all digits."""
    far = 1e4  # standard deviations from zero: relative errors of about 1e-5 of a standard deviation, ten times farther 1e-3
    design = model.design
    for term in design.recipe.grouped.values():
        if "Intercept" not in term.effects:
            continue
        if term.key in design.inputs:
            Z = design.inputs[term.key][:, 1:].T
            Z = np.ascontiguousarray(Z)  # by column, for faster sums
            middle, spread = Z.mean(1), Z.std(1)
        else:
            moments = design.moments_by_group
            if moments is None:
                continue
            place = {c: j - moments.head.p for j, c in enumerate(moments.columns)}
            totals = moments.totals[[place[c] for c in term.columns]]
            mean_square = totals.reshape(*term.shape, 2).sum(0).T / moments.weight
            middle = mean_square[0]
            spread = np.sqrt(np.maximum(mean_square[1] - middle**2, 0.0))
        is_far = (spread > 0) & (np.abs(middle) > far * spread)
        if is_far.any():
            k = int(is_far.argmax())
            raise Incompatible(
                f"{method}: {term.key}: {term.effects[k]} has mean {middle[k]:.6g} and standard deviation {spread[k]:.3g}, so its "
                f"intercept is too far from the rows to be estimated: subtract {middle[k]:.6g} from it first"
            )


def _repeating_term(model: Model, g: LatentGroup) -> GroupedTerm | None:
    """Return the term of these columns, if their prior is one root (K, K) for every group."""
    term = model.design.grouped_of(g.columns)
    if term is None:
        return None
    if model.design.n and term.key not in model.design.inputs:
        return None
    if g.prior is not None and g.prior.root(np.zeros(len(g.hyper))) is not None:
        return term
    sd = g.base.independent(len(g.columns))
    plain = (
        sd is not None
        and bool((sd == sd[0]).all())
        and not g.base.center(len(g.columns)).any()
    )
    if plain and (g.prior is None or g.prior.scalar):
        return term
    return None
