"""All that is called; a kind of argument is a key of `world.VALID`, with ``?`` before it where it may be left out."""

from .engines import ENGINES, GRAPHS, MODELS, PARTS, PLOTS, POSTERIORS
from .learners import BOUNDS, ESTIMATORS, RISKS

TARGETS = [*PARTS, *MODELS, *POSTERIORS, *PLOTS, *ENGINES, *GRAPHS, *RISKS, *ESTIMATORS, *BOUNDS]
