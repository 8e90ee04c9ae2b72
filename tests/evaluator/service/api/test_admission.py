"""Submissions that arrive together: taken in together, refused each for itself."""

import asyncio

import pytest
from storage_samples import SUBMISSION, empty_sqlite

from evaluator.errors import StorageError
from evaluator.service.api.admission import Admission
from evaluator.service.api.callers import Caller
from evaluator.service.api.errors import ApiError
from evaluator.service.api.fleet import Fleet
from evaluator.service.storage.secrets import Quota
from evaluator.service.storage.storage import open_storage
from evaluator.service.storage.submissions import SubmissionRepository
from evaluator.settings import ServiceSettings

CALLER = Caller("local")


class Counting(SubmissionRepository):
    """A real repository that counts its transactions, and fails while `broken`."""

    transactions = 0
    broken = False

    def accept_all(self, asked, *, max_queued):
        self.transactions += 1
        if self.broken:
            raise StorageError("The disk is gone.")
        return super().accept_all(asked, max_queued=max_queued)


class Announced:
    def __init__(self):
        self.ids = []

    def announce(self, evaluation_id, queue):
        self.ids.append(evaluation_id)


@pytest.fixture
def storage(tmp_path):
    opened = open_storage(empty_sqlite(tmp_path / "a.db"))
    yield opened
    opened.database.close()


@pytest.fixture
def submissions(storage):
    return Counting(storage.database)


@pytest.fixture
def announced():
    return Announced()


@pytest.fixture
def admission(storage, submissions, announced, tmp_path):
    settings = ServiceSettings(data_dir=tmp_path, database_url="", max_queued=60)
    return Admission(submissions, Fleet(storage.workers), announced, settings, b"secret")


def numbered(count):
    return [SUBMISSION.model_copy(update={"source": str(number)}) for number in range(count)]


def together(admission, submissions, caller=CALLER, key=None):
    return asyncio.run(admission.accept_all(submissions, caller, key, False, "req_1", lambda one: one))


def test_what_arrives_together_is_one_row_each_in_few_transactions(admission, storage, submissions, announced):
    taken = together(admission, numbered(48))
    assert [one.evaluation.submission.source for one in taken] == [str(number) for number in range(48)]
    assert all(storage.evaluations.get(one.evaluation.id, "local") == one.evaluation for one in taken)
    assert sorted(announced.ids) == sorted(one.evaluation.id for one in taken)
    assert submissions.transactions <= 4


def test_what_is_refused_takes_nobodys_place(admission, storage):
    taken = together(admission, numbered(70))
    assert [isinstance(one, ApiError) for one in taken] == [False] * 60 + [True] * 10
    assert {one.name for one in taken[60:]} == {"queue-full"}
    assert storage.evaluations.depth()["compile"].count == 60


def test_a_quota_counts_those_who_arrive_together(admission, storage):
    taken = together(admission, numbered(20), Caller("few", quota=Quota(concurrent=7)))
    assert [isinstance(one, ApiError) for one in taken] == [False] * 7 + [True] * 13
    assert {one.name for one in taken[7:]} == {"quota-exceeded"}


def test_a_flood_of_one_tenant_is_in_nobody_elses_way(admission, submissions):
    """A batch that its quota refuses still costs a transaction: others are taken in between, in their own order."""

    async def story():
        greedy = Caller("flood", quota=Quota(concurrent=1))
        flood = asyncio.create_task(
            admission.accept_all(numbered(400), greedy, None, False, "req_1", lambda one: one)
        )
        await asyncio.sleep(0)  # the flood is there before the other comes
        first, second = numbered(2)
        other = asyncio.gather(admission.accept(first, Caller("other")), admission.accept(second, Caller("other")))
        taken = await other
        return submissions.transactions, taken, await flood

    transactions, taken, _ = asyncio.run(story())
    assert transactions <= 3
    assert [one.evaluation.submission.source for one in taken] == ["0", "1"]


def test_one_key_that_arrives_many_times_at_once_is_one_evaluation(admission, announced):
    async def story():
        return await asyncio.gather(
            *(admission.accept(SUBMISSION, CALLER, idempotency_key="k") for _ in range(12)),
            admission.accept(SUBMISSION.model_copy(update={"source": "other"}), CALLER, idempotency_key="k"),
            return_exceptions=True,
        )

    *same, other = asyncio.run(story())
    assert len({one.evaluation.id for one in same}) == len(announced.ids) == 1
    assert [one.created for one in same] == [True] + [False] * 11
    assert other.name == "idempotency-clash"


def test_a_store_that_fails_refuses_all_and_takes_the_next(admission, storage, submissions, announced):
    submissions.broken = True
    assert {one.name for one in together(admission, numbered(20))} == {"storage"}
    assert storage.evaluations.depth() == {}
    submissions.broken = False
    assert len(together(admission, numbered(20))) == len(announced.ids) == 20


def test_who_goes_away_while_the_store_writes_holds_up_nobody(admission, storage):
    async def story():
        tasks = [asyncio.create_task(admission.accept(one, CALLER)) for one in numbered(10)]
        await asyncio.sleep(0)
        for task in tasks[:5]:
            task.cancel()
        return await asyncio.gather(*tasks, return_exceptions=True)

    ended = asyncio.run(story())
    assert all(isinstance(one, asyncio.CancelledError) for one in ended[:5])
    assert all(one.created for one in ended[5:])
    assert storage.evaluations.depth()["compile"].count >= 5
