package source

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/taskengine/taskengine/internal/place"
	"github.com/taskengine/taskengine/task"
)

// binaryPrefix begins the text of bytes that are not text.
const binaryPrefix = "base64:"

// Where returns the topic, partition and offset of a record, for errors and logs.
func Where(r *kgo.Record) string {
	return fmt.Sprintf("topic %s, partition %d, offset %d", r.Topic, r.Partition, r.Offset)
}

// Request returns the request of the task that a record becomes, and whether it becomes one: a record that Filter excludes
// does not. If a record cannot be read as d demands, the error says where the record is, the cause, and the remedy.
// Request does not depend on anything but d and r. The payload may be a part of the record.
//
// A record without a value at the place of the key, the ordering key or a header becomes a task without it. An empty value
// is none, and so is null in JSON. A record without a value, such as one that deletes its key in a compacted topic, has
// nothing at value and value.NAME: by default its task has an empty payload. If a record has several headers of one name,
// the last one counts.
//
// A value that becomes the key, the ordering key or a header of the task, or is compared with a value of Filter, is written
// as "base64:" and its standard base64 if it is not UTF-8 text without NUL, or is text that begins with "base64:": different
// bytes become different texts. The payload has the bytes of the record as they are. A member of a JSON value has to be
// text, a number or a boolean to become the type, the key or the ordering key; an object or list is written as JSON where
// it becomes the payload or a header, and equals no value of Filter. A record that one place of Filter excludes is no
// error, even if another place cannot be read.
//
// A type that is reserved is an error of Request. The engine refuses whatever else it does not allow in a request when it
// is submitted: types that cannot be printed, and a type, key, payload or headers that are too large.
func (d *Definition) Request(r *kgo.Record) (req task.Request, matches bool, err error) {
	of := place.Record{
		Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Timestamp: r.Timestamp, Key: r.Key, Value: r.Value,
		Header: func(name string) []byte { return headerOf(r, name) },
	}
	if matches, err = d.chooses(&of); err == nil && matches {
		req, err = d.request(r, &of)
	}
	if err != nil {
		return task.Request{}, false, fmt.Errorf("source %s: %s: %w", d.Name, Where(r), err)
	}
	return req, matches, nil
}

// chooses reports whether Filter lets a record pass.
func (d *Definition) chooses(of *place.Record) (bool, error) {
	failed, cause := "", error(nil)
	for at, values := range d.Filter {
		value, err := of.Scalar(at)
		switch {
		case errors.Is(err, place.ErrNotScalar):
			return false, nil
		case err != nil:
			if failed == "" || at < failed {
				failed, cause = at, err
			}
		case !slices.Contains(values, text(value)):
			return false, nil
		}
	}
	if cause != nil {
		return false, unreadable("a value of the filter", failed, "filter", cause)
	}
	return true, nil
}

// request returns the request of a record that Filter lets pass.
func (d *Definition) request(r *kgo.Record, of *place.Record) (req task.Request, err error) {
	if req.Type, err = d.typeOf(of); err != nil {
		return req, err
	}
	if req.Key, err = scalarAt(of, d.Key); err != nil {
		return req, unreadable("the key", d.Key, "key", err)
	}
	if req.OrderingKey, err = scalarAt(of, d.OrderingKey); err != nil {
		return req, unreadable("the ordering key", d.OrderingKey, "ordering_key", err)
	}
	at := d.Payload
	if at == "" {
		at = DefaultPayload
	}
	if req.Payload, err = of.Bytes(at); err != nil {
		return req, unreadable("the payload", at, "payload", err)
	}
	req.Headers = make(map[string]string, len(d.Headers)+6)
	failed, cause := "", error(nil)
	for name, at := range d.Headers {
		value, err := of.Bytes(at)
		switch {
		case err != nil && (cause == nil || name < failed):
			failed, cause = name, err
		case value != nil:
			req.Headers[name] = text(value)
		}
	}
	if cause != nil {
		return req, unreadable("the header "+failed, d.Headers[failed], "headers", cause)
	}
	addOwnHeaders(req.Headers, r)
	return req, nil
}

// typeOf returns the type of the task of a record.
func (d *Definition) typeOf(of *place.Record) (string, error) {
	if d.TypeFrom == "" {
		return d.Type, nil
	}
	value, err := of.Scalar(d.TypeFrom)
	switch {
	case err != nil:
		return "", unreadable("the type", d.TypeFrom, "type_from", err)
	case value == nil:
		return "", unreadable("the type", d.TypeFrom, "type_from", errors.New("the record has no value there"))
	case text(value) != string(value):
		return "", unreadable("the type", d.TypeFrom, "type_from", errors.New("it is not text"))
	case task.IsReservedType(string(value)):
		return "", unreadable("the type", d.TypeFrom, "type_from", reservedType(string(value)))
	}
	return string(value), nil
}

// unreadable returns the error of a value that could not be read at a place, which a key of the source names.
func unreadable(what, at, key string, err error) error {
	return fmt.Errorf("%s, at %s: %w; correct the program that writes the topic, or %s of the source", what, at, err, key)
}

// scalarAt returns the text at a place; "" if there is none, and if the place is "".
func scalarAt(of *place.Record, at string) (string, error) {
	if at == "" {
		return "", nil
	}
	value, err := of.Scalar(at)
	return text(value), err
}

// addOwnHeaders adds the headers that each task gets from its record.
func addOwnHeaders(to map[string]string, r *kgo.Record) {
	to[HeaderTopic] = r.Topic
	to[HeaderPartition] = strconv.FormatInt(int64(r.Partition), 10)
	to[HeaderOffset] = strconv.FormatInt(r.Offset, 10)
	if at := place.Moment(r.Timestamp); at != "" {
		to[HeaderTimestamp] = at
	}
	parent := traceOf(r, headerParent, leastParent, mostParent)
	if parent == "" {
		return // the state belongs to it
	}
	to[headerParent] = parent
	if state := traceOf(r, headerState, 1, mostState); state != "" {
		to[headerState] = state
	}
}

// The sizes of W3C Trace Context, in bytes.
const (
	leastParent = 55
	mostParent  = 128 // later versions may append to it
	mostState   = 512
)

// traceOf returns a header of the trace context of a record; "" if it has none of a valid size that can be printed. Case
// does not matter in the name.
func traceOf(r *kgo.Record, name string, least, most int) string {
	for i := len(r.Headers) - 1; i >= 0; i-- {
		h := &r.Headers[i]
		if !strings.EqualFold(h.Key, name) {
			continue
		}
		if len(h.Value) < least || len(h.Value) > most || bytes.ContainsFunc(h.Value, func(c rune) bool { return c < ' ' || c > '~' }) {
			return ""
		}
		return string(h.Value)
	}
	return ""
}

// headerOf returns the value of the last header with a name; nil if there is none.
func headerOf(r *kgo.Record, name string) []byte {
	for i := len(r.Headers) - 1; i >= 0; i-- {
		if r.Headers[i].Key == name {
			return r.Headers[i].Value
		}
	}
	return nil
}

// text returns bytes as text: different bytes as different texts.
func text(b []byte) string {
	if utf8.Valid(b) && bytes.IndexByte(b, 0) < 0 && !bytes.HasPrefix(b, []byte(binaryPrefix)) {
		return string(b)
	}
	return binaryPrefix + base64.StdEncoding.EncodeToString(b)
}
