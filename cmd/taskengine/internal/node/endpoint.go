package node

import (
	"context"
	"crypto/tls"
	"fmt"

	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/internal/tlsfiles"
	"github.com/taskengine/taskengine/server"
)

// endpoint is a listener, or nil if the configuration has none.
type endpoint struct{ listener *server.Listener }

// listen serves an address, or nothing if it is "". Unless clients are asked for a token or a certificate, the
// log says that other machines can connect.
func (n *Node) listen(ctx context.Context, address string, asksClients bool, c server.ListenConfig) (*endpoint, error) {
	if address == "" {
		return &endpoint{}, nil
	}
	c.Address, c.Log = address, n.Log
	l, err := server.Listen(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("%w; is another node running here?", err)
	}
	switch {
	case l.Loopback() || asksClients:
	case c.Strict:
		n.Log.Info("other machines can reach the health and the metrics of this node; for backups and profiles they need the admin.token", "address", l.Addr().String())
	default:
		n.Log.Warn("other machines can reach the API, which does not authenticate its callers", "address", l.Addr().String())
	}
	return &endpoint{l}, nil
}

// encryption returns how connections with a listener are encrypted; nil if they are not. Section is the name of its
// section in the configuration.
func (n *Node) encryption(section string, l config.Listener) (*tls.Config, error) {
	if l.TLS.Cert == "" || l.Listen == "" {
		return nil, nil
	}
	c, err := tlsfiles.Server{Cert: l.TLS.Cert, Key: l.TLS.Key, ClientCA: l.TLS.ClientCA}.Config(n.Log)
	if err != nil {
		return nil, fmt.Errorf("%s.tls.%w", section, err)
	}
	return c, nil
}

// scheme returns how URLs of the API begin.
func (p *parts) scheme() string {
	if p.node.Config.API.TLS.Cert != "" {
		return "https"
	}
	return "http"
}

func (e *endpoint) address() string {
	if e.listener == nil {
		return ""
	}
	return e.listener.Addr().String()
}

func (e *endpoint) ended() <-chan struct{} {
	if e.listener == nil {
		return nil
	}
	return e.listener.Ended()
}

func (e *endpoint) close(ctx context.Context) error {
	if e.listener == nil {
		return nil
	}
	return e.listener.Close(ctx)
}
