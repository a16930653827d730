"""The flags of `mooncake_master` 0.3.13 that users may set.

Read from the binary's own help; an unknown flag stops it. A value is checked by its type as the
binary parses it.
"""

import re

_INTEGERS = """
batch_oplog_retry_timeout_sec dynamic_replication_heat_window_seconds max_kv_soft_pin_ttl
max_retry_attempts max_total_finished_tasks max_total_pending_tasks max_total_processing_tasks
mmap_arena_pool_size nof_heartbeat_failures_threshold nof_heartbeat_interval_sec
nof_heartbeat_probe_timeout_ms offloading_queue_limit oplog_batch_max_entries
oplog_poll_interval_ms pending_task_timeout_sec processing_task_timeout_sec
promotion_admission_threshold promotion_max_per_heartbeat promotion_queue_limit
put_start_discard_timeout_sec put_start_release_timeout_sec quota_bytes rpc_conn_timeout_seconds
global_file_segment_size v minloglevel
"""
_NUMBERS = "nof_eviction_high_watermark_ratio nof_eviction_ratio offload_cap_ratio"
_BOOLEANS = """
enable_disk_eviction enable_metadata_cleanup_on_timeout enable_metric_reporting
offload_force_evict offload_on_evict promotion_on_hit
rpc_enable_tcp_no_delay use_mmap_arena_allocator
"""
_TEXTS = "memory_allocator root_fs_dir"

_TYPES: tuple[tuple[str, str, str], ...] = (
    (_INTEGERS, r"[0-9]{1,19}", "a whole number"),
    (_NUMBERS, r"[0-9]+(\.[0-9]+)?", "a number"),
    (_BOOLEANS, r"true|false", "true or false"),
    (_TEXTS, r".*", "a text"),
)
_KNOWN = {
    name: (re.compile(pattern), kind) for names, pattern, kind in _TYPES for name in names.split()
}
_CHOICES = {"memory_allocator": ("offset", "cachelib")}

# Flags that the tier sets from its own fields.
OWNED = {
    "allocation_strategy": "allocationStrategy",
    "allow_evict_soft_pinned_objects": "master.eviction.evictSoftPinned",
    "client_ttl": "master.clientTtlSeconds",
    "cluster_id": "the tier's name",
    "default_kv_lease_ttl": "master.eviction.leaseSeconds",
    "default_kv_soft_pin_ttl": "master.eviction.softPinSeconds",
    "dynamic_replication_admission_qps_threshold": "master.replication.readsPerMinute",
    "dynamic_replication_heat_window_seconds": "master.replication.windowSeconds",
    "dynamic_replication_max_memory_replicas": "master.replication.maxReplicas",
    "dynamic_replication_mode": "master.replication.mode",
    "enable_ha": "master.replicas",
    "enable_http_metadata_server": "metadata",
    "enable_multi_tenants": "tenants",
    "enable_offload": "store.offload",
    "enable_oplog": "master.oplog",
    "etcd_endpoints": "etcd",
    "eviction_high_watermark_ratio": "master.eviction.highWatermarkPercent",
    "eviction_ratio": "master.eviction.evictPercent",
    "ha_backend_connstring": "etcd",
    "ha_backend_type": "etcd",
    "http_metadata_server_port": "ports.metadata",
    "logtostderr": "the function, always to true",
    "max_threads": "master.rpcThreads",
    "metrics_port": "ports.admin",
    "port": "ports.rpc",
    "rpc_address": "the pod's own address",
    "rpc_port": "ports.rpc",
    "rpc_thread_num": "master.rpcThreads",
    "tenant_quota_connector_type": "tenants",
    "tenant_quota_connector_uri": "tenants",
}

_SNAPSHOT = (
    "does not work in 0.3.13: a restore drops all blocks with ended leases. Use master.oplog"
)
_SNAPSHOTS = """
enable_snapshot enable_snapshot_restore snapshot_backup_dir snapshot_catalog_store_connstring
snapshot_catalog_store_type snapshot_child_timeout_seconds snapshot_interval_seconds
snapshot_object_store_type snapshot_payload_store_type snapshot_retention_count
"""
# Flags that the binary accepts, with harm.
UNSAFE = {
    "config_path": "names a file that the pod does not have: use flags",
    "flagfile": "names a file that the pod does not have: use flags",
    "enable_kv_events": "is accepted without effect: the wheels are built without it",
    **dict.fromkeys(_SNAPSHOTS.split(), _SNAPSHOT),
}


def find_problem(name: str, value: str) -> str:
    """Return the problem of a flag and its value, "" for a valid one."""
    if name not in _KNOWN:
        return "is not a settable flag of mooncake_master: an unknown flag stops the master"
    pattern, kind = _KNOWN[name]
    if not pattern.fullmatch(value):
        return f"must be {kind}, not {value!r}"
    choices = _CHOICES.get(name)
    if choices and value not in choices:
        return f"must be one of {', '.join(choices)}, not {value!r}"
    return ""
