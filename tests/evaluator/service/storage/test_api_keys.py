"""Keys: secrets that are shown once, found again, expire and are revoked."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import create_engine, text

from evaluator.service.storage.secrets import (
    Quota,
    digest,
    looks_like_a_secret,
    new_evaluation_id,
    new_secret,
    reuse_key,
)


@pytest.fixture
def storage(new_storage, clock):
    return new_storage(clock)


def test_a_secret_opens_until_it_is_revoked(storage):
    key, secret = storage.keys.create("trainer", per_minute=600, concurrent=64, admin=True)
    assert re.fullmatch(r"assay_[\w-]{43}", secret)
    assert (key.name, key.quota, key.admin, key.expires_at) == ("trainer", Quota(600, 64), True, None)
    assert storage.keys.find(secret) == key
    assert storage.keys.revoke(key.id)
    assert storage.keys.find(secret) is None
    assert not storage.keys.revoke(key.id)
    assert not storage.keys.revoke("key_nothing")


def test_a_key_expires(storage, clock):
    key, secret = storage.keys.create("guest", expires_at=clock.day + 60)
    clock.pass_s(59)
    assert storage.keys.find(secret) == key
    clock.pass_s(1)
    assert storage.keys.find(secret) is None


def test_all_keys_are_listed_oldest_first(storage, clock):
    made = []
    for name in "cab":
        made.append(storage.keys.create(name)[0])
        clock.pass_s(1)
    storage.keys.revoke(made[0].id)
    listed = storage.keys.list()
    assert [key.name for key in listed] == ["c", "a", "b"]
    assert [key.revoked_at is None for key in listed] == [False, True, True]


def test_the_database_does_not_know_the_secret(storage, database_url):
    _, secret = storage.keys.create("trainer")
    engine = create_engine(database_url)
    with engine.connect() as connection:
        row = str(connection.execute(text("SELECT * FROM keys")).one())
    engine.dispose()
    assert secret not in row
    assert secret.removeprefix("assay_") not in row
    assert digest(secret) in row


@pytest.mark.parametrize(
    "text", ["", "assay_", "assay_" + "a" * 42, "assay_" + "a" * 44, "\0", "\ud800", "a" * 10**6]
)
def test_what_is_no_secret_opens_nothing(storage, text):
    storage.keys.create("trainer")
    assert storage.keys.find(text) is None


def test_a_wrong_secret_of_the_right_form_opens_nothing(storage):
    _, secret = storage.keys.create("trainer")
    assert storage.keys.find(secret[:-1] + ("A" if secret[-1] != "A" else "B")) is None


def test_names_are_not_used_twice():
    assert len({new_secret() for _ in range(1000)}) == 1000
    made = {new_evaluation_id() for _ in range(1000)}
    assert len(made) == 1000
    assert all(re.fullmatch(r"ev_[\w-]{22}", name) for name in made)


def test_each_new_secret_looks_like_one():
    assert all(looks_like_a_secret(new_secret()) for _ in range(100))


parts = st.lists(st.text(max_size=5), max_size=4).map(tuple)


@given(parts, parts)
def test_two_reuse_keys_are_equal_exactly_when_all_parts_are(one, other):
    assert (reuse_key(b"secret", one) == reuse_key(b"secret", other)) == (one == other)
    assert reuse_key(b"secret", one) != reuse_key(b"another", one)
