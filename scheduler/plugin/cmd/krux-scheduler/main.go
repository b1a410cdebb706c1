// Command krux-scheduler is kube-scheduler with the Krux plugin: a replacement
// of the default scheduler, or a second one.
//
// The engine comes first: cmake --build --preset release --target krux_engine.
// The static binary is linked with:
//
//	rm -f build/release/bin/krux-scheduler
//	CGO_ENABLED=1 go build -trimpath -tags netgo,osusergo \
//	  -ldflags "-s -w -linkmode external -extldflags -static \
//	    -X k8s.io/component-base/version.gitVersion=v1.37.2 \
//	    -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=37" \
//	  -o build/release/bin/krux-scheduler ./scheduler/plugin/cmd/krux-scheduler
//
// The old binary is removed because Go does not look into C libraries: it would
// keep a binary of which only the engine has changed.
package main

import (
	"os"

	"k8s.io/component-base/cli"

	"krux.io/krux/scheduler/plugin"
)

func main() {
	os.Exit(cli.Run(plugin.NewCommand()))
}
