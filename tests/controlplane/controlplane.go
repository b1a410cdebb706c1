// Package controlplane starts a real etcd, kube-apiserver and krux-scheduler in
// a temporary folder on free ports of 127.0.0.1, for tests and benchmarks that
// need no node: nodes are API objects, and nobody plays the kubelet.
//
// Scheduler and webhook are the calling program itself, started again: its main
// (or TestMain) calls RunAs first. So what is measured or tested is the
// code at hand, never an older binary. One goroutine drives a Plane.
package controlplane

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/cli"

	"krux.io/krux/scheduler/plugin"
	"krux.io/krux/scheduler/webhook"
)

const (
	asCommand = "KRUX_TEST_AS" // "scheduler" or "webhook"
	patience  = 30 * time.Second
)

// ErrNotBuilt says that the Kubernetes binaries are missing.
var ErrNotBuilt = errors.New("scripts/build makes it")

// Tokens are also the names of the kubeconfig files.
var users = map[string]string{
	"admin":     `admin,admin,"system:masters"`,
	"scheduler": `system:kube-scheduler,1,""`,
	"node":      `system:node:n1,2,"system:nodes"`,
	"plugin":    `krux-device-plugin:n1,3,"krux:device-plugins"`,
	"tenant":    `alice,4,"tenants"`,
	"webhook":   `krux:webhook,5,""`,
	"second":    `system:serviceaccount:krux-system:krux-scheduler,6,"system:serviceaccounts,system:authenticated"`,
}

// RunAs turns this process into krux-scheduler or krux-webhook when a Plane has
// started it as such; else it returns.
func RunAs() {
	switch os.Getenv(asCommand) {
	case "scheduler":
		os.Exit(cli.Run(plugin.NewCommand()))
	case "webhook":
		os.Exit(cli.Run(webhook.NewCommand()))
	}
}

// Plane is a running control plane.
type Plane struct {
	// Root is the repository's folder, URL the API server's address.
	Root, URL string
	// SchedulerURL serves the running scheduler's /metrics and /debug/pprof to anybody here.
	SchedulerURL string

	bin, folder string
	processes   []*exec.Cmd
	scheduler   *exec.Cmd
	webhook     *exec.Cmd
	replicas    map[string]*exec.Cmd
}

// New starts etcd and the API server and installs deploy/manifests. root is
// the repository's folder. The caller stops it, also after an error, unless
// the error is ErrNotBuilt.
func New(root string) (*Plane, error) {
	bin := os.Getenv("KRUX_KUBE_BIN")
	if bin == "" {
		bin = filepath.Join(root, "build/k8s/bin")
	}
	bin, err := filepath.Abs(bin)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"etcd", "kube-apiserver", "kubectl"} {
		if _, err := os.Stat(filepath.Join(bin, name)); err != nil {
			return nil, fmt.Errorf("%w: %w", err, ErrNotBuilt)
		}
	}
	folder, err := os.MkdirTemp("", "krux-controlplane-")
	if err != nil {
		return nil, err
	}
	p := &Plane{Root: root, bin: bin, folder: folder}
	if err := p.start(); err != nil {
		return p, fmt.Errorf("control plane: %w; logs are in %s", err, folder)
	}
	return p, nil
}

func freePort() int {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}

// Path of a file in the plane's folder.
func (p *Plane) Path(name string) string { return filepath.Join(p.folder, name) }

