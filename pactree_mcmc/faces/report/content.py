"""The content of the report of a posterior, as a dictionary of numbers and texts that the template prints."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from ...core.checks import check_type
from ...files.calls import versions
from ...model.words import lines_of_cells, output_names
from ...posterior.base import Posterior
from ...posterior.convergence import check_convergence, verdict
from ...posterior.draws import has_values_by_leaf
from ...posterior.sampled import SampledPosterior, draws_from
from ...posterior.trees.credible_set import CredibleSet
from ...posterior.trees.distances import classical_scaling, spaced
from ...posterior.trees.paths import ALL_ROWS, condition_of, conditions_in_words, cut_text, cut_words, path_to
from ...posterior.trees.shapes import Shape
from ...table.columns import Columns
from ...table.words import TRUTH
from ...tree.export import MOST_CLASSES
from ..plots.shape import MOST_OUTPUTS, strips_of
from . import words
from .effects import Effect, effects_of
from .trees import Paths, common_paths, order_of_trees, trees_for_page
from .words import LONGEST_NAME, cut, nice

DRAWS = 1000
"""Number of trees drawn from a posterior that is not sampled."""
MASS = 0.95
"""Probability of the credible set."""
N_FEATURES, N_SIZES, N_SUPPORT = 12, 24, 16
"""Largest numbers of features, of sizes and of cells listed."""
LEAST_PROBABILITY = 0.005
"""Smallest probability of a number of leaves that is listed."""
LONGEST, LONGEST_CALL, MOST_LINES = 240, 2000, 80
"""Largest numbers of characters of a path and of a call, and of lines of a tree."""
N_BEST = 3
"""Number of trees printed."""
N_NAMED = 3
"""Largest number of features and of cuts in a message."""
N_TRACE, N_CHAINS = 160, 8
"""Largest numbers of points of a trace, and of chains traced."""
PALETTE = 7
"""Number of features with a colour of their own."""
NEARLY_ALL = 0.95
"""Part of the posterior from which on values are reported as those of the whole."""
NO_OBJECTION = "The chains agree: no criterion fails."


def report_content(post: Posterior, truth: Posterior | None, command: str | None) -> dict[str, Any]:
    """Return all numbers and texts of the report.

    Trees are drawn from a posterior that is not sampled. ``truth`` is an exact posterior of the same model, whose
    values are shown beside those of the draws, ``command`` the line that makes the report again.
    """
    draws = draws_from(post, DRAWS, 0, that_predict=True)
    is_sampled = draws is post
    truth = check_truth(draws, truth) if is_sampled or truth is not None else post
    paths = common_paths(draws, join_cuts=not has_path_probabilities(truth))
    modes = draws.modes()
    mode_of_tree = np.zeros(draws.n_distinct_trees, dtype=np.int64)
    for i, mode in enumerate(modes.modes):
        mode_of_tree[mode.trees] = i
    source = post if truth is None else truth
    has_order = draws.sees_all_rows and source.sees_all_rows and not np.isnan(draws.log_posterior_of_tree).any()
    credible_set = source.credible_set(MASS) if has_order else None
    model = draws.model
    # one order of classes everywhere, that of the model; the last of two classes stands for both
    names = [cut(name, LONGEST_NAME) for name in output_names(model)] if model.leaf.predicts else []
    shown = [1] if model.classes_ is not None and len(names) == 2 else list(range(len(names)))[:MOST_OUTPUTS]
    inclusion = _inclusion(draws, truth)
    effects = effects_of(draws, [line["feature"] for line in inclusion], shown)
    shapes = draws.shapes(most=1)
    # joined cells have no exact probabilities
    consensus = post.consensus_tree(draws=DRAWS, join_cuts=truth is None or truth is post)
    return {
        "data_line": words.data_line(model),
        "target": words.target_name(model),
        "run": words.run_line(draws) if is_sampled else f"{DRAWS} independent draws of {type(post).__name__}",
        "exact": None if truth is None else _exactness(truth),
        "verdict": _verdict_of_draws(draws, truth) if is_sampled else _verdict_of_exact(post),
        "messages": [
            _deciding_features(words.target_name(model), inclusion, effects),
            _first_cuts(model.columns, shapes.shapes[0]),
            _sizes_in_words(draws, shapes.n_shapes, len(modes.modes)),
        ],
        "shape": shapes.shapes[0],
        "shape_tree": _shape_tree(shapes.shapes[0]),
        "outputs": [names[j] for j in shown],
        "n_outputs": len(names),
        "sizes": _sizes(draws, truth),
        "inclusion": inclusion,
        "effects": effects,
        "consensus": consensus,
        "consensus_exact": None if truth is post else _exact_at(consensus.key, truth),
        "joined": not has_path_probabilities(truth),
        "paths": _paths(draws, truth, paths, [line["feature"] for line in inclusion[:PALETTE]]),
        "trees": trees_for_page(draws, credible_set, paths, mode_of_tree),
        "credible_set": credible_set,
        "n_drawn_trees": int((draws.weight_of_tree > 0.0).sum()),
        "best": _best(draws, credible_set),
        "classes": None if model.classes_ is None else names,
        "names": names,
        "predicts": has_values_by_leaf(model),
        "modes": modes,
        "mode_trees": [_first_lines(mode.tree.format()) for mode in modes.modes],
        "map": _map(draws, paths, mode_of_tree),
        "support": _support(draws, truth),
        "diagnosis": _diagnosis(draws) if is_sampled else None,
        "traces": _traces(draws) if is_sampled else [],
        "n_chains": draws.n_chains,
        "facts": [(name, cut(value, LONGEST_CALL)) for name, value in _facts(post, draws)],
        "calls": [cut(line, LONGEST_CALL) for line in _calls(draws)],
        "command": command,
    }


def records(**columns: Any) -> list[dict[str, Any]]:
    """Return one dictionary for each entry of columns of equal length. A column that is None has no values."""
    m = max(len(column) for column in columns.values() if column is not None)
    lists = [[None] * m if column is None else column for column in columns.values()]
    # JSON knows Python's numbers only
    lists = [column.tolist() if isinstance(column, np.ndarray) else column for column in lists]
    return [dict(zip(columns, values, strict=True)) for values in zip(*lists, strict=True)]


def check_truth(draws: SampledPosterior, truth: Any) -> Posterior | None:
    """Raise an error if ``truth`` is not an exact posterior of the model of the draws, or None."""
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


def _exactness(truth: Posterior) -> str:
    coverage = getattr(truth, "coverage", 1.0)
    if coverage == 1.0:
        return "exact values"
    fraction = "" if coverage is None else f", {coverage:.3f} of the posterior"
    return f"values exact for the trees made of the pieces drawn{fraction}"


def _verdict_of_exact(post: Posterior) -> dict[str, Any]:
    coverage = getattr(post, "coverage", 1.0)
    whole = coverage is not None and coverage >= NEARLY_ALL
    head = "Nothing here depends on a chain." if whole else "These values are of a part of the posterior."
    lines = [f"Ticks are {_exactness(post)}; paths, trees and the map are of {DRAWS} independent draws."]
    return {"level": "good" if whole else "doubt", "head": head, "lines": lines, "figures": []}


def _verdict_of_draws(draws: SampledPosterior, truth: Posterior | None) -> dict[str, Any]:
    """Return a heading that says if the draws can be trusted, and the reasons."""
    objections = check_convergence(draws)
    figures = [line for line in objections[1:] if re.search(r": R-hat |^and .* more of ", line)]
    lines = [line for line in objections if line not in figures] or verdict(draws).split("\n  ")
    head = "Do not rely on these draws yet." if objections else NO_OBJECTION
    if objections and objections[0].startswith("too few draws"):
        head = "There are too few draws to judge."
    lines = [line[:1].upper() + line[1:] for line in lines]
    if truth is not None:
        drawn, exact = _padded(draws.n_leaves_pmf(), truth.n_leaves_pmf())
        distance = 0.5 * np.abs(drawn - exact).sum()
        lines.append(f"Total variation between drawn and exact distribution of the number of leaves: {distance:.3f}.")
    texts = {"lines": [cut(line, LONGEST) for line in lines], "figures": [cut(line, LONGEST) for line in figures]}
    return {"level": "doubt" if objections else "good", "head": head, **texts}


def _padded(*distributions: np.ndarray) -> list[np.ndarray]:
    """Return distributions over 0, 1, ... with zeros at the end, so that they have one length."""
    size = max(map(len, distributions))
    return [np.pad(pmf, (0, size - len(pmf))) for pmf in distributions]


def _sizes(draws: SampledPosterior, truth: Posterior | None) -> list[dict[str, Any]]:
    pmfs = _padded(*(post.n_leaves_pmf() for post in (draws, truth) if post is not None))
    largest = np.max(pmfs, axis=0)
    shown = np.flatnonzero(largest >= LEAST_PROBABILITY)
    shown = np.sort(shown[np.argsort(-largest[shown], kind="stable")][:N_SIZES])
    return records(leaves=shown, probability=pmfs[0][shown], exact=None if truth is None else pmfs[1][shown])


def _inclusion(draws: SampledPosterior, truth: Posterior | None) -> list[dict[str, Any]]:
    drawn = draws._feature_inclusion()
    order = np.argsort(-drawn, kind="stable")[:N_FEATURES]
    order = order[drawn[order] > 0.0]
    root = np.bincount(draws.root_feature_of_tree + 1, weights=draws.weight_of_tree, minlength=len(drawn) + 1)[1:]
    return records(
        feature=order,
        name=[cut(draws.model.columns.names[k], LONGEST_NAME) for k in order],
        probability=drawn[order],
        at_root=root[order],
        exact=None if truth is None else truth._feature_inclusion()[order],
    )


def _shape_tree(shape: Shape) -> dict[str, Any]:
    """Return the nodes of a shape as nested dictionaries.

    A split has ``words`` and two ``children``. A leaf has ``rows``, ``strips``, its outputs with their intervals, and
    ``words``, its prediction if this depends on columns of X, else an empty text.
    """
    leaves, strips = shape.leaves.groupby("node").first(), strips_of(shape)

    def subtree(node: int) -> tuple[dict[str, Any], int]:
        """Return a node, and the number of the first node after its subtree."""
        if node in strips:
            text = leaves["words"][node] if "words" in leaves else ""
            return {"rows": float(leaves["rows"][node]), "strips": strips[node], "words": text}, node + 1
        yes, after = subtree(node + 1)
        no, after = subtree(after)
        return {"words": nice(shape.splits.loc[node, "words"]), "children": [yes, no]}, after

    return subtree(0)[0]


def _exact_at(keys: list[tuple[int, ...]], truth: Posterior | None) -> list[float] | None:
    """Return the exact probabilities of cells, or None if ``truth`` is None or would have to draw for them."""
    if truth is None or not hasattr(truth, "path_probabilities"):
        return None
    support = truth.support(0.0)
    probability = dict(zip(support.key, support.probability.tolist(), strict=True))
    return [probability.get(key, 0.0) for key in keys]


def _paths(draws: SampledPosterior, truth: Posterior | None, paths: Paths, colours: list[int]) -> list[dict[str, Any]]:
    """Return the decision paths, each with its last condition, all conditions, and the ends of its box."""
    exact = None
    if has_path_probabilities(truth):
        exact = truth.path_probabilities(draws, paths.cell, paths.parent)  # type: ignore[union-attr]
    condition = _conditions(draws, paths)
    conditions: list[str] = []
    for parent, text in zip(paths.parent.tolist(), condition, strict=True):
        conditions.append(f"{conditions[parent]}, {text}" if parent > 0 else text)
    feature = draws.distinct_trees.feature[paths.above].tolist()
    colour = [colours.index(k) if k in colours else PALETTE for k in feature]
    predictions = lines_of_cells(draws.model, draws.node_stats[paths.node], MOST_CLASSES)
    top, bottom = layout(paths)
    return records(
        parent=paths.parent,
        depth=paths.depth,
        condition=condition,
        conditions=[cut(text, LONGEST) for text in conditions],
        colour=[-1, *colour[1:]],
        probability=paths.probability,
        mcse=paths.mcse,
        exact=exact,
        stops=paths.stops,
        rows=paths.rows,
        value=[cut(", ".join(lines), LONGEST) for lines in predictions],
        top=top,
        bottom=bottom,
    )


def has_path_probabilities(truth: Posterior | None) -> bool:
    """Return True for an exact posterior that knows the probability of every path."""
    return hasattr(truth, "path_probabilities")


def _conditions(draws: SampledPosterior, paths: Paths) -> list[str]:
    """Return the last condition of each path; a cut that differs between trees is its median, with its interval."""
    trees, between, columns = draws.distinct_trees, draws.node_between, draws.model.columns
    out = [ALL_ROWS]
    for i in range(1, len(paths.node)):
        node, above, (middle, lower, upper) = int(paths.node[i]), int(paths.above[i]), paths.cut[i].tolist()
        last = condition_of(trees, between, above, node == above + 1)
        if lower < upper:
            text = f"{columns.names[last.feature]} {cut_words(columns, last._replace(threshold=middle), lower, upper)}"
            text += " or missing" * (last.feature in columns.twins and last.missing_left == last.left)
        else:
            before = path_to(trees, between, int(draws.cells.tree_of_node[node]), above)
            text = conditions_in_words(columns, [last], [one for _, one in before])
        out.append(nice(text))
    return out


def layout(paths: Paths) -> tuple[np.ndarray, np.ndarray]:
    """Return the upper and lower ends (m,) of the boxes of an icicle, between 0 and 1.

    A box has the height `Paths.width`; the first child of a path begins where the path begins, and the others follow.
    """
    top, filled = np.zeros(len(paths.parent)), np.zeros(len(paths.parent))
    width = paths.width
    for i in range(1, len(top)):
        above = int(paths.parent[i])
        top[i] = filled[above] = max(filled[above], top[above])
        filled[above] += width[i]
    return top, top + width


def _best(draws: SampledPosterior, credible_set: CredibleSet | None) -> list[dict[str, Any]]:
    """Return the most probable trees drawn, for readers without JavaScript."""
    log_posterior = order_of_trees(draws, credible_set)
    log_posterior = np.where(draws.weight_of_tree > 0.0, log_posterior, -np.inf)
    order = np.argsort(-log_posterior, kind="stable")[:N_BEST]
    order = order[log_posterior[order] > -np.inf]
    return records(
        text=[_first_lines(draws.distinct_tree(int(t)).format()) for t in order],
        fraction=draws.weight_of_tree[order],
        log_posterior=log_posterior[order],
        level=None if credible_set is None else [credible_set.level_at(float(log_posterior[t])) for t in order],
    )


def _first_lines(text: str) -> str:
    lines = text.splitlines()
    more = len(lines) - MOST_LINES
    shown = [cut(line, LONGEST) for line in lines[:MOST_LINES]]
    return "\n".join([*shown, f"... {more} more lines"] if more > 0 else shown)


def _map(draws: SampledPosterior, paths: Paths, mode_of_tree: np.ndarray) -> dict[str, Any]:
    """Return a map of up to 400 draws by tree distance, equal trees of a chain as one point."""
    distances = draws.tree_distances()
    place, part = classical_scaling(distances.matrix)
    span = float(np.ptp(place, axis=0).max()) or 1.0
    place = 0.5 + (place - (place.max(axis=0) + place.min(axis=0)) / 2.0) / span
    both = np.array([distances.chain, distances.tree])
    (chain, tree), first, count = np.unique(both, axis=1, return_index=True, return_counts=True)
    offset = draws.coded_trees.offset
    points = records(
        x=place[first, 0],
        y=place[first, 1],
        chain=chain,
        tree=tree,
        mode=mode_of_tree[tree],
        draws=count,
        paths=[sorted({*paths.of_node[offset[t] : offset[t + 1]].tolist()} - {-1, 0}) for t in tree],
    )
    return {"points": points, "fraction": float(part.sum()) if part.any() else 1.0, "draws": len(distances.tree)}


def _support(draws: SampledPosterior, truth: Posterior | None) -> list[dict[str, Any]]:
    """Return the cells about which trees differ most, the most probable first."""
    support = draws.support(0.05)
    order = np.argsort(-np.minimum(support.probability, 1.0 - support.probability), kind="stable")
    order = order[support.kind[order] == "cell"][:N_SUPPORT]
    order = np.array(sorted(order.tolist(), key=lambda i: -round(float(support.probability[i]), 9)), dtype=np.int64)
    return records(
        words=[cut(nice(support.words[i]), LONGEST) for i in order],
        rows=support.rows[order],
        probability=support.probability[order],
        mcse=support.mcse[order],
        ess=support.ess[order],
        rhat=support.rhat[order],
        by_chain=support.by_chain[order],
        exact=_exact_at([support.key[i] for i in order], truth),
    )


def _diagnosis(draws: SampledPosterior) -> dict[str, Any]:
    table = draws.summary()
    rows = [{"name": cut(name, LONGEST), **line} for name, line in table.to_dict(orient="index").items()]
    acceptance = ", ".join(f"{name} {fraction:.3f}" for name, fraction in table.attrs["acceptance"].items())
    return {"rows": rows, "acceptance": acceptance, "tree_ess": draws.tree_ess(), "asdsf": draws.asdsf()}


def _traces(draws: SampledPosterior) -> list[dict[str, Any]]:
    """Return the log posterior and the number of leaves at evenly spaced draws, by chain."""
    at = spaced(draws.n_draws, N_TRACE)
    both = {"log posterior": draws.log_prior + draws.log_score, "number of leaves": draws.n_leaves}
    return [{"name": name, "draws": at, "chains": values[:N_CHAINS, at]} for name, values in both.items()]


def _facts(post: Posterior, draws: SampledPosterior) -> list[tuple[str, str]]:
    """Return the model and the run as pairs of a name and a text."""
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
        facts += _facts_of_run(draws)
        evidence = words.evidence_text(draws)
    if evidence:
        facts.append(("log evidence", evidence))
    drawn_with = [call.versions for call in draws.calls]
    facts += [("versions", _versions(numbers)) for i, numbers in enumerate(drawn_with) if numbers not in drawn_with[:i]]
    if versions() not in drawn_with:
        facts.append(("versions of this page" if drawn_with else "versions", _versions(versions())))
    return facts


def _facts_of_run(draws: SampledPosterior) -> list[tuple[str, str]]:
    facts = [("draws", words.run_line(draws))]
    if draws.calls:
        facts.append(("seed", cut(draws.calls[0].seed, LONGEST)))
    if draws.course is not None:
        facts.append(("moves", ", ".join(map(str, draws.course.kernel.count_names))))
        facts.append(("steps", f"{draws.course.steps} a chain after tuning, every {draws.course.thin} kept"))
    if draws.tempering is not None:
        facts.append(("inverse temperatures", str(draws.tempering.betas.shape[1])))
    return [*facts, ("best log posterior drawn", f"{words.best_log_posterior(draws):.3f} (unnormalised)")]


def _calls(post: SampledPosterior) -> list[str]:
    """Return the lines of Python that make the draws again, with a remark if they cannot."""
    lines = [call.line for call in post.calls]
    if not all(call.repeatable for call in post.calls):
        lines.append("# not the same draws again: a call was interrupted, or a line cannot contain its arguments")
    return lines


def _versions(numbers: dict[str, str]) -> str:
    return ", ".join(f"{name} {number}" for name, number in numbers.items())


def _deciding_features(target: str, inclusion: list[dict[str, Any]], effects: list[Effect]) -> str:
    """Return which features are in at least half of the trees, the most important first, in words."""
    frequent = [i for i, line in enumerate(inclusion) if line["probability"] >= 0.5]
    if not frequent:
        return f"No feature is in half of the trees for {target}."
    if effects and effects[0].strongest:
        frequent.sort(key=lambda i: -effects[i].strongest[1][0])  # type: ignore[index]
    named = [f"{inclusion[i]['name']} ({words.probability(inclusion[i]['probability'])})" for i in frequent[:N_NAMED]]
    if len(frequent) > N_NAMED:
        named.append(f"{len(frequent) - N_NAMED} more")
    listed = ", ".join(named[:-1]) + " and " * (len(named) > 1) + named[-1]
    verb = "decides" if len(named) == 1 else "decide"
    return f"{listed} {verb} {target}. In brackets is the probability that a tree splits on the feature."


def _first_cuts(columns: Columns, shape: Shape) -> str:
    """Return the uppermost cuts of a shape with their intervals, in words."""
    cuts = []
    for line in shape.splits.sort_values("depth", kind="stable").itertuples():
        if np.isfinite(line.cut):
            k, name = columns.names.index(line.feature), cut(line.feature, LONGEST_NAME)
            condition = line.words.removeprefix(f"{line.feature} ")
            if line.lower < line.upper and columns.kind(k) != TRUTH:
                middle, low, high = (cut_text(columns, k, x) for x in (line.cut, line.lower, line.upper))
                cuts.append(f"{name} at {middle}, uncertain between {low} and {high}")
            else:
                # truth values have no "<="
                at = f"at {condition.removeprefix('<= ')}" if condition.startswith("<= ") else condition
                cuts.append(f"{name} {at}")
    probability = words.probability(shape.probability)
    if not cuts:
        return f"The most probable shape, {probability} of the posterior, has no cut of a number."
    verb = "the cut is" if len(cuts) == 1 else "the first cuts are"
    return f"In the most probable shape, {probability} of the posterior, {verb}: {'; '.join(cuts[:N_NAMED])}."


def _sizes_in_words(draws: SampledPosterior, n_shapes: int, n_modes: int) -> str:
    """Return the usual numbers of leaves, and how many clusters or shapes the trees have."""
    pmf = draws.n_leaves_pmf()
    low, high = (int(np.searchsorted(np.cumsum(pmf), q - 1e-12)) for q in (0.05, 0.95))
    span = f"{low}" if low == high else f"{low} to {high}"
    inside = words.probability(float(pmf[low : high + 1].sum()))
    text = f"A tree has {span} {'leaf' if span == '1' else 'leaves'} with probability {inside}."
    if n_modes > 1:
        return f"{text} The trees fall into {n_modes} clusters, which the map shows."
    return f"{text} The draws have {n_shapes} shapes in all." if n_shapes > 1 else text
