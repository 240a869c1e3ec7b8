"""Platforms as --compare names them: module, release and precision, joined by @."""

from __future__ import annotations

import re
from typing import Dict, Optional

from edgedla.errors import UsageError
from edgedla.vocabulary import PRECISIONS

_L4T = re.compile(r"^(?:latest|newest|l4t[\s_-]*r?\d[\d.]*|r\d[\d.]*)$", re.I)
_RELEASE = re.compile(r"^(?:(?P<kind>jp|jetpack|trt|tensorrt|v)-?)?(?P<number>\d[\d.]*)$", re.I)


def parse_platform(text: str, default_target: str, jetpack: Optional[str] = None, trt: Optional[str] = None) -> Dict[str, str]:
    """`module`, `release`, `precision`, or several of them joined by @, as arguments of platform_for and a precision.

    A release is jp6.2, trt10.3, or a bare number: a JetPack release where there is one of that number, else TensorRT's.

    Args:
        jetpack, trt: the release of the default target where the text names none.

    Raises:
        UsageError: a part is none of these, or appears twice.
    """
    parts: Dict[str, str] = {}
    for part in text.split("@"):
        release = _RELEASE.match(part)
        if part.lower() in PRECISIONS:
            name, value = "precision", part.lower()
        elif _L4T.match(part):
            name, value = "jetpack", part
        elif release is None:
            name, value = "target", part
        elif _is_jetpack(release["kind"] or "", release["number"]):
            name, value = "jetpack", release["number"]
        else:
            name, value = "trt", release["number"]
        if name in parts:
            raise UsageError(
                f"{part!r} of {text!r} is neither a release nor a precision, and {parts[name]!r} is the module"
                if name == "target"
                else f"{text!r} has two: {parts[name]} and {value}",
                allowed="MODULE@RELEASE@PRECISION, as xavier-nx-8gb@jp5.1.4@int8",
            )
        parts[name] = value
    parts.setdefault("target", default_target)
    if parts["target"] == default_target and "jetpack" not in parts and "trt" not in parts:
        parts.update({name: value for name, value in (("jetpack", jetpack), ("trt", trt)) if value})
    return parts


def parse_platforms(
    text: str, default_target: str, jetpack: Optional[str] = None, trt: Optional[str] = None
) -> Dict[str, Dict[str, str]]:
    """Platforms by label, in their order; see parse_platform.

    Raises:
        UsageError: none, or one twice.
    """
    labels = [label.strip() for label in text.split(",") if label.strip()]
    if not labels:
        raise UsageError("there is nothing to compare", where="--compare", allowed="orin-nx-16gb,xavier-nx-8gb@jp5.1.4")
    twice = next((label for label in labels if labels.count(label) > 1), None)
    if twice is not None:
        raise UsageError(f"{twice} is named twice", where="--compare")
    return {label: parse_platform(label, default_target, jetpack, trt) for label in labels}


def _is_jetpack(kind: str, number: str) -> bool:
    if kind.lower() in ("jp", "jetpack"):
        return True
    if kind.lower() in ("trt", "tensorrt"):
        return False
    from edgedla.targets import releases

    versions = {j.version for j in releases().jetpack}
    return any(version == number or version.startswith(f"{number}.") for version in versions)
