# What a contributor types. `make check` is what to run before a commit; `.ci/run` does it in a fresh environment.
bin = .venv/bin

.PHONY: setup lint test docs check

setup:
	python3 -m venv .venv
	$(bin)/pip install -e '.[test,docs]'

lint:
	$(bin)/ruff check .
	$(bin)/ruff format --check .
	$(bin)/mypy --strict tests/project/typing
	$(bin)/mypy

test:
	$(bin)/python -m pytest

docs:
	$(bin)/sphinx-build -W -q -b html docs docs/_build

check: lint test docs
