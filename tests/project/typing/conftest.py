"""The programs here are for mypy (CONTRIBUTING.md, "Types"): pytest collects none of them."""

collect_ignore_glob = ["*.py"]
