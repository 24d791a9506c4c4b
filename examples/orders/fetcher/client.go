package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// client sends requests to platforms.
type client struct {
	base string // of the URLs
	http *http.Client
}

// refusedError says that a platform has answered with something else than 200.
type refusedError struct {
	code       int
	retryAfter time.Duration
	text       string
}

func (e *refusedError) Error() string {
	return fmt.Sprintf("the platform answers %d: %s", e.code, e.text)
}

// ask sends a request, and returns the whole answer. A body has it be a POST.
func (c *client) ask(ctx context.Context, path string, body any) ([]byte, error) {
	method, text := http.MethodGet, []byte(nil)
	if body != nil {
		method = http.MethodPost
		var err error
		if text, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	q, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	a, err := c.http.Do(q)
	if err != nil {
		return nil, err
	}
	defer a.Body.Close()
	whole, err := io.ReadAll(a.Body) // an answer that is cut off is an error
	if err != nil {
		return nil, fmt.Errorf("read the answer to %s: %w", path, err)
	}
	if a.StatusCode != http.StatusOK {
		seconds, _ := strconv.Atoi(a.Header.Get("Retry-After"))
		return nil, &refusedError{code: a.StatusCode, retryAfter: time.Duration(max(1, seconds)) * time.Second, text: strings.TrimSpace(string(whole))}
	}
	return whole, nil
}

// get reads the JSON that a platform answers with.
func (c *client) get(ctx context.Context, path string, query url.Values, to any) error {
	whole, err := c.ask(ctx, path+"?"+query.Encode(), nil)
	if err != nil {
		return err
	}
	return json.Unmarshal(whole, to)
}

// shop has numbered pages. They are read from the last one to the first one: an order that changes meanwhile leaves its page, and
// those behind it move forward, to pages that are still to be read.
type shop struct{ client *client }

func (s *shop) fetch(ctx context.Context, from, end time.Time, write func([]order) error) error {
	var list struct {
		Pages  int
		Orders []struct {
			Number, Status string
			Changed        time.Time
			Cents          int64
		}
	}
	query := url.Values{"changed_from": {from.Format(time.RFC3339Nano)}, "changed_to": {end.Format(time.RFC3339Nano)}, "page": {"1"}}
	if err := s.client.get(ctx, "/shop/orders", query, &list); err != nil {
		return err
	}
	for page := list.Pages; page >= 1; page-- {
		if list.Pages > 1 {
			query.Set("page", strconv.Itoa(page))
			list.Orders = nil
			if err := s.client.get(ctx, "/shop/orders", query, &list); err != nil {
				return err
			}
		}
		var some []order
		for _, o := range list.Orders {
			some = append(some, order{o.Number, o.Changed, o.Status, o.Cents})
		}
		if err := write(some); err != nil {
			return err
		}
	}
	return nil
}

// market has a cursor, and amounts as text.
type market struct{ client *client }

func (m *market) fetch(ctx context.Context, from, end time.Time, write func([]order) error) error {
	query := url.Values{"since": {strconv.FormatInt(from.UnixMilli(), 10)}, "until": {strconv.FormatInt(end.UnixMilli(), 10)}}
	for {
		var list struct {
			Data []struct {
				ID, State, Total string
				Updated          int64
			}
			Next string
		}
		if err := m.client.get(ctx, "/market/v2/orders", query, &list); err != nil {
			return err
		}
		var some []order
		for _, o := range list.Data {
			cents, err := strconv.ParseInt(strings.Replace(o.Total, ".", "", 1), 10, 64)
			if err != nil {
				return fmt.Errorf("order %s: %w", o.ID, err)
			}
			some = append(some, order{o.ID, time.UnixMilli(o.Updated), o.State, cents})
		}
		if err := write(some); err != nil || list.Next == "" {
			return err
		}
		query.Set("after", list.Next)
	}
}

// depot has a file for a window of time, and refuses windows with too many orders.
type depot struct{ client *client }

func (d *depot) fetch(ctx context.Context, from, end time.Time, write func([]order) error) error {
	file, err := d.client.ask(ctx, "/depot/export", map[string]time.Time{"from": from, "to": end})
	if err != nil {
		return err
	}
	text, isWhole := strings.CutSuffix(string(file), "end\n")
	if !isWhole {
		return errors.New("the file has no last line")
	}
	var some []order
	for line := range strings.Lines(text) {
		fields := strings.Split(strings.TrimSpace(line), ",")
		if len(fields) != 4 {
			return fmt.Errorf("line %q has %d fields", line, len(fields))
		}
		changed, err := time.Parse(time.RFC3339Nano, fields[1])
		if err != nil {
			return err
		}
		cents, err := strconv.ParseInt(fields[3], 10, 64)
		if err != nil {
			return err
		}
		some = append(some, order{fields[0], changed, fields[2], cents})
	}
	return write(some)
}
