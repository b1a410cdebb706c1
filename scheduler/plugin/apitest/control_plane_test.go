package apitest

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/cli"

	"krux.io/krux/scheduler/plugin"
)

const (
	root      = "../../.."
	asCommand = "KRUX_TEST_AS_SCHEDULER" // this test binary then is krux-scheduler
	patience  = 30 * time.Second
)

// Tokens are also the names of the kubeconfig files.
var users = map[string]string{
	"admin":     `admin,admin,"system:masters"`,
	"scheduler": `system:kube-scheduler,1,""`,
	"node":      `system:node:n1,2,"system:nodes"`,
	"plugin":    `krux-device-plugin:n1,3,"krux:device-plugins"`,
	"tenant":    `alice,4,"tenants"`,
}

type controlPlane struct {
	folder, url string
	processes   []*exec.Cmd
	scheduler   *exec.Cmd
}

var plane *controlPlane

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		os.Exit(cli.Run(plugin.NewCommand()))
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	bin := os.Getenv("KRUX_KUBE_BIN")
	if bin == "" {
		bin = filepath.Join(root, "build/k8s/bin")
	}
	for _, name := range []string{"etcd", "kube-apiserver", "kubectl"} {
		if _, err := os.Stat(filepath.Join(bin, name)); err != nil {
			fmt.Printf("SKIP: %v: scripts/build makes it\n", err)
			return 0
		}
	}
	bin, err := filepath.Abs(bin)
	if err != nil {
		panic(err)
	}
	folder, err := os.MkdirTemp("", "krux-apitest-")
	if err != nil {
		panic(err)
	}
	plane = &controlPlane{folder: folder}
	defer plane.stop()
	if err := plane.start(bin); err != nil {
		fmt.Printf("FAIL: control plane: %v; logs are in %s\n", err, folder)
		return 1
	}
	return m.Run()
}

func freePort() int {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}

func (p *controlPlane) path(name string) string { return filepath.Join(p.folder, name) }

func (p *controlPlane) start(bin string) error {
	if err := p.writeFiles(); err != nil {
		return err
	}
	etcd, peer, port := freePort(), freePort(), freePort()
	etcdURL, peerURL := fmt.Sprintf("http://127.0.0.1:%d", etcd), fmt.Sprintf("http://127.0.0.1:%d", peer)
	p.url = fmt.Sprintf("https://127.0.0.1:%d", port)
	if err := p.writeKubeconfigs(); err != nil {
		return err
	}
	err := p.spawn("etcd", filepath.Join(bin, "etcd"), "--data-dir", p.path("etcd"), "--unsafe-no-fsync",
		"--listen-client-urls", etcdURL, "--advertise-client-urls", etcdURL,
		"--listen-peer-urls", peerURL, "--initial-advertise-peer-urls", peerURL, "--initial-cluster", "default="+peerURL)
	if err != nil {
		return err
	}
	err = p.spawn("apiserver", filepath.Join(bin, "kube-apiserver"), "--etcd-servers", etcdURL,
		"--secure-port", fmt.Sprint(port), "--bind-address", "127.0.0.1", "--cert-dir", p.path("certs"),
		"--token-auth-file", p.path("tokens.csv"), "--service-account-issuer", "https://krux.test",
		"--service-account-key-file", p.path("sa.key"), "--service-account-signing-key-file", p.path("sa.key"),
		"--authorization-mode", "Node,RBAC", "--enable-admission-plugins", "NodeRestriction",
		"--disable-admission-plugins", "ServiceAccount,TaintNodesByCondition", "--endpoint-reconciler-type", "none")
	if err != nil {
		return err
	}
	if err := p.waitReady(); err != nil {
		return err
	}
	if err := p.kubectl(bin, "apply", "-f", filepath.Join(root, "deploy/manifests")); err != nil {
		return err
	}
	// The role "edit" itself is filled by a controller that does not run here.
	err = p.kubectl(bin, "create", "clusterrolebinding", "tenant", "--clusterrole=system:aggregate-to-edit", "--user=alice")
	if err != nil {
		return err
	}
	return p.startScheduler()
}

