// Package certificates makes the certificates and keys of a one-machine cluster.
// It is here because a bare host may have no openssl.
package certificates

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Certificates of a one-machine cluster live as long as a test or a demo, and
// are made anew at each start.
const lifetime = 365 * 24 * time.Hour

// authority signs the certificates of one cluster.
type authority struct {
	folder      string
	certificate *x509.Certificate
	key         crypto.Signer
}

// Write puts, into the folder, what the API server at the address needs:
// ca.{crt,key}, apiserver.{crt,key}, kubelet-client.{crt,key} and service-account.key.
func Write(folder string, address net.IP) error {
	ca, err := newAuthority(folder)
	if err != nil {
		return fmt.Errorf("make the authority: %w", err)
	}
	server := &x509.Certificate{
		Subject:     pkix.Name{CommonName: "kube-apiserver"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{address, net.IPv4(127, 0, 0, 1)},
		DNSNames:    []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
	}
	client := &x509.Certificate{
		Subject:     pkix.Name{CommonName: "kube-apiserver-kubelet-client", Organization: []string{"system:masters"}},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	_, accountErr := newKey(filepath.Join(folder, "service-account.key"))
	return errors.Join(ca.issue("apiserver", server), ca.issue("kubelet-client", client), accountErr)
}

func newAuthority(folder string) (*authority, error) {
	key, err := newKey(filepath.Join(folder, "ca.key"))
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "krux-cluster"},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	ca := &authority{folder: folder, certificate: template, key: key}
	return ca, ca.sign("ca", template, key)
}

// issue writes NAME.key and NAME.crt for the given template.
func (a *authority) issue(name string, template *x509.Certificate) error {
	key, err := newKey(filepath.Join(a.folder, name+".key"))
	if err != nil {
		return err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	return a.sign(name, template, key)
}

func (a *authority) sign(name string, template *x509.Certificate, key crypto.Signer) error {
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return err
	}
	template.SerialNumber = serial
	template.NotBefore = time.Now().Add(-time.Hour) // clocks of nodes may differ
	template.NotAfter = time.Now().Add(lifetime)
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		return fmt.Errorf("sign %s: %w", name, err)
	}
	return writePEM(filepath.Join(a.folder, name+".crt"), "CERTIFICATE", der, 0o644)
}

func newKey(path string) (crypto.Signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return key, writePEM(path, "EC PRIVATE KEY", der, 0o600)
}

func writePEM(path, kind string, der []byte, mode os.FileMode) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), mode)
}
