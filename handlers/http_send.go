package handlers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"

	"github.com/taskengine/taskengine/task"
)

const (
	maxRedirects    = 3
	maxRedirectBody = 4 << 10 // bytes that are read of the body of a redirect, so that the connection can be reused
)

var (
	errTooLong = errors.New("the request took too long")
	errResent  = errors.New("the connection broke, and a request is not sent twice")
)

// exchange is one attempt: its request, which is sent once, and the response. Each redirect is a further request: the
// server has answered the request before it.
type exchange struct {
	http    *HTTP
	attempt context.Context // ends with the attempt
	ctx     context.Context // ends with the request or before
	cancel  context.CancelCauseFunc
	sent    atomic.Bool // the current request has a connection: the server may have received it
	wrote   atomic.Bool // a part of the current request was written
}

// begin starts the timeout of the request. The caller must call end.
func (x *exchange) begin() (end func()) {
	x.ctx, x.cancel = context.WithCancelCause(x.attempt)
	if x.http.config.Timeout == 0 {
		return func() { x.cancel(nil) }
	}
	var stop context.CancelFunc
	x.ctx, stop = context.WithTimeoutCause(x.ctx, x.http.config.Timeout, errTooLong)
	return func() { stop(); x.cancel(nil) }
}

// send sends the request, follows redirects to the same server, and returns the last response. The caller closes its
// body.
func (x *exchange) send(payload []byte, header http.Header) (*http.Response, error) {
	where := x.http.url
	for redirects := 0; ; redirects++ {
		response, err := x.once(where, payload, header)
		if err != nil {
			return nil, err
		}
		next := x.redirect(response)
		if next == nil || redirects == maxRedirects {
			return response, nil
		}
		io.CopyN(io.Discard, response.Body, maxRedirectBody) // the next request has the same error
		response.Body.Close()
		where = next
	}
}

// once sends one request, and sends it only once.
//
// The transport repeats a request when a reused connection breaks, if the request is idempotent; the header
// Idempotency-Key makes every method idempotent. It cannot repeat a request with a body if there is no GetBody, and it
// does not repeat a request on a new connection. There remains HTTP/2, where it repeats a request if the server says
// that it has not begun it: once cancels such a request before it is written again.
func (x *exchange) once(where *url.URL, payload []byte, header http.Header) (*http.Response, error) {
	h := x.http
	x.sent.Store(false)
	x.wrote.Store(false)
	ctx := httptrace.WithClientTrace(x.ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) {
			if x.sent.Swap(true) && x.wrote.Load() {
				x.cancel(errResent)
			}
		},
		WroteHeaderField: func(string, []string) { x.wrote.Store(true) },
	})
	request, err := http.NewRequestWithContext(ctx, h.config.Method, where.String(), bytes.NewReader(payload))
	if err != nil {
		return nil, errors.New("the request cannot be made") // err contains the URL
	}
	request.Header, request.GetBody = header, nil
	if len(payload) == 0 || h.config.NewConnections {
		return h.fresh.Do(request)
	}
	return h.reuse.Do(request)
}

// redirect returns the URL on the same server that a response redirects the request to. It returns nil for any other
// response.
func (x *exchange) redirect(response *http.Response) *url.URL {
	first := x.http.url
	if code := response.StatusCode; code != http.StatusTemporaryRedirect && code != http.StatusPermanentRedirect {
		return nil
	}
	next, err := response.Location()
	if err != nil || next.Scheme != first.Scheme || next.Host != first.Host {
		return nil
	}
	next.User = first.User
	return next
}

// failure returns the error of a request without a complete response.
func (x *exchange) failure(err error) error {
	h := x.http
	switch {
	case x.attempt.Err() != nil:
		err = fmt.Errorf("%s: given up: %w", h.shown, context.Cause(x.attempt))
	case errors.Is(context.Cause(x.ctx), errTooLong) && x.sent.Load():
		err = task.WithClass("timeout", fmt.Errorf("%s: no whole answer within %s", h.shown, h.config.Timeout))
	case errors.Is(context.Cause(x.ctx), errTooLong):
		err = task.WithClass("timeout", fmt.Errorf("%s: no connection within %s", h.shown, h.config.Timeout))
	default:
		var wrapped *url.Error // its text contains the whole URL
		if errors.As(err, &wrapped) {
			err = wrapped.Err
		}
		if x.ctx.Err() != nil {
			err = context.Cause(x.ctx)
		}
		err = task.WithClass("network", fmt.Errorf("%s: %w", h.shown, err))
	}
	if x.sent.Load() {
		return task.InDoubt(err)
	}
	return err
}
