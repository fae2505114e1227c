"""Code that uses private parts of numba, which saves most of the compilation time. See docs/develop/parts.md."""
