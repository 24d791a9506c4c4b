// Package certtest makes authorities and certificates for tests of TLS.
package certtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// validity is how long certificates are valid.
const validity = 23 * time.Hour

// Authority signs certificates.
type Authority struct {
	File string // its own certificate, as PEM

	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// Certificate is a certificate with its key, and the files with them as PEM.
type Certificate struct {
	tls.Certificate
	File    string // the certificate
	KeyFile string
	Both    string // the key and the certificate in one file
}

// New returns a new authority. Its files end with the test.
func New(tb testing.TB) *Authority {
	tb.Helper()
	a := &Authority{key: newKey(tb)}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "authority of a test"}, IsCA: true, BasicConstraintsValid: true, NotAfter: time.Now().Add(validity),
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	a.cert = sign(tb, template, template, a.key, a.key)
	a.File = write(tb, block("CERTIFICATE", a.cert.Raw))
	return a
}

// Issue returns a certificate for servers with the given names or addresses, and for clients.
func (a *Authority) Issue(tb testing.TB, name string, hosts ...string) Certificate {
	tb.Helper()
	return a.issue(tb, time.Now().Add(validity), name, hosts...)
}

// IssueExpired is Issue of a certificate that has expired a minute ago.
func (a *Authority) IssueExpired(tb testing.TB, name string, hosts ...string) Certificate {
	tb.Helper()
	return a.issue(tb, time.Now().Add(-time.Minute), name, hosts...)
}

func (a *Authority) issue(tb testing.TB, until time.Time, name string, hosts ...string) Certificate {
	tb.Helper()
	key := newKey(tb)
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, KeyUsage: x509.KeyUsageDigitalSignature, NotAfter: until,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	cert := sign(tb, template, a.cert, key, a.key)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		tb.Fatal(err)
	}
	certPEM, keyPEM := block("CERTIFICATE", cert.Raw), block("PRIVATE KEY", der)
	return Certificate{
		Certificate: tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key, Leaf: cert},
		File:        write(tb, certPEM), KeyFile: write(tb, keyPEM), Both: write(tb, append(keyPEM, certPEM...)),
	}
}

// Client returns the configuration of a client that trusts the servers of a, and presents certificates.
func (a *Authority) Client(certs ...Certificate) *tls.Config {
	c := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	c.RootCAs.AddCert(a.cert)
	for _, cert := range certs {
		c.Certificates = append(c.Certificates, cert.Certificate)
	}
	return c
}

func newKey(tb testing.TB) *ecdsa.PrivateKey {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return key
}

// sign returns the certificate of a key, valid from an hour ago.
func sign(tb testing.TB, template, by *x509.Certificate, key, with *ecdsa.PrivateKey) *x509.Certificate {
	tb.Helper()
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 64))
	if err != nil {
		tb.Fatal(err)
	}
	template.SerialNumber = serial
	template.NotBefore = time.Now().Add(-time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, template, by, &key.PublicKey, with)
	if err != nil {
		tb.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		tb.Fatal(err)
	}
	return cert
}

func block(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// Replace moves the files of other over the files of c, each by a rename.
func (c Certificate) Replace(tb testing.TB, other Certificate) {
	tb.Helper()
	for from, to := range map[string]string{other.File: c.File, other.KeyFile: c.KeyFile} {
		if err := os.Rename(from, to); err != nil {
			tb.Fatal(err)
		}
	}
}

func write(tb testing.TB, text []byte) string {
	tb.Helper()
	file := filepath.Join(tb.TempDir(), "test.pem")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		tb.Fatal(err)
	}
	return file
}
