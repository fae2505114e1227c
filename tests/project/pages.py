"""The pages and their blocks: what runs, what it prints, and what the page shows of it.

The ``python`` blocks of a page run one after the other in one namespace. A ``text`` block is the output of the python
block above it, whatever words are between. ``<!-- not run: reason -->`` on the line before excuses a block from
running, ``<!-- output not shown: reason -->`` from showing its output. ``<!-- check: expression -->`` is not shown to
readers: the expression must be true after the blocks above it, so that sentences about results are checked too. A
block whose run gives a `ConvergenceWarning` must say so: it contains the word "warn".

Exact output must be that of the page. Output that depends on draws may be that of any valid draws. The line before its
``text`` block says how far it may be from that of the page:

``<!-- from draws: errors 0.02 0 0.3 -->`` has the Monte-Carlo error of each number of the block, or one for all: the
standard deviation of the difference between two runs with different seeds. `N_ERRORS` of them are allowed.
``<!-- from draws: words free, errors 0.02 0 0.3 -->`` is for words, such as the order of features, that depend on
draws: each line must have as many numbers as that of the page.
``<!-- from draws: lines free -->`` is for text of which draws decide how much there is, such as a tree: its first line
must have the words of the page.

    python -m tests.project.pages [PAGE.md ...]     run the pages (default: all); write today's output and pictures

also runs each page with `N_SEEDS` other seeds, and writes these comments.
"""

import contextlib
import io
import re
import shutil
import sys
import tempfile
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np

import pactree_mcmc as pt
from tests import ROOT
from tests.other_draws import other_draws

DOCS = sorted((ROOT / "docs").glob("*.md"))
PAGES = [ROOT / "README.md", *DOCS]
LANGUAGES = {"python", "text", "{toctree}", "{eval-rst}", "{include}"}
FENCE = re.compile(r"\s*```(.*)")
DRAWS = re.compile(r"lines free|words free|(?:words free, )?errors(?: [\d.e+-]+)+")
COMMENT = re.compile(r"<!-- (not run|output not shown|check|from draws):(.*)-->")
NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
ROUNDING = 1e-9
"""Relative difference that is allowed between a printed and a shown exact number."""
N_ERRORS = 5
"""Number of Monte-Carlo errors that are allowed between a printed and a shown number that depends on draws."""
N_SEEDS = 4
"""Number of other seeds with which errors are measured."""


class Block(NamedTuple):
    """Fenced block, or a check in a comment (language ``check``)."""

    language: str
    line: int
    """Line of the opening fence."""
    end: int
    """Line of the closing fence."""
    text: str
    not_run: str | None = None
    """Reason for not running the block."""
    not_shown: str | None = None
    """Reason for not showing the output."""
    draws: str | None = None
    """Comment on the draws that the output depends on."""


def read_blocks(page):
    """Return the blocks of a page's text; raise ValueError for a fence or a comment that would escape the tests."""
    out, opened, comments = [], None, {}
    for number, line in enumerate(page.splitlines(), start=1):
        fence, comment = FENCE.fullmatch(line), COMMENT.fullmatch(line.strip())
        if opened is not None and fence is None:
            opened[2].append(line)
        elif opened is not None:
            language, start, lines = opened
            reasons = [comments.get(kind) for kind in ("not run", "output not shown", "from draws")]
            out.append(Block(language, start, number, "\n".join(lines), *reasons))
            opened, comments = None, {}
        elif fence is not None:
            language = fence[1].split(maxsplit=1)[0] if fence[1].strip() else ""
            if language not in LANGUAGES:
                raise ValueError(f"line {number}: a block in {fence[1]!r}; known are {sorted(LANGUAGES)}.")
            opened = language, number, []
        elif comment is not None:
            kind, said = comment[1], comment[2].strip()
            if not said:
                raise ValueError(f"line {number}: {kind}, and no reason or expression given.")
            if kind == "from draws" and not DRAWS.fullmatch(said):
                raise ValueError(f"line {number}: from draws: {said}, which is none of the forms above.")
            if kind == "check":
                out.append(Block("check", number, number, said))
            else:
                comments[kind] = said
        elif line.strip():
            comments = {}
    if opened is not None:
        raise ValueError(f"line {opened[1]}: the block does not end.")
    return out


