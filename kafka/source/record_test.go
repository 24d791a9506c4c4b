package source_test

import (
	"maps"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/taskengine/taskengine/kafka/source"
	"github.com/taskengine/taskengine/task"
)

const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func record(value string, headers ...string) *kgo.Record {
	r := &kgo.Record{Topic: "orders", Partition: 3, Offset: 1207, Timestamp: time.UnixMilli(1_790_000_000_007), Key: []byte("k1"), Value: []byte(value)}
	for i := 0; i < len(headers); i += 2 {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: headers[i], Value: []byte(headers[i+1])})
	}
	return r
}

// own returns the headers of each task of record, and others.
func own(others ...string) map[string]string {
	h := map[string]string{source.HeaderTopic: "orders", source.HeaderPartition: "3", source.HeaderOffset: "1207", source.HeaderTimestamp: "2026-09-21T14:13:20.007Z"}
	for i := 0; i < len(others); i += 2 {
		h[others[i]] = others[i+1]
	}
	return h
}

func TestTheTaskOfARecord(t *testing.T) {
	const value = `{"id":42,"customer":{"name":"Ann"},"event":"paid","body":{"a": [1,2]},"none":null,"kind":"order.paid"}`
	for name, c := range map[string]struct {
		d    *source.Definition
		r    *kgo.Record
		want task.Request
	}{
		"by default": {orders(nil), record(value), task.Request{Type: "order.placed", Payload: []byte(value), Headers: own()}},
		"with all places": {
			orders(func(d *source.Definition) {
				d.Type, d.TypeFrom, d.Key, d.OrderingKey, d.Payload = "", "value.kind", "value.id", "key", "value.body"
				d.Headers = map[string]string{"customer": "value.customer.name", "all": "value.customer", "from": "headers.source", "at": "timestamp", "none": "value.none", "missing": "headers.missing", "id": "offset"}
			}),
			record(value, "source", "shop"),
			task.Request{
				Type: "order.paid", Key: "42", OrderingKey: "k1", Payload: []byte(`{"a": [1,2]}`),
				Headers: own("customer", "Ann", "all", `{"name":"Ann"}`, "from", "shop", "at", "2026-09-21T14:13:20.007Z", "id", "1207"),
			},
		},
		"text as the payload": {orders(func(d *source.Definition) { d.Payload = "value.event" }), record(value), task.Request{Type: "order.placed", Payload: []byte("paid"), Headers: own()}},
		"a value that is no JSON": {
			orders(func(d *source.Definition) { d.Key = "headers.id" }), record("\x00\xff", "id", "7"),
			task.Request{Type: "order.placed", Key: "7", Payload: []byte("\x00\xff"), Headers: own()},
		},
		"the last of several headers": {
			orders(func(d *source.Definition) { d.Key = "headers.id" }), record("", "id", "7", "ID", "8", "id", "9"),
			task.Request{Type: "order.placed", Key: "9", Headers: own()},
		},
		"a last header without a value": {
			orders(func(d *source.Definition) { d.Key = "headers.id" }), record("", "id", "7", "id", ""),
			task.Request{Type: "order.placed", Headers: own()},
		},
		"without a value": {
			orders(func(d *source.Definition) {
				d.Key, d.OrderingKey, d.Headers = "value.id", "key", map[string]string{"a": "value.a"}
			}), record(""),
			task.Request{Type: "order.placed", OrderingKey: "k1", Headers: own()},
		},
		"with a trace": {
			orders(nil), record(value, "traceparent", "old", "Traceparent", parent, "tracestate", "a=1"),
			task.Request{Type: "order.placed", Payload: []byte(value), Headers: own("traceparent", parent, "tracestate", "a=1")},
		},
		"with a trace that has no state": {
			orders(nil), record(value, "traceparent", parent, "tracestate", strings.Repeat("a", 513)),
			task.Request{Type: "order.placed", Payload: []byte(value), Headers: own("traceparent", parent)},
		},
		"with a trace that cannot be": {
			orders(nil), record(value, "traceparent", parent[1:], "tracestate", "a=1"),
			task.Request{Type: "order.placed", Payload: []byte(value), Headers: own()},
		},
		"with a trace of bytes": {orders(nil), record(value, "traceparent", parent[1:]+"\xff"), task.Request{Type: "order.placed", Payload: []byte(value), Headers: own()}},
	} {
		got, matches, err := c.d.Request(c.r)
		if err != nil || !matches {
			t.Errorf("%s: matches: %t, %v", name, matches, err)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: (-want +got) %s", name, diff)
		}
	}
}

