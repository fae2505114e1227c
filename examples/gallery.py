"""The gallery: every kind of picture, with the lines that draw it.

Run: python examples/gallery.py [folder]     writes gallery.md and the folder gallery/ with the pictures
(default: docs)
"""

import inspect
import sys
import textwrap
from functools import cache
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from chipman_1998 import chipman_data
from PIL import Image
from sklearn.datasets import load_breast_cancer, load_digits, load_iris
from sklearn.tree import DecisionTreeClassifier

import exact
import pactree_mcmc as pt
from pactree_mcmc.faces import plots

DPI = 80
FLOWERS = load_iris(as_frame=True)
TUMOURS = load_breast_cancer(as_frame=True)
INTRODUCTION = """# Gallery

For readers who look for a picture: first by the question that it answers, then all others, each with the call that
makes it. All functions are in `pt.plots`; they take matplotlib axes and return them. `python examples/gallery.py`
writes this page.

`truth` is an exact posterior, `post` a run of four chains for the same model: 120 rows, six features of two values, two
classes. `apart` is a run for it that is too short and of too simple a kernel to mix. `tumours` is a run for three
measurements of breast tumours, `flowers` one for Fisher's irises, `noisy` one for two noisy classes over two features.
`regions` is for the example of Chipman, George and McCulloch (1998): 800 rows, an ordered and a nominal feature, five
regions of different means. `times` is for censored times of two groups.

`post.report("page.html")` puts a whole posterior on [one page](howto_report.md). Six tables, by
`python examples/reports.py`: [breast cancer](gallery/reports/breast_cancer.html), 30 measurements that are alike;
[iris](gallery/reports/iris.html); [wine](gallery/reports/wine.html); [diabetes](gallery/reports/diabetes.html), a noisy
regression; [Chipman, George and McCulloch](gallery/reports/chipman.html), regions of an ordered and a nominal feature;
[a shop](gallery/reports/shop.html), with text, dates and missing values, and exact values ticked.
"""


@cache
def patients():
    """Return treatment and age of 240 patients, and their censored times."""
    rng = np.random.default_rng(3)
    treated, age = rng.integers(0, 2, 240), rng.integers(20, 80, 240)
    event = rng.exponential(np.where(treated == 0, 2.0, np.where(age > 50, 4.0, 9.0)))
    censoring = rng.uniform(0.0, 12.0, 240)
    X = pd.DataFrame({"treated": treated, "age": age})
    return X, pd.DataFrame({"time": np.minimum(event, censoring) + 0.01, "event": event <= censoring})


@cache
def posteriors():
    """Return the posteriors by the names of the parameters of the functions below."""
    run = {"draws": 1000, "tune": 500, "chains": 4, "rng": 1, "progress": False}
    rng = np.random.default_rng(3)
    B = rng.integers(0, 2, size=(120, 6))
    chance = np.where(B[:, 0] == B[:, 1], 0.8, 0.2 + 0.35 * B[:, 2])
    binary = pt.TreeModel(B, np.where(rng.random(120) < chance, "yes", "no"))
    Z = rng.uniform(0.0, 10.0, size=(300, 2)).round(1)
    inside = (Z[:, 0] > 6.0) ^ (Z[:, 1] > 3.0)
    noisy = pt.TreeModel(Z, np.where(inside ^ (rng.random(300) < 0.15), "ill", "well"))
    X, y = chipman_data()
    leaf = pt.NormalInverseGamma(m0=4.85, k0=1 / 3, a0=5.0, b0=20.0)
    regions = pt.TreeModel(X, y, tree_prior=pt.ChipmanPrior(0.95, 1.0), leaf=leaf)
    measurements = TUMOURS.data[["worst perimeter", "worst texture", "worst smoothness"]]
    splits = pt.LocalCuts(max_cuts=20, min_leaf=50)
    tumours = pt.TreeModel(measurements, TUMOURS.target_names[TUMOURS.target], split_prior=splits)
    return {
        "times": pt.sample(pt.TreeModel(*patients(), leaf=pt.ExponentialGamma()), **run),
        "tumours": pt.sample(tumours, rng=1, progress=False),
        "truth": exact.solve(binary),
        "post": pt.sample(binary, **run),
        "noisy": pt.sample(noisy, **run),
        "regions": pt.sample(regions, **run),
        "flowers": pt.sample(pt.TreeModel(FLOWERS.data, FLOWERS.target_names[FLOWERS.target]), **run),
        "apart": pt.sample(binary, draws=500, tune=0, chains=4, rng=1, kernel="grow-prune", progress=False),
    }


def shape(tumours):
    """The most probable shape: an interval for each cut and, below each leaf, for the probability of the second
    class.
    """
    plots.plot_shape(tumours)


def best_tree(post):
    """The most probable tree."""
    plots.plot_tree(post.map_tree())


def large_tree():
    """A tree of 30 leaves and ten classes: a bar for each class in each leaf, and below them the most probable
    class.
    """
    cart = DecisionTreeClassifier(max_leaf_nodes=30, random_state=0).fit(*load_digits(return_X_y=True, as_frame=True))
    plots.plot_tree(pt.Tree.from_sklearn(cart))


def n_leaves(post, truth):
    """Distribution of the number of leaves: draws with two standard errors, and exact."""
    plots.plot_n_leaves(post, truth=truth)


