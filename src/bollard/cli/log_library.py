"""Loads structlog as a server needs it."""

import importlib
import sys

__all__ = ["load_without_rich"]


def load_without_rich() -> None:
    """structlog draws tracebacks with rich wherever it finds it. A host writes plain lines, and every host would pay
    5 MiB for what none uses: so it does not find it. Whoever wants rich later still does."""
    if "structlog" in sys.modules or "rich" in sys.modules:
        return
    sys.modules["rich"] = None  # type: ignore[assignment]  # what Python says is not there
    try:
        importlib.import_module("structlog")
    finally:
        del sys.modules["rich"]
