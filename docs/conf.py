"""Settings of the documentation: ``sphinx-build -W -b html docs docs/_build``."""

import importlib
import inspect
import sys
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))


def _release():
    """Return the version of the distribution, or of the source tree if it is not installed."""
    try:
        return metadata.version("pactree-mcmc")
    except metadata.PackageNotFoundError:
        import pactree_mcmc

        return pactree_mcmc.__version__


def documented_members(name):
    """Return the public methods and properties of a class of ours, in the order of the alphabet."""
    package, _, name = name.rpartition(".")
    cls = getattr(importlib.import_module(package), name)
    return [member for member in dir(cls) if member[0] != "_" and _is_ours(inspect.getattr_static(cls, member))]


def _is_ours(member):
    """Return True for a method or property that our packages define."""
    function = getattr(member, "fget", None) or getattr(member, "func", None) or getattr(member, "__func__", member)
    return inspect.isfunction(function) and function.__module__.partition(".")[0] in {"pactree_mcmc", "exact"}


project = "pactree-mcmc"
release = version = _release()
html_title = f"{project} {release}"
html_theme = "furo"
html_theme_options = {
    "source_repository": "https://github.com/pactree-mcmc/pactree-mcmc/",
    "source_branch": "main",
    "source_directory": "docs/",
}
exclude_patterns = ["_build"]
templates_path = ["_templates"]
html_static_path = ["_static"]
html_js_files = ["pages.js"]
html_css_files = ["pages.css"]

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.viewcode", "numpydoc"]
myst_heading_anchors = 3
# formulas between dollars, as GitHub shows them too
myst_enable_extensions = ["dollarmath"]
myst_dmath_allow_space = False
myst_dmath_allow_digits = False
autodoc_typehints = "none"
autodoc_member_order = "bysource"
# the pages of docs/generated, one for each class, function and module that docs/api.md lists
autosummary_generate = True
# file systems that ignore case have one file for both names
autosummary_filename_map = {"pactree_mcmc.contexts": "pactree_mcmc.contexts_of_symbols"}
autosummary_context = {"documented_members": documented_members}
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
# a class and its estimator may both have an attribute of one name; each page links to its own
suppress_warnings = ["ref.python"]
