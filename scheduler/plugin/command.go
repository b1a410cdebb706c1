package plugin

import (
	"github.com/spf13/cobra"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // version metric
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
)

// NewCommand is kube-scheduler's own command with the plugin registered. The
// plugin works where the KubeSchedulerConfiguration enables it
// (deploy/config/scheduler.yaml).
func NewCommand() *cobra.Command {
	command := app.NewSchedulerCommand(app.WithPlugin(Name, New))
	command.Use = "krux-scheduler"
	return command
}
