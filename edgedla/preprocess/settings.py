"""How a network wants its pictures: one set of settings for calibration, the artifact's manifest and `run`."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Mapping, Optional, Tuple

from edgedla.arguments import require_field_types
from edgedla.errors import DocumentError, UsageError
from edgedla.importers.model_file.embedded_preprocess import EmbeddedPreprocess
from edgedla.preprocess.geometry import FITS
from edgedla.text.printable import Fields
from edgedla.vocabulary import one_of

COLOURS = ("rgb", "bgr")
Three = Tuple[float, float, float]


@dataclass(frozen=True)
class PreprocessSettings(Fields):
    """A pixel p of channel c becomes (p - mean[c]) / std[c].

    Attributes:
        fit: letterbox, stretch or crop. colour: the order the network wants its channels in.
        pad: pixel value 0..255 around a letterboxed frame.
        mean, std: in pixel values 0..255, in the order of `colour`; std (255, 255, 255) makes 0..1.
    """

    fit: str = "letterbox"
    colour: str = "rgb"
    pad: int = 114
    mean: Three = (0.0, 0.0, 0.0)
    std: Three = (255.0, 255.0, 255.0)

    def __post_init__(self) -> None:
        require_field_types(self)
        object.__setattr__(self, "fit", one_of("fit", self.fit, FITS))
        object.__setattr__(self, "colour", one_of("colour", self.colour, COLOURS))
        if not 0 <= self.pad <= 255:
            raise UsageError(f"pad is {self.pad}", allowed="0 to 255")
        if len(self.mean) != 3 or len(self.std) != 3 or any(s == 0 for s in self.std):
            raise UsageError(f"mean {self.mean}, std {self.std}", allowed="three numbers each, std without a 0")

    def __str__(self) -> str:
        numbers = " ".join(f"{v:g}" for v in self.mean), " ".join(f"{v:g}" for v in self.std)
        return f"{self.fit}, {self.colour}, mean {numbers[0]}, std {numbers[1]}"


NAMES: Tuple[str, ...] = tuple(f.name for f in fields(PreprocessSettings))


def settings_of(values: Mapping[str, Any], where: str) -> PreprocessSettings:
    """Settings from a document's mapping; absent fields take the default.

    Raises:
        DocumentError: an unknown field, or a value of the wrong form.
    """
    unknown = sorted(set(values) - set(NAMES))
    if unknown:
        raise DocumentError(f"unknown field {unknown[0]!r}", where=where, allowed=", ".join(NAMES))
    try:
        three = {k: tuple(float(v) for v in values[k]) for k in ("mean", "std") if k in values}
        return PreprocessSettings(**{**values, **three})
    except (TypeError, ValueError, UsageError) as e:
        raise DocumentError(f"not a preprocessing: {e}", where=where) from e


def with_embedded(settings: Optional[PreprocessSettings], inside: Optional[EmbeddedPreprocess]) -> Optional[PreprocessSettings]:
    """How pictures become inputs of a model that holds part of its preprocessing: mean, std and colour are what it takes.

    Args:
        settings: what the user said, whose fit and pad stay. inside: what the model's metadata says; None: nothing.

    Raises:
        UsageError: the user names a mean or std of their own, which would scale twice.
    """
    if inside is None:
        return settings
    mean, std = inside.three
    embedded = PreprocessSettings(colour=inside.colour, mean=mean, std=std)  # type: ignore[arg-type]
    if settings is None:
        return embedded
    default = PreprocessSettings()
    for name in ("mean", "std"):
        if getattr(settings, name) not in (getattr(default, name), getattr(embedded, name)):
            raise UsageError(
                f"{name} {_text(getattr(settings, name))}, but the model scales by itself",
                where=f"--{name}",
                allowed=f"{_text(getattr(embedded, name))}, or leave it out",
            )
    return replace(settings, colour=embedded.colour, mean=embedded.mean, std=embedded.std)


def agreed(
    made_for: PreprocessSettings, asked: Mapping[str, Any], where: str, maker: str = "the artifact, which was built for"
) -> PreprocessSettings:
    """The settings that an artifact or scales were made with, after a check that nobody asks for others.

    Args:
        asked: what the user said, by field. maker: what was made with the settings, for the error.

    Raises:
        UsageError: a contradiction: the network would read other numbers than its INT8 scales were made for.
    """
    for name, value in asked.items():
        made = getattr(made_for, name)
        same = tuple(map(float, value)) == tuple(made) if isinstance(made, tuple) else value == made
        if not same:
            raise UsageError(
                f"{name} {_text(value)} contradicts {maker} {name} {_text(made)}",
                where=where,
                hint="leave it out, or quantize and build with it",
            )
    return made_for


def taken(made_for: Optional[Mapping[str, Any]], asked: Mapping[str, Any], where: str) -> PreprocessSettings:
    """What an artifact's manifest says, else what the user asks for.

    Raises:
        UsageError: they contradict each other.
    """
    return PreprocessSettings(**asked) if made_for is None else agreed(settings_of(made_for, where), asked, "preprocess")


def _text(value: Any) -> str:
    return ",".join(f"{v:g}" for v in value) if isinstance(value, (tuple, list)) else str(value)
