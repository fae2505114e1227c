"""The pictures of the tutorial: runs its blocks and leaves what they save where the page shows it.

Run: python examples/tutorial_pictures.py [folder]     (default: docs/tutorial)
"""

import os
import re
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

ROOT = Path(__file__).resolve().parents[1]


def main(folder):
    page = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(folder)
    space = {"__name__": "__main__"}
    for block in re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE):
        exec(block, space)
    print(*sorted(path.name for path in Path().glob("*.png")))


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else ROOT / "docs" / "tutorial")
