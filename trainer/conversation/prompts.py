"""All that is said to the agents; tasks have their words in `trainer.data.tasks`, reports in
`trainer.conversation.tester`.

An agent's first messages are a system text and the task; later ones say what has happened since. Every text has a
budget in tokens, which `tests/trainer/conversation/test_prompts.py` names and checks.

Who improves a kernel is told the target speedup (requirements document, "CUDA Optimizer Agent" and "Optimizer Agent
SFT"), what has been tried, and what failed before the last kernel (critique, section 2), in `NOTES_TOKENS` at most.
"""

from typing import Final, Literal

from trainer.conversation.conversation import AgentName, Attempt, Conversation, Message
from trainer.conversation.extraction import wrapped
from trainer.conversation.tester import estimated_tokens, shortened
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
    (AgentName.TESTER, "full"): (
        "You find out what is wrong with CUDA kernels, and what makes right ones slow. You are given a task, a "
        "kernel, and what the grader found. Name first, in a few words, what is wrong with the code or what costs "
        "most time. Then say in at most three short sentences which line to change, and how. Write no whole kernel."
    ),
    (AgentName.GENERATOR, "brief"): "Write a CUDA kernel. Answer with one ```cuda block.",
    (AgentName.OPTIMIZER, "brief"): "Improve the CUDA kernel. Answer with one ```cuda block.",
    (AgentName.TESTER, "brief"): "Name what is wrong with the CUDA kernel, and the line to change.",
}

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
_FOUND: Final = {"full": "The grader found:", "brief": "Found:"}
_BEST: Final = {
    "full": "Your attempt {number} is still the best; you may go on from there.",
    "brief": "Attempt {number} is still the best.",
}
_TARGET: Final = {"full": "Target: a speedup of {target:.3g}{reached}.", "brief": "Target: {target:.3g}x."}
_REACHED: Final = ", of which {best:.3g} is reached"
_TRIED: Final = {"full": "Tried so far: {names}.", "brief": "Tried: {names}."}
_FAILED: Final = {"full": "Kernel {number} failed, {said}", "brief": "Kernel {number}: {said}"}
NOTES_TOKENS: Final = {"full": 120, "brief": 40}
"""Most tokens of target, strategies and failures, by `estimated_tokens`: a quarter of what a later turn may say by
default, and of a brief one no more than its report."""
_BETWEEN_TOKENS: Final = 2
"""The empty line between two parts of a text."""
_LEAST_TOKENS: Final = 8
"""Less says nothing."""
_FAILURE_CHARACTERS: Final = 80
"""Of one failure's message: twenty to forty tokens, so that two or three fit."""


def opening(agent: AgentName, task: Task, wording: Wording = "full") -> tuple[Message, ...]:
    """What is said to an agent that begins a conversation: a system message, and the task."""
    return (Message("system", _SYSTEM[agent, wording]), Message("user", task.text))


def due(
    conversation: Conversation,
    wording: Wording = "full",
    *,
    target_speedup: float | None = None,
    update_tokens: int = 512,
) -> tuple[Message, ...]:
    """What is newly said to the agent whose turn it is. Raises ValueError where no kernel is due.

    `target_speedup`: what the reward counts in full, for who improves a kernel. `update_tokens`: most that is said of
    what has happened since, by `estimated_tokens`; the task and another's kernel do not count. Where there is more,
    the notes are cut first, then the report.
    """
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
    best = conversation.best
    asked_for = [_REQUESTS[_state(last), wording]]
    if best is not None and best.number < last.number and best.written.agent is agent:
        asked_for.insert(0, _BEST[wording].format(number=1 + [one.number for one in mine].index(best.number)))
    left = update_tokens - estimated_tokens("\n\n".join(asked_for)) - _BETWEEN_TOKENS
    report = last.tested.report if last.tested is not None else None
    if report := _within(report or "", left - estimated_tokens(_REPORT[wording]) - 1):
        said.append(f"{_REPORT[wording]}\n{report}")
        left -= estimated_tokens(said[-1]) + _BETWEEN_TOKENS
    if notes := _notes(conversation, wording, target_speedup, left):
        said.append(notes)
    said += asked_for
    text = "\n\n".join(said) if wording == "full" else "\n".join(said)
    if mine:
        return (Message("user", text),)
    system, asked = opening(agent, conversation.task, wording)
    return (system, Message("user", f"{asked.text}\n\n{text}"))


def _notes(conversation: Conversation, wording: Wording, target: float | None, left: int) -> str:
    """Target, strategies tried and failures before the last kernel, which has its report, newest first."""
    lines = []
    if target is not None:
        best = conversation.best_speedup
        reached = _REACHED.format(best=best) if best is not None else ""
        lines.append(_TARGET[wording].format(target=target, reached=reached))
    if tried := conversation.strategies_tried:
        lines.append(_TRIED[wording].format(names=", ".join(tried)))
    last = conversation.attempts[-1].number
    for failure in reversed(conversation.failures):
        if failure.number < last:
            message = failure.message.split("\n")[0]
            message = message if len(message) <= _FAILURE_CHARACTERS else f"{message[: _FAILURE_CHARACTERS - 2]} …"
            said = f"{failure.status or 'no kernel'}: {message}"
            lines.append(_FAILED[wording].format(number=failure.number + 1, said=said))
    return _within("\n".join(lines), min(NOTES_TOKENS[wording], left))


def _within(text: str, tokens: int) -> str:
    """The text where it fits, as it is; its first lines where it does not; nothing where there is no room at all."""
    if estimated_tokens(text) <= tokens:
        return text
    return shortened(text.split("\n"), tokens) if tokens >= _LEAST_TOKENS else ""


def review(task: Task, source: str, findings: str, wording: Wording = "full") -> tuple[Message, ...]:
    """All that is said to a Tester that is a model about one kernel: each is asked about anew, whatever was said of
    those before, so that a review is never longer than a task, a kernel and a report. `findings`: what the rules say.
    """
    system, asked = opening(AgentName.TESTER, task, wording)
    text = "\n\n".join([asked.text, wrapped(source), f"{_FOUND[wording]}\n{findings}"])
    return (system, Message("user", text))


def _state(attempt: Attempt) -> str:
    if attempt.written.source is None:
        return "absent"
    if attempt.passed:
        return "right"
    return "wrong" if attempt.reward is not None else "unjudged"
