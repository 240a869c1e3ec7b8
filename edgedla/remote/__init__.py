"""Boards over SSH: the verbs of a laptop run on a board, jobs outlive the connection, results come back verified."""

from __future__ import annotations
