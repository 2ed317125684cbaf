"""Eight numbers of single precision in one register, for loops that compilers do not vectorise by themselves.

A kernel that uses these says which numbers are computed together and in which order they are added; a multiply-add
rounds once. They are no Python functions: with compilation off, they cannot be called.
"""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import models, register_model

from fedrepro.kernels.convolution.intrinsic import intrinsic

LANES = 8
_VECTOR = ir.VectorType(ir.FloatType(), LANES)


class _Eight(types.Type):
    def __init__(self):
        super().__init__(name="eight float32")


_eight = _Eight()


@register_model(_Eight)
class _EightModel(models.PrimitiveModel):
    def __init__(self, dmm, fe_type):
        super().__init__(dmm, fe_type, _VECTOR)


def _place(context, builder, array_type, array, index):
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), _VECTOR.as_pointer())


@intrinsic
def load(typing, array, index):
    """Eight neighbours of a flat array, from an index on; nobody checks that they exist."""

    def generated(context, builder, signature, given):
        loaded = builder.load(_place(context, builder, signature.args[0], *given))
        loaded.align = 4
        return loaded

    return _eight(array, types.intp), generated


@intrinsic
def store(typing, array, index, values):
    """The inverse of `load`."""

    def generated(context, builder, signature, given):
        builder.store(given[2], _place(context, builder, signature.args[0], *given[:2]), align=4)
        return context.get_dummy_value()

    return types.void(array, types.intp, _eight), generated


def _eight_times(builder, value):
    first = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), value, ir.IntType(32)(0))
    return builder.shuffle_vector(first, first, ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES))


@intrinsic
def spread(typing, array, index):
    """One number of a flat array, eight times; without a look at whether the index is negative, as Numba has one."""

    def generated(context, builder, signature, given):
        data = context.make_array(signature.args[0])(context, builder, given[0]).data
        return _eight_times(builder, builder.load(builder.gep(data, [given[1]])))

    return _eight(array, types.intp), generated


@intrinsic
def zeros(typing):
    """Eight times zero."""

    def generated(context, builder, signature, given):
        return ir.Constant(_VECTOR, [0.0] * LANES)

    return _eight(), generated


@intrinsic
def multiply_add(typing, a, b, c):
    """a b + c."""

    def generated(context, builder, signature, given):
        kind = ir.FunctionType(_VECTOR, [_VECTOR] * 3)
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, f"llvm.fma.v{LANES}f32"), given)

    return _eight(_eight, _eight, _eight), generated


@intrinsic
def larger(typing, a, b):
    """The larger one of each pair."""

    def generated(context, builder, signature, given):
        return builder.select(builder.fcmp_ordered(">", *given), *given)

    return _eight(_eight, _eight), generated


@intrinsic
def where_same(typing, a, b, same, other):
    """``same`` where a = b, and ``other`` elsewhere."""

    def generated(context, builder, signature, given):
        return builder.select(builder.fcmp_ordered("==", *given[:2]), *given[2:])

    return _eight(_eight, _eight, _eight, _eight), generated
