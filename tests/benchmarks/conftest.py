"""The benchmarks are scripts beside each other, not a package: here their folder becomes importable."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
