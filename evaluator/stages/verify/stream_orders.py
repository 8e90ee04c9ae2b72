"""What host code launched on several streams, in the other orders in which a GPU may run it.

A plan runs its steps one after another, as they were issued. Where nothing orders two of them that use the same
memory, a GPU may begin with either, or run both at once; every order must give the right answer.
"""

from dataclasses import replace

from common.contract import Status
from evaluator.errors import Ruling
from evaluator.stages.launch.checked_plan import SizedPlan
from evaluator.stages.verify.examination import POISON, Examination
from evaluator.stages.verify.findings.race_checks import sentence
from evaluator.stages.verify.trials import PlannedTrial
from evaluator.stages.verify.weak_memory import is_ours

_HINT = (
    "Let the stream that needs the result wait for it: cudaEventRecord(event, first) and cudaStreamWaitEvent(second, "
    "event), or launch both on one stream."
)


def in_other_orders(examination: Examination, trial: PlannedTrial, sized_plan: SizedPlan) -> Ruling | None:
    """A trial that was right in the usual order, on the same inputs in each other order of the plan."""
    for order in sized_plan.orders:
        turned = replace(sized_plan, steps=tuple(sized_plan.steps[step] for step in order.steps), orders=())
        outcome = examination.execute(turned, examination.inputs, POISON)
        if is_ours(outcome.fault):
            assert outcome.fault is not None
            told = f"not judged with streams in another order: {sentence(outcome.fault, 0)}"
            examination.warnings[told] = None
            return None
        if examination.is_right(outcome, trial, turned, examination.inputs):
            continue
        examination.trials.pop()  # as it passed
        ruling = examination.intact(outcome, trial, examination.inputs)
        if ruling is None:
            ruling = examination.judge(trial, examination.inputs, turned.tensors(outcome.contents))
        if ruling is not None:
            message = f"On a GPU {order.said}. So run, the answer is wrong. {ruling.message}"
            return replace(ruling, status=Status.INCORRECT, message=message, hint=_HINT)
    return None
