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

	"github.com/taskengine/taskengine/engine/task"
)

const headerPrefix = "Taskengine-"

// idleConnection is how long a connection is kept for the next request. Many servers close
// idle connections after 5 s and more, and a request that meets such an end is lost.
const idleConnection = 4 * time.Second

// HTTPConfig says which request an [HTTP] sends, and how.
type HTTPConfig struct {
	URL         string            // http or https; its user and query never appear in errors
	Method      string            // "" for POST; any but CONNECT
	Headers     map[string]string // besides those that name the task
	Timeout     time.Duration     // of one request with its answer; 0 for that of the attempt alone
	MaxResponse int               // bytes of an answer
	Now         func() time.Time  // for dates in Retry-After; nil for time.Now

	// NewConnections gives each request a connection of its own. It takes longer, but a
	// server that closes an idle connection then leaves no request in doubt.
	NewConnections bool
}

// HTTP is a [task.Handler] that sends a request for each attempt, once: a request that may
// have reached the server and has no answer is an error that is [task.InDoubt]. It is safe
// for concurrent use.
type HTTP struct {
	config HTTPConfig
	url    *url.URL
	header http.Header // of every request; never changed
	shown  string      // the method and URL as errors show them
	keeps  *http.Client
	fresh  *http.Client // has a connection of its own for each request
}

// NewHTTP returns a handler. Close it to close the connections it keeps.
func NewHTTP(c HTTPConfig) (*HTTP, error) {
	u, err := url.Parse(c.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return nil, errors.New("http: the URL is not one of http or https with a host") // and is not told: it may hold secrets
	}
	if c.Timeout < 0 || c.MaxResponse < 0 {
		return nil, errors.New("http: the timeout and the size of the answer must not be negative")
	}
	if c.Method == "" {
		c.Method = http.MethodPost
	}
	if !httpguts.ValidHeaderFieldName(c.Method) || c.Method == http.MethodConnect {
		return nil, fmt.Errorf("http: %q is not a method that a task can be sent by", c.Method)
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
	kept.MaxIdleConns, kept.MaxIdleConnsPerHost, kept.IdleConnTimeout = 0, 128, idleConnection
	kept.DisableCompression = true // the result is what was sent, and its size is known
	fresh := kept.Clone()
	fresh.DisableKeepAlives = true
	return &HTTP{
		config: c, url: u, header: header, shown: c.Method + " " + bare(u),
		keeps: &http.Client{Transport: kept, CheckRedirect: followNone},
		fresh: &http.Client{Transport: fresh, CheckRedirect: followNone},
	}, nil
}

func followNone(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Close closes the idle connections. Requests under way are not disturbed.
func (h *HTTP) Close() {
	h.keeps.CloseIdleConnections()
	h.fresh.CloseIdleConnections()
}

// bare is a URL without what may be secret.
func bare(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

// Handle sends the task's payload and returns the body of the answer.
func (h *HTTP) Handle(ctx context.Context, t *task.Task) ([]byte, error) {
	header, err := h.headerOf(t)
	if err != nil {
		return nil, task.Permanent(err)
	}
	x := &exchange{http: h, attempt: ctx}
	defer x.begin()()
	response, err := x.send(t.Payload, header)
	if err != nil {
		return nil, x.failure(err)
	}
	defer response.Body.Close()
	// Of a connection that was taken over (101) the transport watches over nothing.
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
	return body, nil
}

// headerOf returns the headers of the request of a task.
func (h *HTTP) headerOf(t *task.Task) (http.Header, error) {
	header := h.header.Clone()
	for _, name := range []string{"Content-Type", "Traceparent", "Tracestate"} {
		if value := carried(t, name); value != "" && httpguts.ValidHeaderFieldValue(value) {
			header.Set(name, value)
		}
	}
	if header.Get("Content-Type") == "" {
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
	return header, nil
}

// carried returns a header of a task, whose names may be written in any case.
func carried(t *task.Task, name string) string {
	for given, value := range t.Headers {
		if strings.EqualFold(given, name) {
			return value
		}
	}
	return ""
}
