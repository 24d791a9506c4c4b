package answer

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/taskengine/taskengine/internal/pattern"
	"github.com/taskengine/taskengine/task"
)

// parser reads the fields of a document.
type parser struct {
	now   Now
	rules Rules
}

// times are two fields of which at most one is given: a time, or a duration from now on.
type times struct {
	at    time.Time
	in    time.Duration
	hasIn bool
}

// add adds the fields with the given names to known.
func (t *times) add(known fields, at, in string) {
	known[at] = moment(&t.at)
	known[in] = func(at string, v json.RawMessage) error { t.hasIn = true; return duration(&t.in)(at, v) }
}

// from returns the time that is given, zero if none is.
func (t *times) from(now time.Time) (time.Time, error) {
	switch {
	case t.hasIn && !t.at.IsZero():
		return time.Time{}, errors.New("a time and a duration exclude each other")
	case t.hasIn:
		return now.Add(t.in), nil
	}
	return t.at, nil
}

func (p parser) again(at string, v json.RawMessage, a *Answer) (err error) {
	var when times
	known := make(fields)
	when.add(known, "at", "delay")
	if err = known.read(at, v); err != nil {
		return err
	}
	a.again = true
	if a.at, err = when.from(p.now.Here); err != nil {
		return fmt.Errorf("%s: %w; write at or delay", at, err)
	}
	if a.at.IsZero() {
		return fmt.Errorf("%s has neither at nor delay", at)
	}
	return nil
}

func (p parser) wait(at string, v json.RawMessage, a *Answer) (err error) {
	var when times
	w := new(wait)
	known := fields{
		"signals": list(func(at string, v json.RawMessage) error {
			var name string
			if err := filled(&name)(at, v); err != nil {
				return err
			}
			w.signals = append(w.signals, name)
			return nil
		}),
		"children": list(func(at string, v json.RawMessage) error {
			var c task.ChildrenWait
			known := fields{"name": filled(&c.Name), "count": number(&c.Count, anyNumber), "or_failed": boolean(&c.OrFailed)}
			if err := known.read(at, v); err != nil {
				return err
			}
			if c.Name == "" {
				return fmt.Errorf("%s has no name", at)
			}
			w.children = append(w.children, c)
			return nil
		}),
	}
	when.add(known, "until", "timeout")
	if err = known.read(at, v); err != nil {
		return err
	}
	if a.at, err = when.from(p.now.Here); err != nil {
		return fmt.Errorf("%s: %w; write until or timeout", at, err)
	}
	if w.signals == nil && w.children == nil {
		return fmt.Errorf("%s has neither signals nor children; to wait for a time, write again", at)
	}
	a.wait = w
	return nil
}

func (p parser) failure(at string, v json.RawMessage, a *Answer) error {
	f := new(failure)
	known := fields{
		"message": filled(&f.message), "class": text(&f.class), "permanent": boolean(&f.permanent), "in_doubt": boolean(&f.inDoubt),
		"retry_delay": func(at string, v json.RawMessage) error { f.hasDelay = true; return duration(&f.retryDelay)(at, v) },
	}
	if err := known.read(at, v); err != nil {
		return err
	}
	switch {
	case f.message == "":
		return fmt.Errorf("%s has no message", at)
	case f.permanent && f.hasDelay:
		return fmt.Errorf("%s is permanent, and has a retry_delay", at)
	}
	a.failure = f
	return nil
}

// request returns the fields of a task to add, and a function that completes r when they are read.
func (p parser) request(r *task.Request) (known fields, complete func(at string) error) {
	var payload *[]byte
	var when times
	known = fields{
		"type": filled(&r.Type), "ordering_key": text(&r.OrderingKey), "expires_at": moment(&r.ExpiresAt),
		"priority": func(at string, v json.RawMessage) error {
			var n uint32
			if err := number(&n, uint32(task.LowestPriority))(at, v); err != nil {
				return err
			}
			r.Priority = new(uint8(n))
			return nil
		},
		"headers": func(at string, v json.RawMessage) error {
			r.Headers = make(map[string]string)
			return entries(at, v, func(name string, v json.RawMessage) error {
				var value string
				if _, given := r.Headers[name]; given {
					return fmt.Errorf("%s is given twice", inside(at, cut(name)))
				}
				err := text(&value)(inside(at, cut(name)), v)
				r.Headers[name] = value
				return err
			})
		},
	}
	known.content("payload", &payload)
	when.add(known, "at", "in")
	return known, func(at string) (err error) {
		if r.At, err = when.from(p.now.Nodes); err != nil {
			return fmt.Errorf("%s: %w; write at or in", at, err)
		}
		if payload != nil {
			r.Payload = *payload
		}
		switch {
		case r.Type == "":
			return fmt.Errorf("%s has no type", at)
		case task.IsReservedType(r.Type):
			return fmt.Errorf("%s has the type %.80q: types that begin with %s belong to the engine", at, r.Type, task.ReservedTypes)
		case !pattern.AnyMatches(p.rules.MayAdd, r.Type):
			return fmt.Errorf("%s has the type %.80q, and may_add of the handler does not list it", at, r.Type)
		}
		return nil
	}
}

