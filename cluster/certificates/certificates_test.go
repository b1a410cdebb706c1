package certificates

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"testing"
)

func written(t *testing.T) (string, *x509.CertPool) {
	t.Helper()
	folder := t.TempDir()
	if err := Write(folder, net.IPv4(10, 250, 0, 1)); err != nil {
		t.Fatal(err)
	}
	pem, err := os.ReadFile(filepath.Join(folder, "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		t.Fatal("ca.crt holds no certificate")
	}
	return folder, roots
}

func load(t *testing.T, folder, name string) *x509.Certificate {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(filepath.Join(folder, name+".crt"), filepath.Join(folder, name+".key"))
	if err != nil {
		t.Fatal(err)
	}
	return pair.Leaf
}

func TestServerIsTrustedAtItsAddressOnly(t *testing.T) {
	folder, roots := written(t)
	server := load(t, folder, "apiserver")
	for name, trusted := range map[string]bool{"10.250.0.1": true, "127.0.0.1": true, "localhost": true, "10.250.0.2": false} {
		_, err := server.Verify(x509.VerifyOptions{Roots: roots, DNSName: name})
		if (err == nil) != trusted {
			t.Errorf("server at %s: %v, want trusted %v", name, err, trusted)
		}
	}
}

func TestKubeletClientIsAClientAndNoServer(t *testing.T) {
	folder, roots := written(t)
	client := load(t, folder, "kubelet-client")
	options := x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	if _, err := client.Verify(options); err != nil {
		t.Error(err)
	}
	if _, err := client.Verify(x509.VerifyOptions{Roots: roots}); err == nil {
		t.Error("the client's certificate passes as a server's")
	}
}

func TestPrivateKeysAreForTheirOwnerOnly(t *testing.T) {
	folder, _ := written(t)
	keys, err := filepath.Glob(filepath.Join(folder, "*.key"))
	if err != nil || len(keys) != 4 {
		t.Fatalf("keys %v, %v: want 4", keys, err)
	}
	for _, key := range keys {
		if info, err := os.Stat(key); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v: want mode 0600", key, info.Mode(), err)
		}
	}
}
