"""The live page: pictures and numbers of a running pipeline in a browser, made only while somebody looks."""

from __future__ import annotations
