package webhook

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// identity is the webhook's certificate and the authorities that the API server
// is to trust: the one that signed it and the one before, so that replicas
// which still show the old certificate stay valid while a new one spreads.
type identity struct {
	certificate tls.Certificate
	authorities []byte // PEM
}

const (
	lifetime    = 90 * 24 * time.Hour
	renewBefore = 30 * 24 * time.Hour
	clockSkew   = time.Hour
	secretName  = "krux-webhook-certificate"
)

// keeper keeps the identity in a Secret that all replicas share. Whoever finds
// it missing or old makes a new one; the API server lets one of them win.
type keeper struct {
	client    kubernetes.Interface
	namespace string
	hosts     []string // names and addresses that the API server calls it by
	now       func() time.Time
}

// ensure gives a valid identity. Called again and again, it renews in time.
func (k *keeper) ensure(ctx context.Context) (*identity, error) {
	secrets := k.client.CoreV1().Secrets(k.namespace)
	const tries = 3
	var lost error
	for range tries {
		secret, err := secrets.Get(ctx, secretName, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("reading Secret %s/%s: %w", k.namespace, secretName, err)
		}
		missing := err != nil
		if !missing {
			if found, err := k.read(secret); err == nil {
				return found, nil
			}
		}
		fresh, err := k.renew(secret, missing)
		if err != nil {
			return nil, err
		}
		if missing {
			_, lost = secrets.Create(ctx, fresh, metav1.CreateOptions{})
		} else {
			_, lost = secrets.Update(ctx, fresh, metav1.UpdateOptions{})
		}
		if lost == nil {
			return k.read(fresh)
		}
		if !apierrors.IsConflict(lost) && !apierrors.IsAlreadyExists(lost) {
			break
		}
	}
	return nil, fmt.Errorf("writing Secret %s/%s: %w", k.namespace, secretName, lost)
}

// read gives the identity, or an error when a new one must be made.
func (k *keeper) read(secret *v1.Secret) (*identity, error) {
	pair, err := tls.X509KeyPair(secret.Data[v1.TLSCertKey], secret.Data[v1.TLSPrivateKeyKey])
	if err != nil {
		return nil, err
	}
	leaf := pair.Leaf
	if now := k.now(); now.Before(leaf.NotBefore) || now.After(leaf.NotAfter.Add(-renewBefore)) {
		return nil, fmt.Errorf("certificate is valid from %v to %v", leaf.NotBefore, leaf.NotAfter)
	}
	for _, host := range k.hosts {
		if err := leaf.VerifyHostname(host); err != nil {
			return nil, err
		}
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(secret.Data["ca.crt"])
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: pool, CurrentTime: k.now()}); err != nil {
		return nil, err
	}
	return &identity{pair, secret.Data["ca.crt"]}, nil
}

// renew puts a new identity into a copy of the Secret. The authority's key is
// thrown away: nothing else is ever signed with it.
func (k *keeper) renew(old *v1.Secret, missing bool) (*v1.Secret, error) {
	authority, certificate, key, err := issue(k.hosts, k.now())
	if err != nil {
		return nil, fmt.Errorf("making a certificate: %w", err)
	}
	secret := &v1.Secret{ObjectMeta: metav1.ObjectMeta{Name: secretName, Namespace: k.namespace}, Type: v1.SecretTypeTLS}
	if !missing {
		secret = old.DeepCopy()
		if before := firstBlock(secret.Data["ca.crt"]); before != nil {
			authority = append(authority, before...)
		}
	}
	secret.Data = map[string][]byte{"ca.crt": authority, v1.TLSCertKey: certificate, v1.TLSPrivateKeyKey: key}
	return secret, nil
}

func firstBlock(text []byte) []byte {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "CERTIFICATE" {
		return nil
	}
	return pem.EncodeToMemory(block)
}

// issue makes an authority and a certificate for the hosts, all PEM.
func issue(hosts []string, now time.Time) (authority, certificate, key []byte, err error) {
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, nil, err
	}
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, nil, err
	}
	root := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: "krux-webhook authority"},
		NotBefore: now.Add(-clockSkew), NotAfter: now.Add(lifetime), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign,
	}
	rootBytes, err := x509.CreateCertificate(rand.Reader, root, root, &signer.PublicKey, signer)
	if err != nil {
		return nil, nil, nil, err
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano() + 1), Subject: pkix.Name{CommonName: "krux-webhook"},
		NotBefore: root.NotBefore, NotAfter: root.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			leaf.IPAddresses = append(leaf.IPAddresses, ip)
		} else {
			leaf.DNSNames = append(leaf.DNSNames, host)
		}
	}
	leafBytes, err := x509.CreateCertificate(rand.Reader, leaf, root, &private.PublicKey, signer)
	if err != nil {
		return nil, nil, nil, err
	}
	keyBytes, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, nil, err
	}
	return encode("CERTIFICATE", rootBytes), encode("CERTIFICATE", leafBytes), encode("PRIVATE KEY", keyBytes), nil
}

func encode(kind string, data []byte) []byte {
	var text bytes.Buffer
	_ = pem.Encode(&text, &pem.Block{Type: kind, Bytes: data})
	return text.Bytes()
}
