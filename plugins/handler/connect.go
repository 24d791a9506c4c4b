package handler

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
)

// Connection names the nodes that a program connects to as a worker, and describes the worker. Only
// Addresses is required.
type Connection struct {
	Addresses []string          // of the APIs of nodes: host:port, a URL of http or https, or unix: and a path; the slots are divided among them
	Handler   string            // name of the handler in the configuration of the nodes; "" if it is the only one that fits
	Labels    map[string]string // of this worker; the configuration may ask for some
	Token     string            // sent to the nodes, without the white space around it; they may want one with the role work; "" for none
	TLS       *tls.Config       // encrypts connections to host:port and https URLs, and forbids http URLs; nil: host:port is not encrypted, and https uses the trusted authorities of the system
	Log       *slog.Logger      // of the connections; nil is the standard error
}

// Environment variables of the connection, for [Program.Serve].
const (
	addressVariable = "TASKENGINE_ADDRESS"
	tokenVariable   = "TASKENGINE_TOKEN"
	handlerVariable = "TASKENGINE_WORKER_HANDLER"
	labelsVariable  = "TASKENGINE_WORKER_LABELS"
	caVariable      = "TASKENGINE_CA"
	certVariable    = "TASKENGINE_CLIENT_CERT"
	keyVariable     = "TASKENGINE_CLIENT_KEY"
)

// Work runs tasks of the nodes in this process, as a worker of theirs, until ctx ends and the tasks that have begun by
// then are answered, or until every node has drained the worker. It connects again when a connection breaks. An error is
// one in c or in the program.
func (p Program) Work(ctx context.Context, c Connection) error {
	p.fillIn()
	switch {
	case len(p.Handlers) == 0:
		return errors.New("the program serves no task type")
	case len(c.Addresses) == 0:
		return errors.New("no address of a node is given: give host:port, http://host:port, https://host:port, or unix: and a path")
	}
	token, err := tokenOf(c.Token)
	if err != nil {
		return err
	}
	c.Token = token
	for _, a := range c.Addresses {
		if _, _, err := target(a, c.TLS != nil); err != nil {
			return err
		}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	var all sync.WaitGroup
	for i, address := range c.Addresses {
		d := &dialer{program: p, to: c, address: address, slots: share(p.Slots, len(c.Addresses), i), log: c.Log}
		all.Go(func() { d.run(ctx) })
	}
	all.Wait()
	return nil
}

// tokenOf returns a token as it is sent, without the white space around it. Its errors do not contain the token.
func tokenOf(given string) (string, error) {
	const ask = "; give the text that `taskengine token create` prints"
	token := strings.TrimSpace(given)
	switch {
	case token == "" && given != "":
		return "", errors.New("the token has white space only" + ask)
	case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", errors.New("the token has a character that no token has, such as a space or a line break between others" + ask)
	}
	return token, nil
}

// share returns the share of the i-th of n nodes in slots: at least 1.
func share(slots, n, i int) int {
	most := slots / n
	if i < slots%n {
		most++
	}
	return max(1, most)
}

// addressesIn splits a list of addresses at commas.
func addressesIn(text string) []string {
	var found []string
	for a := range strings.SplitSeq(text, ",") {
		if a = strings.TrimSpace(a); a != "" {
			found = append(found, a)
		}
	}
	return found
}

// work runs tasks of the nodes that the environment names, until the process is asked to end.
func (p Program) work(addresses string) error {
	c := Connection{Addresses: addressesIn(addresses), Handler: os.Getenv(handlerVariable), Token: os.Getenv(tokenVariable)}
	labels, err := parseLabels(os.Getenv(labelsVariable))
	if err != nil {
		return err
	}
	c.Labels = labels
	if c.TLS, err = encryption(os.Getenv(caVariable), os.Getenv(certVariable), os.Getenv(keyVariable)); err != nil {
		return err
	}
	// Without a listener the worker would end with SIGPIPE when the reader of its log ends.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	return p.Work(ctx, c)
}

// encryption returns the settings of connections from files in PEM; nil if there are none. The certificate of this
// worker is read again for each connection, so its files can be replaced.
func encryption(ca, cert, key string) (*tls.Config, error) {
	if ca == "" && cert == "" && key == "" {
		return nil, nil
	}
	c := new(tls.Config)
	if ca != "" {
		text, err := os.ReadFile(ca)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", caVariable, err)
		}
		if c.RootCAs = x509.NewCertPool(); !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s: %s has no certificate in PEM", caVariable, ca)
		}
	}
	if cert != "" || key != "" {
		read := func() (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(cert, key)
			if err != nil {
				return nil, fmt.Errorf("%s and %s: %w", certVariable, keyVariable, err)
			}
			return &pair, nil
		}
		if _, err := read(); err != nil {
			return nil, err
		}
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return read() }
	}
	return c, nil
}

// parseLabels reads labels such as "region=eu,disk=fast".
func parseLabels(text string) (map[string]string, error) {
	labels := make(map[string]string)
	for part := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		key, value, ok := strings.Cut(part, "=")
		if key = strings.TrimSpace(key); !ok || key == "" {
			return nil, fmt.Errorf("%s has %q: give NAME=value, separated by commas", labelsVariable, part)
		}
		labels[key] = strings.TrimSpace(value)
	}
	return labels, nil
}
