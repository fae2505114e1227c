"""Effective draws a processor second of samplers of ONE Bayesian tree: ours, stochtree, bartz, tgp and pymc-bart.

All sample a regression tree with the tree prior (.95, 2), four chains of different seeds, each program in a process of
its own on one core; two classes are the numbers 0 and 1. Each takes about --seconds processor seconds a chain,
compilation excluded; a quarter of its iterations is dropped, its time counted. (Kernel "default" counts all its tuning,
and makes a run of given length, not one that stops when its own figures please; 1,000 draws at least.) At most 2,000
draws a chain are kept. Judged are the predictions at 50 training rows, the number of leaves, and the noise: split R-hat
and bulk effective draws, ranks normalised, of all chains. A program one of whose R-hats exceeds 1.01 is marked: its
chains do not agree, and its effective draws mean nothing.

The models are as near each other as the programs allow. stochtree, bartz, pymc-bart and ours with "shared variance"
have one noise variance for all leaves, tgp and ours with "variance a leaf" one in each; the priors of the leaves' means
and of the variance are each program's own. Cuts: any two neighbouring values, bartz between 255 quantiles, its depth
at most 11. Rivals draw the means of the leaves; ours integrates them out, and its prediction is their posterior mean:
means that are drawn have noise of their own, by which a chain looks less correlated. "Noise" is the standard deviation
or variance drawn; with a variance in each leaf the log score of the tree (ours) or the mean log variance at the 50
rows (tgp). pymc-bart does not keep its number of leaves. tgp is timed in a run without traces, which it writes to text.

Rivals are looked for in this interpreter and in that of --rivals (pip install '.[bench]' pymc-bart); tgp needs R and
its package (Debian: apt-get install r-cran-tgp). Those that are not there are left out. Each measurement is a line of
--out; what is there already is not measured again. Rows of Markdown at the end, and with --summary alone.
Run: python benchmarks/mixing/single_tree_ess.py [--tables ...] [--programs ...] [--seconds 20] [--out FILE] [--summary]
"""

import argparse
import datetime
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import tables
from data import has_table, load
from elsewhere import Failed, add_option, interpreter_with, run
from estimator_summary import markdown
from single_tree_programs import MODULE, PROGRAMS

from pactree_mcmc.posterior.convergence import MOST_RHAT
from pactree_mcmc.posterior.ess import rhat_and_ess

TABLES = ("diabetes", "concrete", "abalone", "friedman_1000", "breast_w", "uneven_steps")
MOST_ROWS = 1000
POINTS = 50
CHAINS = 4
PRIOR = (0.95, 2.0)
HEADER = (
    "program", "iterations a chain", "CPU s", "wall s", "leaves, mean", "R-hat: worst prediction", "leaves", "noise",
    "effective draws: worst 5 % of predictions", "median", "leaves", "noise",
    "a CPU second: worst 5 %", "median", "a wall second: worst 5 %", "chains agree",
)  # fmt: skip


def table(name):
    """Features and numbers, at most the first 1,000 rows; missing cells are the median of the column."""
    X, y = tables.friedman(1000)[::2] if name == "friedman_1000" else load(name)
    X, y = X[:MOST_ROWS], y[:MOST_ROWS]
    return np.where(np.isnan(X), np.nanmedian(X, axis=0), X), y


def command(program, rivals):
    """How the program is started; a line that says why it is left out where it cannot be."""
    script = str(Path(__file__).with_name("single_tree_programs.py"))
    if program == "tgp":
        asked = ["Rscript", "-e", "library(tgp)"]
        if not shutil.which("Rscript") or subprocess.run(asked, capture_output=True, check=False).returncode:
            return None, "tgp left out: no Rscript with the package tgp; on Debian: apt-get install r-cran-tgp"
        return [sys.executable, script, program], ""
    if program not in MODULE:
        return [sys.executable, script, program], ""
    interpreter = interpreter_with(MODULE[program], rivals)
    if interpreter is None:
        return None, f"{program} left out: not in this interpreter; give --rivals PYTHON of one that has it"
    return [interpreter, script, program], ""


