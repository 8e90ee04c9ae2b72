"""Whose turn it is, over a simulated clock: workers, tenants and work of every length, drawn at will."""

from collections import defaultdict, deque
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluator.service.storage.sharing.fair_share import (
    CREDIT_S,
    LONG_S,
    SHORTEST_S,
    YIELD_AFTER_S,
    Line,
    Running,
    charged_s,
    expected_s,
    in_turn,
    is_to_yield,
    leaves_the_last,
    tag_now,
)

TICK_S = 0.25


@dataclass
class Work:
    """One evaluation: whose, how long it takes a worker, and what became of it."""

    seq: int
    tenant: str
    takes_s: float
    came_s: float
    began_s: float | None = None
    ended_s: float | None = None
    yielded: bool = False


@dataclass
class Simulation:
    """Workers that claim by the rules, as the repositories do, on a clock that only moves in ticks."""

    workers: int
    now_s: float = 0.0
    virtual_s: float = 0.0
    turn: int = 0
    tags: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    turns: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    means: dict[str, float] = field(default_factory=dict)
    waiting: dict[str, deque[Work]] = field(default_factory=lambda: defaultdict(deque))
    came: int = 0
    held: dict[str, Work] = field(default_factory=dict)
    served_s: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    @property
    def crew(self):
        return [f"w{number}" for number in range(self.workers)]

    def running(self):
        return [
            Running(one.seq, one.tenant, worker, self.now_s - one.began_s, self.means.get(one.tenant, SHORTEST_S))
            for worker, one in self.held.items()
        ]

    def come(self, tenant, takes_s, count=1):
        made = [Work(self.came + number, tenant, takes_s, self.now_s) for number in range(count)]
        self.came += count
        self.waiting[tenant] += made
        return made

    def claim(self, worker):
        heads = {name: line[0] for name, line in self.waiting.items() if line}
        lines = [
            Line(name, self.tags[name], self.turns[name], self.means.get(name, SHORTEST_S), one.yielded)
            for name, one in heads.items()
        ]
        running = self.running()
        for line, start in in_turn(lines, running, self.virtual_s):
            if leaves_the_last(line, self.crew, running, others=len(self.tags) > 1):
                continue
            one = heads[line.tenant]
            self.waiting[line.tenant].popleft()
            one.began_s = self.now_s
            self.held[worker] = one
            self.virtual_s = max(self.virtual_s, start)
            self.turn += 1
            self.turns[line.tenant] = self.turn
            return

    def let_go(self, worker):
        one = self.held.pop(worker)
        took_s = charged_s(self.now_s - one.began_s)
        self.tags[one.tenant] = tag_now(self.tags[one.tenant], self.virtual_s) + took_s
        self.means[one.tenant] = expected_s(self.means.get(one.tenant), took_s)
        return one

    def tick(self):
        for worker in self.crew:
            one = self.held.get(worker)
            if one and self.now_s - one.began_s >= one.takes_s:
                self.let_go(worker).ended_s = self.now_s
        for worker, one in list(self.held.items()):
            names = {name for name, line in self.waiting.items() if line}
            ran_s = self.now_s - one.began_s
            if ran_s > YIELD_AFTER_S and is_to_yield(one.seq, names, self.crew, self.running()):
                self.let_go(worker).yielded = True
                self.waiting[one.tenant].appendleft(one)
        for worker in self.crew:
            if worker not in self.held:
                self.claim(worker)
        for one in self.held.values():
            self.served_s[one.tenant] += TICK_S
        self.now_s += TICK_S

    def until(self, end_s):
        while self.now_s < end_s:
            self.tick()


@settings(deadline=None, max_examples=40)
@given(
    workers=st.integers(2, 6),
    bomb_s=st.floats(0.25, 60.0),
    flood=st.integers(1, 80),
    head_start_s=st.floats(0.0, 40.0),
    short_s=st.floats(0.25, 1.5),
    gap_s=st.floats(1.5, 10.0),
)
def test_whoever_asks_for_little_never_waits_for_a_neighbours_long_work(
    workers, bomb_s, flood, head_start_s, short_s, gap_s
):
    crowd = Simulation(workers)
    crowd.come("neighbour", bomb_s, flood)
    crowd.until(head_start_s)
    asked = []
    for _ in range(6):
        asked += crowd.come("stranger", short_s)
        crowd.until(crowd.now_s + gap_s + short_s)
    waits = [(one.began_s if one.began_s is not None else crowd.now_s) - one.came_s for one in asked]
    assert max(waits) <= YIELD_AFTER_S + 2 * TICK_S + 1e-9, waits


