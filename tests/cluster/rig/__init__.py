"""A whole Crossplane control plane and its workload clusters as local processes.

`tests.cluster.rig.up.Rig` puts the parts together; each other module is one part. Nothing here
needs Docker: the programs are built from their Go modules (tests/tools), nodes and pods are
simulated by kwok, everything else is the real thing.
"""
