package answer

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/taskengine/taskengine/internal/suggest"
	"github.com/taskengine/taskengine/task"
)

// reader reads the value of a field. at is the place of the value in the document, for errors.
type reader func(at string, value json.RawMessage) error

// fields are the fields that an object may have.
type fields map[string]reader

// document returns the value of a document that consists of one value in UTF-8.
func document(text []byte) (json.RawMessage, error) {
	if !utf8.Valid(text) {
		return nil, errors.New("it is not UTF-8; give bytes that are no text in a field that ends with _base64")
	}
	d := json.NewDecoder(bytes.NewReader(text))
	var value json.RawMessage
	switch err := d.Decode(&value); {
	case errors.Is(err, io.EOF):
		return nil, errors.New("it is blank")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, fmt.Errorf("it is cut off after %d bytes", len(text))
	case err != nil:
		return nil, fmt.Errorf("it is not JSON: %w", err)
	}
	if end := d.InputOffset(); len(bytes.TrimSpace(text[end:])) > 0 {
		return nil, fmt.Errorf("more follows its end at byte %d; write one document", end)
	}
	return value, nil
}

// read reads an object, field by field in the order of the document. An unknown field and one that is given twice are errors.
func (known fields) read(at string, value json.RawMessage) error {
	seen := make(map[string]bool)
	return entries(at, value, func(name string, value json.RawMessage) error {
		read, ok := known[name]
		if !ok {
			return fmt.Errorf("%s is no field; %s", inside(at, cut(name)), suggest.Advice(name, slices.Sorted(maps.Keys(known))))
		}
		if seen[name] {
			return fmt.Errorf("%s is given twice", inside(at, name))
		}
		seen[name] = true
		return read(inside(at, name), value)
	})
}

// entries calls each for the fields of an object, in their order.
func entries(at string, value json.RawMessage, each func(name string, value json.RawMessage) error) error {
	if value[0] != '{' {
		return mismatch(at, value, "an object")
	}
	d := json.NewDecoder(bytes.NewReader(value))
	if _, err := d.Token(); err != nil {
		return err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return err
		}
		if err := each(name.(string), value); err != nil {
			return err
		}
	}
	return nil
}

// list returns a reader that calls each for the values of a list, in their order.
func list(each reader) reader {
	return func(at string, value json.RawMessage) error {
		if value[0] != '[' {
			return mismatch(at, value, "a list")
		}
		var values []json.RawMessage
		if err := json.Unmarshal(value, &values); err != nil {
			return err
		}
		for i, v := range values {
			if err := each(fmt.Sprintf("%s[%d]", at, i), v); err != nil {
				return err
			}
		}
		return nil
	}
}

// into returns a reader that reads a string, and converts it by f.
func into[T any](to *T, f func(string) (T, error)) reader {
	return func(at string, value json.RawMessage) error {
		var s string
		if value[0] != '"' {
			return mismatch(at, value, "a string")
		}
		if err := json.Unmarshal(value, &s); err != nil {
			return err
		}
		v, err := f(s)
		if err != nil {
			return fmt.Errorf("%s is %s: %w", at, cut(strconv.Quote(s)), err)
		}
		*to = v
		return nil
	}
}

func text(to *string) reader { return into(to, func(s string) (string, error) { return s, nil }) }

// filled reads a string that is not empty.
func filled(to *string) reader {
	return into(to, func(s string) (string, error) {
		if s == "" {
			return "", errors.New("it must not be empty")
		}
		return s, nil
	})
}

func boolean(to *bool) reader {
	return func(at string, value json.RawMessage) error {
		if json.Unmarshal(value, to) != nil || value[0] == 'n' {
			return mismatch(at, value, "true or false")
		}
		return nil
	}
}

// number reads a whole number of 0 to most.
func number(to *uint32, most uint32) reader {
	return func(at string, value json.RawMessage) error {
		n, err := strconv.ParseUint(string(value), 10, 32)
		if err != nil || n > uint64(most) {
			return fmt.Errorf("%s is %s, and not a whole number of 0 to %d", at, cut(string(value)), most)
		}
		*to = uint32(n)
		return nil
	}
}

func duration(to *time.Duration) reader {
	return into(to, func(s string) (time.Duration, error) {
		d, err := time.ParseDuration(s)
		switch {
		case err != nil:
			return 0, errors.New("write a duration with its unit, such as 90s, 5m or 48h")
		case d < 0:
			return 0, errors.New("a duration is not negative")
		}
		return d, nil
	})
}

func moment(to *time.Time) reader {
	return into(to, func(s string) (time.Time, error) {
		t, err := time.Parse(time.RFC3339Nano, s)
		switch {
		case err != nil:
			return t, errors.New("write a time as 2026-11-29T14:00:00Z")
		case t.Before(time.Unix(0, 0)) || t.UTC().Year() > 9999:
			return t, errors.New("times lie between the years 1970 and 9999")
		}
		return t.UTC(), nil
	})
}

func id(to *task.ID) reader {
	return into(to, func(s string) (task.ID, error) {
		id, err := task.ParseID(s)
		if err == nil && id.IsZero() {
			err = errors.New("no task has the id zero")
		}
		return id, err
	})
}

// content adds the fields that say which bytes the field name stands for: a value of JSON, a text, or base64.
func (known fields) content(name string, to **[]byte) {
	from := ""
	set := func(data []byte, at string) error {
		if *to != nil {
			return fmt.Errorf("%s and %s exclude each other", from, at)
		}
		*to, from = &data, at
		return nil
	}
	known[name] = func(at string, value json.RawMessage) error { return set(bytes.Clone(value), at) }
	known[name+"_text"] = func(at string, value json.RawMessage) error {
		var s string
		if err := text(&s)(at, value); err != nil {
			return err
		}
		return set([]byte(s), at)
	}
	known[name+"_base64"] = func(at string, value json.RawMessage) error {
		var data []byte
		err := into(&data, func(s string) ([]byte, error) {
			data, err := base64.StdEncoding.DecodeString(s)
			if err != nil {
				err = errors.New("it is not base64 of RFC 4648 with padding")
			}
			return data, err
		})(at, value)
		if err != nil {
			return err
		}
		return set(data, at)
	}
}

// refused returns a reader of a field that is known, and must not be given.
func refused(why string) reader {
	return func(at string, _ json.RawMessage) error { return fmt.Errorf("%s: %s", at, why) }
}

// inside returns the place of a field of the object at a place.
func inside(at, name string) string {
	if at == "" {
		return name
	}
	return at + "." + name
}

func mismatch(at string, value json.RawMessage, want string) error {
	is := "a number"
	switch value[0] {
	case '{':
		is = "an object"
	case '[':
		is = "a list"
	case '"':
		is = "a string"
	case 't', 'f', 'n':
		is = string(value)
	}
	if at == "" {
		at = "the document"
	}
	return fmt.Errorf("%s is %s, and not %s", at, is, want)
}

// cut returns the beginning of a text, for errors.
func cut(s string) string {
	const most = 80
	if len(s) > most {
		s = s[:most] + "..."
	}
	return strings.ToValidUTF8(s, "")
}

const anyNumber = math.MaxUint32
