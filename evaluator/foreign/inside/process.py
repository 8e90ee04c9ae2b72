"""What the sandbox starts: PyTorch is imported without what nobody needs here, then requests are answered."""

import contextlib
import sys
from types import ModuleType
from typing import Final

_SPARED: Final = "torch._meta_registrations"
"""Operators on tensors without contents, written in Python: a third of the time of `import torch`."""


def _import_torch() -> None:
    sys.modules[_SPARED] = ModuleType(_SPARED)
    try:
        import torch
    finally:
        del sys.modules[_SPARED]  # who imports it later has it whole
    with contextlib.suppress(ImportError):
        # Some versions set the type of generators there, and without it make none.
        import torch._prims.rng_prims  # noqa: F401


if __name__ == "__main__":
    _import_torch()
    from evaluator.foreign.inside.server import main

    main()
