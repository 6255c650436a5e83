"""What the library says, in the spelling of the command line: `--prior "normal(2.5)"` where it says `prior=pr.Normal(2.5)`."""

import re

from probreg.inference import METHODS
from probreg.likelihoods import LIKELIHOODS
from probreg.priors import AUX_PRIORS, PRIORS

_METHODS = {cls.__name__: name for name, cls in METHODS.items()}
_PARTS = {
    cls.__name__: name
    for room in (LIKELIHOODS, PRIORS, AUX_PRIORS)
    for name, cls in room.items()
}
_ARGUMENTS = r"\(((?:[^()]|\([^()]*\))*)\)"  # brackets, and brackets within them

_VALUED = re.compile(
    r"\b(missing|event|reference|likelihood|method|groups|prior)=['\"]([^'\"]*)['\"]"
)
_NUMBER = re.compile(r"\b(prob|seed|event|reference)=([\d.]*\d)")
_NAMED = re.compile(
    r"\b(missing|event|reference|weights|offset|aux|prior|likelihood|method|prob)=(?![\w'\"\[{(.-])"
)
# where a print of the library says that the rest is: an attribute or a method of what it prints
_ELSEWHERE = re.compile(r"\bin (?:summary\(\))?(?:\.[a-z_]+(?:\(\))?|(?<=\)))")
_WEIGHTS = re.compile(r"\bpr\.weights\.(precision|sampling)\((\w+)\)")
_COVARIANCE = re.compile(
    r"(?:\b(?:pr\.fit\(model\)|fit)\.)?\bcovariance(?:\(|=)'(\w+)'(, groups=\.\.\.)?\)?"
)
_FIT = re.compile(r"\b(?:pr\.)?fit\(model, ('?)([\w.]+)\1(?:" + _ARGUMENTS + r")?\)")
_AUX = re.compile(r"\b(aux|prior)=\{'?([^{}':]+)'?: ([^{}]+)\}")
_CLASS = re.compile(
    r"\b(?:(prior|likelihood|method)=)?(pr\.)?(?:priors\.|likelihoods\.)?([A-Z]\w+)(?:"
    + _ARGUMENTS
    + ")?"
)
_SET = re.compile(rf"\b(?:pr\.)?({'|'.join(_METHODS)})\(([^()]*=[^()]*)\)")
_PICTURE = re.compile(r"(?:; |→ )see plot\.\w+")
_VERBS = {
    ".show(verbose=True)": "--verbose",
    "pr.check(fit.model)": "probreg check",
    "pr.compare_models": "probreg compare",
    "pr.diagnose(fit)": "probreg diagnose",
    "save(rows=True)": "fit --save with --rows",
    "prior='weak'": "--prior weak",
}


def as_options(said: str) -> str:
    """A message of the library with its arguments as the options of the command line.

    >>> as_options("fill them in, or pass missing='drop'; name it by event=, or see method='nuts'")
    'fill them in, or pass --missing drop; name it by --event, or see --method nuts'
    >>> as_options("give a prior such as prior=pr.Normal(2.5), or NUTS(draws=4000, tune=2000)")
    'give a prior such as --prior "normal(2.5)", or --method nuts --set draws=4000 --set tune=2000'
    >>> as_options("use fit.covariance('HC1'), or 'cluster' by group; hold it, aux={'sigma': HalfNormal(1.0)}")
    'use --covariance HC1, or --covariance cluster:COLUMN by group; hold it, --aux "sigma=half_normal(1.0)"'
    >>> as_options("Give sd a proper prior, such as prior={'(1 | g)': pr.Covariance(pr.HalfNormal(2.1))}")
    'Give sd a proper prior, such as --prior "(1 | g)=covariance(half_normal(2.1))"'
    """
    said = _PICTURE.sub("", with_options(said))  # pictures are in reports
    said = said.replace(
        "or 'cluster' by group", "or --covariance cluster:COLUMN by group"
    )
    said = _FIT.sub(lambda m: _method(m[2].removeprefix("pr."), m[3]), said)
    return _NAMED.sub(r"--\1", _CLASS.sub(_of_class, said))


def with_options(said: str) -> str:
    """The same for a print with names of models in it, where classes but methods with settings are left as they are.

    >>> with_options("prior Normal(1) on x; fit with Evidence(criterion='ML')")
    'prior Normal(1) on x; fit with --method evidence --set criterion=ML'
    """
    said = _SET.sub(
        lambda m: _method(m[1], m[2]),
        _FIT.sub(lambda m: _method(m[2].removeprefix("pr."), m[3]), said),
    )
    for library, command in _VERBS.items():
        said = said.replace(library, command)
    said = _COVARIANCE.sub(_spell_covariance, _WEIGHTS.sub(r"--weights \1:\2", said))
    said = _AUX.sub(lambda m: f'--{m[1]} "{m[2]}={_CLASS.sub(_bare, m[3])}"', said)
    return _NAMED.sub(r"--\1", _NUMBER.sub(r"--\1 \2", _VALUED.sub(r"--\1 \2", said)))


def as_printed(said: str, rest: str = "with --verbose") -> str:
    """What the library prints, with the place of what it leaves out as the command line has it.

    >>> as_printed("2 more reasons in .reasons; 8 notes in .notes")
    '2 more reasons with --verbose; 8 notes with --verbose'
    >>> as_printed("… 9 more in summary().to_string(); s(x): 9 columns, in summary()", "below")
    '… 9 more below; s(x): 9 columns, below'
    """
    return _ELSEWHERE.sub(rest, with_options(said))


def _spell_covariance(found: re.Match[str]) -> str:
    return f"--covariance {found[1]}" + (":COLUMN" if found[1] == "cluster" else "")


def _bare(found: re.Match[str]) -> str:
    """A class of a prior as it is written within an option."""
    name = _PARTS.get(found[3])
    if name is None:
        return found[0]
    return name + (f"({_CLASS.sub(_bare, found[4])})" if found[4] else "")


def _of_class(found: re.Match[str]) -> str:
    if (
        found[4] is None and found[2] is None
    ):  # a word that begins a sentence, or the name of a person
        return found[0]
    if found[3] in _METHODS:
        return _method(found[3], found[4])
    if found[3] not in _PARTS:
        return found[0]
    if found[1]:
        return f'--{found[1]} "{_bare(found)}"'
    return f'"{_bare(found)}"'


def _method(name: str, settings: str | None) -> str:
    each = [s.strip().replace("'", "") for s in (settings or "").split(",") if "=" in s]
    return " ".join(
        [f"--method {_METHODS.get(name, name)}", *(f"--set {s}" for s in each)]
    )
