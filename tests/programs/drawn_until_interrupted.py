"""A run that ends by SIGINT, and is saved then: checkpoint, file, iterations of tuning."""

import sys

from tests.problems.runs import draw

if __name__ == "__main__":
    running, saved, tune = sys.argv[1:]
    more = {"tune": int(tune), "checkpoint": running, "every": 0.05}
    post = draw("classes", 10**7, kernel="grow-prune", rng=9, thin=50, **more)
    post.save(saved)
