"""How servers answer: the body of a response as each of them sends it, and what a bill makes of its counts.

    SERVERS["deepseek"].body["usage"]       # the usage, under DeepSeek's names
    SERVERS["deepseek"].counted             # the same tokens as the bill counts them

The answer is ``yes`` everywhere; where the server shows a thought, that is ``Water is wet.``
"""

from dataclasses import dataclass
from typing import Any

from rsso_dspy.pricing import Price
from rsso_dspy.records import Usage

Body = dict[str, Any]

ANSWER, THOUGHT = "yes", "Water is wet."
PRICE = Price(input=10e-6, output=30e-6, cached=1e-6, cache_write=12e-6)
"""Dollars per token that `Server.dollars` are computed with."""


@dataclass(frozen=True, kw_only=True)
class Server:
    """A family of servers, as one of its answers shows it."""

    family: str
    model: str
    """As a configuration names it."""
    body: Body
    """The response to one question."""
    counted: Usage
    dollars: float | None
    """Of one answer, at `PRICE`; None if the server leaves it unknown."""
    thought: str = ""
    """Where the body has the thought; empty if it has none."""
    key: str = ""
    """The environment variable of its key; empty if it needs none."""
    base_url: str = ""
    """The address to write; empty if the model's name is enough."""
    path: str = "/v1"
    """What follows host and port in the address."""
    is_variant: bool = False
    """Whether another row has the same names, and only the usage differs."""


def chat(usage: Any, message: Body | None = None, **beside: Any) -> Body:
    """A chat completion with this usage. `message` adds to the message, `beside` to the body."""
    choice = {
        "index": 0,
        "finish_reason": "stop",
        "message": {"role": "assistant", "content": ANSWER, **(message or {})},
    }
    about = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1760000000, "model": "m"}
    return {**about, "choices": [choice], "usage": usage, **beside}


def counted(sent: int, written: int, cached: int = 0, cache_write: int = 0, reasoning: int = 0) -> Usage:
    """The usage of one answer."""
    return Usage(
        calls=1, input=sent, output=written, cached=cached, cache_write=cache_write, reasoning=reasoning, unmetered=0
    )


PLAIN = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}

OPENAI = Server(
    family="OpenAI",
    model="openai/gpt-4.1-mini",
    key="OPENAI_API_KEY",
    body=chat(
        {
            **PLAIN,
            "prompt_tokens_details": {"cached_tokens": 40, "audio_tokens": 0},
            "completion_tokens_details": {
                "reasoning_tokens": 8,
                "audio_tokens": 0,
                "accepted_prediction_tokens": 0,
                "rejected_prediction_tokens": 0,
            },
        },
        {"refusal": None, "annotations": []},
        service_tier="default",
        system_fingerprint="fp_1",
    ),
    counted=counted(100, 20, cached=40, reasoning=8),
    dollars=0.00124,  # 60 at 10, 40 at 1, 20 at 30 dollars a million
)

ANTHROPIC = Server(
    family="Anthropic",
    model="anthropic/claude-sonnet-4-6",
    key="ANTHROPIC_API_KEY",
    path="",
    thought="a block of type `thinking`",
    body={
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-6",
        "content": [
            {"type": "thinking", "thinking": THOUGHT, "signature": "c2ln"},
            {"type": "text", "text": ANSWER},
        ],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": 40,
            "output_tokens": 20,
            "cache_read_input_tokens": 30,
            "cache_creation_input_tokens": 60,
            "cache_creation": {"ephemeral_5m_input_tokens": 60, "ephemeral_1h_input_tokens": 0},
            "server_tool_use": None,
            "service_tier": "standard",
        },
    },
    counted=counted(130, 20, cached=30, cache_write=60),
    dollars=0.00175,  # 40 at 10, 30 at 1, 60 at 12, 20 at 30
)

GEMINI = Server(
    family="Gemini",
    model="gemini/gemini-2.5-flash",
    key="GEMINI_API_KEY",
    path="/v1beta",
    thought="a part with `thought: true`",
    body={
        "candidates": [
            {
                "content": {"role": "model", "parts": [{"text": THOUGHT, "thought": True}, {"text": ANSWER}]},
                "finishReason": "STOP",
                "index": 0,
            }
        ],
        "usageMetadata": {
            "promptTokenCount": 100,
            "cachedContentTokenCount": 40,
            "candidatesTokenCount": 12,
            "thoughtsTokenCount": 300,
            "totalTokenCount": 412,
            "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 100}],
        },
        "modelVersion": "gemini-2.5-flash",
        "responseId": "r1",
    },
    counted=counted(100, 312, cached=40, reasoning=300),
    dollars=0.01,  # 60 at 10, 40 at 1, 312 at 30
)

