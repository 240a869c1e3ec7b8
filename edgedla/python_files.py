"""Importing a Python file by its path."""

from __future__ import annotations

import importlib.util
import os
import sys
from types import ModuleType
from typing import Union


def import_file(path: Union[str, os.PathLike[str]], name: str) -> ModuleType:
    """The module of the file, as `name` in sys.modules: dataclasses look their module up there.

    Raises:
        FileNotFoundError: no such file. And whatever the file raises.
    """
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
