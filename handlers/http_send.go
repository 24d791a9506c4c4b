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

	"github.com/taskengine/taskengine/engine/task"
)

const (
	maxRedirects   = 3
	redirectAnswer = 4 << 10 // bytes of an answer that redirects, read to keep the connection
)

var (
	errTooLong = errors.New("the request took too long")
	errResent  = errors.New("the connection broke, and a request is not sent twice")
)

// exchange is one attempt: its request, which is sent once, and the answer. Of the answer's
// redirects each is a request of its own, because the server has answered the one before.
type exchange struct {
	http    *HTTP
	attempt context.Context // ends with the attempt
	ctx     context.Context // ends with the request, and perhaps sooner
	cancel  context.CancelCauseFunc
	sent    atomic.Bool // the request at hand has a connection: the server may have got it
	wrote   atomic.Bool // something of the request at hand was written
}

// begin sets the time that the request has, and returns what frees what that takes.
func (x *exchange) begin() (end func()) {
	x.ctx, x.cancel = context.WithCancelCause(x.attempt)
	if x.http.config.Timeout == 0 {
		return func() { x.cancel(nil) }
	}
	var stop context.CancelFunc
	x.ctx, stop = context.WithTimeoutCause(x.ctx, x.http.config.Timeout, errTooLong)
	return func() { stop(); x.cancel(nil) }
}

// send sends the request, also to where the server asks for it on itself, and returns the
// last answer, whose body the caller closes.
func (x *exchange) send(payload []byte, header http.Header) (*http.Response, error) {
	where := x.http.url
	for redirects := 0; ; redirects++ {
		response, err := x.once(where, payload, header)
		if err != nil {
			return nil, err
		}
		next := x.onwards(response)
		if next == nil || redirects == maxRedirects {
			return response, nil
		}
		io.CopyN(io.Discard, response.Body, redirectAnswer) // its error comes again with the next request
		response.Body.Close()
		where = next
	}
}

// once sends one request, once.
//
// The transport sends a request again when a kept connection breaks, if it takes it for
// idempotent, which the header Idempotency-Key makes of every method. It cannot if it
// would need the body again and has no GetBody, and does not on a connection that was used
// by no request before. What is left is HTTP/2, where it believes a server that says it has
// not begun a request: that one is ended before it is written.
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
		return nil, errors.New("the request cannot be made") // err tells the URL
	}
	request.Header, request.GetBody = header, nil
	if len(payload) == 0 || h.config.NewConnections {
		return h.fresh.Do(request)
	}
	return h.keeps.Do(request)
}

// onwards returns where else on the same server the answer asks for the request, or nil:
// anything else is an answer like any other.
func (x *exchange) onwards(response *http.Response) *url.URL {
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

// failure is the error of a request without a whole answer.
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
		var wrapped *url.Error // it tells the whole URL
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