def unchecked_outputs(page):
    """Return the lines of the text blocks of a page that are the output of no block that runs."""
    lines, source = [], None
    for block in read_blocks(page):
        if block.language == "python":
            source = block
        elif block.language == "text":
            if source is None or source.not_run is not None:
                lines.append(block.line)
            source = None
    return lines


def indented_blocks(page):
    """Yield the line and the text of each indented line outside fences and lists, which Markdown shows as code."""
    inside, before = False, ""
    for number, line in enumerate(page.splitlines(), start=1):
        if FENCE.fullmatch(line):
            inside = not inside
        elif not inside and line.startswith("    ") and (not before.strip() or before.startswith("    ")):
            yield number, line.strip()
        before = line


def foreign_numbers(page):
    """Return the decimal numbers in sentences of a page that none of its blocks contains, not even with more digits."""
    blocks = read_blocks(page)
    known = [float(number) for block in blocks for number in NUMBER.findall(block.text)]
    prose = re.sub(r"(?ms)^\s*```.*?^\s*```|\$\$.*?\$\$|<!--.*?-->|^\|.*?$", " ", page)
    found = []
    for paragraph in re.split(r"\n\s*\n", prose):
        if not re.search(r"benchmarks/|\d{4}-\d\d-\d\d|formulas", paragraph):
            found += re.findall(r"(?<![\w.])-?\d*\.\d+(?![\w.]*\w)", re.sub(r"`[^`]*`|\$[^$]*\$", " ", paragraph))
    digits = {number: len(number.partition(".")[2]) for number in found}
    return [number for number in found if not any(round(one, digits[number]) == float(number) for one in known)]


class Output(NamedTuple):
    """Output of one block, and the text block that shows it."""

    block: Block
    printed: str
    shown: Block | None


def run_page(page, name, capture):
    """Run the blocks of a page's text, and yield the output of each block that prints or is shown to print."""
    space, last = {"__name__": "__main__"}, None
    for block in read_blocks(page):
        if block.language == "text" and last is not None:
            yield last._replace(shown=block)
            last = None
        elif block.language == "check":
            assert eval(block.text, space), f"{name}, line {block.line}: {block.text} is not true"
        elif block.language == "python":
            if last is not None and last.printed:
                yield last
            last = None
            if block.not_run is None:
                with warnings.catch_warnings():
                    if "warn" not in block.text:
                        warnings.simplefilter("error", pt.ConvergenceWarning)
                    # so many empty lines that a traceback shows the line of the page
                    exec(compile("\n" * block.line + block.text, name, "exec"), space)
                last = Output(block, capture(), None)
    if last is not None and last.printed:
        yield last


def numbers_of(text):
    return np.array(NUMBER.findall(text), dtype=float)


def words_of(text):
    return " ".join(NUMBER.sub("#", text).split())


def numbers_by_line(text):
    return [len(NUMBER.findall(line)) for line in text.strip("\n").splitlines()]


def assert_same(printed, shown, where, draws=None):
    """Check that two texts have the same words and numbers, as far as the comment on their draws requires."""
    message = f"{where}: printed, and shown; the block above prints\n{printed}"
    if draws == "lines free":
        first = [words_of(text.strip().partition("\n")[0]) for text in (printed, shown)]
        assert first[0] == first[1], message
        return
    if draws is not None and draws.startswith("words free"):
        assert numbers_by_line(printed) == numbers_by_line(shown), message
    else:
        assert words_of(printed) == words_of(shown), message
    expected = numbers_of(shown)
    allowed = ROUNDING * np.abs(expected)
    if draws is not None:
        errors = np.array(draws.partition("errors")[2].split(), dtype=float)
        assert errors.size in (1, expected.size), f"{where}: {errors.size} errors for {expected.size} numbers"
        allowed = allowed + N_ERRORS * errors
    away = np.abs(numbers_of(printed) - expected) > allowed
    assert not away.any(), f"{message}\nfor {expected[away]}: {numbers_of(printed)[away]}"