func (p parser) task(at string, v json.RawMessage, to *[]task.Request) error {
	var r task.Request
	known, complete := p.request(&r)
	known["id"], known["key"], known["after_any"] = id(&r.ID), text(&r.Key), boolean(&r.AfterAny)
	known["after"] = list(func(at string, v json.RawMessage) error {
		var of task.ID
		err := id(&of)(at, v)
		r.After = append(r.After, of)
		return err
	})
	if err := known.read(at, v); err != nil {
		return err
	}
	err := complete(at)
	if err == nil && r.AfterAny && r.After == nil {
		err = fmt.Errorf("%s has after_any, and after names no task", at)
	}
	*to = append(*to, r)
	return err
}

const (
	ofChild      = "a child has none of its own: its parent, its name and its number make its id"
	afterOfChild = "a child runs after no other task: add a task, or have the parent add the child later"
)

func (p parser) children(at string, v json.RawMessage, to *[]task.ChildRequests) error {
	return entries(at, v, func(name string, v json.RawMessage) error {
		if slices.ContainsFunc(*to, func(c task.ChildRequests) bool { return c.Name == name }) {
			return fmt.Errorf("%s is given twice", inside(at, cut(name)))
		}
		set := task.ChildRequests{Name: name}
		err := list(func(at string, v json.RawMessage) error {
			var r task.Request
			known, complete := p.request(&r)
			known["id"], known["key"], known["after"], known["after_any"] = refused(ofChild), refused(ofChild), refused(afterOfChild), refused(afterOfChild)
			if err := known.read(at, v); err != nil {
				return err
			}
			err := complete(at)
			set.Requests = append(set.Requests, r)
			return err
		})(inside(at, cut(name)), v)
		*to = append(*to, set)
		return err
	})
}

func (p parser) signal(at string, v json.RawMessage, to *[]task.SignalRequest) error {
	var s task.SignalRequest
	var data *[]byte
	known := fields{
		"id": id(&s.To), "type": filled(&s.Type), "key": filled(&s.Key), "ordering_key": text(&s.OrderingKey),
		"request_id": id(&s.ID), "name": filled(&s.Name), "keep": boolean(&s.Keep),
	}
	known.content("data", &data)
	if err := known.read(at, v); err != nil {
		return err
	}
	if data != nil {
		s.Data = *data
	}
	byKey := s.Key != "" || s.OrderingKey != ""
	switch {
	case s.Name == "":
		return fmt.Errorf("%s has no name", at)
	case byKey && !s.To.IsZero():
		return fmt.Errorf("%s has an id and a key: a signal is for the task with one of both", at)
	case s.To.IsZero() && s.Type == "" && s.Key == "":
		return fmt.Errorf("%s names no task; write id, or type and key", at)
	case s.To.IsZero() && (s.Type == "" || s.Key == ""):
		return fmt.Errorf("%s: type and key go together", at)
	case task.IsReservedType(s.Type):
		return fmt.Errorf("%s is for a task of type %.80q: types that begin with %s belong to the engine", at, s.Type, task.ReservedTypes)
	case s.Type == "" && !slices.Contains(p.rules.MaySignal, "*"):
		return fmt.Errorf("%s has an id and no type, and may_signal of the handler does not list \"*\"; write the type, too", at)
	case s.Type != "" && !pattern.AnyMatches(p.rules.MaySignal, s.Type):
		return fmt.Errorf("%s is for a task of type %.80q, and may_signal of the handler does not list it", at, s.Type)
	}
	*to = append(*to, s)
	return nil
}

// write reads a write of a document that tasks share.
func (p parser) write(at string, v json.RawMessage, to *[]task.DocumentWrite) error {
	var w task.DocumentWrite
	var data *[]byte
	var when times
	known := fields{
		"key": filled(&w.Key), "delete": boolean(&w.Delete),
		"if_version": func(at string, v json.RawMessage) error {
			n, err := strconv.ParseUint(string(v), 10, 63)
			if err != nil {
				return fmt.Errorf("%s is %s, and not a version: the number that the document was read with, or 0 for none", at, cut(string(v)))
			}
			w.Replaces = &n
			return nil
		},
	}
	known.content("data", &data)
	when.add(known, "expires_at", "expires_in")
	err := known.read(at, v)
	if err != nil {
		return err
	}
	if w.ExpiresAt, err = when.from(p.now.Nodes); err != nil {
		return fmt.Errorf("%s: %w; write expires_at or expires_in", at, err)
	}
	if data != nil {
		w.Data = *data
	}
	switch {
	case w.Key == "":
		return fmt.Errorf("%s has no key", at)
	case data == nil && !w.Delete:
		return fmt.Errorf("%s has neither data nor delete", at)
	case w.Delete && (data != nil || !w.ExpiresAt.IsZero()):
		return fmt.Errorf("%s is to be deleted, and has data or a time", at)
	case !pattern.AnyMatches(p.rules.MayWrite, w.Key):
		return fmt.Errorf("%s has the key %.80q, and may_write of the handler does not list it", at, w.Key)
	}
	*to = append(*to, w)
	return nil
}
