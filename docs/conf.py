"""Settings of the documentation: ``sphinx-build -W -b html docs docs/_build``."""

import sys
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))


def _release() -> str:
    """The version of the distribution, or of the source tree when it is not installed."""
    try:
        return metadata.version("pactree-mcmc")
    except metadata.PackageNotFoundError:
        import tomllib

        return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


project = "pactree-mcmc"
release = version = _release()
html_title = f"{project} {release}"
html_theme = "furo"
exclude_patterns = ["_build"]
html_static_path = ["_static"]
html_js_files = ["pages.js"]
html_css_files = ["pages.css"]

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode", "numpydoc"]
myst_heading_anchors = 3
# formulas between dollars, as GitHub shows them too
myst_enable_extensions = ["dollarmath"]
myst_dmath_allow_space = False
myst_dmath_allow_digits = False
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
# a class and its estimator may both have an attribute of one name; each page links to its own
suppress_warnings = ["ref.python"]
# made by scikit-learn, with references into its own pages
autodoc_default_options = {"exclude-members": "set_fit_request, set_score_request, set_predict_request"}
