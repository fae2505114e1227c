"""Plant bugs, one at a time, in a copy of the sources, and report which everyday test notices each.

    python verification/planted.py
    python verification/planted.py --only semirings --only ess

A bug is one text replaced by another in one file. The tests named beside a bug run in the copy, without those of
`--all`, until one fails. Writes docs/verification/planted.json, unless only some are planted. The exit status is 1 if a
bug is not noticed, or if a text does not occur exactly once in its file: then the source has changed, and the bug needs
another text. Most of the time goes to compiling what a bug changes: about 20 minutes of one core for all.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs" / "verification" / "planted.json"
COPIED = ("pactree_mcmc", "exact", "tests", "docs", "examples", "benchmarks", "verification")
TIMEOUT = 900
"""Seconds after which a test that does not end counts as failed."""


DOES_NOT_END = "does not end"


class Bug(NamedTuple):
    """A bug: the part of the library, a description, the file, the text and its replacement, and pytest's arguments."""

    part: str
    what: str
    file: str
    old: str
    new: str
    tests: str


MOVES, GRAPH, EVIDENCE = "moves and proposal ratios", "density and graph", "evidence"
RECURSIONS, LEAVES, PRIORS = "recursions", "leaves", "priors and splits"
TABLES, ANSWERS, CERTIFICATES = "columns and missing values", "answers", "certificates"
SYSTEMS, FILES, ESTIMATORS, PLOTS = "systems of the papers", "files", "estimators", "plots"

