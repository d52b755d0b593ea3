"""Providers of models, by name, for the process: their options are those of ``CREATE MODEL``."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, overload

from funken.dataframe.arguments import integer, number, within

_UNSET: Any = object()
_OVERFLOWS = ("truncated-tail", "truncated-tail-log", "truncated-head", "truncated-head-log", "skipped", "skipped-log")


class ModelProvider(ABC):
    """The location of models: a provider and its options."""

    @abstractmethod
    def provider_identifier(self) -> str:
        """Return the name of the provider, ``openai`` say."""

    @abstractmethod
    def to_options(self) -> dict[str, str]:
        """Return the options as texts."""

    def model_option_key(self) -> str:
        """Return the option that names the model."""
        return "model"


def _named(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{what} must be a string, but got {value!r}.")
    if not value.strip():
        raise ValueError(f"{what} must not be empty or whitespace.")
    return value


def _of(kind: type, given: Mapping[str, Any]) -> dict[str, Any]:
    for what, value in given.items():
        if value is not None and not isinstance(value, kind):
            raise TypeError(f"{what} must be a {kind.__name__}, but got {value!r}.")
    return dict(given)


def _one_of(what: str, value: Any, choices: tuple[str, ...]) -> dict[str, Any]:
    """Return a text in the case of the choice that it equals."""
    _of(str, {what: value})
    if value is None:
        return {}
    found = [one for one in choices if one.lower() == value.lower()]
    if not found:
        raise ValueError(f"{what} must be one of {choices}, but got {value!r}.")
    return {what: found[0]}


def _whole(given: Mapping[str, Any], least: int | None = None, most: int | None = None) -> dict[str, Any]:
    for what, value in given.items():
        if value is not None:
            within(integer(value, what), what, least, most)
    return dict(given)


def _numbers(given: Mapping[str, Any], least: float | None = None, most: float | None = None) -> dict[str, Any]:
    for what, value in given.items():
        if value is not None:
            within(number(value, what), what, least, most)
    return dict(given)


def _texts(options: Mapping[str, Any]) -> dict[str, str]:
    """Return the options that are set, as texts, with hyphens in their names."""
    return {
        key.replace("_", "-"): str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in options.items()
        if value is not None
    }


class OpenAIProvider(ModelProvider):
    """A service with OpenAI's interface, for chat completions or embeddings.

    >>> OpenAIProvider("https://example.test/v1/chat/completions", "key", temperature=0.5).to_options()["temperature"]
    '0.5'
    """

    def __init__(
        self,
        endpoint: str,
        api_key: str,
        *,
        model: str | None = None,
        system_prompt: str | None = None,
        temperature: float | None = None,
        top_p: float | None = None,
        max_tokens: int | None = None,
        stop: str | None = None,
        presence_penalty: float | None = None,
        n: int | None = None,
        seed: int | None = None,
        response_format: str | None = None,
        dimension: int | None = None,
        max_context_size: int | None = None,
        context_overflow_action: str | None = None,
        error_handling_strategy: str | None = None,
        retry_num: int | None = None,
        retry_fallback_strategy: str | None = None,
    ) -> None:
        self._options = _texts(
            {"endpoint": _named(endpoint, "endpoint"), "api_key": _named(api_key, "api_key")}
            | _of(str, {"model": model, "system_prompt": system_prompt, "stop": stop})
            | _numbers({"temperature": temperature})
            | _numbers({"top_p": top_p}, 0, 1)
            | _numbers({"presence_penalty": presence_penalty}, -2, 2)
            | _whole(
                {"max_tokens": max_tokens, "n": n, "dimension": dimension, "max_context_size": max_context_size}, 1
            )
            | _whole({"retry_num": retry_num}, 0)
            | _whole({"seed": seed})
            | _one_of("response_format", response_format, ("text", "json_object"))
            | _one_of("context_overflow_action", context_overflow_action, _OVERFLOWS)
            | _one_of("error_handling_strategy", error_handling_strategy, ("RETRY", "FAILOVER", "IGNORE"))
            | _one_of("retry_fallback_strategy", retry_fallback_strategy, ("FAILOVER", "IGNORE"))
        )

    def provider_identifier(self) -> str:
        """Return ``openai``."""
        return "openai"

    def to_options(self) -> dict[str, str]:
        """Return the options as texts."""
        return dict(self._options)


class TritonProvider(ModelProvider):
    """A Triton inference server.

    >>> TritonProvider("http://localhost:8000", model_name="classifier", max_retries=2).to_options()["max-retries"]
    '2'
    """

    def __init__(
        self,
        endpoint: str,
        *,
        model_name: str | None = None,
        model_version: str | None = None,
        timeout: str | None = None,
        flatten_batch_dim: bool | None = None,
        priority: int | None = None,
        sequence_id: str | None = None,
        sequence_start: bool | None = None,
        sequence_end: bool | None = None,
        compression: str | None = None,
        auth_token: str | None = None,
        custom_headers: Mapping[str, str] | None = None,
        max_retries: int | None = None,
        retry_initial_backoff: str | None = None,
        retry_max_backoff: str | None = None,
        default_value: str | None = None,
        health_check_enabled: bool | None = None,
        health_check_interval: str | None = None,
        circuit_breaker_enabled: bool | None = None,
        circuit_breaker_failure_threshold: float | None = None,
        circuit_breaker_timeout: str | None = None,
        circuit_breaker_half_open_requests: int | None = None,
    ) -> None:
        threshold = circuit_breaker_failure_threshold
        if threshold is not None and number(threshold, "circuit_breaker_failure_threshold") <= 0:
            raise ValueError(f"circuit_breaker_failure_threshold must be greater than 0, got {threshold}.")
        strings = {
            "model_name": model_name,
            "model_version": model_version,
            "timeout": timeout,
            "sequence_id": sequence_id,
            "auth_token": auth_token,
            "retry_initial_backoff": retry_initial_backoff,
            "retry_max_backoff": retry_max_backoff,
            "default_value": default_value,
            "health_check_interval": health_check_interval,
            "circuit_breaker_timeout": circuit_breaker_timeout,
        }
        flags = {
            "flatten_batch_dim": flatten_batch_dim,
            "sequence_start": sequence_start,
            "sequence_end": sequence_end,
            "health_check_enabled": health_check_enabled,
            "circuit_breaker_enabled": circuit_breaker_enabled,
        }
        self._options = _texts(
            {"endpoint": _named(endpoint, "endpoint"), "custom_headers": _headers(custom_headers)}
            | _of(str, strings)
            | _of(bool, flags)
            | _one_of("compression", compression, ("gzip",))
            | _whole({"priority": priority}, 0, 255)
            | _whole({"max_retries": max_retries}, 0)
            | _whole({"circuit_breaker_half_open_requests": circuit_breaker_half_open_requests}, 1)
            | _numbers({"circuit_breaker_failure_threshold": threshold}, None, 1)
        )

    def provider_identifier(self) -> str:
        """Return ``triton``."""
        return "triton"

    def to_options(self) -> dict[str, str]:
        """Return the options as texts."""
        return dict(self._options)

    def model_option_key(self) -> str:
        """Return the option that names the model."""
        return "model-name"


def _headers(headers: Any) -> str | None:
    if headers is None:
        return None
    if not isinstance(headers, Mapping):
        raise TypeError(f"custom_headers must be a mapping of strings to strings, but got {headers!r}.")
    if not all(isinstance(one, str) for pair in headers.items() for one in pair):
        raise TypeError(f"custom_headers must contain string keys and values, but are {dict(headers)!r}.")
    return json.dumps(dict(headers))


class GenericProvider(ModelProvider):
    """A provider by its name, with options as they are.

    >>> GenericProvider("python", function="math:sqrt", **{"max-rows": "5"}).to_options()
    {'function': 'math:sqrt', 'max-rows': '5'}
    """

    def __init__(self, identifier: str, /, **options: str) -> None:
        self._identifier = _named(identifier, "identifier")
        for key, value in options.items():
            if not isinstance(value, str):
                raise TypeError(f"Option {key!r} must have a string value, but has {value!r}.")
        self._options = dict(options)

    def provider_identifier(self) -> str:
        """Return the name of the provider."""
        return self._identifier

    def to_options(self) -> dict[str, str]:
        """Return the options."""
        return dict(self._options)


class _Registry:
    """The providers of the process, in the order of registration."""

    providers: ClassVar[dict[str, ModelProvider]] = {}
    default: str | None = None


@overload
def set_model_provider(provider: ModelProvider, /) -> None: ...
@overload
def set_model_provider(*, provider: ModelProvider) -> None: ...
@overload
def set_model_provider(name: str, provider: ModelProvider) -> None: ...
def set_model_provider(name: Any = _UNSET, provider: Any = _UNSET) -> None:
    """Register a provider under a name, its identifier if there is none; another one of that name is replaced."""
    if provider is _UNSET:
        name, provider = _UNSET, name
    if not isinstance(provider, ModelProvider):
        raise TypeError(
            f"provider must be a ModelProvider, but got {'none' if provider is _UNSET else repr(provider)}."
        )
    _Registry.providers[_named(provider.provider_identifier() if name is _UNSET else name, "name")] = provider


def set_default_model_provider(name: str) -> None:
    """Choose the provider of models that name none."""
    if _named(name, "name") not in _Registry.providers:
        known = ", ".join(_Registry.providers) or "none"
        raise ValueError(
            f"Model provider {name!r} is not registered; there are: {known}. Register it with set_model_provider()."
        )
    _Registry.default = name


def list_model_providers() -> list[str]:
    """Return the names of the providers, in the order of registration."""
    return list(_Registry.providers)
