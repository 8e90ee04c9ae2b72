"""The curriculum: gates on a whole window, demotion, old tiers kept alive, and a state that comes back."""

import json
import operator
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted import kernel, played

from trainer.config.schema import CurriculumSection as CurriculumSection
from trainer.conversation.conversation import Flow
from trainer.conversation.episode import EpisodeSettings
from trainer.conversation.extraction import wrapped
from trainer.data.tasks import Task
from trainer.errors import CheckpointError, ConfigurationError
from trainer.rl.curriculum import CRITIQUE, PLANS, STATUS, Curriculum, Gate, Outcome, Tier, curriculum_of, outcome_of

GOOD, BAD = Outcome(True, True, 3.0), Outcome(False, False)
OUTCOMES = st.builds(
    lambda reached, speedup: Outcome(reached > 0, reached > 1, speedup if reached > 1 else None),
    st.integers(0, 2),
    st.one_of(st.none(), st.floats(0.1, 8)),
)
SEEN = st.lists(st.tuples(st.integers(0, 3), OUTCOMES), max_size=120)


def tasks(each=6):
    return [
        Task(f"p{tier}-{number}", f"p{tier}", tier, f"task {number}", held_out=number == 0)
        for tier in range(4)
        for number in range(each)
    ]


def through(curriculum, *outcomes):
    """Outcomes of the tier that is worked on."""
    for outcome in outcomes:
        curriculum = curriculum.observe(min(curriculum.tier.problem_tiers), outcome)
    return curriculum


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
@given(seen=SEEN, window=st.integers(1, 12), demotion=st.booleans())
def test_a_level_is_only_left_through_its_gate(plan, seen, window, demotion):
    curriculum = Curriculum(plan, window=window, demotion=demotion)
    for problem_tier, outcome in seen:
        after = curriculum.observe(problem_tier, outcome)
        assert abs(after.level - curriculum.level) <= 1
        assert all(len(one) <= window for one in after.windows)
        if after.level > curriculum.level:
            assert problem_tier in curriculum.tier.problem_tiers
            last = (*curriculum.windows[curriculum.level], outcome)[-window:]
            gate = curriculum.tier.gate
            assert len(last) == window <= curriculum.entered + 1
            assert curriculum.entered + 1 >= gate.episodes
            reached = operator.ge if gate.reached else operator.gt
            assert reached(sum(one.compiled for one in last) / window, gate.compile_rate)
            assert reached(sum(one.passed for one in last) / window, gate.pass_rate)
        if after.level < curriculum.level:
            assert demotion
        if after.level != curriculum.level:
            assert (after.entered, after.windows[after.level]) == (0, ())
        curriculum = after


@given(seen=SEEN, window=st.integers(1, 12), more=SEEN)
def test_a_state_goes_through_json_and_comes_back_the_same(seen, window, more):
    curriculum = Curriculum(window=window)
    for one in seen:
        curriculum = curriculum.observe(*one)
    back = Curriculum(window=window).restored(json.loads(json.dumps(curriculum.state())))
    assert back == curriculum
    for one in more:
        curriculum, back = curriculum.observe(*one), back.observe(*one)
    assert back == curriculum


def test_the_critiques_gates_are_strict_and_need_a_whole_window():
    assert [tier.gate for tier in CRITIQUE] == [Gate(0.9, 0.75)] * 4
    begun = Curriculum(window=20)
    assert through(begun, *[GOOD] * 19).level == 0
    assert through(begun, *[GOOD] * 20).level == 1
    at_the_gate = [Outcome(True, True)] * 15 + [Outcome(True, False)] * 3 + [BAD] * 2
    assert through(begun, *at_the_gate).level == 0
    above = [Outcome(True, True)] * 16 + [Outcome(True, False)] * 3 + [BAD]
    assert through(begun, *above).level == 1
    assert through(begun, *[BAD] * 50, *[GOOD] * 20).level == 1
    assert through(begun, *[GOOD] * 200).level == 3


