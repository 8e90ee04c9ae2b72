"""A static look at a Python text that is recorded: what it asks of the machine. Nothing is refused here."""

import re
from typing import Final

from common.contract import Finding, Screening
from evaluator.stages.screen.screening import RULES

_WHY: Final = "The Python is only recorded here, in a sandbox, where there is nothing of that. Leave it out."
_RULES: Final = {
    "process-control": r"\bos\.(?:system|fork|forkpty|kill|killpg|exec\w+|spawn\w+|_exit|abort)\b|\bsubprocess\b|"
    r"\bmultiprocessing\b|\bsignal\.\w+|\bpty\b",
    "environment": r"\bos\.(?:environ|getenv|putenv)\b",
    "file-access": r"(?<![\w.])open\s*\(|\bos\.(?:open|listdir|scandir|walk|remove|unlink|rename)\b|\bpathlib\b|"
    r"\bshutil\b|\btempfile\b",
    "network": r"\bsocket\b|\burllib\b|\brequests\b|\bhttpx?\b",
    "dynamic-loading": r"\bctypes\b|\bcffi\b|(?<![\w.])(?:eval|exec|compile|__import__)\s*\(|\bimportlib\b|"
    r"\binspect\b|\bsys\.(?:modules|_getframe|settrace|setprofile)\b|\bgc\.get_\w+",
    "host-threads": r"\bthreading\b|\bconcurrent\.futures\b|\basyncio\b",
    "clock": r"\btime\.(?:time|perf_counter|monotonic|process_time)\w*\b",
}
_MAX_PER_RULE: Final = 8


def screen_python(source: str, changes: tuple[str, ...] = ()) -> Screening:
    """Findings by line; `changes` is what cleaning did. Comments and texts count too: this is a look, no proof."""
    found: list[Finding] = []
    remaining = 1.0
    for rule, pattern in _RULES.items():
        matches = list(re.finditer(pattern, source))
        remaining *= 1.0 - (RULES[rule].weight if matches else 0.0)
        for match in matches[:_MAX_PER_RULE]:
            line = source.count("\n", 0, match.start()) + 1
            found.append(
                Finding(rule=rule, severity=RULES[rule].severity, line=line, text=f"`{match[0].strip()}`", why=_WHY)
            )
    return Screening(
        changes=changes, findings=tuple(sorted(found, key=lambda one: one.line)), risk=round(1.0 - remaining, 4)
    )
