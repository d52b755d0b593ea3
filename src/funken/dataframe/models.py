"""Providers of models, by name, for the process: their options are those of ``CREATE MODEL``."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar


class ModelProvider(ABC):
    """Where models are: a provider and its options."""

    @abstractmethod
    def provider_identifier(self) -> str:
        """Return the name of the provider, ``openai`` say."""

    @abstractmethod
    def to_options(self) -> dict[str, str]:
        """Return the options as texts."""

    def model_option_key(self) -> str:
        """Return the option that names the model."""
        return "model"


def _texts(options: Mapping[str, Any]) -> dict[str, str]:
    """Return the options that are set, as texts, with hyphens in their names."""
    return {
        key.replace("_", "-"): str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in options.items()
        if value is not None
    }


class _Configured(ModelProvider):
    """A provider with options that are known by name."""

    _identifier = ""
    _known: frozenset[str] = frozenset()

    def __init__(self, endpoint: str, given: Mapping[str, Any]) -> None:
        if not isinstance(endpoint, str) or not endpoint.strip():
            raise ValueError(f"endpoint must be a URL, but got {endpoint!r}.")
        unknown = sorted(set(given) - self._known)
        if unknown:
            raise TypeError(
                f"{type(self).__name__} has no parameter {unknown[0]!r}; it has: {', '.join(sorted(self._known))}."
            )
        self._options = _texts({"endpoint": endpoint, **given})

    def provider_identifier(self) -> str:
        """Return the name of the provider."""
        return self._identifier

    def to_options(self) -> dict[str, str]:
        """Return the options as texts."""
        return dict(self._options)


class OpenAIProvider(_Configured):
    """A service with OpenAI's interface, for chat completions or embeddings.

    >>> OpenAIProvider("https://example.test/v1/chat/completions", "key", temperature=0.5).to_options()["temperature"]
    '0.5'
    """

    _identifier = "openai"
    _known = frozenset(
        (
            "model", "system_prompt", "temperature", "top_p", "max_tokens", "stop", "presence_penalty", "n", "seed",
            "response_format", "dimension", "max_context_size", "context_overflow_action", "error_handling_strategy",
            "retry_num", "retry_fallback_strategy",
        )
    )  # fmt: skip

    def __init__(self, endpoint: str, api_key: str, **parameters: Any) -> None:
        super().__init__(endpoint, parameters)
        self._options["api-key"] = api_key


class TritonProvider(_Configured):
    """A Triton inference server."""

    _identifier = "triton"
    _known = frozenset(
        (
            "model_name", "model_version", "timeout", "flatten_batch_dim", "priority", "sequence_id", "sequence_start",
            "sequence_end", "compression", "auth_token", "custom_headers", "max_retries", "retry_initial_backoff",
            "retry_max_backoff", "default_value", "health_check_enabled", "health_check_interval",
            "circuit_breaker_enabled", "circuit_breaker_failure_threshold", "circuit_breaker_timeout",
        )
    )  # fmt: skip

    def __init__(self, endpoint: str, **parameters: Any) -> None:
        headers = parameters.get("custom_headers")
        if headers is not None:
            parameters = {**parameters, "custom_headers": json.dumps(dict(headers))}
        super().__init__(endpoint, parameters)

    def model_option_key(self) -> str:
        """Return the option that names the model."""
        return "model-name"


class GenericProvider(ModelProvider):
    """A provider by its name, with options as they are.

    >>> GenericProvider("python", {"function": "math:sqrt"}).to_options()
    {'function': 'math:sqrt'}
    """

    def __init__(self, provider: str, options: Mapping[str, str]) -> None:
        if not isinstance(provider, str) or not provider.strip():
            raise ValueError(f"provider must be a name, but got {provider!r}.")
        if not all(isinstance(one, str) for pair in options.items() for one in pair):
            raise TypeError(f"options are a dict of texts, but got {options!r}.")
        self._provider = provider
        self._options = dict(options)

    def provider_identifier(self) -> str:
        """Return the name of the provider."""
        return self._provider

    def to_options(self) -> dict[str, str]:
        """Return the options."""
        return dict(self._options)


class _Registry:
    """The providers of the process, in the order of registration."""

    providers: ClassVar[dict[str, ModelProvider]] = {}
    default: str | None = None


def set_model_provider(name: str, provider: ModelProvider) -> None:
    """Register a provider under a name; another one of that name is replaced."""
    if not isinstance(name, str) or not name.strip():
        raise ValueError(f"the name of a provider must not be empty, but got {name!r}.")
    if not isinstance(provider, ModelProvider):
        raise TypeError(f"provider must be a ModelProvider, but got a {type(provider).__name__}.")
    _Registry.providers[name] = provider


def set_default_model_provider(name: str) -> None:
    """Choose the provider of models that name none."""
    if name not in _Registry.providers:
        known = ", ".join(_Registry.providers) or "none"
        raise ValueError(
            f"provider {name!r} is unknown; registered are: {known}. Register it with set_model_provider()."
        )
    _Registry.default = name


def list_model_providers() -> list[str]:
    """Return the names of the providers, in the order of registration."""
    return list(_Registry.providers)


__all__ = [
    "GenericProvider",
    "ModelProvider",
    "OpenAIProvider",
    "TritonProvider",
    "list_model_providers",
    "set_default_model_provider",
    "set_model_provider",
]
