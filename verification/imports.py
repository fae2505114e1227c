"""Find who imports whom: the layers, and the scan of all sources, imports inside functions included."""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LAYERS = (
    "core",
    "files",
    "table",
    "tree",
    "model",
    "certificates",
    "posterior",
    "mcmc.state",
    "mcmc.edits",
    "mcmc.sums",
)
LAYERS += ("mcmc.whole.density", "mcmc.moves", "mcmc.kernel", "mcmc.chain", "mcmc.run", "mcmc.whole", "mcmc.course")
LAYERS += ("mcmc.simulation", "mcmc.sampling", "loading", "mcmc.resuming", "moves", "smc", "testing")
LAYERS = (*(f"pactree_mcmc.{name}" for name in LAYERS), "exact", "pactree_mcmc.faces")
"""From what knows nothing upwards; no module imports one of a layer above its own, wherever in its file."""
EXACT_LAYERS = ("limits", "graph", "recursion", "sums", "rows", "posterior", "solving")
EXACT_LAYERS += ("compare", "design_counts", "systems", "estimators")
EXACT_LAYERS = tuple(f"exact.{name}" for name in EXACT_LAYERS)
TABLES_OF_CONTENTS = ("pactree_mcmc", "exact")
SAMPLERS = ("pactree_mcmc.mcmc", "pactree_mcmc.smc")
"""Packages that the exact engine does not need."""


def sources(package, root=ROOT):
    """Return the files of a package."""
    return sorted((root / package).rglob("*.py"))


@cache
def imports_of(path, root=ROOT):
    """Return the full names of all imports of a file; ``from a import b`` counts as a and a.b."""
    package, names = path.relative_to(root).parent.parts, set()
    todo = [ast.parse(path.read_text(encoding="utf-8"))]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            todo += node.orelse
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = list(package[: len(package) - node.level + 1]) if node.level else []
            base = ".".join(above + ([node.module] if node.module else []))
            names |= {base} | {f"{base}.{alias.name}" for alias in node.names}
        else:
            todo += ast.iter_child_nodes(node)
    return names


@cache
def modules(root=ROOT):
    """Return the files of both packages by the names of their modules."""
    found = {}
    for path in (path for package in TABLES_OF_CONTENTS for path in sources(package, root)):
        parts = path.relative_to(root).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def arrows(module, root=ROOT):
    """Return the modules of the library that a module imports."""
    found = imports_of(modules(root)[module], root) & modules(root).keys()
    return {name for name in found if not any(other.startswith(name + ".") for other in found)} - {module}


def reached(module, root=ROOT):
    """Return the modules of the library that a module imports, directly or by way of others."""
    found, todo = set(), [module]
    while todo:
        new = arrows(todo.pop(), root=root) - set(TABLES_OF_CONTENTS) - found
        found |= new
        todo += new
    return found


def sampler_modules(module, root=ROOT):
    """Return the modules of the samplers that a module imports, directly or by way of others."""
    return sorted(name for name in reached(module, root) if any(within(name, sampler) for sampler in SAMPLERS))


def circles(root=ROOT):
    """Return the modules that are on circles of imports, or import such modules, with what they import."""
    ahead = {module: arrows(module, root=root) - set(TABLES_OF_CONTENTS) for module in modules(root)}
    for table in TABLES_OF_CONTENTS:
        ahead.pop(table, None)
    while free := [module for module, behind in ahead.items() if not behind & ahead.keys()]:
        for module in free:
            del ahead[module]
    return ahead


def within(name, package):
    """Return True if a module is a package or lies in it."""
    return name == package or name.startswith(package + ".")


def layer_of(module, layers):
    """Return the index of a module's layer from below, or None if it is outside of all."""
    return next((i for i, layer in enumerate(layers) if within(module, layer)), None)
