"""What users write on the command line, as values: models, platforms, trtexec's options."""

from __future__ import annotations
