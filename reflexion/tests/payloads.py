"""Payloads of five hosts, built as their documentation has them, for the versions in which they differ.

`VERSIONS[name](command, code, output)` is what reaches the hook after a command; None for a version that says nothing of
how it ended. `PROMPTS` and `BEFORE` are the other two events. Fields that nobody reads are there as they are sent.
"""

import json
from collections.abc import Callable
from typing import Any

Payload = dict[str, Any]

SECRET = "ghp" + "_16C7e42F292c6912E7710c838347Ae178B4a"
"""A token that commands print; put together here, so that no scanner finds it in this file."""

CLAUDE = {"transcript_path": "/home/user/.claude/projects/p/s.jsonl", "permission_mode": "default"}
CODEX = {"transcript_path": None, "permission_mode": "default", "model": "gpt-5.5", "turn_id": "t1"}
GEMINI = {"transcript_path": "/home/user/.gemini/tmp/chat.json", "timestamp": "2026-05-01T10:00:00.000Z"}
CURSOR = {
    "conversation_id": "s1",
    "generation_id": "g1",
    "model": "auto",
    "cursor_version": "2.4.7",
    "user_email": None,
}


def after_claude(command: str, code: int, output: str, newer: bool = True, spelling: str = "Exit code {}\n") -> Payload:
    common = {**CLAUDE, "session_id": "s1", "cwd": "/project", "tool_name": "Bash", "tool_use_id": "toolu_01"}
    common["tool_input"] = {"command": command, "description": "Run it"}
    more = {"duration_ms": 12} if newer else {}
    if code:
        return {**common, **more, "hook_event_name": "PostToolUseFailure", "error": spelling.format(code) + output,
                "is_interrupt": False}  # fmt: skip
    response = {"stdout": output, "stderr": "", "interrupted": False, "isImage": False}
    return {**common, **more, "hook_event_name": "PostToolUse", "tool_response": response}


def after_codex(command: str, response: object, tool_input: object = None) -> Payload:
    return {**CODEX, "session_id": "s1", "cwd": "/project", "hook_event_name": "PostToolUse", "tool_name": "Bash",
            "tool_input": tool_input or {"command": command}, "tool_use_id": "call_1", "tool_response": response}  # fmt: skip


def write_codex_head(code: int, output: str) -> str:
    return f"Chunk ID: ab12cd\nWall time: 0.12 seconds\nProcess exited with code {code}\nOriginal token count: 9\nOutput:\n{output}"


def after_gemini(command: str, response: object) -> Payload:
    return {**GEMINI, "session_id": "s1", "cwd": "/project", "hook_event_name": "AfterTool",
            "tool_name": "run_shell_command", "tool_input": {"command": command}, "tool_response": response}  # fmt: skip


def write_gemini_old(command: str, code: int, output: str) -> Payload:
    text = (f"Command: {command}\nDirectory: (root)\nStdout: {output}\nStderr: (empty)\nError: (none)\nExit Code: {code}\n"
            "Signal: (none)\nBackground PIDs: (none)\nProcess Group PGID: 4242")  # fmt: skip
    return {"llmContent": text, "returnDisplay": output}


def write_gemini_new(code: int, output: str) -> Payload:
    lines = [f"Output: {output or '(empty)'}", *([f"Exit Code: {code}"] if code else []), "Process Group PGID: 4242"]
    return {"llmContent": "\n".join(lines), "returnDisplay": output}


def after_cursor(command: str, code: int, output: str, fails: bool) -> Payload:
    common = {**CURSOR, "workspace_roots": ["/project"], "tool_name": "Shell", "tool_use_id": "x1", "duration": 12.5}
    common |= {"tool_input": {"command": command, "working_directory": ""}, "cwd": "" if fails else "/project"}
    if code and fails:
        return {**common, "hook_event_name": "postToolUseFailure", "error_message": output, "failure_type": "error",
                "is_interrupt": False}  # fmt: skip
    told = {"exitCode": code, "output": output} if fails else {"exitCode": code, "stdout": output, "stderr": ""}
    return {**common, "hook_event_name": "postToolUse", "tool_output": json.dumps(told)}


def after_opencode(command: str, output: str, metadata: object) -> Payload:
    return {"hook_event_name": "tool.execute.after", "session_id": "ses_1", "cwd": "/project", "tool": "bash",
            "args": {"command": command, "description": "Run it"}, "output": output, "metadata": metadata}  # fmt: skip


