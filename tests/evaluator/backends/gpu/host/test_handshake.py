"""The page by which referee and process tell each other when a call begins and ends."""

import os
import threading
import time

import pytest

from evaluator.backends.gpu.host.inside.handshake import Handshake


@pytest.fixture
def sides():
    page = Handshake.page()
    both = Handshake(page), Handshake(page)
    os.close(page)
    yield both
    for one in both:
        one.close()


def never():
    return False


def test_a_word_is_seen_by_the_other_side(sides):
    referee, process = sides

    def call():
        assert process.await_go(7, never)
        process.done(7)

    thread = threading.Thread(target=call)
    thread.start()
    referee.go(7)
    assert referee.await_done(7, never)
    thread.join()


def test_another_number_is_no_word(sides):
    referee, process = sides
    until_s = time.monotonic() + 0.1
    process.done(3)
    assert not referee.await_done(4, lambda: time.monotonic() > until_s)


def test_a_failure_ends_the_wait_at_once(sides):
    referee, process = sides
    process.failed()
    assert not referee.await_done(4, never)


def test_a_word_that_came_with_the_end_counts(sides):
    referee, process = sides

    def ended():
        process.done(5)
        return True

    assert referee.await_done(5, ended)


def test_nobody_can_shorten_the_page():
    page = Handshake.page()
    try:
        with pytest.raises(PermissionError):
            os.ftruncate(page, 0)
        with pytest.raises(PermissionError):
            os.ftruncate(page, 1 << 20)
    finally:
        os.close(page)
