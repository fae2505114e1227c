"""Questions that a statistician asks about one table, each answered in at most three lines.

Run: python examples/questions.py            prints the answers
     python examples/questions.py --page     also writes docs/questions.md and its pictures

The table is Quinlan's credit approvals: 690 applications, 15 numeric and nominal columns, some values missing.
"""

import contextlib
import inspect
import io
import re
import sys
import tempfile
import textwrap
import warnings
from contextlib import redirect_stdout
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import pandas as pd
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

import pactree_mcmc as pt

ROOT = Path(__file__).parents[1]
START = """import pandas as pd
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

import pactree_mcmc as pt

table = pd.read_csv("examples/data/credit_approval.csv")
X, y = table.drop(columns="decision"), table["decision"]
three = X[["a9", "a10", "a11"]]
model = pt.TreeModel(X[:600], y[:600], missing="branch")  # columns of text are nominal
post = pt.sample(model, rng=1, progress=False)
"""
PAGE = f"""# Questions and answers

For those who have a table and questions about it. After this page you know the call that answers each of eleven usual
questions, in at most three lines. The table is Quinlan's credit approvals: 690 applications, 15 numeric and nominal
columns without names, some values missing; 90 rows are kept back as new data. It is a file of the repository, so run
the code in a clone of it. `python examples/questions.py --page` writes this page, and a test runs it.

```python
{START}```
"""


def did_it_converge():
    """Did the chains converge?

    If `pt.sample` gave no warning, they did, as far as this can be checked. Each row below then has an `rhat` of at
    most 1.01 and an `ess_bulk` of at least 400. The same holds for predictions, which `post.diagnosis` lists. `lp` is
    the log posterior of a tree, the sum of `log_prior` and `log_score`. After a warning, [when chains
    disagree](howto_disagree.md) says what to do.
    """
    print(post.summary().round(2).head(6))


def which_variables_matter():
    """Which variables matter, and how sure are we?"""
    print(pd.DataFrame({"posterior": post.feature_inclusion(), "prior": post.prior_inclusion()}).round(2).head(8))


def is_there_an_interaction():
    """Is there an interaction?

    `probability` is that of a tree with a split on one of the two below a split on the other. A single tree has such
    a pair for additive data, too, so [compare with such data](case_diabetes.md#do-they-interact) before you speak of
    an interaction, and look at `pt.plots.plot_partial_dependence(post, ("a9", "a15"))`.
    """
    print(post.interactions().head(3).round(3))


def how_probable_is_approval():
    """What is P(approved | x), with an interval?"""
    print(post.predict_proba(X[600:603])[:, 0].round(2))
    print(post.credible_interval(X[600:603])[:, 0].round(2))


def which_tree_for_the_paper():
    """Which tree goes into the paper?

    In brackets after a set of categories: the probability of the set, given the shape. Numbers of rows are means over
    the trees of the shape, so they need not be whole. [When to print
    another tree](howto_explore.md#which-tree-goes-into-the-paper).
    """
    print(post.shapes())
    pt.plots.plot_shape(post)


def how_does_it_depend_on_the_prior():
    """How does the answer depend on the prior?"""
    other = pt.TreeModel(X[:600], y[:600], missing="branch", tree_prior=pt.ChipmanPrior(0.8, 2.0))
    print(pt.sample(other, rng=1, progress=False).credible_interval(X[600:602])[:, 0].round(2))


def which_of_two_models():
    """Which of two models is better?

    The one with the larger evidence, if you want the model that predicted the data better before it saw them. The one
    with the larger `elpd_loo`, if you want predictions of new rows. [Compare two
    priors](howto_prior.md#compare-two-priors) explains the rows.
    """
    small = pt.TreeModel(three[:600], y[:600], missing="branch")
    print(pt.compare_models({"all columns": post, "three columns": small}, rng=1).round(2).T)


def what_about_missing_values():
    """What is predicted for rows with missing values?"""
    rows = X[X.isna().any(axis=1)][:3]
    print(post.predict_proba(rows).round(2))


def how_is_new_data_added():
    """How is new data added?"""
    more = pt.sample(pt.TreeModel(X, y, missing="branch"), rng=2, progress=False)  # a new run, on all rows
    print(more.model.n_rows, more.predict_proba(X[600:602]).round(2)[:, 0])


def how_is_it_saved():
    """How is it saved?"""
    post.save("run.nc")
    print(pt.load("run.nc").n_leaves.mean().round(2))


def in_a_pipeline():
    """Does it work in a Pipeline and a GridSearchCV?"""
    tree = make_pipeline(pt.BayesianTreeClassifier(max_depth=4))
    search = GridSearchCV(tree, {"bayesiantreeclassifier__min_samples_leaf": [1, 10]}, cv=3).fit(three[:600], y[:600])
    print(search.best_params_, round(search.score(three[600:], y[600:]), 2))


QUESTIONS = (
    did_it_converge, which_variables_matter, is_there_an_interaction, how_probable_is_approval,
    which_tree_for_the_paper, how_does_it_depend_on_the_prior, which_of_two_models, what_about_missing_values,
    how_is_new_data_added, how_is_it_saved, in_a_pipeline,
)  # fmt: skip


def code_of(question):
    """Return the body of the function of a question, without its docstring."""
    return textwrap.dedent(inspect.getsource(question).split('"""', 2)[2].lstrip("\n")).rstrip()


def answer(question):
    """Run the function of a question, and return its docstring, its code and what it prints."""
    printed = io.StringIO()
    with redirect_stdout(printed), warnings.catch_warnings():
        warnings.simplefilter("error")
        question()
    return inspect.getdoc(question), code_of(question), printed.getvalue()


def main(writes_page):
    sections, page = [PAGE], (ROOT / "docs" / "questions.md").read_text(encoding="utf-8")
    for question in QUESTIONS:
        title, code, printed = answer(question)
        print(f"{title}\n\n{textwrap.indent(code, '    ')}\n\n{printed}", flush=True)
        # the Monte-Carlo errors of the output stay (tests/project/pages.py)
        section = page.partition(f"## {title}\n")[2].partition("\n## ")[0]
        draws = "".join(re.findall(r"<!-- from draws: .* -->\n", section))
        sections.append(f"## {title}\n\n```python\n{code}\n```\n\n{draws}```text\n{printed}```\n")
        if plt.get_fignums():
            name = f"gallery/question_{question.__name__}.png"
            if writes_page:
                plt.gcf().savefig(ROOT / "docs" / name, dpi=80)
            plt.close("all")
            sections.append(f"![{title.splitlines()[0]}]({name})\n")
    if writes_page:
        (ROOT / "docs" / "questions.md").write_text("\n".join(sections), encoding="utf-8")


if __name__ == "__main__":
    table = pd.read_csv(ROOT / "examples" / "data" / "credit_approval.csv")
    X, y = table.drop(columns="decision"), table["decision"]
    three = X[["a9", "a10", "a11"]]
    model = pt.TreeModel(X[:600], y[:600], missing="branch")
    post = pt.sample(model, rng=1, progress=False)
    # an answer saves a file where it runs
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        main("--page" in sys.argv)
