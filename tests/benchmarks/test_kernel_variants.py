"""The kernels of the throughput benchmark: honest ones pass, bad ones end as they say, and no two share their PTX."""

import re
import subprocess

import pytest

from benchmarks._support.kernel_variants import bad, honest
from common.contract import Settings, Submission
from evaluator.pipeline.pipeline import evaluate
from evaluator.stages.compile.toolchain import find_toolchain

VARIANTS = honest()
PROBLEMS = sorted({variant.problem for variant in VARIANTS})


def of(problem):
    return [variant for variant in VARIANTS if variant.problem == problem]


def samples():
    """The first and the last of each family differ in all that varies."""
    return [variant for problem in PROBLEMS for variant in (of(problem)[0], of(problem)[-1])]


@pytest.mark.parametrize("variant", [*samples(), *bad(4)], ids=lambda variant: variant.name)
def test_a_variant_ends_as_it_says(variant, toolbox):
    settings = Settings(run_timeout_s=2) if variant.name.startswith("hangs") else Settings()
    submission = Submission(problem=variant.problem, source=variant.source, backend="sim", settings=settings)
    verdict = evaluate(submission, toolbox)
    assert verdict.status in variant.ends, verdict.message


def test_there_are_enough_over_many_problems():
    assert len(VARIANTS) >= 300
    assert len(PROBLEMS) >= 8
    assert len({variant.name for variant in VARIANTS}) == len(VARIANTS)
    assert {variant.problem for variant in VARIANTS[: len(PROBLEMS)]} == set(PROBLEMS)
    assert len({variant.source for variant in bad(40)}) == 40


@pytest.mark.parametrize("problem", PROBLEMS)
def test_no_two_variants_compile_to_the_same_ptx(problem, tmp_path):
    family = of(problem)
    text = "\n".join(f"namespace v{i} {{\n{variant.source}\n}}" for i, variant in enumerate(family))
    (tmp_path / "all.cu").write_text(text)
    command = [find_toolchain().nvcc, "-ptx", "-std=c++17", "-O3", "-arch=sm_80", "all.cu", "-o", "all.ptx"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    entries = re.findall(r"\.visible \.entry (\w+)\((.*?)\n}", (tmp_path / "all.ptx").read_text(), re.DOTALL)
    assert len(entries) == len(family)
    bodies = set()
    for name, body in entries:
        # Everything in it that has the kernel's own name or number, which a cache would not be fooled by either.
        plain = re.sub(r"\$L__BB\d+_", "$L_", body.replace(name, "k"))
        bodies.add(re.sub(r"_ZZN\w*", "shared", plain))
    assert len(bodies) == len(family)