func (p *Plane) start() error {
	etcd, peer, port := freePort(), freePort(), freePort()
	etcdURL, peerURL := fmt.Sprintf("http://127.0.0.1:%d", etcd), fmt.Sprintf("http://127.0.0.1:%d", peer)
	p.URL = fmt.Sprintf("https://127.0.0.1:%d", port)
	if err := p.writeFiles(); err != nil {
		return err
	}
	err := p.spawn("etcd", filepath.Join(p.bin, "etcd"), "--data-dir", p.Path("etcd"), "--unsafe-no-fsync",
		"--listen-client-urls", etcdURL, "--advertise-client-urls", etcdURL, "--log-level", "warn",
		"--listen-peer-urls", peerURL, "--initial-advertise-peer-urls", peerURL, "--initial-cluster", "default="+peerURL)
	if err != nil {
		return err
	}
	err = p.spawn("apiserver", filepath.Join(p.bin, "kube-apiserver"), "--etcd-servers", etcdURL,
		"--secure-port", fmt.Sprint(port), "--bind-address", "127.0.0.1", "--cert-dir", p.Path("certs"),
		"--token-auth-file", p.Path("tokens.csv"), "--service-account-issuer", "https://krux.test",
		"--service-account-key-file", p.Path("sa.key"), "--service-account-signing-key-file", p.Path("sa.key"),
		"--authorization-mode", "Node,RBAC", "--enable-admission-plugins", "NodeRestriction", "--allow-privileged",
		"--disable-admission-plugins", "ServiceAccount,TaintNodesByCondition", "--endpoint-reconciler-type", "none",
		// PodGroups are off by default in 1.37.
		"--feature-gates", "GenericWorkload=true", "--runtime-config", "scheduling.k8s.io/v1beta1=true")
	if err != nil {
		return err
	}
	if err := p.waitReady(); err != nil {
		return err
	}
	if _, err := p.Kubectl("apply", "-f", filepath.Join(p.Root, "deploy/manifests")); err != nil {
		return err
	}
	// The role "edit" itself is filled by a controller that does not run here.
	_, err = p.Kubectl("create", "clusterrolebinding", "tenant", "--clusterrole=system:aggregate-to-edit", "--user=alice")
	return err
}

func (p *Plane) writeFiles() error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	block := &pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}
	if err := os.WriteFile(p.Path("sa.key"), pem.EncodeToMemory(block), 0o600); err != nil {
		return err
	}
	var tokens strings.Builder
	for token, user := range users {
		fmt.Fprintf(&tokens, "%s,%s\n", token, user)
		if err := p.writeKubeconfig(token); err != nil {
			return err
		}
	}
	return os.WriteFile(p.Path("tokens.csv"), []byte(tokens.String()), 0o600)
}

