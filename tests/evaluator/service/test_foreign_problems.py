"""Problems that callers state, over HTTP: sent with a kernel, kept by id, refused in words, at nobody else's cost."""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from api_service import facts, served, submission
from click.testing import CliRunner
from storage_samples import empty_sqlite
from working import RIGHT, until

from common.contract import Evaluation, Phase, Reference, Status, Verdict
from evaluator.cli.console import EXIT_PASSED, EXIT_USAGE
from evaluator.cli.main import main
from evaluator.foreign import reference as reference_process
from evaluator.foreign.reference import why_no_references
from evaluator.service.workers.task import Tools, perform
from evaluator.service.workers.worker import Worker

REFERENCES = Path(__file__).parents[1] / "foreign" / "references"
RELU, RELU_KERNEL = (REFERENCES / "relu.py").read_text(), (REFERENCES / "relu.cu").read_text()
HEAD = "import torch\nfrom torch import nn\nclass Model(nn.Module):\n    def forward(self, x):\n"
TAIL = "\ndef get_inputs():\n    return [torch.rand(8)]\n"
RESPOND_ASYNC = {"Prefer": "respond-async"}


@pytest.fixture
def here(tmp_path):
    with served(empty_sqlite(tmp_path / "assay.db"), tmp_path) as service:
        yield service


def own(text=RELU, source=RELU_KERNEL, name="relu.py", **more):
    return {"source": source, "reference": {"name": name, "text": text}, **more}


def sent(http, **body):
    answer = http.post("/evaluate", json=body, headers=RESPOND_ASYNC)
    assert answer.status_code in (200, 202), answer.text
    return Evaluation.model_validate(answer.json())


def judged(here, toolbox):
    """The next evaluation, worked on as a worker does."""
    lease = here.storage.leases.claim(("compile", "sim"), "w1", 30)
    tools = Tools(here.storage.evaluations, here.storage.leases, here.storage.workers, here, ("compile", "sim"))
    perform(lease, toolbox, tools)
    stored = here.storage.evaluations.get(lease.evaluation_id, None)
    assert stored.state == "done", stored.progress
    return stored.verdict


def test_a_reference_comes_with_a_kernel_and_then_its_id_is_enough(here, toolbox):
    with here.http() as http:
        first = sent(http, **own())
        problem = first.submission.problem
        assert problem == Reference(name="relu.py", text=RELU).problem_id
        assert (first.submission.reference, first.submission.backend) == (None, "auto")
        assert http.get(f"/problems/{problem}").status_code == 404
        right = judged(here, toolbox)
        assert (right.status, right.problem) == (Status.PASSED, problem), right.message
        assert right.correctness.generalisation.passed
        report = http.get(f"/evaluations/{first.id}", headers={"Accept": "text/html"}).text
        assert "At other sizes" in report
        assert "✓ right at sizes that the problem does not state" in report
        face = http.get(f"/problems/{problem}").json()
        assert face["inputs"] == [{"name": "x", "dtype": "float32", "shape": ["batch_size", "dim"]}]
        assert http.get("/problems", params={"stated_by": "caller"}).json() == [face]
        assert problem not in http.get("/problems").text
        shown = http.get(f"/problems/{problem}", headers={"Accept": "text/html"})
        assert face["statement"].split(",")[0] in shown.text
        fixed = RELU_KERNEL.replace("batch_size * dim", "16000")
        assert sent(http, problem=problem, source=fixed, settings={"other_sizes": "required"})
        tied = judged(here, toolbox)
        assert tied.status is Status.RUNTIME_ERROR, tied.message
        assert tied.receipt.settings.other_sizes == "required"


