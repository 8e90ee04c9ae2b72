"""What verl prints goes into a file beside the run."""

import logging
import sys

from trainer.rl.runner import _Run


def test_a_log_handler_that_was_made_meanwhile_can_still_write(tmp_path, capsys):
    """As vLLM makes one when it is imported: it keeps stdout as it is then."""
    this = object.__new__(_Run)
    this.folder = tmp_path
    with this._aside():
        print("printed")
        handler = logging.StreamHandler(sys.stdout)
    logger = logging.Logger("vllm")
    logger.addHandler(handler)
    logger.warning("said later")
    with this._aside():
        print("printed again")
    assert (tmp_path / "verl.log").read_text() == "printed\nsaid later\nprinted again\n"
    told = capsys.readouterr()
    assert (told.out, told.err) == ("", ""), "no error of logging"
