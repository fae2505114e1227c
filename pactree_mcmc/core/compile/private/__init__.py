"""Uses of numba's private parts, which save most of the time of compiling. See docs/develop/compile.md."""
