"""Types of the public names: `__init__.py` imports each when it is first used, which a type checker does not see."""

from edgedla.accuracy.build_report import build as build
from edgedla.accuracy.quantize import quantize as quantize
from edgedla.accuracy.request import QuantizeRequest as QuantizeRequest
from edgedla.accuracy.result import Quantized as Quantized
from edgedla.builder import Artifact as Artifact
from edgedla.builder import load_artifact as load_artifact
from edgedla.builder.building import (
    plan_build as plan_build,
)
from edgedla.builder.building import (
    plan_stages as plan_stages,
)
from edgedla.builder.building import (
    write_scripts as write_scripts,
)
from edgedla.builder.plan.plan import BuildPlan as BuildPlan
from edgedla.builder.request import BuildRequest as BuildRequest
from edgedla.builder.request import PlanOptions as PlanOptions
from edgedla.bundles.bundle import Bundle as Bundle
from edgedla.bundles.bundle import bundle as bundle
from edgedla.conversion.convert import convert as convert
from edgedla.conversion.converted import Converted as Converted
from edgedla.costs.profile import Profile as Profile
from edgedla.deployment.deploy import deploy as deploy
from edgedla.deployment.deployment import Deployment as Deployment
from edgedla.deployment.request import DeployRequest as DeployRequest
from edgedla.errors import (
    BuildError as BuildError,
)
from edgedla.errors import (
    DataError as DataError,
)
from edgedla.errors import (
    DeviceLost as DeviceLost,
)
from edgedla.errors import (
    DocumentError as DocumentError,
)
from edgedla.errors import (
    EdgedlaError as EdgedlaError,
)
from edgedla.errors import (
    EnvironmentMissing as EnvironmentMissing,
)
from edgedla.errors import (
    ModelError as ModelError,
)
from edgedla.errors import (
    ModelRefused as ModelRefused,
)
from edgedla.errors import (
    ModelTooLarge as ModelTooLarge,
)
from edgedla.errors import (
    NoPlacement as NoPlacement,
)
from edgedla.errors import (
    RuleError as RuleError,
)
from edgedla.errors import (
    RunError as RunError,
)
from edgedla.errors import (
    UsageError as UsageError,
)
from edgedla.fixes.fix import fix as fix
from edgedla.fixes.result import FixResult as FixResult
from edgedla.graph import LayerGraph as LayerGraph
from edgedla.importers import load_onnx as load_onnx
from edgedla.inspection.inspect_file import inspect as inspect
from edgedla.io.documents import schema as schema
from edgedla.placement.api import place as place
from edgedla.placement.api import place_request as place_request
from edgedla.placement.check_cost import check as check
from edgedla.placement.pareto import ParetoFront as ParetoFront
from edgedla.placement.pareto import pareto as pareto
from edgedla.placement.prediction.predict import predict as predict
from edgedla.placement.prediction.prediction import Prediction as Prediction
from edgedla.placement.problem.problem import Limits as Limits
from edgedla.placement.request import PlacementRequest as PlacementRequest
from edgedla.placement.result.document import read_placement as read_placement
from edgedla.placement.result.placement import Placement as Placement
from edgedla.placement.verify import verify as verify
from edgedla.placement.worth import Worth as Worth
from edgedla.regions import compare as compare
from edgedla.regions.report import CheckReport as CheckReport
from edgedla.remote.connection import BoardRefused as BoardRefused
from edgedla.remote.connection import ConnectionLost as ConnectionLost
from edgedla.rules.verdict import Finding as Finding
from edgedla.rules.verdict import Support as Support
from edgedla.rules.verdict import Verdict as Verdict
from edgedla.runtime.measure.bench import BenchReport as BenchReport
from edgedla.runtime.measure.bench import bench as bench
from edgedla.runtime.measure.request import BenchRequest as BenchRequest
from edgedla.runtime.measure.timing import BenchOptions as BenchOptions
from edgedla.runtime.pipeline.open_pipeline import open_pipeline as open_pipeline
from edgedla.runtime.pipeline.settings import (
    ModelConfig as ModelConfig,
)
from edgedla.runtime.pipeline.settings import (
    PipelineConfig as PipelineConfig,
)
from edgedla.runtime.pipeline.settings import (
    SourceConfig as SourceConfig,
)
from edgedla.targets import platform_for as platform_for
from edgedla.targets.platform import Platform as Platform

__version__: str
from edgedla.runtime.runners.member import InferenceLost as InferenceLost
from edgedla.runtime.sources.base import CameraDenied as CameraDenied