func TestARecordWithoutATimestampBecomesATask(t *testing.T) {
	for _, at := range []time.Time{{}, time.UnixMilli(-1), time.UnixMilli(1 << 60)} {
		r := record("")
		r.Timestamp = at
		want := own()
		delete(want, source.HeaderTimestamp)
		if got, _, err := orders(nil).Request(r); err != nil || !maps.Equal(got.Headers, want) {
			t.Errorf("%v: %v, %v", at, got.Headers, err)
		}
	}
}

func TestBytesThatAreNoTextBecomeOne(t *testing.T) {
	d := orders(func(d *source.Definition) {
		d.Key, d.OrderingKey, d.Headers = "key", "headers.of", map[string]string{"copy": "value"}
	})
	seen := make(map[string]string)
	for key, want := range map[string]string{
		"plain": "plain", "größe": "größe", "\xff\xfe": "base64://4=", "a\x00": "base64:YQA=", "\x00\x00\x00\x00\x00\x00\x00\x05": "base64:AAAAAAAAAAU=",
		"base64://4=": "base64:YmFzZTY0Oi8vND0=", "base64": "base64", "line\nbreak": "line\nbreak",
	} {
		r := record(key, "of", key)
		r.Key = []byte(key)
		got, _, err := d.Request(r)
		if err != nil || got.Key != want || got.OrderingKey != want || got.Headers["copy"] != want || string(got.Payload) != key {
			t.Errorf("%q: %+v, %v; want %q", key, got, err, want)
		}
		if other, ok := seen[got.Key]; ok {
			t.Errorf("%q and %q become the same key", key, other)
		}
		seen[got.Key] = key
	}
}

func TestAFilterChoosesRecords(t *testing.T) {
	filter := func(of ...string) *source.Definition {
		d := orders(func(d *source.Definition) { d.Filter = make(map[string][]string) })
		for i := 0; i < len(of); i += 2 {
			d.Filter[of[i]] = strings.Split(of[i+1], "|")
		}
		return d
	}
	for name, c := range map[string]struct {
		d    *source.Definition
		r    *kgo.Record
		want bool
	}{
		"one of the values":           {filter("value.kind", "a|b"), record(`{"kind":"b"}`), true},
		"none of the values":          {filter("value.kind", "a|b"), record(`{"kind":"c"}`), false},
		"each place":                  {filter("value.n", "1.0", "key", "k1", "headers.x", "y", "topic", "orders", "partition", "3"), record(`{"n":1.0}`, "x", "y"), true},
		"all but one place":           {filter("value.n", "1", "key", "k2"), record(`{"n":1}`), false},
		"another spelling":            {filter("value.n", "1"), record(`{"n":1.0}`), false},
		"a boolean":                   {filter("value.b", "true"), record(`{"b":true}`), true},
		"a missing member":            {filter("value.b", "x"), record(`{}`), false},
		"no value is wanted":          {filter("value.b", "|x"), record(`{"b":null}`), true},
		"no value is wanted, but is":  {filter("value.b", ""), record(`{"b":"y"}`), false},
		"a record without a value":    {filter("value.kind", "a"), record(""), false},
		"only records without values": {filter("value", ""), record(""), true},
		"an object":                   {filter("value.o", "{}"), record(`{"o":{}}`), false},
		"bytes":                       {filter("headers.b", "base64:/w=="), record("", "b", "\xff"), true},
		"excluded and unreadable":     {filter("key", "other", "value.a", "b"), record("no JSON"), false},
	} {
		if _, got, err := c.d.Request(c.r); err != nil || got != c.want {
			t.Errorf("%s: %t, %v", name, got, err)
		}
	}
}

