"""What a user asks of a build: one request for the command, Python and the builder."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Mapping, Optional, Sequence, Tuple, Union

from edgedla.arguments import require_field_types
from edgedla.formats import IoFormat
from edgedla.preprocess.settings import PreprocessSettings
from edgedla.vocabulary import BACKENDS, BUILD_MODES, PRECISIONS, one_of

if TYPE_CHECKING:
    from edgedla.placement.result.placement import Placement


@dataclass(frozen=True)
class PlanOptions:
    """The user's choices for a plan; the defaults are those of `edgedla build`.

    Attributes:
        placed: layer name -> device of a placement, which replaces the prediction.
        devices: layer name -> device ("GPU", "DLA", "DLA0", "DLA1"); overrides placement and prediction. A name may hold one `*`,
            as in trtexec.
        precisions: layer name -> "fp16" or "int8"; a name may hold one `*`.
        input_formats, output_formats: format and type of inputs and outputs, in the network's order; () lets edgedla choose.
        formats: tensor name -> format and type of that input or output; overrides both lists.
        reformat_free: choose formats of inputs and outputs that need no reformat, even if the GPU may reformat.
        pools: field of Pools -> bytes.
        set_ranges: give TensorRT the INT8 scales by setDynamicRange instead of a calibrator.
        allow_unknown: put layers with an unknown verdict on the DLA; TensorRT's own check then decides.
        numerics: feature -> variant of rules/numerics.yaml, for features whose simulation departs from the default.
    """

    dla_core: int = 0
    placed: Mapping[str, str] = field(default_factory=dict)
    devices: Mapping[str, str] = field(default_factory=dict)
    precisions: Mapping[str, str] = field(default_factory=dict)
    input_formats: Tuple[IoFormat, ...] = ()
    output_formats: Tuple[IoFormat, ...] = ()
    formats: Mapping[str, IoFormat] = field(default_factory=dict)
    reformat_free: bool = False
    pools: Mapping[str, int] = field(default_factory=dict)
    concurrent_engines: int = 1
    sparsity: bool = False
    obey_precision: bool = False
    set_ranges: bool = False
    timing_cache: bool = True
    allow_unknown: bool = False
    numerics: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require_field_types(self)


Model = Union[str, Path, bytes, Any]


Say = Callable[[str], None]


def preprocess_of(request: BuildRequest) -> Optional[Mapping[str, Any]]:
    """Preprocessing that the artifact records: the request's, or the defaults that calibration pictures were given."""
    from edgedla.preprocess.pictures import used_settings

    settings = used_settings(request.calib_data, request.preprocess)
    return None if settings is None else settings.to_dict()


@dataclass(frozen=True)
class BuildRequest:
    """Everything `build` needs besides the model; the fields are the options of `edgedla build`.

    Attributes:
        target, jetpack, trt, precision: empty means the placement's. Without a placement, target is required, the release is
            the module's newest with a DLA, and the precision is FP16.
        calib: a TensorRT calibration cache, or the folder that `edgedla quantize` wrote. calib_data: .npz or .npy samples,
            pictures or a video; with a cache they only measure the host backend's error. Without both, INT8 is calibrated
            on seeded random input, and every report says so.
        preprocess: how pictures become inputs; None: as where the scales of the folder `calib` were measured. The artifact keeps
            it for `run`.
        calib_method: one of vocabulary.CALIBRATION_METHODS, or "percentile:99.9".
        placement: a placement (`edgedla.place`) or its file; its devices replace the rules' verdicts.
        allow_drift: on the device, move layers that TensorRT refuses to the GPU instead of refusing the build.
        force: build even if the folder already holds this same build.
    """

    target: str = ""
    jetpack: Optional[str] = None
    trt: Optional[str] = None
    precision: str = ""
    mode: str = "hybrid"
    backend: str = "auto"
    shapes: Optional[Mapping[str, Sequence[int]]] = None
    batch: Optional[int] = None
    calib: Optional[Path] = None
    calib_data: Optional[Path] = None
    calib_method: str = "auto"
    preprocess: Optional[PreprocessSettings] = None
    placement: Optional[Union[str, Path, Placement]] = None
    options: PlanOptions = field(default_factory=PlanOptions)
    allow_drift: bool = False
    force: bool = False

    def __post_init__(self) -> None:
        """Accepts paths as text and words in any letter case. Refuses unknown words before anything is read."""
        from edgedla.placement.result.placement import Placement

        for name in ("calib", "calib_data"):
            if isinstance(getattr(self, name), str):
                object.__setattr__(self, name, Path(getattr(self, name)))
        require_field_types(self, Placement=Placement)
        for name, allowed in (("precision", PRECISIONS), ("mode", BUILD_MODES), ("backend", BACKENDS)):
            if name != "precision" or self.precision:
                object.__setattr__(self, name, one_of(name, getattr(self, name), allowed))


def resolved(request: BuildRequest) -> BuildRequest:
    """The request with module, release and precision filled in.

    Raises:
        UsageError: neither the request nor a placement names a module. DocumentError: the placement is unreadable.
    """
    from edgedla.placement.result.document import read_placement
    from edgedla.placement.result.made_for import resolved_platform

    placement = request.placement
    document = read_placement(placement) if isinstance(placement, (str, Path)) else placement
    named = resolved_platform(document, request.target, request.jetpack, request.trt, request.precision)
    return replace(request, **named._asdict())
