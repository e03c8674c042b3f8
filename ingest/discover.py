"""The one registry mechanism: a folder of modules, each ending in one constant, becomes a tuple of those constants."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any


def discover(package: str, constant: str) -> tuple[Any, ...]:
    """Collect `constant` from each module of `package`, in the order of the modules' names.

    Modules whose name starts with an underscore are helpers and are passed over.

    Raises:
        AttributeError: a module of the package does not end in its constant.
    """
    found = importlib.import_module(package)
    names = sorted(info.name for info in pkgutil.iter_modules(found.__path__) if not info.name.startswith("_"))
    return tuple(getattr(importlib.import_module(f"{package}.{name}"), constant) for name in names)
