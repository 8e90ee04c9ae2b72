"""One poller for all who wait: on a real database, and on one that a test makes fail."""

import asyncio
import threading
import time
from contextlib import asynccontextmanager, suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from storage_samples import SUBMISSION, accept, empty_sqlite, ended

from evaluator.errors import StorageError
from evaluator.service.api.notifier import News, Notifier, Subscription
from evaluator.service.storage.storage import open_storage


@pytest.fixture
def storage(tmp_path):
    opened = open_storage(empty_sqlite(tmp_path / "a.db"))
    yield opened
    opened.database.close()


class Counting:
    """A repository whose looks are counted, and fail while `broken`."""

    def __init__(self, evaluations):
        self.evaluations = evaluations
        self.looks = []
        self.broken = False

    def watch(self, ids):
        self.looks.append(set(ids))
        if self.broken:
            raise StorageError("The disk is gone.")
        return self.evaluations.watch(ids)


@asynccontextmanager
async def watching(evaluations, interval_s=0.01):
    watch = Notifier(evaluations, interval_s)
    running = asyncio.create_task(watch.run())
    try:
        yield watch
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


def finish(storage):
    lease = storage.leases.claim(["compile"], "w1", 30)
    assert storage.leases.finish(lease, ended(), {})
    return lease.evaluation_id


def test_who_waits_for_the_end_hears_of_the_end_alone(storage):
    async def story():
        one = accept(storage).evaluation
        async with watching(storage.evaluations) as watch:
            with watch.follow({one.id: one.version}) as follower:
                lease = await asyncio.to_thread(storage.leases.claim, ["compile"], "w1", 30)
                await asyncio.to_thread(storage.leases.progress, lease, "verify")
                assert await follower.next(0.2) == {}
                await asyncio.to_thread(storage.leases.finish, lease, ended(), {})
                news = await follower.next(5)
                assert news[one.id].state == "done"
                assert news[one.id].version > one.version
                assert not follower.ids

    asyncio.run(story())


def test_who_wants_every_change_hears_of_each_once(storage):
    async def story():
        one = accept(storage).evaluation
        async with watching(storage.evaluations) as watch:
            with watch.follow({one.id: one.version}, ends_only=False) as follower:
                assert await follower.next(0.1) == {}
                lease = await asyncio.to_thread(storage.leases.claim, ["compile"], "w1", 30)
                assert (await follower.next(5))[one.id].state == "running"
                assert await follower.next(0.1) == {}
                await asyncio.to_thread(storage.leases.finish, lease, ended(), {})
                assert (await follower.next(5))[one.id].state == "done"

    asyncio.run(story())


def test_what_was_over_before_is_news_at_once(storage):
    async def story():
        one = accept(storage).evaluation
        finish(storage)
        async with watching(storage.evaluations) as watch:
            with watch.follow({one.id: one.version, "ev_never": -1}) as follower:
                news = await follower.next(5)
                assert (news[one.id].state, news["ev_never"].state) == ("done", "gone")

    asyncio.run(story())


def test_a_thousand_who_wait_cost_one_look(storage):
    async def story():
        counting = Counting(storage.evaluations)
        ones = [accept(storage, SUBMISSION.model_copy(update={"source": str(i)})).evaluation for i in range(5)]
        async with watching(counting, interval_s=0.05) as watch:
            waits = []

            async def wait(one):
                with watch.follow({one.id: one.version}) as follower:
                    return await follower.next(10)

            waits = [asyncio.create_task(wait(ones[i % 5])) for i in range(1000)]
            await asyncio.sleep(0.3)
            assert watch.count == 1000
            assert len(counting.looks) < 20
            assert {one.id for one in ones} in counting.looks
            for _ in ones:
                await asyncio.to_thread(finish, storage)
            news = await asyncio.gather(*waits)
            assert all(len(one) == 1 for one in news)
            assert watch.count == 0

    asyncio.run(story())


