"""What a run does when it goes on, as far as that needs no model."""

import subprocess
import threading
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from scripted import TASK, kernel, played

from trainer.config.reading import load_config
from trainer.conversation.extraction import wrapped
from trainer.errors import CheckpointError
from trainer.reporting import transcripts
from trainer.reporting.gpu_use import GpuUse
from trainer.reporting.metrics import MetricsWriter, read_measures
from trainer.rl import runner
from trainer.rl.checkpoints import Checkpoints, RunProgress
from trainer.rl.curriculum import Curriculum, curriculum_of

SETTINGS = ("algorithm.steps=4", "checkpointing.evaluate_every_episodes=1", "logging.tensorboard=false")


class KilledError(Exception):
    """Stands for a process that ends between two lines."""


class Rehearsal(runner._Run):
    """A run whose steps do nothing; what it would have done is noted."""

    def __init__(self, folder, *more, stop_in=None, killed_after_saving=None):
        config = load_config("cpu-demo", [*SETTINGS, f"checkpointing.folder={folder}", *more])
        self.found = Checkpoints(folder / "checkpoints").newest()
        progress = RunProgress(curriculum_of(config.curriculum))
        if self.found is not None:
            progress.restore(self.found)
        writer = MetricsWriter(folder, config, resumed_step=progress.step if self.found else None)
        super().__init__(
            config,
            folder,
            Checkpoints(folder / "checkpoints"),
            progress,
            training=(),
            held_out=(),
            writer=writer,
            on_step=None,
            tell=print,
            stop=threading.Event(),
            gpu_use=GpuUse(),
        )
        self.learners, self.stop_in, self.killed_after_saving = {}, stop_in, killed_after_saving
        self.done = []

    def rehearse(self):
        self._steps(self.found)
        return self.done

    def _step(self, step):
        self.done.append(f"step {step}")
        self.progress.step = step
        if step == self.stop_in:
            self.stop.set()

    def _save(self, step):
        saved = super()._save(step)
        if step == self.killed_after_saving:
            raise KilledError
        return saved

    def _evaluate(self, step):
        self.done.append(f"evaluation {step}")
        self.writer.write(step, {}, kind="held_out")


def test_an_evaluation_that_a_killed_run_did_not_come_to_is_made_when_it_goes_on(tmp_path):
    with pytest.raises(KilledError):
        Rehearsal(tmp_path, killed_after_saving=4).rehearse()
    assert Rehearsal(tmp_path).rehearse() == ["evaluation 4"]
    assert Rehearsal(tmp_path).rehearse() == []
    longer = Rehearsal(tmp_path, "algorithm.steps=5").rehearse()
    assert longer == ["step 5", "evaluation 5"], "that after step 4 is made already"


def test_an_evaluation_that_is_not_due_is_not_made_when_a_run_goes_on(tmp_path):
    seldom = "checkpointing.evaluate_every_episodes=1000000"
    assert Rehearsal(tmp_path, seldom, stop_in=2).rehearse() == ["evaluation 0", "step 1", "step 2"]
    assert Rehearsal(tmp_path, seldom).rehearse() == ["step 3", "step 4", "evaluation 4"]


def test_who_asks_to_stop_does_not_wait_for_an_evaluation_that_can_be_made_later(tmp_path):
    first = Rehearsal(tmp_path, stop_in=2).rehearse()
    assert first == ["evaluation 0", "step 1", "evaluation 1", "step 2"]
    last = Rehearsal(tmp_path, stop_in=4).rehearse()
    assert last == ["evaluation 2", "step 3", "evaluation 3", "step 4", "evaluation 4"]


def test_a_checkpoint_keeps_the_folders_of_the_models(tmp_path):
    curriculum = curriculum_of(load_config("cpu-demo").curriculum)
    began = RunProgress(curriculum, models={"generator": "generator-1"})
    checkpoints = Checkpoints(tmp_path)
    checkpoints.begin(1)
    checkpoints.finish(1, began.state(), keep=1)
    goes_on = RunProgress(curriculum)
    goes_on.restore(checkpoints.newest())
    assert goes_on.models == {"generator": "generator-1"}


def test_a_run_that_goes_on_counts_right_kernels_where_it_did_and_an_old_checkpoint_loads(tmp_path, monkeypatch):
    monkeypatch.setattr("ray.get", lambda answer: answer)
    places = {"relu": "gpu", "softmax": "sim"}
    first = Rehearsal(tmp_path, stop_in=1)
    first.worker = SimpleNamespace(play=SimpleNamespace(remote=lambda seats: ([], {}, places)))
    first._play([])
    first.rehearse()
    second = Rehearsal(tmp_path)
    assert second.progress.ran_on == places
    old = {name: value for name, value in second.progress.state().items() if name != "ran_on"}
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    checkpoints.finish(1, old, keep=1)
    second.progress.restore(checkpoints.newest())
    assert (second.progress.step, second.progress.ran_on) == (1, {})


