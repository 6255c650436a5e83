"""The site: `python -m sphinx -W -b html docs docs/_build/html`; with `-t quick` the long examples are shown, not run."""

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_extensions"))
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import matplotlib  # noqa: E402

# Not by MPLBACKEND: the kernels that run the pages inherit it, and then show no figures of pyplot.
matplotlib.use("Agg")

import gallery  # noqa: E402
import reference  # noqa: E402

import probreg  # noqa: E402

sys.modules["probreg.weights"] = probreg.weights  # a name of the top that is no file

project = "probreg"
author = "the probreg authors"
copyright = author
version = release = probreg.__version__
html_title = "probreg"

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_nb",
    "sphinx_design",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "mathml",
    "home",
]
exclude_patterns = [
    "_build",
    "_extensions",
    "**.ipynb_checkpoints",
    "gallery/**.json",
    "gallery/**.py",
]
templates_path = ["_templates"]
nitpicky = False
default_role = "py:obj"
smartquotes = False
toc_object_entries_show_parents = "hide"

# ---- pages ----------------------------------------------------------------------------------------------------------
myst_enable_extensions = [
    "amsmath",
    "attrs_inline",
    "colon_fence",
    "deflist",
    "dollarmath",
    "substitution",
]
myst_heading_anchors = 4
myst_update_mathjax = False
nb_execution_mode = "off" if tags.has("quick") else "cache"  # noqa: F821  once, and again when its cells change
suppress_warnings = ["myst-nb.lexer"] if tags.has("quick") else []  # noqa: F821  cells that have not run say no language
nb_execution_cache_path = str(HERE / "_build" / "notebooks")
nb_execution_show_tb = True
nb_execution_timeout = 180
nb_ipywidgets_js = {}
html_math_renderer = "mathml"

# ---- reference ------------------------------------------------------------------------------------------------------
autosummary_generate = reference.write(HERE)
autosummary_filename_map = reference.file_names()
autosummary_context = {"results": sorted(reference.RESULTS)}
autosummary_imported_members = False
autodoc_typehints = "none"  # the types that a user meets stand under Parameters
autodoc_preserve_defaults = True
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

# ---- gallery --------------------------------------------------------------------------------------------------------
sphinx_gallery_conf = gallery.settings(HERE)

# ---- looks ----------------------------------------------------------------------------------------------------------
html_theme = "pydata_sphinx_theme"
html_static_path = ["_static"]
html_extra_path = ["llms.txt"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_use_index = False  # the search finds every name
html_domain_indices = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "probreg"},
    "navbar_end": ["theme-switcher"],
    "navbar_persistent": ["search-button"],
    "header_links_before_dropdown": 7,
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {
    page: [] for page in ("index", "install", "glossary", "notation", "benchmarks")
}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True


def setup(app):
    app.connect("autodoc-process-docstring", reference.plain, priority=100)
