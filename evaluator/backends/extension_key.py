"""What tells extensions apart: it is computed where they are built, and beside the submission, which reads little."""

import hashlib
import json
from collections.abc import Sequence


def content_key(
    name: str,
    cpp_sources: Sequence[str],
    cuda_sources: Sequence[str],
    functions: Sequence[str] | None,
    cuda_flags: Sequence[str],
) -> str:
    """What tells one module from another: SHA-256 over all that `load_inline` is given and that we compile with."""
    named = None if functions is None else list(functions)
    asked = [name, list(cpp_sources), list(cuda_sources), named, list(cuda_flags)]
    return hashlib.sha256(json.dumps(asked).encode()).hexdigest()
