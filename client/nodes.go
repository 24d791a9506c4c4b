package client

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

const (
	connectTimeout = 5 * time.Second        // for one node, before another one is tried
	againTimeout   = 200 * time.Millisecond // likewise, if the last try has failed
)

// node is one node, whose address does not change.
type node struct {
	address string
	conn    *grpc.ClientConn
}

// nodes are the nodes of a client.
type nodes struct {
	all []*node

	mu      sync.Mutex
	current int // guarded by mu: the node that is used
}

func openNodes(addresses []string, o []grpc.DialOption) (*nodes, error) {
	if len(addresses) == 0 {
		return nil, errors.New("taskengine: no address of a node is given; give host:port, unix:PATH or a URL")
	}
	n := new(nodes)
	for _, a := range addresses {
		target, secure, err := targetOf(a)
		if err != nil {
			return nil, errors.Join(err, n.close())
		}
		plain := insecure.NewCredentials()
		if secure {
			plain = credentials.NewTLS(nil)
		}
		options := append([]grpc.DialOption{
			grpc.WithTransportCredentials(plain), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)),
			grpc.WithConnectParams(grpc.ConnectParams{
				Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second},
				MinConnectTimeout: connectTimeout,
			}),
		}, o...)
		conn, err := grpc.NewClient(target, options...)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("taskengine: the address %.80q: %w", a, err), n.close())
		}
		n.all = append(n.all, &node{a, conn})
	}
	return n, nil
}

// targetOf returns the address as a gRPC library writes it, and whether it needs TLS.
func targetOf(address string) (target string, secure bool, err error) {
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		if path == "" {
			return "", false, errors.New("taskengine: the address unix: has no path")
		}
		return address, false, nil
	}
	host := address
	if strings.Contains(address, "://") {
		u, err := url.Parse(address)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || strings.Trim(u.Path, "/") != "" || u.User != nil {
			return "", false, errors.New("taskengine: an address is not a URL of http or https without a path and a user; give host:port, unix:PATH or such a URL")
		}
		host, secure = u.Host, u.Scheme == "https"
		if u.Port() == "" {
			host += map[bool]string{false: ":80", true: ":443"}[secure]
		}
	}
	if host == "" || strings.ContainsAny(host, " /@") {
		return "", false, fmt.Errorf("taskengine: %.80q is no address; give host:port, unix:PATH or a URL", address)
	}
	return "dns:///" + host, secure, nil
}

func (n *nodes) close() error {
	var errs []error
	for _, one := range n.all {
		errs = append(errs, one.conn.Close())
	}
	return errors.Join(errs...)
}

// pick returns a node with a connection: the one that was used last, if it can.
func (n *nodes) pick(ctx context.Context) (*node, error) {
	n.mu.Lock()
	first := n.current
	n.mu.Unlock()
	for i := range n.all {
		at := (first + i) % len(n.all)
		if one := n.all[at]; one.connect(ctx) {
			n.mu.Lock()
			n.current = at
			n.mu.Unlock()
			return one, nil
		}
		if ctx.Err() != nil {
			break
		}
	}
	addresses := make([]string, len(n.all))
	for i, one := range n.all {
		addresses[i] = one.address
	}
	return nil, newError("", codes.Unavailable, fmt.Sprintf("no node answers at %s; is it running?", strings.Join(addresses, ", ")), "")
}

// leave has another node picked than the one that has failed.
func (n *nodes) leave(failed *node) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.all[n.current] == failed {
		n.current = (n.current + 1) % len(n.all)
	}
}

// connect waits for the connection, and reports whether there is one.
func (n *node) connect(ctx context.Context) bool {
	state := n.conn.GetState()
	if state == connectivity.Ready {
		return true
	}
	timeout := connectTimeout
	if state == connectivity.TransientFailure {
		timeout = againTimeout
		n.conn.ResetConnectBackoff()
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for begin := state; ; state = n.conn.GetState() {
		switch {
		case state == connectivity.Ready:
			return true
		case state == connectivity.Shutdown || state == connectivity.TransientFailure && begin != state:
			return false
		case state == connectivity.Idle:
			n.conn.Connect()
		}
		if !n.conn.WaitForStateChange(ctx, state) {
			return false
		}
	}
}