VERSIONS: dict[str, Callable[[str, int, str], Payload]] = {
    "claude-code 1": lambda c, n, o: after_claude(c, n, o, newer=False, spelling="Error: Exit code {}\n"),
    "claude-code 2": after_claude,
    "claude-code 3": lambda c, n, o: after_claude(c, n, o, spelling="Command exited with non-zero status code {}\n"),
    "codex 1": lambda c, n, o: after_codex(
        c, json.dumps({"output": o, "metadata": {"exit_code": n, "duration_seconds": 0.1}}), {"command": ["bash", "-lc", c]}
    ),
    "codex 2": lambda c, n, o: after_codex(c, write_codex_head(n, o)),
    "codex 3": lambda c, n, o: after_codex(c, {"exit_code": n, "stdout": o, "stderr": ""}),
    "codex 4": lambda c, n, o: after_codex(c, f"Exit code: {n}\nWall time: 0.1 seconds\nOutput:\n{o}"),
    "gemini 1": lambda c, n, o: after_gemini(c, write_gemini_old(c, n, o)),
    "gemini 2": lambda c, n, o: after_gemini(c, write_gemini_new(n, o)),
    "gemini 3": lambda c, n, o: after_gemini(
        c, {"llmContent": [{"text": o}], "returnDisplay": o, "data": {"exitCode": n}, "exitCode": n}
    ),
    "cursor 1": lambda c, n, o: after_cursor(c, n, o, fails=False),
    "cursor 2": lambda c, n, o: after_cursor(c, n, o, fails=True),
    "opencode 1": lambda c, n, o: after_opencode(c, o, {"exit": n, "description": "Run it"}),
    "opencode 2": lambda c, n, o: after_opencode(c, o, {"exit": None, "exitCode": n}),
}  # fmt: skip
"""Host and number of the version; the exit code is said in each."""

MUTE: dict[str, Callable[[str, str], Payload]] = {
    "codex": after_codex,
    "gemini": lambda c, o: after_gemini(c, {"llmContent": o, "returnDisplay": ""}),
    "opencode": lambda c, o: after_opencode(c, o, {}),
}  # fmt: skip
"""Hosts that hand over the output of a command, and say nothing of how it ended."""

SILENT: dict[str, Payload] = {
    "cursor": {**CURSOR, "hook_event_name": "afterShellExecution", "command": "make", "output": "make: *** Error 1", "duration": 3},
    "gemini cancelled": after_gemini("make", {"llmContent": "x", "error": {"type": "cancelled", "message": "by the user"}}),
    "claude-code": {**after_claude("make", 1, "x"), "is_interrupt": True},
    "claude-code background": {**after_claude("make", 0, ""), "tool_response": {"stdout": "", "backgroundTaskId": "b1"}},
    "claude-code other tool": {**after_claude("make", 1, "x"), "tool_name": "Read"},
    "cursor denied": {**after_cursor("make", 1, "x", True), "failure_type": "permission_denied"},
}  # fmt: skip
"""After a command that was stopped or that is not told of: nothing may follow, whatever the words."""

PROMPTS: dict[str, Callable[[str], Payload]] = {
    "claude-code": lambda p: {**CLAUDE, "session_id": "s2", "cwd": "/project", "hook_event_name": "UserPromptSubmit", "prompt": p},
    "codex": lambda p: {**CODEX, "session_id": "s2", "cwd": "/project", "hook_event_name": "UserPromptSubmit", "prompt": p},
    "gemini": lambda p: {**GEMINI, "session_id": "s2", "cwd": "/project", "hook_event_name": "BeforeAgent", "prompt": p},
    "cursor": lambda p: {**CURSOR, "workspace_roots": ["/project"], "hook_event_name": "beforeSubmitPrompt", "prompt": p, "attachments": []},
    "opencode": lambda p: {"hook_event_name": "chat.message", "session_id": "ses_2", "cwd": "/project", "prompt": p},
}  # fmt: skip

BEFORE: dict[str, Callable[[str], Payload]] = {
    "claude-code": lambda c: {**CLAUDE, "session_id": "s2", "cwd": "/project", "hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": c}},
    "codex": lambda c: {**CODEX, "session_id": "s2", "cwd": "/project", "hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": c}, "tool_use_id": "c2"},
    "gemini": lambda c: {**GEMINI, "session_id": "s2", "cwd": "/project", "hook_event_name": "BeforeTool", "tool_name": "run_shell_command", "tool_input": {"command": c}},
    "cursor": lambda c: {**CURSOR, "workspace_roots": ["/project"], "hook_event_name": "preToolUse", "tool_name": "Shell", "tool_input": {"command": c}},
    "opencode": lambda c: {"hook_event_name": "tool.execute.before", "session_id": "ses_2", "cwd": "/project", "tool": "bash", "args": {"command": c}},
}  # fmt: skip