GEMINI_CHAT = Server(
    family="Gemini, in OpenAI's format",
    model="openai/gemini-2.5-flash",
    key="GEMINI_API_KEY",
    base_url="https://generativelanguage.googleapis.com/v1beta/openai",
    path="/v1beta/openai",
    body=chat({"prompt_tokens": 100, "completion_tokens": 12, "total_tokens": 412}),
    counted=counted(100, 312, reasoning=300),
    dollars=0.01036,  # 100 at 10, 312 at 30
)

XAI = Server(
    family="xAI",
    model="xai/grok-4",
    key="XAI_API_KEY",
    thought="`reasoning_content`",
    body=chat(
        {
            "prompt_tokens": 100,
            "completion_tokens": 12,
            "total_tokens": 412,
            "prompt_tokens_details": {"text_tokens": 100, "audio_tokens": 0, "image_tokens": 0, "cached_tokens": 40},
            "completion_tokens_details": {"reasoning_tokens": 300, "audio_tokens": 0, "accepted_prediction_tokens": 0},
            "num_sources_used": 0,
        },
        {"reasoning_content": THOUGHT, "refusal": None},
        system_fingerprint="fp_1",
    ),
    counted=counted(100, 312, cached=40, reasoning=300),
    dollars=0.01,
)

XAI_WITHIN = Server(
    family="xAI, reasoning within the output",
    is_variant=True,
    model="xai/grok-4",
    key="XAI_API_KEY",
    body=chat(
        {
            "prompt_tokens": 100,
            "completion_tokens": 312,
            "total_tokens": 412,
            "prompt_tokens_details": {"cached_tokens": 40},
            "completion_tokens_details": {"reasoning_tokens": 300},
        }
    ),
    counted=counted(100, 312, cached=40, reasoning=300),
    dollars=0.01,
)

DEEPSEEK = Server(
    family="DeepSeek",
    model="deepseek/deepseek-reasoner",
    key="DEEPSEEK_API_KEY",
    thought="`reasoning_content`",
    body=chat(
        {
            "prompt_tokens": 1000,
            "completion_tokens": 10,
            "total_tokens": 1010,
            "prompt_cache_hit_tokens": 900,
            "prompt_cache_miss_tokens": 100,
            "completion_tokens_details": {"reasoning_tokens": 6},
        },
        {"reasoning_content": THOUGHT},
    ),
    counted=counted(1000, 10, cached=900, reasoning=6),
    dollars=0.0022,  # 100 at 10, 900 at 1, 10 at 30
)

GROQ = Server(
    family="Groq",
    model="groq/llama-3.3-70b-versatile",
    key="GROQ_API_KEY",
    thought="`reasoning`",
    body=chat(
        {**PLAIN, "queue_time": 0.05, "prompt_time": 0.004, "completion_time": 0.02, "total_time": 0.024},
        {"reasoning": THOUGHT},
        x_groq={"id": "req_1"},
        usage_breakdown=None,
    ),
    counted=counted(100, 20),
    dollars=0.0016,  # 100 at 10, 20 at 30
)

MISTRAL = Server(
    family="Mistral",
    model="mistral/mistral-small-latest",
    key="MISTRAL_API_KEY",
    body=chat({**PLAIN, "prompt_audio_seconds": None}, {"tool_calls": None, "prefix": False}),
    counted=counted(100, 20),
    dollars=0.0016,
)

MOONSHOT = Server(
    family="Moonshot",
    model="moonshot/kimi-k2-0905-preview",
    key="MOONSHOT_API_KEY",
    body=chat({**PLAIN, "cached_tokens": 40}),
    counted=counted(100, 20, cached=40),
    dollars=0.00124,
)

TOGETHER = Server(
    family="Together",
    model="together_ai/openai/gpt-oss-20b",
    key="TOGETHER_AI_API_KEY",
    thought="`reasoning`",
    body=chat({**PLAIN, "cached_tokens": 40}, {"reasoning": THOUGHT, "tool_calls": []}, prompt=[]),
    counted=counted(100, 20, cached=40),
    dollars=0.00124,
)

PERPLEXITY = Server(
    family="Perplexity",
    model="perplexity/sonar-deep-research",
    key="PERPLEXITY_API_KEY",
    body=chat(
        {**PLAIN, "citation_tokens": 50, "num_search_queries": 3, "reasoning_tokens": 300, "search_context_size": "low"}
    ),
    counted=counted(100, 320, reasoning=300),
    dollars=0.0106,  # 100 at 10, 320 at 30: more reasoning than output stands beside it
)

