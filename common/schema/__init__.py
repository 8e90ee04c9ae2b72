"""The wire contract as a JSON schema, for callers in other languages: `contract.json` beside this file.

`python -m common.schema` writes it anew. It refuses to change what a published version means.
"""

import json
from pathlib import Path

from pydantic.json_schema import models_json_schema

from common.contract import CONTRACT_VERSION, Evaluation, ProblemFace, Submission, Verdict

PATH = Path(__file__).with_name("contract.json")

_MODELS = (Submission, Evaluation, Verdict, ProblemFace)


def export() -> str:
    """The schema of every message with the contract's version, as JSON text: the content of `contract.json`."""
    places, definitions = models_json_schema([(model, "validation") for model in _MODELS])
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Assay contract",
        "version": CONTRACT_VERSION,
        "messages": {model.__name__: places[model, "validation"] for model in _MODELS},
        **definitions,
    }
    return json.dumps(schema, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def stale(committed: str, exported: str) -> str | None:
    """Why the text in `contract.json` cannot stand beside what the models export now; None when they agree."""
    if committed == exported:
        return None
    version = json.loads(exported)["version"]
    if not committed or json.loads(committed)["version"] != version:
        return f"contract.json is not of version {version}: run `python -m common.schema` and commit the file"
    return (
        f"the contract has changed and CONTRACT_VERSION is still {version}: raise it in common/contract.py, "
        "then run `python -m common.schema` and commit contract.json (only for a version that nobody has used yet: "
        "`python -m common.schema --unpublished`)"
    )
