"""The content of the report of a posterior, as a dictionary of numbers and texts that the template prints."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from ...core.checks import check_type
from ...files.calls import versions
from ...model.model import lines_of_cells, prediction_names
from ...posterior.base import Posterior
from ...posterior.convergence import check_convergence, verdict
from ...posterior.draws import has_values_by_leaf
from ...posterior.sampled import SampledPosterior, draws_from
from ...posterior.trees.credible_set import CredibleSet, has_model_odds
from ...posterior.trees.distances import evenly_spaced_integers
from ...posterior.trees.paths import (
    ALL_ROWS,
    beside_all_rows,
    condition_of,
    conditions_in_words,
    cut_words,
    interval_of_cut,
    path_to,
)
from ...posterior.trees.shapes import Shape
from ...tree.tree import MAX_SHOWN_CLASSES
from ..plots.tree import MAX_CLASSES, value_strips
from . import words
from .effects import feature_effects
from .sentences import features_sentence, first_cuts_sentence, leaf_count_sentence
from .trees import CommonPaths, common_paths, ordering_log_posterior, trees_for_page
from .words import MAX_NAME_LENGTH, truncate, with_signs

N_DRAWS = 1000
"""Number of trees drawn from a posterior that is not sampled."""
SET_MASS = 0.95
"""Probability of the credible set."""
MAX_FEATURES, MAX_SIZES, MAX_CELLS = 12, 24, 16
"""Largest numbers of features, of sizes and of cells listed."""
MIN_LISTED_PROBABILITY = 0.005
"""Smallest probability of a number of leaves that is listed."""
MAX_CONDITIONS_LENGTH, MAX_CALL_LENGTH, MAX_TREE_LINES = 240, 2000, 80
"""Largest numbers of characters of a path and of a call, and of lines of a tree."""
N_PRINTED_TREES = 3
"""Number of trees printed."""
MAX_TRACE_POINTS, MAX_TRACED_CHAINS = 160, 8
"""Largest numbers of points of a trace, and of chains traced."""
N_COLORS = 7
"""Number of features with a colour of their own."""
WHOLE_POSTERIOR_COVERAGE = 0.95
"""Part of the posterior from which on values are reported as those of the whole."""
NO_OBJECTION = "The chains agree: no criterion fails."


def report_content(post: Posterior, truth: Posterior | None) -> dict[str, Any]:
    """Return all numbers and texts of the report, by the names that the template page.html uses.

    ``post`` is sampled or exact. For an exact one 1,000 trees are drawn. ``truth`` is None or an exact posterior of the
    same model, whose values are shown beside those of the draws.
    """
    draws = draws_from(post, N_DRAWS, 0, that_predict=True)
    is_sampled = draws is post
    truth = check_truth(draws, truth) if is_sampled or truth is not None else post
    paths = common_paths(draws, join_cuts=not has_path_probabilities(truth))
    source = post if truth is None else truth
    has_order = has_model_odds(draws) and has_model_odds(source) and not np.isnan(draws.log_posterior_of_tree).any()
    credible_set = source.credible_set(SET_MASS) if has_order else None
    model = draws.model
    # one order of classes everywhere, that of the model; the last of two classes stands for both
    names = [truncate(name, MAX_NAME_LENGTH) for name in prediction_names(model)]
    curve_columns = [1] if model.classes_ is not None and len(names) == 2 else list(range(len(names)))[:MAX_CLASSES]
    inclusion = _inclusion_rows(draws, truth)
    effects = feature_effects(draws, [line["feature"] for line in inclusion], curve_columns)
    shapes = draws.shapes(most=1)
    # joined cells have no exact probabilities
    consensus = post.consensus_tree(draws=N_DRAWS, join_cuts=truth is None or truth is post)
    return {
        "data_line": words.data_line(model),
        "target": words.target_name(model),
        "run": words.run_line(draws) if is_sampled else f"{N_DRAWS} independent draws of {type(post).__name__}",
        "exact": None if truth is None else _exactness_text(truth),
        "verdict": _verdict_of_draws(draws, truth) if is_sampled else _verdict_of_exact(post),
        "messages": [
            features_sentence(words.target_name(model), inclusion),
            first_cuts_sentence(shapes.shapes[0]),
            leaf_count_sentence(draws, shapes.n_shapes),
        ],
        "shape": shapes.shapes[0],
        "shape_tree": _shape_tree(shapes.shapes[0]),
        "curve_names": [names[j] for j in curve_columns],
        "sizes": _leaf_count_rows(draws, truth),
        "inclusion": inclusion,
        "effects": effects,
        "consensus": consensus,
        "consensus_exact": None if truth is post else _exact_cell_probabilities(consensus.key, truth),
        "joined": not has_path_probabilities(truth),
        "paths": _path_rows(draws, truth, paths, [line["feature"] for line in inclusion[:N_COLORS]]),
        "trees": trees_for_page(draws, credible_set, paths),
        "credible_set": credible_set,
        "n_drawn_trees": draws.n_distinct_trees,
        "best": _best_trees(draws, credible_set),
        "classes": None if model.classes_ is None else names,
        "predicts": has_values_by_leaf(model),
        "support": _uncertain_cells(draws, truth),
        "diagnosis": _diagnosis_content(draws) if is_sampled else None,
        "traces": _traces(draws) if is_sampled else [],
        "n_chains": draws.n_chains,
        "facts": [(name, truncate(value, MAX_CALL_LENGTH)) for name, value in _model_facts(post, draws)],
        "calls": [truncate(line, MAX_CALL_LENGTH) for line in _call_lines(draws)],
    }


def rows_of_columns(**columns: Any) -> list[dict[str, Any]]:
    """Return a list of rows from ``columns`` of equal length: a dictionary, by name of the column, for each entry.

    A column that is None becomes None in each dictionary. Numbers of NumPy become those of Python.
    """
    m = max(len(column) for column in columns.values() if column is not None)
    lists = [[None] * m if column is None else column for column in columns.values()]
    # JSON knows Python's numbers only
    lists = [column.tolist() if isinstance(column, np.ndarray) else column for column in lists]
    return [dict(zip(columns, values, strict=True)) for values in zip(*lists, strict=True)]


def check_truth(draws: SampledPosterior, truth: Any) -> Posterior | None:
    """Return ``truth`` if it is None or an exact posterior of the model of the draws. Otherwise raise an error."""
    if truth is None:
        return None
    check_type("truth", truth, Posterior, "an exact posterior of the same model, or None")
    if isinstance(truth, SampledPosterior):
        raise TypeError(f"truth is a {type(truth).__name__}, draws too; give an exact posterior of the same model.")
    one, other = draws.model, truth.model
    same = repr(one) == repr(other) and one.columns.names == other.columns.names
    if not (same and np.array_equal(one.units.codes, other.units.codes)):
        raise ValueError("truth is of another model than the draws; give an exact posterior of the same model.")
    return truth


def _exactness_text(truth: Posterior) -> str:
    """Return the words that say whether the values of ``truth`` are those of all trees, or of which part of them.

    A part is known exactly if the sum is over the trees made of pieces that chains have visited.
    """
    coverage = getattr(truth, "coverage", 1.0)
    if coverage == 1.0:
        return "exact values"
    fraction = "" if coverage is None else f", {coverage:.3f} of the posterior"
    return f"values exact for the trees made of the pieces drawn{fraction}"


def _verdict_of_exact(post: Posterior) -> dict[str, Any]:
    """Return the verdict on an exact posterior, in the form of `_verdict_of_draws`."""
    coverage = getattr(post, "coverage", 1.0)
    is_nearly_all = coverage is not None and coverage >= WHOLE_POSTERIOR_COVERAGE
    head = "Nothing here depends on a chain." if is_nearly_all else "These values are of a part of the posterior."
    lines = [f"Ticks are {_exactness_text(post)}; paths and trees are of {N_DRAWS} independent draws."]
    return {"level": "good" if is_nearly_all else "doubt", "head": head, "lines": lines, "figures": []}


def _verdict_of_draws(draws: SampledPosterior, truth: Posterior | None) -> dict[str, Any]:
    """Return a dictionary that says if the draws can be trusted.

    "level" is "good" or "doubt", "head" a heading, "lines" the reasons as sentences, and "figures" the criteria of
    convergence that fail, with their numbers. With ``truth``, a line has the distance of the numbers of leaves from it.
    """
    objections = check_convergence(draws)
    figures = [line for line in objections[1:] if re.search(r": R-hat |^and .* more of ", line)]
    lines = [line for line in objections if line not in figures] or verdict(draws).split("\n  ")
    head = objections[0] if objections else NO_OBJECTION
    lines = [line[:1].upper() + line[1:] for line in lines if line != head]
    if truth is not None:
        sampled, exact = _pad_to_one_length(draws.n_leaves_pmf(), truth.n_leaves_pmf())
        distance = 0.5 * np.abs(sampled - exact).sum()
        lines.append(f"Total variation between drawn and exact distribution of the number of leaves: {distance:.3f}.")
    texts = {
        "lines": [truncate(line, MAX_CONDITIONS_LENGTH) for line in lines],
        "figures": [truncate(line, MAX_CONDITIONS_LENGTH) for line in figures],
    }
    return {"level": "doubt" if objections else "good", "head": head, **texts}


def _pad_to_one_length(*distributions: np.ndarray) -> list[np.ndarray]:
    """Return probabilities over 0, 1, ... with zeros at the end, so that all arrays have the length of the longest."""
    size = max(map(len, distributions))
    return [np.pad(pmf, (0, size - len(pmf))) for pmf in distributions]


def _leaf_count_rows(draws: SampledPosterior, truth: Posterior | None) -> list[dict[str, Any]]:
    """Return a dictionary for each of the likely numbers of leaves, in ascending order.

    They have the probability .005 or more in the draws or the truth, and are at most 24. A dictionary has the number,
    ``leaves``, its ``probability`` in the draws, and the ``exact`` one or None.
    """
    pmfs = _pad_to_one_length(*(post.n_leaves_pmf() for post in (draws, truth) if post is not None))
    largest = np.max(pmfs, axis=0)
    likely_sizes = np.flatnonzero(largest >= MIN_LISTED_PROBABILITY)
    likely_sizes = np.sort(likely_sizes[np.argsort(-largest[likely_sizes], kind="stable")][:MAX_SIZES])
    return rows_of_columns(
        leaves=likely_sizes, probability=pmfs[0][likely_sizes], exact=None if truth is None else pmfs[1][likely_sizes]
    )


def _inclusion_rows(draws: SampledPosterior, truth: Posterior | None) -> list[dict[str, Any]]:
    """Return a dictionary for each of up to 12 features that some drawn tree splits on, the most probable first.

    It has the index ``feature`` and the ``name``, the ``probability`` that a tree splits on it, the probability
    ``at_root`` that the root does, and the ``exact`` inclusion probability or None.
    """
    sampled = draws._feature_inclusion()
    order = np.argsort(-sampled, kind="stable")[:MAX_FEATURES]
    order = order[sampled[order] > 0.0]
    root = np.bincount(draws.root_feature_of_tree + 1, weights=draws.weight_of_tree, minlength=len(sampled) + 1)[1:]
    return rows_of_columns(
        feature=order,
        name=[truncate(draws.model.columns.names[k], MAX_NAME_LENGTH) for k in order],
        probability=sampled[order],
        at_root=root[order],
        exact=None if truth is None else truth._feature_inclusion()[order],
    )


def _shape_tree(shape: Shape) -> dict[str, Any]:
    """Return the nodes of a shape as nested dictionaries.

    A split has ``words`` and two ``children``. A leaf has ``rows``, ``strips``, its means with their intervals, and
    ``words``, its prediction if this depends on columns of X, else an empty text.
    """
    leaves, strips = shape.leaves.groupby("node").first(), value_strips(shape)

    def subtree(node: int) -> tuple[dict[str, Any], int]:
        """Return a node, and the number of the first node after its subtree."""
        if node in strips:
            text = leaves["words"][node] if "words" in leaves else ""
            return {"rows": float(leaves["rows"][node]), "strips": strips[node], "words": text}, node + 1
        yes, after = subtree(node + 1)
        no, after = subtree(after)
        return {"words": with_signs(shape.splits.loc[node, "words"]), "children": [yes, no]}, after

    return subtree(0)[0]


def _exact_cell_probabilities(keys: list[tuple[int, ...]], truth: Posterior | None) -> list[float] | None:
    """Return the exact probabilities of the cells with these ``keys`` (of `Support`), 0 for a cell that no tree has.

    None if ``truth`` is None, or has no exact probabilities of cells.
    """
    if truth is None or not hasattr(truth, "path_probabilities"):
        return None
    support = truth.support(0.0)
    probability = dict(zip(support.key, support.probability.tolist(), strict=True))
    return [probability.get(key, 0.0) for key in keys]


def _path_rows(
    draws: SampledPosterior, truth: Posterior | None, paths: CommonPaths, colours: list[int]
) -> list[dict[str, Any]]:
    """Return a dictionary for each decision path: its conditions, probabilities, prediction, and the ends of its box.

    Most names are those of `CommonPaths`. ``condition`` is that of the last split and ``conditions`` all of them,
    ``value`` the prediction as text, ``exact`` the exact probability or None, ``top`` and ``bottom`` as of
    `icicle_ends`. ``colours`` are the features with a colour of their own. The colour of a path is the index in this
    list of the feature of its last split, or N_COLORS; -1 for path 0.
    """
    exact = None
    if has_path_probabilities(truth):
        exact = truth.path_probabilities(draws, paths.cell, paths.parent)  # type: ignore[union-attr]
    condition = _last_conditions(draws, paths)
    conditions: list[str] = []
    for parent, text in zip(paths.parent.tolist(), condition, strict=True):
        conditions.append(f"{conditions[parent]}, {text}" if parent > 0 else text)
    feature = draws.distinct_trees.feature[paths.above].tolist()
    colour = [colours.index(k) if k in colours else N_COLORS for k in feature]
    predictions = lines_of_cells(draws.model, draws.node_stats[paths.node], MAX_SHOWN_CLASSES)
    top, bottom = icicle_ends(paths)
    return rows_of_columns(
        parent=paths.parent,
        depth=paths.depth,
        condition=condition,
        conditions=[truncate(text, MAX_CONDITIONS_LENGTH) for text in conditions],
        colour=[-1, *colour[1:]],
        probability=paths.probability,
        mcse=paths.mcse,
        exact=exact,
        stops=paths.stops,
        rows=paths.rows,
        value=[truncate(", ".join(lines), MAX_CONDITIONS_LENGTH) for lines in predictions],
        top=top,
        bottom=bottom,
    )


def has_path_probabilities(truth: Posterior | None) -> bool:
    """Return True for an exact posterior that knows the probability of every path."""
    return hasattr(truth, "path_probabilities")


def _last_conditions(draws: SampledPosterior, paths: CommonPaths) -> list[str]:
    """Return the condition of the last split of each path, as text ("all rows" for path 0).

    A cut that differs between trees is given as its median, with its 90 % interval in brackets.
    """
    trees, between, columns = draws.distinct_trees, draws.node_between, draws.model.columns
    out = [ALL_ROWS]
    for i in range(1, len(paths.node)):
        node, above, (middle, lower, upper) = int(paths.node[i]), int(paths.above[i]), paths.cut[i].tolist()
        last = condition_of(trees, between, above, node == above + 1)
        if lower < upper:
            cut = beside_all_rows(draws.model, last._replace(threshold=middle))
            ends = interval_of_cut(draws.model, last.feature, lower, upper)
            text = f"{columns.names[last.feature]} {cut_words(columns, cut, ends)}"
            text += " or missing" * (last.feature in columns.twins and last.missing_left == last.left)
        else:
            before = path_to(trees, between, int(draws.cells.tree_of_node[node]), above)
            text = conditions_in_words(columns, [last], [one for _, one in before])
        out.append(with_signs(text))
    return out


def icicle_ends(paths: CommonPaths) -> tuple[np.ndarray, np.ndarray]:
    """Return the upper and lower ends (m,) of the boxes of an icicle, one for each path, as fractions of its height.

    An icicle shows paths as boxes, children to the right of their parent; 0 is its upper end. A box has the height
    `CommonPaths.width`. The first child of a path begins where the path begins, and the other children follow below.
    """
    top, filled = np.zeros(len(paths.parent)), np.zeros(len(paths.parent))
    width = paths.width
    for i in range(1, len(top)):
        above = int(paths.parent[i])
        top[i] = filled[above] = max(filled[above], top[above])
        filled[above] += width[i]
    return top, top + width


def _best_trees(draws: SampledPosterior, credible_set: CredibleSet | None) -> list[dict[str, Any]]:
    """Return a dictionary for each of the up to three most probable trees drawn, for readers without JavaScript.

    It has the ``text`` of the tree, the ``fraction`` of the draws, the unnormalised ``log_posterior``, and as ``level``
    the posterior probability of all trees with a larger one, by ``credible_set``, or None without it.
    """
    log_posterior = ordering_log_posterior(draws, credible_set)
    order = np.argsort(-(draws.order_key_of_tree if log_posterior is None else log_posterior), kind="stable")
    order = order[:N_PRINTED_TREES]
    return rows_of_columns(
        text=[_first_lines(draws.distinct_tree(int(t)).format()) for t in order],
        fraction=draws.weight_of_tree[order],
        log_posterior=None if log_posterior is None else log_posterior[order],
        level=None
        if credible_set is None or log_posterior is None
        else [credible_set.level_at(float(log_posterior[t])) for t in order],
    )


def _first_lines(text: str) -> str:
    """Return the first MAX_TREE_LINES lines of the text of a tree, each truncated, and the number of lines left out."""
    lines = text.splitlines()
    more = len(lines) - MAX_TREE_LINES
    first_lines = [truncate(line, MAX_CONDITIONS_LENGTH) for line in lines[:MAX_TREE_LINES]]
    return "\n".join([*first_lines, f"... {more} more lines"] if more > 0 else first_lines)


def _uncertain_cells(draws: SampledPosterior, truth: Posterior | None) -> list[dict[str, Any]]:
    """Return a dictionary for each of up to 16 cells with probability nearest to one half, the most probable first.

    A cell is the set of training rows in a node, here of probability .05 or more. It has words, rows, probability with
    its standard error ``mcse``, ``ess`` and ``rhat``, the probability in each chain (``by_chain``), and the exact
    probability or None.
    """
    support = draws.support(0.05)
    order = np.argsort(-np.minimum(support.probability, 1.0 - support.probability), kind="stable")
    order = order[support.kind[order] == "cell"][:MAX_CELLS]
    order = np.array(sorted(order.tolist(), key=lambda i: -round(float(support.probability[i]), 9)), dtype=np.int64)
    return rows_of_columns(
        words=[truncate(with_signs(support.words[i]), MAX_CONDITIONS_LENGTH) for i in order],
        rows=support.rows[order],
        probability=support.probability[order],
        mcse=support.mcse[order],
        ess=support.ess[order],
        rhat=support.rhat[order],
        by_chain=support.by_chain[order],
        exact=_exact_cell_probabilities([support.key[i] for i in order], truth),
    )


def _diagnosis_content(draws: SampledPosterior) -> dict[str, Any]:
    """Return the numbers of the diagnosis of a run by name.

    They are the lines of `post.summary` (``rows``), the acceptance of the moves as text, effective sample sizes of
    trees (``tree_ess``), and the differences between chains in the frequencies of cells (``asdsf``).
    """
    table = draws.summary()
    rows = [
        {"name": truncate(name, MAX_CONDITIONS_LENGTH), **line} for name, line in table.to_dict(orient="index").items()
    ]
    acceptance = ", ".join(f"{name} {fraction:.3f}" for name, fraction in table.attrs["acceptance"].items())
    return {"rows": rows, "acceptance": acceptance, "tree_ess": draws.tree_ess(), "asdsf": draws.asdsf()}


def _traces(draws: SampledPosterior) -> list[dict[str, Any]]:
    """Return a dictionary for the log posterior and one for the number of leaves, at evenly spaced draws.

    It has the ``name``, the numbers of the ``draws`` (d,), and the values (up to 8 chains, d) as ``chains``.
    """
    at = evenly_spaced_integers(draws.n_draws, MAX_TRACE_POINTS)
    both = {"log posterior": draws.log_prior + draws.log_score, "number of leaves": draws.n_leaves}
    return [{"name": name, "draws": at, "chains": values[:MAX_TRACED_CHAINS, at]} for name, values in both.items()]


def _model_facts(post: Posterior, draws: SampledPosterior) -> list[tuple[str, str]]:
    """Return facts about the model and the run as pairs of a name and a text.

    ``post`` is the posterior of the report, and ``draws`` its draws: the same object if ``post`` is sampled.
    """
    model = draws.model
    facts = [
        ("data", words.data_line(model)),
        ("tree prior", repr(model.tree_prior)),
        ("split prior", repr(model.split_prior)),
        ("leaf", repr(model.leaf)),
    ]
    if draws is not post:
        facts.append(("posterior", repr(post)))
        evidence = "" if post.log_evidence is None else f"{post.log_evidence:.6f}"
    else:
        facts += _run_facts(draws)
        evidence = words.evidence_text(draws)
    if evidence:
        facts.append(("log evidence", evidence))
    drawn_with = [call.versions for call in draws.calls]
    facts += [
        ("versions", _versions_text(numbers)) for i, numbers in enumerate(drawn_with) if numbers not in drawn_with[:i]
    ]
    if versions() not in drawn_with:
        facts.append(("versions of this page" if drawn_with else "versions", _versions_text(versions())))
    return facts


def _run_facts(draws: SampledPosterior) -> list[tuple[str, str]]:
    """Return facts about a sampled run as pairs of a name and a text: draws, seed, moves, steps, best log posterior."""
    facts = [("draws", words.run_line(draws))]
    if draws.calls and draws.calls[0].seed is not None:
        facts.append(("seed", truncate(draws.calls[0].seed, MAX_CONDITIONS_LENGTH)))
    if draws.course is not None:
        facts.append(("moves", ", ".join(map(str, draws.course.kernel.count_names))))
        facts.append(("steps", f"{draws.course.steps} a chain after tuning, every {draws.course.thin} kept"))
    if draws.tempering is not None:
        facts.append(("inverse temperatures", str(draws.tempering.betas.shape[1])))
    if draws.sees_all_rows:
        facts.append(("best log posterior drawn", f"{words.best_log_posterior(draws):.3f} (unnormalised)"))
    return facts


def _call_lines(post: SampledPosterior) -> list[str]:
    """Return the lines of Python that make the draws again, with a remark if they cannot."""
    lines = [call.line for call in post.calls]
    if not all(call.repeatable for call in post.calls):
        lines.append("# not the same draws again: a call was interrupted, or a line cannot contain its arguments")
    return lines


def _versions_text(numbers: dict[str, str]) -> str:
    """Return the release numbers of packages, by name, as one line."""
    return ", ".join(f"{name} {number}" for name, number in numbers.items())
