package handlers

import (
	"bytes"
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

const (
	maxRedirects  = 3
	maxRetryAfter = 24 * time.Hour // a server may be wrong about its own future
	keptAnswer    = 1024           // bytes of an answer that is quoted in an error
	headerPrefix  = "Taskengine-"
)

// HTTPConfig says which request an [HTTP] sends, and how.
type HTTPConfig struct {
	URL         string            // http or https; its user and query never appear in errors
	Method      string            // "" for POST
	Headers     map[string]string // besides those that name the task
	Timeout     time.Duration     // of one request with its answer; 0 for that of the attempt alone
	MaxResponse int               // bytes of an answer
	Now         func() time.Time  // for dates in Retry-After; nil for time.Now
}

// HTTP is a [task.Handler] that sends a request for each attempt. It is safe for
// concurrent use.
type HTTP struct {
	config HTTPConfig
	header http.Header // of every request; never changed
	shown  string      // the method and URL as errors show them
	client *http.Client
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
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = 0, 128
	transport.DisableCompression = true // the result is what was sent, and its size is known
	return &HTTP{
		config: c, header: header, shown: c.Method + " " + bare(u),
		client: &http.Client{Transport: transport, CheckRedirect: followSame},
	}, nil
}

// Close closes the idle connections. Requests under way are not disturbed.
func (h *HTTP) Close() { h.client.CloseIdleConnections() }

// followSame follows redirects that keep the method and stay with the same server, and
// leaves others to be an answer like any other.
func followSame(next *http.Request, via []*http.Request) error {
	code, first := next.Response.StatusCode, via[0].URL
	if code != http.StatusTemporaryRedirect && code != http.StatusPermanentRedirect ||
		next.URL.Scheme != first.Scheme || next.URL.Host != first.Host || len(via) > maxRedirects {
		return http.ErrUseLastResponse
	}
	return nil
}

// bare is a URL without what may be secret.
func bare(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

// Handle sends the task's payload and returns the body of the answer.
func (h *HTTP) Handle(ctx context.Context, t *task.Task) ([]byte, error) {
	attempt := ctx
	if h.config.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, h.config.Timeout)
		defer cancel()
	}
	request, err := http.NewRequestWithContext(ctx, h.config.Method, h.config.URL, bytes.NewReader(t.Payload))
	if err != nil {
		return nil, task.Permanent(fmt.Errorf("%s: the request cannot be made", h.shown))
	}
	if err := h.address(request, t); err != nil {
		return nil, task.Permanent(err)
	}
	response, err := h.client.Do(request)
	if err != nil {
		return nil, h.failure(attempt, ctx, err)
	}
	defer response.Body.Close()
	if code := response.StatusCode; code < 200 || code > 299 {
		return nil, h.refusal(response)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, int64(h.config.MaxResponse)+1))
	switch {
	case err != nil:
		return nil, h.failure(attempt, ctx, err)
	case len(body) > h.config.MaxResponse:
		return nil, task.Permanent(fmt.Errorf("%s: answered %s with more than %d bytes, and a cut result would be a wrong one: "+
			"answer less or raise max_response", h.shown, response.Status, h.config.MaxResponse))
	}
	return body, nil
}

// address puts the headers on a request.
func (h *HTTP) address(request *http.Request, t *task.Task) error {
	header := request.Header
	for name, values := range h.header {
		header[name] = values
	}
	for _, name := range []string{"Content-Type", "Traceparent", "Tracestate"} {
		if value := carried(t, name); value != "" && httpguts.ValidHeaderFieldValue(value) {
			header.Set(name, value)
		}
	}
	if header.Get("Content-Type") == "" {
		header.Set("Content-Type", "application/octet-stream")
	}
	if !httpguts.ValidHeaderFieldValue(t.Type) {
		return fmt.Errorf("the type %q cannot stand in a header", t.Type)
	}
	id := t.ID.String()
	header.Set("Idempotency-Key", id)
	header.Set(headerPrefix+"Task-Id", id)
	header.Set(headerPrefix+"Version", strconv.FormatUint(t.Version, 10))
	header.Set(headerPrefix+"Attempt", strconv.FormatUint(uint64(t.Attempt), 10))
	header.Set(headerPrefix+"Type", t.Type)
	return nil
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

// failure is the error of a request without a whole answer: attempt is the context of
// the attempt, and request the one of the request, which may end sooner.
func (h *HTTP) failure(attempt, request context.Context, err error) error {
	if attempt.Err() != nil {
		return fmt.Errorf("%s: given up: %w", h.shown, context.Cause(attempt))
	}
	if request.Err() != nil {
		return task.WithClass("timeout", fmt.Errorf("%s: no whole answer within %s", h.shown, h.config.Timeout))
	}
	var wrapped *url.Error // it tells the whole URL
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	return task.WithClass("network", fmt.Errorf("%s: %w", h.shown, err))
}

// refusal is the error of an answer that is no success.
func (h *HTTP) refusal(response *http.Response) error {
	said, _ := io.ReadAll(io.LimitReader(response.Body, keptAnswer))
	code := response.StatusCode
	text := fmt.Sprintf("%s: answered %s", h.shown, response.Status)
	if code >= 300 && code <= 399 {
		text += ", and only 307 and 308 on the same server are followed: correct the URL"
	} else if quote := strings.TrimSpace(strings.ToValidUTF8(string(said), "\uFFFD")); quote != "" {
		text += ": " + quote
	}
	err := task.WithClass("http_"+strconv.Itoa(code), errors.New(text))
	switch {
	case code == http.StatusRequestTimeout, code == http.StatusTooEarly, code == http.StatusTooManyRequests, code >= 500:
		if wait, ok := retryAfter(response.Header.Get("Retry-After"), h.config.Now()); ok {
			return task.RetryIn(wait, err)
		}
		return err
	}
	return task.Permanent(err)
}

// retryAfter reads the header of that name: seconds, or a date.
func retryAfter(value string, now time.Time) (time.Duration, bool) {
	if seconds, err := strconv.ParseUint(value, 10, 64); err == nil {
		return time.Duration(min(seconds, uint64(maxRetryAfter/time.Second))) * time.Second, true
	} else if errors.Is(err, strconv.ErrRange) {
		return maxRetryAfter, true
	}
	date, err := http.ParseTime(value)
	if err != nil {
		return 0, false
	}
	return min(max(0, date.Sub(now)), maxRetryAfter), true
}
