"""The table of rules/releases.yaml: JetPack, L4T, TensorRT, and which pairs of module and release have a DLA."""

from __future__ import annotations

import os
import re
from functools import lru_cache
from typing import NamedTuple, Optional, Sequence, Tuple

from edgedla.errors import RuleError, UsageError
from edgedla.io import strict_yaml
from edgedla.io.data import rules_dir
from edgedla.targets.platform import Module, Release
from edgedla.targets.versions import Version, VersionRange, padded, parse_version


class JetPack(NamedTuple):
    """One JetPack release: its TensorRT, TensorRT releases offered as separate packages, and the modules that it runs on."""

    version: str
    trt: Version
    also: Tuple[Version, ...]
    l4t: Tuple[str, ...]
    families: Tuple[str, ...]
    dla_software: Optional[str]
    sources: Tuple[str, ...]

    def carries(self, trt: Version) -> bool:
        return any(trt[: len(prefix)] == prefix for prefix in (self.trt,) + self.also)


class TensorRT(NamedTuple):
    """One TensorRT release; `note` says what is special about it ("" if nothing)."""

    version: Version
    note: str
    sources: Tuple[str, ...]


class DlaRow(NamedTuple):
    """An answer to "is there a DLA": for these families and this range of TensorRT."""

    families: Tuple[str, ...]
    trt: VersionRange
    answer: str
    reason: str
    sources: Tuple[str, ...]


class ReleaseTable(NamedTuple):
    tensorrt: Tuple[TensorRT, ...]
    jetpack: Tuple[JetPack, ...]
    dla: Tuple[DlaRow, ...]


@lru_cache(maxsize=None)
def releases() -> ReleaseTable:
    """The whole table, oldest release first."""
    root = strict_yaml.load(rules_dir() / "releases.yaml")
    if not isinstance(root, strict_yaml.Table):
        raise RuleError("not a mapping", where="rules/releases.yaml")
    root.only(("tensorrt", "jetpack", "dla"))
    return ReleaseTable(
        tuple(_tensorrt(row) for row in root.tables("tensorrt")),
        tuple(_jetpack(row) for row in root.tables("jetpack")),
        tuple(_dla(row) for row in root.tables("dla")),
    )


def release_for(module: Module, jetpack: Optional[str], trt: Optional[str]) -> Release:
    """The release that the user names; the module's default JetPack if neither is named.

    Raises:
        UsageError: an unknown release, or a TensorRT that this JetPack does not carry.
    """
    if trt is not None and trt.strip().lower() in NEWEST:
        # The newest release of TensorRT with a DLA on the module is what its default JetPack carries.
        trt = None
    if jetpack is None and trt is None:
        jetpack = module.default_jetpack
    row, note = _find_jetpack(jetpack, module) if jetpack is not None else (None, "")
    version = _find_trt(trt) if trt is not None else None
    listed = None if version is None else _nearest_listed(version)
    if row is None:
        assert version is not None
        assert listed is not None
        carriers = [j for j in releases().jetpack if module.family in j.families and j.carries(listed)]
        software = {j.dla_software for j in carriers if padded(j.trt)[:3] == padded(version)[:3]}
        if len(carriers) == 1:
            row = carriers[0]
        else:
            return Release(version, dla_software=software.pop() if len(software) == 1 else None, note=_unlisted(version))
    if version is None:
        version = row.trt
    elif listed is not None and not row.carries(listed):
        carried = ", ".join(_text(v) for v in (row.trt,) + row.also)
        raise UsageError(
            f"JetPack {row.version} does not carry TensorRT {trt}", allowed=carried, hint="Name only one of the two."
        )
    # A separate TensorRT package brings its own DLA compiler, so the JetPack's number would be wrong for it.
    observed = padded(row.trt)[:3] == padded(version)[:3]
    return Release(version, row.version, row.l4t, row.dla_software if observed else None, row.sources, note or _unlisted(version))


