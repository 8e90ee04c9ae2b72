"""A judge that knows the templated kernels by heart, for tests of what is made of graded kernels."""

import asyncio
from dataclasses import dataclass, field
from functools import cache

import sample_verdicts as samples

from common.contract import Status
from trainer.conversation.episode import Judged
from trainer.data import corpus
from trainer.data.graded import GradedData, GradedKernel, Provenance
from trainer.data.operations import OPERATIONS
from trainer.tuning.collection import fingerprint_of

KNOWN = {(one.problem, fingerprint_of(one.source)): one for one in corpus.everything()}
NAMES = {one.reference.problem_id: name for name, one in OPERATIONS.items()}
"""Names of operations, by the ids that the evaluator knows them by."""
OF_STATUS = {
    Status.PASSED: samples.passed,
    Status.INCORRECT: samples.incorrect,
    Status.COMPILE_ERROR: samples.compile_error,
    Status.RUNTIME_ERROR: samples.runtime_error,
    Status.INVALID_SUBMISSION: lambda: samples.verdict(
        Status.INVALID_SUBMISSION, "launch", "There is no such kernel.", compile=samples.compilation()
    ),
    Status.UNSUPPORTED: lambda: samples.verdict(Status.UNSUPPORTED, "launch", "wgmma is not simulated."),
}


def verdict_of(status, speedup=None):
    """A sample verdict; `speedup`: as estimated, of a right kernel."""
    found = OF_STATUS[status]()
    if speedup is None:
        return found
    return found.model_copy(update={"profile": found.profile.model_copy(update={"estimated_speedup": speedup})})


@cache
def of_operation(name):
    """The templates of an operation, by fingerprint."""
    found = {}
    for style in OPERATIONS[name].family.styles if name in OPERATIONS else ():
        for flaw in (None, *corpus.flaws(style)):
            one = corpus.render_prompt(style, flaw)
            found[fingerprint_of(one.source)] = one
    return found


def judged(problem, source):
    """What the templates say of a source: later styles are faster; what is no template does not compile."""
    same = fingerprint_of(source)
    one = KNOWN.get((problem, same)) or of_operation(problem).get(same)
    if one is None:
        return verdict_of(Status.COMPILE_ERROR)
    if one.status is not Status.PASSED:
        return verdict_of(one.status)
    ladder = OPERATIONS[problem].family.styles if problem in OPERATIONS else corpus.styles(problem)
    return verdict_of(Status.PASSED, 1.0 + [style.name for style in ladder].index(one.style))


def graded_kernel(problem, source, status=Status.PASSED, speedup=None, origin="template"):
    verdict = verdict_of(status, speedup)
    return GradedKernel(problem, source, fingerprint_of(source), Provenance(origin, "here"), verdict, "ev_1")


def graded_templates(*problems, held_out=()):
    """The data set that the templates of these problems make."""
    kernels = [
        GradedKernel(
            one.problem,
            one.source,
            fingerprint_of(one.source),
            Provenance.of_template(one.style, one.flaw),
            judged(one.problem, one.source),
        )
        for one in corpus.everything(problems)
    ]
    return GradedData(tuple(kernels), frozenset(held_out))


@dataclass
class TemplateJudge:
    """An oracle that judges by `judged`; `faces` are the problems that it has."""

    faces: tuple = ()
    asked: list = field(default_factory=list)
    otherwise: dict = field(default_factory=dict)
    """Verdicts, or exceptions, of sources that are judged otherwise."""
    versions: str = "1"
    """What it says of its version."""

    async def evaluate(self, submission):
        await asyncio.sleep(0)
        self.asked.append(submission.source)
        problem = NAMES.get(submission.problem, submission.problem)
        found = self.otherwise.get(submission.source) or judged(problem, submission.source)
        if isinstance(found, Exception):
            raise found
        return Judged(found, f"ev_{len(self.asked)}")

    async def problems(self):
        return self.faces

    async def version(self):
        return self.versions

    async def wait_until_ready(self, tell=print):
        """It always is."""

    async def __aenter__(self):
        return self

    async def __aexit__(self, *error):
        """Nothing to close."""
