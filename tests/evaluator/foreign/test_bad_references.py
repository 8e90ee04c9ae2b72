"""What a file may do wrong, in each form: it is refused with file and line, and the next file is right."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from evaluator.foreign import zygote
from evaluator.foreign.reference import ReferenceProcess, ReferenceRefusedError
from evaluator.pipeline.toolbox import Toolbox
from evaluator.sandbox.sandbox import Sandbox

RIGHT = (Path(__file__).parent / "references" / "relu.py").read_bytes()
FORMS = {
    "kernelbench": """import torch
class Model(torch.nn.Module):
    def forward(self, x):
        DEED
        return x * 2.0
def get_inputs():
    return [torch.randn(4, 6)]
""",
    "leetgpu": """import torch
from core.challenge_base import ChallengeBase
class Challenge(ChallengeBase):
    def reference_impl(self, x, y, n):
        DEED
        y.copy_(x * 2.0)
    def get_solve_signature(self):
        return {"x": (None, "in"), "y": (None, "out"), "n": (None, "in")}
    def generate_performance_test(self):
        n = 24
        return {"x": torch.randn(n), "y": torch.empty(n), "n": n}
""",
    "tensara": """import torch
from problem import Problem
class doubled(Problem):
    parameters = [{"name": "x", "type": "float", "pointer": True, "const": True}]
    def reference_solution(self, x):
        DEED
        return x * 2.0
    def generate_test_cases(self):
        return [{"create_inputs": lambda n=n: (torch.randn(n),)} for n in [24, 48]]
""",
    "trace": """import torch
def run(x):
    DEED
    return x * 2.0