func TestTheErrorOfARecordSaysWhereItIsAndTheRemedy(t *testing.T) {
	for want, c := range map[string]struct {
		change func(*source.Definition)
		value  string
	}{
		"the type, at headers.type: the record has no value there":               {func(d *source.Definition) { d.TypeFrom = "headers.type" }, ""},
		"the type, at value.type: the record has no value there":                 {func(d *source.Definition) { d.TypeFrom = "value.type" }, ""},
		"the type, at value: it is not text":                                     {func(d *source.Definition) { d.TypeFrom = "value" }, "\xff"},
		"the type, at value.type: it is neither text, a number nor a boolean":    {func(d *source.Definition) { d.TypeFrom = "value.type" }, `{"type":{}}`},
		"a source cannot add tasks of the type \"taskengine.schedule\"":          {func(d *source.Definition) { d.TypeFrom = "value.type" }, `{"type":"taskengine.schedule"}`},
		"the key, at value.id: it is not a JSON object":                          {func(d *source.Definition) { d.Key = "value.id" }, "{"},
		"the key, at value.id: it is text that is not Unicode":                   {func(d *source.Definition) { d.Key = "value.id" }, `{"id":"\ud800"}`},
		"the ordering key, at value.id: it is neither text":                      {func(d *source.Definition) { d.OrderingKey = "value.id" }, `{"id":[]}`},
		"the payload, at value.p: it is not a JSON object":                       {func(d *source.Definition) { d.Payload = "value.p" }, "[]"},
		"the header b, at value.b: it is not a JSON object":                      {func(d *source.Definition) { d.Headers = map[string]string{"c": "value.c", "b": "value.b"} }, "x"},
		"a value of the filter, at value.a: it is not a JSON object":             {func(d *source.Definition) { d.Filter = map[string][]string{"value.b": {"1"}, "value.a": {"1"}} }, "x"},
		"correct the program that writes the topic, or ordering_key of the sour": {func(d *source.Definition) { d.OrderingKey = "value.id" }, "x"},
	} {
		d := orders(c.change)
		if d.TypeFrom != "" {
			d.Type = ""
		}
		got, matches, err := d.Request(record(c.value))
		if err == nil || matches || got.Type != "" {
			t.Errorf("%s: %v, matches: %t", want, err, matches)
			continue
		}
		if s := err.Error(); !strings.HasPrefix(s, "source orders: topic orders, partition 3, offset 1207: ") || !strings.Contains(s, want) || !strings.Contains(s, "; correct the program") {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// FuzzRequest reads records of any bytes by each place.
func FuzzRequest(f *testing.F) {
	f.Add([]byte("k"), []byte(`{"a":{"b":"\ud83d\ude00"},"c":[1]}`), "h", []byte("v"), int64(1_790_000_000_007), "value.a.b")
	f.Add([]byte(nil), []byte(`{"a":"\ud800\u`), "", []byte(nil), int64(-1), "value.a")
	f.Add([]byte("\xff\x00"), []byte(`{"a":"\ud800\ud800","b":"\\u"}`), "traceparent", []byte(parent), int64(1<<62), "headers.traceparent")
	f.Add([]byte("base64:"), []byte("[[[["), "\xff", []byte("base64:"), int64(-1<<63), "headers.\xff")
	f.Fuzz(func(t *testing.T, key, value []byte, name string, header []byte, at int64, place string) {
		r := &kgo.Record{
			Topic: "orders", Offset: at, Timestamp: time.UnixMilli(at), Key: key, Value: value,
			Headers: []kgo.RecordHeader{{Key: name, Value: header}, {Key: name, Value: value}},
		}
		for _, d := range []source.Definition{
			{Name: "s", Topics: []string{"orders"}, Group: "g", Type: "t", Key: place, OrderingKey: "value.a", Headers: map[string]string{"h": place, "i": "value.b"}},
			{Name: "s", Topics: []string{"orders"}, Group: "g", TypeFrom: place, Payload: place, Filter: map[string][]string{"value.c": {""}}},
			{Name: "s", Topics: []string{"orders"}, Group: "g", Type: "t", Filter: map[string][]string{place: {"", "v"}, "key": {"k"}}},
		} {
			got, matches, err := d.Request(r)
			if d.Check() != nil {
				continue // it has not panicked
			}
			if err != nil || !matches {
				if got.Type != "" || got.Headers != nil {
					t.Errorf("a request without a task: %+v", got)
				}
				continue
			}
			text := []string{got.Type, got.Key, got.OrderingKey}
			for name, value := range got.Headers {
				text = append(text, name, value)
			}
			for _, s := range text {
				if !utf8.ValidString(s) || strings.Contains(s, "\x00") {
					t.Errorf("%q is not text", s)
				}
			}
			if got.Type == "" || task.IsReservedType(got.Type) {
				t.Errorf("the type is %q", got.Type)
			}
		}
	})
}
