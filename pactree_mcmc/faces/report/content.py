"""What the report of a posterior says, as a plain dictionary of numbers and words."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...core.checks import check_type
from ...files.calls import versions
from ...model.leaf_words import lines_of_cells
from ...posterior.base import Posterior
from ...posterior.convergence import check_convergence, verdict
from ...posterior.draws import has_values_by_leaf
from ...posterior.sampled import SampledPosterior, draws_from
from ...posterior.trees.distances import classical_scaling, spaced
from ...posterior.trees.paths import condition_of, conditions_in_words, path_to
from ...posterior.trees.support import words_of_node
from ...tree.arrays import LEAF
from ...tree.export import MOST_CLASSES
from .facts import best_log_posterior, calls_of, data_words, described, evidence_words, run_words, versions_words
from .paths import Paths, common_paths
from .text import LONGEST_NAME, cut, probability
from .trees import order_of_trees, trees_for_page

DRAWS = 1000
"""Drawn from a posterior that is not draws."""
MASS = 0.95
"""Of the credible set."""
N_FEATURES, N_SIZES, N_SUPPORT = 12, 24, 16
"""Features, sizes and cells listed."""
LEAST = 0.005
"""Less probable sizes are left out."""
LONGEST, LONGEST_CALL, MOST_LINES = 240, 2000, 80
"""Characters of a path and of a call, and lines of a tree."""
N_BEST = 3
"""Trees printed."""
N_TRACE, N_CHAINS = 160, 8
"""Points of a trace, and chains traced."""
PALETTE = 7
"""Features with a colour of their own."""
MOSTLY = 0.95
"""A part of the posterior that stands for the whole."""
AGREE = "Nothing speaks against these draws."


def report_content(post: Posterior, truth: Posterior | None, command: str | None) -> dict[str, Any]:
    """All that the report says.

    Parameters
    ----------
    post : Posterior
        Sampled, or another, of which draws are taken.
    truth : Posterior or None
        A posterior of the same model whose values are exact, to stand beside those of the draws.
    command : str or None
        The line that makes the report again.
    """
    draws = draws_from(post, DRAWS, 0, that_predict=True)
    truth = post if draws is not post and truth is None else check_truth(draws, truth)
    paths = common_paths(draws)
    modes = draws.modes()
    mode_of_tree = np.zeros(draws.n_distinct_trees, dtype=np.int64)
    for i, mode in enumerate(modes.modes):
        mode_of_tree[mode.trees] = i
    source = post if truth is None else truth
    has_order = draws.sees_all_rows and source.sees_all_rows and not np.isnan(draws.log_posterior_of_tree).any()
    likely = source.credible_set(MASS) if has_order else None
    told = described(draws)
    inclusion = _inclusion(draws, truth)
    colours = {line["feature"]: i for i, line in enumerate(inclusion[:PALETTE])}
    content = {
        "data": data_words(told),
        "run": run_words(told) if draws is post else f"{DRAWS} independent draws of {type(post).__name__}",
        "exact": None if truth is None else _exact_words(truth),
        "verdict": _verdict(post, draws, truth),
        "sizes": _sizes(draws, truth),
        "inclusion": inclusion,
        "consensus": _consensus(post, truth),
        "paths": _paths(draws, truth, paths, colours),
        "trees": trees_for_page(draws, likely, paths, mode_of_tree),
        "credible": None if likely is None else _credible(draws, likely),
        "best": _best(draws, likely),
        "classes": None if told["classes"] is None else [cut(str(label), LONGEST_NAME) for label in told["classes"]],
        "predicts": has_values_by_leaf(draws.model),
        "modes": _modes(modes),
        "map": _map(draws, paths, mode_of_tree),
        "support": _support(draws, truth),
        "diagnosis": _diagnosis(draws) if draws is post else None,
        "traces": _traces(draws) if draws is post else [],
        "facts": _facts(post, draws, told),
        "calls": [cut(line, LONGEST_CALL) for line in calls_of(draws)],
        "command": command,
    }
    content["words"] = _in_sentences(draws, content)
    return content


def check_truth(draws: SampledPosterior, truth: Any) -> Posterior | None:
    """Refuse as exact values what is not of the same model, or is draws itself."""
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


def _exact_words(truth: Posterior) -> str:
    coverage = getattr(truth, "coverage", 1.0)
    if coverage == 1.0:
        return "exact values"
    fraction = "" if coverage is None else f", {coverage:.3f} of the posterior"
    return f"values exact for the trees made of the pieces drawn{fraction}"


def _verdict(post: Posterior, draws: SampledPosterior, truth: Posterior | None) -> dict[str, Any]:
    """Whether the numbers can be trusted: a heading, and what there is to say."""
    if draws is not post:
        coverage = getattr(post, "coverage", 1.0)
        whole = coverage is not None and coverage >= MOSTLY
        head = "Nothing here depends on a chain." if whole else "These values are of a part of the posterior."
        lines = [f"Ticks are {_exact_words(post)}; paths, trees and the map are of {DRAWS} independent draws."]
        return {"level": "good" if whole else "doubt", "head": head, "lines": lines, "figures": []}
    found = check_convergence(draws)
    figures = [line for line in found[1:] if _is_figure(line)]
    said = [line for line in found if line not in figures] or verdict(draws).split("\n  ")
    few = bool(found) and found[0].startswith("too few draws")
    head = "Do not rely on these draws yet." if found else AGREE
    head = "There are too few draws to judge." if few else head
    lines = [line[:1].upper() + line[1:] for line in said]
    if truth is not None:
        gap = 0.5 * _l1(draws.n_leaves_pmf(), truth.n_leaves_pmf())
        lines.append(f"Total variation between drawn and exact distribution of the number of leaves: {gap:.3f}.")
    told = {"lines": [cut(line, LONGEST) for line in lines], "figures": [cut(line, LONGEST) for line in figures]}
    return {"level": "doubt" if found else "good", "head": head, **told}


def _is_figure(line: str) -> bool:
    """Whether a line of `check_convergence` is of one quantity, or counts the others."""
    return ": R-hat " in line or (line.startswith("and ") and " more of " in line)


def _l1(one: np.ndarray, other: np.ndarray) -> float:
    size = max(len(one), len(other))
    return float(np.abs(np.pad(one, (0, size - len(one))) - np.pad(other, (0, size - len(other)))).sum())


def _sizes(draws: SampledPosterior, truth: Posterior | None) -> list[dict[str, Any]]:
    drawn = draws.n_leaves_pmf()
    exact = None if truth is None else truth.n_leaves_pmf()
    size = len(drawn) if exact is None else max(len(drawn), len(exact))
    both = np.zeros((2, size))
    both[0, : len(drawn)] = drawn
    if exact is not None:
        both[1, : len(exact)] = exact
    shown = np.flatnonzero(both.max(axis=0) >= LEAST)
    shown = np.sort(shown[np.argsort(-both[:, shown].max(axis=0), kind="stable")][:N_SIZES])
    return [
        {"leaves": int(m), "probability": float(both[0, m]), "exact": None if exact is None else float(both[1, m])}
        for m in shown
    ]


def _inclusion(draws: SampledPosterior, truth: Posterior | None) -> list[dict[str, Any]]:
    drawn = draws.feature_inclusion()
    exact = None if truth is None else truth.feature_inclusion()
    order = np.argsort(-drawn, kind="stable")[:N_FEATURES]
    root = np.bincount(draws.root_feature_of_tree + 1, weights=draws.weight_of_tree, minlength=len(drawn) + 1)[1:]
    return [
        {
            "feature": int(k),
            "name": cut(str(draws.model.columns.names[k]), LONGEST_NAME),
            "probability": float(drawn[k]),
            "at_root": float(root[k]),
            "exact": None if exact is None else float(exact[k]),
        }
        for k in order
        if drawn[k] > 0.0
    ]


def _consensus(post: Posterior, truth: Posterior | None) -> list[dict[str, Any]]:
    """Nodes in preorder; of an exact posterior the support is exact itself."""
    found = post.consensus_tree(draws=DRAWS)
    exact = {} if truth is None or truth is post else _exact_support(truth)
    return [
        {
            "words": cut(words, LONGEST),
            "support": float(found.support[i]),
            "exact": exact.get(found.key[i], 0.0) if i and exact else None,
            "rows": float(found.rows[i]),
            "rest": float(found.rest[i]),
            "parent": int(found.parent[i]),
            "value": _said(found.said[i]),
        }
        for i, words in enumerate(found.words)
    ]


def _exact_support(truth: Posterior) -> dict[tuple[int, ...], float]:
    """Exact probability of each cell, by its key; empty where it takes draws."""
    if not hasattr(truth, "path_probabilities"):
        return {}
    found = truth.support(0.0)
    return dict(zip(found.key, found.probability.tolist(), strict=True))


def _said(lines: list[str]) -> str | None:
    """Return the prediction of a leaf on one line, or None without one."""
    return cut(", ".join(lines), LONGEST) if lines else None


def _paths(
    draws: SampledPosterior, truth: Posterior | None, paths: Paths, colours: dict[int, int]
) -> list[dict[str, Any]]:
    exact = None
    if truth is not None and hasattr(truth, "path_probabilities"):
        exact = truth.path_probabilities(draws, paths.cell, paths.parent)
    trees, between, columns = draws.distinct_trees, draws.node_between, draws.model.columns
    said = lines_of_cells(draws.model, draws.node_stats[paths.node], MOST_CLASSES)
    top, bottom = layout(paths)
    out = []
    for i, node in enumerate(paths.node.tolist()):
        above = int(paths.above[i])
        condition = None if above < 0 else condition_of(trees, between, above, node == above + 1)
        before = path_to(trees, between, int(draws.cells.tree_of_node[node]), max(above, 0))
        out.append(
            {
                "parent": int(paths.parent[i]),
                "depth": int(paths.depth[i]),
                "words": cut(
                    conditions_in_words(columns, [condition] if condition else [], [c for _, c in before]), LONGEST
                ),
                "way": cut(words_of_node(draws, node), LONGEST),
                "colour": -1 if condition is None else colours.get(condition.feature, PALETTE),
                "probability": float(paths.probability[i]),
                "mcse": _finite(paths.mcse[i]),
                "exact": None if exact is None else float(exact[i]),
                "stops": float(paths.stops[i]),
                "rows": float(paths.rows[i]),
                "value": _said(said[i]),
                "top": float(top[i]),
                "bottom": float(bottom[i]),
            }
        )
    return out


def layout(paths: Paths) -> tuple[np.ndarray, np.ndarray]:
    """Ends (m,) of the boxes of an icicle between 0 and 1: children from the start of their parent on."""
    top, filled = np.zeros(len(paths.parent)), np.zeros(len(paths.parent))
    width = paths.width
    for i in range(1, len(top)):
        above = int(paths.parent[i])
        top[i] = filled[above] = max(filled[above], top[above])
        filled[above] += width[i]
    return top, top + width


def _credible(draws: SampledPosterior, likely: Any) -> dict[str, Any]:
    drawn = np.flatnonzero(draws.weight_of_tree > 0.0)
    return {"mass": likely.mass, "size": len(likely), "exact": bool(likely.exact), "distinct": len(drawn)}


def _best(draws: SampledPosterior, likely: Any) -> list[dict[str, Any]]:
    """The most probable trees drawn, for readers without JavaScript."""
    log_posterior = order_of_trees(draws, likely)
    log_posterior = np.where(draws.weight_of_tree > 0.0, log_posterior, -np.inf)
    order = np.argsort(-log_posterior, kind="stable")[: min(N_BEST, int((log_posterior > -np.inf).sum()))]
    return [
        {
            "text": _beginning(draws.distinct_tree(t).format()),
            "fraction": float(draws.weight_of_tree[t]),
            "log_posterior": float(log_posterior[t]),
            "level": None if likely is None else likely.level_at(float(log_posterior[t])),
        }
        for t in order.tolist()
    ]


def _beginning(text: str) -> str:
    lines = text.splitlines()
    more = len(lines) - MOST_LINES
    shown = [cut(line, LONGEST) for line in lines[:MOST_LINES]]
    return "\n".join([*shown, f"... {more} more lines"] if more > 0 else shown)


def _modes(modes: Any) -> dict[str, Any]:
    return {
        "silhouette": float(modes.silhouette),
        "modes": [
            {
                "mass": float(mode.mass),
                "by_chain": [float(x) for x in mode.by_chain],
                "differs": [cut(line, LONGEST) for line in mode.differs],
                "tree": _beginning(mode.tree.format()),
            }
            for mode in modes.modes
        ],
    }


def _map(draws: SampledPosterior, paths: Paths, mode_of_tree: np.ndarray) -> dict[str, Any]:
    """Up to 400 draws as points of the unit square; draws of one chain at one tree are one point."""
    found = draws.tree_distances()
    place, part = classical_scaling(found.matrix)
    span = float(np.ptp(place, axis=0).max()) or 1.0
    middle = (place.max(axis=0) + place.min(axis=0)) / 2.0
    both, first, count = np.unique(np.array([found.chain, found.tree]), axis=1, return_index=True, return_counts=True)
    points = [
        {
            "x": round(0.5 + float((place[i, 0] - middle[0]) / span), 4),
            "y": round(0.5 + float((place[i, 1] - middle[1]) / span), 4),
            "chain": int(chain),
            "tree": int(tree),
            "mode": int(mode_of_tree[tree]),
            "draws": int(n),
            "paths": sorted({int(path) for path in _nodes_of(draws, paths.of_node, int(tree)) if path > 0}),
        }
        for (chain, tree), i, n in zip(both.T.tolist(), first.tolist(), count.tolist(), strict=True)
    ]
    return {
        "points": points,
        "kept": float(part.sum()) if part.any() else 1.0,
        "draws": len(found.tree),
        "chains": draws.n_chains,
    }


def _nodes_of(draws: SampledPosterior, by_node: np.ndarray, tree: int) -> np.ndarray:
    return by_node[slice(*draws.coded_trees.offset[tree : tree + 2])]


def _support(draws: SampledPosterior, truth: Posterior | None) -> list[dict[str, Any]]:
    found = draws.support(0.05)
    exact = {} if truth is None else _exact_support(truth)
    # those that are nearly certain say little of where chains differ
    order = np.argsort(-np.minimum(found.probability, 1.0 - found.probability), kind="stable")
    order = order[found.kind[order] == "cell"][:N_SUPPORT]
    return [
        {
            "words": cut(found.words[i], LONGEST),
            "rows": float(found.rows[i]),
            "probability": float(found.probability[i]),
            "mcse": _finite(found.mcse[i]),
            "ess": _finite(found.ess[i]),
            "rhat": _finite(found.rhat[i]),
            "by_chain": [float(x) for x in found.by_chain[i]],
            "exact": exact.get(found.key[i], 0.0) if exact else None,
        }
        for i in sorted(order.tolist(), key=lambda i: -round(float(found.probability[i]), 9))
    ]


def _diagnosis(draws: SampledPosterior) -> dict[str, Any]:
    table, trees, splits = draws.summary(), draws.tree_ess(), draws.asdsf()
    rows = [
        {"name": cut(str(name), LONGEST), **{key: _finite(value) for key, value in line.items()}}
        for name, line in table.to_dict(orient="index").items()
    ]
    return {
        "rows": rows,
        "acceptance": {str(name): float(fraction) for name, fraction in table.attrs["acceptance"].items()},
        "tree_ess": {name: _finite(value) for name, value in trees._asdict().items()},
        "asdsf": {name: _finite(value) for name, value in splits._asdict().items()},
    }


def _traces(draws: SampledPosterior) -> list[dict[str, Any]]:
    """Log posterior and number of leaves by chain, evenly spaced draws."""
    at = spaced(draws.n_draws, N_TRACE)
    both = {"log posterior": draws.log_prior + draws.log_score, "number of leaves": draws.n_leaves}
    return [
        {
            "name": name,
            "draws": at.tolist(),
            "chains": [[_finite(x) for x in chain] for chain in values[:N_CHAINS, at]],
            "all_chains": draws.n_chains,
        }
        for name, values in both.items()
    ]


def _facts(post: Posterior, draws: SampledPosterior, told: dict[str, Any]) -> list[tuple[str, str]]:
    """The model and the run, in words."""
    model = draws.model
    facts = [
        ("data", data_words(told)),
        ("tree prior", repr(model.tree_prior)),
        ("split prior", repr(model.split_prior)),
        ("leaf", repr(model.leaf)),
    ]
    if draws is not post:
        facts.append(("posterior", repr(post)))
        log_evidence = post.log_evidence
        evidence = "" if log_evidence is None else f"{log_evidence:.6f}"
    else:
        facts.append(("draws", run_words(told)))
        evidence = evidence_words(told)
        if draws.calls:
            facts.append(("seed", cut(str(draws.calls[0].seed), LONGEST)))
        if draws.course is not None:
            kernel = draws.course.kernel
            facts.append(("moves", ", ".join(str(name) for name in kernel.moves)))
            facts.append(("steps", f"{draws.course.steps} a chain after tuning, every {draws.course.thin} kept"))
        if draws.tempering is not None:
            facts.append(("inverse temperatures", str(draws.tempering.betas.shape[1])))
        facts.append(("best log posterior drawn", f"{best_log_posterior(draws):.3f} (unnormalised)"))
    if evidence:
        facts.append(("log evidence", evidence))
    made_by = [call.versions for call in draws.calls]
    facts += [("versions", versions_words(numbers)) for i, numbers in enumerate(made_by) if numbers not in made_by[:i]]
    if versions() not in made_by:
        facts.append(("versions of this page" if made_by else "versions", versions_words(versions())))
    return [(name, cut(value, LONGEST_CALL)) for name, value in facts]


def _in_sentences(draws: SampledPosterior, content: dict[str, Any]) -> list[str]:
    """The posterior in words."""
    pmf = draws.n_leaves_pmf()
    upto = np.cumsum(pmf)
    low, high = (int(np.searchsorted(upto, q - 1e-12)) for q in (0.05, 0.95))
    span = f"{low}" if low == high else f"{low} to {high}"
    inside = probability(float(pmf[low : high + 1].sum()))
    out = [f"A tree has {float(pmf @ np.arange(len(pmf))):.1f} leaves on average, {span} with probability {inside}."]
    roots = sorted(content["inclusion"], key=lambda line: -line["at_root"])
    no_split = float(draws.weight_of_tree[draws.root_feature_of_tree == LEAF].sum())
    if roots and roots[0]["at_root"] > 0.0:
        named = " and ".join(f"{r['name']} ({r['at_root']:.2f})" for r in roots[:2] if r["at_root"] >= 0.05)
        out.append(f"The first split is about {named or 'many features in turn'}.")
    if no_split >= 0.01:
        out.append(f"There is no split at all with probability {no_split:.2f}.")
    often = int((draws.feature_inclusion() >= 0.5).sum())
    p = draws.model.n_features
    asked = "asks" if often == 1 else "ask"
    out.append(f"Of {p} feature{'s' * (p != 1)} most trees {asked} about {often}.")
    majority = len(content["consensus"]) - 1
    cells = "cell" if majority == 1 else "cells"
    out.append(
        f"{majority} {cells} of training rows {'is' if majority == 1 else 'are'} in more than half of the trees."
    )
    modes = content["modes"]["modes"]
    if len(modes) > 1:
        masses = ", ".join(f"{mode['mass']:.2f}" for mode in modes)
        out.append(f"The trees fall into {len(modes)} clusters with {masses} of the draws.")
    return out


def _finite(x: Any) -> float | None:
    """A number for JSON."""
    return float(x) if math.isfinite(x) else None
