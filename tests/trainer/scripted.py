"""Policies and an oracle that follow a script, and what to draw scripts from."""

import asyncio
from dataclasses import dataclass, field, replace

import sample_verdicts as samples
from hypothesis import strategies as st

from common.contract import Settings, Status, Submission
from trainer.conversation.conversation import AgentName, Conversation, Message, Response
from trainer.conversation.episode import EpisodeSettings, Judged, play
from trainer.conversation.extraction import wrapped
from trainer.data.tasks import Task

TASK = Task("row_sum-1", "row_sum", 1, "Write a CUDA kernel that sums each row.", held_out=False)


def kernel(name: str) -> str:
    return f"__global__ void {name}(const float* x, float* y, int rows, int cols)\n{{\n    y[0] = x[0];\n}}\n"


def tokens(text: str) -> tuple[int, ...]:
    """One token a byte."""
    return tuple(text.encode("utf-8", "replace"))


@dataclass
class Script:
    """A policy that gives its answers in turn, the last one over and over. Its tokens are bytes."""

    answers: list[str]
    seeds: list[int] = field(default_factory=list)
    views: list[tuple[Message, ...]] = field(default_factory=list)

    async def respond(self, messages, *, seed, max_tokens):
        await asyncio.sleep(0)
        self.seeds.append(seed)
        self.views.append(messages)
        said = [message for message in messages if message.role == "assistant"]
        text = self.answers[min(len(said), len(self.answers) - 1)]
        before, new = (), messages
        if said:
            last = said[-1].response
            before = last.prompt_token_ids + last.token_ids
            new = messages[messages.index(said[-1]) + 1 :]
        whole = tokens(text)
        made = whole[:max_tokens]
        prompt = before + tuple(token for message in new for token in tokens(message.text))
        cut = len(made) < len(whole)
        said_now = bytes(made).decode(errors="replace") if cut else text
        return Response(said_now, prompt, made, tuple(-0.25 for _ in made), cut=cut)


KINDS = {
    "pass": samples.passed,
    "fast": samples.passed_on_gpu,
    "wrong": samples.incorrect,
    "compile": samples.compile_error,
    "fault": samples.runtime_error,
    "timeout": samples.timeout,
    "cheat": samples.rejected,
    "odd": lambda: samples.verdict(
        Status.UNSUPPORTED, "launch", "wgmma is not simulated.", hint="Use mma.", compile=None
    ),
}


@dataclass
class Judge:
    """An oracle that judges a kernel by a word in its name."""

    sources: list[str] = field(default_factory=list)

    async def evaluate(self, submission):
        await asyncio.sleep(0)
        self.sources.append(submission.source)
        kind = next(kind for kind in KINDS if f"{kind}_" in submission.source)
        return Judged(KINDS[kind](), f"ev_{len(self.sources)}")


def played(answers, *, settings=None, seed=7, oracle=None, task=TASK):
    """A conversation in which both agents read from one list of answers, in turn."""
    settings = settings or EpisodeSettings(turn_tokens=10_000)
    first = Script(answers[:1]) if not settings.flow.single_agent else Script(answers)
    policies = {AgentName.GENERATOR: first, AgentName.OPTIMIZER: Script(answers[1:] or answers)}
    return asyncio.run(play(task, policies, oracle or Judge(), settings, seed, clock=lambda: 5.0))


def grading() -> Settings:
    return samples.SETTINGS


NAMES = st.tuples(st.sampled_from(sorted(KINDS)), st.integers(0, 2)).map(lambda pair: f"{pair[0]}_{pair[1]}")
GARBAGE = st.sampled_from(
    ["", "   \n", "I cannot do that.", "```cuda\nno end", "```cpp\nint x;\n```", "<think>for ever", "\x00\ud800 €"]
)
ANSWERS = st.lists(
    st.one_of(
        NAMES.map(lambda name: wrapped(kernel(name))),
        NAMES.map(lambda name: "Here it is:\n" + wrapped("// again\n" + kernel(name).replace("    ", "\t"))),
        GARBAGE,
    ),
    min_size=1,
    max_size=7,
)


@dataclass(frozen=True)
class Recording:
    """A recorded conversation in the place of policies and evaluator, for `trainer.conversation.episode.play`."""

    conversation: Conversation

    async def respond(self, messages: tuple[Message, ...], *, seed: int, max_tokens: int) -> Response:
        """The recorded answer to this view. Raises LookupError for one that was never given."""
        for turn in self.conversation.turns:
            if turn.response is None:
                continue
            if (*self._before(turn.index, turn.agent), *turn.messages) == messages:
                return turn.response
        raise LookupError(f"Conversation {self.conversation.id} has no answer to what is asked now.")

    async def evaluate(self, submission: Submission) -> Judged:
        """The recorded verdict about this source. Raises LookupError for one that was never graded."""
        for attempt in self.conversation.attempts:
            if attempt.written.source == submission.source and attempt.tested and attempt.tested.verdict:
                return Judged(attempt.tested.verdict, attempt.tested.evaluation_id)
        raise LookupError(f"Conversation {self.conversation.id} has no verdict about this kernel.")

    def _before(self, index: int, agent: AgentName) -> tuple[Message, ...]:
        return replace(self.conversation, turns=self.conversation.turns[:index], stopped=None).view(agent)


def without_times(conversation: Conversation) -> Conversation:
    """The conversation as it is on every machine: what a clock has said left out."""
    turns = tuple(replace(turn, started_s=0.0, duration_s=0.0, oracle_s=0.0) for turn in conversation.turns)
    return replace(conversation, turns=turns)