""",
}
DEEDS = {
    "raises": ("raise ValueError('no')", "ValueError: no"),
    "exits": ("raise SystemExit(0)", "SystemExit"),
    "100 GB": ("torch.ones(25 << 30)", "takes more memory than it may"),
    "network": ("__import__('socket').create_connection(('1.1.1.1', 80), 2)", "a file of others has no network"),
    "loopback": ("__import__('socket').create_connection(('127.0.0.1', 9), 2)", "a file of others has no network"),
    "writes outside": ("open('/usr/lib/x', 'w')", "sees no files of this machine but"),
    "reads a file": ("open('weights.bin')", "sees no files of this machine but"),
    "imports": ("import einops_of_nobody", "it imports `einops_of_nobody`, which is not installed"),
    "two full stops": ("raise ValueError('This has no support.')", r"support\.(?!\.)"),
    "random": ("x = x + torch.rand(x.shape)", "draws random numbers"),
    "changes": ("torch.count = getattr(torch, 'count', 0) + 1; x = x + torch.count", "another answer with each call"),
    "patches torch": ("torch.relu = abs", "it changes torch.relu"),
    "for ever": ("while True: pass", "it takes more than 3 s to be described, and forward was not over"),
    "ends": ("__import__('os')._exit(0)", "its process ended before it could be described"),
}
ENDING = ("for ever", "ends")
WITHOUT_LINE = ("changes", "patches torch", "for ever", "ends")


def written(form: str, deed: str) -> bytes:
    text = FORMS[form].replace("DEED", deed)
    if form != "trace":
        return text.encode()
    spec = {"x": {"shape": ["n"], "dtype": "float32"}}
    axes = {"n": {"type": "const", "value": 24}}
    outputs = {"y": spec["x"]}
    return json.dumps(
        {"name": "doubled", "axes": axes, "inputs": spec, "outputs": outputs, "reference": text}
    ).encode()


@pytest.fixture(scope="module")
def sandbox(toolbox: Toolbox) -> Iterator[Sandbox]:
    yield toolbox.sandbox
    zygote.KEPT.end_all()


def described(sandbox: Sandbox, text: bytes) -> dict[str, int]:
    process = ReferenceProcess(sandbox, text, "some.file")
    try:
        return dict(process.describe({}).sizes)
    finally:
        process.close()


@pytest.mark.parametrize("form", FORMS)
def test_what_each_form_does_wrong_is_refused_and_the_next_is_right(
    form: str, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert described(sandbox, written(form, "pass")) in ({}, {"n": 24})
    for name, (deed, told) in DEEDS.items():
        if name in ENDING and form != "kernelbench":
            continue  # what happens then knows no form, and takes a new zygote each time
        monkeypatch.setattr("evaluator.foreign.reference._DESCRIBE_S", 3.0 if name == "for ever" else 60.0)
        with pytest.raises(ReferenceRefusedError, match=told) as refused:
            described(sandbox, written(form, deed))
        line = FORMS[form][: FORMS[form].index("DEED")].count("\n") + 1
        where = f"some.file: line {line} of its reference: " if form == "trace" else f"some.file:{line}: "
        assert str(refused.value).startswith("some.file: " if name in WITHOUT_LINE else where), name
        monkeypatch.setattr("evaluator.foreign.reference._DESCRIBE_S", 60.0)
        assert described(sandbox, RIGHT) == {"batch_size": 16, "dim": 1000}, name


SOLUTION = b"import torch\nclass ModelNew(torch.nn.Module):\n    pass\n"


@pytest.mark.parametrize(
    ("text", "told", "to_do"),
    [
        (SOLUTION, "it has no class `Model`, and defines `ModelNew` in line 2", "It is a solution"),
        (FORMS["kernelbench"].replace("get_inputs", "inputs").encode(), "no function `get_inputs`", "`get_inputs()`"),
        (SOLUTION.replace(b"New", b"1"), "defines `Model1`", "Name the torch.nn.Module"),
        (written("kernelbench", DEEDS["random"][0]), "draws random", "`self.eval()`"),
        (b"#" * (5 << 20), "may have 1,048,576", "State it alone"),
        (b"raise ValueError", "ValueError", "What states a problem must run"),
    ],
    ids=["solution", "inputs", "class", "random", "large", "another"],
)
def test_a_refusal_says_what_to_do(text: bytes, told: str, to_do: str, sandbox: Sandbox) -> None:
    with pytest.raises(ReferenceRefusedError, match=re.escape(told)) as refused:
        described(sandbox, text)
    assert to_do in (refused.value.remedy or "")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b"", "it has no class `Model`"),
        (b"\xff", "some.file:1: it is not text in UTF-8"),
        (b"x = (\n", "some.file:1: it is not Python"),
        (b"{", "some.file: it is not JSON"),
        (b'{"definition": 3}', "definition and workload: they are no objects"),
        (b"{" + b'"a": {' * 5000, "some.file: "),
        (b"from problem import Problem", "it has 0 classes that extend Problem"),
        (b"from core.challenge_base import ChallengeBase", "it has no class `Challenge`"),
    ],
)
def test_what_is_in_no_form_is_refused(text: bytes, told: str, sandbox: Sandbox) -> None:
    with pytest.raises(ReferenceRefusedError, match=re.escape(told)):
        described(sandbox, text)


DISGUISED = {
    "a function that says it is of torch": "f = lambda x: x; f.__module__ = 'torch'; torch.relu = f",
    "another function of torch": "torch.nn.functional.relu = torch.nn.functional.gelu",
    "a name that PyTorch replaces": "f = lambda x: x; f.__module__ = 'torch'; torch.manual_seed = f",
}


@pytest.mark.parametrize("deed", DISGUISED.values(), ids=DISGUISED)
def test_torch_is_not_changed_in_disguise(deed: str, sandbox: Sandbox) -> None:
    with pytest.raises(ReferenceRefusedError, match="it changes torch"):
        described(sandbox, written("kernelbench", deed))


COMPOSED = {
    "vmap": "x = torch.func.vmap(lambda a: a * a)(x)",
    "grad": "x = torch.func.grad(lambda a: (a**3).sum())(x)",
    "a checkpoint": "x = torch.utils.checkpoint.checkpoint(torch.tanh, x, use_reentrant=False)",
    "what is compiled": "x = torch.compile(torch.relu)(x)",
    "determinism": "torch.use_deterministic_algorithms(True)",
    "the compiler": "import torch._dynamo",
    "decompositions": "import torch._refs",
    "attention with a function": "from torch.nn.attention.flex_attention import flex_attention as f; "
    "x = f(*[x.reshape(1, 2, 3, 4)] * 3, lambda score, *_: score * 2.0).reshape(4, 6)",
    "another default type": "torch.set_default_dtype(torch.float64)",
}


@pytest.mark.parametrize("deed", COMPOSED.values(), ids=COMPOSED)
def test_what_imports_more_of_torch_is_described_and_leaves_nothing(
    deed: str, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zygote, "_MOST_FILES", 1 << 30)
    zygote.KEPT.end_all()  # those of other tests
    assert described(sandbox, written("kernelbench", deed)) == {}
    assert zygote.KEPT.idle == 1


def test_an_operator_of_the_files_own_is_described(sandbox: Sandbox) -> None:
    own = """import torch
@torch.library.custom_op("mine::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2.0
@twice.register_fake
def _(x):
    return torch.empty_like(x)
"""
    deed = "x = torch.ops.mine.twice(x)"
    assert described(sandbox, own.encode() + written("kernelbench", deed)) == {}


def test_a_file_for_a_gpu_is_carried_out_on_the_cpu(sandbox: Sandbox) -> None:
    deed = "torch.cuda.synchronize(); x = x.cuda(0) * torch.ones(6, device='cuda:0').to(torch.device('cuda'))"
    assert described(sandbox, written("kernelbench", deed)) == {}
    with pytest.raises(ReferenceRefusedError, match=r"is carried out on the CPU: 'cuda' and `\.cuda\(\)` are"):
        described(sandbox, written("kernelbench", "torch.cuda.Stream()"))


def test_what_writes_files_is_judged_and_leaves_none(sandbox: Sandbox) -> None:
    kept = "open('left', 'a').write('x'); x = x + __import__('os').path.getsize('left') * 0"
    assert described(sandbox, written("kernelbench", kept)) == {}
    there = "__import__('os').path.exists('left') and 1 / 0"
    assert described(sandbox, written("kernelbench", there)) == {}
