package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"

	"google.golang.org/grpc"

	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/dashboard"
	"github.com/taskengine/taskengine/internal/redact"
	"github.com/taskengine/taskengine/server"
)

// openAPI opens the listener of the API last: the node accepts tasks from then on.
func (p *parts) openAPI(ctx context.Context, connections int) (err error) {
	n := p.node
	encryption, err := n.encryption("api", n.Config.API)
	if err != nil {
		return err
	}
	redaction, err := redactionOf(n.Config)
	if err != nil {
		return err
	}
	conf := server.APIConfig{
		Redaction: redaction, Tokens: p.tokens.valid(), Kept: p.tokens.keeper(), Audit: p.audit, Engine: p.engine, Build: n.Build, Node: n.Name, Log: n.Log, Metrics: n.metrics, MaxRequest: max(n.maxRequest(), p.handlers.maxFrame()),
		TaskLog: p.taskLog.Log, StoredLogs: p.taskLog.stored, Alerts: p.alerts.Managed(), Workers: p.handlers, Sources: p.shownSources(), Slices: p.slices, Workflows: n.Config.Workflows,
		Register: func(r grpc.ServiceRegistrar, permit, adds func(ctx context.Context, types ...string) error) {
			p.handlers.registerWorkers(r, permit, adds, p.engine)
		},
	}
	if conf.Peers, err = p.openPeers(); err != nil {
		return err
	}
	if conf.Sessions, err = p.openEnded(ctx, n.Config.UI.OIDC); err != nil {
		return err
	}
	if n.Again != nil {
		conf.Reload = p.reloadBy
	}
	conf.Stop = func(reason string) { p.stop(errors.New(reason)) }
	if p.spans != nil {
		conf.Submitted = p.spans.FromRequest
	}
	p.service = server.NewAPI(conf)
	if ui := n.Config.UI; ui.On {
		login, err := p.openLogin(ui.OIDC, conf.Sessions)
		if err != nil {
			return err
		}
		p.service.Mount(ui.Path, dashboard.New(dashboard.Config{Base: ui.Path, API: p.service.Handler, Node: n.Name, Planner: p.planner, Tokens: conf.Tokens, Login: login, Log: n.Log}))
	}
	if n.Config.API.Socket != "" {
		connections = (connections + 1) / 2
	}
	listen := func(address string, encryption *tls.Config) (*endpoint, error) {
		e, err := n.listen(ctx, address, n.Config.API.AsksClients(), server.ListenConfig{
			Handler: p.service, GRPC: p.service.GRPC(), MaxConnections: connections, SocketMode: n.Config.API.Clients, TLS: encryption,
		})
		if err == nil {
			p.add("the API", e.close)
		}
		return e, err
	}
	if p.socket, err = listen(socketAddress(n.Config.API.Socket), nil); err != nil {
		return err
	}
	if p.api, err = listen(n.Config.API.Listen, encryption); err != nil {
		return err
	}
	p.engine.Advertise(advertised(n.Config.API, p.api.address(), os.Hostname))
	p.add("the streams of the API", func(context.Context) error {
		p.service.Drain()
		return nil
	})
	p.add("the connections of workers", p.handlers.closePools) // the API waits for them
	return nil
}

// redactionOf returns what callers of the API see only with the role reveal.
func redactionOf(c *config.Config) (server.Redaction, error) {
	all := make(server.Redaction)
	for name, t := range c.Types {
		rules, err := redact.ParseAll(t.Redact)
		if err != nil {
			return nil, fmt.Errorf("types.%s.redact: %w", name, err)
		}
		if len(rules) > 0 {
			all[name] = rules
		}
	}
	return all, nil
}

// socketAddress returns the address of a socket; "" if there is none.
func socketAddress(path string) string {
	if path == "" {
		return ""
	}
	return "unix:" + path
}

// maxRequest returns a limit of requests with room for the largest payload of any type in base64.
func (n *Node) maxRequest() int {
	most := server.DefaultMaxRequest
	for _, t := range n.Config.Types {
		most = max(most, 2*t.MaxPayload)
	}
	return most
}
