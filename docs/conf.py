"""Settings of the documentation: ``sphinx-build -W -b html docs docs/_build``."""

import inspect
import re
import shutil
import sys
from importlib import import_module
from pathlib import Path

import matplotlib
from docutils import nodes
from math_core import LatexError, LatexToMathML
from mdit_py_plugins.anchors.index import slugify
from sphinx.errors import ExtensionError

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import pactree_mcmc  # noqa: E402
from tests.project.pages import run_as_printed  # noqa: E402

matplotlib.use("Agg")

MEMBERS = {
    "TreeModel": ["classes_", "log_posterior", "log_prior", "log_score"],
    "GridCuts": ["from_table"],
    "FixedTree": ["from_sklearn", "split_probabilities"],
    "CustomSplits": ["check"],
    "CustomLeaf": ["check"],
    "Cut": list(pactree_mcmc.Cut._fields),
}
"""Members of the parts of a model that users call; all others are for the engines."""


def documented_members(cls):
    """Return the names of the fields, methods and properties that the page of a class describes."""
    if cls.__module__.startswith(("pactree_mcmc.model.", "pactree_mcmc.mcmc.moves.")):
        return MEMBERS.get(cls.__name__, [])
    functions = [name for name in dir(cls) if name[0] != "_" and _is_ours(inspect.getattr_static(cls, name))]
    return [*getattr(cls, "_fields", ()), *functions]


def _is_ours(member):
    """Return True for a function, method or property that our packages define."""
    function = getattr(member, "fget", None) or getattr(member, "func", None) or getattr(member, "__func__", member)
    return inspect.isfunction(function) and function.__module__.partition(".")[0] in {"pactree_mcmc", "exact"}


def listed_classes():
    """Yield the full name and the value of each class that docs/api.md lists."""
    package = ""
    for line in (ROOT / "docs" / "api.md").read_text(encoding="utf-8").splitlines():
        if module := re.fullmatch(r"\.\. currentmodule:: (\w+)", line):
            package = module[1]
        elif name := re.fullmatch(r" {3}~?([\w.]+)", line):
            # by module, since `exact.compare` is a function too
            module, _, last = f"{package}.{name[1]}".rpartition(".")
            value = getattr(import_module(module), last, None)
            if inspect.isclass(value):
                yield f"{module}.{last}", value


project = "pactree-mcmc"
copyright = "the pactree-mcmc developers"
release = version = pactree_mcmc.__version__
html_title = f"{project} {release}"
# formulas become MathML when the site is built, so that readers need no network and no script
html_math_renderer = "mathml"
MATHML = LatexToMathML()
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
toc_object_entries_show_parents = "hide"

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
autosummary_context = {"described": {name: documented_members(cls) for name, cls in listed_classes()}}
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
# a class and its estimator may both have an attribute of one name; each page links to its own
suppress_warnings = ["ref.python"]


EXECUTED = ("tutorial", "case_")
"""Beginnings of the names of pages whose blocks run when the site is built. Tests run the blocks of all others."""


def setup(app):
    """Register what Sphinx calls before it reads a page, before it writes one, and at the end."""
    app.add_html_math_renderer("mathml", (_write_formula, None), (_write_displayed_formula, None))
    app.connect("source-read", _execute)
    app.connect("source-read", _index_words)
    app.connect("autodoc-process-docstring", _link_pages)
    app.connect("doctree-read", _link_files)
    app.connect("html-page-context", _remove_edit_link)
    app.connect("build-finished", _replace_pictures)


def _write_formula(translator, node):
    """Write a formula inside a sentence as MathML."""
    translator.body.append(_mathml(node, displaystyle=False))
    raise nodes.SkipNode


def _write_displayed_formula(translator, node):
    """Write a formula that stands on lines of its own as MathML."""
    translator.body.append(f'<div class="math">{_mathml(node, displaystyle=True)}</div>\n')
    raise nodes.SkipNode


def _mathml(node, displaystyle):
    try:
        return MATHML.convert_with_local_state(node.astext(), displaystyle=displaystyle)
    except LatexError as error:
        raise ExtensionError(f"{node.source}: {node.astext()}: {error}", error) from error


def _execute(app, name, source):
    """Run the blocks of a page, compare what they print with what the page shows, and keep their pictures."""
    if name.startswith(EXECUTED):
        folder = Path(app.doctreedir, "pictures", name)
        folder.mkdir(parents=True, exist_ok=True)
        try:
            run_as_printed(source[0], name, folder)
        except Exception as error:
            raise ExtensionError(f"a block of docs/{name}.md fails: {error}", error) from error


def index_words():
    """Return {(page, anchor): words} of the table of docs/words.md; a row without a link stands for its own page."""
    words = {}
    for row in re.findall(r"(?m)^\| (?!word \||---)(.+?) \| (.+) \|$", (ROOT / "docs" / "words.md").read_text("utf-8")):
        link = re.search(r"\((\w+)\.md(?:#([\w-]+))?\)", row[1])
        words.setdefault((link[1], link[2] or "") if link else ("words", ""), []).extend(row[0].split(", "))
    return words


def _index_words(app, name, source):
    """Enter the words of docs/words.md into the index, in which the search of the site looks first."""
    lines = source[0].splitlines()
    for (page, anchor), words in index_words().items():
        if page == name:
            titles = (i for i, line in enumerate(lines) if anchor and slugify(line.lstrip("# ")) == anchor)
            at = next((i for i in titles if lines[i].startswith("#")), 1)
            lines[at:at] = ["", f"```{{index}} {', '.join(words)}", "```", ""]
    source[0] = "\n".join(lines) + "\n"


def _link_pages(app, what, name, obj, options, lines):
    """Replace the file names of pages in a docstring by links to the pages."""
    lines[:] = [re.sub(r"`*\bdocs/(\w+)\.md\b`*", r":doc:`/\1`", line) for line in lines]


def _link_files(app, doctree):
    """Link code that names one file or folder of the repository to it."""
    for code in list(doctree.findall(nodes.literal)):
        words = [word.partition("::")[0].strip("/") for word in code.astext().split() if "/" in word[1:]]
        paths = [word for word in words if ".." not in word and (ROOT / word).exists()]
        if len(paths) == 1 and not isinstance(code.parent, nodes.reference):
            kind = "tree" if (ROOT / paths[0]).is_dir() else "blob"
            target = f"{html_theme_options['source_repository']}{kind}/main/{paths[0]}"
            if page := re.fullmatch(r"docs/(\w+)\.md", paths[0]):
                target = app.builder.get_relative_uri(app.env.docname, page[1])
            code.replace_self(nodes.reference("", "", code.deepcopy(), refuri=target, internal=False))


def _replace_pictures(app, exception):
    """Replace the pictures of executed pages, which come from the repository, by those that the build drew."""
    if exception is not None or app.builder.format != "html":
        return
    for source, copy in app.builder.images.items():
        page, _, picture = source.partition("/")
        drawn = Path(app.doctreedir, "pictures", page, picture)
        if drawn.is_file():
            shutil.copy(drawn, Path(app.outdir, app.builder.imagedir, copy))


def _remove_edit_link(app, name, template, context, doctree):
    """Remove the links to the source of a generated page, which is in no repository."""
    if name.startswith("generated/"):
        context["theme_top_of_page_buttons"] = []
