"""Programs that convert, one a framework. They run by their path, also under a Python that has the framework and no edgedla."""

from __future__ import annotations