def test_the_command_has_a_service_read_what_it_is_given(here, toolbox):
    kernel = """__global__ void add(const float* a, const float* b, float* out, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) out[i] = a[i] + b[i]; }"""
    more = ("--torch", "torch.add(a, b)", "--shape", "a=1000", "--shape", "b=1000", "--server", here.url, "--json")
    with ThreadPoolExecutor(1) as aside:
        ended = aside.submit(CliRunner().invoke, main, ("grade", "-", *more), input=kernel)
        until(lambda: here.announced)
        assert judged(here, toolbox).status is Status.PASSED
        assert ended.result().exit_code == EXIT_PASSED, ended.result().output
        assert Verdict.model_validate_json(ended.result().stdout).problem.startswith("kernelbench_torch_")
        bad = ("--torch", "torch.sum(a) * 0.0", "--shape", "a=8", "--server", here.url)
        refused = aside.submit(CliRunner().invoke, main, ("grade", "-", *bad), input=kernel)
        until(lambda: len(here.announced) == 2)
        assert judged(here, toolbox).phase is Phase.PROBLEM
        assert refused.result().exit_code == EXIT_USAGE
        assert "the expression is no problem that a verdict could say anything about" in refused.result().output


def test_the_command_sends_the_id_of_what_the_service_has(here, toolbox, tmp_path):
    with here.http() as http:
        problem = sent(http, **own()).submission.problem
        assert judged(here, toolbox).status is Status.PASSED
    kernel = tmp_path / "k.cu"
    kernel.write_text(f"// problem: {problem}\n{RELU_KERNEL}")
    with ThreadPoolExecutor(1) as aside:
        for more in (("--problem", problem), ("--other-sizes", "required")):
            announced = len(here.announced)
            asked = ("grade", str(kernel), "--server", here.url, "--json", *more)
            ended = aside.submit(CliRunner().invoke, main, asked)
            until(lambda before=announced: len(here.announced) > before)
            assert judged(here, toolbox).status is Status.PASSED
            assert ended.result().exit_code == EXIT_PASSED, ended.result().output
            assert Verdict.model_validate_json(ended.result().stdout).problem == problem
    for given in ("--shrink", "--size", "dim=3"), ("--shrink",):
        refused = CliRunner().invoke(main, ("grade", str(kernel), "--server", here.url, *given))
        assert (refused.exit_code, "cannot be used with a problem of others" in refused.output) == (EXIT_USAGE, True)


