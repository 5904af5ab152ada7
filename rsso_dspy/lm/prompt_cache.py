"""Cache marks for a provider that caches only marked prefixes (Anthropic).

    messages, options = mark_cacheable_prefix(messages, growing)

Such a provider looks for cached prefixes only at the ends of blocks. So the growing text is split into a block per
paragraph, which the next prompt repeats, and the mark stands after the newest block; what follows changes from prompt
to prompt. No word is changed. The provider looks back over 20 blocks: if more paragraphs than that are added at once,
the whole prefix is written again.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from dspy.lm15 import CacheConfig

from rsso_dspy.signatures.conversation import WHOLE

Message = Mapping[str, Any]

PARAGRAPH = re.compile(r"(?<=\S)(?=\n\n\s*\S)")
"""Place before an empty line, so that a block stays unchanged when another follows. Blocks of white space would be
refused."""


def mark_cacheable_prefix(messages: Sequence[Message], growing: str) -> tuple[Sequence[Message], dict[str, Any]]:
    """Return the messages split into blocks up to the end of the growing text, and the option that marks it.

    Returns the messages unchanged and no option if the last message does not contain the text or nothing follows it. A
    conversation that grows as a whole is marked at its end.
    """
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
