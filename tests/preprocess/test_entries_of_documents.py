"""Every entry of this room's documents, and the field that it comes from."""

from __future__ import annotations

from typing import Callable

import pytest

from tests import documents

# What NumPy says of the values that stand in for fields differs by its release.
pytestmark = pytest.mark.once


def test_entries_of_documents_are_the_recorded_ones(golden: Callable[[str, str], None]) -> None:
    documents.check("preprocess", golden)
