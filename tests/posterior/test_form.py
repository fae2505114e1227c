"""An answer is one function, written once: its name, its bases, who imports whom."""

import ast
import inspect

import pytest

import exact
import pactree_mcmc as pt
from exact.solving import VisitedPosterior
from exact.systems.progressive.mixture import ProgressiveMixture
from pactree_mcmc.smc import ProgressiveSample
from verification import imports, size

POSTERIORS = [pt.SampledPosterior, ProgressiveSample, exact.ExactPosterior, VisitedPosterior, ProgressiveMixture]
FORMER_NAMES = {"survival_calibration": "calibration"}
"""Second names of members, and their functions."""


@pytest.mark.parametrize("kind", POSTERIORS, ids=lambda kind: kind.__name__)
def test_a_member_has_the_name_of_its_function(kind):
    """Or ``pickle.dumps(post.predict)`` fails."""
    for name, member in inspect.getmembers(kind, inspect.isfunction):
        if not name.startswith("_"):
            assert member.__name__ == FORMER_NAMES.get(name, name)
            assert inspect.getdoc(getattr(kind, name))


@pytest.mark.parametrize("kind", POSTERIORS, ids=lambda kind: kind.__name__)
def test_a_posterior_has_at_most_three_bases(kind):
    assert len([base for base in kind.__mro__[1:] if base.__module__.startswith(size.PACKAGES)]) <= 3


def test_no_class_gets_a_member_from_outside():
    """No ``Posterior.report = report`` behind the class."""
    for path in imports.modules().values():
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            targets = node.targets if isinstance(node, ast.Assign) else []
            changed = [x for target in targets for x in ast.walk(target) if isinstance(x, ast.Attribute)]
            owners = {x.value.id for x in changed if isinstance(x.value, ast.Name)}
            assert not [name for name in owners if name[0].isupper()], f"{path}: line {node.lineno}"


def imports_with_types(path):
    """Return the modules of the library that a file imports anywhere, for types too."""
    package, found = path.relative_to(imports.ROOT).parent.parts, set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = list(package[: len(package) - node.level + 1]) if node.level else []
            base = ".".join(above + ([node.module] if node.module else []))
            found |= {base} | {f"{base}.{alias.name}" for alias in node.names}
    found &= imports.modules().keys()
    return {name for name in found if not any(other.startswith(name + ".") for other in found)}


@pytest.mark.parametrize("room", ["pactree_mcmc.posterior", "exact"])
def test_no_circle_of_imports_for_types_included(room):
    own = {name: path for name, path in imports.modules().items() if imports.within(name, room) and name != room}
    ahead = {name: (imports_with_types(path) & own.keys()) - {name} for name, path in own.items()}
    while free := [name for name, behind in ahead.items() if not behind & ahead.keys()]:
        for name in free:
            del ahead[name]
    assert ahead == {}
