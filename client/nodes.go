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
	"google.golang.org/grpc/status"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
)

const (
	dialTimeout  = 10 * time.Second       // for a connection; other nodes are tried in that time
	againTimeout = 200 * time.Millisecond // for the node, before another one is tried, if the last try has failed
)

// node is one node. Its address does not change.
type node struct {
	address string
	conn    *grpc.ClientConn
	work    sync.WaitGroup // of probes
	ear

	mu        sync.Mutex
	reason    string             // guarded by mu: why there was no connection last; "" if that is not known
	wires     map[*wire]struct{} // guarded by mu: the connections
	probing   *probe             // guarded by mu: the probe under way
	isSuspect bool               // guarded by mu: it has to answer a probe before it is used
	isClosed  bool               // guarded by mu: there are no more probes
}

// nodes are the nodes of a client.
type nodes struct {
	all []*node

	mu      sync.Mutex
	current int // guarded by mu: the node that is used
}

func openNodes(addresses []string, o Options) (*nodes, error) {
	if len(addresses) == 0 {
		return nil, errors.New("taskengine: no address of a node is given; give host:port, unix:PATH or a URL")
	}
	n := new(nodes)
	for _, a := range addresses {
		target, secure, err := targetOf(a, o.TLS != nil)
		if err != nil {
			return nil, errors.Join(err, n.close())
		}
		plain := insecure.NewCredentials()
		if secure {
			plain = credentials.NewTLS(o.TLS)
		}
		one := &node{address: a, wires: make(map[*wire]struct{}), ear: ear{begin: time.Now()}}
		options := append([]grpc.DialOption{
			grpc.WithContextDialer(one.dial), grpc.WithNoProxy(),
			grpc.WithTransportCredentials(plain), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)),
			grpc.WithStaticStreamWindowSize(window), grpc.WithStaticConnWindowSize(window),
			grpc.WithConnectParams(grpc.ConnectParams{
				Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second},
				MinConnectTimeout: dialTimeout,
			}),
		}, o.Dial...)
		if o.Token != "" {
			options = append(options, grpc.WithPerRPCCredentials(bearer(o.Token)))
		}
		if one.conn, err = grpc.NewClient(target, options...); err != nil {
			return nil, errors.Join(fmt.Errorf("taskengine: the address %.80q: %w", a, err), n.close())
		}
		n.all = append(n.all, one)
	}
	return n, nil
}

// targetOf returns the address as a gRPC library writes it, and whether it needs TLS. With wantsTLS, host:port needs it.
func targetOf(address string, wantsTLS bool) (target string, secure bool, err error) {
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		if path == "" {
			return "", false, errors.New("taskengine: the address unix: has no path")
		}
		return address, false, nil
	}
	host := address
	secure = wantsTLS
	if strings.Contains(address, "://") {
		u, err := url.Parse(address)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || strings.Trim(u.Path, "/") != "" || u.User != nil {
			return "", false, errors.New("taskengine: an address is not a URL of http or https without a path and a user; give host:port, unix:PATH or such a URL")
		}
		if host, secure = u.Host, u.Scheme == "https"; wantsTLS && !secure {
			return "", false, fmt.Errorf("taskengine: %.80q is a URL of http, and the client has settings of TLS; write https", address)
		}
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
		one.mu.Lock()
		one.isClosed = true
		one.mu.Unlock()
		errs = append(errs, one.conn.Close())
		one.work.Wait()
	}
	return errors.Join(errs...)
}

// pick returns a node with a connection: the one that was used last, if it can. With isSure it has answered just now.
func (n *nodes) pick(ctx context.Context, p patience, isSure bool) (*node, error) {
	n.mu.Lock()
	first := n.current
	n.mu.Unlock()
	for i := range n.all {
		at := (first + i) % len(n.all)
		if one := n.all[at]; one.connect(ctx, p) && one.isFit(ctx, p, isSure) {
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
		addresses[i] = one.described()
	}
	return nil, newError("", codes.Unavailable, fmt.Sprintf("no node answers at %s; is it running?", strings.Join(addresses, ", ")), "")
}

// described returns the address of a node, and why there is no connection.
func (n *node) described() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.reason == "" {
		return n.address
	}
	return n.address + " (" + n.reason + ")"
}

// learn notes why a connection that has failed did. A call that does not wait for a connection says so.
func (n *node) learn(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, againTimeout)
	defer cancel()
	err := n.conn.Invoke(ctx, taskenginev1connect.TaskServiceVersionProcedure, &taskenginev1.VersionRequest{}, &taskenginev1.VersionResponse{})
	if status.Code(err) != codes.Unavailable {
		return // another try has begun
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.reason = status.Convert(err).Message()
}

// leave switches to the next node if failed is the current one.
func (n *nodes) leave(failed *node) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.all[n.current] == failed {
		n.current = (n.current + 1) % len(n.all)
	}
}

// isFit reports whether a node with a connection may be used. A node that is suspect has to answer a probe.
func (n *node) isFit(ctx context.Context, p patience, isSure bool) bool {
	n.mu.Lock()
	isSuspect := n.isSuspect
	n.mu.Unlock()
	return !isSuspect && (!isSure || n.isFresh()) || n.isAlive(ctx, p.probe)
}

// connect waits for the connection, and reports whether there is one.
func (n *node) connect(ctx context.Context, p patience) bool {
	state := n.conn.GetState()
	if state == connectivity.Ready {
		return true
	}
	timeout := p.probe
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
		case state == connectivity.Shutdown:
			return false
		case state == connectivity.TransientFailure && begin != state:
			n.learn(ctx)
			return false
		case state == connectivity.Idle:
			n.conn.Connect()
		}
		if !n.conn.WaitForStateChange(ctx, state) {
			return false
		}
	}
}
