"""What goes wrong at a provider, as data: the fault, what each provider says, and what should become of the trial.

FAULTS["overloaded"].reply("anthropic", key)     # status and error body, in Anthropic's words
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Fate = Literal["recovers", "plays on", "error", "suspect", "stops"]
"""recovers: asked again, and then as if nothing had been; plays on: a step that does nothing, the trial has a score;
error: the trial has none, the run goes on; suspect: likewise, and after three in a row the run stops; stops: the run
stops at once."""

How = Literal[
    "answer", "raw", "drop before headers", "drop after headers", "cut", "hang", "drip", "length", "refused", "filtered"
]

HTML = "<html><body><h1>502 Bad Gateway</h1><p>nginx</p></body></html>"


@dataclass(frozen=True)
class Fault:
    """One way to fail. `said` is what a provider says, by its name, else that of ``*``: status, type, code, message;
    ``{key}`` is the key that it was sent."""

    fate: Fate
    error: str = ""
    """Name of the error that is counted; empty when there is none."""
    said: Mapping[str, tuple[int, str, str | None, str]] = field(default_factory=dict)
    how: How = "answer"
    raw: tuple[int, str] = (200, "")
    """Status and body of ``raw``."""
    headers: Mapping[str, str] = field(default_factory=dict)
    other: Mapping[str, tuple[Fate, str]] = field(default_factory=dict)
    """Fate and error of providers that word or report it differently."""

    def of(self, wire: str) -> tuple[Fate, str]:
        """Fate and error on a wire."""
        return self.other.get(wire, (self.fate, self.error))

    def reply(self, wire: str, key: str) -> tuple[int, dict[str, Any]]:
        """Status and body of an error in the words of the provider."""
        status, kind, code, message = self.said.get(wire) or self.said["*"]
        error: dict[str, Any] = {"type": kind, "message": message.replace("{key}", key)}
        if wire == "anthropic":
            return status, {"type": "error", "error": error, "request_id": "req_1"}
        return status, {"error": {**error, "param": None, "code": status if wire == "vllm" else code}}


NOW = {"Retry-After": "0"}
AS_SERVER: dict[str, tuple[Fate, str]] = {"litellm": ("recovers", "LMServerError")}
"""LiteLLM takes for the server's error what happened on the way, and an answer that is none."""
AS_REQUEST: dict[str, tuple[Fate, str]] = dict.fromkeys(("vllm", "ollama"), ("error", "LMInvalidRequestError"))
BAD, LIMIT = "invalid_request_error", "This model's maximum context length is"

RATE_LIMIT = {
    "anthropic": (429, "rate_limit_error", None, "This request would exceed your organization's rate limit."),
    "*": (429, "requests", "rate_limit_exceeded", "Rate limit reached for requests."),
}
SERVER_ERROR = {
    "anthropic": (500, "api_error", None, "Internal server error"),
    "ollama": (500, "api_error", None, "llama runner process has terminated: signal: killed"),
    "*": (500, "server_error", None, "The server had an error while processing your request."),
}
OVERLOADED = {
    "anthropic": (529, "overloaded_error", None, "Overloaded"),
    "ollama": (503, "api_error", None, "server busy, please try again. maximum pending requests exceeded"),
    "*": (503, "server_error", None, "The engine is currently overloaded."),
}
BAD_KEY = {
    "anthropic": (401, "authentication_error", None, "invalid x-api-key {key}"),
    "*": (401, BAD, "invalid_api_key", "Incorrect API key provided: {key}."),
}
FORBIDDEN = {
    "anthropic": (403, "permission_error", None, "Your API key does not have permission, {key}"),
    "*": (403, "forbidden", None, "Project does not have access to this model, {key}."),
}
QUOTA = {
    "anthropic": (400, BAD, None, "Your credit balance is too low to access the Anthropic API. Please go to Plans."),
    "*": (429, "insufficient_quota", "insufficient_quota", "You exceeded your current quota."),
}
UNKNOWN_MODEL = {
    "anthropic": (404, "not_found_error", None, "model: claude-sonnet-4-6"),
    "openai": (404, BAD, "model_not_found", "The model `gpt-4.1-mini` does not exist."),
    "vllm": (404, "NotFoundError", None, "The model `served` does not exist."),
    "ollama": (404, "api_error", None, 'model "llama3.1" not found, try pulling it first'),
    "*": (404, BAD, "model_not_found", "Model not found."),
}
SETTING = {
    "anthropic": (400, BAD, None, "`temperature` is deprecated for this model."),
    "vllm": (400, "BadRequestError", None, "temperature must be at most 2.0, got 3.0."),
    "*": (400, BAD, "unsupported_value", "Unsupported value: 'temperature' is not 1."),
}
TOO_LONG = {
    "anthropic": (400, BAD, None, "prompt is too long: 200082 tokens > 199999 maximum"),
    "vllm": (400, "BadRequestError", None, f"{LIMIT} 4096 tokens. However, your request has 5000 input tokens."),
    "ollama": (400, BAD, None, "the request exceeds the available context size"),
    "*": (400, BAD, "context_length_exceeded", f"{LIMIT} 128000 tokens. Your messages resulted in 130000 tokens."),
}
POLICY = {
    "anthropic": (400, BAD, None, "Output blocked by content filtering policy"),
    "*": (400, BAD, "content_policy_violation", "Your request was rejected by our safety system."),
}
NO_CREDIT = {"*": (402, "billing_error", None, "Your account has no credit left.")}
TOMORROW = {"*": (429, "rate_limit_error", "rate_limit_exceeded", "Daily limit reached.")}
NO_CHOICES = json.dumps({"id": "x", "choices": [], "content": []})
LOADING = json.dumps({"error": "Model is being loaded"})
TIMED_OUT = json.dumps({"detail": "upstream timed out"})

