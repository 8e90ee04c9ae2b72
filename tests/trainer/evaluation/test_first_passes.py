"""How long a training run took until a kernel was right: only where all of its transcripts were kept."""

import json

from scripted import kernel, played

from trainer.config.schema import TrainingConfig
from trainer.conversation.extraction import wrapped
from trainer.conversation.rewards import CreditSettings
from trainer.evaluation.first_passes import first_passes_of
from trainer.reporting.metrics import FILE
from trainer.reporting.transcripts import transcript, write_transcripts


def test_what_was_not_kept_may_have_been_right(tmp_path):
    talks = [transcript(played([wrapped(kernel(f"{kind}_a"))]), CreditSettings(), 1) for kind in ("wrong", "pass")]
    write_transcripts(tmp_path / "transcripts" / "train-000001.jsonl", talks)

    def first_of(played_ever):
        lines = [{"step": 1, "kind": "train", "conversations": played_ever}, {"step": 1, "kind": "held_out"}]
        (tmp_path / FILE).write_text("".join(json.dumps(line) + "\n" for line in lines))
        return first_passes_of(tmp_path, TrainingConfig())

    assert (first_of(2).first, first_of(2).conversations) == (2, 2)
    assert first_of(20) is None