def check_page(page, name, capture, show_all=True):
    """Run a page's text and compare what it prints with what it shows."""
    for block, printed, shown in run_page(page, name, capture):
        if shown is not None:
            assert_same(printed, shown.text, f"{name}, line {shown.line}", shown.draws)
        elif show_all and block.not_shown is None:
            raise AssertionError(f"{name}, line {block.line}: the page does not show that this block prints\n{printed}")


def comment_on_draws(texts):
    """Return the comment for the outputs of one block with several seeds, or None if they are the same."""
    if all(text == texts[0] for text in texts):
        return None
    if len({tuple(numbers_by_line(text)) for text in texts}) > 1:
        return "lines free"
    start = "" if len({words_of(text) for text in texts}) == 1 else "words free, "
    numbers = np.array([numbers_of(text) for text in texts])
    sd = np.where(np.ptp(numbers, axis=0) > 0.0, np.std(numbers, axis=0, ddof=1), 0.0)
    errors = [round_up(error) for error in np.sqrt(2.0) * sd]
    if not errors:
        return "words free"
    if 0.0 < max(errors) <= 2.0 * min(errors):
        errors = [max(errors)]
    return f"{start}errors {' '.join(f'{error:g}' for error in errors)}"


def round_up(error):
    """Return the least number of one digit that is at least ``error``."""
    if error == 0.0:
        return 0.0
    unit = 10.0 ** np.floor(np.log10(error))
    return float(np.ceil(error / unit - 1e-9) * unit)


def written(page, runs):
    """Return a page's text with the output of its first run; blocks without a ``text`` block get one."""
    lines = page.splitlines()
    for outputs in reversed(list(zip(*runs, strict=True))):
        block, printed, shown = outputs[0]
        texts = [output.printed for output in outputs]
        draws = comment_on_draws(texts)
        comment = [] if draws is None else [f"<!-- from draws: {draws} -->"]
        output = printed.rstrip("\n").splitlines()
        if shown is not None:
            with contextlib.suppress(AssertionError):
                for text in texts if shown.draws else texts[:1] if draws is None else ():
                    assert_same(text, shown.text, page, shown.draws)
                if shown.draws or draws is None:
                    continue  # lines may be broken otherwise
            lines[shown.line : shown.end - 1] = output
            start = shown.line - 1
            if shown.draws is not None:
                start = max(i for i in range(start) if COMMENT.fullmatch(lines[i].strip()))
            lines[start : shown.line - 1] = comment
        elif block.not_shown is None:
            lines[block.end : block.end] = ["", *comment, "```text", *output, "```"]
    return "\n".join(lines) + "\n"


def pictures(page):
    return [name for block in read_blocks(page) for name in re.findall(r'savefig\("([\w-]+\.png)"', block.text)]


def keep_pictures(folder, page):
    """Move the pictures that the blocks of ``NAME.md`` saved in a folder to ``docs/NAME/``."""
    for name in pictures(page.read_text(encoding="utf-8")):
        (page.parent / page.stem).mkdir(exist_ok=True)
        shutil.move(folder / name, page.parent / page.stem / name)


@contextlib.contextmanager
def running(folder):
    """Run blocks in a folder that has the examples. Give the function that returns the output since its last call."""
    out, examples = io.StringIO(), Path(folder, "examples")

    def capture():
        printed = out.getvalue()
        out.seek(0)
        out.truncate()
        return printed

    if not examples.exists():
        examples.symlink_to(ROOT / "examples", target_is_directory=True)
    with contextlib.redirect_stdout(out), contextlib.chdir(folder):
        yield capture


def run_as_printed(page, name, folder, show_all=True):
    with running(folder) as capture:
        check_page(page, name, capture, show_all)


def main(names):
    """Write today's output and pictures into the pages with these names, or into all."""
    import matplotlib

    matplotlib.use("Agg")
    for path in PAGES:
        if names and path.name not in names:
            continue
        before, runs = path.read_text(encoding="utf-8"), []
        for seed in range(N_SEEDS + 1):
            with tempfile.TemporaryDirectory() as folder:
                with other_draws(seed), running(folder) as capture:
                    runs.append(list(run_page(before, str(path), capture)))
                if seed == 0:
                    keep_pictures(Path(folder), path)
        after = written(before, runs)
        path.write_text(after, encoding="utf-8")
        print(path.name, "unchanged" if before == after else "written", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