OPENROUTER = Server(
    family="OpenRouter",
    model="openrouter/deepseek/deepseek-r1",
    key="OPENROUTER_API_KEY",
    thought="`reasoning`",
    body=chat(
        {
            **PLAIN,
            "cost": 0.00014,
            "is_byok": False,
            "prompt_tokens_details": {"cached_tokens": 40, "audio_tokens": 0},
            "cost_details": {"upstream_inference_cost": None},
            "completion_tokens_details": {"reasoning_tokens": 8, "image_tokens": 0},
        },
        {"reasoning": THOUGHT, "refusal": None},
        provider="DeepSeek",
    ),
    counted=counted(100, 20, cached=40, reasoning=8),
    dollars=0.00124,
)

FILTERED = {"hate": {"filtered": False, "severity": "safe"}, "jailbreak": {"filtered": False, "detected": False}}

AZURE = Server(
    family="Azure OpenAI",
    model="azure/gpt-4.1-mini",
    key="AZURE_API_KEY",
    base_url="https://NAME.openai.azure.com",
    path="",
    body=chat(
        OPENAI.body["usage"],
        {"refusal": None},
        prompt_filter_results=[{"prompt_index": 0, "content_filter_results": FILTERED}],
    ),
    counted=counted(100, 20, cached=40, reasoning=8),
    dollars=0.00124,
)

VLLM = Server(
    family="vLLM",
    model="hosted_vllm/NAME",
    base_url="http://HOST:8000/v1",
    thought="`reasoning_content`, later `reasoning`",
    body=chat(
        {**PLAIN, "prompt_tokens_details": {"cached_tokens": 40}},
        {"reasoning_content": THOUGHT, "tool_calls": []},
        prompt_logprobs=None,
        kv_transfer_params=None,
    ),
    counted=counted(100, 20, cached=40),
    dollars=0.00124,
)

SGLANG = Server(
    family="SGLang",
    model="hosted_vllm/NAME",
    base_url="http://HOST:30000/v1",
    thought="`reasoning_content`",
    body=chat(
        {**PLAIN, "prompt_tokens_details": None, "reasoning_tokens": 0},
        {"reasoning_content": THOUGHT, "tool_calls": None},
        metadata={"weight_version": "default"},
    ),
    counted=counted(100, 20),
    dollars=0.0016,
)

LLAMA_CPP = Server(
    family="llama.cpp",
    model="hosted_vllm/NAME",
    base_url="http://HOST:8080/v1",
    thought="`reasoning_content`",
    body=chat(
        PLAIN,
        {"reasoning_content": THOUGHT},
        timings={"cache_n": 40, "prompt_n": 60, "prompt_ms": 30.9, "predicted_n": 20, "predicted_ms": 661.1},
    ),
    counted=counted(100, 20, cached=40),
    dollars=0.00124,
)

LM_STUDIO = Server(
    family="LM Studio",
    model="lm_studio/NAME",
    base_url="http://HOST:1234/v1",
    thought="`reasoning_content`",
    body=chat(
        {**PLAIN, "completion_tokens_details": {"reasoning_tokens": 8}},
        {"reasoning_content": THOUGHT, "tool_calls": []},
        stats={},
    ),
    counted=counted(100, 20, reasoning=8),
    dollars=0.0016,
)

OLLAMA = Server(
    family="Ollama",
    model="ollama_chat/NAME",
    base_url="http://HOST:11434",
    path="",
    thought="`reasoning`",
    body=chat(PLAIN, {"reasoning": THOUGHT}, system_fingerprint="fp_ollama"),
    counted=counted(100, 20),
    dollars=0.0016,
)

TOTAL_ALONE = Server(
    family="a server that reports the total alone",
    is_variant=True,
    model="hosted_vllm/NAME",
    base_url="http://HOST:PORT/v1",
    body=chat({"total_tokens": 120}),
    counted=Usage(calls=1, input=120, unmetered=1),
    dollars=None,
)

SERVERS = {
    "openai": OPENAI,
    "azure": AZURE,
    "anthropic": ANTHROPIC,
    "gemini": GEMINI,
    "gemini-chat": GEMINI_CHAT,
    "xai": XAI,
    "xai-within": XAI_WITHIN,
    "deepseek": DEEPSEEK,
    "moonshot": MOONSHOT,
    "mistral": MISTRAL,
    "groq": GROQ,
    "together": TOGETHER,
    "perplexity": PERPLEXITY,
    "openrouter": OPENROUTER,
    "vllm": VLLM,
    "sglang": SGLANG,
    "llama.cpp": LLAMA_CPP,
    "lm-studio": LM_STUDIO,
    "ollama": OLLAMA,
    "total-alone": TOTAL_ALONE,
}
"""Servers by a short name: those of providers first, then those of one's own."""
