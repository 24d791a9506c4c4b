package place

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// ErrNotScalar is wrapped by the errors of [Text] and [Record.Scalar] for a value that is an object or a list.
var ErrNotScalar = errors.New("it is neither text, a number nor a boolean")

var errNotUnicode = errors.New("it is text that is not Unicode")

// check returns an error if a document is not JSON.
func check(document []byte) error {
	if json.Valid(document) {
		return nil
	}
	return notObject(document)
}

// notObject returns the error of a document that is not JSON of an object.
func notObject(document []byte) error {
	var members map[string]json.RawMessage
	return fmt.Errorf("it is not a JSON object: %w", json.Unmarshal(document, &members))
}

// member returns the last member with a name of a JSON value, which is an object or null; nil if there is none.
func member(document []byte, name string) (found []byte, err error) {
	i := afterSpace(document, 0)
	switch document[i] {
	case 'n':
		return nil, nil
	case '{':
	default:
		return nil, notObject(document)
	}
	for i = afterSpace(document, i+1); document[i] != '}'; {
		end := afterText(document, i)
		isIt := isNamed(document[i:end], name)
		i = afterSpace(document, afterSpace(document, end)+1) // behind the colon
		if end = afterValue(document, i); isIt {
			found = document[i:end]
		}
		if i = afterSpace(document, end); document[i] == ',' {
			i = afterSpace(document, i+1)
		}
	}
	return found, nil
}

// isNamed reports whether the name of a member, a JSON text, is name.
func isNamed(raw []byte, name string) bool {
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1:len(raw)-1]) == name
	}
	var s string
	return json.Unmarshal(raw, &s) == nil && s == name
}

// The functions afterSpace, afterText and afterValue return the index behind a part of JSON that begins at i.

func afterSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

func afterText(b []byte, i int) int {
	for i++; b[i] != '"'; i++ {
		if b[i] == '\\' {
			i++
		}
	}
	return i + 1
}

func afterValue(b []byte, i int) int {
	depth := 0
	for ; i < len(b); i++ {
		switch b[i] {
		case '"':
			if i = afterText(b, i); depth == 0 {
				return i
			}
			i-- // the loop adds it
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i // of the object around a number or word
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case ',', ' ', '\n', '\t', '\r':
			if depth == 0 {
				return i
			}
		}
	}
	return i
}

// scalar returns a JSON value as a string: the value of a string, a number with all of its digits, or true or false; "" for
// null.
func scalar(raw []byte) (string, error) {
	switch raw[0] {
	case '"':
		return unquoted(raw)
	case '{', '[':
		return "", ErrNotScalar
	case 'n':
		return "", nil
	}
	return string(raw), nil
}

// written returns text as it is, and another JSON value as it is written; nil for null, an empty text, and no value.
func written(raw []byte) ([]byte, error) {
	if raw == nil || raw[0] == 'n' {
		return nil, nil
	}
	if raw[0] != '"' {
		return raw, nil
	}
	s, err := unquoted(raw)
	return notEmpty(s), err
}

// unquoted returns the value of a JSON text. Bytes and surrogates that are no Unicode become U+FFFD.
func unquoted(raw []byte) (s string, err error) {
	if bytes.IndexByte(raw, '\\') < 0 && utf8.Valid(raw) {
		return string(raw[1 : len(raw)-1]), nil
	}
	err = json.Unmarshal(raw, &s)
	return s, err
}

// isUnicode reports whether a JSON value is no text, or its value keeps all of it.
func isUnicode(raw []byte) bool {
	if len(raw) == 0 || raw[0] != '"' {
		return true
	}
	return utf8.Valid(raw) && !hasLoneSurrogate(raw)
}

// hasLoneSurrogate reports whether a JSON text escapes a surrogate without its partner.
func hasLoneSurrogate(raw []byte) bool {
	for i := bytes.IndexByte(raw, '\\'); i >= 0 && i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		i++ // the next character is escaped
		high := escaped(raw, i)
		if !utf16.IsSurrogate(high) {
			continue
		}
		if raw[i+5] != '\\' || utf16.DecodeRune(high, escaped(raw, i+6)) == utf8.RuneError {
			return true
		}
		i += 10
	}
	return false
}

// escaped returns the code unit of an escape u0000 at i; -1 if there is another one.
func escaped(raw []byte, i int) rune {
	if i+5 > len(raw) || raw[i] != 'u' {
		return -1
	}
	n, err := strconv.ParseUint(string(raw[i+1:i+5]), 16, 16)
	if err != nil {
		return -1
	}
	return rune(n)
}

func notEmpty(s string) []byte {
	if s == "" {
		return nil
	}
	return []byte(s)
}
