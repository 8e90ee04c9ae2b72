"""What counts as a near copy, and that none of what is held out is learned from."""

from dataclasses import replace

import pytest
from graded_kernels import graded_kernel, verdict_of

from common.contract import Status
from trainer.data import corpus
from trainer.data.graded import GradedData
from trainer.tuning.collection import fingerprint_of
from trainer.tuning.similarity import NEAR, pieces_of, similarity, without_contamination, without_near_copies

LONG = corpus.render_prompt(corpus.styles("matmul")[-1]).source
SHORT = corpus.render_prompt(corpus.styles("relu")[0]).source


def alike(one, other):
    return similarity(pieces_of(one), pieces_of(other))


def test_comments_space_and_kernel_names_do_not_count_and_a_changed_token_counts_little():
    assert alike(LONG, LONG.replace("matmul", "other").replace("{\n", "{ // said\n\n")) == 1.0
    assert NEAR <= alike(LONG, LONG.replace("0.0f", "1.0f", 1)) < 1.0
    assert alike(LONG, SHORT) < 0.3
    assert alike(LONG, SHORT) == alike(SHORT, LONG)


@pytest.mark.parametrize("bound", ["", "__launch_bounds__(256) ", "__launch_bounds__(2 * (128)) ", "alignas(8) "])
def test_a_name_does_not_count_whatever_stands_before_it(bound):
    first, other = (
        f"__global__ void {bound}{one}(int n) {{ n = 1; }}\nextern __global__ {bound}void {two}(int n) {{}}\n"
        f"// assay: launch {one} grid=(1)\n// assay: launch {two} grid=(1)\n"
        for one, two in (("relu", "solve"), ("kernel1", "kernel0"))
    )
    assert fingerprint_of(first) == fingerprint_of(other)
    assert alike(first, other) == 1.0
    turned = other.replace("launch kernel0", "launch it").replace("launch kernel1", "launch kernel0")
    assert fingerprint_of(turned.replace("launch it", "launch kernel1")) != fingerprint_of(other), "another order"


def test_of_near_copies_that_end_alike_one_stays_whatever_the_order():
    near = LONG.replace("0.0f", "0.00f", 1)
    kernels = [graded_kernel("matmul", LONG), graded_kernel("matmul", near), graded_kernel("matmul", SHORT)]
    data, out = without_near_copies(GradedData(tuple(kernels), frozenset()))
    again, _ = without_near_copies(GradedData(tuple(reversed(kernels)), frozenset()))
    assert data == again
    assert len(data.kernels) == 2
    assert [one.reason for one in out] == ["a near copy of another kernel of its problem"]
    # A fault makes another example of it, and so does another problem.
    wrong = graded_kernel("matmul", near, Status.INCORRECT)
    other = replace(kernels[1], problem="row_sum")
    assert len(without_near_copies(GradedData((kernels[0], wrong, other), frozenset()))[0].kernels) == 3
    # Two faults that are told apart by what is said of them, numbers aside.
    said = [
        replace(wrong, fingerprint=words, verdict=verdict_of(Status.INCORRECT).model_copy(update={"message": words}))
        for words in ("3 elements are wrong", "17 elements are wrong", "a race")
    ]
    assert len(without_near_copies(GradedData(tuple(said), frozenset()))[0].kernels) == 2


def test_nothing_that_is_held_out_is_learned_from_and_what_is_left_is_measured():
    held_out = graded_kernel("matmul", LONG)
    exact = graded_kernel("matvec", LONG.replace("matmul", "matvec"))
    near = graded_kernel("matvec", LONG.replace("0.0f", "0.00f", 1))
    far = graded_kernel("matvec", SHORT)
    data, out, found = without_contamination(GradedData((exact, near, far, held_out), frozenset({"matmul"})))
    assert data.kernels == (held_out, far)
    assert (found.exact, found.near, len(out)) == (1, 1, 2)
    assert found.highest == alike(SHORT, LONG)
    assert without_contamination(GradedData((far,), frozenset()))[2].highest == 0.0
