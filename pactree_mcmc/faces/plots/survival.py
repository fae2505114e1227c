"""Plots of survival functions: those of rows with their bands, and Kaplan-Meier curves beside the model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...core.checks import check_type
from ...posterior.rows.survival import Survival, SurvivalCalibration
from . import style
from .style import MOST_CHAINS, color_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAME_LETTERS = 60
"""Largest number of letters of the name of a group."""


def plot_survival(survival: Survival | SurvivalCalibration, ax: Axes | None = None) -> Axes:
    """Draw survival functions with their bands, or Kaplan-Meier curves beside those of the model.

    Parameters
    ----------
    survival : Survival or SurvivalCalibration
        Result of `Posterior.survival` or of `Posterior.survival_calibration`.
    ax : matplotlib Axes, optional
        Default: those of a new figure.

    Returns
    -------
    matplotlib Axes
        Of a ``Survival``: for each row its curve and, lighter, its credible band. Of a ``SurvivalCalibration``: for
        each group the Kaplan-Meier curve as steps, with a tick at each censored time and, lighter, its confidence
        interval, and dashed the survival function of the model. At most eight rows or groups are drawn.

    Raises
    ------
    TypeError
        If ``survival`` is neither.

    Examples
    --------
    >>> import numpy as np, pactree_mcmc as pt
    >>> y = np.column_stack([np.linspace(0.1, 2.0, 20), np.arange(20) % 4 > 0])
    >>> model = pt.TreeModel(np.arange(20.0)[:, None], y, leaf=pt.ExponentialGamma())
    >>> post = pt.posterior_from_trees(model, [pt.Tree([-1], [0], [0], [0])])
    >>> plot_survival(post.survival([[3.0]], np.linspace(0.0, 2.0, 50))).get_ylabel()
    'P(time > t)'
    """
    allowed = "the result of post.survival(...) or post.survival_calibration(...)"
    check_type("survival", survival, Survival | SurvivalCalibration, allowed)
    ax = style.axes_or_new(ax, 6.0, 4.2)
    ax.set(xlabel="time t", ylabel="P(time > t)", ylim=(-0.03, 1.03))
    if isinstance(survival, Survival):
        n, names = len(survival.mean), [f"row {i}" for i in range(len(survival.mean))]
        _draw_curves(ax, survival)
    else:
        n, names = len(survival.names), survival.names
        _draw_kaplan_meier(ax, survival)
    if n > MOST_CHAINS:
        ax.set_title(f"the first {MOST_CHAINS} of {n}", fontsize="medium")
    names = [style.shortened(name, NAME_LETTERS) for name in names[:MOST_CHAINS]]
    handles = [ax.plot([], [], color=color_of(i))[0] for i in range(len(names))]
    if isinstance(survival, SurvivalCalibration):
        handles += [ax.plot([], [], "--", color="0.35")[0], ax.plot([], [], "|", color="0.35")[0]]
        names += ["the model", "censored"]
    if names:
        style.legend_below(ax, handles, names)
    return ax


def _draw_curves(ax: Axes, survival: Survival) -> None:
    order = np.argsort(survival.times, kind="stable")
    times = survival.times[order]
    for i in range(min(len(survival.mean), MOST_CHAINS)):
        lower, upper, mean = (part[i, order] for part in (survival.lower, survival.upper, survival.mean))
        ax.fill_between(times, lower, upper, color=color_of(i), alpha=0.2, linewidth=0.0)
        ax.plot(times, mean, color=color_of(i), marker="o" if len(times) == 1 else "")


def _draw_kaplan_meier(ax: Axes, calibration: SurvivalCalibration) -> None:
    for g in range(min(len(calibration.names), MOST_CHAINS)):
        curve, here = calibration.curve(g), calibration.group == g
        time = np.append(0.0, curve.time)
        lower, upper = (np.append(1.0, part) for part in (curve.lower, curve.upper))
        ax.fill_between(time, lower, upper, step="post", color=color_of(g), alpha=0.15, linewidth=0.0)
        ax.plot(time, np.append(1.0, curve.survival), drawstyle="steps-post", color=color_of(g))
        censored = np.unique(calibration.time[here & ~calibration.event])
        height = curve.survival[np.searchsorted(curve.time, censored)]
        ax.plot(censored, height, "|", color=color_of(g), markersize=7)
        ax.plot(calibration.grid, calibration.expected[g], "--", color=color_of(g), linewidth=1.1)
