"""Scripts for trtexec, and the files that they read."""

from __future__ import annotations
