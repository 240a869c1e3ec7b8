"""Gemm, MatMul and Einsum."""

from __future__ import annotations

from typing import Dict, List, Sequence, Tuple

from edgedla.importers.broadcast import same_rank, squeeze, unsqueeze
from edgedla.importers.context import Context
from edgedla.importers.dtypes import refuse_types
from edgedla.importers.network import arithmetic, dense
from edgedla.importers.network.core import NetTensor
from edgedla.importers.node import Node
from edgedla.importers.operand import Value
from edgedla.importers.refuse import Refused


def gemm(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    refuse_types(inputs[0], "INT32", "INT64")
    alpha, beta = node.number("alpha", 1.0), node.number("beta", 1.0)
    a, b = ctx.tensor(inputs[0]), ctx.tensor(inputs[1])
    if len(a.dims) != 2 or len(b.dims) != 2:
        raise Refused(f"GEMM must have 2D inputs! inputA has rank {len(a.dims)}, inputB has rank {len(b.dims)}.")
    op0 = "TRANSPOSE" if node.integer("transA", 0) else "NONE"
    op1 = "TRANSPOSE" if node.integer("transB", 0) else "NONE"
    out = dense.matrix_multiply(ctx.net, a, op0, b, op1)
    ctx.net.register(out, node.name)
    if alpha != 1.0:
        factor, out = same_rank(ctx, ctx.scalar(alpha, "FLOAT"), out)
        out = arithmetic.elementwise(ctx.net, factor, out, "PROD")
    if len(inputs) > 2 and inputs[2] is not None:
        bias = ctx.tensor(inputs[2])
        if beta != 1.0:
            factor, bias = same_rank(ctx, ctx.scalar(beta, "FLOAT"), bias)
            bias = arithmetic.elementwise(ctx.net, factor, bias, "PROD")
        out, bias = same_rank(ctx, out, bias)
        out = arithmetic.elementwise(ctx.net, out, bias, "SUM")
    return [out]


def matmul(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    refuse_types(inputs[0], "INT32", "INT64")
    a, b = ctx.tensor(inputs[0]), ctx.tensor(inputs[1])
    rank_a, rank_b = len(a.dims), len(b.dims)
    squeeze_tail = rank_a > rank_b == 1
    squeeze_head = rank_b > rank_a == 1
    if squeeze_tail:
        b = unsqueeze(ctx, b, [1])
    a, b = same_rank(ctx, a, b)
    op0 = "VECTOR" if len(a.dims) == 1 else "NONE"
    op1 = "VECTOR" if len(b.dims) == 1 else "NONE"
    if not a.dims or not b.dims:
        raise Refused("a matrix product needs inputs of rank 1 or more")
    out = dense.matrix_multiply(ctx.net, a, op0, b, op1)
    ctx.net.register(out, node.name)
    if squeeze_head:
        # The first axis, whichever it is: a batch there is a refusal of the reshape that follows.
        out = squeeze(ctx, out, [0])
    if squeeze_tail:
        out = squeeze(ctx, out, [len(out.dims) - 1])
    return [out]


def _split_equation(equation: str) -> Tuple[List[str], str, bool]:
    inputs, arrow, right = equation.replace(" ", "").partition("->")
    return inputs.split(","), right, bool(arrow)


def _without_ellipsis(terms: List[str], right: str, arrow: bool, tensors: Sequence[NetTensor]) -> Tuple[List[str], str]:
    """The equation with "..." spelled out as letters, and with an explicit output."""
    ellipsis = any("..." in t for t in terms) or "..." in right
    counts: Dict[str, int] = {}
    for term in terms:
        for c in term:
            if c.isalpha():
                counts[c] = counts.get(c, 0) + 1
    if not arrow:
        right = "..." if ellipsis else ""
        right += "".join(sorted(c for c, n in counts.items() if n == 1))
    letters = ""
    for i, (term, t) in enumerate(zip(terms, tensors)):
        if "..." in term:
            if not letters:
                needed = len(t.dims) - (len(term) - 3)
                free = [chr(c) for c in range(ord("a"), ord("z") + 1) if chr(c) not in counts]
                letters = "".join(free[: max(needed, 0)])
            terms[i] = term.replace("...", letters, 1)
    return terms, right.replace("...", letters, 1)


def einsum(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    refuse_types(inputs[0], "UINT8")
    equation = node.required("equation").s.decode("utf-8", "replace")
    wrong = [c for c in equation if not ("a" <= c <= "z" or c in "->., ")]
    if wrong:
        raise Refused(f"Invalid character(s) in Einsum equation: {','.join(wrong)}")
    tensors = [ctx.tensor(x) for x in inputs]
    if "..." in equation or len(tensors) > 2:
        terms, right, arrow = _split_equation(equation)
        terms, right = _without_ellipsis(terms, right, arrow, tensors)
        equation = f"{','.join(terms)}->{right}"
    if len(tensors) <= 2:
        return [ctx.name(dense.einsum(ctx.net, tensors, equation), node)]
    terms, right, _ = _split_equation(equation)
    if len(terms) != len(tensors):
        raise Refused(f"Einsum equation {equation!r} does not fit {len(tensors)} inputs")
    # More than two inputs: pairs from the left, each keeping all of its letters.
    out, term = tensors[0], terms[0]
    for i in range(1, len(tensors) - 1):
        joined = "".join(sorted({c for c in term + terms[i] if c.isalpha()}))
        out = ctx.name(dense.einsum(ctx.net, [out, tensors[i]], f"{term},{terms[i]}->{joined}"), node)
        term = joined
    return [ctx.name(dense.einsum(ctx.net, [out, tensors[-1]], f"{term},{terms[-1]}->{right}"), node)]
