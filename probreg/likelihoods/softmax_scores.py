"""The scores of classes under their contrasts, for adjacent rows: plain functions that compiled code inlines."""

from math import exp

from probreg.likelihoods.base import Array


def scores_of(eta: Array, t: Array, b: int, f: Array, top: Array) -> None:
    """f (K, b) = C eta with C (K, m) in t, minus the largest of each row, which is written to `top` (b,)."""
    m = eta.shape[0]
    for k in range(f.shape[0]):
        g = f[k]
        for i in range(b):
            g[i] = 0.0
        for c in range(m):
            if t[k * m + c] != 0.0:
                e = eta[c]
                weight = t[k * m + c]
                for i in range(b):
                    g[i] += weight * e[i]
    for i in range(b):
        top[i] = f[0, i]
    for k in range(1, f.shape[0]):
        g = f[k]
        for i in range(b):
            top[i] = max(top[i], g[i])
    for k in range(f.shape[0]):
        g = f[k]
        for i in range(b):
            g[i] -= top[i]


def apply_contrasts(f: Array, t: Array, b: int, out: Array) -> None:
    """out (m, b) = C' f, of f (K, b) and C in t."""
    m = t.size // f.shape[0]
    for c in range(m):
        s = out[c]
        for i in range(b):
            s[i] = 0.0
        for k in range(f.shape[0]):
            if t[k * m + c] != 0.0:
                g = f[k]
                weight = t[k * m + c]
                for i in range(b):
                    s[i] += weight * g[i]


def exponentiate(p: Array, b: int, total: Array) -> None:
    """Replace scores p (K, b) by their exponentials, and write the sum over the classes to `total` (b,)."""
    for i in range(b):
        total[i] = 0.0
    for k in range(p.shape[0]):
        f = p[k]
        for i in range(b):
            f[i] = exp(f[i])
            total[i] += f[i]
