"""Tests, in the folders that mirror what they test; CONTRIBUTING.md says what lies where and what runs when."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
"""The folder of the project."""
