"""The report as one HTML page: sections of words, tables and pictures, with the style and the script inside."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files
from string import Template
from typing import Any

from .pictures import chain_mark, icicle, mode_letter, trace, tree_map
from .text import as_json, cut, escaped, number, probability

N_PATHS = 40
"""Paths in the table beside the icicle."""
LONG = 120
"""Characters of a title."""


def page(content: dict[str, Any], title: str) -> str:
    """The page of a content as `report_content` makes it."""
    style, script = _part("page.css"), _part("page.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return Template(_part("page.html")).substitute(
        title=escaped(cut(title, LONG)),
        policy=f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'",
        style=style,
        script=script,
        data=as_json(_for_script(content)),
        head=_head(content, title),
        consensus=_consensus(content),
        icicle=_icicle(content),
        trees=_trees(content),
        row=_row(content),
        map=_map(content),
        parts=_parts(content),
        diagnosis=_diagnosis(content),
        facts=_facts(content),
    )


def _part(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _for_script(content: dict[str, Any]) -> dict[str, Any]:
    """What the script needs."""
    paths = [[path["parent"], path["way"], round(path["probability"], 5)] for path in content["paths"]]
    mass = None if content["credible"] is None else content["credible"]["mass"]
    return {"trees": content["trees"], "classes": content["classes"], "paths": paths, "mass": mass}


def _head(content: dict[str, Any], title: str) -> str:
    verdict = content["verdict"]
    lines = "".join(f"<li>{escaped(line)}</li>" for line in verdict["lines"])
    figures = "".join(f"<li>{escaped(line)}</li>" for line in verdict["figures"])
    failed = f"<details><summary>What fails</summary><ul>{figures}</ul></details>" if figures else ""
    words = " ".join(escaped(sentence) for sentence in content["words"])
    exact = "" if content["exact"] is None else f"; ticks: {escaped(content['exact'])}"
    return (
        f"<h1>{escaped(title)}</h1><p class=quiet>{escaped(content['data'])}<br>{escaped(content['run'])}{exact}</p>"
        f'<section class="verdict {verdict["level"]}" aria-labelledby=verdict>'
        f"<h2 id=verdict>{escaped(verdict['head'])}</h2><ul>{lines}</ul>{failed}</section>"
        f"<p class=words>{words}</p>"
        f"<div class=pair>{_sizes(content)}{_inclusion(content)}</div>"
    )


def _bar(p: float, exact: float | None) -> str:
    tick = "" if exact is None else f'<b style="left:{100 * exact:.1f}%"></b>'
    return f'<td class=bar><i style="width:{100 * p:.1f}%"></i>{tick}</td>'


def _table(caption: str, heads: list[str], rows: list[str], kind: str = "") -> str:
    """A table in a box that scrolls by itself; ``rows`` are cells already."""
    head = "".join(f"<th scope=col>{escaped(name)}</th>" for name in heads)
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return (
        f'<div class=scroll tabindex=0 role=region aria-label="{escaped(caption)}"><table class="{kind}">'
        f"<caption>{escaped(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _with_exact(content: dict[str, Any], heads: list[str]) -> list[str]:
    return [*heads, "exact"] if content["exact"] is not None else heads


def _exact_cell(content: dict[str, Any], value: float | None) -> str:
    return "" if content["exact"] is None else f"<td class=n>{probability(value)}</td>"


def _sizes(content: dict[str, Any]) -> str:
    rows = [
        f"<th scope=row class=n>{line['leaves']}</th>{_bar(line['probability'], line['exact'])}"
        f"<td class=n>{probability(line['probability'])}</td>{_exact_cell(content, line['exact'])}"
        for line in content["sizes"]
    ]
    return _table("Number of leaves", _with_exact(content, ["leaves", "", "probability"]), rows)


def _inclusion(content: dict[str, Any]) -> str:
    rows = [
        f"<th scope=row class=name><span class='dot c{min(i, 7)}'></span>{escaped(line['name'])}</th>"
        f"{_bar(line['probability'], line['exact'])}<td class=n>{probability(line['probability'])}</td>"
        f"{_exact_cell(content, line['exact'])}<td class=n>{probability(line['at_root'])}</td>"
        for i, line in enumerate(content["inclusion"])
    ]
    heads = [*_with_exact(content, ["feature", "", "in the tree"]), "at the root"]
    return _table("Features, the most frequent", heads, rows)


def _consensus(content: dict[str, Any]) -> str:
    nodes = content["consensus"]
    below: dict[int, list[int]] = {}
    for i, node in enumerate(nodes):
        below.setdefault(node["parent"], []).append(i)

    def listed(i: int) -> str:
        inner = "".join(listed(child) for child in below.get(i, []))
        return f"<li>{_cell(nodes[i], i)}{f'<ul>{inner}</ul>' if inner else ''}</li>"

    if len(nodes) == 1:
        return (
            "<p>No cell of training rows is in more than half of the trees: features or thresholds differ from tree to "
            f"tree, as the paths below show.</p><ul class=tree>{listed(0)}</ul>"
        )
    return (
        "<p>The cells of training rows that more than half of the trees have, each with its support: the probability "
        "that a tree has it. A bar is the support of a cell"
        + ("." if content["exact"] is None else ", a tick its exact value.")
        + f"</p><ul class=tree>{listed(0)}</ul>"
    )


def _cell(node: dict[str, Any], i: int) -> str:
    rows = f"{number(node['rows'], 6)} rows"
    rest = f", {number(node['rest'], 6)} of them in no child" if node["rest"] else ""
    value = "" if node["value"] is None else f" <span class=value>{escaped(node['value'])}</span>"
    tick = "" if node["exact"] is None else f'<b style="left:{100 * node["exact"]:.1f}%"></b>'
    exact = "" if node["exact"] is None else f", exact {probability(node['exact'])}"
    bar = f'<span class=meter><i style="width:{100 * node["support"]:.1f}%"></i>{tick}</span>' if i else ""
    support = f" <span class=n>{probability(node['support'])}{exact}</span> {bar}" if i else ""
    return f"<span class=said>{escaped(node['words'])}</span>{support} <span class=quiet>{rows}{rest}</span>{value}"


def _icicle(content: dict[str, Any]) -> str:
    paths = content["paths"]
    rows = [
        f"<td class=way>{escaped(path['way'])}</td><td class=n>{probability(path['probability'])}</td>"
        f"<td class=n>{number(path['mcse'], 2)}</td>"
        f"{_exact_cell(content, path['exact'])}<td class=n>{path['rows']:.0%}</td>"
        f"<td class=n>{probability(path['stops'])}</td><td>{escaped(path['value'] or '')}</td>"
        for path in paths[1 : N_PATHS + 1]
    ]
    heads = ["path", "probability", "± error"]
    heads = [*_with_exact(content, heads), "rows", "leaf there", "a leaf predicts"]
    ticks = "" if content["exact"] is None else "; the tick is the exact probability"
    return (
        "<p>All trees laid over each other, from the root to the right. A box is a path of answers; its height is the "
        "probability that a training row drawn at random takes it in a tree drawn at random. The number and the dark "
        f"line in it are the probability that a tree has the path{ticks}. Where nothing follows, trees end, or part "
        "into paths too rare to show. <span class=live>Choose a box, and the trees, predictions and the map below are "
        "of the trees with this path alone. Arrow keys go from box to box.</span></p>"
        f"<div class=scroll tabindex=0 role=region aria-label='Icicle of paths'>{icicle(paths)}</div>"
        "<p id=filter class=live role=status aria-live=polite><span id=said></span> "
        "<button type=button id=clear hidden>Show all trees</button></p>"
        f"<details><summary>The paths as a table</summary>{_table('Decision paths', heads, rows)}</details>"
    )


def _trees(content: dict[str, Any]) -> str:
    told = content["credible"]
    if told is None:
        said = "There is no one order among these trees: each is of a posterior, or of feature weights, of its own."
    else:
        what = "probable trees in all" if told["exact"] else f"of the {told['distinct']} distinct trees drawn"
        said = (
            f"The {told['mass']:.0%} credible set has {told['size']} {what}. The level of a tree is the fraction of "
            "the posterior in trees more probable than it: 0 of the best."
        )
    best = "".join(_printed(i, tree) for i, tree in enumerate(content["best"]))
    return (
        f"<p>{escaped(said)} <span class=live>Here to leaf through: {escaped(content['trees']['said'])}"
        f"{'' if told is None else ', and the most probable ones'}.</span></p>"
        "<div id=leafing class=live><div class=buttons role=group aria-label='Leaf through the trees'>"
        "<button type=button id=first>First</button><button type=button id=back>Previous</button>"
        "<button type=button id=next>Next</button><span id=which role=status aria-live=polite></span></div>"
        f"<div id=tree></div></div><div class=still>{best}</div>"
    )


def _printed(i: int, tree: dict[str, Any]) -> str:
    level = "" if tree["level"] is None else f", level {tree['level']:.3f}"
    head = f"Tree {i + 1}: {tree['fraction']:.2%} of the draws, log posterior {tree['log_posterior']:.3f}{level}"
    return f"<details{' open' if i == 0 else ''}><summary>{head}</summary><pre>{escaped(tree['text'])}</pre></details>"


def _row(content: dict[str, Any]) -> str:
    if not content["predicts"]:
        return "<p>A leaf of this model predicts for each row something else, or nothing: ask post.predict.</p>"
    return (
        "<p class=still>This part needs JavaScript: type in a row, and see its paths and its prediction.</p>"
        "<div class=live><p>Type in a row. It starts as the median of each feature that these trees split on; the "
        f"answer is that of {escaped(content['trees']['said'])}. Boxes of the icicle that "
        "your row passes turn dashed.</p>"
        "<form id=row></form><div id=answer role=status aria-live=polite></div></div>"
    )


def _map(content: dict[str, Any]) -> str:
    told, modes = content["map"], content["modes"]["modes"]
    shown = min(told["chains"], 8)
    legend = "".join(f"<li>{chain_mark(c)} chain {c}</li>" for c in range(shown))
    more = f"<li>and {told['chains'] - shown} more</li>" if told["chains"] > shown else ""
    chains = f"<ul class=legend>{legend}{more}</ul>" if told["chains"] > 1 else ""
    said = (
        f"{told['draws']} draws by the cells that only one of two trees has; the plane keeps {told['kept']:.0%} of the "
        "squared distances. A larger mark is more draws."
    )
    return f"<p>{said}</p><div class=pair><div>{tree_map(told)}{chains}</div><div>{_modes(modes, content)}</div></div>"


def _modes(modes: list[dict[str, Any]], content: dict[str, Any]) -> str:
    if len(modes) == 1:
        return "<p>The trees fall into no clusters that lie apart.</p>"
    parts = [
        f"<p>{len(modes)} clusters, mean silhouette {content['modes']['silhouette']:.2f} (1: far apart, 0: not).</p>"
    ]
    for i, mode in enumerate(modes):
        chains = ", ".join(probability(p) for p in mode["by_chain"][:8])
        more = ", …" if len(mode["by_chain"]) > 8 else ""
        differs = "".join(f"<li>{escaped(line)}</li>" for line in mode["differs"])
        parts.append(
            f"<details><summary><b>{mode_letter(i)}</b> {probability(mode['mass'])} of the draws"
            f" <span class=quiet>by chain {chains}{more}</span></summary><ul>{differs}</ul>"
            f"<pre>{escaped(mode['tree'])}</pre></details>"
        )
    return "".join(parts)


def _parts(content: dict[str, Any]) -> str:
    rows = [
        f"<td class=way>{escaped(line['words'])}</td><td class=n>{number(line['rows'], 6)}</td>"
        f"{_bar(line['probability'], line['exact'])}<td class=n>{probability(line['probability'])}</td>"
        f"<td class=n>{number(line['mcse'], 2)}</td>{_exact_cell(content, line['exact'])}"
        f"<td class=n>{number(line['ess'], 4)}</td><td class=n>{number(line['rhat'], 4)}</td>"
        f"<td class=n>{', '.join(probability(p) for p in line['by_chain'][:8])}</td>"
        for line in content["support"]
    ]
    if not rows:
        return "<p>No cell below the root is in 5 % of the trees.</p>"
    heads = _with_exact(content, ["cell", "rows", "", "probability", "± error"])
    return _table("Cells that some trees have and others lack", [*heads, "ESS", "R-hat", "by chain"], rows)


def _diagnosis(content: dict[str, Any]) -> str:
    told = content["diagnosis"]
    if told is None:
        return "<p>The draws are independent: there is no chain to judge.</p>"
    names = {"n_leaves": "number of leaves", "lp": "log posterior", "log_prior": "log prior", "log_score": "log score"}
    rows = [
        f"<th scope=row class=name>{escaped(names.get(line['name'], line['name']))}</th>"
        f"<td class=n>{number(line['mean'], 5)}</td><td class=n>{number(line['sd'])}</td>"
        f"<td class=n>{number(line['ess_bulk'], 4)}</td><td class=n>{number(line['rhat'], 4)}</td>"
        for line in told["rows"]
    ]
    trees, splits = told["tree_ess"], told["asdsf"]
    said = [
        f"Effective sample size of the trees: {number(trees['frechet'], 4)} (Fréchet), at least "
        f"{number(trees['pseudo_min'], 4)} by the distance from any of up to 100 trees drawn, of "
        f"{number(trees['n_draws'], 6)} draws.",
        f"Average standard deviation of cell frequencies between chains: {number(splits['asdsf'])}, expected of chains "
        f"that agree {number(splits['expected'])}.",
    ]
    if told["acceptance"]:
        accepted = ", ".join(f"{name} {fraction:.3f}" for name, fraction in told["acceptance"].items())
        said.append(f"Accepted of the proposals: {accepted}.")
    lines = "".join(f"<li>{escaped(line)}</li>" for line in said)
    table = _table("Quantities of the draws", ["quantity", "mean", "sd", "ESS", "R-hat"], rows)
    traces = content["traces"]
    drawn = "".join(trace(one) for one in traces)
    shown = len(traces[0]["chains"])
    more = f"<p class=quiet>The first {shown} of {traces[0]['all_chains']} chains.</p>"
    return f"<ul>{lines}</ul>{drawn}{more if traces[0]['all_chains'] > shown else ''}{table}"


def _facts(content: dict[str, Any]) -> str:
    lines = "".join(f"<dt>{escaped(name)}</dt><dd>{escaped(value)}</dd>" for name, value in content["facts"])
    drawn, command = "\n".join(content["calls"]), content["command"]
    again = f"<p>The draws again, of the same model</p><pre>{escaped(drawn)}</pre>" if drawn else ""
    again += "" if command is None else f"<p>This page again</p><pre>{escaped(command)}</pre>"
    return f"<dl>{lines}</dl>{again}"
