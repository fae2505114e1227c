"""The same seed gives the same trees on every processor: short runs in processes that stand for several kinds."""

import os

from tests.programs import run

OLD = {
    "OPENBLAS_CORETYPE": "Prescott",
    "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL",
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-AVX2_Usable,-FMA_Usable",
}
"""Environment in which BLAS, NumPy and the C library take their code for a processor of 2004."""


def drawn(*words, **environment):
    """Return the lines that the program prints in this environment, by name of the run."""
    done = run("same_draws", *words, env=os.environ | environment)
    assert done.returncode == 0, done.stderr
    return dict(line.split(": ") for line in done.stdout.splitlines())


def test_draws_are_those_of_other_processors():
    """Of an old one, and of those that are not at hand: there NumPy, SciPy and BLAS may round in any way."""
    here, there = drawn(), drawn("--other-digits", **OLD)
    assert len(here) > 40
    assert [name for name in here if here[name] != there.get(name)] == []
