package cli

import (
	"crypto/tls"
	"errors"
	"net"

	"github.com/spf13/pflag"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	"github.com/taskengine/taskengine/internal/tlsfiles"
)

// encryptionFlags name the files for encrypted connections with a node.
type encryptionFlags struct{ ca, cert, key string }

func (f *encryptionFlags) add(flags *pflag.FlagSet, a *app) {
	flags.StringVar(&f.ca, "ca", a.getenv("TASKENGINE_CA", ""), "file with the authorities of the trusted nodes, in PEM, for connections with TLS; TASKENGINE_CA sets it, too")
	flags.StringVar(&f.cert, "client-cert", a.getenv("TASKENGINE_CLIENT_CERT", ""), "file of the certificate of this client, in PEM; TASKENGINE_CLIENT_CERT sets it, too")
	flags.StringVar(&f.key, "client-key", a.getenv("TASKENGINE_CLIENT_KEY", ""), "file of the key of --client-cert, in PEM; TASKENGINE_CLIENT_KEY sets it, too")
}

// isGiven reports whether any file is given: an address without a scheme is one with TLS then.
func (f encryptionFlags) isGiven() bool { return f != encryptionFlags{} }

// config returns the settings of connections with TLS.
func (f encryptionFlags) config() (*tls.Config, error) {
	if (f.cert == "") != (f.key == "") {
		return nil, exit.Errorf(exit.Usage, "--client-cert and --client-key need each other; give both")
	}
	c, err := tlsfiles.Client{CA: f.ca, Cert: f.cert, Key: f.key}.Config()
	if err != nil {
		return nil, exit.Errorf(exit.Usage, "the files of TLS: %w", err)
	}
	return c, nil
}

// tlsAdvice returns the remedy for an error of a handshake, before any request to the node; "" for other errors.
func tlsAdvice(err error) string {
	var (
		verify *tls.CertificateVerificationError
		record tls.RecordHeaderError
		alert  *net.OpError
	)
	switch {
	case errors.As(err, &verify):
		return "--ca or TASKENGINE_CA names the file of the authorities to trust, and the address must be a name in the certificate"
	case errors.As(err, &record):
		return "the node may not speak TLS: write http:// before its address, without --ca"
	case errors.As(err, &alert) && alert.Op == "remote error":
		return "the node may want a certificate of the client, by --client-cert and --client-key"
	}
	return ""
}
