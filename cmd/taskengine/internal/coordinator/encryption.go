package coordinator

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"github.com/taskengine/taskengine/config"
)

// encryption returns how connections are encrypted; nil if they are not.
func encryption(c config.TLS) (*tls.Config, error) {
	if c.CA == "" {
		return nil, nil
	}
	t := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.ServerName}
	if c.CA != config.SystemCA {
		var err error
		if t.RootCAs, err = authorities(c.CA); err != nil {
			return nil, fmt.Errorf("coordination.tls.ca: %w", err)
		}
	}
	if c.Cert == "" {
		return t, nil
	}
	if _, err := tls.LoadX509KeyPair(c.Cert, c.Key); err != nil {
		return nil, fmt.Errorf("coordination.tls.cert: %w; correct cert and key", err)
	}
	t.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(c.Cert, c.Key) // for each connection: it may have been replaced
		return &pair, err
	}
	return t, nil
}

// authorities reads the certificates that are trusted.
func authorities(path string) (*x509.CertPool, error) {
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
