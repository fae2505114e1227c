"""Results of the parts of the verification, and the page that shows them."""

import json
from datetime import date
from pathlib import Path
from typing import NamedTuple

TITLE = "# Statistical verification"
INTRODUCTION = """For those who ask whether the sampler is right as a whole. After this page you know what was
simulated, how often a check would fail by chance, and which command repeats it. Each part compares simulations or exact
answers with the sampler, and has planted errors that must be noticed. The page is written by `python
verification/run.py`, which ends with status 1 when a check fails or a planted error passes; `python verification/run.py
--quick` is the same, smaller. With the name of a part only that part is run, and its section replaced. Seeds are fixed:
a part repeats its numbers and pictures until a release changes the draws; seconds are those of the machine. A part
is of the code of its day: moves that have gone since may occur in it.

The false-alarm rate of a part is the probability that at least one of its checks fails although everything is right,
shared out equally among the checks (Bonferroni)."""


class Control(NamedTuple):
    """A planted error: its description, True if the checks noticed it, and the figure that shows it."""

    what: str
    caught: bool
    figure: str


class Part(NamedTuple):
    """Result of one part: its checks, those that failed, and the planted errors."""

    title: str
    text: str
    """Markdown."""
    n_checks: int
    false_alarm: float
    failures: tuple[str, ...]
    controls: tuple[Control, ...]

    @property
    def passed(self):
        """True if no check failed and every planted error was noticed."""
        return not self.failures and all(control.caught for control in self.controls)


def keep(part, name, command, seconds, folder):
    """Write the result of a part as ``folder``/``name``.json, with its command and seconds, for the page."""
    record = {"name": name, "command": command, "day": date.today().isoformat(), "seconds": round(seconds)}
    record |= {"passed": part.passed, **part._asdict()}
    record["controls"] = [control._asdict() for control in part.controls]
    (folder / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")


def write_page(folder, names):
    """Write the page ``folder``.md from the results of the parts ``names`` in ``folder``, and return its path."""
    files = [folder / f"{name}.json" for name in names]
    records = [json.loads(file.read_text()) for file in files if file.exists()]
    header = ("part", "command", "day", "seconds", "checks", "false-alarm rate", "failed")
    header += ("planted errors noticed", "result")
    rows = [
        (
            f"[{one['title']}](#{anchor(one['title'])})",
            f"`{one['command']}`",
            one["day"],
            one["seconds"],
            one["n_checks"],
            f"{one['false_alarm']:g}",
            len(one["failures"]),
            f"{sum(c['caught'] for c in one['controls'])} of {len(one['controls'])}",
            "pass" if one["passed"] else "**FAIL**",
        )
        for one in records
    ]
    planted = [
        (one["name"], c["what"], "yes" if c["caught"] else "**no**", c["figure"])
        for one in records
        for c in one["controls"]
    ]
    sections = [TITLE, INTRODUCTION, table(header, rows), *(section(one) for one in records)]
    sections += ["## Planted errors", table(("part", "planted error", "noticed", "figure"), planted)]
    page = Path(f"{folder}.md")
    page.write_text("\n\n".join(sections) + "\n")
    return page


def section(one):
    """Return the section of a part, given as its record in JSON, in Markdown."""
    lines = [f"## {one['title']}", one["text"].strip()]
    if one["failures"]:
        lines += ["Failed checks:", "\n".join(f"* {failure}" for failure in one["failures"])]
    return "\n\n".join(lines)


def table(header, rows):
    """Return a table in Markdown with the column names ``header`` and ``rows`` of cells."""
    return "\n".join(f"| {' | '.join(map(str, cells))} |" for cells in [header, ["---"] * len(header), *rows])


def picture(name, alt, folder):
    """Return the Markdown for picture ``name`` of the folder, with the alternative text ``alt``."""
    return f"![{alt}]({folder.name}/{name})"


def anchor(title):
    """Return the address of the section with this title."""
    return "".join(c for c in title.lower().replace(" ", "-") if c.isalnum() or c == "-")
