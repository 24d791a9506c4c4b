package engine

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/taskengine/taskengine/task"
)

// Values are what a person gives a task, see [Setting]. A nil field stays as it is.
type Values struct {
	Priority *uint8
	Payload  *[]byte            // at most max_payload of the type
	Headers  map[string]*string // by their names: nil removes a header; others stay as they are
	At       *time.Time         // when it runs next; not of a task in the state error
	By       string             // who gives them, for the history of the task
}

// mostWas is how many bytes of an old payload the history of a task keeps.
const mostWas = 1500

// Setting returns a change of values of tasks that wait, are ready, or are in the state error, which they keep. The history of a task has the old values; that of a
// payload if it is text that is not encrypted in the store, and at most 1,500 bytes of it.
func Setting(v Values) (Action, error) {
	invalid := func(format string, args ...any) (Action, error) {
		return Action{}, fmt.Errorf("%w: %w", ErrInvalid, fmt.Errorf(format, args...))
	}
	switch {
	case v.Priority == nil && v.Payload == nil && len(v.Headers) == 0 && v.At == nil:
		return invalid("no value is given")
	case v.Priority != nil && *v.Priority > task.LowestPriority:
		return invalid("the priority is %d, and must be %d to %d", *v.Priority, task.HighestPriority, task.LowestPriority)
	case v.At != nil && (v.At.IsZero() || outOfRange(*v.At)):
		return invalid("times must lie between the years 1970 and 9999")
	}
	for name, value := range v.Headers {
		if name == "" || !utf8.ValidString(name) || value != nil && !utf8.ValidString(*value) {
			return invalid("headers must be UTF-8 text, and have a name")
		}
	}
	return Action{
		verb: "set values of", whole: v.Payload != nil || len(v.Headers) > 0,
		fill: func(t *task.Task, c *task.Change) bool {
			c.Put = &task.Put{Priority: v.Priority}
			switch t.State {
			case task.Error:
				c.To = task.Error
				return v.At == nil
			case task.Waiting:
				c.To, c.NextEventAt = task.Waiting, t.NextEventAt
			case task.Submitted:
				c.To, c.NextEventAt = task.Waiting, c.At
			default:
				return false
			}
			if v.At != nil {
				c.NextEventAt, c.ReadyAt = *v.At, *v.At
			}
			return true
		},
		set: v.set,
	}, nil
}

// set completes the change of a task, of which the contents are as they are stored.
func (v *Values) set(e *Engine, t *task.Task, c *task.Change) error {
	var was []string
	if v.Priority != nil {
		was = append(was, fmt.Sprintf("priority was %d", t.Priority))
	}
	if v.At != nil {
		was = append(was, "time was "+t.NextEventAt.Format(time.RFC3339))
	}
	decoded := *t
	c.Mark = new(task.Mark)
	if len(v.Headers) > 0 {
		headers := maps.Clone(t.Headers)
		if headers == nil {
			headers = make(map[string]string)
		}
		for _, name := range slices.Sorted(maps.Keys(v.Headers)) {
			old, had := headers[name]
			if was = append(was, "header "+name+" was absent"); had {
				was[len(was)-1] = "header " + name + " was " + old
			}
			if delete(headers, name); v.Headers[name] != nil {
				headers[name] = *v.Headers[name]
			}
		}
		size := 0
		for name, value := range headers {
			size += len(name) + len(value)
		}
		if size > MaxHeaders {
			return fmt.Errorf("headers would have %d bytes, of %d allowed", size, MaxHeaders)
		}
		decoded.Headers, c.Put.Headers = headers, &headers
	}
	if err := v.setPayload(e, t, &decoded, c, &was); err != nil {
		return err
	}
	c.Mark.Was, c.Mark.By = strings.Join(was, ", "), v.By
	return nil
}

// setPayload gives a task its new payload, and the group that it has by that and by its headers.
func (v *Values) setPayload(e *Engine, t, decoded *task.Task, c *task.Change, was *[]string) error {
	if v.Payload == nil && len(v.Headers) == 0 {
		return nil
	}
	isReadable := e.contents.decode(decoded) == nil
	payload := decoded.Payload
	if v.Payload != nil {
		to := Edit{Payload: v.Payload}
		if _, err := e.catalog.checkEdit(decoded, &to); err != nil {
			return err
		}
		stored, err := to.encode(t.Type, e.contents)
		if err != nil {
			return err
		}
		text := fmt.Sprintf("payload was %d bytes", len(payload))
		if isReadable && e.contents.isOpen(t.Payload, payload) && utf8.Valid(payload) {
			text = "payload was " + string(payload[:min(len(payload), mostWas)])
		}
		*was = append(*was, strings.ToValidUTF8(text, ""))
		payload, c.Payload, c.Mark.Payload = *v.Payload, stored.Payload, &t.Payload
	} else if !isReadable && len(e.catalog.infoOf(t.Type).keys) > 0 {
		return errors.New("its payload cannot be decoded, and its limits need that")
	}
	group, err := e.catalog.groupWith(decoded, payload)
	if err != nil {
		return err
	}
	if c.Group, c.Search = group, e.catalog.searchWith(decoded, payload); c.Search != nil && v.Payload == nil && !isReadable {
		c.Search = &[]task.SearchValue{task.Unread}
	}
	return nil
}
