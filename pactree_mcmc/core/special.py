"""Functions of scipy.special, imported at the first call, since it takes longer to import than this library."""

from collections.abc import Callable
from typing import Any


def _loaded_when_called(name: str) -> Callable[..., Any]:
    """Return a function that imports scipy.special when it is called, and calls its function ``name``."""

    def call(*args: Any, **more: Any) -> Any:
        import scipy.special

        return getattr(scipy.special, name)(*args, **more)

    call.__name__ = call.__qualname__ = name
    return call


betainc = _loaded_when_called("betainc")
betaincc = _loaded_when_called("betaincc")
expit = _loaded_when_called("expit")
fdtrc = _loaded_when_called("fdtrc")
gammainc = _loaded_when_called("gammainc")
gammaincc = _loaded_when_called("gammaincc")
gammaln = _loaded_when_called("gammaln")
logsumexp = _loaded_when_called("logsumexp")
ndtri = _loaded_when_called("ndtri")
stdtrit = _loaded_when_called("stdtrit")
xlogy = _loaded_when_called("xlogy")
