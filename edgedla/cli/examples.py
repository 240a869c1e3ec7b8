"""What `--help` and the command pages show before the options: two examples a command, and the options in groups."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Dict, List, Tuple

import click

#: verb -> its examples. tests/cli/test_examples.py runs those that need no board, on a small detector.
EXAMPLES: Dict[str, Tuple[str, str]] = {
    "check": (
        "edgedla check model.onnx --target orin-nx-16gb",
        "edgedla check model.onnx --compare orin-nx-16gb,agx-orin-64gb -o report.html",
    ),
    "place": (
        "edgedla place model.onnx --target orin-nx-16gb --precision int8",
        "edgedla place model.onnx --precision int8 --objective throughput -o placement.json",
    ),
    "fix": (
        "edgedla fix model.onnx --target orin-nx-16gb --precision int8 -o fixed.onnx",
        "edgedla fix model.onnx --for standalone --dry-run",
    ),
    "layers": ("edgedla layers model.onnx", "edgedla layers model.onnx --trt 8.5.2 --format json"),
    "rules": ("edgedla rules list --kind convolution", "edgedla rules explain CONV006"),
    "hub": ("edgedla hub list", "edgedla hub get mobilenet_v3_small"),
    "targets": ("edgedla targets", "edgedla targets orin-nx-16gb"),
    "build": (
        "edgedla build model.onnx --precision int8 --calib-data samples.npz -o detector",
        "edgedla build model.onnx --mode standalone --precision fp16 --plan",
    ),
    "quantize": (
        "edgedla quantize model.onnx --data samples.npz -o scales",
        "edgedla quantize model.onnx --data samples.npz --min-sqnr 20 -o scales --report",
    ),
    "evaluate": (
        "edgedla evaluate detector --data samples.npz --metric cosine --against model.onnx",
        "edgedla evaluate model.onnx --data samples.npz --metric map --decode yolov8 --reg-max 8",
    ),
    "convert": ("edgedla convert model.pt2 -o model.onnx", "edgedla convert saved_model --target orin-nx-16gb -o model.onnx"),
    "deploy": (
        "edgedla deploy model.onnx --target orin-nx-16gb --data samples.npz -o deployed",
        "edgedla deploy model.onnx --data samples.npz --metric map --decode yolov8 --reg-max 8 --max-drop 2% -o deployed",
    ),
    "bundle": ("edgedla bundle detector -o detector.pyz", "edgedla bundle --pipeline pipeline.yaml -o gate.pyz"),
    "run": (
        "edgedla run detector --source synthetic://?rate=20 --decode yolov8 --reg-max 8 --frames 5",
        "edgedla run pipeline.yaml --view 8080",
    ),
    "sources": ("edgedla sources", "edgedla sources --onvif 192.168.1.0/24"),
    "bench": ("edgedla bench detector --iterations 5", "edgedla bench detector --device DLA1 --board orin1"),
    "export": (
        "edgedla export deepstream detector --onnx model.onnx -o for_deepstream",
        "edgedla export triton detector -o model_repository",
    ),
    "inspect": ("edgedla inspect detector", "edgedla inspect model.onnx fixed.onnx"),
    "monitor": ("edgedla monitor --interval 0.5", "edgedla monitor --count 10 --format json --board orin1"),
    "doctor": ("edgedla doctor", "edgedla doctor --deep -o truth.tar.gz"),
    "acceptance": ("edgedla acceptance show truth.tar.gz", "edgedla acceptance ingest truth.tar.gz"),
    "sweep": (
        "edgedla sweep model.onnx --target agx-orin-64gb,orin-nx-16gb -o sweep.html",
        "edgedla sweep zoo --precision fp16,int8 --objective latency -o sweep.csv",
    ),
    "costs": (
        "edgedla costs fit model.onnx --evidence profile.json -o costs.json",
        "edgedla check model.onnx --profile costs.json",
    ),
    "board": ("edgedla board add orin1 nvidia@10.0.0.5", "edgedla board setup orin1"),
    "completion": ("edgedla completion bash", "edgedla completion zsh"),
    "mcp": ("edgedla mcp --root models", "edgedla mcp --skill"),
    "explain": ("edgedla explain CONV006", "edgedla explain build.log"),
}
_JOB = "20261122-101500-a1b2c3"
#: verb and command below it -> its examples: two, or one where it takes neither option nor another argument.
BELOW: Dict[str, Tuple[str, ...]] = {
    "board add": ("edgedla board add orin1 nvidia@10.0.0.5", "edgedla board add orin2 nvidia@10.0.0.6:2222 --group lab"),
    "board list": ("edgedla board list", "edgedla board list --probe"),
    "board setup": ("edgedla board setup orin1", "edgedla board setup orin1 --dry-run"),
    "board doctor": ("edgedla board doctor orin1", "edgedla board doctor orin1 --format json"),
    "board lock": ('edgedla board lock orin1 --for 2h --note "measuring"', "edgedla board lock orin1 --release"),
    "board jobs": ("edgedla board jobs orin1", "edgedla board jobs orin1 --format json"),
    "board attach": (f"edgedla board attach orin1 {_JOB}", f"edgedla board attach orin1 {_JOB} -o results"),
    "board cancel": (f"edgedla board cancel orin1 {_JOB}", f"edgedla board cancel orin1 {_JOB} --kill"),
    "board report": (
        "edgedla board report orin1 model.onnx -o truth.json",
        "edgedla board report orin1 model.onnx --precision int8 --duration 10 -o truth.json",
    ),
    "costs fit": (
        "edgedla costs fit model.onnx --evidence profile.json",
        "edgedla costs fit model.onnx --evidence profile.json -o costs.json",
    ),
    "costs wanted": ("edgedla costs wanted", "edgedla costs wanted --target orin-nx-16gb -o measure.sh"),
    "acceptance show": ("edgedla acceptance show truth.tar.gz",),
    "acceptance ingest": ("edgedla acceptance ingest truth.tar.gz", "edgedla acceptance ingest truth.tar.gz --into evidence"),
    "rules list": ("edgedla rules list --kind convolution", "edgedla rules list -o rules.json"),
    "rules explain": ("edgedla rules explain CONV006", "edgedla rules explain conv-stride"),
    "rules docs": ("edgedla rules docs", "edgedla rules docs -o RULES.md"),
    "hub list": ("edgedla hub list", "edgedla hub list --format json"),
    "hub get": ("edgedla hub get mobilenet_v3_small", "edgedla hub get resnet18"),
}
#: Below this number of options one list is easier to read.
FEWEST = 12
FIRST = "Options"
#: Title -> names of the parameters; what is in none of them comes first, as Options.
GROUPS: Dict[str, str] = {
    "Model and platform": "target jetpack trt precision mode shapes batch power_mode clocks profile layer_info input_formats "
    "output_formats preprocess mean std fit colour",
    "Detections and samples": "decode reg_max score iou classes labels metric data holdout limit",
    "When the answer is no": "fail_on baseline update_baseline min_dla_macs max_loadables max_gpu_layers max_latency max_energy "
    "need_fps need_ms max_w max_drop min_sqnr min_channel_sqnr fail_on_difference fail_on_worse",
    "Output": "output_format output out everything quiet report reports max_memory help",
    "On a board": "board wait wait_s note",
}


def grouped(command: click.Command, ctx: click.Context) -> Dict[str, List[click.Option]]:
    """The shown options of a command, by the title of their group."""
    shown = [p for p in command.get_params(ctx) if isinstance(p, click.Option) and p.get_help_record(ctx)]
    if len(shown) < FEWEST:
        return {FIRST: shown}
    found: Dict[str, List[click.Option]] = {title: [] for title in (FIRST, *GROUPS)}
    for option in shown:
        found[next((title for title, names in GROUPS.items() if option.name in names.split()), FIRST)].append(option)
    return {title: options for title, options in found.items() if options}


class Shown(click.Command):
    """How a command shows its help; mixed into the command's own class."""

    examples: Tuple[str, ...] = ()

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The first paragraph, the examples, the rest."""
        whole = self.help or ""
        self.help, _, rest = whole.partition("\n\n")
        super().format_help_text(ctx, formatter)
        with formatter.section("Examples") if self.examples else nullcontext():
            for line in self.examples:
                formatter.write(f"{'':{formatter.current_indent}}{line}\n")
        self.help = rest
        if rest:
            super().format_help_text(ctx, formatter)
        self.help = whole

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, options in grouped(self, ctx).items():
            with formatter.section(title):
                formatter.write_dl([record for o in options if (record := o.get_help_record(ctx))])
        if isinstance(self, click.Group):
            self.format_commands(ctx, formatter)
