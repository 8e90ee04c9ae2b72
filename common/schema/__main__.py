"""Write `contract.json` anew: `python -m common.schema [--unpublished]`."""

import argparse
import sys

from common.contract import CONTRACT_VERSION
from common.schema import PATH, export, stale

_parser = argparse.ArgumentParser(prog="python -m common.schema", description=__doc__)
_parser.add_argument(
    "--unpublished", action="store_true", help="accept a change under the same version, which nobody has used yet"
)
_arguments = _parser.parse_args()

_exported = export()
_committed = PATH.read_text(encoding="utf-8") if PATH.exists() else ""
_reason = stale(_committed, _exported)
if _reason is not None and f'"version": "{CONTRACT_VERSION}"' in _committed and not _arguments.unpublished:
    sys.exit(_reason)
PATH.write_text(_exported, encoding="utf-8")
