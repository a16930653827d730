"""Behind Modelplane's own functions: its deployments and shapes of ours, wired by ours.

    make modelplane MODELPLANE=DIR

DIR is a checkout of Modelplane at a pinned commit (pins.py), whose files are checked before any of
it runs; nothing of its code is here. Its functions serve in processes of their own, and our own
render engine runs its Compositions, ModelDeployment to ModelReplica to Objects, with our step
appended as `kv-offload add-step` does it.
"""
