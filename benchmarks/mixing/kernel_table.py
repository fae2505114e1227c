"""Compare kernels in a table: on each problem with an exact answer, their accuracy and speed."""

from measures import effective, roots, total_variation
from problems import WITH_EXACT_ANSWER, model_of, root_pmf, truth_of
from settings import LIMITS
from tables import MissingTable
from timing import kernel_name, run_within

HEADER = (
    *("problem", "kernel", "total variation of the root distribution"),
    *("effective draws/s of the slowest", "slowest", "proposals/s"),
)


def kernel_table(kernels, seconds=None, names=None):
    """Yield the lines of the table in Markdown, each as soon as it is measured.

    ``seconds`` replaces the time limit, ``names`` are the problems (default all).
    """
    yield _line(HEADER)
    yield _line(["---"] * len(HEADER))
    for name in names or WITH_EXACT_ANSWER:
        try:
            model_of(name)
        except MissingTable as missing:
            yield _line([name, f"skipped: {missing}"] + [""] * (len(HEADER) - 2))
            continue
        if truth_of(name) is None:
            continue
        for kernel in kernels:
            yield _line([name, kernel_name(kernel), *_figures(name, kernel, LIMITS["table"].within(seconds))])


def _figures(name, kernel, limit):
    distribution = root_pmf(name)
    run = run_within(model_of(name), limit, rng=0, kernel=kernel)
    post, drawn = run.post, roots(run.post)
    rates = {
        "root": effective(drawn.has(max(distribution, key=distribution.get))) / run.seconds,
        "leaves": effective(post.n_leaves) / run.seconds,
        "log score": effective(post.log_score) / run.seconds,
    }
    slowest = min(rates, key=rates.get)
    apart = total_variation(distribution, drawn.distribution())
    return f"{apart:.4f}", f"{rates[slowest]:,.1f}", slowest, f"{run.proposals_per_second:,.0f}"


def _line(cells):
    return f"| {' | '.join(cells)} |"
