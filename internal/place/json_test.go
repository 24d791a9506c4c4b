package place_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/taskengine/taskengine/internal/place"
)

// expected returns what [place.Text] should, by package encoding/json.
func expected(document []byte, path []string) (text string, ok bool) {
	raw := json.RawMessage(document)
	for _, name := range path {
		var members map[string]json.RawMessage
		if json.Unmarshal(raw, &members) != nil {
			return "", false
		}
		if raw = members[name]; raw == nil {
			return "", true
		}
	}
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return "", false
	}
	switch v := v.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	case bool:
		return strconv.FormatBool(v), true
	}
	return "", v == nil
}

// FuzzText compares Text with a slow version.
func FuzzText(f *testing.F) {
	for _, document := range []string{
		`{"a":1}`, ` { "a" : { "b" : [1, {"a":2}], "c":"\"\\" } , "b" : -1.50e+9 , "a" : {"b":true}}` + "\n", `{"a":null,"a":"x"}`, `{"\u0061":"\ud83d\ude00","b":"\ud800"}`,
		`{}`, `[]`, `null`, `"a"`, `{"a":`, `{"a":"b\`, `{"":{"":false}}`, "{\"a\":\"\xff\"}", `{"x":[[]],"y":{},"z":"","a":[{"b":"]}"}]}`, `{"a":1}x`, ``, strings.Repeat("[", 20000),
	} {
		for _, path := range []string{"a", "b", "a.b", "a.b.c", "", "x"} {
			f.Add([]byte(document), path)
		}
	}
	f.Fuzz(func(t *testing.T, document []byte, path string) {
		if !utf8.ValidString(path) || strings.Contains(path, "\ufffd") {
			return // encoding/json compares names after it has replaced bytes that are not UTF-8
		}
		names := strings.Split(path, ".")
		want, ok := expected(document, names)
		got, err := place.Text(document, names)
		if got != want || (err == nil) != ok {
			t.Errorf("%q of %q: %q, %v; want %q, %t", path, document, got, err, want, ok)
		}
		// Records refuse text that is not Unicode, and agree otherwise.
		r := place.Record{Value: document}
		scalar, err := r.Scalar("value." + path)
		if len(document) > 0 && err == nil && (string(scalar) != want || !ok) || err != nil && ok && len(document) > 0 && !strings.Contains(want, "\ufffd") {
			t.Errorf("%q of a record with %q: %q, %v; want %q, %t", path, document, scalar, err, want, ok)
		}
	})
}
