// Command krux-scheduler is kube-scheduler with the Krux plugin: a replacement
// of the default scheduler, or a second one.
//
// The engine comes first: cmake --build --preset release --target krux_engine.
// The static binary is linked with:
//
//	CGO_ENABLED=1 go build -trimpath -tags netgo,osusergo \
//	  -ldflags "-s -w -linkmode external -extldflags -static \
//	    -X krux.io/krux/scheduler/plugin.EngineDigest=$(sha256sum build/release/lib/libkrux_engine.a | cut -c1-16) \
//	    -X k8s.io/component-base/version.gitVersion=v1.37.2 \
//	    -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=37" \
//	  -o build/release/bin/krux-scheduler ./scheduler/plugin/cmd/krux-scheduler
//
// The digest makes Go link again when the engine has changed, which it does not
// see by itself.
package main

import (
	"os"

	"k8s.io/component-base/cli"

	"krux.io/krux/scheduler/plugin"
)

func main() {
	os.Exit(cli.Run(plugin.NewCommand()))
}
