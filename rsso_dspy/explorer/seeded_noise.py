"""Seeded random numbers that do not depend on process, order of calls or thread."""

from dataclasses import dataclass
from hashlib import blake2b


@dataclass(frozen=True, slots=True)
class SeededNoise:
    """Seeded random numbers. The same seed, context and candidate give the same number in every process."""

    seed: int
    temperature: float

    def draw_noise(self, candidate: str, context: str) -> float:
        """A number between -1 and 1."""
        digest = blake2b(f"{self.seed}\x00{candidate}\x00{context}".encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") / 2**63 - 1