def dla_answer(module: Module, release: Release) -> Tuple[str, str]:
    """ "yes", "no" or "unknown", and why."""
    jetpack = next((j for j in releases().jetpack if j.version == release.jetpack), None)
    for row in releases().dla:
        if module.family not in row.families or not row.trt.contains(release.trt):
            continue
        reason = row.reason.format(title=module.title, trt=release.trt_text)
        if row.answer == "yes" and jetpack is not None and module.family not in jetpack.families:
            break
        return row.answer, reason
    if jetpack is not None and module.family not in jetpack.families:
        of_family = [j.version for j in releases().jetpack if module.family in j.families]
        return ("no", f"JetPack {jetpack.version} does not run on {module.title} (JetPack {of_family[0]} to {of_family[-1]} do)")
    return "unknown", f"whether {module.title} has a usable DLA with TensorRT {release.trt_text} is not documented"


#: Words for the newest release.
NEWEST = ("latest", "newest")
#: Spellings of L4T: `r36.4.3`, `L4T 36.4`, or the line of /etc/nv_tegra_release.
_L4T = re.compile(r"^(?:l4t[\s_-]*r?|r)(?P<number>\d+\.\d+(?:\.\d+)?)$", re.I)
_TEGRA_RELEASE = re.compile(r"R(?P<major>\d+)\s*\(release\),\s*REVISION:\s*(?P<minor>[\d.]+)", re.I)


def _find_jetpack(text: str, module: Module) -> Tuple[JetPack, str]:
    """(the row, a note where it stands in for a release that is newer than the table)."""
    rows = releases().jetpack
    of_family = [row for row in rows if module.family in row.families]
    newest = max(of_family or rows, key=lambda row: parse_version(row.version) or ())
    if text.strip().lower() in NEWEST:
        return newest, ""
    l4t = _l4t_number(text)
    if l4t is not None:
        carriers = [row for row in rows if any(v == l4t or v.startswith(f"{l4t}.") for v in row.l4t)]
        if carriers:
            return carriers[-1], ""
        name, _ = jetpack_of(l4t)
        near = next((row for row in rows if row.version == name), None)
        if near is not None:
            return near, f"L4T {l4t} is not on record: JetPack {near.version} answers"
        raise _unknown("L4T", text, [v for row in rows for v in row.l4t])
    version = parse_version(text.lower().replace("jetpack", "").replace("jp", "").strip().lstrip("v"))
    if version is not None and len(version) == 1:
        of_major = [row for row in of_family or rows if (parse_version(row.version) or ())[:1] == version]
        if of_major:
            found = max(of_major, key=lambda row: parse_version(row.version) or ())
            return found, f"JetPack {_text(version)} stands for its newest release here, {found.version}"
    if version is not None and len(version) >= 2:
        for row in rows:
            if padded(version) == padded(parse_version(row.version) or ()):
                return row, ""
        if _follows(version, max(parse_version(row.version) or () for row in rows)):
            return newest, f"JetPack {_text(version)} is not on record: {newest.version} answers"
    raise _unknown("JetPack", text, [j.version for j in rows])


def jetpack_of(l4t: Optional[str]) -> Tuple[Optional[str], bool]:
    """(the JetPack of an L4T release, whether the table has exactly this release).

    NVIDIA ships L4T patches between two JetPacks (35.6.3, 36.4.2): the nearest older patch answers, for an L4T newer than
    every listed one the newest JetPack. An older patch would pass its "no DLA" on to the release that brings it back.
    """
    found = padded(parse_version(l4t) or ()) if l4t else ()
    rows = [(padded(parse_version(text) or ()), row.version) for row in releases().jetpack for text in row.l4t]
    if not found:
        return None, False
    if found > max(rows)[0]:
        return releases().jetpack[-1].version, False
    version, name = max((row for row in rows if row[0][:2] == found[:2] and row[0] <= found), default=((), None))
    return name, version == found


def _l4t_number(text: str) -> Optional[str]:
    """The number, as 36.4.3, in any spelling of an L4T release; None for another text."""
    line = _TEGRA_RELEASE.search(text)
    if line is not None:
        return f"{line['major']}.{line['minor'].rstrip('.')}"
    match = _L4T.match(text.strip())
    return None if match is None else match["number"]


