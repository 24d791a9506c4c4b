package redact

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func rules(t *testing.T, places ...string) Rules {
	t.Helper()
	all, err := ParseAll(places)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestPlacesThatCannotBeAreRefused(t *testing.T) {
	for _, text := range []string{"", "card", "key", "payload.", "payload..a", "header.a", ".payload"} {
		if r, err := Parse(text); err == nil {
			t.Errorf("%q is %v", text, r)
		}
	}
}

func TestValuesAtAPlaceAreReplaced(t *testing.T) {
	r := rules(t, "payload.card.number", "payload.secret", "payload.items.cvv", "payload.null")
	for given, want := range map[string]string{
		`{"card":{"number":4111111111111111,"name":"Ann"},"n":12345678901234567890}`: `{"card":{"name":"Ann","number":"[redacted]"},"n":12345678901234567890}`,
		`{"card":"none"}`:                                    `{"card":"none"}`,
		`{"card":[{"number":"1"},{"number":"2"}]}`:           `{"card":[{"number":"[redacted]"},{"number":"[redacted]"}]}`,
		`{"secret":{"a":[1,2]},"items":[{"cvv":123,"x":1}]}`: `{"items":[{"cvv":"[redacted]","x":1}],"secret":"[redacted]"}`,
		`{"secret":[1,2]}`:                                   `{"secret":"[redacted]"}`,
		`[{"secret":1}]`:                                     `[{"secret":"[redacted]"}]`,
		`{"secret":"a","secret":"b"}`:                        `{"secret":"[redacted]"}`,
		`{"null":null}`:                                      `{"null":null}`,
		`{"other": 1}`:                                       `{"other": 1}`,
		`card=4111`:                                          `"[redacted]"`,
		`{"a":1} {"card":{"number":1}}`:                      `"[redacted]"`,
		``:                                                   ``,
	} {
		if got := string(r.Document("payload", []byte(given), new(Values))); got != want {
			t.Errorf("%s becomes %s, want %s", given, got, want)
		}
	}
	if got := string(r.Document("result", []byte(`card=4111`), new(Values))); got != "card=4111" {
		t.Errorf("a document without a place becomes %s", got)
	}
}

func TestAWholeDocumentIsReplaced(t *testing.T) {
	if got := string(rules(t, "result").Document("result", []byte(`[1,2]`), new(Values))); got != `"[redacted]"` {
		t.Errorf("it becomes %s", got)
	}
}

func TestHeadersAreReplacedWhateverTheirCase(t *testing.T) {
	given := map[string]string{"Authorization": "Bearer x", "a.b": "1", "c": ""}
	got := rules(t, "headers.authorization", "headers.a.b", "headers.c").Headers(given, new(Values))
	if diff := cmp.Diff(map[string]string{"Authorization": Mark, "a.b": Mark, "c": ""}, got); diff != "" || given["a.b"] != "1" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestValuesAreReplacedInTexts(t *testing.T) {
	var hidden Values
	r := rules(t, "payload.card", "headers.authorization")
	r.Document("payload", []byte(`{"card":{"number":4111111111111111,"name":"Ann \"A\" Lee","part":"4111","cvv":"12"}}`), &hidden)
	r.Headers(map[string]string{"authorization": "Bearer x"}, &hidden)
	for given, want := range map[string]string{
		"card 4111111111111111 of Ann \"A\" Lee refused": "card [redacted] of [redacted] refused",
		`{"who":"Ann \"A\" Lee","token":"Bearer x"}`:     `{"who":"[redacted]","token":"[redacted]"}`,
		"status 412": "status 412",
		"":           "",
	} {
		if got := hidden.Text(given); got != want {
			t.Errorf("%s becomes %s, want %s", given, got, want)
		}
	}
}

func TestAPlaceAroundOrWithinARedactedOneIsCovered(t *testing.T) {
	r := rules(t, "payload.card.number", "headers.Authorization", "result")
	for _, c := range []struct {
		of   string
		path []string
		want bool
	}{
		{"payload", []string{"card", "number"}, true},
		{"payload", []string{"card"}, true},
		{"payload", nil, true},
		{"payload", []string{"card", "number", "0"}, true},
		{"payload", []string{"card", "name"}, false},
		{"result", []string{"any"}, true},
		{"headers", []string{"authorization"}, true},
		{"headers", []string{"other"}, false},
		{"checkpoint", nil, false},
	} {
		if got := r.Covers(c.of, c.path); got != c.want {
			t.Errorf("%s %v is covered: %t", c.of, c.path, got)
		}
	}
}
