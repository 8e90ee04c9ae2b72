"""Data sets filled: from templates and transcripts, judged, resumed, and never on anybody's word."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import sample_verdicts as samples
from full_disk import no_file_beyond
from graded_kernels import TemplateJudge, verdict_of
from scripted import TASK, played

from common.client import AsyncClient
from common.contract import Settings, Status
from trainer.conversation.episode import EpisodeSettings
from trainer.conversation.extraction import wrapped
from trainer.conversation.rewards import CreditSettings
from trainer.data import corpus, graded
from trainer.data.operations import chosen_operations
from trainer.errors import ConfigurationError, OracleError, OracleLostError
from trainer.evaluator.oracle import EvaluatorOracle
from trainer.reporting.transcripts import transcript, write_transcripts
from trainer.tuning import collection
from trainer.tuning.collection import UngradedKernel, collect, fingerprint_of

GRADING = EpisodeSettings(grading=Settings(verification="quick"))
FULL = samples.verdict(Status.OUT_OF_MEMORY, "verify", "The sandbox is full.", compile=samples.compilation())
PROVENANCE = graded.Provenance("rollout", "by hand")


def collected(candidates, into, judge=None, settings=GRADING, held_out=frozenset({"relu"}), **more):
    oracle = judge or TemplateJudge()
    return asyncio.run(
        collect(candidates, into, oracle, settings, held_out_problems=held_out, tell=lambda _: None, **more)
    )


def test_kernels_have_the_verdict_of_a_real_service_and_one_that_ends_otherwise_is_not_kept(service, tmp_path):
    style = corpus.styles("relu")[0]
    right, wrong = corpus.render_prompt(style), corpus.render_prompt(style, style.flaws[0])
    candidates = [
        UngradedKernel("relu", right.source, PROVENANCE, Status.PASSED),
        UngradedKernel("relu", wrong.source, PROVENANCE),
        UngradedKernel("relu", right.source.replace("0.0f", "1.0f"), PROVENANCE, Status.PASSED),
    ]

    async def act():
        async with EvaluatorOracle(AsyncClient(service.url)) as oracle:
            assert re.fullmatch(r"[\d.]+, contract [\d.]+", await oracle.version())
            return await collect(candidates, tmp_path, oracle, GRADING, held_out_problems=frozenset())

    card = asyncio.run(act())
    assert card.rejected == {"said to end as passed, ended as incorrect": 1}
    kept = {one.source: one for one in graded.read_data(tmp_path).kernels}
    assert kept[right.source].passed
    assert kept[right.source].speedup is not None
    assert kept[wrong.source].verdict.status is wrong.status
    assert all(one.evaluation_id for one in kept.values())


def test_all_templates_are_graded_and_no_problem_is_on_both_sides(tmp_path):
    judge = TemplateJudge()
    card = collected(collection.template_candidates(("relu", "gelu", "softmax")), tmp_path, judge)
    data = graded.read_data(tmp_path)
    assert card.kernels == len(judge.asked) == len(list(corpus.everything(("relu", "gelu", "softmax"))))
    assert {one.problem for one in data.held_out} == {"relu"}
    assert {one.problem for one in data.training} == {"gelu", "softmax"}
    assert {one.provenance.place for one in data.training} >= {"a warp a row", "a warp a row: not divided"}


def test_what_a_stopped_collection_has_graded_is_not_graded_again(tmp_path):
    every = list(collection.template_candidates(("relu", "gelu")))
    lost = TemplateJudge(otherwise={every[9].source: OracleLostError("gone")})
    with pytest.raises(OracleLostError):
        collected(every, tmp_path, lost)
    kept = len(graded.read_data(tmp_path).kernels)
    assert 0 < kept < len(every)
    judge = TemplateJudge()
    card = collected(every, tmp_path, judge)
    assert (card.kernels, card.duplicates, len(judge.asked)) == (len(every), kept, len(every) - kept)
    assert collected(every, tmp_path).evaluations == 0


def test_a_collection_that_was_killed_leaves_lines_that_count(tmp_path):
    one, two = list(collection.template_candidates(("relu",)))[:2]
    collected([one], tmp_path)
    path = tmp_path / graded.KERNELS
    (kernel,) = graded.read_kernels(path)
    second = replace(kernel, source=two.source, fingerprint=fingerprint_of(two.source))
    # A whole line that no card has counted, and one whose writing was interrupted.
    path.write_bytes(graded.kernel_line(kernel) + graded.kernel_line(second) + graded.kernel_line(kernel)[:99])
    judge = TemplateJudge()
    card = collected([one, two], tmp_path, judge)
    assert (card.kernels, card.duplicates, judge.asked) == (2, 2, [])
    assert graded.read_data(tmp_path).kernels == graded.read_kernels(path)
    assert len(path.read_bytes().splitlines()) == 2


def test_a_disk_that_is_full_in_the_middle_of_a_line_leaves_whole_lines(tmp_path):
    every, path = list(collection.template_candidates(("relu", "gelu"))), tmp_path / graded.KERNELS
    collected(every[:2], tmp_path)
    before = path.read_bytes()
    with no_file_beyond(len(before) + 40), pytest.raises(OSError, match="too large"):
        collected(every, tmp_path)
    assert path.read_bytes() == before
    assert collected(every, tmp_path).kernels == len(every)


def test_faults_are_asked_for_again_and_what_cannot_be_judged_is_not(tmp_path):
    odd, faulty, right = list(collection.template_candidates(("relu",)))[:3]
    judge = TemplateJudge(
        otherwise={odd.source: verdict_of(Status.UNSUPPORTED), faulty.source: OracleError("the evaluator is down")}
    )
    first = collected([odd, faulty, right], tmp_path, judge)
    assert (first.kernels, first.faults, first.rejected) == (1, 1, {"could not be judged: unsupported": 1})
    again = TemplateJudge()
    second = collected([odd, faulty, right], tmp_path, again)
    assert (second.kernels, second.faults, again.asked) == (2, 0, [faulty.source])


def test_what_was_rejected_is_graded_anew_once_something_else_decides_it(tmp_path):
    odd, right = list(collection.template_candidates(("relu", "gelu")))[:2]
    refusing = TemplateJudge(otherwise={odd.source: verdict_of(Status.INCORRECT)})
    now = {"relu": "1, problem 1", "gelu": "1, problem 1"}
    collected([odd, right], tmp_path, refusing, versions=now)
    assert collected([odd, right], tmp_path, refusing, versions=now).evaluations == 0
    # Another evaluator that refuses it too: its word is kept, the first one's is not.
    later = {**now, odd.problem: "2, problem 1"}
    second = collected([odd, right], tmp_path, refusing, versions=later)
    assert (second.evaluations, second.kernels, second.rejected) == (
        1,
        1,
        {"said to end as passed, ended as incorrect": 1},
    )
    # What does not ask for it leaves it as it was.
    assert collected([right], tmp_path, versions=now).rejected == second.rejected
    assert collected([odd, right], tmp_path, versions=later).evaluations == 0
    # Its author says otherwise now.
    third = collected([replace(odd, expected=Status.INCORRECT), right], tmp_path, refusing, versions=later)
    assert (third.evaluations, third.kernels, third.rejected) == (1, 2, {})


@pytest.mark.parametrize("ended", [samples.timeout(), FULL], ids=lambda ended: ended.status)
def test_a_limit_that_was_exceeded_is_tried_again_and_a_copy_is_not(tmp_path, ended):
    every = collection.template_candidates(("gelu",))
    slow, held_out = [one for one in every if one.expected is Status.PASSED][:2]
    right = replace(held_out, problem="relu")
    copy = replace(held_out, problem="softmax")
    judge = TemplateJudge(otherwise={slow.source: ended, right.source: verdict_of(Status.PASSED)})
    first = collected([slow, right, copy], tmp_path, judge)
    assert first.held_out_problems == ("relu",)
    assert first.rejected == {
        f"said to end as passed, ended as {ended.status}": 1,
        "also a kernel of a problem that is held out": 1,
    }
    again = TemplateJudge()
    second = collected([slow, right, copy], tmp_path, again, versions=dict.fromkeys(("gelu", "relu", "softmax"), "2"))
    assert (again.asked, second.kernels) == ([slow.source], 2)


def test_a_data_set_keeps_its_sides_and_its_settings(tmp_path):
    few = list(collection.template_candidates(("relu", "gelu")))[:2]
    collected(few, tmp_path)
    with pytest.raises(ConfigurationError, match="holds out relu, and this collection would hold out gelu"):
        collected(few, tmp_path, held_out=frozenset({"gelu"}))
    with pytest.raises(ConfigurationError, match="graded with other settings"):
        collected(few, tmp_path, settings=replace(GRADING, backend="sim"))


def test_a_data_set_takes_in_more_problems_and_ends_as_one_that_was_made_at_once(tmp_path):
    few = list(collection.template_candidates(("relu", "gelu", "saxpy")))
    more = list(collection.operation_candidates(chosen_operations(["silu", "silu_half"])))
    first = collected(few, tmp_path / "steps", held_out=frozenset({"gelu"}))
    judge = TemplateJudge()
    second = collected([*few, *more], tmp_path / "steps", judge, held_out=frozenset({"gelu", "silu_5000"}))
    assert second.evaluations == len(judge.asked) > 0
    assert second.kernels + sum(second.rejected.values()) == first.kernels + len(judge.asked)
    assert second.held_out_problems == ("gelu", "silu_5000")
    # The problems of before need not be asked again to keep their side.
    third = collected(more, tmp_path / "steps", held_out=frozenset({"silu_5000"}))
    assert (third.evaluations, third.held_out_problems) == (0, ("gelu", "silu_5000"))

    collected([*few, *more], tmp_path / "once", held_out=frozenset({"gelu", "silu_5000"}))
    steps, once = (
        [(one.problem, one.fingerprint, one.verdict.status) for one in graded.read_data(tmp_path / name).kernels]
        for name in ("steps", "once")
    )
    assert steps == once
    for wrong, held_out in ((more, frozenset()), (few, frozenset({"gelu", "relu"}))):
        with pytest.raises(ConfigurationError, match=r"(silu_5000|relu) would be on the other side"):
            collected(wrong, tmp_path / "steps", held_out=held_out)


def test_kernels_of_a_run_are_graded_anew_each_once_and_held_out_tasks_left_out(tmp_path):
    plain, warp = corpus.styles("row_sum")
    told = [corpus.render_prompt(plain, kernel=name).source for name in ("wrong_1", "wrong_2")]
    told.append(corpus.render_prompt(warp, kernel="wrong_3").source)
    talk = played([wrapped(source) for source in told])
    secret = played([wrapped(told[0].replace("wrong_1", "pass_9"))], task=replace(TASK, held_out=True))
    lines = [transcript(one, CreditSettings(), 1) for one in (talk, secret)]
    write_transcripts(tmp_path / "run" / "transcripts" / "train-000001.jsonl", lines)
    candidates = list(collection.rollout_candidates(tmp_path / "run"))
    assert {one.problem for one in candidates} == {"row_sum"}
    assert not any("pass_9" in one.source for one in candidates)
    assert {one.provenance.author for one in candidates} == {"generator", "optimizer"}
    assert candidates[0].provenance.place.startswith("transcripts/train-000001.jsonl, row_sum-1-7, turn 0")
    judge = TemplateJudge()
    card = collected(candidates, tmp_path / "data", judge)
    assert judge.asked == [told[0], told[2]], "the second is the first with another name"
    assert (card.origins, card.kernels) == ({"rollout": 2}, 2)
    with pytest.raises(ConfigurationError, match="no transcripts"):
        list(collection.rollout_candidates(tmp_path / "data"))


def test_a_fingerprint_is_of_the_code_and_not_of_its_words():
    style = corpus.styles("relu")[0]
    one = corpus.render_prompt(style).source
    assert fingerprint_of(one) == fingerprint_of(corpus.render_prompt(style, kernel="solve").source)
    assert fingerprint_of(one) == fingerprint_of("// mine\n" + one.replace("\n    ", "\n\t"))
    assert fingerprint_of(one) != fingerprint_of(one.replace("0.0f", "1.0f"))
    assert fingerprint_of(one) != fingerprint_of(one.replace("block=(256)", "block=(128)"))


KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from graded_kernels import TemplateJudge
from test_collection import GRADING
from trainer.data.operations import chosen_operations
from trainer.tuning.collection import collect, operation_candidates

class Killed(TemplateJudge):
    async def evaluate(self, submission):
        judged = await super().evaluate(submission)
        if len(self.asked) > 40:
            os.kill(os.getpid(), signal.SIGKILL)
        return judged

candidates = list(operation_candidates(chosen_operations(["row_norm"])))
asyncio.run(collect(candidates, Path(sys.argv[1]), Killed(), GRADING, held_out_problems=frozenset()))
"""


