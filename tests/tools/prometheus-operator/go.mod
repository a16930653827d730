// Holds no program: the PodMonitor CRD comes out of this module's zip.
module tools/prometheus-operator

go 1.26

require github.com/prometheus-operator/prometheus-operator v0.85.0
