"""Messages that rows of conflicts share between backends."""

UNKNOWN_MODEL = (
    "The weights behind the model argument ({found}) are unknown. Engines with other weights under "
    "one name would read each other's blocks. Set the annotation "
    "modelplane.ai/kv-offload-cache-identity."
)
EXPANDABLE_SEGMENTS = (
    "{found} sets expandable_segments:True: vLLM then does not start with a connector. Remove it."
)
LORA = (
    "{found}: block keys contain only the adapters' names, not their weights. Run LoRA adapters "
    "without this tier."
)
