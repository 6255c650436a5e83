"""The words of other packages: an unknown keyword, likelihood or method is answered with what to write here."""

import difflib
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from probreg.errors import Incompatible

_POSITIVE = "is not available; for positive numbers, likelihood='gaussian' of log(y)"
_SPREAD = "counts that vary more than a Poisson's are likelihood='negative_binomial'"


def with_article(word: str) -> str:
    """A name in a sentence, behind "a" or "an".

    >>> with_article("gaussian"), with_article("absolute")
    ('a gaussian', 'an absolute')
    """
    return f"{'an' if word[:1] in tuple('aeiouAEIOU') else 'a'} {word}"


LIKELIHOOD_WORDS = {
    **dict.fromkeys(
        ("logistic", "logit", "logistic_regression", "binary", "bernouli"),
        "logistic regression is likelihood='bernoulli'",
    ),
    "aggregated_binomial": "successes of trials are likelihood='binomial': 'p(successes, trials) ~ x'",
    **dict.fromkeys(
        ("normal", "ols", "linear", "least_squares", "lm", "mse", "squared_error"),
        "least squares is likelihood='gaussian'",
    ),
    **dict.fromkeys(
        ("softmax", "multinomial_logit", "mnlogit", "multiclass", "multinom"),
        "softmax regression of classes is likelihood='categorical', of counts by class 'multinomial'",
    ),
    **dict.fromkeys(
        ("t", "student_t", "studentt"), "heavy-tailed noise is likelihood='student'"
    ),
    "robust": "noise with heavy tails is likelihood='student', 'huber' or 'absolute'",
    **dict.fromkeys(
        ("laplace", "lad", "median", "l1", "mae", "absolute_error"),
        "the median is likelihood='absolute'",
    ),
    **dict.fromkeys(
        ("svr", "svm", "support_vector", "tube"),
        "support vector regression is likelihood='epsilon_insensitive', or pr.svr",
    ),
    **dict.fromkeys(
        ("asymmetric_laplace", "check", "pinball", "quantile_regression"),
        "a quantile is likelihood=pr.likelihoods.Quantile(0.9), or pr.quantile_regression",
    ),
    **dict.fromkeys(
        ("count", "counts", "loglinear", "log_linear"),
        "counts are likelihood='poisson'",
    ),
    "probit": "a probit link is not available; likelihood='bernoulli' has the logit link",
    **{
        name: f"{with_article(name.replace('_', ' '))} likelihood {_POSITIVE}"
        for name in (
            "gamma",
            "lognormal",
            "log_normal",
            "inverse_gaussian",
            "tweedie",
            "exponential",
            "weibull",
        )
    },
    "beta": "a beta likelihood is not available; shares of known trials are 'p(successes, trials) ~ x'",
    **dict.fromkeys(
        ("negativebinomial", "negbinomial", "negbin", "nb", "nb2", "overdispersed"),
        _SPREAD,
    ),
    **dict.fromkeys(
        ("quasipoisson", "quasi"),
        f"{_SPREAD}; likelihood='poisson' fits their mean, fit.covariance('HC1') its errors",
    ),
    **dict.fromkeys(
        ("ordinal", "ordered", "cumulative", "ordered_logit"),
        "an ordinal likelihood is not available; likelihood='categorical' models the levels without their order",
    ),
    **dict.fromkeys(
        ("quantreg", "quantile_regression", "rq", "pinball", "check_loss"),
        "a quantile is likelihood=pr.likelihoods.Quantile(0.9), or pr.quantile_regression(formula, data, tau=0.9)",
    ),
    **dict.fromkeys(("cox", "coxph", "survival"), "survival times are not available"),
}
METHOD_WORDS = {
    **dict.fromkeys(
        ("ols", "lstsq", "least_squares", "qr"), "least squares is method='closed_form'"
    ),
    **dict.fromkeys(
        (
            "ml",
            "mle",
            "map",
            "glm",
            "irls",
            "bfgs",
            "lbfgs",
            "l_bfgs",
            "newton_raphson",
            "fisher_scoring",
            "optimize",
        ),
        "maximum likelihood, or the mode under a prior, is method='auto'; Newton's steps are 'newton'",
    ),
    **dict.fromkeys(
        ("mcmc", "hmc", "stan", "pymc", "sample", "bayes", "gibbs", "metropolis"),
        "sampling is method='nuts'",
    ),
    **dict.fromkeys(
        ("vi", "advi", "variational"),
        "variational inference is not available; method='laplace' approximates",
    ),
    **dict.fromkeys(
        ("lasso", "ridge", "elastic_net", "elasticnet"),
        "a penalty is a prior of the model: prior=pr.Normal(scale) is a ridge, prior=pr.Laplace(scale) a lasso",
    ),
    **dict.fromkeys(
        ("logistic", "logit"), "logistic regression is a model: likelihood='bernoulli'"
    ),
}
ELSEWHERE = {
    "family": "write likelihood= in its place",
    "distribution": "write likelihood= in its place",
    "link": "a likelihood has its canonical link",
    "exposure": "write offset=, the log of the exposure",
    "sample_weight": "write weights=",
    "sample_weights": "write weights=",
    "freq_weights": "write weights=, whole numbers",
    "var_weights": "write weights=pr.weights.precision(...)",
    "fit_intercept": "write intercept=",
    "na_action": "write missing='raise' or missing='drop'",
    "dropna": "write missing='drop'",
    "missing_values": "write missing='raise' or missing='drop'",
    "random_state": "write seed=",
    "random_seed": "write seed=",
    "n_jobs": "write threads=",
    "solver": "write method=",
    "priors": "write prior=",
    **dict.fromkeys(
        ("alpha", "lambda_", "lam", "penalty", "l1_ratio", "l1", "l2"),
        "a penalty is a prior here: prior=pr.Normal(scale) is a ridge, prior=pr.Laplace(scale) a lasso",
    ),
    **dict.fromkeys(
        ("draws", "chains", "tune", "max_iter", "maxiter", "tol"),
        "settings stand in the method, such as fit(model, NUTS(draws=2000))",
    ),
    **dict.fromkeys(
        ("groups", "cluster"),
        "groups belong to the covariance: fit.covariance('cluster', groups=...)",
    ),
}
OF_THE_MODEL = (
    "likelihood",
    "prior",
    "aux",
    "weights",
    "offset",
    "trials",
    "event",
    "reference",
    "missing",
)


