"""A checkpoint counts once it is whole."""

import pytest

from trainer.errors import CheckpointError
from trainer.rl.checkpoints import Checkpoints, loading_checkpoint, read_checkpoint


def written(checkpoints, step, keep=3):
    place = checkpoints.begin(step)
    (place / "generator" / f"global_step_{step}").mkdir(parents=True)
    return checkpoints.finish(step, {"episodes": step * 8}, keep)


def test_the_newest_whole_one_is_found_again(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    assert checkpoints.newest() is None
    for step in (2, 10):
        written(checkpoints, step)
    checkpoints.begin(12)
    found = Checkpoints(tmp_path).newest()
    assert (found.step, found.state) == (10, {"episodes": 80})
    assert found.model("generator") == tmp_path / "step-000010/generator/global_step_10/actor/huggingface"


def test_what_a_killed_run_had_begun_is_begun_anew(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    half = checkpoints.begin(4)
    (half / "half.pt").write_text("half")
    assert not (checkpoints.begin(4) / "half.pt").exists()


def test_only_the_newest_are_kept(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    for step in range(1, 6):
        written(checkpoints, step, keep=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-000004", "step-000005"]


def test_one_that_a_killed_run_had_begun_displaces_none_that_counts(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    written(checkpoints, 40, keep=1)
    checkpoints.begin(50)
    written(checkpoints, 43, keep=1)
    assert checkpoints.newest().step == 43
    assert [path.name for path in tmp_path.iterdir()] == ["step-000043"]


def test_an_agent_that_was_not_there_is_named(tmp_path):
    with pytest.raises(CheckpointError, match="no checkpoint of the optimizer"):
        written(Checkpoints(tmp_path), 1).agent("optimizer")


def test_what_verl_cannot_load_is_refused_by_name(tmp_path):
    found = written(Checkpoints(tmp_path), 1)
    actor = found.agent("generator") / "actor"
    actor.mkdir()
    for rank in range(2):
        (actor / f"model_world_size_2_rank_{rank}.pt").touch()
    found.check("generator", {"actor": 2})
    with pytest.raises(CheckpointError, match=r"actor of the generator in .* is of 2 GPUs, and 4 are to train it"):
        found.check("generator", {"actor": 4})
    with pytest.raises(CheckpointError, match="has no critic of the generator"):
        found.check("generator", {"actor": 2, "critic": 2})


@pytest.mark.parametrize("text", ["", "{", '{"form": 99, "step": 1, "state": {}}', '{"form": 1}', "[]"])
def test_one_that_cannot_be_read_is_refused(tmp_path, text):
    folder = written(Checkpoints(tmp_path), 1).folder
    (folder / "state.json").write_text(text)
    with pytest.raises(CheckpointError, match="cannot be read"):
        read_checkpoint(folder)


SHAPES = """ray::WorkerDict.actor_rollout_load_checkpoint() (pid=7)
RuntimeError: size mismatch for model.embed_tokens.weight: the shapes [9, 64] and [8, 64] differ"""
CUT_OFF = """ray::WorkerDict.critic_load_checkpoint() (pid=7)
RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory"""
NO_MEMORY = """ray::WorkerDict.actor_rollout_load_checkpoint() (pid=7)
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"""
NO_HOST_MEMORY = """ray::WorkerDict.critic_load_checkpoint() (pid=7)
RuntimeError: [enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory"""
NO_MODEL = "ray::WorkerDict.actor_rollout_init_model() (pid=7)\nOSError: no such model"


@pytest.mark.parametrize(
    ("said", "blamed"),
    [
        (SHAPES, "size mismatch"),
        (CUT_OFF, "central directory"),
        (NO_MEMORY, ""),
        (NO_HOST_MEMORY, ""),
        (NO_MODEL, ""),
    ],
)
def test_a_checkpoint_is_blamed_for_what_cannot_be_loaded_from_it_and_for_nothing_else(tmp_path, said, blamed):
    found = written(Checkpoints(tmp_path), 1)
    with pytest.raises(CheckpointError if blamed else RuntimeError) as caught, loading_checkpoint(found):
        raise RuntimeError(said)
    assert blamed in str(caught.value)
    assert not blamed or str(found.folder) in str(caught.value)
    with pytest.raises(RuntimeError, match=said.split("\n")[0][:12]), loading_checkpoint(None):
        raise RuntimeError(said)
