"""Every entry of this room's documents, and the field that it comes from."""

from __future__ import annotations

from typing import Callable

from tests import documents


def test_entries_of_documents_are_the_recorded_ones(golden: Callable[[str, str], None]) -> None:
    documents.check("rules", golden)
