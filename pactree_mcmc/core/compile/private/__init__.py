"""What reaches into numba's private parts, so that compiling takes a third of the time."""
