"""The folder that a build leaves: what it holds, how it is written whole, how it is loaded."""

from __future__ import annotations