FAULTS: dict[str, Fault] = {
    "rate limit": Fault("recovers", "LMRateLimitError", RATE_LIMIT, headers=NOW),
    "server error": Fault("recovers", "LMServerError", SERVER_ERROR, headers=NOW),
    "overloaded": Fault("recovers", "LMServerError", OVERLOADED, headers=NOW),
    "gateway page": Fault("recovers", "LMServerError", how="raw", raw=(502, HTML), headers=NOW),
    "rate limit until tomorrow": Fault("suspect", "LMRateLimitError", TOMORROW, headers={"Retry-After": "86400"}),
    "dropped before the headers": Fault("recovers", "LMTransportError", how="drop before headers", other=AS_SERVER),
    "dropped after the headers": Fault("recovers", "LMTransportError", how="drop after headers", other=AS_SERVER),
    "cut in the middle": Fault("recovers", "LMTransportError", how="cut", other=AS_SERVER),
    "hang": Fault("recovers", "LMTimeoutError", how="hang"),
    "bad key": Fault("stops", "LMAuthError", BAD_KEY),
    "forbidden": Fault("stops", "LMAuthError", FORBIDDEN),
    "payment required": Fault("stops", "LMBillingError", NO_CREDIT),
    "quota used up": Fault("stops", "LMBillingError", QUOTA),
    "unknown model": Fault("stops", "LMUnsupportedModelError", UNKNOWN_MODEL),
    "setting refused": Fault("stops", "LMUnsupportedFeatureError", SETTING),
    "context too long": Fault("error", "ContextWindowExceededError", TOO_LONG, other=AS_REQUEST),
    "content policy": Fault("error", "LMInvalidRequestError", POLICY),
    "invalid JSON": Fault("suspect", "LMProviderError", how="raw", raw=(200, '{"id": "x",'), other=AS_SERVER),
    "a page for an answer": Fault("suspect", "LMProviderError", how="raw", raw=(200, HTML), other=AS_SERVER),
    "no choices": Fault("recovers", "LMServerError", how="raw", raw=(200, NO_CHOICES)),
    "an error for an answer": Fault("recovers", "LMServerError", how="raw", raw=(200, LOADING)),
    "a detail for an answer": Fault("recovers", "LMServerError", how="raw", raw=(200, TIMED_OUT)),
    "a list for an answer": Fault("recovers", "LMServerError", how="raw", raw=(200, "[]")),
    "refused": Fault("plays on", how="refused"),
    "filtered": Fault("error", "LMInvalidRequestError", how="filtered", other={"anthropic": ("plays on", "")}),
    "cut at the length limit": Fault("plays on", how="length"),
}

DRIPPING = {"dripping": Fault("recovers", "LMTimeoutError", how="drip")}
"""An answer that comes byte by byte and would take minutes. Apart from the others, which meet every wire in seconds."""
