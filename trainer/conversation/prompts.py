"""All that is said to the agents; tasks have their words in `trainer.data.tasks`, reports in
`trainer.conversation.tester`.

An agent's first messages are a system text and the task; later ones say what has happened since. Every text has a
budget in tokens, which `tests/trainer/conversation/test_prompts.py` names and checks.
"""

from typing import Final, Literal

from trainer.conversation.conversation import AgentName, Attempt, Conversation, Message
from trainer.conversation.extraction import wrapped
from trainer.data.tasks import Task

Wording = Literal["full", "brief"]

_RULES: Final = """\
The grader compiles one CUDA source file (nvcc, C++17) and launches its kernels itself; host code is never run.
Say what to launch in comment lines of the file:
// assay: launch NAME grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)
Extents are integer expressions over the problem's sizes with + - * // % ceil_div min max. Also known: \
`shared=BYTES`, `// assay: temp NAME float32 (n)` for scratch memory, `// assay: fill NAME value=0`. A single kernel \
without such a line gets one thread for each element of the largest output, in blocks of 256; parameters that are \
named as in the problem are bound by name.
Tensors are contiguous and row-major. Outputs hold nothing defined at the start, inputs must stay as they are, and \
the kernel is tried at sizes that you have not seen.
Answer with the whole file in one block that starts with ```cuda and ends with ```."""

_SYSTEM: Final[dict[tuple[str, str], str]] = {
    (AgentName.GENERATOR, "full"): (
        "You write CUDA kernels that are right first and fast second. Guard every access for sizes that are no "
        f"multiple of the block.\n\n{_RULES}"
    ),
    (AgentName.OPTIMIZER, "full"): (
        "You make CUDA kernels faster, and fix those that are wrong. You are given a task, a kernel, and a tester's "
        "report about it. Fix what is wrong first; then remove what costs most time, and keep the rest as it "
        f"is. The same kernel again earns nothing.\n\n{_RULES}"
    ),
    (AgentName.GENERATOR, "brief"): "Write a CUDA kernel. Answer with one ```cuda block.",
    (AgentName.OPTIMIZER, "brief"): "Improve the CUDA kernel. Answer with one ```cuda block.",
}

_REVIEWER: Final = (
    "You review CUDA kernels. You are given a task, a kernel, and what the grader found out about it. Say in at most "
    "four short sentences what to change, where, and why, for the engineer who writes the next kernel. Write no "
    "kernel yourself, and claim nothing that the grader's findings and the code do not show."
)

_REQUESTS: Final[dict[tuple[str, str], str]] = {
    ("absent", "full"): "Write the whole kernel, in the form that was asked for.",
    ("wrong", "full"): "Fix this first. Write the whole file again, changed.",
    ("right", "full"): "Make it faster, and keep it right. Write the whole file again, changed.",
    ("unjudged", "full"): "The grader cannot run this. Do it in another way, and write the whole file again.",
    ("absent", "brief"): "Write the kernel.",
    ("wrong", "brief"): "Fix it.",
    ("right", "brief"): "Make it faster.",
    ("unjudged", "brief"): "Do it in another way.",
}
_THE_OTHERS: Final = {"full": "The kernel so far:", "brief": "Kernel:"}
_NO_KERNEL: Final = {"full": "There is no kernel yet: the last answer held none.", "brief": "No kernel yet."}
_REPORT: Final = {"full": "The tester's report:", "brief": "Report:"}
_BEST: Final = {
    "full": "Your attempt {number} is still the best; you may go on from there.",
    "brief": "Attempt {number} is still the best.",
}


def opening(agent: AgentName, task: Task, wording: Wording = "full") -> tuple[Message, ...]:
    """What is said to an agent that begins a conversation: a system message, and the task."""
    return (Message("system", _SYSTEM[agent, wording]), Message("user", task.text))


def due(conversation: Conversation, wording: Wording = "full") -> tuple[Message, ...]:
    """What is newly said to the agent whose turn it is. Raises ValueError where no kernel is due."""
    agent = conversation.next_agent
    if agent is None or agent is AgentName.TESTER:
        raise ValueError("no agent is to be asked for a kernel now")
    if not conversation.attempts:
        return opening(agent, conversation.task, wording)
    last = conversation.attempts[-1]
    mine = [attempt for attempt in conversation.attempts if attempt.written.agent is agent]
    said: list[str] = []
    if last.written.agent is not agent:
        said += [_THE_OTHERS[wording], wrapped(last.written.source)] if last.written.source else [_NO_KERNEL[wording]]
    if last.tested is not None and last.tested.report:
        said.append(f"{_REPORT[wording]}\n{last.tested.report}")
    best = conversation.best
    if best is not None and best.number < last.number and best.written.agent is agent:
        said.append(_BEST[wording].format(number=1 + [one.number for one in mine].index(best.number)))
    said.append(_REQUESTS[_state(last), wording])
    text = "\n\n".join(said) if wording == "full" else "\n".join(said)
    if mine:
        return (Message("user", text),)
    system, asked = opening(agent, conversation.task, wording)
    return (system, Message("user", f"{asked.text}\n\n{text}"))


def review(conversation: Conversation, findings: str) -> tuple[Message, ...]:
    """What is newly said to a Tester that is a model. `findings`: the report by the rules about the last kernel."""
    last = conversation.attempts[-1]
    shown = wrapped(last.written.source) if last.written.source else "The answer held no kernel."
    text = f"{shown}\n\nThe grader found:\n{findings}"
    if any(attempt.tested is not None and attempt.tested.response is not None for attempt in conversation.attempts):
        return (Message("user", text),)
    return (Message("system", _REVIEWER), Message("user", f"{conversation.task.text}\n\n{text}"))


def _state(attempt: Attempt) -> str:
    if attempt.written.source is None:
        return "absent"
    if attempt.passed:
        return "right"
    return "wrong" if attempt.reward is not None else "unjudged"
