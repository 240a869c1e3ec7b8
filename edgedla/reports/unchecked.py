"""A model without a check report: its file cannot be read, or TensorRT's parser refuses it."""

from __future__ import annotations

import os
from typing import Any, Dict, NamedTuple, Tuple

from edgedla.errors import ModelError, ModelRefused
from edgedla.targets import Platform
from edgedla.text.printable import without_credentials

NOT_READ, DOES_NOT_BUILD = "Not read", "Does not build"


class Unchecked(NamedTuple):
    """A model without a report, and why.

    Attributes:
        file: its path as given. platform, precision: those of the check.
    """

    file: str
    error: ModelError
    platform: Platform
    precision: str

    @property
    def verdict(self) -> str:
        return verdict_of(self.error)

    @property
    def place(self) -> str:
        """Platform and precision, worded as in a report's title."""
        release = self.platform.release
        jetpack = f"JetPack {release.jetpack}, " if release.jetpack else ""
        module = f"{self.platform.module.title} ({self.platform.module.id})"
        return f"{module}, {jetpack}TensorRT {release.trt_text}, {self.precision.upper()}"

    @property
    def headline(self) -> str:
        return f"{self.verdict.upper()}: {self.error.what}"

    @property
    def details(self) -> Tuple[str, ...]:
        """Where in the model, what is allowed, and what to do; one line each."""
        error = self.error
        where = (f"at {error.where}",) if error.where and error.where != self.file else ()
        allowed = (f"allowed: {error.allowed}",) if error.allowed else ()
        return (*where, *allowed, *(line.strip() for line in (error.hint or "").splitlines()))

    def to_dict(self) -> Dict[str, Any]:
        return {"file": self.file, "verdict": self.verdict, "error": self.error.to_dict()}


def shown_file(file: str) -> str:
    """A path as given; an address instead of a path may hold a password, which is hidden."""
    return file if os.path.exists(file) else without_credentials(file)


def without_passwords(error: ModelError) -> ModelError:
    """The error for a report that may be passed on: users and passwords in addresses become "***"."""
    what, where, allowed, hint = (
        None if text is None else without_credentials(text) for text in (error.what, error.where, error.allowed, error.hint)
    )
    return type(error)(what or "", where=where, allowed=allowed, hint=hint)


def verdict_of(error: ModelError) -> str:
    """The word for it in tables: only a refusal of the parser tells what TensorRT would do."""
    return DOES_NOT_BUILD if isinstance(error, ModelRefused) else NOT_READ
