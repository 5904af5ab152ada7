"""How far the next prompt will begin alike, said to a provider that caches only what is marked (Anthropic).

    messages, options = mark_cacheable_prefix(messages, growing)

Such a provider looks at the ends of blocks only for what it has read before. So the text that grows at its end becomes
a block per paragraph, which the next prompt has again, and the mark stands behind the newest; what follows the text
changes from prompt to prompt. No word is changed. It looks back over 20 blocks: an answer of more paragraphs than that
has everything written anew, once.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from dspy.lm15 import CacheConfig

from rsso_dspy.signatures.conversation import WHOLE

Message = Mapping[str, Any]

PARAGRAPH = re.compile(r"(?<=\S)(?=\n\n\s*\S)")
"""Before an empty line, so that a block stays what it was when another follows. A block of white space is refused."""


def mark_cacheable_prefix(messages: Sequence[Message], growing: str) -> tuple[Sequence[Message], dict[str, Any]]:
    """The messages in blocks up to the end of the growing text, and the option that marks it. As they were, and none,
    when the last message does not hold the text, or nothing after it. A conversation that grows as a whole is marked at
    its end."""
    *before, last = messages
    if growing == WHOLE:
        turns = sum(message["role"] != "system" for message in before)
        return messages, {"prompt_cache": CacheConfig(prefix_until_index=turns)}
    content = last["content"]
    at = content.rfind(growing) if growing and isinstance(content, str) else -1
    rest = content[at + len(growing) :] if at >= 0 else ""
    if not rest.strip():
        return messages, {}
    first, *more = PARAGRAPH.split(growing)
    blocks = [{"type": "text", "text": words} for words in (content[:at] + first, *more)]
    turns = sum(message["role"] != "system" for message in before)
    return [*before, {**last, "content": blocks}, {**last, "content": rest}], {
        "prompt_cache": CacheConfig(prefix_until_index=turns)
    }
