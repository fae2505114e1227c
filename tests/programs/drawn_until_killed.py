"""A run that writes its checkpoint all the time."""

import sys

from tests.problems.runs import draw

if __name__ == "__main__":
    draw("numbers", 800, rng=9, checkpoint=sys.argv[1], every=0.05)