func (p *Plane) writeKubeconfig(token string) error {
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q, insecure-skip-tls-verify: true}}]
users: [{name: u, user: {token: %q}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
current-context: c
`, p.URL, token)
	return os.WriteFile(p.Path(token), []byte(text), 0o600)
}

func (p *Plane) command(log, program string, args ...string) (*exec.Cmd, error) {
	file, err := os.OpenFile(p.Path(log+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = file, file
	// Ends with the caller, however that ends.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd, cmd.Start()
}

func (p *Plane) spawn(log, program string, args ...string) error {
	cmd, err := p.command(log, program, args...)
	if err == nil {
		p.processes = append(p.processes, cmd)
	}
	return err
}

// Kubectl runs kubectl as administrator and gives what it prints.
func (p *Plane) Kubectl(args ...string) (string, error) {
	cmd := exec.Command(filepath.Join(p.bin, "kubectl"), append([]string{"--kubeconfig", p.Path("admin")}, args...)...)
	cmd.Env = append(os.Environ(), "KUBECACHEDIR="+p.Path("cache"), "HOME="+p.folder)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

func (p *Plane) waitReady() error {
	client := kubernetes.NewForConfigOrDie(p.Config("admin"))
	var err error
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if _, err = client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(context.Background()); err == nil {
			return nil
		}
	}
	return err
}

// SchedulerConfig is deploy/config/scheduler.yaml with this plane's
// credentials and without a leader to elect.
func (p *Plane) SchedulerConfig() (string, error) {
	config, err := os.ReadFile(filepath.Join(p.Root, "deploy/config/scheduler.yaml"))
	if err != nil {
		return "", err
	}
	text := strings.ReplaceAll(string(config), "/etc/kubernetes/scheduler.conf", p.Path("scheduler"))
	return strings.ReplaceAll(text, "leaderElect: true", "leaderElect: false"), nil
}

// StartScheduler starts the scheduler with a KubeSchedulerConfiguration and
// further flags.
func (p *Plane) StartScheduler(config string, flags ...string) error {
	if err := os.WriteFile(p.Path("scheduler.yaml"), []byte(config), 0o600); err != nil {
		return err
	}
	port := freePort()
	p.SchedulerURL = fmt.Sprintf("https://127.0.0.1:%d", port)
	var err error
	p.scheduler, err = p.again("scheduler", append(flags, "--config", p.Path("scheduler.yaml"), "-v=2",
		"--secure-port", fmt.Sprint(port), "--bind-address", "127.0.0.1", "--cert-dir", p.Path("scheduler-certs"),
		"--authentication-skip-lookup", "--authorization-kubeconfig", p.Path("scheduler"),
		"--authorization-always-allow-paths", "/healthz,/readyz,/livez,/metrics,/debug/*")...)
	return err
}

// again starts this program as another.
func (p *Plane) again(as string, args ...string) (*exec.Cmd, error) {
	return p.againLogged(as, as, args...)
}

func (p *Plane) againLogged(log, as string, args ...string) (*exec.Cmd, error) {
	executable, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if err := os.Setenv(asCommand, as); err != nil {
		return nil, err
	}
	defer os.Unsetenv(asCommand)
	return p.command(log, executable, args...)
}

// StartWebhook starts the webhook with these flags; it registers itself.
func (p *Plane) StartWebhook(flags ...string) error {
	port := freePort()
	flags = append(flags, "--kubeconfig", p.Path("webhook"), "--listen", fmt.Sprintf("127.0.0.1:%d", port),
		"--url", fmt.Sprintf("https://127.0.0.1:%d", port))
	var err error
	p.webhook, err = p.again("webhook", flags...)
	return err
}

// KillWebhook ends it as a crash would: it stays registered.
func (p *Plane) KillWebhook() { kill(&p.webhook) }

func kill(cmd **exec.Cmd) {
	if *cmd != nil {
		_ = (*cmd).Process.Kill()
		_ = (*cmd).Wait()
		*cmd = nil
	}
}

// StartReplica starts a further scheduler; its log is NAME.log in the folder.
func (p *Plane) StartReplica(name, config string) error {
	file := p.Path(name + ".yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return err
	}
	cmd, err := p.againLogged(name, "scheduler", "--config", file, "-v=2", "--secure-port", fmt.Sprint(freePort()),
		"--bind-address", "127.0.0.1", "--cert-dir", p.Path(name+"-certs"), "--authentication-skip-lookup",
		"--authorization-kubeconfig", p.Path("scheduler"))
	if p.replicas == nil {
		p.replicas = map[string]*exec.Cmd{}
	}
	p.replicas[name] = cmd
	return err
}

// KillReplica ends it as a crash would, and gives its log.
func (p *Plane) KillReplica(name string) string {
	cmd := p.replicas[name]
	delete(p.replicas, name)
	kill(&cmd)
	log, _ := os.ReadFile(p.Path(name + ".log"))
	return string(log)
}

// SchedulerPID is 0 when none runs.
func (p *Plane) SchedulerPID() int {
	if p.scheduler == nil {
		return 0
	}
	return p.scheduler.Process.Pid
}

// KillScheduler ends it as a crash would.
func (p *Plane) KillScheduler() { kill(&p.scheduler) }

// Stop ends everything. KRUX_KEEP=1 keeps the folder with its logs.
func (p *Plane) Stop() {
	p.KillScheduler()
	p.KillWebhook()
	for name := range p.replicas {
		p.KillReplica(name)
	}
	for i := len(p.processes) - 1; i >= 0; i-- {
		_ = p.processes[i].Process.Kill()
		_ = p.processes[i].Wait()
	}
	if os.Getenv("KRUX_KEEP") == "" {
		_ = os.RemoveAll(p.folder)
	}
}

// Config of a client without a rate limit; token is a user of this package.
func (p *Plane) Config(token string) *rest.Config {
	return &rest.Config{
		Host: p.URL, BearerToken: token, QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{Insecure: true},
	}
}
