package client

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/taskengine/taskengine/internal/tlsfiles"
	"github.com/taskengine/taskengine/internal/wakeup"
	"github.com/taskengine/taskengine/task"
)

// DefaultTimeout is how long a call may take if its context has no deadline.
const DefaultTimeout = 30 * time.Second

const (
	firstPause = 20 * time.Millisecond // before the first repetition of a call
	mostPause  = time.Second
	maxAnswer  = 256 << 20 // bytes of a response

	// window is how many bytes of a stream, and of a connection, a node sends before it waits. A fixed window avoids the
	// pings of the library to measure the bandwidth: a ping and its answer for almost every response.
	window = 1 << 20
)

// Options are the options of a client. The zero value is usable.
type Options struct {
	// Timeout is how long a call may take, with its repetitions, if its context has no deadline. 0 is [DefaultTimeout].
	Timeout time.Duration

	// Decorate changes a request before it is submitted, for instance by Header("tenant", name)(r). It gets the context of the
	// submit, and a request of its own. It must replace the payload, not change its bytes. If it returns an error, the task is
	// not submitted, and the error of the submit wraps that one and [ErrInvalid]. It may be called by several goroutines at
	// once. May be nil.
	Decorate func(ctx context.Context, r *Request) error

	// TLS has the settings of connections with TLS: to URLs of https and, if it is not nil, to host:port. URLs of http
	// are refused then. If it is nil, the nodes of URLs of https must have certificates that the system trusts.
	TLS *tls.Config

	// Token is the token that is sent with each request, without the white space around it that a file has. Without TLS it can
	// be read on the way to the node. "" is none.
	Token string

	// Dial are further options of connections, such as credentials for a proxy in front of the nodes.
	Dial []grpc.DialOption
}

// Client speaks with nodes that share their tasks. It is safe for concurrent use.
type Client struct {
	options Options
	nodes   *nodes
	ids     *task.IDs

	background context.Context // ends with Close
	stop       context.CancelFunc
	work       sync.WaitGroup // of flow
	flow       *flow
}

// Open returns a client of the nodes at addresses: host:port, unix:PATH, or a URL of http or https. It does not wait for
// a connection. The caller must call Close.
func Open(addresses []string, o Options) (*Client, error) {
	var err error
	if o.Token, err = tokenOf(o.Token); err != nil {
		return nil, err
	}
	n, err := openNodes(addresses, o)
	if err != nil {
		return nil, err
	}
	if o.Timeout <= 0 {
		o.Timeout = DefaultTimeout
	}
	var seed [32]byte
	rand.Read(seed[:]) // never fails
	c := &Client{options: o, nodes: n, ids: task.NewIDs(seed)}
	c.background, c.stop = context.WithCancel(context.Background())
	c.flow = newFlow(c)
	c.work.Go(func() { c.flow.run(c.background) })
	return c, nil
}

// OpenEnv is [Open] with the addresses in TASKENGINE_ADDRESS, separated by commas. If o has none, the token is that in
// TASKENGINE_TOKEN, and TASKENGINE_CA, TASKENGINE_CLIENT_CERT and TASKENGINE_CLIENT_KEY name files in PEM for TLS. The
// certificate of the client is read again for each connection.
func OpenEnv(o Options) (*Client, error) {
	var addresses []string
	for a := range strings.SplitSeq(os.Getenv("TASKENGINE_ADDRESS"), ",") {
		if a = strings.TrimSpace(a); a != "" {
			addresses = append(addresses, a)
		}
	}
	if len(addresses) == 0 {
		return nil, newError("", codes.InvalidArgument, "no address of a node is given: TASKENGINE_ADDRESS is not set", "")
	}
	if o.Token == "" {
		o.Token = os.Getenv("TASKENGINE_TOKEN")
	}
	if o.TLS == nil {
		var err error
		if o.TLS, err = encryption(os.Getenv("TASKENGINE_CA"), os.Getenv("TASKENGINE_CLIENT_CERT"), os.Getenv("TASKENGINE_CLIENT_KEY")); err != nil {
			return nil, err
		}
	}
	return Open(addresses, o)
}

// encryption returns the settings of connections from files that the environment names; nil if it names none.
func encryption(ca, cert, key string) (*tls.Config, error) {
	switch {
	case ca == "" && cert == "" && key == "":
		return nil, nil
	case (cert == "") != (key == ""):
		return nil, newError("", codes.InvalidArgument, "TASKENGINE_CLIENT_CERT and TASKENGINE_CLIENT_KEY belong together: give both", "")
	}
	c, err := tlsfiles.Client{CA: ca, Cert: cert, Key: key}.Config()
	if err != nil {
		return nil, newError("", codes.InvalidArgument, fmt.Sprintf("the files that TASKENGINE_CA, TASKENGINE_CLIENT_CERT and TASKENGINE_CLIENT_KEY name: %v", err), "")
	}
	return c, nil
}

// Close ends the connections. Calls under way return [ErrClosed], and may have been carried out.
func (c *Client) Close() error {
	c.stop()
	c.work.Wait()
	return c.nodes.close()
}

// limited returns the context of a call.
func (c *Client) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, c.options.Timeout)
}

// jittered returns a random half to whole of a pause, so that clients that lose their node together do not come back
// together.
func jittered(pause time.Duration) time.Duration { return pause/2 + mathrand.N(pause/2) }

// message is the pointer to a message of protobuf.
type message[M any] interface {
	*M
	proto.Message
}

// call makes a request. If no node answers, it is made again until its context ends: always if it is repeatable, and
// otherwise while no node can have received it.
func call[Res any, PRes message[Res]](ctx context.Context, c *Client, procedure string, req proto.Message, isRepeatable bool) (*Res, error) {
	ctx, cancel := c.limited(ctx)
	defer cancel()
	defer context.AfterFunc(c.background, cancel)()
	for pause := firstPause; ; pause = min(2*pause, mostPause) {
		p := c.nodes.patienceOf(ctx, proto.Size(req))
		n, err := c.nodes.pick(ctx, p, !isRepeatable)
		isSent := err == nil
		if isSent {
			res := PRes(new(Res))
			if err = n.invoke(ctx, p, procedure, req, res); err == nil {
				return (*Res)(res), nil
			}
			if errors.Is(err, ErrUnavailable) {
				c.nodes.leave(n)
			}
		}
		if c.background.Err() != nil {
			return nil, fmt.Errorf("%w: %w", ErrClosed, err)
		}
		if !mayRepeat(err) || isSent && !isRepeatable || wakeup.Sleep(ctx, jittered(pause)) != nil {
			return nil, err
		}
	}
}
