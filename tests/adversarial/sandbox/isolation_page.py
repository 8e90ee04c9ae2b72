"""Writes docs/isolation.md: what each kind of sandbox keeps from a job, as attacks declare it and their tests show.

Run it after a change of an attack or a sandbox: `python tests/adversarial/sandbox/isolation_page.py`.
"""

import inspect
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "isolation.md"

if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

from sandboxes import ATTACKS, KINDS, Attack  # noqa: E402

from evaluator.sandbox.host import bubblewrap, process  # noqa: E402
from evaluator.sandbox.host.landlock import CONFINES_SIGNALS, CONFINES_WRITES  # noqa: E402
from evaluator.sandbox.host.seccomp import DENIED  # noqa: E402
from evaluator.sandbox.sandbox import Isolation  # noqa: E402

_COLUMNS = {
    "docker": "docker",
    "bubblewrap": "bubblewrap",
    "process": "process",
    "process-bare": "process, old kernel",
}
_INTRODUCTION = f"""# What the sandboxes keep from a job

Compilers and simulated programs run in a sandbox: a submission may take them over, and must gain nothing by it.
`ASSAY_SANDBOX` chooses the kind; `auto` takes the best that works. `assay doctor` tries the layers on your machine.
This page is written from the attacks in `tests/adversarial/sandbox/inside/`, which run in every kind of sandbox that
a machine has; after each the machine is as it was and the next job is right.

- **docker** and **bubblewrap** promise all layers. Use one of them for submissions of people you do not know.
- **process** is for machines where neither works. On a kernel that filters system calls (seccomp) and has Landlock
  (version {CONFINES_WRITES} for files, {CONFINES_SIGNALS} for other processes; Linux 6.12 has both), it keeps the
  same from a job, but for its identity: it runs as the grader's own user, and can ask whether a file exists.
- **process, old kernel** is the same without these two: only limits, an empty environment and no privileges. Then run
  the grader in a container or a virtual machine of its own that has nothing to lose.
"""


def promised(kind: str) -> frozenset[Isolation]:
    """What a kind of sandbox promises on a kernel that has everything it uses."""
    if kind == "process":
        return process.promised(filters=True, landlock_version=CONFINES_SIGNALS)
    return process.promised(filters=False, landlock_version=0) if kind == "process-bare" else frozenset(Isolation)


def page() -> str:
    """The page, as Markdown."""
    head = f"| {{}} | {' | '.join(_COLUMNS[kind] for kind in KINDS)} |\n|{' --- |' * (len(KINDS) + 1)}\n"
    parts = [_INTRODUCTION, "## Layers\n", head.format("Layer")]
    for layer in Isolation:
        cells = ["yes" if layer in promised(kind) else "**no**" for kind in KINDS]
        parts[-1] += f"| {layer.value.replace('_', ' ')} | {' | '.join(cells)} |\n"
    parts += ["## Attacks\n", head.format("A job that")]
    for attack in sorted(ATTACKS, key=lambda one: (list(Isolation).index(one.layer), one.name)):
        parts[-1] += f"| {attack.tries} | {' | '.join(_cell(attack, kind) for kind in KINDS)} |\n"
    calls = ", ".join(f"`{name}`" for name in sorted(DENIED))
    parts += [
        "`held`: it gains nothing. **`open`**: it succeeds. `-`: not tried, because nothing would keep it in.\n",
        "## Refused system calls\n",
        f"In every kind, where the kernel filters system calls: {calls}; `clone` and `clone3` with new namespaces,\n"
        "terminal input by `ioctl`, limits of other processes, sockets of other families than unix, IP, and calls\n"
        "of another ABI. Jobs without devices also lose System V memory and anonymous files; in `process` sockets,\n"
        "and changes of modes, owners, times and attributes of files.\n",
        f"## In detail\n\n### bubblewrap\n\n{inspect.getdoc(bubblewrap)}\n",
        f"### process\n\n{inspect.getdoc(process)}\n",
    ]
    return "\n".join(parts)


def _cell(attack: Attack, kind: str) -> str:
    if kind in attack.not_in:
        return "-"
    return "**open**" if kind in attack.open_in else "held"


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")
