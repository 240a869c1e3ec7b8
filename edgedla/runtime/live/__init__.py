"""The live page: a running pipeline's pictures and numbers in a browser, made only while somebody watches."""

from __future__ import annotations
