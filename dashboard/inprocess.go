package dashboard

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"connectrpc.com/connect"

	"github.com/taskengine/taskengine/internal/access"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
)

// asker is who asks the API.
type asker struct {
	token  string        // "" for none
	person *access.Token // in place of a token; nil for none
	remote string        // address of the browser
}

// askerKey is the key of the asker in a context.
type askerKey struct{}

// asking returns a context for requests to the API.
func asking(ctx context.Context, who asker) context.Context {
	return context.WithValue(ctx, askerKey{}, who)
}

// newClient returns a client of the API in this process.
func newClient(api http.Handler) taskenginev1connect.TaskServiceClient {
	const noCompression = "" // between two parts of one process
	return taskenginev1connect.NewTaskServiceClient(&http.Client{Transport: inProcess{api}}, "http://node",
		connect.WithAcceptCompression("gzip", nil, nil), connect.WithSendCompression(noCompression))
}

// inProcess passes requests to a handler.
type inProcess struct{ api http.Handler }

// RoundTrip implements [http.RoundTripper].
func (t inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	who, _ := ctx.Value(askerKey{}).(asker)
	if who.person != nil {
		ctx = access.WithPerson(ctx, who.person)
	}
	request := r.Clone(ctx)
	request.RequestURI, request.RemoteAddr = r.URL.RequestURI(), who.remote
	if request.Body == nil {
		request.Body = http.NoBody
	}
	if who.token != "" {
		request.Header.Set("Authorization", bearer+who.token)
	}
	body, pipe := io.Pipe()
	w := &response{header: make(http.Header), pipe: pipe, begun: make(chan struct{})}
	go func() {
		defer func() {
			cause := recover()
			if cause != nil {
				_ = pipe.CloseWithError(fmt.Errorf("the API panicked: %v", cause))
			}
			w.WriteHeader(http.StatusOK)
			_ = pipe.Close()
		}()
		t.api.ServeHTTP(w, request)
	}()
	select {
	case <-w.begun:
	case <-ctx.Done():
		_ = body.CloseWithError(ctx.Err())
		return nil, ctx.Err()
	}
	return &http.Response{
		Status: http.StatusText(w.code), StatusCode: w.code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.sent, Body: body, ContentLength: -1, Request: r,
	}, nil
}

// response is a response that the handler writes. One goroutine writes it.
type response struct {
	header http.Header // of the handler, which may go on to change it
	pipe   *io.PipeWriter
	begun  chan struct{} // closed when code and sent are set

	code int
	sent http.Header
}

// Header implements [http.ResponseWriter].
func (w *response) Header() http.Header { return w.header }

// WriteHeader implements [http.ResponseWriter].
func (w *response) WriteHeader(code int) {
	if w.code == 0 {
		w.code, w.sent = code, w.header.Clone()
		close(w.begun)
	}
}

// Write implements [http.ResponseWriter].
func (w *response) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.pipe.Write(p)
}

// Flush implements [http.Flusher]. What is written has been read already.
func (w *response) Flush() { w.WriteHeader(http.StatusOK) }