BUGS = (
    Bug(
        MOVES,
        "a growth beside a leaf counts the parent as prunable still",
        "pactree_mcmc/mcmc/moves/grow_prune.py",
        "n_prunable_after = n_prunable + 1 - has_leaf_sibling(state, node)",
        "n_prunable_after = n_prunable + 1",
        "tests/mcmc/moves/test_transitions.py -k test_balance[grow-prune",
    ),
    Bug(
        MOVES,
        "the first stage of a collapsed pruning takes the ratio of a growth",
        "pactree_mcmc/mcmc/moves/collapsed.py",
        "if not flip_log(rng, -log_first_stage):",
        "if not flip_log(rng, log_first_stage):",
        "tests/mcmc/moves/test_transitions.py -k collapsed",
    ),
    Bug(
        MOVES,
        "change forgets the raw forms of the splits below",
        "pactree_mcmc/mcmc/moves/change.py",
        "log_proposal_ratio = log_forms_before - log_raw_forms_below(model, state, top)",
        "log_proposal_ratio = 0.0",
        "tests/mcmc/moves/test_transitions.py -k change",
    ),
    Bug(
        MOVES,
        "shift counts the split prior, from which it does not draw",
        "pactree_mcmc/mcmc/moves/change.py",
        "return replace_split(rng, model, state, node, record.feature, cut, NONE, False)",
        "return replace_split(rng, model, state, node, record.feature, cut, NONE, True)",
        "tests/mcmc/moves/test_transitions.py -k shift",
    ),
    Bug(
        MOVES,
        "an informed change counts the splits of a feature in the root",
        "pactree_mcmc/mcmc/moves/informed_change.py",
        "log_fraction -= log(split_mass(model, state, node, k))",
        "log_fraction -= log(max(split_mass(model, state, np.int64(0), k), 1.0))",
        "tests/mcmc/moves/test_transitions.py -k informed",
    ),
    Bug(
        MOVES,
        "an informed change weighs no score in its ratio",
        "pactree_mcmc/mcmc/moves/informed_change.py",
        "return state.node[node].log_rule + state.beta[0] * subtree_log_score(state, node)",
        "return state.node[node].log_rule",
        "tests/mcmc/moves/test_transitions.py -k informed",
    ),
    Bug(
        MOVES,
        "an informed change forgets how many splits a feature has",
        "pactree_mcmc/mcmc/moves/informed_change.py",
        "log_fraction -= log(split_mass(model, state, node, k))",
        "split_mass(model, state, node, k)",
        "tests/mcmc/moves/test_transitions.py -k informed",
    ),
    Bug(
        MOVES,
        "an informed change never takes the last cut of a feature",
        "pactree_mcmc/mcmc/moves/informed_change.py",
        "n_bins if ends else n_bins - 1)",
        "n_bins if ends else n_bins - 2)",
        "tests/mcmc/moves/test_transitions.py -k informed",
    ),
    Bug(
        MOVES,
        "an informed change of a tempered chain draws as at beta 1",
        "pactree_mcmc/mcmc/moves/informed_change.py",
        "beta * work.log_weight[side, j] + log_alike",
        "work.log_weight[side, j] + log_alike",
        "tests/mcmc/moves/test_transitions.py -k informed",
    ),
    Bug(
        MOVES,
        "an informed change draws splits that leave a leaf without rows",
        "pactree_mcmc/mcmc/moves/informed_change.py",
        "fewest = max(fewest, at if n_left >= least else np.int64(n_bins + 1))",
        "fewest = np.int64(0)",
        "tests/mcmc/moves/test_transitions.py -k informed",
    ),
    Bug(
        MOVES,
        "an informed change forgets the raw forms of the splits below",
        "pactree_mcmc/mcmc/moves/informed_change.py",
        "log_omega_ratio + log_forms_ratio",
        "log_omega_ratio",
        "tests/mcmc/moves/test_transitions.py -k informed",
    ),
    Bug(
        MOVES,
        "swap where the other child has the parent's split",
        "pactree_mcmc/mcmc/moves/swap.py",
        "if not is_same and has_same_split(state, 0, other_child):",
        "if not is_same and has_same_split(state, child, other_child):",
        "tests/mcmc/moves/test_transitions.py tests/mcmc/moves/test_planted_moves.py -k swap",
    ),
    Bug(
        MOVES,
        "rotate counts one merge where two children can be merged",
        "pactree_mcmc/mcmc/moves/rotate.py",
        "ratio = log_wider + is_on_both * LOG_2",
        "ratio = log_wider",
        "tests/mcmc/moves/test_transitions.py -k rotate",
    ),
    Bug(
        MOVES,
        "Blanchard's growth without the factor r",
        "pactree_mcmc/mcmc/moves/blanchard.py",
        "leaf, -log_r - state.node[leaf].log_rule)",
        "leaf, -state.node[leaf].log_rule)",
        "tests/mcmc/moves/test_transitions.py -k blanchard",
    ),
    Bug(
        MOVES,
        "neighbouring temperatures exchange by the ratio upside down",
        "pactree_mcmc/mcmc/chain/tempering.py",
        "(scores[i + 1] - scores[i])",
        "(scores[i] - scores[i + 1])",
        "tests/mcmc/test_sample.py -k exchange",
    ),
    Bug(
        GRAPH,
        "the sum over all splits ignores min_leaf on the right",
        "pactree_mcmc/mcmc/sums/split_sums.py",
        "if rows_left[split] < least or rows - rows_left[split] < least:",
        "if rows_left[split] < least:",
        "tests/mcmc/moves/test_transitions.py -k min_leaf",
    ),
    Bug(
        GRAPH,
        "the value of a cell is not divided by the mass of its stored splits",
        "pactree_mcmc/mcmc/whole/density/graph.py",
        "largest + log(total) - log(min(total_g, 1.0))",
        "largest + log(total)",
        "tests/mcmc/whole/density/test_graph.py",
    ),
    Bug(
        GRAPH,
        "the density forgets that a proposal is kept with probability k",
        "pactree_mcmc/mcmc/whole/density/graph.py",
        "log_add(log(keep_p) + log_g, log(1.0 - keep_p) + weight - piece.value)",
        "weight - piece.value",
        "tests/mcmc/whole/density/test_graph.py",
    ),
    Bug(
        EVIDENCE,
        "no allowance for how far two teams may differ by chance",
        "pactree_mcmc/posterior/evidence.py",
        ".sum() - (len(values) - 1)",
        ".sum()",
        "tests/posterior/test_evidence.py",
    ),
    Bug(
        EVIDENCE,
        "the evidence of a population is that of its best tree",
        "pactree_mcmc/smc.py",
        "self.evidence.append(self.evidence[-1] + max_gain + math.log(total))",
        "self.evidence.append(self.evidence[-1] + max_gain)",
        "tests/smc",
    ),
    Bug(
        RECURSIONS,
        "the log sum leaves out the leaf",
        "exact/recursion/semirings.py",
        "    for i in range(n):\n        summed +=",
        "    for i in range(1, n):\n        summed +=",
        "tests/exact/recursion/test_semirings.py tests/exact/recursion/test_enumeration.py",
    ),
    Bug(
        RECURSIONS,
        "the best tree of each size lacks the largest right subtrees",
        "exact/recursion/semirings.py",
        "m_most = min(wide_right, n_sizes - m_left)",
        "m_most = min(wide_right, n_sizes - m_left - 1)",
        "tests/exact/recursion/test_semirings.py -k best_by_size",
    ),
    Bug(
        RECURSIONS,
        "the variance over trees uses the new mean twice",
        "exact/recursion/semirings.py",
        "mean[slot, j] += deviation * (split_probability / mass)",
        "mean[slot, j] += deviation * (split_probability / mass); deviation = split_mean - mean[slot, j]",
        "tests/exact/recursion/test_semirings.py -k moments",
    ),
    Bug(
        RECURSIONS,
        "a ranked tree is found from two predecessors",
        "exact/recursion/trees.py",
        "if j == 0 else [(e, i, j + 1)]",
        "if i == 0 else [(e, i, j + 1)]",
        "tests/exact/recursion/test_semirings.py -k best_trees",
    ),
    Bug(
        RECURSIONS,
        "the right child of a split occurs half as often",
        "exact/recursion/inside_outside.py",
        "slot_occurrences[right] += occurrence",
        "slot_occurrences[right] += occurrence / 2.0",
        "tests/exact/recursion",
    ),
    Bug(
        LEAVES,
        "Poisson: the rate of the prior, not of the posterior",
        "pactree_mcmc/model/leaf/counts.py",
        "lgamma(shape) - shape * log(rate)",
        "lgamma(shape) - shape * log(params[1])",
        "tests/model/leaf/test_numerics.py tests/model/leaf/test_leaves.py -k poisson",
    ),
    Bug(
        LEAVES,
        "Normal with shared variance: half the degrees of freedom",
        "pactree_mcmc/model/leaf/normal.py",
        "        scale = np.sqrt(bn / an * (1.0 + 1.0 / (self.k0 + stats[:, 0])))\n        return StudentT(2.0 * an,",
        "        scale = np.sqrt(bn / an * (1.0 + 1.0 / (self.k0 + stats[:, 0])))\n        return StudentT(an,",
        "tests/model/leaf tests/posterior/test_predictive.py",
    ),
    Bug(
        LEAVES,
        "Weibull: the log times of events with power k",
        "pactree_mcmc/model/leaf/positive.py",
        "s[0] * log(k) + (k - 1.0) * s[2]",
        "s[0] * log(k) + k * s[2]",
        "tests/model/leaf/test_leaves.py -k integral",
    ),
    Bug(
        LEAVES,
        "linear leaf: draws of coefficients by the lower triangle",
        "pactree_mcmc/model/leaf/normal.py",
        "deviation = solve_upper(posterior.root,",
        "deviation = solve_lower(posterior.root,",
        "tests/model/leaf/test_leaves.py -k linear",
    ),
    Bug(
        PRIORS,
        "min_leaf + 1 rows on the right",
        "pactree_mcmc/mcmc/state/splits.py",
        "if state.node[node].rows - rows_left >= min_leaf:",
        "if state.node[node].rows - rows_left > min_leaf:",
        "tests/mcmc/state tests/mcmc/moves/test_transitions.py",
    ),
    Bug(
        PRIORS,
        "the exact engine's split prior ignores feature weights",
        "exact/graph/build.py",
        "arrays.edges.log_rule[e] = log(weight) - log(float(n_splits))",
        "arrays.edges.log_rule[e] = -log(float(n_splits))",
        "tests/exact/graph tests/exact/recursion/test_enumeration.py",
    ),
    Bug(
        PRIORS,
        "conditioned process: z squared without rho",
        "pactree_mcmc/model/tree_prior.py",
        "z = (1.0 - rho) + rho * z * z",
        "z = (1.0 - rho) + rho * z",
        "tests/model/test_log_posterior.py tests/model",
    ),
    Bug(
        TABLES,
        "a value equal to a cut goes right",
        "pactree_mcmc/table/coding.py",
        'return np.searchsorted(self.cuts, x, side="left")',
        'return np.searchsorted(self.cuts, x, side="right")',
        "tests/table",
    ),
    Bug(
        TABLES,
        "missing values on the same side in both coordinates of a feature",
        "pactree_mcmc/table/columns.py",
        "np.where(np.isnan(values), np.inf if missing_above else -np.inf, values)",
        "np.where(np.isnan(values), -np.inf, values)",
        "tests/table/test_columns.py -k side",
    ),
    Bug(
        TABLES,
        "quantile bins begin one value early",
        "pactree_mcmc/table/coding.py",
        'starts = np.unique(np.searchsorted(ends, ranks, side="left") + 1)',
        'starts = np.unique(np.searchsorted(ends, ranks, side="left"))',
        "tests/table",
    ),
    Bug(
        ANSWERS,
        "the effective sample size leaves out the lag at which the sum stops",
        "pactree_mcmc/posterior/ess.py",
        "np.maximum(-1.0 + 2.0 * summed + tail,",
        "np.maximum(-1.0 + 2.0 * summed,",
        "tests/posterior/test_evidence.py",
    ),
    Bug(
        ANSWERS,
        "the variance of a new y without that between trees",
        "pactree_mcmc/posterior/rows/predictions.py",
        "square = np.where(is_infinite, 0.0, variance) / scale / scale + ((mean - center) / scale) ** 2",
        "square = np.where(is_infinite, 0.0, variance) / scale / scale + (((mean - center) / scale) ** 2).mean()",
        "tests/posterior/test_predictive.py -k mixture",
    ),
    Bug(
        ANSWERS,
        "distance of trees counts common cells once",
        "pactree_mcmc/posterior/trees/distances.py",
        "n_cells - 2 * n_common_cells(",
        "n_cells - n_common_cells(",
        "tests/posterior/test_credible.py tests/posterior/test_evidence.py",
    ),
    Bug(
        ANSWERS,
        "the credible set lacks the tree that completes it",
        "pactree_mcmc/posterior/trees/credible_set.py",
        "np.array([fraction_above(*ranked, value) < mass for value",
        "np.array([fraction_above(*ranked, value) < 0.9 * mass for value",
        "tests/posterior/test_credible.py",
    ),
    Bug(
        CERTIFICATES,
        "tandem bound with KL where 2 KL is due",
        "pactree_mcmc/certificates/bound.py",
        "kl_inverse(tandem, (2.0 * kl + confidence) / n)",
        "kl_inverse(tandem, (kl + confidence) / n)",
        "tests/certificates/test_bounds.py",
    ),
    Bug(
        CERTIFICATES,
        "the path of a leaf one bit short in compute_R",
        "pactree_mcmc/certificates/occam_bounds.py",
        "path_bits[i] + split_bits[i] + 2.0",
        "path_bits[i] + split_bits[i] + 1.0",
        "tests/certificates/test_occam.py",
    ),
    Bug(
        CERTIFICATES,
        "a certificate spends delta twice",
        "pactree_mcmc/posterior/rows/certificate.py",
        "half = delta / 2.0",
        "half = delta",
        "tests/certificates/test_posterior.py",
    ),
    Bug(
        SYSTEMS,
        "context trees score without the prior counts of all symbols",
        "exact/systems/context_trees.py",
        "prior = self.n_symbols * self.alpha\n",
        "prior = self.alpha\n",
        "tests/exact/systems/test_pac_bayes.py",
    ),
    Bug(
        SYSTEMS,
        "a pruning is best above its threshold only",
        "exact/systems/pruning.py",
        'np.searchsorted(self.threshold, alpha, side="right")',
        'np.searchsorted(self.threshold, alpha, side="left")',
        "tests/exact/systems/test_pruning.py",
    ),
    Bug(
        SYSTEMS,
        "oracle bound with 2 D0 where 3 D0 is due",
        "exact/systems/pac_bayes.py",
        '"3 D0 leaves / (lambda n)": 3.0 * depth',
        '"3 D0 leaves / (lambda n)": 2.0 * depth',
        "tests/exact/systems/test_pac_bayes.py",
    ),
    Bug(
        FILES,
        "the digest of a file leaves out its arrays",
        "pactree_mcmc/files/store.py",
        "out.update(np.ascontiguousarray(array).data)",
        "pass",
        "tests/loading/test_damage.py -k checksum",
    ),
    Bug(
        FILES,
        "a loaded cut may lie beyond the codes of its feature",
        "pactree_mcmc/loading/validate.py",
        "(trees.upper <= n_codes)",
        "(trees.upper <= n_codes + 1)",
        "tests/loading/test_damage.py -k cuts",
    ),
    Bug(
        ESTIMATORS,
        "min_samples_leaf as a fraction of the rows is rounded down",
        "pactree_mcmc/faces/sklearn/parts.py",
        "return math.ceil(fraction * n_rows)",
        "return math.floor(fraction * n_rows)",
        "tests/faces/sklearn/test_estimator_choices.py -k leaf",
    ),
    Bug(
        ESTIMATORS,
        "return_std returns the disagreement of trees",
        "pactree_mcmc/faces/sklearn/estimators.py",
        "return mean_and_std_of_new_y(self.posterior_._rows, numbers)",
        "return self.posterior_._rows.values(numbers)[:, 0], self.posterior_.predict_std_over_trees(X)",
        "tests/faces/sklearn/test_estimators.py -k test_intervals",
    ),
    Bug(
        PLOTS,
        "the band of a partial dependence averages over values, not rows",
        "pactree_mcmc/posterior/rows/dependence.py",
        "np.quantile(means, central_fractions(coverage), axis=0)",
        "np.quantile(means, central_fractions(coverage / 2.0), axis=0)",
        "tests/posterior/test_credible.py tests/faces/plots -k dependence",
    ),
    Bug(
        ANSWERS,
        "rows beside a rule leave out those at its cut",
        "pactree_mcmc/posterior/trees/paths.py",
        "goes_left = values <= condition.threshold",
        "goes_left = values < condition.threshold",
        "tests/posterior/test_shapes.py",
    ),
    Bug(
        RECURSIONS,
        "the exponential is read behind its table",
        "exact/recursion/semirings.py",
        "    if x > 0.5:",
        "    if x > 1e300:",
        "tests/exact/test_limits.py -k exponential",
    ),
    Bug(
        ESTIMATORS,
        "the Monte-Carlo error of an estimator counts distinct rows once",
        "pactree_mcmc/faces/sklearn/estimators.py",
        "weight = weights_of_rows(post.model.target.weights[rows])",
        "weight = np.full(len(rows), 1.0 / len(rows))",
        "tests/posterior/test_weights_of_rows.py",
    ),
)


