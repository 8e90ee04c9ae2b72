import hashlib

from common.contract import Settings
from common.launch_plan import LaunchPlan
from evaluator.pipeline.receipt import receipt
from evaluator.problems.catalogue import find_problem
from evaluator.seed import Seed

PLAN = LaunchPlan.model_validate({"steps": [{"kind": "fill", "target": "c", "value": 0}]})


def made(**changes):
    given = {
        "problem": find_problem("relu"),
        "settings": Settings(),
        "plan": None,
        "raw": b"text \xff",
        "compiled": None,
        "device": "a device",
        "sandbox": "process",
        "seed": Seed(b"\x01" * 32),
        "duration_s": 1.23456789,
        "phases_s": {"compile": 0.5},
    }
    return receipt(**{**given, **changes})


def test_the_commitment_is_the_hash_of_the_seed_that_is_revealed():
    one = made(seed=Seed.fresh())
    assert hashlib.sha256(bytes.fromhex(one.seed)).hexdigest() == one.seed_commitment
    assert len(bytes.fromhex(one.seed)) == 32


def test_seeds_differ_and_the_same_seed_draws_the_same():
    assert len({Seed.fresh().secret for _ in range(100)}) == 100
    first, again, other = Seed(b"\x01" * 32), Seed(b"\x01" * 32), Seed(b"\x01" * 31 + b"\x02")
    drawn = [seed.generator().random(1000).tolist() for seed in (first, again, other)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_the_source_is_hashed_as_it_came_in():
    assert made().source_sha256 == hashlib.sha256(b"text \xff").hexdigest()
    assert made(raw=b"text \xff\n").source_sha256 != made().source_sha256


def test_only_a_plan_has_a_hash_of_its_own():
    assert made().plan_sha256 is None
    again = LaunchPlan.model_validate_json(PLAN.model_dump_json())
    assert made(plan=PLAN).plan_sha256 == made(plan=again).plan_sha256
    assert len(made(plan=PLAN).plan_sha256) == 64
    other = LaunchPlan.model_validate({"steps": [{"kind": "fill", "target": "c", "value": 1}]})
    assert made(plan=other).plan_sha256 != made(plan=PLAN).plan_sha256


def test_what_was_not_compiled_has_no_hashes():
    one = made()
    assert (one.ptx_sha256, one.cubin_sha256, one.toolchain, one.arch) == (None,) * 4
    assert one.duration_s == 1.2346
    assert one.phases_s == {"compile": 0.5}
