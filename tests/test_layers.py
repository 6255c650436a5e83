"""Imports point one way. LAYERS is the architecture; a cycle or an upward import fails here."""

import ast
import functools
import graphlib
import pathlib
import re
import subprocess
import sys
import tomllib

import pytest

import probreg

LAYERS = [
    {"errors"},  # what can go wrong
    {"peers"},  # names of other packages
    {"arguments", "system", "formula"},  # what users give; the machine; text
    {"tables"},  # typed columns and their formats
    {"registry", "datasets"},  # how a new piece is found; tables to try things on
    {"special"},  # special functions, imported on use
    {"linalg", "scores"},  # arithmetic that knows no model
    {"compiled"},  # loops over rows in machine code
    {
        "kernels"
    },  # covariance functions, their bases and the ridge path: arrays in, arrays out
    {"online"},  # learners on streams and their theorems
    {
        "data",
        "likelihoods",
        "priors",
    },  # the three parts of a model, strangers to one another
    {"model"},  # their sum
    {"inference"},  # from a model to plain arrays
    {"fits"},  # arrays with names, predictions, files
    {"recipes", "diagnostics"},  # one line for a known model; whether to believe a fit
    {"comparison"},  # between fits and within them
    {"show"},  # pictures, reports, the command line
    {
        "plot",
        "bounds",
        "sklearn",
    },  # by which people import pictures, bounds of scores, and estimators of scikit-learn
]
RANK = {name: i for i, layer in enumerate(LAYERS) for name in layer}
ROOT = pathlib.Path(probreg.__file__).parent
HEAVY = (
    "pymc",
    "pytensor",
    "arviz",
    "arviz_base",
    "arviz_stats",
    "dask",
    "matplotlib",
    "numba",
    "nutpie",
    "pandas",
    "pyarrow",
    "xarray",
    "narwhals",
    "jinja2",
    "sklearn",
    *(
        f"scipy.{part}"
        for part in (
            "integrate",
            "interpolate",
            "ndimage",
            "optimize",
            "sparse",
            "spatial",
            "stats",
        )
    ),
)
NOT_FOR_A_FIT = (  # by maximum likelihood, of arrays
    "scipy.special",
    "probreg.inference.methods",
    "probreg.inference.uncertainty.covariance",
    "probreg.inference.uncertainty.intervals.kinds",
    "probreg.fits.storage",
    "probreg.data.blocks.files",
    "probreg.model.from_parts",
)


@functools.cache
def parsed(path: pathlib.Path) -> ast.Module:
    return ast.parse(path.read_text())


# A file takes a hundred times as long to parse as its imports alone.
IMPORT = re.compile(
    r"^[ \t]*((?:from\s+[\w.]+\s+import\s+(?:\([^)]*\)|[^(\n]+))|(?:import\s+[^\n]+))",
    re.MULTILINE,
)


@functools.cache
def import_nodes(path: pathlib.Path) -> list[ast.Import | ast.ImportFrom]:
    """The import statements of a file, those within functions too."""
    found: list[ast.Import | ast.ImportFrom] = []
    for statement in IMPORT.findall(path.read_text()):
        try:
            (node,) = ast.parse(statement).body
        except SyntaxError:  # a line of a docstring
            continue
        assert isinstance(node, ast.Import | ast.ImportFrom)
        found.append(node)
    return found


def test_imports_are_read_as_python_reads_them():
    for path in (ROOT / "show").rglob("*.py"):
        nodes = [
            node
            for node in ast.walk(parsed(path))
            if isinstance(node, ast.Import | ast.ImportFrom)
        ]
        assert sorted(map(ast.unparse, import_nodes(path))) == sorted(
            map(ast.unparse, nodes)
        )


def imports(path: pathlib.Path) -> list[tuple[str, str]]:
    """Packages of probreg that a file imports, with the line that does."""
    found = []
    for node in import_nodes(path):
        if isinstance(node, ast.ImportFrom) and (node.module or "") == "probreg":
            found += [(a.name, f"from probreg import {a.name}") for a in node.names]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(
            "probreg."
        ):
            found.append((str(node.module).split(".")[1], f"from {node.module}"))
        elif isinstance(node, ast.Import):
            found += [
                (a.name.split(".")[1], f"import {a.name}")
                for a in node.names
                if a.name.startswith("probreg.")
            ]
    return found


def test_imports_go_down():
    wrong = []
    for path in ROOT.rglob("*.py"):
        package = path.relative_to(ROOT).parts[0].removesuffix(".py")
        if package in ("__init__", "__main__"):
            continue
        for other, line in imports(path):
            if (
                other != package
                and other != "__version__"
                and RANK[other] >= RANK[package]
            ):
                wrong.append(f"{path.relative_to(ROOT)}: {line}")
    assert not wrong


def test_no_files_import_in_a_circle():
    """Imports within functions count too. The top package, which names everything, is left out."""
    files = {
        ".".join(("probreg", *p.relative_to(ROOT).with_suffix("").parts)).removesuffix(
            ".__init__"
        ): p
        for p in ROOT.rglob("*.py")
    }
    needs: dict[str, set[str]] = {}
    for name, path in files.items():
        nodes = [
            n for n in import_nodes(path) if isinstance(n, ast.ImportFrom) and n.module
        ]
        needs[name] = {
            f"{n.module}.{a.name}" if f"{n.module}.{a.name}" in files else str(n.module)
            for n in nodes
            for a in n.names
        }
    needs.pop("probreg")
    order = list(
        graphlib.TopologicalSorter(
            {k: v & set(needs) for k, v in needs.items()}
        ).static_order()
    )
    assert len(order) == len(files) - 1


