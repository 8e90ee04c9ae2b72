"""How many forms and operands were compared, and how they compare."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from conformance.comparison import Comparison, Verdict
from conformance.forms import Form
from conformance.undefined import reason_of


@dataclass
class Report:
    """Counts of forms and of threads' results, and all that is not equal."""

    machine: Mapping[str, str]
    verdicts: Counter[Verdict] = field(default_factory=Counter)
    compared: int = 0
    results: int = 0
    opcodes: set[str] = field(default_factory=set)
    undefined: Counter[str] = field(default_factory=Counter)
    not_run: Counter[str] = field(default_factory=Counter)
    differences: dict[str, list[str]] = field(default_factory=dict)

    def add(self, comparison: Comparison) -> None:
        """Count one form."""
        found = Counter(comparison.verdicts())
        self.verdicts += found
        self.compared += 1
        self.results += sum(found.values()) * len(comparison.form.results)
        self.opcodes |= _opcodes(comparison.form)
        if found[Verdict.UNDEFINED]:
            self.undefined[reason_of(comparison.form)] += found[Verdict.UNDEFINED]
        if found[Verdict.DIFFERENT]:
            self.differences[comparison.form.name] = list(comparison.differences())

    def leave_out(self, forms: Iterable[Form], reason: str) -> None:
        """Count forms that cannot be compared."""
        self.not_run[reason] += len(list(forms))

    def text(self) -> str:
        """All of it, in lines."""
        lines = [
            f"{self.machine['gpu']}, driver {self.machine['driver']}, {self.machine['compiler']}, "
            f"{self.machine['target']}, recorded {self.machine['date']}",
            f"{len(self.opcodes)} opcodes, {self.compared} forms, {sum(self.verdicts.values())} operands, "
            f"{self.results} results",
        ]
        lines += [f"{self.verdicts[verdict]:9} {verdict}" for verdict in Verdict]
        lines += [f"{count:9} of these undefined: {reason}" for reason, count in self.undefined.most_common()]
        lines += [f"{count:9} forms not run: {reason}" for reason, count in self.not_run.most_common()]
        for name, differences in self.differences.items():
            lines += [name, *(f"    {line}" for line in differences[:3])]
        return "\n".join(lines)


def _opcodes(form: Form) -> set[str]:
    """Of all statements of a form."""
    found = set()
    for statement in re.split(r"[;{}]", form.statement):
        words = re.sub(r"^\s*(?:\w+:)?\s*(?:@!?\S+)?\s*", "", statement).split()
        if words and re.match(r"[a-z]", words[0]):
            found.add(words[0].split(".")[0])
    return found
