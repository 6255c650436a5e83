"""Counts of the code's structure: `python benchmarks/structure.py`, one line a count.

"opened" is the number of files of the package in which a function runs between `fit` and the estimate, doctests and tests
left out: what a reader must open to follow that fit.
"""

import ast
import collections
import io
import pathlib
import sys
import threading
import tokenize

import numpy as np

import probreg as pr

ROOT = pathlib.Path(pr.__file__).parent
FAMILIES = {
    "Bernoulli",
    "Binomial",
    "Categorical",
    "Multinomial",
    "Gaussian",
    "Poisson",
    "StudentT",
    "NegativeBinomial",
}


def trees():
    return {path: ast.parse(path.read_text()) for path in sorted(ROOT.rglob("*.py"))}


def comment_share():
    comments = lines = 0
    for path in ROOT.rglob("*.py"):
        text = path.read_text()
        lines += sum(1 for line in text.splitlines() if line.strip())
        comments += sum(
            1
            for token in tokenize.generate_tokens(io.StringIO(text).readline)
            if token.type == tokenize.COMMENT and token.line.strip().startswith("#")
        )
    return comments / lines


def functions(parsed):
    return [
        n
        for tree in parsed.values()
        for n in ast.walk(tree)
        if isinstance(n, ast.FunctionDef)
    ]


def used_once(parsed, every):
    used = collections.Counter()
    for tree in parsed.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.Name):
                used[node.id] += 1
            elif isinstance(node, ast.Attribute):
                used[node.attr] += 1
    own = [f for f in every if not f.name.startswith("__") and not f.decorator_list]
    return sum(used[f.name] == 1 for f in own)


def isinstance_on_families(parsed):
    count = 0
    for path, tree in parsed.items():
        if "likelihoods" in path.parts:
            continue
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id in ("isinstance", "issubclass")
            ):
                count += bool(
                    {n.id for n in ast.walk(node.args[1]) if isinstance(n, ast.Name)}
                    & FAMILIES
                )
    return count


def literals(parsed, word):
    return sum(
        isinstance(node, ast.Constant) and node.value == word
        for tree in parsed.values()
        for node in ast.walk(tree)
    )


def class_names_twice(parsed):
    names = collections.Counter(
        n.name
        for t in parsed.values()
        for n in ast.walk(t)
        if isinstance(n, ast.ClassDef)
    )
    return sorted(name for name, times in names.items() if times > 1)


def opened(run):
    """Files of the package in which a function runs (class bodies and modules at import are not counted)."""
    seen = set()

    def look(frame, event, arg):
        name = frame.f_code.co_filename
        if name.startswith(str(ROOT)) and frame.f_code.co_name not in ("<module>",):
            seen.add(name)

    run()
    threading.setprofile(look)
    sys.setprofile(look)
    try:
        run()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return len(seen)


def main():
    parsed = trees()
    every = functions(parsed)
    entries = [
        p for p in ROOT.iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()
    ]
    print(f"entries at the top      {len(entries)}")
    print(f"files                   {len(parsed)}")
    print(
        f"lines                   {sum(len(p.read_text().splitlines()) for p in parsed)}"
    )
    print(f"functions               {len(every)}")
    print(f"functions used once     {used_once(parsed, every)}")
    print(f"comment share           {comment_share():.2%}")
    print(f'literals "sigma"        {literals(parsed, "sigma")}')
    print(f"isinstance on families  {isinstance_on_families(parsed)}")
    print(
        f"class names twice       {len(class_names_twice(parsed))}: {', '.join(class_names_twice(parsed))}"
    )
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y, z = (
        X @ [1.0, -1.0] + rng.normal(size=60),
        (X[:, 0] + rng.logistic(size=60) > 0).astype(int),
    )
    gaussian, logit = (
        pr.Model.from_arrays(X, y),
        pr.Model.from_arrays(X, z, likelihood="bernoulli"),
    )
    lasso = pr.Model.from_arrays(X, y, prior=pr.Laplace(1.0), aux={"sigma": 1.0})
    bayes = logit.with_prior(pr.Normal(1.0))
    runs = {
        "Gaussian by ML": lambda: pr.fit(gaussian).coef,
        "logistic": lambda: pr.fit(logit).coef,
        "lasso": lambda: pr.fit(lasso).coef,
        "NUTS": lambda: pr.fit(bayes, "nuts", seed=1).coef,
    }
    for name, run in runs.items():
        print(f"opened: {name:15s} {opened(run)}")


if __name__ == "__main__":
    main()
