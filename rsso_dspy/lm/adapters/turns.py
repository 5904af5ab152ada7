"""Formats a conversation (`layout = "append"`) as messages in an adapter's format."""

from typing import Any

import dspy

from rsso_dspy.signatures.conversation import Turn, select_opening, select_outputs
from rsso_dspy.signatures.layouts import SEEN

UNREAD = "Your answer to this could not be read. This time:"
"""Said before an answer form that differs from the previous one."""


def format_turns(
    adapter: dspy.ChatAdapter, signature: type[dspy.Signature], demos: list[dict[str, Any]], turns: tuple[Turn, ...]
) -> list[dict[str, Any]]:
    """Return the system message, the demonstrations, and the question and answer of each turn.

    No message depends on later ones. A field that the system message does not name is explained where it first appears.
    """
    opening = select_opening(signature, turns, bool(demos))
    messages = [{"role": "system", "content": adapter.format_system_message(opening)}]
    messages += adapter.format_demos(opening.delete(SEEN), demos) if demos else []
    named = set(opening.input_fields)
    for turn in turns:
        news = {name: text for name, text in turn.said.items() if name in signature.input_fields}
        for name in news.keys() - named:
            news[name] = f"({signature.input_fields[name].json_schema_extra['desc']})\n{news[name]}"
        named |= news.keys()
        asked = adapter.format_user_message_content(signature, news, main_request=turn.reminds)
        messages.append({"role": "user", "content": asked})
        if turn.answer:
            said = adapter.format_assistant_message_content(select_outputs(signature, turn.answer), dict(turn.answer))
            messages.append({"role": "assistant", "content": said.rstrip("\n")})
    return messages


def ask_again(messages: list[dict[str, Any]], form: str) -> list[dict[str, Any]]:
    """Return the messages with a request for another answer form at their end."""
    *before, last = messages
    return [*before, {**last, "content": f"{last['content']}\n\n{UNREAD}\n\n{form}"}]
