"""One step in a process of its own: `python -m edgedla.acceptance.child P1 CONTEXT.json RESULT.json`."""

from __future__ import annotations

import json
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any, Dict, List

from edgedla.acceptance.steps import STEPS, Context
from edgedla.acceptance.values import Skip, StepResult, state_of
from edgedla.errors import EdgedlaError, EnvironmentMissing
from edgedla.io.files import write_atomic


def main(arguments: List[str]) -> int:
    # The parent holds some signals back while it starts this process, which inherits that.
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    step_id, context_file, result_file = arguments
    context = Context(**json.loads(Path(context_file).read_text(encoding="utf-8")))
    started = time.monotonic()
    findings: List[Dict[str, Any]] = []
    try:
        findings = [f.to_dict() for f in STEPS[step_id].call(context)]
        state, reason = state_of(findings), ""
    except (Skip, EnvironmentMissing) as e:
        state, reason = "skipped", str(e)
    except EdgedlaError as e:
        state, reason = "failed", str(e)
    except Exception:
        # Drivers raise their own classes; the report should contain any error.
        state, reason = "failed", traceback.format_exc()
    result = StepResult(step_id, state, round(time.monotonic() - started, 2), reason, tuple(findings))
    write_atomic(result_file, json.dumps(result.to_dict()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
