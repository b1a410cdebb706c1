package webhook

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes/fake"
)

func verify(t *testing.T, id *identity, authorities []byte, now time.Time) error {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authorities)
	_, err := id.certificate.Leaf.Verify(x509.VerifyOptions{Roots: pool, CurrentTime: now, DNSName: "krux-webhook.krux-system.svc"})
	return err
}

// A certificate is kept while it is good, renewed in time, and both the old and
// the new one verify with the authorities that the API server then has.
func TestCertificateIsMadeKeptAndRenewed(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	client := fake.NewClientset()
	k := &keeper{client, "krux-system", []string{"krux-webhook.krux-system.svc"}, func() time.Time { return now }}
	ensure := func() *identity {
		t.Helper()
		id, err := k.ensure(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	first := ensure()
	if err := verify(t, first, first.authorities, now); err != nil {
		t.Error(err)
	}
	now = now.Add(lifetime - renewBefore - 2*clockSkew)
	if again := ensure(); !bytes.Equal(again.certificate.Certificate[0], first.certificate.Certificate[0]) {
		t.Error("a good certificate was replaced")
	}
	now = now.Add(3 * clockSkew)
	second := ensure()
	if bytes.Equal(second.certificate.Certificate[0], first.certificate.Certificate[0]) {
		t.Fatal("an old certificate was kept")
	}
	for _, id := range []*identity{first, second} {
		if err := verify(t, id, second.authorities, now); err != nil {
			t.Error(err)
		}
	}
	now = now.Add(lifetime)
	third := ensure()
	if n := strings.Count(string(third.authorities), "BEGIN CERTIFICATE"); n != 2 {
		t.Errorf("%d authorities are trusted, want the present and the last", n)
	}
}

func TestDamagedSecretIsReplaced(t *testing.T) {
	client := fake.NewClientset()
	k := &keeper{client, "krux-system", []string{"krux-webhook.krux-system.svc"}, time.Now}
	secret, err := k.renew(nil, true)
	if err != nil {
		t.Fatal(err)
	}
	for name, damage := range map[string]func(){
		"key":         func() { secret.Data["tls.key"] = []byte("nonsense") },
		"certificate": func() { secret.Data["tls.crt"] = nil },
		"authority": func() {
			secret.Data["ca.crt"] = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")})
		},
		"host": func() { k.hosts = []string{"other.svc"} },
	} {
		damage()
		if _, err := k.read(secret); err == nil {
			t.Errorf("%s: read", name)
		}
		if secret, err = k.renew(secret, false); err != nil {
			t.Fatal(err)
		}
		if _, err := k.read(secret); err != nil {
			t.Errorf("%s: after renewal: %v", name, err)
		}
	}
}
