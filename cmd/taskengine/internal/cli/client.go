package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/address"
	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	"github.com/taskengine/taskengine/server"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
)

const (
	// callTimeout is how long a request may take that does not wait for tasks.
	callTimeout = 30 * time.Second
	dialTimeout = 5 * time.Second
)

// client speaks with a node. It is the generated client and not package client, which has types of its own: commands write
// the messages of a node as they are, see messageJSON, and have an exit code and advice for each error.
type client struct {
	taskenginev1connect.TaskServiceClient
	address string
	http    *http.Client
	heard   bool // the node has taken a request
	refused bool // the last answer was the node's own: nothing was done
	waited  bool // the last answer was that a request has waited for room in vain
}

// dial returns a client of the node at --address. Of several nodes it is the first that takes a connection.
func (a *app) dial() (*client, error) {
	at, base, err := a.node()
	if err != nil {
		return nil, err
	}
	encryption, err := a.encryption.config()
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{
		DialContext:         dialer(at),
		TLSHandshakeTimeout: dialTimeout,
		TLSClientConfig:     encryption,
		ForceAttemptHTTP2:   true,
	}
	token, err := a.token()
	if err != nil {
		return nil, err
	}
	c := &client{address: at, http: &http.Client{Transport: bearer{transport, token}}}
	var options []connect.ClientOption
	if isOnThisMachine(at, base) {
		transport.DisableCompression = true
		options = append(options, connect.WithAcceptCompression("gzip", nil, nil)) // it takes longer than to send the response as it is
	}
	c.TaskServiceClient = taskenginev1connect.NewTaskServiceClient(c.http, base, options...)
	return c, nil
}

// isOnThisMachine reports whether the node at an address, with the URL base, is reached without a network.
func isOnThisMachine(at, base string) bool {
	if _, ok := address.Socket(at); ok {
		return true
	}
	u, err := url.Parse(base)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// token returns the token that the node may want; "" is none.
func (a *app) token() (string, error) {
	if a.tokenFile == "" {
		return tokenOf("TASKENGINE_TOKEN", a.getenv("TASKENGINE_TOKEN", ""))
	}
	text, err := os.ReadFile(a.tokenFile)
	if err != nil {
		return "", exit.Errorf(exit.Usage, "--token-file: %w", err)
	}
	if len(strings.TrimSpace(string(text))) == 0 {
		return "", exit.Errorf(exit.Usage, "--token-file: %s has no token", a.tokenFile)
	}
	return tokenOf("--token-file", string(text))
}

// tokenOf returns a token as it is sent, without the white space around it. Its errors do not contain the token.
func tokenOf(source, given string) (string, error) {
	token := strings.TrimSpace(given)
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", exit.Errorf(exit.Usage, "%s has a character that no token has, such as a space or a line break between others; it must be the text that `taskengine token create` prints", source)
	}
	return token, nil
}

// bearer sends a token with each request, unless it is "". It does not send it to where a node redirects a request.
type bearer struct {
	*http.Transport
	token string
}

// RoundTrip implements [http.RoundTripper].
func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	if b.token != "" && r.Response == nil {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+b.token)
	}
	return b.Transport.RoundTrip(r)
}

// dialer returns a function that connects to the node at an address.
func dialer(to string) func(ctx context.Context, network, addr string) (net.Conn, error) {
	d := &net.Dialer{Timeout: dialTimeout}
	socket, ok := address.Socket(to)
	if !ok {
		return d.DialContext
	}
	return func(ctx context.Context, _, _ string) (net.Conn, error) { return d.DialContext(ctx, "unix", socket) }
}

// Close lets go of the connections.
func (c *client) Close() { c.http.CloseIdleConnections() }

// node returns the address of --address that is used, and its URL. Of several it is the first that takes a connection, or
// the first if none does.
func (a *app) node() (at, base string, err error) {
	var addresses, bases []string
	for one := range strings.SplitSeq(a.address, ",") {
		if one = strings.TrimSpace(one); one == "" {
			continue
		}
		base, err := a.baseURL(one)
		if err != nil {
			return "", "", err
		}
		addresses, bases = append(addresses, one), append(bases, base)
	}
	if len(addresses) == 0 {
		return "", "", exit.Errorf(exit.Usage, "--address names no node: give host:port, a URL of http or https, or unix:PATH, and a comma between several")
	}
	for i := range addresses {
		if len(addresses) > 1 && takesConnections(addresses[i], bases[i]) {
			return addresses[i], bases[i], nil
		}
	}
	return addresses[0], bases[0], nil
}

