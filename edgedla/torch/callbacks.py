"""The check as a callback: once, at the start of training with Lightning, Accelerate, or a custom loop."""

from __future__ import annotations

from typing import Any, Callable, Optional

from torch import nn

from edgedla.errors import EnvironmentMissing
from edgedla.regions import CheckReport
from edgedla.torch.checking import assert_dla, check, in_short
from edgedla.torch.exporting import Inputs, forward_inputs


class DlaCheck:
    """Checks a module once, on the main process, before the first step.

    With Lightning: `Trainer(callbacks=[DlaCheck(x, target=...).lightning()])`.
    With Accelerate: `DlaCheck(x, target=...)(accelerator, model)` before or after `accelerator.prepare`.
    In a custom loop: `DlaCheck(x, target=...).on(model)`.

    Attributes:
        report: the CheckReport; None before the check, and on processes other than the main one.
    """

    def __init__(
        self, example_inputs: Inputs, *, say: Optional[Callable[[str], Any]] = None, demand: bool = False, **request: Any
    ) -> None:
        """Args:
        say: takes the answer in a few lines, for example `print` or a logger's method; None says nothing.
        demand: True raises NotOnDla where `assert_dla(module, **request)` does; False only reports.
        request: target, precision, mode and the other keywords of `check`, with `demand` of `assert_dla`.
        """
        self.example_inputs, self.request = example_inputs, request
        self.say, self.demand = say, demand
        self.report: Optional[CheckReport] = None

    def on(self, module: nn.Module) -> CheckReport:
        """Checks the module now, unless already done. Returns the report."""
        if self.report is None:
            parameter = next(module.parameters(), None)
            inputs = forward_inputs(module, self.example_inputs)[0]
            if parameter is not None:
                inputs = tuple(tensor.to(parameter.device) for tensor in inputs)
            if self.demand:
                self.report = assert_dla(module, inputs, **self.request)
            else:
                self.report = check(module, inputs, **self.request)
            if self.say is not None:
                self.say(in_short(self.report))
        return self.report

    def __call__(self, accelerator: Any, module: nn.Module) -> Optional[CheckReport]:
        """For Accelerate: the main process checks, the others wait."""
        if accelerator.is_main_process:
            self.on(accelerator.unwrap_model(module))
        accelerator.wait_for_everyone()
        return self.report

    def lightning(self) -> Any:
        """A lightning.pytorch.Callback that checks the LightningModule when `fit` starts.

        Raises:
            EnvironmentMissing: neither lightning nor pytorch_lightning is installed.
        """
        try:
            from lightning.pytorch import Callback
        except ImportError:
            try:
                from pytorch_lightning import Callback
            except ImportError as e:
                raise EnvironmentMissing("Lightning is not installed", hint="pip install lightning") from e
        checking = self

        class DlaCheckCallback(Callback):
            def on_fit_start(self, trainer: Any, pl_module: nn.Module) -> None:
                if trainer.is_global_zero:
                    checking.on(pl_module)

        return DlaCheckCallback()
