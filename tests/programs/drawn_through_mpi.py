"""Draws from workers of MPI."""

from tests.problems.runs import assert_same, draw

if __name__ == "__main__":
    from mpi4py.futures import MPIPoolExecutor

    with MPIPoolExecutor() as pool:
        assert_same(draw("classes", executor=pool), draw("classes"))
    print("the same draws")
