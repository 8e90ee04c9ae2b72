"""Hostile host code, one file each: how it ends, and that whoever comes next is graded rightly. See test_attacks.py
for what a header says.
"""

import re
from pathlib import Path

import pytest

from common.contract import Phase, Settings, Status, Submission
from evaluator.pipeline.pipeline import evaluate

FILES = sorted((Path(__file__).parent / "host_code").glob("*.cu"))
ENDS = {status.value for status in Status} - {"internal_error", "cancelled"}
NEXT = """
__global__ void scale(const float* x, float* y, float alpha, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = alpha * x[i];
}

extern "C" void solve(const float* x, float* y, float alpha, int n)
{
    float* half;
    cudaMalloc(&half, n * sizeof(float));
    scale<<<(n + 255) / 256, 256>>>(x, half, alpha, n);
    cudaMemcpy(y, half, n * sizeof(float), cudaMemcpyDeviceToDevice);
    cudaFree(half);
}
"""


def header(source: str) -> dict[str, str]:
    return dict(re.findall(r"^// (problem|attack|expect|because|message): (.*)$", source, re.MULTILINE))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_hostile_host_code_ends_as_it_must_and_the_next_job_is_right(path, toolbox):
    source = path.read_text()
    head = header(source)
    quick = Settings(estimate_for=None, verification="quick")
    settings = Settings(estimate_for=None) if "when_large" in path.stem else quick
    dialect = "torch-extension" if path.stem.startswith("extension_") else "solve"
    submission = Submission(problem=head["problem"], source=source, dialect=dialect, settings=settings)
    verdict = evaluate(submission, toolbox)
    told = f"{verdict.status} in {verdict.phase}: {verdict.message}\nexpected {head['expect']}: {head['because']}"
    assert verdict.status.value in head["expect"].split("|"), told
    assert head.get("message", "") in verdict.message, told
    if verdict.status is not Status.PASSED:
        assert verdict.hint
    if verdict.phase is Phase.LIFT:
        assert verdict.correctness is None
    if verdict.status is Status.UNSUPPORTED:
        assert verdict.reward is None
    following = evaluate(Submission(problem="scalar_multiply", source=NEXT, settings=quick), toolbox)
    assert following.status is Status.PASSED, f"the next job: {following.status}: {following.message}"


def test_the_corpus_says_what_each_file_tries():
    heads = [header(path.read_text()) for path in FILES]
    assert len(heads) >= 80
    for path, head in zip(FILES, heads, strict=True):
        assert head.keys() >= {"problem", "attack", "expect", "because"}, path.stem
        assert ENDS.issuperset(head["expect"].split("|")), path.stem