@settings(deadline=None, max_examples=15)
@given(
    workers=st.integers(1, 4),
    lengths=st.lists(st.sampled_from([0.5, 1.0, 2.0, 4.0]), min_size=2, max_size=4),
    late_s=st.floats(0.0, 30.0),
)
def test_who_has_always_something_waiting_gets_his_share_of_time_however_he_cuts_it(workers, lengths, late_s):
    crowd = Simulation(workers)
    for number, length_s in enumerate(lengths):
        crowd.come(f"t{number}", length_s, 600)
        if number == 0:
            crowd.until(late_s)
    before = dict(crowd.served_s)
    crowd.until(crowd.now_s + 120)
    given_s = {name: crowd.served_s[name] - before.get(name, 0.0) for name in map("t{}".format, range(len(lengths)))}
    # What nobody can share out: the credit of a newcomer, and what runs as the measurement begins and ends.
    slack_s = CREDIT_S + 2 * workers * max(lengths)
    if len(lengths) >= workers:
        assert max(given_s.values()) - min(given_s.values()) <= slack_s, given_s
    assert min(given_s.values()) > 0, "nobody is shut out"


@pytest.mark.parametrize("length_s", [0.5, 10.0])
def test_alone_a_tenant_uses_every_worker(length_s):
    crowd = Simulation(3)
    crowd.come("only", length_s, 1000)
    crowd.until(60)
    assert crowd.served_s["only"] == pytest.approx(3 * 60)


def test_work_that_yields_still_ends():
    crowd = Simulation(2)
    (*bombs,) = crowd.come("neighbour", 30.0, 2)
    crowd.until(5)
    for _ in range(60):
        crowd.come("stranger", 0.5)
        crowd.until(crowd.now_s + 1.5)
    assert [one.yielded for one in bombs].count(True) == 1, "one is enough, and once"
    assert all(one.ended_s is not None for one in bombs)


def test_short_work_goes_before_long_work_of_equals():
    lines = [Line("a", 5.0, 1, 8.0), Line("b", 5.0, 2, 0.5)]
    assert [line.tenant for line, _ in in_turn(lines, [], 5.0)] == ["b", "a"]
    assert [line.tenant for line, _ in in_turn([lines[0], replace(lines[1], tag_s=20.0)], [], 5.0)] == ["a", "b"]


def test_who_was_idle_saves_up_no_more_than_the_credit():
    lines = [Line("steady", 1000.0, 1), Line("back", 0.0, 2)]
    assert {line.tenant: start for line, start in in_turn(lines, [], 1000.0)} == {
        "steady": 1000.0,
        "back": 1000.0 - CREDIT_S,
    }


def test_only_the_youngest_of_who_holds_most_yields():
    crew = ["w1", "w2", "w3"]
    running = [Running(1, "a", "w1", 20.0), Running(2, "a", "w2", 3.0), Running(3, "b", "w3", 1.0)]

    def yielding(waiting, held=running):
        return [one.seq for one in held if is_to_yield(one.seq, waiting, crew, held)]

    assert yielding({"c"}) == [2]
    assert yielding({"a", "b"}) == [], "they have workers"
    assert yielding({"c"}, running[:2]) == [], "a worker is free"
    assert yielding({"d"}, [replace(one, tenant=name) for one, name in zip(running, "abc", strict=True)]) == []


def test_the_last_worker_is_kept_from_long_work_while_others_are_about():
    crew, running = ["w1", "w2"], [Running(1, "a", "w1", 0.0)]
    long = Line("a", 0.0, 1, LONG_S + 1)
    assert leaves_the_last(long, crew, running, others=True)
    assert not leaves_the_last(long, crew, running, others=False)
    assert not leaves_the_last(replace(long, next_s=LONG_S), crew, running, others=True)
    assert leaves_the_last(Line("a", 0.0, 1, yielded=True), crew, running, others=True)
    assert not leaves_the_last(long, crew, [], others=True), "another is free besides"
    assert not leaves_the_last(replace(long, tenant="b"), crew, running, others=True)
    assert not leaves_the_last(long, ["w1"], [], others=True), "there is only one"
