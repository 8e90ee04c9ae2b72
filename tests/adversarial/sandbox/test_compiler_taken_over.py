"""What a source could do that has taken over the compiler, and files of the host that it may not see."""

import dataclasses
import time
from pathlib import Path

import pytest
from sandboxes import make_sandbox

from common.contract import Settings, Status, Submission
from evaluator.disk_cache import Cache
from evaluator.pipeline.pipeline import evaluate
from evaluator.pipeline.toolbox import Toolbox
from evaluator.settings import MachineSettings
from evaluator.stages.compile.nvcc import compile_source
from evaluator.stages.compile.toolchain import find_toolchain

SOURCE = "__global__ void honest(float* x) { x[threadIdx.x] += 1; }\n"
CORPUS = Path(__file__).parents[1]
HONEST = CORPUS.parent / "kernels" / "vector_add_plain.cu"


@pytest.fixture(params=["bubblewrap", "process"])
def kind(request, tmp_path):
    sandbox = make_sandbox(request.param, tmp_path / "jobs")
    if isinstance(sandbox, str):
        pytest.skip(sandbox)
    return request.param


@pytest.fixture
def compile_with(kind, tmp_path):
    """`compile_with("nvcc", "commands")`: the real program, and after it what has taken it over, still inside."""
    sandbox = make_sandbox(kind, tmp_path / "jobs")
    cache = Cache(tmp_path / "cache", 1 << 30)

    def compiled(name="", then="", before="", fresh=True):
        toolchain = find_toolchain()
        if name:
            taken_over = tmp_path / "bin" / name
            taken_over.parent.mkdir(exist_ok=True)
            real = getattr(toolchain, name)
            taken_over.write_text(f'#!/bin/sh\n{before}\n"{real}" "$@"; code=$?\n{then}\nexit $code\n')
            taken_over.chmod(0o755)
            readable = (*toolchain.readable, taken_over.parent)
            toolchain = dataclasses.replace(toolchain, **{name: taken_over}, readable=readable)
        if fresh:
            for entry in cache.root.rglob("*") if cache.root.exists() else ():
                if entry.is_file():
                    entry.unlink()
        return compile_source(SOURCE, Settings(), "sm_80", toolchain, sandbox, cache)

    compiled.cache = cache
    compiled.jobs = sandbox.root
    return compiled


_known_honest = {}


@pytest.fixture
def honest(kind, compile_with):
    """What an honest compiler makes of the source in this kind of sandbox; asked once."""
    if kind not in _known_honest:
        _known_honest[kind] = compile_with()
    return _known_honest[kind]


def entries_of(cache):
    return {path.relative_to(cache.root): path.read_bytes() for path in cache.root.rglob("*") if path.is_file()}


def test_a_forged_cubin_beside_honest_ptx_counts_for_nothing(compile_with, honest):
    taken = compile_with(
        "nvcc", then="echo forged > kernel.cubin; cp kernel.cubin kernel.ptxas; chmod 777 kernel.cubin"
    )
    assert taken.program is not None, taken.ruling
    assert (taken.ptx_sha256, taken.cubin_sha256) == (honest.ptx_sha256, honest.cubin_sha256)


def test_forged_ptx_beside_an_honest_cubin_counts_for_nothing(compile_with, honest):
    taken = compile_with("ptxas", then="sed -i s/honest/forged/g kernel.ptx")
    assert taken.program is not None, taken.ruling
    assert (taken.ptx_sha256, taken.cubin_sha256) == (honest.ptx_sha256, honest.cubin_sha256)
    assert "honest" in taken.program.ptx


def test_whatever_ptx_comes_back_is_what_both_backends_judge(compile_with):
    taken = compile_with("nvcc", then="sed -i s/6honest/6forged/g kernel.ptx; echo honest > kernel.cubin")
    assert taken.program is not None, taken.ruling
    assert "6forged" in taken.program.ptx
    assert b"6forged" in taken.program.cubin
    assert b"6honest" not in taken.program.cubin


def test_something_else_in_the_place_of_ptx_is_no_ptx(compile_with, honest):
    for instead in ("ln -s /etc/passwd", "mkfifo", "mkdir", "ln kernel.cu"):
        place = f"grep -q honest kernel.cu && rm -f kernel.ptx && {instead} kernel.ptx"
        taken = compile_with("nvcc", then=place)
        assert taken.program is None, instead
        assert taken.ruling is not None
        assert taken.ruling.status is not Status.PASSED
        assert "root:" not in taken.ruling.message
    assert compile_with().cubin_sha256 == honest.cubin_sha256