def only_known[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """The function, which answers a keyword that it does not know with the one that is meant, as Incompatible."""
    known = keywords_of(inspect.signature(function))

    @functools.wraps(function)
    def asked(*args: P.args, **kwargs: P.kwargs) -> R:
        refuse_unknown(function.__name__, kwargs, known)
        return function(*args, **kwargs)

    return asked


def keywords_of(signature: inspect.Signature) -> list[str]:
    """The names by which arguments can be given."""
    return [
        p.name for p in signature.parameters.values() if p.name not in ("cls", "self")
    ]


def taken_by(signature: inspect.Signature) -> str:
    """The arguments in words: those by place, then those by name.

    >>> taken_by(inspect.signature(sorted))
    'iterable; by name key, reverse'
    """
    shown = [p for p in signature.parameters.values() if p.name not in ("cls", "self")]
    named = [
        f"{'**' * (p.kind is p.VAR_KEYWORD)}{p.name}"
        for p in shown
        if p.kind in (p.KEYWORD_ONLY, p.VAR_KEYWORD)
    ]
    placed = [
        f"{'*' * (p.kind is p.VAR_POSITIONAL)}{p.name}"
        for p in shown
        if p.kind not in (p.KEYWORD_ONLY, p.VAR_KEYWORD)
    ]
    return "; by name ".join(
        ", ".join(part) for part in (placed or ["no argument by place"], named) if part
    )


def refuse_unknown(function: str, given: Mapping[str, Any], known: list[str]) -> None:
    """Incompatible for a keyword that the function does not know, with the one that is meant."""
    for name, value in given.items():
        if name not in known:
            raise Incompatible(_answer(function, name, value, known)) from None


def _answer(function: str, name: str, value: Any, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.75)
    meant = ELSEWHERE.get(name.lower(), "")
    said = meant.removeprefix("write ").partition("=")[0]
    if near:
        meant = f"did you mean {near[0]}=?"
    elif meant.startswith("write ") and said not in known and said in OF_THE_MODEL:
        meant = f"it belongs to the model: {meant}"
    elif name in OF_THE_MODEL:
        meant = (
            f"{name}= belongs to the model, such as Model.from_formula(..., {name}=...)"
        )
    if name in ("family", "distribution"):
        if isinstance(value, str):
            word = value
        else:
            word = getattr(value, "__name__", type(value).__name__)
        instead = LIKELIHOOD_WORDS.get(
            normalised_name(word),
            f"{name}={word!r} is likelihood={normalised_name(word)!r}",
        )
        meant += f"; {instead}"
    return f"{function} takes no {name}=: {meant or 'it takes ' + ', '.join(known)}"


def normalised_name(word: str) -> str:
    """A name as the tables have it.

    >>> normalised_name("Log-Normal")
    'log_normal'
    """
    return "_".join(word.lower().replace("-", " ").split())
