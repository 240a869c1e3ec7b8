"""What a command shows while it runs, where a person looks at a terminal."""

from __future__ import annotations
