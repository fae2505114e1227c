"""Build a release: a wheel with compiled code for each Python, a wheel without, and the source distribution, checked.

    python verification/wheel.py [--pythons python3.11 python3.12 python3.13] [--out FOLDER]

For each Python, everything is compiled in a new environment, and the wheel is installed into a second one, in which a
first run and a first exact sum must compile nothing. Sizes and CPU seconds are printed. pip takes the wheel of the same
Python, system and kind of processor if there is one, and else the wheel without compiled code, which compiles as the
sources do. Finished parts are kept: to go on after an interruption, give the same `--out FOLDER`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PYTHONS = ("python3.11", "python3.12", "python3.13")
FIRST_RUN = """
import json, os, resource, sys
import numpy as np
import pactree_mcmc as pt

rng = np.random.default_rng(0)
X = rng.normal(size=(200, 4)).round(1)
model = pt.TreeModel(X, X[:, 0] + rng.normal(size=200) > 0)
post = pt.sample(model, rng=1, progress=False)
post.predict_proba(X)
seconds = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
import exact

exact.solve(pt.TreeModel(X[:60, :2].round(), X[:60, 0] > 0, tree_prior=pt.ChipmanPrior(max_depth=3)))
compiled = [name for _, _, names in os.walk(os.environ["NUMBA_CACHE_DIR"]) for name in names if name.endswith(".nbc")]
print(json.dumps({"seconds": seconds, "compiled": len(compiled)}))
"""
"""Program of a user: the first run with the defaults, timed from the start of Python, and a first exact sum."""


def call(*words: object, **options: object) -> None:
    """Run a command, and raise an error if it fails."""
    subprocess.run([str(word) for word in words], check=True, **options)  # type: ignore[call-overload]


def environment(python: str, folder: Path, *packages: str) -> Path:
    """Make an environment with packages, and return its Python."""
    call(python, "-m", "venv", folder)
    call(folder / "bin" / "pip", "install", "--quiet", *packages)
    return folder / "bin" / "python"


def requirements() -> list[str]:
    """Return the packages that compiling everything needs."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return [*project["dependencies"], *project["optional-dependencies"]["sklearn"]]


ALL_KERNELS = """
import numpy as np
import pactree_mcmc as pt
from pactree_mcmc.mcmc.chain.chain import Chain
from pactree_mcmc.mcmc.kernel import read_kernel
from pactree_mcmc.mcmc.run.compiled import compile_all

model = pt.TreeModel(np.arange(200.0).reshape(100, 2), np.arange(100) > 50)
Chain(model.lowered, read_kernel("grow-prune"), np.random.default_rng(0), prepare=compile_all)
"""
"""Program that compiles the functions of all kernels as one, for runs of other kernels than the default."""


def compile_all(python: str, archive: Path) -> None:
    """Compile everything into a new folder ``archive``, complete if it exists; do nothing if it exists."""
    if archive.exists():
        return
    with tempfile.TemporaryDirectory() as made:
        compiler = environment(python, Path(made) / "venv", *requirements())
        env = os.environ | {"PYTHONPATH": str(ROOT), "NUMBA_CACHE_DIR": str(Path(made) / "code")}
        # in this order, since the default kernel then has a library of its own, which is faster to load
        for program in ("import pactree_mcmc; pactree_mcmc.warm_up()", ALL_KERNELS):
            call(compiler, "-c", program, cwd=ROOT, env=env)
        shutil.move(Path(made) / "code", archive)


def build_plain(out: Path) -> Path:
    """Build the source distribution, and from it the wheel without compiled code; return the wheel."""
    call(sys.executable, "-m", "build", "--outdir", out, ROOT)
    (wheel,) = out.glob("*-py3-none-any.whl")
    return wheel


def add_code(plain: Path, python: str, archive: Path) -> Path:
    """Return a wheel with compiled code, whose name says for which Python, system and processor it is."""
    system = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    # the code needs no more of the C library than numba's own wheels do
    system = system.replace("linux_", "manylinux_2_17_") if system.startswith("linux_") else system
    tag = "cp" + python.removeprefix("python").replace(".", "")
    with tempfile.TemporaryDirectory() as made:
        call(sys.executable, "-m", "wheel", "unpack", plain, "--dest", made)
        (content,) = Path(made).iterdir()
        shutil.copytree(archive, content / "pactree_mcmc" / "core" / "compile" / "archives")
        call(sys.executable, "-m", "wheel", "pack", content, "--dest-dir", made)
        (packed,) = Path(made).glob("*.whl")
        tags = ("--python-tag", tag, "--abi-tag", "none", "--platform-tag", system)
        call(sys.executable, "-m", "wheel", "tags", *tags, packed)
        (tagged,) = Path(made).glob(f"*-{tag}-*.whl")
        return Path(shutil.move(tagged, plain.parent / tagged.name))


def check(python: str, wheel: Path) -> None:
    """Install a wheel anew, and print its size and the CPU seconds of a first run, which must compile nothing."""
    with tempfile.TemporaryDirectory() as made:
        user = environment(python, Path(made) / "venv", str(wheel))
        cache = Path(made) / "cache"
        options = {"cwd": made, "env": os.environ | {"NUMBA_CACHE_DIR": str(cache)}, "check": True}
        done = subprocess.run([user, "-c", FIRST_RUN], capture_output=True, text=True, **options)  # type: ignore[call-overload]
    found = json.loads(done.stdout)
    size = wheel.stat().st_size / 1e6
    print(f"{wheel.name}: {size:.1f} MB, first run {found['seconds']:.1f} CPU s", flush=True)
    if found["compiled"]:
        raise SystemExit(f"{wheel.name}: {found['compiled']} functions were compiled in a first run.")


def main() -> None:
    """Compile, build and check everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pythons", nargs="+", default=PYTHONS, help="commands of these names are used")
    parser.add_argument("--out", default=str(ROOT / "dist"), help="folder of the distributions")
    args = parser.parse_args()
    out = Path(args.out).resolve()
    out.mkdir(parents=True, exist_ok=True)
    for python in args.pythons:
        compile_all(python, out / f"code-{python}")
    plain = build_plain(out)
    for python in args.pythons:
        check(python, add_code(plain, python, out / f"code-{python}"))
    call(sys.executable, "-m", "twine", "check", "--strict", *out.glob("pactree_mcmc-*"))


if __name__ == "__main__":
    main()
