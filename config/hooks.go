package config

import (
	"errors"
	"time"

	"github.com/taskengine/taskengine/filter"
)

// Hook is a URL that gets the events that a filter selects.
type Hook struct {
	Where string
	AlertWebhook
	GiveUp time.Duration // for how long events are tried; 0 is for ever
}

var hookTable = &object{what: "a hook", fields: []field{
	{name: "where", doc: "Which tasks, as they are after a change: a [filter](cli.md#filters) without terms of payloads and results, such as `state=error type=pay*`.", required: true, is: words("a filter, such as state=error,failed", isEventFilter), at: in(func(h *Hook) *string { return &h.Where })},
	{name: "url", doc: "The URL. It accepts events by a status below 300. Redirects are not followed. Many such URLs are secrets: write a reference.", required: true, is: httpURL(), at: in(func(h *Hook) *Text { return &h.URL })},
	{name: "headers", doc: "Headers to send, in addition to `Content-Type`, `User-Agent` and `Idempotency-Key`, which is the `id` of the request.", is: table[Text]{of: "strings", keys: isHeader, likely: "HEADER", is: guarded{secret("string in one line", isHeaderValue), masked}}, at: in(func(h *Hook) *map[string]Text { return &h.Headers })},
	{name: "timeout", doc: "How long one request may take, including its answer.", def: "10s", is: period(aDuration, true), at: in(func(h *Hook) *time.Duration { return &h.Timeout })},
	{name: "give_up", doc: "How long the same events are tried. Then they are lost, and the log and a metric say so. 0s is for ever.", def: "24h", is: period(aDuration, false), at: in(func(h *Hook) *time.Duration { return &h.GiveUp })},
}}

var errWhole = errors.New("events have neither the payload nor the result of a task; leave these terms out")

// isEventFilter returns an error for a text that is no filter of events.
func isEventFilter(text string) error {
	f, err := filter.Parse(text, time.Unix(0, 0))
	switch {
	case err != nil:
		return err
	case !f.OfRows():
		return errWhole
	}
	return nil
}
