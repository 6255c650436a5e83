"""Bounds for one fit: by its stability, on held-out rows, and for draws of a posterior."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

import numpy as np
from scipy.special import rel_entr

from probreg.arguments.scalars import (
    ArrayLike,
    Count,
    Fraction,
    NonNegative,
    Positive,
    TableLike,
    check_arguments,
    shown_value,
)
from probreg.errors import DataError
from probreg.scores.assumptions import Assumption
from probreg.scores.bounds.balls import largest_beyond
from probreg.scores.bounds.result import (
    INDEPENDENT,
    Bound,
    bound_of,
    read_losses,
    spread_of_mean,
)
from probreg.scores.reading import columns_by_name

HoldOut = Literal["maurer_pontil", "hoeffding"]
APART = Assumption(
    "the rows of these losses had no part in the fit, nor in any choice that led to it",
    None,
    None,
)
LAM_FIXED = Assumption(
    "lam was fixed before the rows were seen, and f minimises mean loss + lam ||f||^2",
    None,
    None,
)
NO_OFFSET = Assumption(
    "the class has no free offset, and y is centred at a value fixed before the rows were seen",
    None,
    None,
)
PRIOR_FIXED = Assumption("the prior was fixed before the rows were seen", None, None)


@check_arguments
def stability(
    *,
    risk: NonNegative,
    n: Count,
    lam: Positive,
    row_norm: Positive,
    half_width: Positive,
    width: Positive | None = None,
    epsilon: NonNegative | None = None,
    delta: Fraction = 0.05,
) -> Bound:
    """Uniform stability beta of the minimiser of mean loss + lam ||f||^2: R <= R^ + beta + (2 m beta + M) sqrt(log(1 / delta) / 2m).

    beta = 4 M_u M_c r^2 / (lam m) for squared loss and r^2 / (lam m) for the epsilon-insensitive one. M_u bounds |f - y| as
    fitted: B (1 + r / sqrt(lam)), and B + r sqrt(max(0, B - eps) / lam). M_c bounds it after clipping. M is M_c^2, or M_c - eps.

    Parameters
    ----------
    risk : float
        R^, the mean loss of the (clipped) predictions on the rows.
    n : int
        m, the number of rows.
    lam : float
        The penalty of the mean loss: the penalty of the sum divided by m, 1 / (2 C m) for support vector machines.
    row_norm : float
        r = sup sqrt(k(x, x)), known before the rows.
    half_width : float
        B, with |y| <= B for y in the model: half of hi - lo if y is centred at the middle.
    width : float, optional
        M_c, hi - lo of clipped predictions; M_u if they are not clipped.
    epsilon : float, optional
        eps of the epsilon-insensitive loss; squared loss without it.
    delta : float
        The largest probability that the bound fails.

    Returns
    -------
    Bound
        For the fit as made.

    Raises
    ------
    DataError
        For a risk above the largest loss, and for an epsilon that no error exceeds.

    References
    ----------
    Bousquet & Elisseeff 2002.

    Examples
    --------
    >>> round(stability(risk=5903.0, n=442, lam=1.0, row_norm=1.0, half_width=160.5, width=321.0).value)
    60821
    """
    r, B = row_norm, half_width
    if epsilon is None:
        # lam |f|^2 <= B^2, the mean loss of f = 0, so that |f| <= r B / lam^(1/2).
        fitted = B * (1 + r / np.sqrt(lam))
        if width is None:
            width = fitted
        beta = 4 * fitted * width * r**2 / (lam * n)
        loss_range = width**2
    else:
        # lam |f|^2 <= max(0, B - eps).
        fitted = B + r * np.sqrt(max(0.0, B - epsilon) / lam)
        if width is None:
            width = fitted
        beta = r**2 / (lam * n)
        loss_range = largest_beyond(width, epsilon)
    chance = spread_of_mean(n, delta)
    return bound_of(
        "stability", "Bousquet & Elisseeff 2002", risk=risk, complexity=float(beta + 2 * n * beta * chance),
        deviation=float(loss_range * chance), most=float(loss_range), delta=delta, assumptions=(INDEPENDENT, LAM_FIXED, NO_OFFSET),
    )  # fmt: skip


@check_arguments
def hold_out(
    losses: ArrayLike,
    *,
    delta: Fraction = 0.05,
    most: Positive = 1.0,
    kind: HoldOut = "maurer_pontil",
) -> Bound:
    """Losses of one fit on h rows that it has not seen: R <= mean + sqrt(2 V log(2 / delta) / h) + 7 M log(2 / delta) / (3 (h - 1)).

    V is the sample variance of the losses (Maurer & Pontil). Hoeffding has M sqrt(log(1 / delta) / 2h), which is smaller if
    losses vary much.

    Parameters
    ----------
    losses : array (h,)
        One per row, between 0 and M.
    delta : float
        The largest probability that the bound fails.
    most : float
        M, the largest possible loss.
    kind : {"maurer_pontil", "hoeffding"}
        Which of the two, chosen before the losses are seen.

    Returns
    -------
    Bound
        Its complexity is 0.

    Raises
    ------
    DataError
        For a loss outside [0, M], or fewer than two rows.

    References
    ----------
    Hoeffding 1963; Maurer & Pontil 2009.

    Examples
    --------
    >>> round(hold_out([0.0, 0.2, 0.1, 0.3] * 50, delta=0.05, kind="hoeffding").value, 4)
    0.2365
    >>> round(hold_out([0.0, 0.2, 0.1, 0.3] * 50, delta=0.05).value, 4)
    0.2148
    """
    values = read_losses(losses, most)
    h = len(values)
    if kind == "hoeffding":
        source = "Hoeffding 1963"
        deviation = most * spread_of_mean(h, delta)
    else:
        source = "Maurer & Pontil 2009"
        log = np.log(2 / delta)
        deviation = np.sqrt(2 * values.var(ddof=1) * log / h)
        deviation += 7 * most * log / (3 * (h - 1))
    return bound_of(
        f"hold-out of {h} rows",
        source,
        risk=float(values.mean()),
        complexity=0.0,
        deviation=float(deviation),
        most=most,
        delta=delta,
        assumptions=(INDEPENDENT, APART),
    )


@check_arguments
def best_of(
    losses: Mapping[str, ArrayLike] | TableLike,
    *,
    delta: Fraction = 0.05,
    most: Positive = 1.0,
    kind: HoldOut = "maurer_pontil",
) -> Bound:
    """The best of K forecasters on held-out rows: `hold_out` of the smallest mean loss with delta / K in place of delta.

    Each bound fails with probability at most delta / K, so that with probability 1 - delta none does (union bound), for any
    choice of the forecaster.

    Parameters
    ----------
    losses : mapping from str to array (h,), or a table with a column for each forecaster
        The losses of each forecaster, between 0 and M, on rows that it has not seen.
    delta : float
        The largest probability that the bound fails.
    most : float
        M, the largest possible loss.
    kind : {"maurer_pontil", "hoeffding"}
        As in `hold_out`.

    Returns
    -------
    Bound
        For the forecaster with the smallest mean loss; its name is in `theorem`.

    Raises
    ------
    DataError
        Without forecasters, for a loss outside [0, M], and for fewer than two rows.

    References
    ----------
    Hoeffding 1963; Maurer & Pontil 2009.

    Examples
    --------
    >>> found = best_of({"a": [0.0, 0.2, 0.1, 0.3] * 50, "b": [0.0, 0.3, 0.1, 0.4] * 50}, kind="hoeffding")
    >>> found.theorem, round(found.value, 4)
    ('a, best of 2, hold-out of 200 rows', 0.246)
    """
    named = columns_by_name(losses)
    if not isinstance(named, Mapping) or not named:
        raise DataError(
            f"losses={shown_value(losses)}: expected a mapping or a table with the losses of at least one forecaster"
        )
    K = len(named)
    bounds = {
        name: hold_out(values, delta=delta / K, most=most, kind=kind)
        for name, values in named.items()
    }
    name = min(bounds, key=lambda name: bounds[name].empirical)
    made_before = f"the {K} forecasters were made without these rows"
    return replace(
        bounds[name],
        theorem=f"{name}, best of {K}, {bounds[name].theorem}",
        delta=delta,
        assumptions=(INDEPENDENT, Assumption(made_before, None, None)),
    )


@check_arguments
def pac_bayes(
    *,
    risk: NonNegative,
    n: Count,
    divergence: NonNegative,
    delta: Fraction = 0.05,
    most: Positive = 1.0,
    draws: Count | None = None,
) -> Bound:
    """PAC-Bayes: kl(R^(rho) / M || R(rho) / M) <= (KL(rho || pi) + log(2 sqrt(m) / delta)) / m, solved for the mean loss R(rho) of draws.

    kl(q || p) = q log(q / p) + (1 - q) log((1 - q) / (1 - p)). R(rho) is the mean risk of predictors drawn from rho. By
    Jensen's inequality it also bounds the risk of their mean prediction if the loss is convex, but not of a fit at the mean.

    Parameters
    ----------
    risk : float
        R^(rho), the mean loss of draws from rho on the rows.
    n : int
        m, the number of rows.
    divergence : float
        KL(rho || pi) in nats, of a prior pi fixed before the rows.
    delta : float
        The largest probability that the bound fails.
    most : float
        M, the largest possible loss.
    draws : int, optional
        S, if `risk` is the mean over S independent draws: half of delta is for the draws, kl(R^_S || R^(rho)) <= log(2 / delta) / S.

    Returns
    -------
    Bound
        Its complexity is the cost of the divergence.

    Raises
    ------
    DataError
        For a risk above the largest loss.

    References
    ----------
    Maurer 2004; Langford & Caruana 2001.

    Examples
    --------
    >>> round(pac_bayes(risk=0.1, n=1000, divergence=5.0).value, 4)
    0.1531
    """
    share = delta if draws is None else delta / 2
    # R^(rho) from the mean of S draws of it, each in [0, M]: P(mean <= q) <= exp(-S kl(q || R^)) for q below R^   (Chernoff).
    start = min(risk / most, 1.0)
    if draws is not None:
        start = _inverse_kl(start, np.log(1 / share) / draws)
    chance = np.log(2 * np.sqrt(n) / share) / n
    alone = _inverse_kl(start, chance) * most
    value = _inverse_kl(start, chance + divergence / n) * most
    assumptions = (INDEPENDENT, PRIOR_FIXED)
    bound = bound_of(
        "PAC-Bayes, the mean risk of draws", "Maurer 2004", risk=risk, complexity=value - alone, deviation=alone - risk,
        most=most, delta=delta, assumptions=assumptions,
    )  # fmt: skip
    return replace(bound, value=value, vacuous=value >= most)


def _inverse_kl(q: float, most: float) -> float:
    """The largest p with kl(q || p) <= most, from above, by bisection.

    >>> round(float(_inverse_kl(0.0, 0.1)), 6)  # -log(1 - p) = 0.1
    0.095163
    """
    low, high = q, 1.0
    for _ in range(100):
        p = 0.5 * (low + high)
        if p in (low, high):
            break
        divergence = rel_entr(q, p) + rel_entr(1 - q, 1 - p)
        low, high = (p, high) if divergence <= most else (low, p)
    return high