def test_over_http_an_expression_is_spoken_of_as_a_request_states_it(here):
    with here.http() as http:
        for text, told in (
            ("a + b", 'b is no tensor with a shape, such as {"b": [1024]}'),
            (
                "torch.sofmax(a, 0)",
                "torch.sofmax is none of the functions that are read: did you mean torch.softmax?",
            ),
        ):
            reference = {"kind": "torch", "text": text, "shapes": {"a": [3]}}
            said = http.post("/evaluate", json={"source": "", "reference": reference}).json()["detail"]
            assert told in said
            assert "--shape" not in said


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"{HEAD}        while True: pass{TAIL}", "bad.py: it takes more than 3 s to be described"),
        (
            f"{HEAD}        return torch.empty(100 << 30){TAIL}",
            "bad.py: its outputs take 429,496,729,600 bytes, and may take",
        ),
        (
            f"{HEAD}        import socket; socket.create_connection(('1.1.1.1', 80)){TAIL}",
            "bad.py:5: forward fails: OSError",
        ),
    ],
    ids=["takes for ever", "400 GiB", "network"],
)
def test_what_can_be_no_problem_is_refused_once_and_the_next_job_is_right(text, told, here, toolbox, monkeypatch):
    monkeypatch.setattr(reference_process, "_DESCRIBE_S", 3.0 if "while" in text else 60.0)
    with here.http() as http:
        problem = sent(http, **own(text + f"\n# {time.time_ns()}", name="bad.py")).submission.problem
        refused = judged(here, toolbox)
        assert (refused.status, refused.phase, refused.reward) == (Status.UNSUPPORTED, Phase.PROBLEM, None)
        assert refused.message.startswith(told)
        said = http.get(f"/problems/{problem}")
        assert (said.status_code, said.json()["detail"]) == (422, refused.message)
        wanted = "State it with smaller sizes" if "100 << 30" in text else "What states a problem must run with"
        assert said.json()["remedy"].startswith(wanted)
        assert refused.hint.startswith(wanted)
        sent(http, problem=problem, source=f"// another\n{RELU_KERNEL}")
        begun_s = time.monotonic()
        assert judged(here, toolbox).message == refused.message
        assert time.monotonic() - begun_s < 1.5  # nothing was run
        sent(http, problem="relu", source=RIGHT, settings={"verification": "quick"})
        assert judged(here, toolbox).status is Status.PASSED


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (own("#" * (5 << 20)), "reference.text is longer than 524288 characters"),
        (own("x\0"), "relu.py:1: a NUL is in its text."),
        (own(problem="relu"), "problem and reference each say what to grade for"),
        (own(settings={"sizes": {"dim": 3}}), "settings.sizes is given, which is not possible"),
        (own(settings={"shrink_s": 3}), "settings.shrink_s is above 0, which is not possible"),
        ({"source": "", "reference": {"kind": "torch", "text": "open('a')", "shapes": {"a": [3]}}}, "open is none"),
        ({"source": "", "reference": {"kind": "torch", "text": "a", "shapes": {"a": [0]}}}, "The tensor 'a' cannot"),
        ({"source": "", "reference": {"kind": "torch", "text": "a"}}, "needs the shapes of its tensors"),
        (submission(problem="kernelbench_relu_0123456789"), "There is no problem 'kernelbench_relu_0123456789' here"),
    ],
)
def test_what_is_plainly_wrong_is_refused_before_anyone_works_on_it(body, told, here):
    with here.http() as http:
        answer = http.post("/evaluate", json=body)
        assert answer.status_code == 422
        assert told in answer.json()["detail"]
    assert here.storage.leases.claim(("compile",), "w1", 30) is None


def test_problems_are_kept_for_each_caller_as_many_as_may_be(tmp_path):
    with served(empty_sqlite(tmp_path / "assay.db"), tmp_path, most_references=2) as here, here.http() as http:
        first = sent(http, **own("# 1")).submission.problem
        sent(http, **own("# 2"))
        full = http.post("/evaluate", json=own("# 3"), headers=RESPOND_ASYNC)
        assert (full.status_code, "Retry-After" in full.headers) == (429, True)
        here.work()
        sent(http, **own("# 3"))  # nobody waits for the first any more
        gone = http.post("/evaluate", json={"problem": first, "source": "x"})
        assert "send its text" in gone.json()["remedy"].lower()
        assert here.storage.foreign.get(first, None) is None
    with served(empty_sqlite(tmp_path / "none.db"), tmp_path, most_references=0) as here, here.http() as http:
        refused = http.post("/evaluate", json=own())
        assert (refused.status_code, refused.json()["type"]) == (501, "urn:assay:problem:no-references")
        assert "ASSAY_MOST_REFERENCES is 0" in refused.json()["detail"]


def test_a_service_that_cannot_carry_out_references_says_so_at_the_door(here):
    docker = str(why_no_references(InAnImage()))
    here.storage.workers.register(facts(id="w1", no_references=docker))
    here.storage.workers.register(facts(id="w2", queues=("compile",)))
    with here.http() as http:
        for body in (own(), own("# another")):
            refused = http.post("/evaluate", json=body)
            assert (refused.status_code, refused.json()["type"]) == (501, "urn:assay:problem:no-references")
            assert docker in refused.json()["detail"]
            assert "ASSAY_SANDBOX=bubblewrap" in refused.json()["remedy"]
        assert here.storage.leases.claim(("compile",), "w1", 30) is None
        assert http.post("/evaluate", json=submission(), headers=RESPOND_ASYNC).status_code == 202
    with here.http() as http:
        here.storage.workers.register(facts(id="w3"))  # one that can
        until(lambda: http.post("/evaluate", json=own(), headers=RESPOND_ASYNC).status_code == 202)


