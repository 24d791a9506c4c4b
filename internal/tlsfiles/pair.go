// Package tlsfiles makes the settings of TLS from files in PEM, and reads the files again when they are replaced.
package tlsfiles

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// Pair reads a certificate with its chain, and its key.
func Pair(cert, key string) (tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("%w; correct cert and key", err)
	}
	return pair, nil
}

// Authorities reads the certificates of authorities.
func Authorities(path string) (*x509.CertPool, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, errors.New(path + " has no certificate in PEM; name a file that has some")
	}
	return pool, nil
}
