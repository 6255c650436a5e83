"""The table of conversions: what a Normal(tau) and a Laplace(b) prior are called elsewhere. Its formulas are checked."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Conversion:
    """One call of a package: its criterion, and its setting for each prior as a formula of sigma, tau, b, N and s (the sd
    of y with divisor N); "" where it has none."""

    package: str
    call: str
    likelihood: str
    criterion: str
    setting: str
    normal: str = ""
    laplace: str = ""


_MIXED = "alpha (l1_ratio ‖w‖₁ + (1 - l1_ratio)/2 ‖w‖²)"
CONVERSIONS = (
    Conversion("rss", "a text's own", "gaussian", "RSS + lam2 ‖w‖² + lam1 ‖w‖₁", "lam", "sigma**2 / tau**2", "2 * sigma**2 / b"),
    Conversion("sklearn", "Ridge", "gaussian", "RSS + alpha ‖w‖²", "alpha", "sigma**2 / tau**2"),
    Conversion("sklearn", "Lasso", "gaussian", "RSS/(2N) + alpha ‖w‖₁", "alpha", "", "sigma**2 / (N * b)"),
    Conversion("sklearn", "LogisticRegression", "bernoulli, categorical", "-C log L + l1_ratio ‖w‖₁ + (1 - l1_ratio)/2 ‖w‖²", "C", "tau**2", "b"),
    Conversion("sklearn", "PoissonRegressor", "poisson", "-log L / N + alpha/2 ‖w‖²", "alpha", "1 / (N * tau**2)"),
    Conversion("glum", "GeneralizedLinearRegressor", "gaussian", f"RSS/(2N) + {_MIXED}", "alpha", "sigma**2 / (N * tau**2)", "sigma**2 / (N * b)"),
    Conversion("glum", "GeneralizedLinearRegressor", "bernoulli, poisson", f"-log L / N + {_MIXED}", "alpha", "1 / (N * tau**2)", "1 / (N * b)"),
    Conversion("statsmodels", "OLS.fit_regularized", "gaussian", f"RSS/(2N) + {_MIXED}", "alpha", "sigma**2 / (N * tau**2)", "sigma**2 / (N * b)"),
    Conversion("statsmodels", "GLM.fit_regularized", "bernoulli, poisson", f"-log L / N + {_MIXED}", "alpha", "1 / (N * tau**2)", "1 / (N * b)"),
    Conversion("statsmodels l1", "Logit, Poisson .fit_regularized(method='l1')", "bernoulli, poisson", "-log L + alpha ‖w‖₁", "alpha", "", "1 / b"),
    Conversion("glmnet", "glmnet, standardize=FALSE", "gaussian", "RSS/(2N) + lambda (alpha ‖w‖₁ + (1 - alpha)/2 ‖w‖² / s)", "lambda", "sigma**2 * s / (N * tau**2)", "sigma**2 / (N * b)"),
    Conversion("glmnet", "glmnet, standardize=FALSE", "bernoulli, categorical, poisson", "-log L / N + lambda (alpha ‖w‖₁ + (1 - alpha)/2 ‖w‖²)", "lambda", "1 / (N * tau**2)", "1 / (N * b)"),
)  # fmt: skip


def conversions() -> str:
    """The table in Markdown.

    >>> print(conversions().splitlines()[0])
    | package | call | likelihood | minimises | setting | Normal(τ) | Laplace(b) |
    """
    head = (
        "package",
        "call",
        "likelihood",
        "minimises",
        "setting",
        "Normal(τ)",
        "Laplace(b)",
    )
    rows = [
        (
            c.package,
            c.call,
            c.likelihood,
            c.criterion,
            c.setting,
            _pretty(c.normal),
            _pretty(c.laplace),
        )
        for c in CONVERSIONS
    ]
    lines = ["| " + " | ".join(r) + " |" for r in (head, ("---",) * len(head), *rows)]
    return "\n".join(lines)


def _pretty(formula: str) -> str:
    for plain, sign in (
        ("sigma", "σ"),
        ("tau", "τ"),
        ("**2", "²"),
        (" * ", " "),
        (" / ", "/"),
    ):
        formula = formula.replace(plain, sign)
    return formula or "–"