def _find_trt(text: str) -> Version:
    """The version that the user names; a shorter one becomes the newest listed release that begins with it.

    A patch that is not listed is taken too: NVIDIA publishes patches of its own for PCs and containers. So is a release that
    is newer than the table; of an older major release only with its patch number, or 10.33 would be no typing error.
    """
    version = parse_version(text.strip().lower().lstrip("v"))
    versions = [t.version for t in releases().tensorrt]
    if version is not None and len(version) >= 2:
        newest = [v for v in versions if v[: len(version)] == version[:3]]
        if newest:
            return version if len(version) >= 3 else max(newest)
        if _nearest_listed(version) != version and (len(version) >= 3 or _follows(version, versions[-1])):
            return padded(version)[: max(3, len(version))]
    raise _unknown("TensorRT", text, [_text(v) for v in versions])


def _nearest_listed(version: Version) -> Version:
    """Of the listed patches of a minor release, the newest that is not newer, else the oldest.

    For a minor release newer than the listed ones of its major release, or than the whole table, the newest of these; itself for
    another unlisted one.
    """
    listed = sorted(t.version for t in releases().tensorrt)
    patches = [v for v in listed if v[:2] == version[:2]]
    if patches:
        return max((v for v in patches if v <= version), default=patches[0])
    newest = max((v for v in listed if v[0] == version[0]), default=listed[-1])
    return newest if _follows(version, newest) else version


def _follows(version: Version, newest: Version) -> bool:
    """Whether a version is newer than the newest listed one, and not so far from it that it must be a typing error."""
    return newest < version and version[0] <= newest[0] + 1


def _unlisted(version: Version) -> str:
    """Whose rules answer for a release that is not listed; "" for a listed one."""
    listed = _nearest_listed(version)
    return "" if version[:3] == listed else f"TensorRT {_text(version)} is not on record: the rules of {_text(listed)} answer"


def _unknown(what: str, text: str, versions: Sequence[str]) -> UsageError:
    def shared(version: str) -> int:
        """Length of the common prefix: 6.3 is nearer to 6.2.2 than to 4.6.3."""
        return len(os.path.commonprefix([text.strip(), version]))

    number = text.strip().lower().replace("jetpack", "").replace("jp", "")
    alike = [v for v in versions if v.startswith(number + ".")]
    if alike:
        # "10" is no typing error but ambiguous: it stands for releases with and without a DLA.
        which = f"Name the second number too, {alike[0]} to {alike[-1]}."
        return UsageError(f"{what} {number} stands for several releases", allowed=", ".join(alike), hint=which)
    near = max(versions, key=shared)
    # Of the releases with the longest common prefix, the newest.
    near = [v for v in versions if shared(v) == shared(near)][-1]
    hint = f"Did you mean {near}?" if shared(near) >= 2 else None
    return UsageError(f"unknown {what} release {text!r}", allowed=", ".join(versions), hint=hint)


def _text(version: Version) -> str:
    return ".".join(str(n) for n in version)


def _tensorrt(row: strict_yaml.Table) -> TensorRT:
    row.only(("version", "sources"), ("note",))
    version = row.version("version")
    if version is None or len(version) != 3:
        raise row.error("a TensorRT release has three numbers", "version")
    return TensorRT(version, row.text("note", ""), row.texts("sources"))


def _jetpack(row: strict_yaml.Table) -> JetPack:
    row.only(("version", "trt", "families", "sources"), ("l4t", "also", "dla_software"))
    row.version("version")
    trt = row.version("trt")
    assert trt is not None
    also = tuple(parse_version(v) or () for v in row.texts("also"))
    if () in also:
        raise row.error("not a version", "also")
    software = row.text("dla_software") if "dla_software" in row else None
    return JetPack(row.text("version"), trt, also, row.texts("l4t"), row.texts("families"), software, row.texts("sources"))


def _dla(row: strict_yaml.Table) -> DlaRow:
    row.only(("families", "answer", "sources"), ("trt", "reason"))
    answer = row.text("answer")
    if answer not in ("yes", "no", "unknown"):
        raise row.error(f"{answer!r} is not an answer", "answer", allowed='"yes", "no", "unknown"')
    if answer != "yes" and "reason" not in row:
        raise row.error("every answer but yes needs a reason")
    span = VersionRange()
    if "trt" in row:
        limits = row.table("trt").only((), ("from", "to"))
        span = VersionRange(limits.version("from"), limits.version("to"))
    return DlaRow(row.texts("families"), span, answer, row.text("reason", ""), row.texts("sources"))
