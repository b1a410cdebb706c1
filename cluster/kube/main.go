// Command kube is the Kubernetes of Krux's own one-machine clusters: one
// multi-call binary that acts by the name it is called by, or by its first
// argument. One file instead of five keeps an offline bundle small, because
// the five share most of their packages.
package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"

	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"

	"krux.io/krux/cluster/certificates"
	"krux.io/krux/scheduler/plugin"
	"krux.io/krux/scheduler/webhook"
)

// applets maps each name to what it does; the value returned is the exit code.
var applets = map[string]func() int{
	"kube-apiserver":          func() int { return cli.Run(apiserver.NewAPIServerCommand()) },
	"kube-controller-manager": func() int { return cli.Run(controllers.NewControllerManagerCommand()) },
	"krux-scheduler":          func() int { return cli.Run(plugin.NewCommand()) },
	"krux-webhook":            func() int { return cli.Run(webhook.NewCommand()) },
	"kubelet":                 func() int { return cli.Run(kubelet.NewKubeletCommand(context.Background())) },
	"kubectl":                 runKubectl,
	"make-certificates":       makeCertificates,
}

func runKubectl() int {
	// kubectl reads its verbosity before cobra parses flags; its own main does the same.
	_, _ = logs.GlogSetter(kubectl.GetLogVerbosity(os.Args))
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		kubectlutil.CheckErr(err) // prints the error as kubectl does, and exits
	}
	return 0
}

func makeCertificates() int {
	if len(os.Args) != 3 || net.ParseIP(os.Args[2]) == nil {
		fmt.Fprintln(os.Stderr, "usage: make-certificates FOLDER API-SERVER-IP")
		return 2
	}
	if err := certificates.Write(os.Args[1], net.ParseIP(os.Args[2])); err != nil {
		fmt.Fprintln(os.Stderr, "make-certificates:", err)
		return 1
	}
	return 0
}

// pickApplet finds the applet by the program's own name, else by the first
// argument, which it then removes.
func pickApplet() (func() int, bool) {
	if applet, ok := applets[filepath.Base(os.Args[0])]; ok {
		return applet, true
	}
	if len(os.Args) < 2 {
		return nil, false
	}
	applet, ok := applets[os.Args[1]]
	if ok {
		os.Args = os.Args[1:]
	}
	return applet, ok
}

func main() {
	applet, ok := pickApplet()
	if !ok {
		names := make([]string, 0, len(applets))
		for name := range applets {
			names = append(names, name)
		}
		slices.Sort(names)
		fmt.Fprintf(os.Stderr, "kube: call it as, or with a first argument of: %s\n", strings.Join(names, ", "))
		os.Exit(2)
	}
	os.Exit(applet())
}
