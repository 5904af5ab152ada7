"""The fields of signatures: read, and left out of a prompt where they are empty."""

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, TypeVar, cast

import dspy

F = TypeVar("F", bound=Callable[..., Any])


def read_field_words(signature: type[dspy.Signature]) -> tuple[tuple[str, str], ...]:
    return tuple((name, field.json_schema_extra["desc"]) for name, field in signature.fields.items())


def cache_by_words(build: F) -> F:
    """Cache what is made of a signature, by its words too, because a signature can be changed in place. Building a
    signature class costs more than a simulator step."""
    build_once = lru_cache(maxsize=256)(lambda signature, _words, *rest: build(signature, *rest))

    @wraps(build)
    def build_cached(signature: Any, *rest: Any) -> Any:
        return build_once(signature, (signature.instructions, read_field_words(signature)), *rest)

    return cast(F, build_cached)


@cache_by_words
def remove_fields(signature: type[dspy.Signature], absent: tuple[str, ...]) -> type[dspy.Signature]:
    """Return the signature without these fields."""
    for name in absent:
        signature = signature.delete(name)
    return signature
