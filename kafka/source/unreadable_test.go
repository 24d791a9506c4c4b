package source_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/taskengine/taskengine/kafka/source"
)

var sameRecord = cmp.Options{cmpopts.IgnoreUnexported(kgo.RecordAttrs{}), cmp.Comparer(func(a, b time.Time) bool { return a.Equal(b) })}

func TestAnUnreadableRecordIsKeptExactly(t *testing.T) {
	const most = 1 << 20
	for name, r := range map[string]*kgo.Record{
		"with all": {
			Topic: "orders", Partition: 1<<31 - 1, Offset: 1<<63 - 1, Timestamp: time.UnixMilli(1_790_000_000_007), Key: []byte("\x00\xff"), Value: []byte(`{"a":`),
			Headers: []kgo.RecordHeader{{Key: "a", Value: []byte("1")}, {Key: "a", Value: nil}, {Key: "", Value: []byte{}}, {Key: "\xff\x00", Value: []byte("\xff")}},
		},
		"with nothing":          {Topic: "orders", Timestamp: time.UnixMilli(-1)},
		"with empty values":     {Topic: "orders", Timestamp: time.UnixMilli(0), Key: []byte{}, Value: []byte{}},
		"with a time far ahead": {Topic: "orders", Timestamp: time.UnixMilli(1 << 60)},
		"without a time":        {Topic: "orders"},
	} {
		u := source.NewUnreadable("orders", r, errors.New("it is no JSON"))
		b, err := u.Encode(most)
		if err != nil {
			t.Fatal(err)
		}
		got, err := source.DecodeUnreadable(b)
		if err != nil {
			t.Fatal(err)
		}
		if got.Source != "orders" || got.Reason != "it is no JSON" || got.Truncated {
			t.Errorf("%s: %+v", name, got)
		}
		again, err := got.Record()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(r, again, sameRecord); diff != "" {
			t.Errorf("%s: (-want +got) %s", name, diff)
		}
	}
}

func TestATooLargeRecordIsKeptInPart(t *testing.T) {
	const most = source.MinUnreadable
	large := []byte(strings.Repeat("\xff", most))
	for name, c := range map[string]struct {
		r                       kgo.Record
		reason                  string
		value, headers, isWhole bool
	}{
		"that just fits":                       {r: kgo.Record{Key: []byte("k"), Value: large[:most/2]}, value: true, isWhole: true},
		"with a large value":                   {r: kgo.Record{Key: []byte("k"), Value: large, Headers: []kgo.RecordHeader{{Key: "a"}}}, headers: true},
		"with a value that is large as base64": {r: kgo.Record{Key: []byte("k"), Value: large[:most*4/5], Headers: []kgo.RecordHeader{{Key: "a"}}}, headers: true},
		"with a large header":                  {r: kgo.Record{Key: []byte("k"), Headers: []kgo.RecordHeader{{Key: "a", Value: large}}}},
		"with a large key":                     {r: kgo.Record{Key: large}},
		"with all of them":                     {r: kgo.Record{Key: large, Value: large, Headers: []kgo.RecordHeader{{Key: string(large), Value: large}}}, reason: strings.Repeat("\x01é", most)},
	} {
		c.r.Topic, c.r.Partition, c.r.Offset = strings.Repeat("t", 249), 3, 7
		u := source.NewUnreadable(strings.Repeat("<", source.MaxName), &c.r, errors.New("broken "+c.reason))
		b, err := u.Encode(most)
		if err != nil || len(b) > most {
			t.Fatalf("%s: %d bytes, %v", name, len(b), err)
		}
		if u.Truncated || (len(u.Value) == 0) != (len(c.r.Value) == 0) {
			t.Errorf("%s: Encode has changed it", name)
		}
		got, err := source.DecodeUnreadable(b)
		if err != nil {
			t.Fatal(err)
		}
		if got.Truncated == c.isWhole || (got.Value != nil) != c.value || (got.Headers != nil) != c.headers || got.Topic != c.r.Topic || got.Offset != 7 || !strings.HasPrefix(got.Reason, "broken") {
			t.Errorf("%s: truncated: %t, %d bytes of value, %d headers, %.30q", name, got.Truncated, len(got.Value), len(got.Headers), got.Reason)
		}
		if _, err := got.Record(); (err == nil) != c.isWhole {
			t.Errorf("%s: the record: %v", name, err)
		} else if err != nil && !strings.Contains(err.Error(), "partition 3, offset 7: the record was too large to be kept") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestLaterFieldsOfAnUnreadableRecordAreIgnored(t *testing.T) {
	got, err := source.DecodeUnreadable([]byte(`{"topic":"a","partition":1,"offset":2,"later":{"x":[1]},"headers":[{"name":"h","value":null,"more":1}]}`))
	if err != nil || got.Topic != "a" || got.Offset != 2 || len(got.Headers) != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	for _, wrong := range []string{"", "{", "null", "[]", "{}", `{"topic":"a","offset":-1}`, `{"topic":"a","key":"!"}`, `{"topic":7}`} {
		if got, err := source.DecodeUnreadable([]byte(wrong)); err == nil || !strings.Contains(err.Error(), "not an unreadable record") {
			t.Errorf("%q: %+v, %v", wrong, got, err)
		}
	}
}

// FuzzUnreadable writes and reads records of any bytes.
func FuzzUnreadable(f *testing.F) {
	f.Add([]byte("k"), []byte("v"), "h", []byte("x"), int64(7), int32(1), true)
	f.Add([]byte(nil), []byte("\xff"), "\xff", []byte(nil), int64(-1), int32(0), false)
	f.Fuzz(func(t *testing.T, key, value []byte, name string, header []byte, at int64, partition int32, hasHeaders bool) {
		r := &kgo.Record{Topic: "t", Partition: partition & (1<<31 - 1), Offset: at & (1<<63 - 1), Timestamp: time.UnixMilli(at), Key: key, Value: value}
		if hasHeaders {
			r.Headers = []kgo.RecordHeader{{Key: name, Value: header}, {Key: "b", Value: key}}
		}
		b, err := source.NewUnreadable("s", r, errors.New(name)).Encode(len(key)*4 + len(value)*2 + len(name)*12 + len(header)*2 + 1000)
		if err != nil {
			t.Fatal(err)
		}
		u, err := source.DecodeUnreadable(b)
		if err != nil {
			t.Fatal(err)
		}
		got, err := u.Record()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(r, got, sameRecord); diff != "" {
			t.Error(diff)
		}
		_, _ = source.DecodeUnreadable(value) // returns
	})
}
