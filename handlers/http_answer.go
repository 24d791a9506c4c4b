package handlers

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/taskengine/taskengine/task"
)

const (
	maxRetryAfter = 24 * time.Hour // a longer Retry-After is cut to this
	quotedBody    = 1024           // bytes of a response that an error quotes
)

// refusal returns the error of a response that is no success.
func (h *HTTP) refusal(response *http.Response) error {
	code := response.StatusCode
	text := fmt.Sprintf("%s: answered %s", h.shown, response.Status)
	if code == http.StatusSwitchingProtocols { // its body has no end
		return task.Permanent(task.WithClass("http_101", errors.New(text+", and no other protocol was asked for: correct the URL")))
	}
	said, _ := io.ReadAll(io.LimitReader(response.Body, quotedBody))
	if code >= 300 && code <= 399 {
		text += ", and only 307 and 308 on the same server are followed: correct the URL"
	} else if quote := strings.TrimSpace(strings.ToValidUTF8(string(said), "\uFFFD")); quote != "" {
		text += ": " + quote
	}
	err := task.WithClass("http_"+strconv.Itoa(code), errors.New(text))
	switch {
	case isLost(code):
		err = task.InDoubt(err)
	case code == http.StatusRequestTimeout, code == http.StatusTooEarly, code == http.StatusTooManyRequests, code >= 500:
	default:
		return task.Permanent(err)
	}
	if wait, ok := retryAfter(response.Header.Get("Retry-After"), h.answeredAt(response)); ok {
		return task.RetryAfter(wait, err)
	}
	return err
}

// isAnswer reports whether the body of a response is the document that says how the attempt ends.
func isAnswer(response *http.Response) bool {
	is, _, err := mime.ParseMediaType(response.Header.Get("Content-Type"))
	return is == AnswerType && (err == nil || errors.Is(err, mime.ErrInvalidMediaParameter))
}

// answeredAt returns when a response was sent, by the clock of its server: a date in Retry-After is by that clock, too.
func (h *HTTP) answeredAt(response *http.Response) time.Time {
	if date, err := http.ParseTime(response.Header.Get("Date")); err == nil {
		return date
	}
	return h.config.Now()
}

// isLost reports whether code means that a gateway forwarded the request and got no response. 520, 522 and 524 are not
// in the standard: a large network of gateways uses them.
func isLost(code int) bool {
	switch code {
	case http.StatusBadGateway, http.StatusGatewayTimeout, 520, 522, 524:
		return true
	}
	return false
}

// retryAfter parses the value of a Retry-After header: seconds or a date.
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
