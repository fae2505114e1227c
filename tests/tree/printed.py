"""A reader of printed trees: texts become rules, and rules send the rows of a table to leaves."""

import ast
import re

import numpy as np
import pandas as pd

STEP = re.compile(r"^((?:\|   |    )*)(?:\|-- yes: |`-- no:  )")
LABEL = re.compile(r"""\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^,]+)\s*(?:,|$)""")
QUOTED = re.compile(r"""(?<=[{,])( ?)("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')""")
WORDS = {"yes": True, "no": False}


def table_columns(X):
    if isinstance(X, pd.DataFrame):
        return {name: X[name] for name in X.columns}
    return {f"x{k}": pd.Series(column) for k, column in enumerate(np.asarray(X).T)}


def labels_in(text):
    """The categories between braces: text in quotes, or as it is."""
    out = []
    for label in LABEL.findall(text):
        if label[0] in "\"'":
            out.append(ast.literal_eval(label))
        elif label == "missing":
            out.append(None)
        else:
            out += [label, *([WORDS[label]] if label in WORDS else [])]
    return out


def number_of(text, values):
    """A printed threshold in the type of a column."""
    if values.dtype.kind == "M" or isinstance(values.dtype, pd.DatetimeTZDtype):
        zone = "UTC" if text.endswith(" UTC") else None
        return pd.Timestamp(text.removesuffix(" UTC"), tz=zone)
    return float(text)


def holds(condition, columns):
    """Rows (n,) for which one condition, such as ``x0 <= 2.5 or missing``, is true."""
    name = max((name for name in columns if condition.startswith(name + " ")), key=len)
    values, rule = columns[name], condition[len(name) + 1 :]
    lacks = values.isna().to_numpy()
    if rule in ("is missing", "is known"):
        return lacks == (rule == "is missing")
    if "in {" in rule:
        known = labels_in(rule[rule.index("{") + 1 : rule.rindex("}")])
        inside = np.array([(None if gap else value) in known for value, gap in zip(values, lacks, strict=True)])
        return ~inside if rule.startswith("not") else inside
    or_missing = rule.endswith(" or missing")
    sign, text = rule.removesuffix(" or missing").split(" ", 1)
    if sign == "=":
        out = np.array([not gap and bool(value) == WORDS[text] for value, gap in zip(values, lacks, strict=True)])
    elif sign == "<=":
        out = (values <= number_of(text, values)).to_numpy()
    else:
        out = (values > number_of(text, values)).to_numpy() & ~lacks
    return out | (lacks & or_missing)


def hold_together(words, columns):
    """Rows (n,) for which all conditions of a cell are true; ``words`` are as `Support.words` has them."""
    out = np.ones(len(next(iter(columns.values()))), dtype=bool)
    starts = [f", {name} " for name in columns]
    while words and words != "all rows":
        bare = QUOTED.sub(lambda found: "_" * len(found[0]), words)
        inside = np.cumsum([(c == "{") - (c == "}") for c in bare])
        ends = [i for i in range(1, len(words)) if any(bare.startswith(s, i) for s in starts) and not inside[i]]
        end = ends[0] if ends else len(words)
        out &= holds(words[:end], columns)
        words = words[end + 2 :]
    return out


def partition_of_text(text, X):
    """Number of the leaf (n,) that each row reaches by the printed tree; leaves are counted from the top."""
    columns, lines = table_columns(X), text.split("\n")
    leaf = np.full(len(X), -1)
    at, count = 0, 0

    def read(rows):
        nonlocal at, count
        line = STEP.sub("", lines[at])
        at += 1
        if re.match(r"leaf\b", line):
            leaf[rows] = count
            count += 1
            return
        left = holds(re.sub(r" \([\d.]+ rows?\)$", "", line), columns)
        read(rows & left)
        read(rows & ~left)

    read(np.ones(len(X), dtype=bool))
    assert at == len(lines)
    return leaf


def partition_of_dot(text, X):
    """As `partition_of_text`, of a Graphviz file, in which nodes have numbers."""
    columns = table_columns(X)
    unquoted = re.compile(r"\\(.)")
    labels = {
        int(i): unquoted.sub(r"\1", t) for i, t in re.findall(r'^  (\d+) \[label="((?:[^"\\]|\\.)*)"', text, re.M)
    }
    edges = {
        (int(i), answer): int(j) for i, j, answer in re.findall(r'^  (\d+) -> (\d+) \[label="(\w+)"\]', text, re.M)
    }
    leaf, todo = np.full(len(X), -1), [(0, np.ones(len(X), dtype=bool))]
    while todo:
        node, rows = todo.pop()
        if (node, "yes") not in edges:
            leaf[rows] = node
            continue
        left = holds(labels[node], columns)
        todo += [(edges[node, "yes"], rows & left), (edges[node, "no"], rows & ~left)]
    return leaf


def same_partition(one, other):
    pairs = set(zip(one.tolist(), other.tolist(), strict=True))
    return len(pairs) == len(set(one.tolist())) == len(set(other.tolist()))
