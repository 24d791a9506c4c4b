// Package place reads values of tasks and records at the places that configurations name.
package place

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
)

// Text returns a member of a JSON document as text: the value of a string, a number with all of its digits, or true or
// false. A member that is missing or null is "". An object or a list is an error, and so is a document that is no
// object. path has the names of the members from the outside to the inside.
func Text(document []byte, path []string) (string, error) {
	raw, err := member(document, path)
	if raw == nil || err != nil {
		return "", err
	}
	return scalar(raw)
}

// ErrNotScalar is wrapped by the errors of [Text] and [Record.Scalar] for a value that is an object or a list.
var ErrNotScalar = errors.New("it is neither text, a number nor a boolean")

// scalar returns a JSON value as text; "" for null.
func scalar(raw json.RawMessage) (string, error) {
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
	return "", ErrNotScalar
}

// written returns text as it is, and another JSON value as it is written; nil for null, an empty text, and no value.
func written(raw json.RawMessage) []byte {
	var text string
	switch {
	case raw == nil || string(raw) == "null":
		return nil
	case json.Unmarshal(raw, &text) == nil:
		return notEmpty(text)
	}
	return raw
}

// member returns a member of a JSON document, nil if it is missing.
func member(document []byte, path []string) (json.RawMessage, error) {
	raw := json.RawMessage(document)
	for _, name := range path {
		members, err := membersOf(raw)
		if err != nil {
			return nil, err
		}
		if raw = members[name]; raw == nil {
			return nil, nil
		}
	}
	return raw, nil
}

// membersOf returns the members of a JSON object.
func membersOf(document []byte) (map[string]json.RawMessage, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(document, &members); err != nil {
		return nil, fmt.Errorf("it is not a JSON object: %w", err)
	}
	return members, nil
}

func notEmpty(s string) []byte {
	if s == "" {
		return nil
	}
	return []byte(s)
}
