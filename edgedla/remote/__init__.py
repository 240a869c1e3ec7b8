"""Boards over SSH: a laptop's commands run on a board, jobs survive the connection, results are verified."""

from __future__ import annotations