def test_the_status_documents_tiers_have_its_figures():
    """Status document, section 8, Curriculum Manager, "Tier Requirements": EASY 80 % compile rate, 60 % success rate,
    1.2x average speedup, 100 episodes at least; MEDIUM 75 %, 50 %, 1.8x, 200; HARD 70 %, 40 %, 2.5x, 300. Section 8,
    SakanaAI Loader, "Operation Categories": vector and element-wise operations are easy, reductions, transposes and
    matrix-vector operations medium, matrix products and convolutions hard.
    """
    figures = {
        tier.name: (tier.gate.compile_rate, tier.gate.pass_rate, tier.gate.speedup, tier.gate.episodes)
        for tier in STATUS
    }
    assert figures == {"easy": (0.8, 0.6, 1.2, 100), "medium": (0.75, 0.5, 1.8, 200), "hard": (0.7, 0.4, 2.5, 300)}


def test_the_status_documents_categories_hold_the_problems_that_it_names(faces):
    """Status document, section 8, SakanaAI Loader, "Operation Categories"."""
    status = Curriculum(STATUS)
    levels = {face.id: status.level_of(face.tier, face.id) for face in faces}
    assert None not in levels.values()
    assert {levels[name] for name in ("vector_add", "scalar_multiply", "saxpy", "relu")} == {0}
    assert {levels[name] for name in ("reduce_sum", "row_sum", "transpose", "matvec")} == {1}
    assert {levels[name] for name in ("matmul", "conv2d", "attention")} == {2}
    asked = [Task(f"{face.id}-1", face.id, face.tier, "", held_out=False) for face in faces]
    drawn = {task.problem for seed in range(40) for task in replace(status, level=1).sample(asked, 8, seed)}
    assert "matvec" in drawn
    assert drawn.isdisjoint({"matmul", "softmax", "conv2d"})
    assert replace(status, level=1).observe(2, GOOD, "matvec").entered == 1
    assert replace(status, level=1).observe(2, GOOD, "matmul").entered == 0


def test_the_status_documents_gates_open_at_their_figures_and_at_the_mean_speedup():
    """Status document, section 8: an *average* speedup, and rates that are enough when they are reached."""

    def easy(passed=60, compiled=80, speedup=1.2, episodes=100):
        outcomes = [Outcome(True, True, speedup)] * passed + [Outcome(True, False)] * (compiled - passed)
        return through(Curriculum(STATUS), *(outcomes + [BAD] * (100 - compiled))[:episodes]).level

    assert easy() == 1
    assert [easy(passed=59), easy(compiled=79), easy(speedup=1.19), easy(speedup=None), easy(episodes=99)] == [0] * 5
    # One very fast kernel among many slow ones: the median would be 1, the mean is 2.
    mean = [Outcome(True, True, 21.0)] + [Outcome(True, True, 1.0)] * 19
    assert through(Curriculum(STATUS), *mean * 5).level == 1
    medium = through(Curriculum(STATUS), *[GOOD] * 100)
    assert [through(medium, *[GOOD] * count).level for count in (199, 200)] == [1, 2]


def test_the_last_gate_says_that_nothing_is_left_to_go_on_to():
    hard = replace(Curriculum(STATUS), level=2)
    assert not through(hard, *[GOOD] * 299).complete
    assert through(hard, *[GOOD] * 300).complete
    assert not through(hard, *[Outcome(True, True, 2.4)] * 300).complete
    assert not replace(hard, level=1, entered=300, windows=((), (GOOD,) * 100, ())).complete


def test_a_tier_is_given_back_where_the_one_before_is_forgotten():
    second = through(Curriculum(window=10), *[GOOD] * 10)
    assert second.level == 1
    hard = through(second, *[BAD] * 40)
    assert hard.level == 1, "that a new tier is hard is no reason to leave it"
    forgotten = hard
    for number in range(10):
        assert forgotten.level == 1 or number > 3
        forgotten = forgotten.observe(0, BAD)
    assert forgotten.level == 0
    assert through(forgotten, *[GOOD] * 10).level == 1
    stays = Curriculum(window=10, demotion=False, level=1, windows=((BAD,) * 10, (), (), ()))
    assert stays.observe(0, BAD).level == 1


