"""Docstrings whose shared texts a decorator fills in describe every parameter."""

import inspect
import re

import pytest

import exact
import pactree_mcmc as pt
from pactree_mcmc import certificates

CLASSIFIERS = [name for name in exact.__all__ if name.endswith("Classifier")]
PUBLIC = [getattr(certificates, name) for name in certificates.__all__]
PUBLIC += [exact.dyadic_fragment_bound, *(getattr(exact, name) for name in CLASSIFIERS)]
PUBLIC += [method for name, method in inspect.getmembers(pt.Posterior, inspect.isfunction) if not name.startswith("_")]


@pytest.mark.parametrize("public", PUBLIC, ids=lambda public: public.__name__)
def test_every_parameter_is_described(public):
    doc = inspect.getdoc(public)
    assert not re.search(r"(?m)^ *\{\w+\}$", doc), "a text is not filled in"
    for name in {*inspect.signature(public).parameters} - {"self", "options"} if "Parameters\n---" in doc else ():
        assert re.search(rf"(?m)^(\w+, )*{name}(, \w+)* :", doc), f"{name} is not described"
