"""Which rewrite sites the search keeps."""

from __future__ import annotations

import numpy as np
import onnx

import edgedla

#: Beside Neg, HardSigmoid and Gather on the DLA the padding pays nothing; the three pay nothing either, and without them it does.
NETWORK = """
    <ir_version: 8, opset_import: ["" : 18]>
    net (float[1,8,6,4] x) => (float[1,8,12,8] a, float[1,8,10,6] h, float[1,2,10,5] c, float[1,7,10,6] g) {
        sizes = Constant<value_ints = [1, 8, 12, 8]>()
        around = Constant<value_ints = [0, 0, 2, 1, 0, 0, 2, 1]>()
        taken = Constant<value_ints = [5, 7, 5, -7, 7, -7, -1]>()
        r = Resize<mode = "linear", coordinate_transformation_mode = "half_pixel">(x, , , sizes)
        p = Pad(x, around)
        b = Conv(p, w1)
        a = AveragePool<kernel_shape = [3, 3], pads = [1, 1, 1, 1], count_include_pad = 0>(r)
        n = Neg(p)
        h = HardSigmoid(n)
        c = Conv<pads = [2, 1, 2, 2]>(b, w2)
        g = Gather<axis = 1>(n, taken)
    }
"""


def test_a_rewrite_that_fails_to_pay_combined_is_retried_alone() -> None:
    model = onnx.parser.parse_model(NETWORK)
    rng = np.random.default_rng(0)
    for name, shape in (("w1", (2, 8, 3, 3)), ("w2", (2, 2, 3, 3))):
        model.graph.initializer.append(onnx.numpy_helper.from_array(rng.standard_normal(shape).astype("f"), name))
    fixed = edgedla.fix(model, target="agx-orin-64gb", trt="10.3", precision="int8")
    assert sorted(site.rewrite for site in fixed.applied) == ["pad-into-conv", "resize-scales"]
    assert "pad-into-conv" not in {site.rewrite for site in fixed.refused}
    assert edgedla.fix(fixed.to_proto(), target="agx-orin-64gb", trt="10.3", precision="int8").applied == ()