@given(level=st.integers(0, 3), count=st.integers(0, 40), share=st.floats(0, 0.9), seed=st.integers(0, 99))
def test_sampling_keeps_old_tiers_alive_and_held_out_tasks_apart(level, count, share, seed):
    curriculum = Curriculum(level=level, rehearsal_share=share)
    drawn = curriculum.sample(tasks(), count, seed)
    assert len(drawn) == count
    assert not any(task.held_out for task in drawn)
    tiers = Counter(task.tier for task in drawn)
    assert set(tiers) <= set(range(level + 1))
    old = sum(number for tier, number in tiers.items() if tier < level)
    if level and share and count > 1:
        assert 1 <= old <= count - 1
        assert abs(old - count * share) <= 1
    else:
        assert old == 0
    assert drawn == curriculum.sample(tasks(), count, seed)


def test_all_tasks_come_before_one_comes_again():
    drawn = Curriculum().sample(tasks(), 10, seed=1)
    assert set(Counter(task.id for task in drawn).values()) == {2}
    orders = {Curriculum().sample(tasks(), 5, seed=seed) for seed in range(20)}
    assert len(orders) > 10


def test_every_old_tier_is_rehearsed():
    last = Curriculum(level=3, rehearsal_share=0.5)
    drawn = [task.tier for seed in range(30) for task in last.sample(tasks(), 10, seed)]
    assert set(drawn) == {0, 1, 2, 3}


def test_a_tier_without_tasks_is_passed_over_or_said():
    only_hard = [task for task in tasks() if task.tier == 2]
    assert Curriculum().skipping(only_hard).level == 2
    assert Curriculum().skipping(tasks()).level == 0
    with pytest.raises(ConfigurationError, match="tier basic") as caught:
        Curriculum().sample(only_hard, 4, 0)
    assert "tasks.problems" in caught.value.remedy
    only_old = [task for task in tasks() if task.tier == 0]
    assert {task.tier for task in Curriculum(level=1).sample(only_old, 4, 0)} == {0}


def test_a_configuration_names_a_curriculum():
    assert curriculum_of(CurriculumSection()) == Curriculum()
    section = CurriculumSection(name="status", start_tier=2, window=7, rehearsal_share=0.5, demotion=False)
    assert curriculum_of(section) == Curriculum(STATUS, 7, 0.5, demotion=False, level=2)
    off = curriculum_of(CurriculumSection(name="off"))
    assert set().union(*(tier.problem_tiers for tier in off.plan[: off.level + 1])) == {0, 1, 2, 3}
    with pytest.raises(ConfigurationError, match="start_tier is 3"):
        curriculum_of(CurriculumSection(name="status", start_tier=3))


@pytest.mark.parametrize(
    "wrong", [{"window": 0}, {"rehearsal_share": 1.0}, {"demotion_margin": 0.0}, {"plan": ()}, {"level": 4}]
)
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ValueError, match=r"tiers|level"):
        Curriculum(**wrong)


@pytest.mark.parametrize(
    "state",
    [{}, Curriculum(STATUS).state(), {**Curriculum().state(), "windows": [[]]}, {**Curriculum().state(), "level": 9}],
    ids=["nothing", "another", "too few windows", "no such level"],
)
def test_a_state_that_does_not_fit_is_refused(state):
    with pytest.raises(CheckpointError, match="cannot be gone on with"):
        Curriculum().restored(state)


def test_a_smaller_window_keeps_the_newest():
    state = through(Curriculum(window=20), *[BAD] * 10, *[GOOD] * 5).state()
    assert Curriculum(window=5).restored(state).windows[0] == (GOOD,) * 5


def test_what_a_conversation_counts_for():
    settings = EpisodeSettings(flow=Flow(2), turn_tokens=10_000)

    def outcome(*names):
        answers = [wrapped(kernel(name)) if "_" in name else name for name in names]
        return outcome_of(played(answers, settings=settings))

    assert outcome("compile_0", "garbage") == Outcome(False, False, None)
    assert outcome("wrong_0", "compile_0") == Outcome(True, False, None)
    mixed = outcome("wrong_0", "fast_0")
    assert (mixed.compiled, mixed.passed) == (True, True)
    assert mixed.speedup > 0
    assert outcome("odd_0", "odd_1") is None


def test_tiers_of_ones_own_work_as_well():
    plan = (Tier("first", frozenset({0, 2}), Gate(0.5, 0.5)), Tier("second", frozenset({1}), Gate()))
    curriculum = Curriculum(plan, window=3)
    assert curriculum.observe(3, GOOD) == curriculum
    assert curriculum.observe(2, GOOD).observe(0, GOOD).observe(2, GOOD).level == 1
