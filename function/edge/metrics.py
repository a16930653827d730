"""Prometheus metrics of the function: calls, latency, refusals by reason."""

from importlib.metadata import version

from prometheus_client import Counter, Histogram, Info

Info("function_kv_offload_build", "Version.").info({"version": version("function-kv-offload")})
CALLS = Counter(
    "function_kv_offload_calls_total",
    "RunFunction calls by composer and outcome (ok, fatal, bug).",
    ["composer", "outcome"],
)
LATENCY = Histogram(
    "function_kv_offload_call_seconds",
    "Seconds from a parsed request to a built response, by composer.",
    ["composer"],
    buckets=(0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 2.0),
)
REFUSALS = Counter(
    "function_kv_offload_refusals_total",
    "Consumers answered with something other than Wired, by reason.",
    ["reason"],
)