def test_a_worker_that_cannot_carry_out_references_leaves_them_to_others(here, toolbox):
    queues = ("compile", "sim")
    tools = Tools(here.storage.evaluations, here.storage.leases, here.storage.workers, here, queues, references=False)
    with here.http() as http:
        stated = sent(http, **own())
        lease = here.storage.leases.claim(queues, "without", 30, references=False)
        assert (lease.evaluation_id, lease.stage) == (stated.id, "compile")
        perform(lease, toolbox, tools)
        assert here.storage.evaluations.get(stated.id, None).state == "queued"
        assert here.storage.leases.claim(queues, "without", 30, references=False) is None
        # What comes later and states no problem does not wait for it.
        plain = sent(http, **submission())
        assert here.storage.leases.claim(queues, "without", 30, references=False).evaluation_id == plain.id
        assert judged(here, toolbox).status is Status.PASSED
        assert here.storage.evaluations.get(stated.id, None).state == "done"


def test_a_worker_knows_whether_it_can(here, toolbox, monkeypatch):
    def made():
        store = here.storage
        return Worker(store.evaluations, store.leases, store.workers, toolbox, here, ("compile", "sim"))

    with here.http() as http:
        stated = sent(http, **own())
        monkeypatch.setattr("evaluator.service.workers.worker.why_no_references", lambda sandbox: "no PyTorch")
        without = made()
        assert without.take()
        assert not without.take()
        monkeypatch.undo()
        assert made().take()
        verdict = here.storage.evaluations.get(stated.id, None).verdict
        assert verdict.status is Status.PASSED, verdict.message


def test_what_asks_for_a_gpu_is_refused_or_passed_on_by_who_has_one(here, toolbox):
    docker = str(why_no_references(InAnImage()))
    here.storage.workers.register(facts(id="w2"))
    here.storage.workers.register(facts(id="w3", queues=("gpu",), backend="gpu", no_references=docker))
    with here.http() as http:
        for backend in ("gpu", "auto"):
            refused = http.post("/evaluate", json=own(backend=backend))
            assert (refused.status_code, refused.json()["type"]) == (501, "urn:assay:problem:no-references")
        here.storage.workers.register(facts(id="w4", queues=("gpu",), backend="gpu"))
        until(lambda: http.post("/evaluate", json=own(backend="gpu"), headers=RESPOND_ASYNC).status_code == 202)
        sent(http, **own(f"{RELU}# another", backend="auto"))
    for _ in range(2):
        lease = here.storage.leases.claim(("compile", "sim"), "w2", 30)
        perform(lease, toolbox, Tools(*_repositories(here), here, ("compile", "sim")))
        assert here.storage.evaluations.get(lease.evaluation_id, None).state == "queued"
    taken = here.storage.leases.claim(("gpu",), "w4", 30)
    assert (taken.stage, taken.queue, taken.foreign.name) == ("judge", "gpu", "relu.py")


def _repositories(here):
    return here.storage.evaluations, here.storage.leases, here.storage.workers


class InAnImage:
    """What is asked of a sandbox to know that it is Docker's."""

    image_id = "sha256:0"


def test_nobody_sees_or_uses_the_problems_of_another(tmp_path):
    with served(empty_sqlite(tmp_path / "assay.db"), tmp_path, require_keys=True) as here:
        (_, mine), (_, theirs) = (here.storage.keys.create(name) for name in ("mine", "theirs"))
        with here.http(headers={"Authorization": f"Bearer {mine}"}) as http:
            problem = sent(http, **own()).submission.problem
        with here.http(headers={"Authorization": f"Bearer {theirs}"}) as http:
            assert http.get(f"/problems/{problem}").json()["detail"].startswith("You have sent no problem")
            assert http.post("/evaluate", json={"problem": problem, "source": "x"}).status_code == 422