def judged(values):
    """R-hat and effective draws of each quantity (quantities, chains, draws); infinite and none where none moves."""
    rhat, ess = rhat_and_ess(values)
    still = np.ptp(values, axis=(1, 2)) == 0.0
    return np.where(still, np.inf, rhat), np.where(still, 0.0, ess)


def line(name, program, found):
    """What is written of a run."""
    rhat, ess = judged(np.moveaxis(found["predictions"], 2, 0).astype(float))
    out = {"table": name, "program": program, "iterations": int(found["iterations"])}
    out |= {"cpu": float(found["cpu"]), "wall": float(found["wall"]), "draws": int(found["predictions"].shape[1])}
    out["predictions"] = {"rhat": rhat.max(), "worst": np.quantile(ess, 0.05), "median": np.median(ess)}
    out["leaves_mean"] = float(found["leaves"].mean()) if "leaves" in found else None
    for quantity in ("leaves", "scale"):
        if quantity in found:
            (rhat,), (ess,) = judged(found[quantity][None].astype(float))
            out[quantity] = {"rhat": rhat, "ess": ess}
    return out | {"day": datetime.date.today().isoformat()}


def agree(one):
    """Whether no R-hat is too large."""
    return all(one[quantity]["rhat"] <= MOST_RHAT for quantity in ("predictions", "leaves", "scale") if quantity in one)


def row(one):
    predictions, leaves, scale = (one.get(quantity, {}) for quantity in ("predictions", "leaves", "scale"))
    cells = [one["program"], f"{one['iterations']:,}", f"{one['cpu']:.1f}", f"{one['wall']:.1f}"]
    cells += ["-" if one["leaves_mean"] is None else f"{one['leaves_mean']:.1f}"]
    cells += [f"{part['rhat']:.3f}" if part else "-" for part in (predictions, leaves, scale)]
    cells += [f"{predictions[part]:,.0f}" for part in ("worst", "median")]
    cells += [f"{part['ess']:,.0f}" if part else "-" for part in (leaves, scale)]
    cells += [f"{predictions[part] / one['cpu']:,.2f}" for part in ("worst", "median")]
    return [*cells, f"{predictions['worst'] / one['wall']:,.2f}", "yes" if agree(one) else "NO: figures mean nothing"]


def read(path):
    """Lines of the file by table and program, the last of each."""
    lines = map(json.loads, path.read_text().splitlines()) if path.exists() else ()
    return {(one["table"], one["program"]): one for one in lines}


def measure(given):
    found, starts = read(given.out), {program: command(program, given.rivals) for program in given.programs}
    print(*(why for _, why in starts.values() if why), sep="\n", end="\n\n")
    for name in given.tables:
        if name != "friedman_1000" and not has_table(name):
            continue
        X, y = table(name)
        arrays = {"X": X, "y": y, "probe": np.unique(np.linspace(0, len(y) - 1, POINTS).astype(int))}
        options = {"prior": PRIOR, "chains": CHAINS, "seconds": given.seconds, "most": given.most}
        for program, (start, _) in starts.items():
            if start is None or (name, program) in found:
                continue
            try:
                one = line(name, program, run(start, arrays, options))
            except Failed as failure:
                print(f"{name}, {program}: {failure}", flush=True)
                continue
            with given.out.open("a") as file:
                file.write(json.dumps(one) + "\n")
            print(f"{name}, {program}: {one['cpu']:.1f} CPU s", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=TABLES)
    parser.add_argument("--programs", nargs="+", choices=PROGRAMS, default=list(PROGRAMS))
    parser.add_argument("--seconds", type=float, default=20.0, help="processor seconds of a chain")
    parser.add_argument("--most", type=int, default=10**8, help="iterations of a chain, at most: a trial")
    parser.add_argument("--out", type=Path, default=Path("single_tree_ess.jsonl"), help="default single_tree_ess.jsonl")
    parser.add_argument("--summary", action="store_true", help="measure nothing, print what the file has")
    add_option(parser)
    given = parser.parse_args()
    if not given.summary:
        measure(given)
    found = read(given.out)
    for name in given.tables:
        rows = [row(found[name, program]) for program in given.programs if (name, program) in found]
        if rows:
            print(f"\n{name}:\n")
            print(*markdown(HEADER, rows), sep="\n", flush=True)


if __name__ == "__main__":
    main()
