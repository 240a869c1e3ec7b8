"""The outputs of a network in FP32, with which simulations are compared."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np

from edgedla.accuracy.measured_outputs import measured_outputs, output_fields
from edgedla.quantization.samples import Feed
from edgedla.quantization.session import open_session

#: Most bytes of outputs kept, over all lists of samples; others are computed again each time.
MOST_BYTES = 256 << 20
Outputs = List[np.ndarray]


class Reference:
    """A network whose outputs are read repeatedly. Its session is open only while it computes."""

    def __init__(self, model: Any, names: Optional[Tuple[str, ...]] = None) -> None:
        """Args:
        model: onnx.ModelProto with static inputs and weights. names: tensors to output; None takes `measured_outputs`.
        """
        self.model = model
        self.names = measured_outputs(model) if names is None else names
        # Keyed by id(feeds). Keeping the feeds too prevents a new list from reusing the id of a freed one.
        self._kept: Dict[int, Tuple[Any, List[Outputs]]] = {}
        self._bytes = 0

    def on(self, feeds: Sequence[Feed]) -> Iterator[Outputs]:
        """The outputs of every sample, in the order of `names`; kept if all of them fit into MOST_BYTES.

        Raises:
            RunError: ONNX Runtime fails on a sample. ModelError: it refuses the model.
        """
        if id(feeds) in self._kept:
            yield from self._kept[id(feeds)][1]
            return
        session = open_session(self.model.SerializeToString() + output_fields(self.model, self.names))
        room, done = MOST_BYTES - self._bytes, []
        for feed in feeds:
            outputs = session.run(list(self.names), feed)
            room -= sum(int(o.nbytes) for o in outputs)
            if room >= 0:
                done.append(outputs)
            else:
                done.clear()
            yield outputs
        if room >= 0:
            self._kept[id(feeds)] = (feeds, done)
            self._bytes = MOST_BYTES - room
