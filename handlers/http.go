package handlers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/taskengine/taskengine/handlers/internal/answer"
	"github.com/taskengine/taskengine/task"
)

const headerPrefix = "Taskengine-"

// idleTimeout is how long an idle connection is kept. Many servers close idle connections after 5 s or more, and a
// request that is sent at that moment is lost.
const idleTimeout = 4 * time.Second

// HTTPConfig says which request an [HTTP] sends, and how.
type HTTPConfig struct {
	URL         string            // http or https; errors never show its user and query
	Method      string            // "" for POST; any but CONNECT
	Headers     map[string]string // in addition to the headers that describe the task
	Timeout     time.Duration     // of one request with its response; 0: only the timeout of the attempt applies
	MaxResponse int               // bytes of the body of a response
	Envelope    bool              // the body of the request is a document of EnvelopeType, which contains the payload
	MayAdd      []string          // types of the tasks that a document may add; an element that ends with * stands for all types that begin so
	MaySignal   []string          // likewise, of the tasks that it may signal; "*" also allows signals to ids without a type
	MayWrite    []string          // keys of the documents that it may write, likewise
	Now         func() time.Time  // for dates in Retry-After of responses without a Date; nil for time.Now

	// NewConnections opens a connection for each request. That is slower, but no request is in doubt because the server
	// closed an idle connection.
	NewConnections bool
}

// HTTP is a [task.Handler] that sends one request for each attempt. If the request may have reached the server and there
// is no response, the error is [task.InDoubt]. It is safe for concurrent use.
type HTTP struct {
	config HTTPConfig
	url    *url.URL
	header http.Header  // of every request; never changed
	shown  string       // the method and URL as errors show them
	reuse  *http.Client // keeps connections
	fresh  *http.Client // opens a connection for each request
}

// NewHTTP returns a handler. Its Close closes the connections that it keeps.
func NewHTTP(c HTTPConfig) (*HTTP, error) {
	u, err := url.Parse(c.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return nil, errors.New("http: the URL is not one of http or https with a host") // it is not shown: it may hold secrets
	}
	if c.Timeout < 0 || c.MaxResponse < 0 {
		return nil, errors.New("http: the timeout and the size of the response must not be negative")
	}
	if c.Method == "" {
		c.Method = http.MethodPost
	}
	if !httpguts.ValidHeaderFieldName(c.Method) || c.Method == http.MethodConnect {
		return nil, fmt.Errorf("http: %q is not a method that can send a task", c.Method)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	header := http.Header{"User-Agent": {"taskengine"}}
	for name, value := range c.Headers {
		if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return nil, fmt.Errorf("http: the header %q or its value is not valid", name)
		}
		if name = http.CanonicalHeaderKey(name); strings.HasPrefix(name, headerPrefix) || name == "Idempotency-Key" {
			return nil, fmt.Errorf("http: the header %s is the engine's own", name)
		}
		header.Set(name, value)
	}
	kept := http.DefaultTransport.(*http.Transport).Clone()
	kept.MaxIdleConns, kept.MaxIdleConnsPerHost, kept.IdleConnTimeout = 0, 128, idleTimeout
	kept.DisableCompression = true // the result is the body as it was sent, and its size is bounded
	fresh := kept.Clone()
	fresh.DisableKeepAlives = true
	return &HTTP{
		config: c, url: u, header: header, shown: c.Method + " " + bare(u),
		reuse: &http.Client{Transport: kept, CheckRedirect: followNone},
		fresh: &http.Client{Transport: fresh, CheckRedirect: followNone},
	}, nil
}

func followNone(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Close closes the idle connections. It does not affect running requests.
func (h *HTTP) Close() {
	h.reuse.CloseIdleConnections()
	h.fresh.CloseIdleConnections()
}

// bare returns a URL without its parts that may be secret.
func bare(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

// Handle sends the payload of the task. It returns the body of the response, or the end of the attempt that a response of
// AnswerType says.
func (h *HTTP) Handle(ctx context.Context, t *task.Task) ([]byte, error) {
	begun := time.Now()
	header, err := h.headerOf(t)
	payload := t.Payload
	if err == nil && h.config.Envelope {
		payload, err = answer.Envelope(t)
	}
	if err != nil {
		return nil, task.Permanent(err)
	}
	x := &exchange{http: h, attempt: ctx}
	defer x.begin()()
	response, err := x.send(payload, header)
	if err != nil {
		return nil, x.failure(err)
	}
	defer response.Body.Close()
	// After a response 101 the transport does not close the body when the context ends.
	defer context.AfterFunc(x.ctx, func() { response.Body.Close() })()
	if code := response.StatusCode; code < 200 || code > 299 {
		return nil, h.refusal(response)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, int64(h.config.MaxResponse)+1))
	switch {
	case err != nil:
		return nil, x.failure(err)
	case len(body) > h.config.MaxResponse:
		return nil, task.Permanent(fmt.Errorf("%s: answered %s with more than %d bytes, and a cut result would be a wrong one: "+
			"answer less or raise max_response", h.shown, response.Status, h.config.MaxResponse))
	}
	if !isAnswer(response) {
		return body, nil
	}
	a, err := answer.Parse(body, answer.NowIn(t, begun), answer.Rules{MayAdd: h.config.MayAdd, MaySignal: h.config.MaySignal, MayWrite: h.config.MayWrite})
	if err != nil {
		return nil, refuseAnswer(ctx, h.shown+": answered "+response.Status, body, err)
	}
	return a.End(nil)
}

// headerOf returns the headers of the request for a task.
func (h *HTTP) headerOf(t *task.Task) (http.Header, error) {
	header := h.header.Clone()
	for _, name := range []string{"Content-Type", "Traceparent", "Tracestate"} {
		if value := carried(t, name); value != "" && httpguts.ValidHeaderFieldValue(value) {
			header.Set(name, value)
		}
	}
	switch {
	case h.config.Envelope:
		header.Set("Content-Type", EnvelopeType)
	case header.Get("Content-Type") == "":
		header.Set("Content-Type", "application/octet-stream")
	}
	if !httpguts.ValidHeaderFieldValue(t.Type) {
		return nil, fmt.Errorf("the type %q cannot stand in a header", t.Type)
	}
	id := t.ID.String()
	header.Set("Idempotency-Key", id)
	header.Set(headerPrefix+"Task-Id", id)
	header.Set(headerPrefix+"Version", strconv.FormatUint(t.Version, 10))
	header.Set(headerPrefix+"Attempt", strconv.FormatUint(uint64(t.Attempt), 10))
	header.Set(headerPrefix+"Type", t.Type)
	for name, value := range wokenBy(t) {
		if value != "" && httpguts.ValidHeaderFieldValue(value) {
			header.Set(headerPrefix+strings.ReplaceAll(name, "_", "-"), value)
		}
	}
	return header, nil
}

// carried returns a header of a task. Case does not matter in names.
func carried(t *task.Task, name string) string {
	for given, value := range t.Headers {
		if strings.EqualFold(given, name) {
			return value
		}
	}
	return ""
}
