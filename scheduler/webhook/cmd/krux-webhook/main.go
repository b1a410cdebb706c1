// Command krux-webhook is Krux's admission webhook; see package webhook. It is
// built like krux-scheduler (scheduler/plugin/cmd/krux-scheduler).
package main

import (
	"os"

	"k8s.io/component-base/cli"

	"krux.io/krux/scheduler/webhook"
)

func main() {
	os.Exit(cli.Run(webhook.NewCommand()))
}
