"""Tests, in the folders that mirror what they test; docs/develop/index.md describes them."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
"""The folder of the project."""