# packages by the name that is imported, where it is not that of the distribution; those of optional extras by folder
DISTRIBUTION = {
    "sklearn": "scikit-learn",
    "arviz_stats": "arviz-stats",
    "lazy_loader": "lazy-loader",
    "arviz_plots": "arviz-plots",
    "docx": "python-docx",
}
IN_A_NOTEBOOK = {"IPython"}  # imported in a notebook only, where it runs already


def test_every_package_that_is_imported_is_declared():
    project = tomllib.loads((ROOT.parent / "pyproject.toml").read_text())["project"]

    def names(requirements: list[str]) -> set[str]:
        return {re.split(r"[\[<>=!~; ]", text)[0] for text in requirements}

    declared = names(project["dependencies"])
    extras = {
        "sklearn": names(project["optional-dependencies"]["sklearn"]),
        "dask": names(project["optional-dependencies"]["dask"]),
        "word": names(project["optional-dependencies"]["word"]),
    }
    wrong = []
    for path in ROOT.rglob("*.py"):
        package = path.relative_to(ROOT).parts[0]
        allowed = (
            declared
            | (extras["sklearn"] if package == "sklearn" else set())
            | (extras["dask"] if path.parent.name == "blocks" else set())
            | (extras["word"] if package == "tables" else set())
        )
        for node in import_nodes(path):
            modules = (
                [a.name for a in node.names] if isinstance(node, ast.Import) else []
            )
            modules += (
                [str(node.module)]
                if isinstance(node, ast.ImportFrom) and not node.level
                else []
            )
            for name in (
                {m.split(".")[0] for m in modules}
                - sys.stdlib_module_names
                - {"probreg"}
                - IN_A_NOTEBOOK
            ):
                if DISTRIBUTION.get(name, name) not in allowed:
                    wrong.append(f"{path.relative_to(ROOT)}: {name}")
    assert not wrong


def test_every_package_has_its_layer():
    packages = {
        p.name.removesuffix(".py")
        for p in ROOT.iterdir()
        if p.suffix == ".py" or (p / "__init__.py").exists()
    }
    assert packages - {"__init__", "__main__"} <= set(RANK)


@pytest.mark.slow
def test_imports_lists_of_data_sets_fits_of_arrays_and_labels_load_only_what_they_need():
    """In one process, one after another: the import, two fits, the reader of formulas, the data sets, labels, and the
    command line."""
    loaded = f"print([m for m in {HEAVY!r} if m in sys.modules])\n"
    code = (
        f"import sys, numpy as np, probreg as pr\n{loaded}"
        "X = np.arange(12.0).reshape(6, 2) ** 2\n"
        "line = pr.Model.from_arrays(X, [1.0, 2.0, 2.0, 5.0, 6.0, 9.0])\n"
        "fits = pr.fit(line), pr.fit(pr.Model.from_arrays(X[:, :1], [0, 1, 0, 1, 0, 1], likelihood='bernoulli'))\n"
        f"{loaded}"
        f"print([m for m in {NOT_FOR_A_FIT!r} if m in sys.modules])\n"
        f"import probreg.data.formula.formula\n{loaded}"
        f"import probreg.datasets\nprobreg.datasets.list_datasets()\n{loaded}"
        f"[(found.coef, found.std_error) for found in fits]\n{loaded}"
        "import contextlib, io\nfrom probreg.show.cli import main\n"
        "with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):\n    main(['datasets'])\n"
        f"{loaded}"
    )
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    tables = "['pandas', 'pyarrow', 'xarray']"
    assert out.stdout.splitlines() == ["[]"] * 5 + [tables] * 2


def test_the_import_loads_nothing_and_the_public_names_load_nothing_heavy():
    code = (
        "import sys, probreg\n"
        "print([m for m in sys.modules if m.partition('.')[0] in ('numpy', 'scipy') or m.startswith('probreg.')])\n"
        "for name in probreg.__all__: getattr(probreg, name)\n"
        f"print([m for m in {HEAVY!r} if m in sys.modules])\n"
    )
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert out.stdout.splitlines() == ["[]", "[]"]


def test_what_shows_asks_likelihoods_and_priors_by_what_they_can_do():
    """No picture and no report names a family or a prior of the registries in an isinstance."""
    from probreg.likelihoods import LIKELIHOODS
    from probreg.priors import PRIORS

    named = {cls.__name__ for cls in (*LIKELIHOODS.values(), *PRIORS.values())} - {
        "Flat"
    }
    found = []
    for path in (ROOT / "show").rglob("*.py"):
        for node in ast.walk(parsed(path)):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id == "isinstance"
            ):
                met = {
                    n.id for n in ast.walk(node.args[1]) if isinstance(n, ast.Name)
                } & named
                found += [f"{path.relative_to(ROOT)}: {name}" for name in met]
    assert not found