func (p *controlPlane) writeFiles() error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	block := &pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}
	if err := os.WriteFile(p.path("sa.key"), pem.EncodeToMemory(block), 0o600); err != nil {
		return err
	}
	var tokens strings.Builder
	for token, user := range users {
		fmt.Fprintf(&tokens, "%s,%s\n", token, user)
	}
	if err := os.WriteFile(p.path("tokens.csv"), []byte(tokens.String()), 0o600); err != nil {
		return err
	}
	config, err := os.ReadFile(filepath.Join(root, "deploy/config/scheduler.yaml"))
	if err != nil {
		return err
	}
	text := strings.ReplaceAll(string(config), "/etc/kubernetes/scheduler.conf", p.path("scheduler"))
	text = strings.ReplaceAll(text, "leaderElect: true", "leaderElect: false")
	return os.WriteFile(p.path("scheduler.yaml"), []byte(text), 0o600)
}

func (p *controlPlane) writeKubeconfigs() error {
	for token := range users {
		text := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q, insecure-skip-tls-verify: true}}]
users: [{name: u, user: {token: %q}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
current-context: c
`, p.url, token)
		if err := os.WriteFile(p.path(token), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

func (p *controlPlane) command(log, program string, args ...string) (*exec.Cmd, error) {
	file, err := os.OpenFile(p.path(log+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = file, file
	// Ends with the tests, however they end.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd, cmd.Start()
}

func (p *controlPlane) spawn(log, program string, args ...string) error {
	cmd, err := p.command(log, program, args...)
	if err == nil {
		p.processes = append(p.processes, cmd)
	}
	return err
}

func (p *controlPlane) kubectl(bin string, args ...string) error {
	cmd := exec.Command(filepath.Join(bin, "kubectl"), append([]string{"--kubeconfig", p.path("admin")}, args...)...)
	cmd.Env = append(os.Environ(), "KUBECACHEDIR="+p.path("cache"), "HOME="+p.folder)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

func (p *controlPlane) waitReady() error {
	client := kubernetes.NewForConfigOrDie(p.config("admin"))
	var err error
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if _, err = client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(context.Background()); err == nil {
			return nil
		}
	}
	return err
}

func (p *controlPlane) startScheduler() error {
	executable, err := os.Executable()
	if err != nil {
		return err
	}
	if err := os.Setenv(asCommand, "1"); err != nil {
		return err
	}
	defer os.Unsetenv(asCommand)
	p.scheduler, err = p.command("scheduler", executable, "--config", p.path("scheduler.yaml"), "-v=2",
		"--secure-port", fmt.Sprint(freePort()), "--bind-address", "127.0.0.1", "--cert-dir", p.path("scheduler-certs"),
		"--authentication-skip-lookup", "--authorization-kubeconfig", p.path("scheduler"))
	return err
}

func (p *controlPlane) killScheduler() {
	if p.scheduler != nil {
		_ = p.scheduler.Process.Kill()
		_ = p.scheduler.Wait()
		p.scheduler = nil
	}
}

func (p *controlPlane) stop() {
	p.killScheduler()
	for i := len(p.processes) - 1; i >= 0; i-- {
		_ = p.processes[i].Process.Kill()
		_ = p.processes[i].Wait()
	}
	if os.Getenv("KRUX_KEEP") == "" {
		_ = os.RemoveAll(p.folder)
	}
}

func (p *controlPlane) config(token string) *rest.Config {
	return &rest.Config{
		Host: p.url, BearerToken: token, QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{Insecure: true},
	}
}

func client(t *testing.T, token string) *kubernetes.Clientset {
	t.Helper()
	c, err := kubernetes.NewForConfig(plane.config(token))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func dynamicClient(t *testing.T, token string) *dynamic.DynamicClient {
	t.Helper()
	c, err := dynamic.NewForConfig(plane.config(token))
	if err != nil {
		t.Fatal(err)
	}
	return c
}
