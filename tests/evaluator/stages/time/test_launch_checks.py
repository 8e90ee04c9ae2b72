"""Which timed launches are verified, and in which order what they did is said."""

from dataclasses import dataclass, field
from types import SimpleNamespace

from common.contract import Phase, Status
from evaluator.backends.session import RunOutcome
from evaluator.errors import Ruling
from evaluator.stages.launch.checked_plan import SizedPlan
from evaluator.stages.time.launch_checks import LaunchChecks


@dataclass
class FakeExamination:
    """Judges by the inputs: those that are in `wrong` are."""

    wrong: set = field(default_factory=set)
    judged: list = field(default_factory=list)
    problem: SimpleNamespace = field(default_factory=lambda: SimpleNamespace(sketch=None))

    def judge(self, trial, inputs, outputs, outcome):
        self.judged.append(inputs)
        return Ruling(Status.INCORRECT, Phase.VERIFY, f"{inputs} is wrong") if inputs in self.wrong else None


def checks(room_bytes=1 << 20, **examination):
    made = FakeExamination(**examination)
    return LaunchChecks(made, None, SizedPlan((), ()), room_bytes), made


def test_each_launch_behind_the_first_is_verified_with_the_same_chance():
    draws, launches = 3000, 9
    verified = [0] * launches
    for _ in range(draws):
        some, _ = checks()
        some.begin(is_long=False)
        for number in range(launches):
            verified[number] += some.is_next
            some.launched(number, is_long=False)
    # Gaps of 0 to 5 launches: one in 3.5. Five standard deviations are 0.041.
    assert all(abs(count / draws - 2 / 7) < 0.042 for count in verified), verified


def test_a_launch_that_takes_long_is_verified_and_so_are_all_that_follow():
    some, _ = checks()
    some.begin(is_long=True)
    for number in range(20):
        assert some.is_next
        some.launched(number, is_long=True)


def test_what_was_kept_is_compared_in_its_order_up_to_the_first_that_is_wrong():
    some, examination = checks(wrong={"b", "d"})
    assert [some.keep(inputs, RunOutcome({}), 0) for inputs in "abcd"] == [None] * 4
    assert (examination.judged, some.count) == ([], 4)
    between = []
    assert some.settle(lambda: between.append(list(examination.judged))).message == "b is wrong"
    assert (examination.judged, between) == (["a", "b"], [["a"]])
    assert some.settle() is None


def test_without_room_a_launch_is_compared_at_once():
    some, examination = checks(room_bytes=-1, wrong={"b"})
    assert some.keep("a", RunOutcome({}), 0) is None
    assert some.keep("b", RunOutcome({}), 0).message == "b is wrong"
    assert examination.judged == ["a", "b"]
