package target

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/taskengine/taskengine/alert"
	"github.com/taskengine/taskengine/internal/terminal"
)

// maxAnswer is how much of the answer of a server is in an error.
const maxAnswer = 200

// Webhook posts notifications as JSON.
type Webhook struct {
	url     string
	headers map[string]string
	timeout time.Duration
	client  *http.Client
}

// NewWebhook returns a target that posts to a URL, with these headers besides its own. timeout is for one
// request with its answer.
func NewWebhook(url string, headers map[string]string, timeout time.Duration) *Webhook {
	return &Webhook{url: url, headers: headers, timeout: timeout, client: &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Send implements [Target].
func (w *Webhook) Send(ctx context.Context, n alert.Notification) error {
	body, err := json.Marshal(n)
	if err != nil {
		return err
	}
	return w.Post(ctx, n.ID, body)
}

// Post posts JSON with an id, by which the receiver knows a request that it has had before. A status of 300 or above is a failure.
func (w *Webhook) Post(ctx context.Context, id string, body []byte) error {
	ctx, cancel := context.WithTimeoutCause(ctx, w.timeout, fmt.Errorf("the server did not answer within %v", w.timeout))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, bytes.NewReader(body))
	if err != nil {
		return errors.New("the URL is not valid") // which may have a secret
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "taskengine")
	req.Header.Set("Idempotency-Key", id)
	for name, value := range w.headers {
		req.Header.Set(name, value)
	}
	res, err := w.client.Do(req)
	if err != nil {
		return withoutURL(ctx, err)
	}
	defer res.Body.Close()
	answer, _ := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if res.StatusCode >= 300 {
		return fmt.Errorf("the server answered %d: %s", res.StatusCode, terminal.Line(strings.TrimSpace(string(answer))))
	}
	return nil
}

// withoutURL returns an error of a request without its URL, which may have a secret.
func withoutURL(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var failed *url.Error
	if errors.As(err, &failed) {
		return failed.Err
	}
	return err
}