def inclusion(post, truth):
    """Probability that a tree splits on a feature."""
    plots.plot_inclusion(post, truth=truth)


def leaves(flowers):
    """The most probable tree and the training rows of each leaf, a bar for each class."""
    plots.plot_leaves(flowers)


def leaves_of_a_regression(regions):
    """The same for a regression: y on one axis for all leaves, the mean as a line."""
    plots.plot_leaves(regions)


def forest(flowers):
    """200 drawn trees over one another, nodes at their depth and placed by the training rows in them."""
    plots.plot_forest(flowers)


def consensus(flowers):
    """The cells that more than half of the trees have, with their probability; a node may have three children."""
    plots.plot_consensus(flowers)


def split_frequencies(post, apart, truth):
    """How often chains have each cell: chains that do not agree, and draws against the exact posterior."""
    _, axes = plt.subplots(1, 2, figsize=(10, 4.6), layout="constrained")
    plots.plot_split_frequencies(apart, axes[0])
    plots.plot_split_frequencies(post, axes[1], truth=truth)


def partition(noisy):
    """The cells of the most probable tree in two dimensions."""
    plots.plot_partition(noisy)


def surface(noisy):
    """Posterior mean prediction over all trees, with the cell boundaries of the most probable tree and the rows."""
    ax = plots.plot_surface(noisy)
    plots.plot_partition(noisy, ax=ax, fill=False)


def spread(noisy):
    """The disagreement of the trees: standard deviation of the prediction over trees."""
    plots.plot_surface(noisy, spread=True, points=False)


def nominal_surface(regions):
    """A regression with a nominal feature on one axis."""
    plots.plot_surface(regions, ("x1", "x2"))


def dependence(regions):
    """Partial dependence on an ordered and on a nominal feature."""
    _, axes = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
    plots.plot_partial_dependence(regions, "x1", axes[0])
    plots.plot_partial_dependence(regions, "x2", axes[1])


def individual(noisy):
    """Individual conditional expectation: thin lines are single rows; if they cross, features interact."""
    plots.plot_partial_dependence(noisy, 0, individual=30)


def interactions(noisy):
    """Partial dependence over two features."""
    plots.plot_partial_dependence(noisy, (0, 1))


def four_pictures(post, truth):
    """Four pictures at once."""
    plots.plot_posterior(post, truth)


def comparison(post, truth):
    """Exact against sampled: every probability that both engines compute."""
    exact.compare(truth, post).plot()


def survival(times):
    """Survival functions of three rows, with 90 % credible bands."""
    rows = pd.DataFrame({"treated": [1, 1, 0], "age": [30, 70, 50]})
    plots.plot_survival(times.survival(rows, np.linspace(0.0, 12.0, 60)))


def reliability(tumours):
    """Calibration of classes: observed fractions of the second class in groups of rows, beside the expected ones."""
    plots.plot_calibration(tumours.calibration(TUMOURS.data, TUMOURS.target_names[TUMOURS.target]))


def calibration(times):
    """Kaplan-Meier curves of the leaves of the most probable tree, with ticks at censored times, beside the model."""
    plots.plot_calibration(times.calibration(*patients()))


QUESTIONS = {
    "What does the tree look like?": (shape, leaves),
    "How sure is that, and what do other trees look like?": (consensus, forest),
    "Which features matter, and how?": (dependence, interactions),
    "What is predicted?": (surface, survival),
    "How large are the trees?": (n_leaves,),
    "Do the chains agree?": (split_frequencies,),
    "More pictures": (
        *(best_tree, large_tree, leaves_of_a_regression, inclusion, partition, spread, nominal_surface, individual),
        *(reliability, calibration, comparison, four_pictures),
    ),
}


def code_of(picture):
    """Return the body of a function that draws a picture, without its docstring."""
    source = inspect.getsource(picture).split('"""', 2)[2]
    return textwrap.dedent(source.lstrip("\n")).rstrip()


def draw(picture, folder):
    """Draw a picture by its function, and save it."""
    picture(*(posteriors()[wanted] for wanted in inspect.signature(picture).parameters))
    path = folder / "gallery" / f"{picture.__name__}.png"
    plt.gcf().savefig(path, dpi=DPI)
    plt.close("all")
    # 128 colours are enough, and make the file half as large
    Image.open(path).convert("RGB").quantize(128).save(path, optimize=True)
    print(picture.__name__, flush=True)


def row(picture):
    """Return the description of a picture, the code that draws it, and its image as a row of a table in Markdown."""
    name, words = picture.__name__, " ".join(inspect.getdoc(picture).split())
    code = "<br>".join(f"`{line}`" for line in code_of(picture).splitlines())
    return f"| {words}<br>{code}<br>![{name.replace('_', ' ').capitalize()}](gallery/{name}.png) |\n"


def main(folder):
    """Write the page and all pictures."""
    (folder / "gallery").mkdir(parents=True, exist_ok=True)
    page = [INTRODUCTION]
    for question, pictures in QUESTIONS.items():
        for picture in pictures:
            draw(picture, folder)
        page += [f"\n## {question}\n\n| |\n| --- |\n", *map(row, pictures)]
    (folder / "gallery.md").write_text("".join(page), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1] / "docs")
