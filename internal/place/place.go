// Package place reads values of tasks at the places that configurations name: key, ordering_key, headers.NAME, payload
// and payload.NAME.
package place

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Text returns a member of a JSON document as text: the value of a string, a number with all of its digits, or true or
// false. A member that is missing or null is "". An object or a list is an error, and so is a document that is no
// object. path has the names of the members from the outside to the inside.
func Text(document []byte, path []string) (string, error) {
	raw, err := member(document, path)
	if raw == nil || err != nil {
		return "", err
	}
	var v any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber() // keep all digits: different large numbers must stay different
	if err := d.Decode(&v); err != nil {
		return "", err
	}
	switch v := v.(type) {
	case string:
		return v, nil
	case json.Number:
		return v.String(), nil
	case bool:
		return strconv.FormatBool(v), nil
	case nil:
		return "", nil
	}
	return "", errors.New("it is neither text, a number nor a boolean")
}

// member returns a member of a JSON document, nil if it is missing.
func member(document []byte, path []string) (json.RawMessage, error) {
	raw := json.RawMessage(document)
	for _, name := range path {
		var members map[string]json.RawMessage
		if err := json.Unmarshal(raw, &members); err != nil {
			return nil, fmt.Errorf("it is not a JSON object: %w", err)
		}
		if raw = members[name]; raw == nil {
			return nil, nil
		}
	}
	return raw, nil
}

// Task has the parts of a task that have places.
type Task struct {
	Key, OrderingKey string
	Headers          map[string]string
	Payload          []byte
}

// Bytes returns the value at a place: text as it is, and another JSON value of the payload as it is written there. A
// value that is missing, empty or null is nil. The result may be a part of the payload.
func (t Task) Bytes(place string) ([]byte, error) {
	part, rest, _ := strings.Cut(place, ".")
	switch {
	case place == "key":
		return notEmpty(t.Key), nil
	case place == "ordering_key":
		return notEmpty(t.OrderingKey), nil
	case part == "headers":
		return notEmpty(t.Headers[rest]), nil
	case place == "payload":
		if len(t.Payload) == 0 {
			return nil, nil
		}
		return t.Payload, nil
	case part != "payload":
		return nil, fmt.Errorf("%q is not a place in a task", place)
	}
	raw, err := member(t.Payload, strings.Split(rest, "."))
	if err != nil {
		return nil, fmt.Errorf("%s of the payload: %w", rest, err)
	}
	var text string
	switch {
	case raw == nil || string(raw) == "null":
		return nil, nil
	case json.Unmarshal(raw, &text) == nil:
		return notEmpty(text), nil
	}
	return raw, nil
}

func notEmpty(s string) []byte {
	if s == "" {
		return nil
	}
	return []byte(s)
}
