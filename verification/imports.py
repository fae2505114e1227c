"""Find who imports whom: the layers, the scan of all sources, imports inside functions included, and a drawing of them.

Run: python verification/imports.py, which writes docs/_static/imports.svg, the picture of docs/develop/index.md.
"""

import ast
import math
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "_static" / "imports.svg"
LAYERS = tuple(
    f"pactree_mcmc.{name}"
    for name in (
        *("core", "files", "table", "tree", "model", "certificates", "posterior"),
        *(
            "mcmc.state",
            "mcmc.edits",
            "mcmc.sums",
            "mcmc.whole.density",
            "mcmc.moves",
            "mcmc.kernel",
            "mcmc.chain",
            "mcmc.run",
            "mcmc.whole",
            "mcmc.schedule",
        ),
        *("mcmc.simulation", "mcmc.sampling", "loading", "mcmc.resuming", "moves", "smc", "testing"),
    )
)
"""Layers from the lowest upwards; no module imports one of a layer above its own, wherever in its file."""
LAYERS += ("exact", "pactree_mcmc.faces")
"""From what knows nothing upwards; no module imports one of a layer above its own, wherever in its file."""
EXACT_LAYERS = tuple(
    f"exact.{name}"
    for name in (
        *("limits", "graph", "recursion", "answers", "exploring"),
        *("predicting", "posterior", "solving"),
        *("compare", "design_counts", "systems", "estimators"),
    )
)
TABLES_OF_CONTENTS = ("pactree_mcmc", "exact")
SAMPLERS = ("pactree_mcmc.mcmc", "pactree_mcmc.smc")
"""Packages that the exact engine does not need."""
WIDTH, ROW, BOX, LEFT, TOP = 440, 30, 150, 50, 40
INK, ALARM = "#2c5f8a", "#b3352c"


def sources(package, root=ROOT):
    """Return the files of a package."""
    return sorted((root / package).rglob("*.py"))


def imported_modules(source, package, at_once=False):
    """Return the full names of all imports in ``source``; ``from a import b`` counts as a and a.b.

    ``package`` is the package of the source. Imports for type checkers alone do not count, and if ``at_once`` neither
    do those inside functions.
    """
    return set(_imported_modules(source, package)[at_once])


@cache
def _imported_modules(source, package):
    """Return the names of all imports of ``source``, and of those outside of functions."""
    names, first, todo = set(), set(), [(ast.parse(source), True)]
    while todo:
        node, is_outside = todo.pop()
        found = set()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            todo += [(below, is_outside) for below in node.orelse]
        elif isinstance(node, ast.Import):
            found = {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")
            above = parents[: len(parents) - node.level + 1] if node.level else []
            base = ".".join(above + ([node.module] if node.module else []))
            found = {base} | {f"{base}.{alias.name}" for alias in node.names}
        elif not isinstance(node, ast.expr):
            is_outside = is_outside and not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            todo += [(below, is_outside) for below in ast.iter_child_nodes(node)]
        names |= found
        first |= found if is_outside else set()
    return names, first


@cache
def imports_of(path, at_once=False, root=ROOT):
    """Return `imported_modules` of a file."""
    package = ".".join(path.relative_to(root).parent.parts)
    return imported_modules(path.read_text(encoding="utf-8"), package, at_once)


@cache
def modules(root=ROOT):
    """Return the files of both packages by the names of their modules."""
    found = {}
    for path in (path for package in TABLES_OF_CONTENTS for path in sources(package, root)):
        parts = path.relative_to(root).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def arrows(module, at_once=False, root=ROOT):
    """Return the modules of the library that a module imports."""
    found = imports_of(modules(root)[module], at_once, root) & modules(root).keys()
    return {name for name in found if not any(other.startswith(name + ".") for other in found)} - {module}


def reached(module, root=ROOT):
    """Return the modules of the library that a module imports, directly or by way of others.

    The tables of contents import everything. Therefore what they import does not count.
    """
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
    """Return the modules that are on circles of imports, or import such modules, with what they import.

    The tables of contents import everything and do not count.
    """
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


class Bundle(NamedTuple):
    """The imports from one layer, ``above``, of another, ``below``; both are indices."""

    above: int
    below: int
    n: int
    lazy: bool
    """True if all of them are imports inside functions."""


def bundles(layers, root=ROOT):
    """Return the imports between different layers, bundled."""
    count, at_once = {}, set()
    for module in modules(root):
        own = layer_of(module, layers)
        for name in arrows(module, root=root) if own is not None else ():
            other = layer_of(name, layers)
            if other not in (None, own):
                count[own, other] = count.get((own, other), 0) + 1
                at_once |= {(own, other)} if name in arrows(module, True, root) else set()
    return [Bundle(*ends, n, ends not in at_once) for ends, n in sorted(count.items())]


def panel(title, layers, left, height, root=ROOT):
    """Return SVG lines that draw the layers of one package, lowest at the bottom; upward imports are on the left."""
    out = [f'<text class="title" x="{left + LEFT}" y="22">{title}</text>']
    middle = [height - ROW * (i + 1) for i in range(len(layers))]
    for each in bundles(layers, root):
        down, start, end = each.above > each.below, middle[each.above], middle[each.below]
        x = left + LEFT + (BOX if down else 0)
        bend = x + (1 if down else -1) * (10 + 12.5 * abs(each.above - each.below))
        style = f'stroke="{INK if down else ALARM}" stroke-width="{0.4 + 0.25 * math.log2(each.n):.2f}"'
        dashes = ' stroke-dasharray="4 3"' if each.lazy else ""
        words = f"{layers[each.above]} imports {layers[each.below]}, {each.n} times{', lazily' if each.lazy else ''}"
        path = f'<path d="M{x} {start}C{bend:.0f} {start} {bend:.0f} {end} {x} {end}" {style}{dashes}>'
        out.append(f"{path}<title>{words}</title></path>")
    for layer, y in zip(layers, middle, strict=True):
        name = layer if layer in TABLES_OF_CONTENTS else layer.partition(".")[2]
        out.append(f'<rect x="{left + LEFT}" y="{y - 10}" width="{BOX}" height="20" rx="3"/>')
        out.append(f'<text x="{left + LEFT + BOX / 2:.0f}" y="{y + 4}" text-anchor="middle">{name}</text>')
    return out


def picture(root=ROOT):
    """Return the drawing as SVG."""
    height = TOP + ROW * len(LAYERS)
    size = f'width="{2 * WIDTH}" height="{height}" viewBox="0 0 {2 * WIDTH} {height}"'
    style = "text{font:12px sans-serif;fill:#222}.title{font-weight:bold}"
    style += "rect{fill:#fff;stroke:#888}path{fill:none;stroke-opacity:.6}"
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" {size}>', f"<style>{style}</style>"]
    lines.append(f'<rect width="{2 * WIDTH}" height="{height}" style="stroke:none"/>')
    lines += panel("pactree_mcmc", LAYERS, 0, height, root) + panel("exact", EXACT_LAYERS, WIDTH, height, root)
    return "\n".join([*lines, "</svg>", ""])


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
    print(f"{PICTURE.relative_to(ROOT)}: {sum(len(arrows(module)) for module in modules())} arrows")
