"""A saved run goes on in another process; its predictions take the place of the rows."""

import sys

import numpy as np

import pactree_mcmc as pt

if __name__ == "__main__":
    run, rows = sys.argv[1:]
    post = pt.resume(pt.load(run), 7, progress=False)
    np.save(rows, post.predict(np.load(rows)))
