"""The content of the report of a posterior, as a dictionary of numbers and texts that the template prints."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np

from ...core.checks import check_type, read_generator
from ...files.calls import versions
from ...model.model import class_index, lines_of_cells, prediction_names
from ...tree.tree import MAX_SHOWN_CLASSES
from ..convergence import check_convergence, verdict
from ..distribution import TreeDistribution, refuse_other_leaves
from ..inference_data import summary
from ..laws import has_values_by_leaf
from ..rows.dependence import Dependence, partial_dependence, rows_to_average
from ..trees.consensus import consensus_tree
from ..trees.credible_set import CredibleSet, credible_set
from ..trees.distances import evenly_spaced_integers, tree_ess
from ..trees.paths import (
    ALL_ROWS,
    Condition,
    beside_all_rows,
    condition_of,
    conditions_in_words,
    cut_words,
    interval_of_cut,
    path_to,
    stats_of_units,
    units_on_side,
)
from ..trees.shapes import MAX_CLASSES, Shape, or_missing, shapes, value_strips
from ..trees.support import asdsf, support
from . import words
from .trees import SMALLEST_FLOAT, CommonPaths, common_paths, ordering_log_posterior, trees_for_page
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
MAX_NAMED = 3
"""Largest number of features and of cuts in a sentence."""
N_COLORS = 7
"""Number of features with a colour of their own."""
WHOLE_POSTERIOR_COVERAGE = 0.95
"""Part of the posterior from which on values are reported as those of the whole."""
MAX_CURVE_ROWS, N_CURVE_DRAWS, MAX_CURVE_STEPS = 30, 100, 24
"""Numbers of rows and of draws of a curve, and the largest number of its steps."""
EFFECT_COVERAGE = 0.9
MIN_MONOTONE_AGREEMENT = 0.8
"""Smallest |sum of steps| / sum of |steps| of a monotone curve: nine tenths of its changes have one sign."""
MAX_FLAT_CHANGE = 0.02
"""Changes of a curve below this fraction of the largest range of a curve are called flat."""
NO_OBJECTION = "The chains agree: no criterion fails."


def report_content(post: TreeDistribution, truth: TreeDistribution | None, label: Any = None) -> dict[str, Any]:
    """Return all numbers and texts of the report, by the names that the template page.html uses."""
    refuse_other_leaves(post)
    sampled: Any = post._sampled(N_DRAWS, read_generator(0))
    is_sampled = post.draws is not None
    truth = check_truth(sampled, truth) if is_sampled or truth is not None else post
    paths = common_paths(sampled.draws, join_cuts=not has_path_probabilities(truth))
    source = post if truth is None else truth
    is_known = not np.isnan(sampled.draws.log_posterior_of_tree).any()
    has_order = sampled._odds_by_model and source._odds_by_model and is_known
    likely_trees = credible_set(source, SET_MASS) if has_order else None
    model = sampled.model
    # one order of classes everywhere, that of the model; the last of two classes stands for both
    names = [truncate(name, MAX_NAME_LENGTH) for name in prediction_names(model)]
    curve_columns = [1] if model.classes_ is not None and len(names) == 2 else list(range(len(names)))[:MAX_CLASSES]
    if label is not None:
        curve_columns = [class_index(model.classes_, label)]
    inclusion = _inclusion_rows(sampled, truth)
    effects = feature_effects(sampled, [line["feature"] for line in inclusion], curve_columns)
    shapes_drawn = shapes(sampled, most=1)
    # joined cells have no exact probabilities
    consensus = consensus_tree(post, draws=N_DRAWS, join_cuts=truth is None or truth is post)
    return {
        "data_line": words.data_line(model),
        "target": words.target_name(model),
        "run": words.run_line(sampled.draws) if is_sampled else f"{N_DRAWS} independent draws of {type(post).__name__}",
        "exact": None if truth is None else _exactness_text(truth),
        "verdict": _verdict_of_draws(sampled, truth) if is_sampled else _verdict_of_exact(post),
        "messages": [
            features_sentence(words.target_name(model), inclusion),
            first_cuts_sentence(shapes_drawn.shapes[0]),
            leaf_count_sentence(sampled, shapes_drawn.n_shapes),
        ],
        "shape": shapes_drawn.shapes[0],
        "leaf_intervals": "alone" if shapes_drawn.remark else "and leaf parameters",
        "shape_tree": _shape_tree(shapes_drawn.shapes[0], label),
        "curve_names": [names[j] for j in curve_columns],
        "sizes": _leaf_count_rows(sampled, truth),
        "inclusion": inclusion,
        "effects": effects,
        "consensus": consensus,
        "consensus_exact": None if truth is post else _exact_cell_probabilities(consensus.key, truth),
        "joined": not has_path_probabilities(truth),
        "paths": _path_rows(sampled, truth, paths, [line["feature"] for line in inclusion[:N_COLORS]]),
        "trees": trees_for_page(sampled.draws, likely_trees, paths),
        "credible_set": likely_trees,
        "n_drawn_trees": sampled.draws.n_distinct_trees,
        "best": _best_trees(sampled, likely_trees),
        "classes": None if model.classes_ is None else names,
        "predicts": has_values_by_leaf(model),
        "support": _uncertain_cells(sampled, truth),
        "diagnosis": _diagnosis_content(sampled) if is_sampled else None,
        "traces": _traces(sampled) if is_sampled else [],
        "n_chains": sampled.n_chains,
        "facts": [(name, truncate(value, MAX_CALL_LENGTH)) for name, value in _model_facts(post, sampled)],
        "calls": [truncate(line, MAX_CALL_LENGTH) for line in _call_lines(sampled)],
    }


def rows_of_columns(**columns: Any) -> list[dict[str, Any]]:
    """Return a list of rows from ``columns`` of equal length: a dictionary, by name of the column, for each entry."""
    m = max(len(column) for column in columns.values() if column is not None)
    lists = [[None] * m if column is None else column for column in columns.values()]
    # JSON knows Python's numbers only
    lists = [column.tolist() if isinstance(column, np.ndarray) else column for column in lists]
    return [dict(zip(columns, values, strict=True)) for values in zip(*lists, strict=True)]


def check_truth(sampled: Any, truth: Any) -> TreeDistribution | None:
    """Return ``truth`` if it is None or an exact posterior of the model of the draws. Otherwise raise an error."""
    if truth is None:
        return None
    check_type("truth", truth, TreeDistribution, "an exact posterior of the same model, or None")
    if truth.draws is not None:
        raise TypeError(f"truth is a {type(truth).__name__}, draws too; give an exact posterior of the same model.")
    one, other = sampled.model, truth.model
    same = repr(one) == repr(other) and one.columns.names == other.columns.names
    if not (same and np.array_equal(one.units.codes, other.units.codes)):
        raise ValueError("truth is of another model than the draws; give an exact posterior of the same model.")
    return truth


def _exactness_text(truth: TreeDistribution) -> str:
    """Return the words that say whether the values of ``truth`` are those of all trees, or of which part of them."""
    coverage = getattr(truth, "coverage", 1.0)
    if coverage == 1.0:
        return "exact values"
    fraction = "" if coverage is None else f", {coverage:.3f} of the posterior"
    return f"values exact for the trees made of the pieces drawn{fraction}"


def _verdict_of_exact(post: TreeDistribution) -> dict[str, Any]:
    """Return the verdict on an exact posterior, in the form of `_verdict_of_draws`."""
    coverage = getattr(post, "coverage", 1.0)
    is_nearly_all = coverage is not None and coverage >= WHOLE_POSTERIOR_COVERAGE
    head = "Nothing here depends on a chain." if is_nearly_all else "These values are of a part of the posterior."
    lines = [f"Ticks are {_exactness_text(post)}; paths and trees are of {N_DRAWS} independent draws."]
    return {"level": "good" if is_nearly_all else "doubt", "head": head, "lines": lines, "figures": []}


def _verdict_of_draws(sampled: Any, truth: TreeDistribution | None) -> dict[str, Any]:
    """Return a dictionary that says if the draws can be trusted."""
    objections = check_convergence(sampled)
    figures = [line for line in objections[1:] if re.search(r": R-hat |^and .* more of ", line)]
    lines = [line for line in objections if line not in figures] or verdict(sampled).split("\n  ")
    head = objections[0] if objections else NO_OBJECTION
    lines = [line[:1].upper() + line[1:] for line in lines if line != head]
    if truth is not None:
        fraction, exact = _pad_to_one_length(sampled.n_leaves_pmf(), truth.n_leaves_pmf())
        distance = 0.5 * np.abs(fraction - exact).sum()
        lines.append(f"Total variation between drawn and exact distribution of the number of leaves: {distance:.3f}.")
    lines, figures = ([truncate(line, MAX_CONDITIONS_LENGTH) for line in part] for part in (lines, figures))
    return {"level": "doubt" if objections else "good", "head": head, "lines": lines, "figures": figures}


def _pad_to_one_length(*distributions: np.ndarray) -> list[np.ndarray]:
    """Return probabilities over 0, 1, ... with zeros at the end, so that all arrays have the length of the longest."""
    size = max(map(len, distributions))
    return [np.pad(pmf, (0, size - len(pmf))) for pmf in distributions]


def _leaf_count_rows(sampled: Any, truth: TreeDistribution | None) -> list[dict[str, Any]]:
    """Return a dictionary for each of the likely numbers of leaves, in ascending order."""
    pmfs = _pad_to_one_length(*(post.n_leaves_pmf() for post in (sampled, truth) if post is not None))
    largest = np.max(pmfs, axis=0)
    likely_sizes = np.flatnonzero(largest >= MIN_LISTED_PROBABILITY)
    likely_sizes = np.sort(likely_sizes[np.argsort(-largest[likely_sizes], kind="stable")][:MAX_SIZES])
    exact = None if truth is None else pmfs[1][likely_sizes]
    return rows_of_columns(leaves=likely_sizes, probability=pmfs[0][likely_sizes], exact=exact)


def _inclusion_rows(sampled: Any, truth: TreeDistribution | None) -> list[dict[str, Any]]:
    """Return a dictionary for each of up to 12 features that some drawn tree splits on, the most probable first."""
    fraction = sampled._feature_inclusion()
    order = np.argsort(-fraction, kind="stable")[:MAX_FEATURES]
    order = order[fraction[order] > 0.0]
    weight, feature = sampled.draws.weight_of_tree, sampled.draws.root_feature_of_tree
    root = np.bincount(feature + 1, weights=weight, minlength=len(fraction) + 1)[1:]
    return rows_of_columns(
        feature=order,
        name=[truncate(sampled.model.columns.names[k], MAX_NAME_LENGTH) for k in order],
        probability=fraction[order],
        at_root=root[order],
        exact=None if truth is None else truth._feature_inclusion()[order],
    )


def _shape_tree(shape: Shape, label: Any) -> dict[str, Any]:
    """Return the nodes of a shape as nested dictionaries."""
    leaves, strips = shape.leaves.groupby("node").first(), value_strips(shape, label)

    def subtree(node: int) -> tuple[dict[str, Any], int]:
        """Return a node, and the number of the first node after its subtree."""
        if node in strips:
            text = leaves["words"][node] if "words" in leaves else ""
            return {"rows": float(leaves["rows"][node]), "strips": strips[node], "words": text}, node + 1
        yes, after = subtree(node + 1)
        no, after = subtree(after)
        return {"words": with_signs(shape.splits.loc[node, "words"]), "children": [yes, no]}, after

    return subtree(0)[0]


def _exact_cell_probabilities(keys: list[tuple[int, ...]], truth: TreeDistribution | None) -> list[float] | None:
    """Return the exact probabilities of the cells with these ``keys`` (of `Support`), 0 for a cell that no tree has."""
    if truth is None or truth._cells is None:
        return None
    return truth._cells.probability_of(np.array(keys, dtype=np.uint64).reshape(-1, 2)).tolist()


def _path_rows(sampled: Any, truth: TreeDistribution | None, paths: CommonPaths, colours: list[int]) -> list[dict]:
    """Return a dictionary for each decision path."""
    exact = None
    if truth is not None and truth._cells is not None:
        exact = truth._cells.path_probability(paths.parent, sampled.draws.cells.key[paths.cell])
    model, condition, conditions = sampled.model, [ALL_ROWS], [ALL_ROWS]
    # the units (merged rows) that satisfy the printed conditions, which are not those of one tree if cuts are joined
    is_inside_path = [np.ones(model.units.n_units, dtype=np.bool_)]
    for i, parent in enumerate(paths.parent[1:].tolist(), 1):
        last, text = _last_condition(sampled, paths, i)
        condition.append(text)
        conditions.append(f"{conditions[parent]}, {text}" if parent > 0 else text)
        is_inside_path.append(is_inside_path[parent] & units_on_side(model, last))
    rows = np.array([model.weight_of_unit[is_inside].sum() for is_inside in is_inside_path])
    n_stats = sampled.draws.place_stats.shape[1]
    stats = np.array([stats_of_units(model, is_inside, n_stats) for is_inside in is_inside_path])
    feature = sampled.draws.distinct_trees.feature[paths.above].tolist()
    colour = [colours.index(k) if k in colours else N_COLORS for k in feature]
    predictions = lines_of_cells(model, stats, MAX_SHOWN_CLASSES)
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
        rows=rows / max(float(rows[0]), SMALLEST_FLOAT),
        value=[truncate(", ".join(lines), MAX_CONDITIONS_LENGTH) for lines in predictions],
        top=top,
        bottom=bottom,
    )


def has_path_probabilities(truth: TreeDistribution | None) -> bool:
    """Return True for an exact posterior that knows the probability of every path."""
    return truth is not None and truth._cells is not None


def _last_condition(sampled: Any, paths: CommonPaths, i: int) -> tuple[Condition, str]:
    """Return the condition of the last split of path ``i`` > 0, of joined cuts with their median, and its text."""
    trees, between, columns = sampled.draws.distinct_trees, sampled.draws.node_between, sampled.model.columns
    node, above, (middle, lower, upper) = int(paths.node[i]), int(paths.above[i]), paths.cut[i].tolist()
    last = condition_of(trees, between, above, node == above + 1)
    if lower < upper:
        last = beside_all_rows(sampled.model, last._replace(threshold=middle))
        ends = interval_of_cut(sampled.model, last.feature, lower, upper)
        text = f"{columns.names[last.feature]} {cut_words(columns, last, ends)}"
        text += " or missing" * (last.feature in columns.twins and last.missing_left == last.left)
    else:
        before = path_to(trees, between, int(sampled.draws.cells.tree_of_node[node]), above)
        text = conditions_in_words(columns, [last], [one for _, one in before])
    return last, with_signs(text)


def icicle_ends(paths: CommonPaths) -> tuple[np.ndarray, np.ndarray]:
    """Return the upper and lower ends (m,) of the boxes of an icicle, one for each path, as fractions of its height."""
    top, filled = np.zeros(len(paths.parent)), np.zeros(len(paths.parent))
    width = paths.width
    for i in range(1, len(top)):
        above = int(paths.parent[i])
        top[i] = filled[above] = max(filled[above], top[above])
        filled[above] += width[i]
    return top, top + width


def _best_trees(sampled: Any, credible_set: CredibleSet | None) -> list[dict[str, Any]]:
    """Return a dictionary for each of the up to three most probable trees drawn, for readers without JavaScript."""
    log_posterior = ordering_log_posterior(sampled.draws, credible_set)
    order = np.argsort(-(sampled.draws.order_key_of_tree if log_posterior is None else log_posterior), kind="stable")
    order = order[:N_PRINTED_TREES]
    return rows_of_columns(
        text=[_first_lines(sampled.draws.distinct_tree(int(t)).format()) for t in order],
        fraction=sampled.draws.weight_of_tree[order],
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


def _uncertain_cells(sampled: Any, truth: TreeDistribution | None) -> list[dict[str, Any]]:
    """Return a dictionary for each of up to 16 cells with probability nearest to one half, the most probable first."""
    listed = support(sampled, 0.05)
    order = np.argsort(-np.minimum(listed.probability, 1.0 - listed.probability), kind="stable")
    order = order[listed.kind[order] == "cell"][:MAX_CELLS]
    order = np.array(sorted(order.tolist(), key=lambda i: -round(float(listed.probability[i]), 9)), dtype=np.int64)
    return rows_of_columns(
        words=[truncate(with_signs(listed.words[i]), MAX_CONDITIONS_LENGTH) for i in order],
        rows=listed.rows[order],
        probability=listed.probability[order],
        mcse=listed.mcse[order],
        ess=listed.ess[order],
        rhat=listed.rhat[order],
        by_chain=listed.by_chain[order],
        exact=_exact_cell_probabilities([listed.key[i] for i in order], truth),
    )


def _diagnosis_content(sampled: Any) -> dict[str, Any]:
    """Return the numbers of the diagnosis of a run by name."""
    table = summary(sampled)
    rows = [{"name": truncate(name, MAX_CONDITIONS_LENGTH), **line} for name, line in table.to_dict("index").items()]
    acceptance = ", ".join(f"{name} {fraction:.3f}" for name, fraction in table.attrs["acceptance"].items())
    return {"rows": rows, "acceptance": acceptance, "tree_ess": tree_ess(sampled), "asdsf": asdsf(sampled)}


def _traces(sampled: Any) -> list[dict[str, Any]]:
    """Return a dictionary for the log posterior and one for the number of leaves, at evenly spaced draws."""
    at = evenly_spaced_integers(sampled.n_draws, MAX_TRACE_POINTS)
    both = {"log posterior": sampled.log_prior + sampled.log_score, "number of leaves": sampled.n_leaves}
    return [{"name": name, "draws": at, "chains": values[:MAX_TRACED_CHAINS, at]} for name, values in both.items()]


def _model_facts(post: TreeDistribution, sampled: Any) -> list[tuple[str, str]]:
    """Return facts about the model and the run as pairs of a name and a text."""
    model = sampled.model
    parts = {"tree prior": model.tree_prior, "split prior": model.split_prior, "leaf": model.leaf}
    facts = [("data", words.data_line(model)), *((name, repr(part)) for name, part in parts.items())]
    if sampled is not post:
        facts.append(("posterior", repr(post)))
        evidence = "" if post.log_evidence is None else f"{post.log_evidence:.6f}"
    else:
        facts += _run_facts(sampled)
        evidence = words.evidence_text(sampled)
    if evidence:
        facts.append(("log evidence", evidence))
    drawn_with = [call.versions for call in sampled.draws.calls]
    facts += [("versions", _versions_text(one)) for i, one in enumerate(drawn_with) if one not in drawn_with[:i]]
    if versions() not in drawn_with:
        facts.append(("versions of this page" if drawn_with else "versions", _versions_text(versions())))
    return facts


def _run_facts(sampled: Any) -> list[tuple[str, str]]:
    """Return facts about a sampled run as pairs of a name and a text: draws, seed, moves, steps, best log posterior."""
    facts = [("draws", words.run_line(sampled.draws))]
    if sampled.draws.calls and sampled.draws.calls[0].seed is not None:
        facts.append(("seed", truncate(sampled.draws.calls[0].seed, MAX_CONDITIONS_LENGTH)))
    if sampled.course is not None:
        facts.append(("moves", ", ".join(map(str, sampled.course.kernel.count_names))))
        facts.append(("steps", f"{sampled.course.steps} a chain after tuning, every {sampled.course.thin} kept"))
    if sampled.draws.tempering is not None:
        facts.append(("inverse temperatures", str(sampled.draws.tempering.betas.shape[1])))
    if sampled.draws.sees_all_rows:
        best = float(sampled.draws.log_posterior_of_tree.max())
        facts.append(("best log posterior drawn", f"{best:.3f} (unnormalised)"))
    return facts


def _call_lines(post: Any) -> list[str]:
    """Return the lines of Python that make the draws again, with a remark if they cannot."""
    lines = [call.line for call in post.draws.calls]
    if not all(call.repeatable for call in post.draws.calls):
        lines.append("# not the same draws again: a call was interrupted, or a line cannot contain its arguments")
    return lines


def _versions_text(numbers: dict[str, str]) -> str:
    """Return the release numbers of packages, by name, as one line."""
    return ", ".join(f"{name} {number}" for name, number in numbers.items())


def features_sentence(target: str, inclusion: list[dict[str, Any]]) -> str:
    """Return a sentence that names up to three features in at least half of the trees, the most probable first."""
    frequent = [line for line in inclusion if line["probability"] >= 0.5]
    if not frequent:
        return f"No feature is in half of the trees for {target}."
    named = [f"{line['name']} ({words.probability_text(line['probability'])})" for line in frequent[:MAX_NAMED]]
    if len(frequent) > MAX_NAMED:
        named.append(f"{len(frequent) - MAX_NAMED} more")
    listed = ", ".join(named[:-1]) + " and " * (len(named) > 1) + named[-1]
    verb = "decides" if len(named) == 1 else "decide"
    return f"{listed} {verb} {target}. In brackets is the probability that a tree splits on the feature."


def first_cuts_sentence(shape: Shape) -> str:
    """Return a sentence with up to three cuts of ordered features nearest the root of a shape, and their intervals."""
    cuts = []
    for line in shape.splits.sort_values("depth", kind="stable").itertuples():
        if np.isfinite(line.cut):
            name = truncate(line.feature, MAX_NAME_LENGTH)
            # a cut is named without the side of missing values
            condition = line.words.removeprefix(f"{line.feature} ").removesuffix(or_missing(line.missing_left))
            interval = re.fullmatch(r"<= (.+) \[(.+), (.+)\]", condition)
            if interval:
                cuts.append("{} at {}, uncertain between {} and {}".format(name, *interval.groups()))
            else:
                # truth values have no "<="
                at = f"at {condition.removeprefix('<= ')}" if condition.startswith("<= ") else condition
                cuts.append(f"{name} {at}")
    probability = words.probability_text(shape.probability)
    if not cuts:
        return f"The most probable shape, {probability} of the posterior, has no cut of a number."
    verb = "the cut is" if len(cuts) == 1 else "the first cuts are"
    return f"In the most probable shape, {probability} of the posterior, {verb}: {'; '.join(cuts[:MAX_NAMED])}."


def leaf_count_sentence(post: TreeDistribution, n_shapes: int) -> str:
    """Return sentences with the 90 % range of the number of leaves, and the number of shapes if there are several."""
    pmf = post.n_leaves_pmf()
    low, high = (int(np.searchsorted(np.cumsum(pmf), q - 1e-12)) for q in (0.05, 0.95))
    span = f"{low}" if low == high else f"{low} to {high}"
    probability_text = words.probability_text(float(pmf[low : high + 1].sum()))
    text = f"A tree has {span} {'leaf' if span == '1' else 'leaves'} with probability {probability_text}."
    return f"{text} The draws have {n_shapes} shapes in all." if n_shapes > 1 else text


class FeatureEffect(NamedTuple):
    """Effect of one feature on the predictions."""

    dependence: Dependence
    """Mean predictions at the values of the feature, with the interval of each."""
    directions: list[str]
    """"increasing", "decreasing", "not monotone", "flat", or "-" for a nominal feature, for each curve."""


def feature_effects(post: TreeDistribution, features: list[int], columns: list[int]) -> list[FeatureEffect]:
    """Return the effects of some ``features`` (indices) on the ``columns`` of predictions, one for each class."""
    model = post.model
    if not model.leaf.predicts:
        return []
    rows = rows_to_average(model, None, MAX_CURVE_ROWS)
    settings = rows, EFFECT_COVERAGE, N_CURVE_DRAWS, 0, MAX_CURVE_STEPS, columns
    curves = [partial_dependence(post, k, *settings) for k in features]
    ranges = np.max([np.ptp(one.mean, axis=0) for one in curves] or [np.zeros(len(columns))], axis=0)
    out = []
    for k, curve in zip(features, curves, strict=True):
        directions = [direction_of(curve.mean[:, j], ranges[j]) for j in range(len(columns))]
        if model.columns.is_nominal[k]:
            directions = [words.NOT_KNOWN_TEXT] * len(columns)
        out.append(FeatureEffect(curve, directions))
    return out


def direction_of(curve: np.ndarray, largest_range: float) -> str:
    """Return "increasing", "decreasing", "not monotone" or "flat" for a curve (m,) of mean predictions."""
    steps = np.diff(curve)
    total = float(np.abs(steps).sum())
    if total <= MAX_FLAT_CHANGE * largest_range:
        return "flat"
    if abs(float(steps.sum()) / total) < MIN_MONOTONE_AGREEMENT:
        return "not monotone"
    return "increasing" if steps.sum() > 0.0 else "decreasing"


def curves_in_boxes(effects: list[FeatureEffect], width: float, height: float) -> list[list[dict[str, Any]]]:
    """Return the curves of each feature, one for each class, for a box of this size in pixels."""
    if not effects:
        return []
    low = np.min([one.dependence.lower.min(axis=0) for one in effects], axis=0)
    high = np.max([one.dependence.upper.max(axis=0) for one in effects], axis=0)
    span = np.where(high > low, high - low, 1.0)
    out = []
    for one in effects:
        curve, edges = one.dependence, one.dependence.axis.edges
        x = width * (edges - edges[0]) / (edges[-1] - edges[0])
        lower, mean, upper = (height * (high - part) / span for part in (curve.lower, curve.mean, curve.upper))
        boxes = []
        for j, direction in enumerate(one.directions):
            # from left to right along the upper end, and back along the lower one
            band = f"M{_step_path(x, upper[:, j])}L{_step_path(x[::-1], lower[::-1, j])}Z"
            ends = (float(curve.mean[:, j].min()), float(curve.mean[:, j].max()))
            line = f"M{_step_path(x, mean[:, j])}"
            boxes.append({"band": band, "line": line, "direction": direction, "ends": ends})
        out.append(boxes)
    return out


def _step_path(x: np.ndarray, y: np.ndarray) -> str:
    """Return a step function with heights ``y`` (m,) between the ends ``x`` (m + 1,) as part of an SVG path."""
    first = f"{x[0]:.0f} {y[0]:.1f}"
    return first + "".join(f"V{height:.1f}H{end:.0f}" for height, end in zip(y, x[1:], strict=True))
