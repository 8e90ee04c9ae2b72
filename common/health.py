"""What a `doctor` found about one thing that Assay needs, for both commands that have one."""

from dataclasses import dataclass


@dataclass(frozen=True)
class HealthCheck:
    """One thing that was looked at. `ok` is None where it is only worth knowing."""

    name: str
    ok: bool | None
    detail: str
    remedy: str | None = None
