"""What summaries print is short, however many draws there are."""

import numpy as np

import pactree_mcmc as pt


def test_summaries_print_in_few_lines():
    x = np.arange(30.0)
    model = pt.TreeModel(x[:, None], x > 14)
    tree = pt.Tree([0, -1, -1], [14.5, 0, 0], [1, 0, 0], [2, 0, 0])
    post = pt.posterior_from_trees(model, [tree], [[0] * 300] * 4)
    small, values = repr(post.project(2)), repr(post.shap(x[:, None]))
    assert small.startswith("Projection(2 leaves, R2 1.000)\nx0 <= 14.5 (30 rows)") and small.count("\n") == 3
    assert values == "Attributions(30 rows, 1 features, 2 outputs, intervals of 0.9)"
