"""Measure the time of a call, for all benchmarks."""

import time


def timed(answer, repeats=3):
    """Call ``answer()`` several times; return its last result, and the least wall and CPU seconds of a call."""
    wall, cpu = [], []
    for _ in range(repeats):
        began, used = time.perf_counter(), time.process_time()
        out = answer()
        wall.append(time.perf_counter() - began)
        cpu.append(time.process_time() - used)
    return out, min(wall), min(cpu)
