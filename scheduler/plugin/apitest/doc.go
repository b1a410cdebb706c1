// Package apitest tests krux-scheduler and deploy/manifests against a real
// etcd and kube-apiserver from build/k8s/bin (or $KRUX_KUBE_BIN). Nodes are API
// objects without kubelets. Where the binaries are not there, all tests are
// skipped.
package apitest