def plant(bug, copy):
    """Plant a bug in the ``copy`` of the sources, run its tests, and return the test that notices it, or a reason."""
    path = copy / bug.file
    source = path.read_text() if path.exists() else ""
    if source.count(bug.old) != 1:
        return None, f"the text occurs {source.count(bug.old)} times in {bug.file}"
    path.write_text(source.replace(bug.old, bug.new))
    try:
        test, remark = run_tests(bug.tests.split(), copy)
    finally:
        path.write_text(source)
    if test is not None and DOES_NOT_END not in test and run_tests([test], copy)[1] is not None:
        return None, f"{test} fails without the bug, too"
    return test, remark


def run_tests(arguments, copy):
    """Run tests in the ``copy`` until one fails. Return the test that failed, or None, and what pytest printed last."""
    command = [sys.executable, "-m", "pytest", "-n", "0", "-x", "-p", "no:cacheprovider", *arguments]
    environ = os.environ | {"PYTHONPATH": str(copy)}
    try:
        done = subprocess.run(
            command, cwd=copy, env=environ, capture_output=True, text=True, timeout=TIMEOUT, check=False
        )
    except subprocess.TimeoutExpired:
        return f"{arguments[0]} ({DOES_NOT_END})", ""
    if done.returncode == 0:
        return None, None
    found = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - |$)", done.stdout, re.MULTILINE)
    last = (done.stdout.strip() or done.stderr.strip()).rpartition("\n")[2]
    return (found[1] if found and done.returncode == 1 else None), last


def main():
    """Plant the bugs, write the results, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", help="plant the bugs whose part, file or description contains it")
    only = parser.parse_args().only
    bugs = [bug for bug in BUGS if only is None or any(text in f"{bug.part} {bug.file} {bug.what}" for text in only)]
    results = []
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in COPIED:
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__", "_build"))
        for path in ROOT.iterdir():
            if path.is_file():
                shutil.copy(path, copy)
        for bug in bugs:
            test, remark = plant(bug, copy)
            outcome = f"{'caught' if test else 'MISSED'}: {bug.part}, {bug.what}: {test or remark or 'all tests pass'}"
            print(outcome, flush=True)
            results.append({"part": bug.part, "bug": bug.what, "file": bug.file, "caught": test})
    if only is None:
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    missed = sum(one["caught"] is None for one in results)
    print(f"{len(results) - missed} of {len(results)} bugs caught")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
