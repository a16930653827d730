"""Redaction hides every credential and changes nothing else."""

import pytest

from function.problems import Refused
from function.reasons import Reason
from function.redact import is_credential, redacted

TEXTS = {
    "--api-key abcdefgh1234 x": "--api-key (hidden) x",
    "--api-key=abcd1234": "--api-key=(hidden)",
    "the user's extra_config.secret_key is 'wJalrXUtn', the tier's": (
        "the user's extra_config.secret_key is '(hidden)', the tier's"
    ),
    "AKIAIOSFODNN7EXAMPLE": "(hidden)",
    "redis://u:pass@h:1": "redis://(hidden)@h:1",
    "https://ghs@h/x": "https://(hidden)@h/x",
    "image user:pa:ss@registry.io/vllm:v1": "image user(hidden)@registry.io/vllm:v1",
    '{"access_key":"abcd","secret_key":"efgh"}': (
        '{"access_key":"(hidden)","secret_key":"(hidden)"}'
    ),
    "HF_TOKEN hf_abcdefghijklmnopqrstuvwx": "HF_TOKEN (hidden)",
    "env LMCACHE_RESP_PASSWORD is hunter22": "env LMCACHE_RESP_PASSWORD is (hidden)",
}
PLAIN = (
    "spec.lmcache.chunkTokens is 256",
    "--max-num-batched-tokens 8192",
    "LMCache takes a Valkey's password in an argument only, where everyone may read it",
    "authSecret must be that of l2[0]: an agent has one password for all of its Redis levels",
    "--served-model-name token-counter",
    "vllm/vllm-openai:v0.33.0@sha256:0123 known by its image",
    "registry:5000/vllm@sha256:0123",
    "oci://registry/vllm, by a@example.org: x",
)


@pytest.mark.parametrize("text", TEXTS)
def test_credentials_are_hidden(text: str) -> None:
    assert redacted(text) == TEXTS[text]
    assert redacted(redacted(text)) == TEXTS[text]
    assert str(Refused(Reason.CONNECTOR_CONFLICT, text)) == TEXTS[text]


@pytest.mark.parametrize("text", PLAIN)
def test_other_text_is_unchanged(text: str) -> None:
    assert redacted(text) == text


def test_credential_names_are_recognised() -> None:
    yes = "password secret_key aws_secret_access_key token apiKey api_key sas_token account_key"
    no = "chunk_tokens key master_key_path key_prefix tokens secretName"
    assert [name for name in yes.split() if not is_credential(name)] == []
    assert [name for name in no.split() if is_credential(name)] == []
