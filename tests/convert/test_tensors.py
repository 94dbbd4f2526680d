"""Tensors of a checkpoint: each used once, of the expected shape, finite."""

from __future__ import annotations

import numpy as np
import pytest

from keras_transformer.convert.errors import ConvertError
from keras_transformer.convert.tensors import Tensors


def tensors(**values: np.ndarray) -> Tensors:
    return Tensors(values, "m.npz")


def test_a_tensor_that_is_left_is_refused_by_name() -> None:
    both = tensors(a=np.ones(2, np.float32), b=np.ones(3, np.float16))
    assert both.take("a", (2,)).tolist() == [1, 1]
    with pytest.raises(ConvertError, match="m.npz: .* found also b: the model has parts"):
        both.check_all_used()
    assert both.take("b", (None,)).dtype == np.float16
    both.check_all_used()


def test_many_tensors_that_are_left_are_counted() -> None:
    many = Tensors({f"t{number}": np.ones(1, np.float32) for number in range(8)}, "m")
    with pytest.raises(ConvertError, match="t0, t1, t2, t3, t4, t5 and 2 others"):
        many.check_all_used()
    many.ignore(lambda name: name != "t7")
    with pytest.raises(ConvertError, match="found also t7:"):
        many.check_all_used()


def test_missing_tensors_and_other_shapes_are_refused() -> None:
    one = tensors(a=np.ones((2, 3), np.float32))
    assert one.shape("a") == (2, 3)
    for read in (one.take, one.shape):
        with pytest.raises(ConvertError, match="expected the tensor b, found none"):
            read("b")
    with pytest.raises(ConvertError, match=r"a: expected the shape \(any, 4\), got \(2, 3\)"):
        one.take("a", (None, 4))
    with pytest.raises(ConvertError, match=r"expected the shape \(6\), got \(2, 3\)"):
        one.take("a", (6,))


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_are_refused(wrong: float) -> None:
    with pytest.raises(ConvertError, match="a: expected finite numbers"):
        tensors(a=np.array([1, wrong], np.float32)).take("a")


def test_other_types() -> None:
    other = tensors(
        double=np.array([0.5]), big_endian=np.array([0.5], ">f4"), int8=np.zeros(2, np.int8)
    )
    for name in ("double", "big_endian"):
        assert other.take(name).dtype == np.float32
        assert other.take(name).tolist() == [0.5]
    with pytest.raises(ConvertError, match="int8: expected floating-point .*quantized"):
        other.take("int8")
    with pytest.raises(ConvertError, match="double: expected finite numbers"):
        tensors(double=np.array([1e300])).take("double")  # too large for float32


def test_tied_matrices_must_be_equal() -> None:
    matrix = np.ones((2, 2), np.float32)
    tied = tensors(a=matrix, b=matrix.copy(), c=2 * matrix)
    tied.take("a")
    tied.take_copies(["b", "missing"], "a")
    with pytest.raises(ConvertError, match="found also c:"):
        tied.check_all_used()
    with pytest.raises(ConvertError, match="c: expected the same matrix as a"):
        tied.take_copies(["c"], "a")
