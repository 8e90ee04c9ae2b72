"""What kinds of program a process for host code carries out."""

from typing import Literal

Form = Literal["kernelbench", "triton", "torch-extension", "null"]
