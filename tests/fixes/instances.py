"""Random instances of each rewrite's pattern: every attribute that the operators have, operator sets 11 to 21.

Near misses are among them. What a rewrite applies to has to give the same numbers; what it refuses counts as refused.
"""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, List, Sequence

import numpy as np

from edgedla.fixes.site import Example

Generator = Callable[[np.random.Generator], Example]
#: Operator sets that fixes hold for.
OPSETS = (11, 21)


class Draw:
    """Random choices of one instance."""

    def __init__(self, rng: np.random.Generator, low: int = OPSETS[0]) -> None:
        self.rng = rng
        self.opset = self.number(low, OPSETS[1])
        self.n, self.c = self.number(1, 2), self.number(1, 9)
        self.h, self.w = self.number(1, 20), self.number(1, 20)
        self.body: List[str] = []
        self.constants = 0

    def number(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def real(self, low: float, high: float) -> float:
        return round(float(self.rng.uniform(low, high)), 3)

    def one(self, *choices: Any) -> Any:
        return choices[self.number(0, len(choices) - 1)]

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    @property
    def x(self) -> str:
        return f"x {self.n}x{self.c}x{self.h}x{self.w}"

    def ints(self, values: Sequence[int]) -> str:
        """Name of a constant of 64-bit integers."""
        self.constants += 1
        self.body.append(f"k{self.constants} = Constant<value_ints = [{', '.join(str(int(v)) for v in values)}]>()")
        return f"k{self.constants}"

    def reals(self, values: Sequence[float]) -> str:
        self.constants += 1
        self.body.append(f"k{self.constants} = Constant<value_floats = [{', '.join(f'{v:.6f}' for v in values)}]>()")
        return f"k{self.constants}"

    def scalar(self, value: float) -> str:
        self.constants += 1
        self.body.append(f"k{self.constants} = Constant<value_float = {value:.6f}>()")
        return f"k{self.constants}"

    def say(self, text: str) -> None:
        self.body.append(text)

    def example(self, inputs: str, **goal: Any) -> Example:
        return Example(inputs, " ".join(self.body), opset=self.opset, goal=tuple(goal.items()))

    def reduce(self, operator: str, axes: Sequence[int], keep: int) -> str:
        """A reduction with its axes where this operator set has them."""
        moved = 13 if operator == "ReduceSum" else 18
        if self.opset >= moved:
            return f"{operator}<keepdims = {keep}>(x, {self.ints(axes)})"
        return f"{operator}<axes = [{', '.join(map(str, axes))}], keepdims = {keep}>(x)"


def smooth(d: Draw, most: int = 8) -> int:
    """A side that factors up to 7 divide, mostly."""
    return math.prod(d.one(1, 2, 3, 4, 5, 7, 8) for _ in range(d.number(1, 2))) if d.chance(0.8) else d.number(1, 40)


def global_average(rng: np.random.Generator) -> Example:
    d = Draw(rng)
    d.h, d.w = smooth(d), smooth(d)
    if d.chance(0.4):
        d.say("y = GlobalAveragePool(x)")
    else:
        axes = d.one([2, 3], [-1, -2], [3, 2], [-2, 3], [1, 2], [2])
        d.say(f"y = {d.reduce('ReduceMean', axes, d.number(0, 1))}")
    return d.example(d.x)


def global_max(rng: np.random.Generator) -> Example:
    d = Draw(rng)
    d.h, d.w = smooth(d), smooth(d)
    d.say(
        "y = GlobalMaxPool(x)" if d.chance(0.4) else f"y = {d.reduce('ReduceMax', d.one([2, 3], [-1, -2], [1]), d.number(0, 1))}"
    )
    return d.example(d.x, trt=(8, 5))


def max_pool(rng: np.random.Generator) -> Example:
    d = Draw(rng)
    d.h, d.w = d.number(14, 24), d.number(14, 24)
    k = [d.one(5, 9, 11, 13, 7, 15, 10), 0]
    k[1] = k[0] if d.chance(0.7) else d.one(3, 5, 9, 13)
    pads = [k[0] // 2, k[1] // 2] * 2 if d.chance(0.8) else [d.number(0, n // 2) for n in (*k, *k)]
    extra = d.one("", "", "", ", strides = [2, 2]", ", ceil_mode = 1", ", dilations = [1, 1]")
    d.say(f"y = MaxPool<kernel_shape = {k}, pads = {pads}{extra}>(x)")
    return d.example(d.x)


def average_pool(chip: str, low: int, high: int) -> Generator:
    def generate(rng: np.random.Generator) -> Example:
        d = Draw(rng)
        k = [d.number(low, high), d.number(low, high) if d.chance(0.4) else d.number(1, high)]
        d.h, d.w = (d.number(n, n + 12) for n in k)
        pads = [0, 0, 0, 0] if d.chance(0.4) else [d.number(0, (n - 1) // 2) for n in (*k, *k)]
        parts = [f"kernel_shape = {k}", f"pads = {pads}", f"count_include_pad = {d.number(0, 1)}"]
        parts.append(f"strides = [{d.number(1, 3)}, {d.number(1, 3)}]")
        if d.chance(0.2):
            parts.append("ceil_mode = 1")
        d.say(f"y = AveragePool<{', '.join(parts)}>(x)")
        return d.example(d.x, chip=chip)

    return generate


def hard(rng: np.random.Generator) -> Example:
    d = Draw(rng)
    if d.chance(0.3):
        d.opset = d.number(14, 21)
        d.say("y = HardSwish(x)")
    else:
        d.say(f"y = HardSigmoid<alpha = {d.real(0.05, 0.6)}, beta = {d.real(0.1, 0.9)}>(x)")
    return d.example(d.x if d.chance(0.9) else f"x {d.n}x{d.c}x{d.h}")


def hard_into_conv(rng: np.random.Generator) -> Example:
    d = Draw(rng)
    group = d.one(1, 1, d.c)
    out = d.number(1, 4) * group
    k, pad = d.one(1, 3), d.number(0, 1)
    d.h, d.w = d.number(k, 12), d.number(k, 12)
    bias = d.one("", ", b")
    d.say(
        f"c = Conv<group = {group}, pads = [{pad}, {pad}, {pad}, {pad}], strides = [{d.number(1, 2)}, 1]>(x, w{', wb' if bias else ''})"
    )
    d.say(f"y = HardSigmoid<alpha = {d.real(0.05, 0.6)}, beta = {d.real(0.1, 0.9)}>(c)")
    return d.example(f"{d.x}, w {out}x{d.c // group}x{k}x{k}" + (f", wb {out}" if bias else ""))


def shuffle(rng: np.random.Generator) -> Example:
    d = Draw(rng)
    groups, per = d.number(1, 4), d.number(1, 5)
    d.c = groups * per
    flat = d.chance(0.4)
    first = [d.n, groups, per, d.h * d.w] if flat else [d.n, groups, per, d.h, d.w]
    perm = [0, 2, 1, 3] if flat else d.one([0, 2, 1, 3, 4], [0, 2, 1, 3, 4], [0, 2, 1, 4, 3])
    back = [d.n, d.c, d.h, d.w] if d.chance(0.9) else [d.n, d.c, d.w, d.h]
    shape, last = d.ints(first), d.ints(back)
    d.say(f"r = Reshape(x, {shape}) t = Transpose<perm = {perm}>(r) y = Reshape(t, {last})")
    return d.example(d.x)


def dense(rng: np.random.Generator) -> Example:
    d = Draw(rng)
    d.h, d.w = d.number(1, 6), d.number(1, 6)
    k, out = d.c * d.h * d.w, d.number(1, 12)
    flatten = d.one("Flatten(x)", "Flatten<axis = 1>(x)", f"Reshape(x, {d.ints([d.n, -1])})")
    d.say(f"f = {flatten}")
    source = "f"
    if d.chance(0.3):
        d.say(d.one("a = Relu(f)", "a = Sigmoid(f)", "a = LeakyRelu(f)", "a = HardSigmoid(f)"))
        source = "a"
    if d.chance(0.5):
        transposed = d.number(0, 1)
        bias = d.one("", f", wb {out}", f", wb 1x{out}", ", wb 1")
        alpha, beta = d.one("1.0", str(d.real(0.2, 2))), d.one("1.0", str(d.real(0.2, 2)))
        d.say(f"y = Gemm<transB = {transposed}, alpha = {alpha}, beta = {beta}>({source}, w{', wb' if bias else ''})")
        return d.example(f"{d.x}, w {f'{out}x{k}' if transposed else f'{k}x{out}'}{bias}")
    if d.chance(0.5):
        d.say(f"m = MatMul({source}, w) y = {d.one('Add(m, wb)', 'Add(wb, m)')}")
        return d.example(f"{d.x}, w {k}x{out}, wb {d.one(str(out), f'1x{out}', f'{d.n}x{out}')}")
    d.say(f"y = MatMul({source}, w)")
    return d.example(f"{d.x}, w {k}x{out}")


def gate(spatial: bool) -> Generator:
    def generate(rng: np.random.Generator) -> Example:
        d = Draw(rng)
        d.h, d.w = smooth(d), smooth(d)
        channels, h, w = (1, d.h, d.w) if spatial else (d.c, 1, 1)
        if d.chance(0.1):
            channels, h = d.one((channels, 1), (1, h))
        n = d.n if d.chance(0.9) else 1
        d.say(f"y = {d.one('Mul', 'Add', 'Sub')}{d.one('(x, g)', '(g, x)')}")
        return d.example(f"{d.x}, g {n}x{channels}x{h}x{w}")

    return generate


def constant_shape(d: Draw) -> str:
    c = d.c
    return str(d.one("1", f"{c}x1x1", f"1x{c}x1x1", "1x1x1x1", "1x1", f"1x{c}x{d.h}x{d.w}", f"{d.w}"))


def with_constant(*operators: str, **goal: Any) -> Generator:
    def generate(rng: np.random.Generator) -> Example:
        d = Draw(rng)
        count, source = d.number(1, 3), "x"
        inputs = [d.x]
        for i in range(count):
            name = f"w{i}"
            inputs.append(f"{name} {constant_shape(d)}")
            result = "y" if i == count - 1 else f"t{i}"
            operands = f"({source}, {name})" if d.chance(0.7) else f"({name}, {source})"
            d.say(f"{result} = {d.one(*operators)}{operands}")
            source = result
        return d.example(", ".join(inputs), **goal)

    return generate


def shared_constant(rng: np.random.Generator) -> Example:
    d = Draw(rng)
    d.say(f"a = {d.one('Mul', 'Add', 'Max')}(x, w) y = {d.one('Mul', 'Sub', 'Min')}{d.one('(a, w)', '(w, a)')}")
    return d.example(f"{d.x}, w {constant_shape(d)}", trt=(8, 6))


def int_slice(rng: np.random.Generator, steps: bool = False) -> Example:
    d = Draw(rng)
    sizes = [d.n, d.c, d.h, d.w]
    axes = sorted(d.rng.choice([1, 2, 3] if d.chance(0.9) else [0, 1, 2, 3], d.number(1, 3), replace=False).tolist())
    starts, ends = [], []
    for axis in axes:
        first = d.number(0, sizes[axis] - 1)
        last = d.number(first + 1, sizes[axis])
        starts.append(first if d.chance(0.5) else first - sizes[axis])
        ends.append(last if last < sizes[axis] and d.chance(0.8) else d.one(sizes[axis], 2**63 - 1, 2**31 - 1))
    shown = [a if d.chance(0.7) else a - 4 for a in axes]
    numbers = [d.ints(starts), d.ints(ends), d.ints(shown)]
    if steps or d.chance(0.3):
        numbers.append(d.ints([d.number(1, 3) if steps and a > 1 else 1 for a in axes]))
    d.say(f"y = Slice(x, {', '.join(numbers)})")
    return d.example(d.x)


def stepped_slice(rng: np.random.Generator) -> Example:
    d = Draw(rng)
    axes = d.one([2], [3], [2, 3])
    size = {2: d.h, 3: d.w}
    starts = [d.number(0, min(size[a] - 1, 4)) for a in axes]
    ends = [2**63 - 1 if d.chance(0.8) else d.number(s + 1, size[a]) for s, a in zip(starts, axes)]
    steps = [d.number(1, 4) for _ in axes]
    d.say(f"y = Slice(x, {d.ints(starts)}, {d.ints(ends)}, {d.ints(axes)}, {d.ints(steps)})")
    return d.example(d.x)


def focus(rng: np.random.Generator) -> Example:
    d = Draw(rng)
    step = d.one(2, 2, 3)
    d.h, d.w = (step * d.number(1, 5) for _ in range(2))
    places = [(i, j) for i in range(step) for j in range(step)]
    d.rng.shuffle(places)
    names = []
    for i, j in places[: d.number(2, len(places))]:
        name = f"p{len(names)}"
        if d.chance(0.5):
            d.say(f"{name} = Slice(x, {d.ints([i, j])}, {d.ints([2**62] * 2)}, {d.ints([2, 3])}, {d.ints([step] * 2)})")
        else:
            d.say(f"{name}r = Slice(x, {d.ints([i])}, {d.ints([2**62])}, {d.ints([2])}, {d.ints([step])})")
            d.say(f"{name} = Slice({name}r, {d.ints([j])}, {d.ints([d.w])}, {d.ints([3])}, {d.ints([step])})")
        names.append(name)
    d.say(f"y = Concat<axis = {d.one(1, 1, 1, -3, 2)}>({', '.join(names)})")
    return d.example(d.x)


def resize(rng: np.random.Generator, sizes: bool) -> Example:
    d = Draw(rng)
    factors = [1, 1, d.number(1, 5), d.number(1, 5)]
    mode = d.one("nearest", "nearest", "linear")
    coordinates = d.one("half_pixel", "asymmetric", "pytorch_half_pixel", "align_corners")
    rounding = d.one("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
    if not sizes and d.chance(0.6):
        mode, coordinates = "nearest", d.one("half_pixel", "pytorch_half_pixel")
        rounding = d.one("round_prefer_floor", "round_prefer_ceil")
    attributes = f'mode = "{mode}", coordinate_transformation_mode = "{coordinates}"'
    if mode == "nearest":
        attributes += f', nearest_mode = "{rounding}"'
    roi = "" if d.opset >= 13 else d.reals([])
    if roi:
        d.body[-1] = f"{roi} = Constant<value = float[0] {{}}>()"
    if sizes:
        after = [s * f for s, f in zip((d.n, d.c, d.h, d.w), factors)]
        if d.chance(0.15):
            after[2] += 1
        empty = "" if d.opset >= 13 else d.reals([])
        if empty:
            d.body[-1] = f"{empty} = Constant<value = float[0] {{}}>()"
        d.say(f"y = Resize<{attributes}>(x, {roi}, {empty}, {d.ints(after)})")
    else:
        scales = [float(f) for f in factors]
        if d.chance(0.1):
            scales[3] = 0.5 if d.w % 2 == 0 else 1.5
        d.say(f"y = Resize<{attributes}>(x, {roi}, {d.reals(scales)})")
    return d.example(d.x)


def pad_conv(rng: np.random.Generator) -> Example:
    d = Draw(rng)
    k = d.one(1, 3, 5, 7)
    d.h, d.w = d.number(k, 14), d.number(k, 14)
    around = [d.number(0, 3) for _ in range(4)]
    pads = [0, 0, around[0], around[1], 0, 0, around[2], around[3]]
    if d.chance(0.05):
        pads[1] = 1
    operands = ["x", d.ints(pads)]
    if d.chance(0.3):
        operands.append(d.scalar(0.0 if d.chance(0.7) else 1.5))
    mode = "" if d.chance(0.9) else '<mode = "edge">'
    d.say(f"p = Pad{mode}({', '.join(operands)})")
    channels = d.c + (pads[1] > 0)
    own = [d.number(0, k // 2) for _ in range(4)] if d.chance(0.4) else [0, 0, 0, 0]
    if d.chance(0.7):
        group = d.one(1, channels)
        d.say(f"y = Conv<pads = {own}, strides = [{d.number(1, 2)}, {d.number(1, 2)}], group = {group}>(p, w)")
        return d.example(f"{d.x}, w {channels}x{channels // group}x{k}x{k}")
    d.say(f"y = AveragePool<kernel_shape = [{k}, {k}], pads = {own}, count_include_pad = {d.number(0, 1)}>(p)")
    return d.example(d.x)


def depth_to_space(rng: np.random.Generator) -> Example:
    d = Draw(rng)
    block, per = d.number(2, 4), d.number(1, 4)
    d.c, d.h, d.w = per * block * block, d.number(1, 6), d.number(1, 6)
    if d.chance(0.5):
        d.say(f'y = DepthToSpace<blocksize = {block}, mode = "{d.one("DCR", "CRD")}">(x)')
        return d.example(d.x)
    if d.chance(0.5):
        first, perm = [d.n, per, block, block, d.h, d.w], [0, 1, 4, 2, 5, 3]
    else:
        first, perm = [d.n, block, block, per, d.h, d.w], [0, 3, 4, 1, 5, 2]
    if d.chance(0.1):
        perm[2], perm[3] = perm[3], perm[2]
    last = [d.n, per, d.h * block, d.w * block]
    d.say(f"r = Reshape(x, {d.ints(first)})")
    d.say(f"t = Transpose<perm = {perm}>(r)")
    d.say(f"y = Reshape(t, {d.ints(last)})")
    return d.example(d.x)


def space_to_depth(rng: np.random.Generator) -> Example:
    d = Draw(rng)
    block = d.number(1, 5)
    d.h, d.w = block * d.number(1, 4), block * d.number(1, 4)
    d.say(f"y = SpaceToDepth<blocksize = {block}>(x)")
    return d.example(d.x)


def gather(rng: np.random.Generator) -> Example:
    d = Draw(rng)
    axis = d.one(1, 1, 1, -3, 2)
    size = d.c if axis in (1, -3) else d.h
    taken = [d.number(-size, size - 1) for _ in range(d.number(1, 12))]
    d.say(f"y = Gather<axis = {axis}>(x, {d.ints(taken)})")
    return d.example(d.x)


def deconv(rng: np.random.Generator) -> Example:
    d = Draw(rng)
    group = d.one(1, 2, 4)
    d.c = group * d.number(1, 3)
    per, k = d.number(1, 3), [d.number(1, 4), d.number(1, 4)]
    d.h, d.w = d.number(1, 6), d.number(1, 6)
    strides = [d.number(1, 3), d.number(1, 3)]
    dilations = [d.one(1, 1, 2), d.one(1, 1, 2)]
    reach = [(n - 1) * e for n, e in zip(k, dilations)]
    pads = [d.number(0, min(r, 2)) for r in (*reach, *reach)] if d.chance(0.7) else [0, 0, 0, 0]
    for i in (0, 1):
        # The output has to keep at least one element.
        size = (d.h, d.w)[i]
        if (size - 1) * strides[i] + reach[i] + 1 - pads[i] - pads[i + 2] < 1:
            pads[i] = pads[i + 2] = 0
    # ONNX Runtime takes no more than the stride less one.
    extra = [d.number(0, s - 1) for s in strides] if d.chance(0.4) else [0, 0]
    bias = d.chance(0.5)
    d.say(
        f"y = ConvTranspose<strides = {strides}, pads = {pads}, dilations = {dilations}, group = {group}, "
        f"output_padding = {extra}>(x, w{', wb' if bias else ''})"
    )
    return d.example(f"{d.x}, w {d.c}x{per}x{k[0]}x{k[1]}" + (f", wb {per * group}" if bias else ""))


def subpixel(rng: np.random.Generator) -> Example:
    """Mostly transposed convolutions whose output is stride times the input."""
    if rng.random() < 0.25:
        return deconv(rng)
    d = Draw(rng)
    group = d.one(1, 1, 2, 3)
    d.c = group * d.number(1, 3)
    per, strides = d.number(1, 3), [d.number(1, 3), d.number(1, 4)]
    d.h, d.w = d.number(1, 6), d.number(1, 6)
    pads = [d.number(0, 2) for _ in range(4)]
    extra = [d.number(0, s - 1) for s in strides] if d.chance(0.4) else [0, 0]
    k = [max(s + a + b - e, 1) for s, a, b, e in zip(strides, pads, pads[2:], extra)]
    if d.chance(0.1):
        k[0] += 1
    bias = d.chance(0.5)
    d.say(
        f"y = ConvTranspose<strides = {strides}, pads = {pads}, group = {group}, output_padding = {extra}>"
        f"(x, w{', wb' if bias else ''})"
    )
    return d.example(f"{d.x}, w {d.c}x{per}x{k[0]}x{k[1]}" + (f", wb {per * group}" if bias else ""))


def wide_conv(rng: np.random.Generator) -> Example:
    """Convolutions around the limit of the buffer: many channels, or wide rows."""
    d = Draw(rng)
    d.n, d.c, d.h = 1, d.one(128, 255, 256, 384, 512), d.number(1, 3)
    d.w = d.one(120, 161, 256, 320, 400)
    k = [d.one(1, 3, 3, 5, 7), d.one(1, 3, 3)]
    pads = [n // 2 for n in k] * 2
    group, bias = d.one(1, 1, 1, d.c if d.c % 2 else 2), d.chance(0.5)
    strides = [d.number(1, 2), d.number(1, 2)]
    out = group * d.number(1, 2)
    d.say(f"y = Conv<pads = {pads}, strides = {strides}, group = {group}>(x, w{', wb' if bias else ''})")
    weights = f"w {out}x{d.c // group}x{k[0]}x{k[1]}"
    return d.example(f"{d.x}, {weights}" + (f", wb {out}" if bias else ""), precision=d.one("fp16", "int8"))


#: Operators between a Conv and its cut: from x to y. wv: one number per channel, wd: weights of a depthwise Conv.
BETWEEN = (
    "{y} = Relu({x})",
    "{y} = LeakyRelu<alpha = 0.1>({x})",
    "{y} = Clip({x}, {low}, {high})",
    "{t} = Sigmoid({x}) {y} = Mul({x}, {t})",
    "{t} = HardSigmoid({x}) {y} = Mul({t}, {x})",
    "{y} = PRelu({x}, wv)",
    "{t} = Sub(wv, {x}) {y} = Max({t}, {x})",
    "{t} = Tanh({x}) {y} = Div({t}, wv)",
    "{y} = BatchNormalization({x}, w1, w1, w1, w1)",
    "{y} = Conv<group = {out}, pads = [1, 1, 1, 1]>({x}, wd)",
)


def parted_conv(rng: np.random.Generator) -> Example:
    """A Conv, up to two channelwise operators, and a cut of its channels as Split or as Slices that may overlap."""
    d = Draw(rng)
    out, k = d.number(2, 24), d.one(1, 1, 3)
    d.h, d.w = d.number(k, 12), d.number(k, 12)
    group = d.one(1, 1, 1, 1, 1, 1, 1, d.c)
    out, bias = out * group, d.one("", ", wb")
    d.say(f"c = Conv<group = {group}, pads = {[k // 2] * 4}, strides = [{d.number(1, 2)}, {d.number(1, 2)}]>(x, w{bias})")
    low, high, end = d.scalar(0.0), d.scalar(6.0), "c"
    for i in range(d.number(0, 2)):
        d.say(d.one(*BETWEEN).format(x=end, y=f"m{i}", t=f"t{i}", low=low, high=high, out=out))
        end = f"m{i}"
    if d.chance(0.6):
        cut = sorted({0, out, *(d.number(1, out) for _ in range(d.number(1, 3)))})
        sizes = [b - a for a, b in zip(cut, cut[1:])]
        parts = [f"p{i}" for i in range(len(sizes))]
        axis = d.one(1, -3)
        if d.opset < 13:
            d.say(f"{', '.join(parts)} = Split<axis = {axis}, split = {sizes}>({end})")
        else:
            d.say(f"{', '.join(parts)} = Split<axis = {axis}>({end}, {d.ints(sizes)})")
    else:
        parts = [f"p{i}" for i in range(d.number(1, 3))]
        for part in parts:
            first = d.number(0, out - 1)
            last = d.number(first + 1, out)
            bounds = [d.one(first, first - out), d.one(last, last - out) if last < out else 2**62]
            numbers = [d.ints([v]) for v in (*bounds, d.one(1, -3), d.one(1, 1, 2))]
            d.say(f"{part} = Slice({end}, {', '.join(numbers)})")
    read = [p for p in parts if d.chance(0.8)] or parts[:1]
    whole = f", {end}" if d.chance(0.1) else ""
    d.say(f"y = Concat<axis = 1>({', '.join(read)}{whole})")
    weights = f"w {out}x{d.c // group}x{k}x{k}, wb {out}, wv {out}x1x1, w1 {out}, wd {out}x1x3x3"
    return d.example(f"{d.x}, {weights}")


def dilated(rng: np.random.Generator) -> Example:
    d = Draw(rng)
    d.h, d.w = d.number(1, 8), d.number(1, 8)
    k = [d.one(1, 3, 5), d.one(3, 3, 5)]
    dilations = [max(1, s + d.number(-1, 3)) for s in (d.h, d.w)]
    pads = [e * (n // 2) for e, n in zip(dilations, k)] * 2
    group, bias = d.one(1, d.c), d.chance(0.5)
    d.say(f"y = Conv<dilations = {dilations}, pads = {pads}, group = {group}>(x, w{', wb' if bias else ''})")
    out = group * d.number(1, 3)
    return d.example(f"{d.x}, w {out}x{d.c // group}x{k[0]}x{k[1]}" + (f", wb {out}" if bias else ""))


def patches(rng: np.random.Generator) -> Example:
    d = Draw(rng)
    k = [d.one(9, 10, 12, 14, 16, 11, 8), d.one(4, 9, 12, 16)]
    d.c, d.h, d.w = d.number(1, 3), k[0] * d.number(1, 2) + d.one(0, 0, 1), k[1] * d.number(1, 2)
    bias, out = d.chance(0.5), d.number(1, 4)
    d.say(f"y = Conv<strides = {k}>(x, w{', wb' if bias else ''})")
    return d.example(f"{d.x}, w {out}x{d.c}x{k[0]}x{k[1]}" + (f", wb {out}" if bias else ""))


def power(rng: np.random.Generator) -> Example:
    d = Draw(rng)
    exponent = d.one(2.0, 3.0, 4.0, 1.0, 0.5)
    if exponent == 0.5:
        d.say("a = Abs(x)")
    d.say(f"y = Pow({'a' if exponent == 0.5 else 'x'}, {d.one(d.scalar, lambda v: d.reals([v]))(exponent)})")
    return d.example(d.x)


def clip(rng: np.random.Generator) -> Example:
    d = Draw(rng)
    low = d.one(0.0, d.real(-3, 3), d.real(-200, 0))
    high = low + d.one(d.real(0.01, 0.9), d.real(1, 6), d.real(100, 300))
    bounds = d.one(f"{d.scalar(low)}, {d.scalar(high)}", f"{d.scalar(low)}", f", {d.scalar(high)}")
    d.say(f"y = Clip(x, {bounds})")
    return d.example(d.x)


def softmax(rng: np.random.Generator) -> Example:
    d = Draw(rng)
    d.c = 2 if d.chance(0.8) else d.c
    if d.chance(0.4):
        d.h = d.w = 1
    d.say(f"y = Softmax<axis = {d.one(1, 1, -3, 2)}>(x)")
    return d.example(d.x)


def unary(operator: str, **goal: Any) -> Generator:
    def generate(rng: np.random.Generator) -> Example:
        d = Draw(rng)
        slope = f"<alpha = {d.real(-0.2, 1.2)}>" if operator == "LeakyRelu" else ""
        d.say(f"y = {operator}{slope}(x)")
        return d.example(d.x, **goal)

    return generate


def prelu(rng: np.random.Generator) -> Example:
    d = Draw(rng)
    d.say("y = PRelu(x, w)")
    return d.example(f"{d.x}, w {d.one('1', f'{d.c}x1x1', f'1x{d.c}x1x1', f'{d.c}x{d.h}x{d.w}')}")


def gelu(rng: np.random.Generator) -> Example:
    d = Draw(rng)
    root = d.one("Div", "Mul")
    factor = d.scalar(math.sqrt(2.0 if root == "Div" else 0.5) * (1.0 if d.chance(0.9) else 1.1))
    d.say(f"s = {root}(x, {factor}) e = Erf(s)")
    d.say(f"a = Add{d.one('(e, {0})', '({0}, e)').format(d.scalar(1.0))}")
    half = d.scalar(0.5 if d.chance(0.9) else 0.6)
    d.say(d.one(f"m = Mul(x, a) y = Mul(m, {half})", f"m = Mul({half}, a) y = Mul(x, m)", f"m = Mul(x, {half}) y = Mul(a, m)"))
    return d.example(d.x, approximate=0.1)


def layer_norm(rng: np.random.Generator) -> Example:
    d = Draw(rng)
    d.opset = d.number(17, 21)
    d.h = d.h + 1
    shape = [d.n, d.c, d.h][: d.number(2, 3)]
    shape[-1] = d.number(2, 16)
    axis = d.number(1, len(shape) - 1)
    dims = "x".join(map(str, shape[axis:]))
    axis = axis if d.chance(0.5) else axis - len(shape)
    bias = d.chance(0.5)
    d.say(f"y = LayerNormalization<axis = {axis}, epsilon = {d.one('1e-5', '1e-3')}>(x, w{', wb' if bias else ''})")
    return d.example(f"x {'x'.join(map(str, shape))}, w {dims}" + (f", wb {dims}" if bias else ""), trt=(8, 5))


def mish(rng: np.random.Generator) -> Example:
    d = Draw(rng)
    d.say(f"s = Softplus(x) t = Tanh(s) y = Mul{d.one('(x, t)', '(t, x)')}")
    return d.example(d.x, approximate=0.1)


def no_op(rng: np.random.Generator) -> Example:
    d = Draw(rng)
    shape = [d.n, d.c, d.h, d.w]
    d.say("a = Relu(x)")
    whole = f"{d.ints([0])}, {d.ints([d.c])}, {d.ints([1])}"
    turned = f"{d.ints([-1])}, {d.ints([-1 - d.c])}, {d.ints([1])}, {d.ints([-1])}"
    d.say(
        d.one(
            f"b = Slice(a, {whole})",
            f"b = Slice(a, {turned})",
            "b = Identity(a)",
            "b = Concat<axis = 1>(a)",
            "b = Dropout(a)",
            "b = Cast<to = 1>(a)",
            "b = Transpose<perm = [0, 1, 2, 3]>(a)",
            "b = Transpose<perm = [0, 1, 3, 2]>(a)",
            f"b = Reshape(a, {d.ints(shape)})",
            f"b = Reshape(a, {d.ints(shape[:2] + [-1])})",
            "b = Flatten(a)",
        )
    )
    d.say(d.one("y = Sigmoid(b)", "y = Identity(b)"))
    return d.example(d.x)


def output_4d(rng: np.random.Generator) -> Example:
    d = Draw(rng)
    d.say("a = Relu(x)")
    shape = d.one([d.n, -1], [d.n, d.c, d.h * d.w], [d.c * d.n, -1], [d.n, d.c, d.w, d.h])
    d.say(d.one("y = Flatten(a)", f"y = Reshape(a, {d.ints(shape)})"))
    return d.example(d.x, change_outputs=True)


def decoder(rng: np.random.Generator) -> Example:
    """Heads of one to three scales with what detectors put behind them."""
    d = Draw(rng)
    d.n = 1
    channels = d.number(9, 12)
    weights, rows = [], []
    for i in range(d.number(1, 3)):
        k = d.one(1, 3)
        weights.append(f"w{i} {channels}x{d.c}x{k}x{k}")
        stride = 2**i
        head = f"c{i} = Conv<pads = {[k // 2] * 4}, strides = [{stride}, {stride}]>(x, w{i})"
        d.say(head)
        source = f"c{i}"
        if d.chance(0.3):
            d.say(f"a{i} = {d.one('Relu', 'Sigmoid', 'LeakyRelu')}(c{i})")
            source = f"a{i}"
        if d.chance(0.5):
            d.say(f"t{i} = Transpose<perm = [0, 2, 3, 1]>({source}) r{i} = Reshape(t{i}, {d.ints([1, -1, channels])})")
        else:
            d.say(f"s{i} = Reshape({source}, {d.ints([1, channels, -1])}) r{i} = Transpose<perm = [0, 2, 1]>(s{i})")
        rows.append(f"r{i}")
    d.say(f"j = Concat<axis = 1>({', '.join(rows)})")
    last = d.one("Softmax<axis = 2>(j)", "Sigmoid(j)", f"Mul(j, {d.reals([2.0] * channels)})", "Identity(j)")
    d.say(f"y = {last}")
    if d.chance(0.2):
        # The network goes on behind it: no decoder.
        d.body[-1] = f"z = {last} y = MatMul(z, wz)"
        weights.append(f"wz {channels}x10")
    return d.example(", ".join([d.x, *weights]), change_outputs=d.chance(0.9))


def channel_mean(rng: np.random.Generator) -> Example:
    d = Draw(rng)
    axes = d.one([1], [-3], [1], [1, 2], [2])
    d.say(f"y = {d.reduce(d.one('ReduceMean', 'ReduceSum'), axes, 1 if d.chance(0.9) else 0)}")
    return d.example(d.x)


#: Rewrite -> its generator.
GENERATORS: Dict[str, Generator] = {
    "no-ops": no_op,
    "decoder-cut": decoder,
    "expand-layer-norm": layer_norm,
    "average-flag": average_pool("xavier", 1, 5),
    "resize-scales": lambda rng: resize(rng, True),
    "resize-asymmetric": lambda rng: resize(rng, False),
    "focus": focus,
    "strided-slice": stepped_slice,
    "global-average-pool": global_average,
    "global-average-conv": global_average,
    "global-max-pool": global_max,
    "chain-max-pool": max_pool,
    "average-conv": average_pool("orin", 6, 14),
    "padded-average": average_pool("xavier", 2, 6),
    "hard-sigmoid-into-conv": hard_into_conv,
    "hard-sigmoid": hard,
    "depth-to-space": depth_to_space,
    "space-to-depth": space_to_depth,
    "channel-gather": gather,
    "channel-shuffle": shuffle,
    "dense-to-conv": dense,
    "pad-into-conv": pad_conv,
    "conv-per-part": parted_conv,
    "int32-slice": int_slice,
    "deconv-dense": deconv,
    "deconv-crop": deconv,
    "deconv-subpixel": subpixel,
    "leaky-relu": unary("LeakyRelu", trt=(7, 1)),
    "divide-by-constant": with_constant("Div"),
    "integer-power": power,
    "negate": unary("Neg"),
    "gelu-sigmoid": gelu,
    "gelu-silu": gelu,
    "mish": mish,
    "channel-mean": channel_mean,
    "dilated-centre": dilated,
    "patch-embedding": patches,
    "split-channels": wide_conv,
    "clip-shift": clip,
    "two-entry-softmax": softmax,
    "spatial-gate": gate(True),
    "channel-gate": gate(False),
    "prelu": prelu,
    "constants-to-batch-norm": with_constant("Mul", "Add", "Sub", "Div"),
    "full-rank-constants": shared_constant,
    "outputs-4d": output_4d,
}
