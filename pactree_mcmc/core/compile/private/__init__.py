"""What reaches into numba's private parts, so that compiling takes half the time."""