def test_nobody_waiting_costs_nothing(storage):
    async def story():
        counting = Counting(storage.evaluations)
        async with watching(counting):
            await asyncio.sleep(0.1)
        assert counting.looks == []

    asyncio.run(story())


def test_a_nudge_from_another_thread_is_a_look_at_once(storage):
    async def story():
        one = accept(storage).evaluation
        async with watching(storage.evaluations, interval_s=30) as watch:
            with watch.follow({one.id: one.version}) as follower:
                await asyncio.sleep(0.2)

                def work():
                    watch.notify(finish(storage))

                started_s = time.monotonic()
                threading.Thread(target=work).start()
                assert (await follower.next(20))[one.id].state == "done"
                assert time.monotonic() - started_s < 10

    asyncio.run(story())


def test_a_nudge_is_a_look_at_what_was_named_alone(storage):
    async def story():
        counting = Counting(storage.evaluations)
        ones = [accept(storage, SUBMISSION.model_copy(update={"source": str(i)})).evaluation for i in range(9)]
        async with watching(counting, interval_s=30) as watch:
            with watch.follow({one.id: one.version for one in ones}) as follower:
                await asyncio.sleep(0.2)
                finished = finish(storage)
                watch.notify(finished, "ev_that_nobody_follows")
                assert (await follower.next(20)).keys() == {finished}
                assert counting.looks == [{one.id for one in ones}, {finished}]

    asyncio.run(story())


def test_what_ended_between_its_acceptance_and_the_following_is_seen_at_once(storage):
    async def story():
        first, late = (accept(storage, SUBMISSION.model_copy(update={"source": str(i)})).evaluation for i in range(2))
        async with watching(storage.evaluations, interval_s=30) as watch:
            with watch.follow({first.id: first.version}):
                await asyncio.sleep(0.2)
                finish(storage)
                watch.notify(finish(storage))
                await asyncio.sleep(0.2)
                with watch.follow({late.id: late.version}) as follower:
                    assert (await follower.next(10))[late.id].state == "done"

    asyncio.run(story())


def test_a_store_that_fails_for_a_while_is_asked_again(storage):
    async def story():
        counting = Counting(storage.evaluations)
        counting.broken = True
        one = accept(storage).evaluation
        async with watching(counting) as watch:
            with watch.follow({one.id: one.version}) as follower:
                assert await follower.next(0.3) == {}
                finish(storage)
                counting.broken = False
                assert (await follower.next(10))[one.id].state == "done"

    asyncio.run(story())


def test_closing_lets_everyone_go(storage):
    async def story():
        one = accept(storage).evaluation
        async with watching(storage.evaluations) as watch:
            with watch.follow({one.id: one.version}) as follower:
                waiting = asyncio.create_task(follower.next(30))
                await asyncio.sleep(0.1)
                watch.close()
                assert await asyncio.wait_for(waiting, 5) == {}
            with watch.follow({one.id: one.version}) as late:
                assert await asyncio.wait_for(late.next(30), 5) == {}

    asyncio.run(story())


states = st.sampled_from(["queued", "running", "done", "gone"])
looks = st.lists(
    st.dictionaries(st.sampled_from("abc"), st.tuples(st.integers(0, 9), states), max_size=3), max_size=12
)


@settings(max_examples=60, deadline=None)
@given(looks, st.booleans())
def test_whatever_is_seen_each_end_is_told_once_and_versions_only_grow(seen, ends_only):
    async def story():
        follower = Subscription({"a": 0, "b": 3, "c": 9}, ends_only)
        told = {name: [] for name in "abc"}
        for look in seen:
            follower.tell({name: News(*value) for name, value in look.items()})
            for name, news in (await follower.next(0)).items():
                told[name].append(news)
        for name, all_news in told.items():
            assert all(not news.final for news in all_news[:-1])
            running = [news.version for news in all_news if not news.final]
            assert running == sorted(set(running))
            assert not (ends_only and running)
            ended_ = any(News(*look[name]).final for look in seen if name in look)
            assert ended_ == (name not in follower.ids) == any(news.final for news in all_news)

    asyncio.run(story())