// takesConnections reports whether a connection to the node at an address, with the URL base, can be made.
func takesConnections(at, base string) bool {
	u, err := url.Parse(base)
	if err != nil {
		return false
	}
	to := u.Host
	if u.Port() == "" {
		to = net.JoinHostPort(u.Hostname(), u.Scheme)
	}
	conn, err := dialer(at)(context.Background(), "tcp", to)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

// baseURL returns the URL of a node at an address: host:port, a URL, or a Unix socket.
func (a *app) baseURL(at string) (string, error) {
	if _, ok := address.Socket(at); ok {
		return "http://localhost", nil
	}
	secure := a.encryption.isGiven()
	base, ok := address.URL(at, secure)
	switch {
	case ok:
		return base, nil
	case secure:
		return "", exit.Errorf(exit.Usage, "--address %.80q is neither host:port, nor a URL of https, nor unix:PATH, and there are files for TLS (--ca, --client-cert, --client-key)", at)
	}
	return "", exit.Errorf(exit.Usage, "--address %.80q is neither host:port, nor a URL of http or https, nor unix:PATH", at)
}

// with calls fn with a client of the node.
func (a *app) with(fn func(c *client) error) error {
	c, err := a.dial()
	if err != nil {
		return err
	}
	defer c.Close()
	return fn(c)
}

// call makes one request that does not wait for tasks.
func call[Req, Res any](ctx context.Context, c *client, method func(context.Context, *Req) (*Res, error), req *Req) (*Res, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	res, err := method(ctx, req)
	c.waited = false
	c.heard, c.refused = c.heard || !isRefused(err), connect.IsWireError(err)
	if connect.CodeOf(err) == connect.CodeInternal && !c.refused {
		if m, ok := any(req).(proto.Message); ok && !isSendable(m) {
			return nil, exit.Errorf(exit.Usage, "the request has a string that is not UTF-8, such as a key; nothing was sent")
		}
	}
	return res, c.explain(err)
}

// isSendable reports whether a request can be sent: all text in it is UTF-8.
func isSendable(req proto.Message) bool {
	_, err := proto.Marshal(req)
	return err == nil
}

// explain turns an error of a request into one to print, with its exit code.
func (c *client) explain(err error) error {
	var remote *connect.Error
	if err == nil || !errors.As(err, &remote) {
		return err
	}
	said := errors.New(remote.Message())
	switch {
	case remote.Meta().Get(server.FullHeader) != "":
		c.waited = remote.Meta().Get(server.FullHeader) == server.FullWaited
		return exit.With(exit.Backlog, said)
	case remote.Code() == connect.CodeResourceExhausted:
		said = fmt.Errorf("the request is too large for the node: %s bytes; max_payload of its type allows more", remote.Message())
	case connect.IsWireError(err): // the node's own words
	case tlsAdvice(err) != "":
		said = fmt.Errorf("the node at %s: %w; %s", c.address, remote.Unwrap(), tlsAdvice(err))
	case remote.Message() == "400 Bad Request": // the answer of a port with TLS
		said = fmt.Errorf("the node at %s: %w; if it speaks TLS, write https:// before its address or give --ca", c.address, remote.Unwrap())
	case isRefused(err):
		said = fmt.Errorf("no node answers at %s (%w); is it running? --address or TASKENGINE_ADDRESS say where", c.address, remote.Unwrap())
	default:
		said = fmt.Errorf("the node at %s: %w", c.address, remote.Unwrap())
	}
	return exit.With(remoteCode(codeOf(err)), said)
}

// aboutTask replaces the error of a node that knows no task of an id.
func aboutTask(id string, err error) error {
	if exit.Code(err) != exit.NotFound {
		return err
	}
	return exit.Errorf(exit.NotFound, "task %.80s not found: it was never added, or has ended and is not kept any more", id)
}

// codeOf returns the code of an error of a request. A connection that the node's system has reset
// is an unavailable node: package connect says that the request was cancelled then.
func codeOf(err error) connect.Code {
	if !connect.IsWireError(err) && (errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)) {
		return connect.CodeUnavailable
	}
	return connect.CodeOf(err)
}

// isRefused reports whether no connection was made.
func isRefused(err error) bool {
	var dial *net.OpError
	return errors.As(err, &dial) && dial.Op == "dial" || tlsAdvice(err) != ""
}

// remoteCode returns the exit code of an error of the API.
func remoteCode(code connect.Code) int {
	switch code {
	case connect.CodeInvalidArgument, connect.CodeResourceExhausted: // the latter is a request that is too large
		return exit.Usage
	case connect.CodeNotFound:
		return exit.NotFound
	case connect.CodeAborted, connect.CodeAlreadyExists:
		return exit.Conflict
	case connect.CodeOutOfRange:
		return exit.Late
	case connect.CodeFailedPrecondition, connect.CodePermissionDenied, connect.CodeUnauthenticated:
		return exit.NotAllowed
	case connect.CodeUnavailable, connect.CodeDeadlineExceeded:
		return exit.Unavailable
	}
	return exit.Failure
}
