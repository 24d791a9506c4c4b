package tlsfiles

import (
	"crypto/tls"
	"fmt"
)

// Client names the files of a client.
type Client struct {
	CA         string // of the trusted authorities of servers; "": the trusted ones of the system
	Cert, Key  string // of the certificate of the client, and its key; "": it has none
	ServerName string // that the certificate of a server must have; "": the host that is connected to
}

// Config reads the files and returns the settings of connections. The certificate of the client is read again for each
// connection. An error begins with the name of the part that it is about: ca or cert.
func (c Client) Config() (*tls.Config, error) {
	t := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.ServerName}
	if c.CA != "" {
		var err error
		if t.RootCAs, err = Authorities(c.CA); err != nil {
			return nil, fmt.Errorf("ca: %w", err)
		}
	}
	if c.Cert == "" {
		return t, nil
	}
	if _, err := Pair(c.Cert, c.Key); err != nil {
		return nil, fmt.Errorf("cert: %w", err)
	}
	t.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		pair, err := Pair(c.Cert, c.Key)
		return &pair, err
	}
	return t, nil
}
