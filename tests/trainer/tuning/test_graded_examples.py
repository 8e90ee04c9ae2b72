"""The graded examples of `examples/training`: what they say, and that a verdict comes out again."""

import random
from pathlib import Path

import pyarrow.parquet as parquet

from common.client import Client
from common.contract import Settings, Submission
from trainer.conversation.extraction import extract
from trainer.data.graded import read_card
from trainer.tuning.publishing import read_published

FOLDER = Path(__file__).parents[3] / "examples" / "training"
AGENTS = ("generator", "optimizer", "tester")


def rows(name):
    return parquet.read_table(FOLDER / f"{name}.parquet").to_pylist()


def test_three_thousand_examples_are_there_and_every_one_is_what_it_says():
    said = read_published(FOLDER)
    assert {name: len(rows(name.removesuffix(".parquet"))) for name in said.files} == said.files
    assert sum(said.files[f"{agent}-train.parquet"] for agent in AGENTS) == 3000
    assert {row["status"] for agent in ("generator", "optimizer") for row in rows(f"{agent}-train")} == {"passed"}
    for row in rows("optimizer-train"):
        assert row["old_status"] != "passed" or row["factor"] >= 1.1
    assert {row["status"] for row in rows("tester-train")} > {"passed", "incorrect", "compile_error", "runtime_error"}


def test_nothing_of_what_is_held_out_is_learned_from():
    said, card = read_published(FOLDER), read_card(FOLDER)
    assert said.contamination.prompts == 0
    assert said.contamination.highest < 0.95
    learned = [row for agent in AGENTS for row in rows(f"{agent}-train")]
    assert {row["problem"] for row in learned}.isdisjoint(card.held_out_problems)
    asked = {row["messages"][-1]["content"] for row in rows("prompts-held_out")}
    assert asked.isdisjoint(message["content"] for row in learned for message in row["messages"])


def test_a_kernel_of_them_is_right_today(service):
    own = [row for row in rows("generator-train") if row["problem"] in ("relu", "gelu", "row_sum", "transpose")]
    row = random.Random().choice(own)
    source = extract(row["messages"][-1]["content"]).source
    with Client(service.url) as client:
        asked = Submission(problem=row["problem"], source=source, settings=Settings(verification="quick"))
        verdict = client.evaluate(asked)
    assert verdict.status == "passed", (row["fingerprint"], verdict.message)