def test_the_cache_takes_nothing_from_a_job(compile_with):
    honest = compile_with()
    before = entries_of(compile_with.cache)
    folder = compile_with.cache.root
    poison = f"""
        for f in $(find {folder} -type f 2>/dev/null) {folder}/forged; do echo forged > $f; done 2>/dev/null
        mv -f kernel.cu {folder}/moved 2>/dev/null; rm -rf {folder} 2>/dev/null; ln -s {folder} folder 2>/dev/null
        echo forged > folder/linked 2>/dev/null; chmod 0 {folder} 2>/dev/null"""
    kept = [compile_with("nvcc", before=poison.replace("mv -f kernel.cu", "cp kernel.cu"), fresh=False)]
    kept.append(compile_with("nvcc", then=poison, fresh=True))
    assert [each.cubin_sha256 for each in kept] == [honest.cubin_sha256] * 2
    assert set(entries_of(compile_with.cache)) == set(before)
    assert not [name for name in before if b"forged" in entries_of(compile_with.cache)[name]]
    again = compile_with(fresh=False)
    assert again.cached
    assert again.cubin_sha256 == honest.cubin_sha256
    assert list(compile_with.jobs.iterdir()) == []


def test_a_daemon_of_the_compiler_is_not_there_when_the_cubin_is_made(compile_with, honest):
    watch = "setsid sh -c 'while :; do echo forged > kernel.cubin; sleep 0.01; done' > /dev/null 2>&1 < /dev/null &"
    taken = compile_with("nvcc", before=watch)
    assert taken.cubin_sha256 == honest.cubin_sha256
    assert list(compile_with.jobs.iterdir()) == []


@pytest.fixture
def toolbox_of(kind, tmp_path):
    return Toolbox(MachineSettings(tmp_path / "data", sandbox=kind))


FILES_OF_THE_HOST = [
    "includes_passwd",
    "incbin",
    "incbin_on_host",
    "embed",
    "includes_environment",
    "includes_dev_zero",
]


@pytest.mark.parametrize("name", FILES_OF_THE_HOST)
def test_a_source_reads_no_file_of_the_host(toolbox_of, name):
    head = dict(
        line[3:].split(": ", 1)
        for line in (CORPUS / f"{name}.cu").read_text().splitlines()
        if line[:3] == "// " and ": " in line
    )
    limits = {key: float(head[key]) for key in ("compile_timeout_s",) if key in head}
    source = (CORPUS / f"{name}.cu").read_text()
    verdict = evaluate(Submission(problem=head["problem"], source=source, settings=Settings(**limits)), toolbox_of)
    assert verdict.status.value in head["expect"].split("|")
    assert "root:" not in verdict.model_dump_json()


# ---- a simulated program that lies ----

LIES = {
    "garbage": "head -c 3000000 /dev/urandom; sleep 1",
    "ones": "yes | tr 'y\\n' '\\377\\377' | head -c 3000000; sleep 1",
    "a huge text": r"head -c 32 /dev/zero; printf '\377\377\377\377\377\0\0\0'; sleep 1",
    "an early answer": "head -c 65536 /dev/zero; cat > /dev/null",
    "nothing": "exec sleep 600",
    "an early end": "exit 0",
    "an early end in tears": "head -c 100 /dev/zero; kill -SEGV $$",
    "a flood": "cat /dev/zero",
    "a flood of complaints": "cat /dev/zero >&2",
    "one byte at a time": r"while :; do printf '\000'; sleep 0.01; done",
    "a closed ear": "exec <&-; sleep 2; head -c 100000 /dev/zero",
}


LATE = {"nothing", "one byte at a time", "an early answer"}


class LyingBuilds:
    """A cache whose programs are replaced by one that lies: as if a kernel had taken over its simulated run."""

    def __init__(self, cache, lie):
        self._cache, self._lie = cache, lie

    def get_or_make(self, key, make):
        made, hit = self._cache.get_or_make(key, make)
        return ({"program": f"#!/bin/sh\n{self._lie}\n".encode()}, hit) if "program" in made else (made, hit)


@pytest.fixture(scope="module")
def toolbox_of_liars(tmp_path_factory, toolbox):
    data = tmp_path_factory.mktemp("liars")
    (data / "cache").symlink_to(toolbox.cache.root)
    return Toolbox(MachineSettings(data))


@pytest.mark.parametrize("lie", LIES)
def test_a_simulated_program_that_lies_gets_no_reward_and_hangs_nobody(toolbox_of_liars, lie, monkeypatch):
    toolbox = toolbox_of_liars
    builds = toolbox.simulator.builds
    source = HONEST.read_text()
    with monkeypatch.context() as patched:
        patched.setattr(toolbox.simulator, "builds", LyingBuilds(builds, LIES[lie]))
        lying = Submission(problem="vector_add", source=source, backend="sim", settings=Settings(run_timeout_s=0.3))
        started_s = time.monotonic()
        verdict = evaluate(lying, toolbox)
    assert time.monotonic() - started_s < 40, "it held the evaluation for longer than its time"
    assert verdict.status is Status.TIMEOUT if lie in LATE else verdict.status is not Status.PASSED, verdict.message
    assert verdict.reward is None or verdict.reward.value < 0.26 * verdict.reward.maximum, (
        "no more than what compiling earns"
    )
    honest = Submission(problem="vector_add", source=source, backend="sim")
    assert evaluate(honest, toolbox).status is Status.PASSED
    assert list(toolbox.sandbox.root.iterdir()) == []
