"""The schema of a skill memory's snapshot, to reject other data before loading it.

check_snapshot_schema(json.loads(text))
"""

from typing import Annotated, Any, NotRequired

from pydantic import Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

Count = Annotated[int, Field(ge=0, le=10**12)]
Span = tuple[Count, Count, Count]
CandidateRow = list[float]


class _PieceSchema(TypedDict):
    trial: Count
    offset: Count
    states: list[Span]
    actions: list[Count]
    rewards: list[int]


class _SkillSchema(TypedDict):
    id: str
    name: str
    summary: str
    instructions: list[str]
    target: str
    windows: list[Span]
    scores: dict[str, float]
    retrieved: Count
    targeted: Count
    beyond: NotRequired[Count]


class _SnapshotSchema(TypedDict):
    settings: dict[str, Any]
    schema: int
    texts: list[str]
    pieces: list[_PieceSchema]
    built: Count
    similarities: dict[str, tuple[Count, int, int]]
    pool: list[CandidateRow]
    selected: list[list[dict[str, float] | float]]
    skills: list[_SkillSchema]
    library: list[str]
    feedback: list[list[tuple[str, float, bool]]]
    answers: list[tuple[list[str], bool]]


_FORM = TypeAdapter(_SnapshotSchema)


def check_snapshot_schema(snapshot: object) -> None:
    """Raise `ValueError` that names the first deviation from the schema."""
    try:
        _FORM.validate_python(snapshot)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise ValueError(f"{where or 'it'}: {first['msg']}") from None
