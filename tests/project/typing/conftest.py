"""The programs here are for mypy (docs/develop/index.md, "Types"): pytest collects none of them."""

collect_ignore_glob = ["*.py"]
