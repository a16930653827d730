"""Accelerators: their names (`kinds`), telling one by a pod (`reading`), who serves it (`serving`).

Nothing is imported here: `function.contract.engine` needs the names alone.
"""
