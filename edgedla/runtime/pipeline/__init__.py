"""From a source through runners to outputs: threads, queues, configuration, service."""

from __future__ import annotations
