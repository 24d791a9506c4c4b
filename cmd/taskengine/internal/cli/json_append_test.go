package cli

import (
	"bytes"
	"encoding/json"
	"math"
	"testing"
	"time"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func TestValuesAreAppendedAsTheEncoderWritesThem(t *testing.T) {
	local := time.FixedZone("", 3600)
	for _, value := range []any{
		"", "plain", "a\"b\\c", "<&>", "tab\tand\x00\x7f", "ümlaut\u2028", "bad\xff", true, false, int32(-3), int64(math.MinInt64), uint32(7), uint64(math.MaxUint64), 0.5, 1e300, 7,
		time.Unix(1, 5000).UTC(), time.Unix(1, 5000).In(local),
		time.Time{},
		json.RawMessage("{\"a\" : 1}"),
		[]any{},
		[]any{"a", uint32(1), []any{}},
		map[string]any{},
		map[string]any{"b<": "\n", "a": map[string]any{}},
		nil,
		[]string{"a"},
		[]byte{1},
	} {
		var want bytes.Buffer
		e := json.NewEncoder(&want)
		e.SetEscapeHTML(false)
		if err := e.Encode(value); err != nil {
			t.Fatal(err)
		}
		got, err := appendJSON([]byte("before"), value)
		if err != nil || string(got)+"\n" != "before"+want.String() {
			t.Errorf("%#v gives %s, %v, want %s", value, got, err, want.String())
		}
	}
	for _, value := range []any{math.Inf(1), time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC), []any{math.NaN()}, jsonObject{{"a", math.NaN()}}} {
		if got, err := appendJSON(nil, value); err == nil {
			t.Errorf("%v gives %s", value, got)
		}
	}
}

func BenchmarkMessageJSON(b *testing.B) {
	m := &taskenginev1.Task{Id: "0193a7c2-4b1e-7d11-b3a5-0d2f6a90c3e1", Type: "order", State: "error", Version: 3, Attempt: 1, Priority: 5, Error: `service "a": no answer for order 5`, Node: "n1", Headers: map[string]string{"tenant": "t1"}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := messageJSON(m).append(nil); err != nil {
			b.Fatal(err)
		}
	}
}
