"""The secret seed of an evaluation, fixed by its hash before the first run and revealed after the last."""

import hashlib
import secrets
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Seed:
    """A secret seed: committed to before the first run, revealed after the last."""

    secret: bytes

    @staticmethod
    def fresh() -> "Seed":
        """256 bits from the operating system."""
        return Seed(secrets.token_bytes(32))

    @property
    def commitment(self) -> str:
        """SHA-256 of the secret."""
        return hashlib.sha256(self.secret).hexdigest()

    def generator(self) -> np.random.Generator:
        """The generator that all inputs and hidden sizes are drawn from."""
        return np.random.Generator(np.random.PCG64(int.from_bytes(self.secret, "big")))