def test_a_collection_that_is_killed_goes_on_and_ends_as_one_that_was_not(tmp_path):
    paths = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    ended = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path / "killed")], env={**os.environ, "PYTHONPATH": paths}, check=False
    )
    assert ended.returncode == -signal.SIGKILL
    left = len(graded.read_kernels(tmp_path / "killed" / graded.KERNELS))
    left += len(graded.read_rejected(tmp_path / "killed" / graded.REJECTED))
    candidates = list(collection.operation_candidates(chosen_operations(["row_norm"])))
    assert 0 < left < len(candidates)
    judge = TemplateJudge()
    card = collected(candidates, tmp_path / "killed", judge, held_out=frozenset())
    assert len(judge.asked) == len(candidates) - left == card.evaluations
    whole = TemplateJudge()
    collected(candidates, tmp_path / "whole", whole, held_out=frozenset())
    killed, never = graded.read_data(tmp_path / "killed"), graded.read_data(tmp_path / "whole")
    assert [one.source for one in killed.kernels] == [one.source for one in never.kernels]


def test_a_part_of_the_candidates_hangs_on_the_seed_and_has_right_and_wrong_kernels_of_each_problem():
    candidates = list(collection.operation_candidates(chosen_operations(["row_norm", "silu", "gram", "bell"])))
    part = collection.drawn(candidates, 40, 1)
    assert len(part) == 40
    assert part == collection.drawn(candidates, 40, 1) != collection.drawn(candidates, 40, 2)
    assert list(part) == [one for one in candidates if one in part], "those of a problem stay together"
    for problem in {one.problem for one in part}:
        ends = {one.expected is Status.PASSED for one in part if one.problem == problem}
        assert ends == {True, False}
    assert collection.drawn(candidates, None, 1) == collection.drawn(candidates, 9999, 1) == tuple(candidates)


def test_operations_are_sent_as_what_states_them_and_a_shape_that_is_only_asked_is_not(tmp_path):
    candidates = list(collection.operation_candidates(chosen_operations(["silu", "silu_half"])))
    assert {one.problem for one in candidates} == {"silu_5000", "silu_150001", "silu_half_5000", "silu_half_150001"}
    sent = []

    class Judge(TemplateJudge):
        async def evaluate(self, submission):
            sent.append(submission)
            return await super().evaluate(submission)

    by_id = {one.reference.problem_id: one.problem for one in candidates}
    card = collected(candidates, tmp_path, Judge())
    assert set(by_id.values()) == set(card.problems), "the data set knows them by their own names"
    assert {(one.reference.kind, one.settings.other_sizes) for one in sent} == {
        ("torch", "required"),
        ("kernelbench", "required"),
    }
    assert all(one.problem == one.reference.problem_id for one in sent)
