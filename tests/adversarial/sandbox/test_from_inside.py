"""Attacks from inside a job against every kind of sandbox; after each the machine is whole and the next job right."""

import pytest
from isolation_page import PAGE, page, promised
from sandboxes import ATTACKS, KINDS, Host, ending, make_sandbox

from evaluator.sandbox.sandbox import Isolation

# Without seccomp and Landlock only what is open then is of cancel_token: the rest is the same code as with them.
PAIRS = [
    (kind, attack)
    for kind in KINDS
    for attack in ATTACKS
    if kind not in attack.not_in and (kind != "process-bare" or kind in attack.open_in)
]


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    made = {}

    def host(kind):
        if kind not in made:
            folder = tmp_path_factory.mktemp(kind)
            sandbox = make_sandbox(kind, folder / "jobs")
            made[kind] = sandbox if isinstance(sandbox, str) else Host(kind, sandbox, folder)
        if isinstance(made[kind], str):
            pytest.skip(made[kind])
        return made[kind]

    yield host
    for one in made.values():
        if isinstance(one, Host):
            token = one.token.encode()
            assert one.close() == {"input": token, "output": token, "both": token + token}, (
                "another job was disturbed"
            )


@pytest.mark.parametrize(("kind", "attack"), PAIRS, ids=[f"{kind}-{attack.name}" for kind, attack in PAIRS])
def test_an_attack_from_inside_ends_as_it_must(kind, attack, hosts):
    host = hosts(kind)
    finished = host.suffer(attack)
    told = f"{ending(finished)}: {finished}"
    broke = [line for line in finished.stdout.decode(errors="replace").splitlines() if line.startswith("BROKE")]
    if kind in attack.open_in:
        assert broke, f"it is said to be open in {kind}, and is not: {told}"
        host.restore()
    else:
        assert broke == [], told
        assert ending(finished) in attack.ends, told
    leaked = [name for name, content in finished.files.items() if host.token.encode() in content]
    assert leaked == [] or kind in attack.open_in
    assert all(len(content) <= attack.limits.file_bytes for content in finished.files.values())
    assert host.harm() == [] or kind in attack.open_in
    assert host.next_job_is_right()


def test_the_corpus_is_large_and_says_what_it_tries():
    assert len(ATTACKS) >= 50
    assert len({attack.tries for attack in ATTACKS}) == len(ATTACKS)
    # What namespaces or containers do not keep from a job is a hole, not a property.
    assert {kind for attack in ATTACKS for kind in attack.open_in} == {"process-bare"}


def test_the_operators_page_says_what_the_tests_show():
    assert PAGE.read_text(encoding="utf-8") == page(), "run tests/adversarial/sandbox/isolation_page.py"
    assert {attack.layer for attack in ATTACKS if "process-bare" in attack.open_in} <= set(Isolation) - promised(
        "process-bare"
    ) | {Isolation.NO_LEFTOVERS, Isolation.ENVIRONMENT}
