package cli

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/address"
	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
)

// mostHealth bounds the answer about the health of a node.
const mostHealth = 1 << 20

func newHealth(a *app) *cobra.Command {
	var flags configFlags
	var admin string
	var live bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Say whether a node is ready for requests, or alive",
		Long: `Ask the admin listener of a node whether the node is ready, as /readyz does, and print its answer.
With --live ask whether it can answer at all, as /livez does: a node whose database is down is
alive and not ready. The exit code is 1 if the node is not ready, and 7 if it does not answer.

The address is that of --admin, or that of admin.listen in the configuration, or else
` + defaultAdmin + `. It needs no token.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			encryption, err := a.encryption.config()
			if err != nil {
				return err
			}
			if admin == "" && flags.file != "" {
				if admin, encryption, err = a.ownAdmin(&flags, encryption); err != nil {
					return err
				}
			}
			base, ok := address.URL(cmp.Or(admin, defaultAdmin), false)
			if !ok {
				return exit.Errorf(exit.Usage, "--admin %.80q is neither host:port nor a URL of http or https", admin)
			}
			path := "/readyz?verbose"
			if live {
				path = "/livez"
			}
			return a.askHealth(&http.Client{Timeout: timeout, Transport: &http.Transport{TLSClientConfig: encryption}}, base, path)
		},
	}
	flags.add(cmd, "the configuration file of the node, on the same machine")
	cmd.Flags().StringVar(&admin, "admin", "", "the address of the admin listener: host:port or a URL")
	cmd.Flags().BoolVar(&live, "live", false, "ask whether the node is alive, not whether it is ready")
	cmd.Flags().DurationVar(&timeout, "timeout", 5*time.Second, "how long to wait for the answer")
	return cmd
}

// askHealth prints the answer of a node, and returns an error if the answer is not 200.
func (a *app) askHealth(c *http.Client, base, path string) error {
	defer c.CloseIdleConnections()
	res, err := c.Get(base + path)
	if err != nil {
		return exit.Errorf(exit.Unavailable, "the node does not answer: %w", err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, mostHealth))
	if err != nil {
		return exit.Errorf(exit.Unavailable, "the answer of the node: %w", err)
	}
	var said strings.Builder
	for line := range strings.Lines(string(text)) {
		said.WriteString(clean(strings.TrimRight(line, "\r\n")) + "\n")
	}
	if _, err := io.WriteString(a.stdout, said.String()); err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return exit.Errorf(exit.Failure, "the node at %s is not ready: %s", base, res.Status)
	}
	return nil
}

// ownAdmin returns the address of the admin listener in a configuration as a process on the same machine reaches it, and
// the settings of its TLS: the certificate in the configuration is trusted.
func (a *app) ownAdmin(flags *configFlags, encryption *tls.Config) (string, *tls.Config, error) {
	cfg, err := flags.load(a)
	if err != nil {
		return "", nil, err
	}
	host, port, err := net.SplitHostPort(cfg.Admin.Listen)
	if err != nil {
		return "", nil, exit.Errorf(exit.Config, "%s: the node has no admin listener that could be asked: set admin.listen", flags.file)
	}
	switch host {
	case "", "0.0.0.0":
		host = "127.0.0.1"
	case "::":
		host = "::1"
	}
	at := net.JoinHostPort(host, port)
	if cfg.Admin.TLS.Cert == "" {
		return at, encryption, nil
	}
	encryption, err = trusting(cfg.Admin.TLS.Cert, encryption)
	return "https://" + at, encryption, err
}

// trusting trusts the certificate of a listener instead of the authorities, under the name that it has.
func trusting(file string, encryption *tls.Config) (*tls.Config, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, exit.Errorf(exit.Config, "admin.tls.cert: %w", err)
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, exit.Errorf(exit.Config, "admin.tls.cert: %s has no certificate in PEM", file)
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, exit.Errorf(exit.Config, "admin.tls.cert: %s: %w", file, err)
	}
	encryption = encryption.Clone()
	encryption.RootCAs = x509.NewCertPool()
	encryption.RootCAs.AddCert(leaf)
	switch {
	case len(leaf.DNSNames) > 0:
		encryption.ServerName = leaf.DNSNames[0]
	case len(leaf.IPAddresses) > 0:
		encryption.ServerName = leaf.IPAddresses[0].String()
	}
	return encryption, nil
}
