"""The commands: where each is, and its line in `edgedla --help`."""

from __future__ import annotations

from typing import Dict, Tuple

#: Title -> verb -> (module:command, one line). The table keeps the line so that `edgedla --help` imports no verb. To add a verb: one
#: file under edgedla/cli, beside the verbs that it is like, one row here, and its examples in edgedla/cli/examples.py.
GROUPS: Dict[str, Dict[str, Tuple[str, str]]] = {
    "Understand a model": {
        "check": ("edgedla.cli.check.check:check", "Say which layers run on the DLA, why others do not, if it pays."),
        "place": ("edgedla.cli.place:place", "Decide where each layer runs at least cost: GPU, DLA0, DLA1."),
        "fix": ("edgedla.cli.fix:fix", "Rewrite a model so that more runs on the DLA, with proofs."),
        "explain": ("edgedla.cli.explain:explain", "Say what a line of a log, a rule or a message means."),
        "layers": ("edgedla.cli.layers:layers", "Show the TensorRT layers that an ONNX model becomes."),
    },
    "Make it fit, and build it": {
        "convert": ("edgedla.cli.deploy.convert:convert", "Convert a PyTorch, TensorFlow or Paddle model to ONNX."),
        "quantize": ("edgedla.cli.accuracy.quantize:quantize", "Choose INT8 scales, explain their error, repair it (simulated)."),
        "evaluate": ("edgedla.cli.accuracy.evaluate:evaluate", "Measure accuracy on samples, with its interval."),
        "build": ("edgedla.cli.build:build", "Build for the DLA: by TensorRT on a Jetson, else simulated."),
        "deploy": ("edgedla.cli.deploy.deploy:deploy", "From a model and samples to an accepted artifact, in one call."),
        "export": ("edgedla.cli.export:export", "Hand a build to DeepStream, Triton, ONNX Runtime or Savant."),
    },
    "Run it": {
        "run": ("edgedla.cli.running.run:run", "Run a camera pipeline over GPU and DLA cores."),
        "sources": ("edgedla.cli.running.sources:sources", "List cameras, of this machine or a network, as sources."),
        "bench": ("edgedla.cli.running.bench:bench", "Measure latency and throughput of a built network."),
        "monitor": ("edgedla.cli.running.monitor:monitor", "Watch DLA load, clocks, temperatures and power of this Jetson."),
        "bundle": ("edgedla.cli.deploy.bundle:bundle", "Pack a pipeline and what it needs, to run without pip."),
    },
    "Boards and fleets": {
        "board": ("edgedla.cli.fleet.board:board", "Use boards over SSH: list, set up, lock, jobs, report."),
        "sweep": ("edgedla.cli.fleet.sweep:sweep", "Check thousands of models on every platform."),
        "costs": ("edgedla.cli.fleet.costs:costs", "Fit the cost model to what your boards measured; what it lacks."),
        "acceptance": ("edgedla.cli.boards.acceptance:acceptance", "Show a truth report of a board, or store it as evidence."),
    },
    "Look something up": {
        "doctor": ("edgedla.cli.boards.doctor:doctor", "Say what this machine has and what is missing."),
        "inspect": ("edgedla.cli.inspect:inspect", "Show what a log, engine, artifact or model holds; compare two."),
        "targets": ("edgedla.cli.targets:targets", "List the Jetson modules and releases."),
        "rules": ("edgedla.cli.rules:rules", "List the rules behind the verdicts."),
        "hub": ("edgedla.cli.deploy.hub:hub", "List recipes that put published networks into few loadables."),
        "completion": ("edgedla.cli.completion:completion", "Print the script for completion in bash, zsh or fish."),
        "mcp": ("edgedla.cli.agents.mcp:mcp", "Serve check, compare, fix, predict and explain to a coding agent."),
    },
}
VERBS: Dict[str, Tuple[str, str]] = {verb: row for rows in GROUPS.values() for verb, row in rows.items()}
