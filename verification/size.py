"""Measure the size of the project: the table "Size" by which it is kept small, and the ledger of its folders.

python verification/size.py             print the table
python verification/size.py --ledger    write tests/project/budget.toml, which a test compares
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LEDGER = ROOT / "tests" / "project" / "budget.toml"
PACKAGES = ("pactree_mcmc", "exact")
PUBLIC_MODULES = ("plots", "testing", "certificates", "moves")
NOT_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def files(*folders: str, ending: str = "py") -> list[Path]:
    """Return the files with this ending below the folders."""
    return sorted(path for folder in folders for path in (ROOT / folder).rglob(f"*.{ending}"))


def n_lines(paths: list[Path]) -> int:
    """Return the number of lines of the files."""
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)


def n_lines_of_code(path: Path) -> int:
    """Return the number of lines that are no docstring, comment or blank line."""
    text = path.read_text(encoding="utf-8")
    lines = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NOT_CODE:
            lines |= set(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        # a text that is a statement: a docstring, or the description of a constant or field
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    all_lines = text.splitlines()
    return len([line for line in lines if all_lines[line - 1].strip()])


def public_names() -> int:
    """Return the number of names that users import."""
    import exact
    import pactree_mcmc as pt

    return sum(len(module.__all__) for module in (pt, exact, *(getattr(pt, name) for name in PUBLIC_MODULES)))


def members() -> dict[str, int]:
    """Return the number of public members of each posterior, and of the bases above the sampled one."""
    import exact
    from pactree_mcmc.posterior.sampled import SampledPosterior

    def count(kind: type) -> int:
        return len([name for name in dir(kind) if not name.startswith("_")])

    n_bases = len([base for base in SampledPosterior.__mro__[1:] if base.__module__.startswith(PACKAGES)])
    return {"sampled": count(SampledPosterior), "exact": count(exact.ExactPosterior), "bases of sampled": n_bases}


def ledger() -> str:
    """Return the text of the ledger: the lines of each folder of the library, and the numbers of names and members."""
    lines = ["# What each folder costs, in lines: whoever adds moves a number in the same commit.", "[lines]"]
    folders = sorted({path.parent.relative_to(ROOT).as_posix() for path in files(*PACKAGES)})
    for folder in folders:
        lines.append(f'"{folder}" = {n_lines(sorted((ROOT / folder).glob("*.py")))}')
    lines += ["", "[public]", f"names = {public_names()}"]
    lines += [f'"members, {kind}" = {n}' for kind, n in members().items()]
    return "\n".join(lines) + "\n"


def main() -> None:
    if "--ledger" in sys.argv:
        LEDGER.write_text(ledger(), encoding="utf-8")
        return
    library, pages = files(*PACKAGES), files("docs", ending="md")
    n = members()
    rows = {
        "library, lines": f"{n_lines(library):,}",
        "of it code, without docstrings, comments, blank lines": f"{sum(map(n_lines_of_code, library)):,}",
        "files": len(library),
        "public names": public_names(),
        "members of a sampled posterior; bases above it": f"{n['sampled']}; {n['bases of sampled']}",
        "tests, lines": f"{n_lines(files('tests')):,}",
        "benchmarks and verification, lines": f"{n_lines(files('benchmarks', 'verification')):,}",
        "pages": f"{len(pages)} files, {n_lines(pages):,} lines",
    }
    print("| | |\n| --- | --- |", *(f"| {name} | {value} |" for name, value in rows.items()), sep="\n")


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