def test_a_run_goes_on_with_tasks_of_other_tiers_than_its_curriculum_s(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.begin(1)
    checkpoints.finish(1, RunProgress(Curriculum()).state(), keep=1)
    goes_on = RunProgress(Curriculum())
    hard = (replace(TASK, tier=2),)
    goes_on.restore(checkpoints.newest(), hard)
    assert goes_on.curriculum.sample(hard, 2, 0) == hard * 2
    goes_on.restore(checkpoints.newest(), (*hard, replace(TASK, tier=0)))
    assert goes_on.curriculum.level == 0


@pytest.mark.parametrize(
    "change",
    [
        {"episodes": None},
        {"episodes": "many"},
        {"curriculum": None},
        {"models": ["generator-1"]},
        {"ran_on": None},
        {"ran_on": {"relu": "tpu"}},
    ],
)
def test_a_checkpoint_whose_state_has_another_layout_is_named(tmp_path, change):
    progress = RunProgress(curriculum_of(load_config("cpu-demo").curriculum))
    checkpoints = Checkpoints(tmp_path)
    checkpoints.begin(1)
    checkpoints.finish(1, progress.state() | change, keep=1)
    with pytest.raises(CheckpointError, match=r"step-000001 cannot be read|curriculum cannot be gone on with"):
        progress.restore(checkpoints.newest())
    checkpoints.finish(1, {}, keep=1)
    with pytest.raises(CheckpointError, match="KeyError 'episodes'") as caught:
        progress.restore(checkpoints.newest())
    assert "Remove this folder" in caught.value.remedy
    assert progress.step == 0


class Played(Rehearsal):
    """A rehearsal whose evaluations and steps have conversations, measures and transcripts."""

    _evaluate = runner._Run._evaluate
    loop = SimpleNamespace(AgentSlot=lambda *of, **more: SimpleNamespace(uid=of[0], candidate=of[1], step=of[4]))

    def __init__(self, folder, *more, killed_at=None, **others):
        super().__init__(folder, "curriculum.name=off", *more, **others)
        self.held_out = [replace(TASK, id=f"row_sum-{number}", held_out=True) for number in range(2)]
        self.killed_at = killed_at
        self.forget_transcripts()

    def _play(self, seats):
        talk = played([wrapped(kernel("wrong_0")), wrapped(kernel("pass_0"))])
        return [SimpleNamespace(seat=seat, conversation=talk, left_out=None, failure=None) for seat in seats], {}

    def _step(self, step):
        outcomes, _ = self._play([SimpleNamespace(uid=f"{step}.0", candidate=0, step=step)])
        self._keep_transcripts(f"train-{step:06d}", step, outcomes)
        self.writer.write(step, {})
        super()._step(step)

    def _keep_transcripts(self, name, step, outcomes):
        if self.killed_at == ("before", name):
            raise KilledError
        super()._keep_transcripts(name, step, outcomes)
        if self.killed_at == ("after", name):
            raise KilledError

    def kept(self):
        return {
            path.name: [line.conversation.id for line in transcripts.read_transcripts(path)]
            for path in sorted((self.folder / "transcripts").iterdir())
        }, [(line["kind"], line["step"]) for line in read_measures(self.folder)]


@pytest.mark.parametrize("name", ["held_out-000000", "held_out-000002", "train-000002", "held_out-000004"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_kill_between_measures_and_transcripts_loses_none_and_doubles_none(tmp_path, name, when):
    each = ("checkpointing.every_episodes=1", "checkpointing.keep=9")
    whole = Played(tmp_path / "whole", *each)
    whole.rehearse()
    with pytest.raises(KilledError):
        Played(tmp_path / "killed", *each, killed_at=(when, name)).rehearse()
    goes_on = Played(tmp_path / "killed", *each)
    goes_on.rehearse()
    assert goes_on.kept() == whole.kept()
    files, measures = whole.kept()
    assert {len(talks) for file, talks in files.items() if file.startswith("held_out")} == {2}
    assert len(files) == len(measures) == 9


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 2 MB."""
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=2m", "none", folder]
    mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


class Weights:
    """An agent that keeps half a megabyte, as verl does it: with torch."""

    def save(self, folder, step):
        (folder / f"global_step_{step}").mkdir(parents=True)
        torch.save(torch.zeros(1 << 17), folder / f"global_step_{step}" / "weights.pt")


def test_a_disk_that_is_full_during_a_checkpoint_is_named_and_the_one_before_counts(small_disk):
    (small_disk / "ballast").write_bytes(bytes(900_000))
    run = Rehearsal(small_disk, "checkpointing.every_episodes=1", "checkpointing.evaluate_at_start=false")
    run.learners = {"generator": Weights()}
    with pytest.raises(CheckpointError, match=r"step 3 cannot be written in .*, where 0\.00 GiB are free") as caught:
        run.rehearse()
    assert "Make room" in caught.value.remedy
    assert Checkpoints(small_disk / "checkpoints").newest().step == 2

    (small_disk / "ballast").unlink()
    again = Rehearsal(small_disk, "checkpointing.every_episodes=1", "checkpointing.keep=1")
    again.learners = {"generator": Weights()}
    again.rehearse()
    assert (again.found.step, again.checkpoints.newest().step) == (2, 4)
