"""How this process starts another Python of ours, which imports what this one does, and what that said at its end."""

import sys
from pathlib import Path
from typing import Final

_ROOT: Final = Path(__file__).parents[1]

# `-m` alone puts the working folder before everything else: a `queue.py` that lies there would be imported for the
# standard library's, and the folder passed on to sandboxes as one of ours. Hence -P. Where only that found this very
# package, as in a checkout that is not installed, it is found by its place; last, for it may be in site-packages,
# which must not come before the standard library. A sandbox may let it read the package, and not list what is beside
# it: then nothing is found by looking, and the package is loaded from its place.
_START: Final = """\
import importlib.util, os, runpy, sys
root, module, *arguments = sys.argv[1:]
if root not in sys.path:
    sys.path.append(root)
try:
    os.listdir(root)
except OSError:
    name = module.partition(".")[0]
    spec = importlib.util.spec_from_file_location(name, os.path.join(root, name, "__init__.py"))
    sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[name])
sys.argv[:] = [module, *arguments]
runpy.run_module(module, run_name="__main__", alter_sys=True)
"""


def this_python(*arguments: str) -> list[str]:
    """The command of the interpreter of this process, which looks for no module in the working folder."""
    return [sys.executable, "-P", *arguments]


def own_python(module: str, *arguments: str) -> list[str]:
    """The command that runs one of our modules as a program, with the interpreter of this process."""
    return this_python("-c", _START, str(_ROOT), module, *arguments)


def last_words(text: str, most: int = 500) -> str:
    """The end of what such a process wrote; of a traceback what was wrong, since where in our code helps nobody."""
    lines = text.strip().split("\n")
    if "Traceback (most recent call last):" in text:
        inside = [number for number, line in enumerate(lines, 1) if line.startswith("  ")]
        lines = lines[max(inside, default=0) :] or lines
    return "\n".join(lines)[-most:]
