package etcd

import (
	"context"
	"errors"
	"sync/atomic"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// login adds the token of a user to each request, and gets another one when etcd does not take it any more: tokens expire,
// and a server that restarts has forgotten them. The library cannot do that for a node: it waits for the first token
// before it returns a client. It gets one for each renewal of a lease, which costs etcd the hash of a password. And it
// sends the old token with the request for another one, which etcd 3.4 refuses, so that it asks for ever.
type login struct {
	user, password string
	turn           chan struct{} // holds one: the goroutine that put it there may replace the token
	token          atomic.Pointer[string]
}

func newLogin(user, password string) *login {
	return &login{user: user, password: password, turn: make(chan struct{}, 1)}
}

const (
	authenticateMethod = "/etcdserverpb.Auth/Authenticate"
	watchMethod        = "/etcdserverpb.Watch/Watch"
)

// options returns the options by which a connection sends the token.
func (l *login) options() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(l.unary), grpc.WithChainStreamInterceptor(l.stream)}
}

// unary is the interceptor of requests with one answer.
func (l *login) unary(
	ctx context.Context, method string, request, answer any, cc *grpc.ClientConn, next grpc.UnaryInvoker, o ...grpc.CallOption,
) error {
	if method == authenticateMethod {
		return next(ctx, method, request, answer, cc, o...)
	}
	var old *string
	for {
		token, err := l.other(ctx, cc, old)
		if err != nil {
			return err
		}
		err = next(with(ctx, token), method, request, answer, cc, o...)
		if old != nil || !isOld(err) {
			return err
		}
		old = token
	}
}

// stream is the interceptor of streams. A watch begins with a new token: to an old one, etcd answers that the user may
// not read.
func (l *login) stream(
	ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, next grpc.Streamer, o ...grpc.CallOption,
) (grpc.ClientStream, error) {
	var old *string
	if method == watchMethod {
		old = l.token.Load()
	}
	token, err := l.other(ctx, cc, old)
	if err != nil {
		return nil, err
	}
	return next(with(ctx, token), desc, cc, method, o...)
}

// other returns a token that is not the given one.
func (l *login) other(ctx context.Context, cc *grpc.ClientConn, old *string) (*string, error) {
	if t := l.token.Load(); t != nil && t != old {
		return t, nil
	}
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	if t := l.token.Load(); t != nil && t != old {
		return t, nil
	}
	request := &etcdserverpb.AuthenticateRequest{Name: l.user, Password: l.password}
	answer, err := etcdserverpb.NewAuthClient(cc).Authenticate(ctx, request)
	if errors.Is(rpctypes.Error(err), rpctypes.ErrAuthNotEnabled) {
		err = nil // etcd ignores tokens
	}
	if err != nil {
		return nil, err
	}
	token := answer.GetToken()
	l.token.Store(&token)
	return &token, nil
}

// isOld reports whether a request failed because of its token.
func isOld(err error) bool {
	err = rpctypes.Error(err)
	return errors.Is(err, rpctypes.ErrInvalidAuthToken) || errors.Is(err, rpctypes.ErrAuthOldRevision) || errors.Is(err, rpctypes.ErrUserEmpty)
}

// with adds a token to a request.
func with(ctx context.Context, token *string) context.Context {
	if *token == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, rpctypes.TokenFieldNameGRPC, *token)
}
