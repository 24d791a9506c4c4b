package place_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/internal/place"
)

func TestPlacesInRecords(t *testing.T) {
	for _, s := range []string{
		"key", "value", "value.id", "value.a.b.c", "value.$type", "value.größe", "headers.a", "headers.a.b", "headers.__TypeId__", "headers.x:y",
		"topic", "partition", "offset", "timestamp",
	} {
		if err := place.CheckRecord(s); err != nil {
			t.Errorf("%s: %v", s, err)
		}
	}
	for _, s := range []string{
		"", "Key", "key.a", "topic.a", "value.", "value..a", "value.a.", "value.a b", "headers", "headers.", "headers.a\n", "value.\xff", "payload", "payload.id",
		"ordering_key", "$.value.id", "timestamp.ms", strings.Repeat("x", 100),
	} {
		err := place.CheckRecord(s)
		if err == nil {
			t.Errorf("%q is a place", s)
		} else if !strings.Contains(err.Error(), "write key, value, value.NAME, headers.NAME, topic, partition, offset or timestamp") || len(err.Error()) > 250 {
			t.Errorf("%q: %v", s, err)
		}
	}
}

func TestValuesInARecord(t *testing.T) {
	r := place.Record{
		Topic: "orders", Partition: 3, Offset: 1 << 60, Timestamp: time.UnixMilli(1_790_000_000_007).In(time.FixedZone("", 3600)), Key: []byte("\xff\x00"),
		Value:  []byte(`{"a":{"b":"text","n":12345678901234567890.0,"list":[1, 2]},"yes":true,"null":null,"empty":"","lone":"\ud83d-","pair":"\ud83d\ude00","real":"\ufffd \\ud800","bytes":"` + "\xff" + `"}`),
		Header: func(name string) []byte { return map[string][]byte{"a.b": []byte("c"), "empty": {}}[name] },
	}
	for at, want := range map[string]string{
		"key": "\xff\x00", "topic": "orders", "partition": "3", "offset": "1152921504606846976", "timestamp": "2026-09-21T14:13:20.007Z",
		"headers.a.b": "c", "headers.none": "", "headers.empty": "",
		"value.a.b": "text", "value.a.n": "12345678901234567890.0", "value.yes": "true", "value.null": "", "value.empty": "", "value.none": "", "value.a.none": "", "value.none.b": "", "value.null.b": "",
		"value.pair": "😀", "value.real": "\ufffd \\ud800",
	} {
		for name, read := range map[string]func(string) ([]byte, error){"Bytes": r.Bytes, "Scalar": r.Scalar} {
			if got, err := read(at); err != nil || string(got) != want || want == "" && got != nil {
				t.Errorf("%s of %s: %q, %v; want %q", name, at, got, err, want)
			}
		}
	}
	if got, err := r.Bytes("value.a.list"); err != nil || string(got) != "[1, 2]" {
		t.Errorf("a list: %q, %v", got, err)
	}
	if _, err := r.Scalar("value.a"); !errors.Is(err, place.ErrNotScalar) {
		t.Errorf("an object as a scalar: %v", err)
	}
	for _, at := range []string{"value.lone", "value.bytes", "value.yes.b", "ordering_key"} {
		if got, err := r.Bytes(at); err == nil {
			t.Errorf("%s: %q", at, got)
		}
	}
}

func TestAValueThatIsNoObjectHasNoMembers(t *testing.T) {
	for value, fails := range map[string]bool{"": false, "null": false, "{}": false, "[]": true, "7": true, `"a"`: true, "{": true, "\x00\x00\x00\x00\x07{}": true, strings.Repeat("[", 100_000): true} {
		r := place.Record{Value: []byte(value)}
		got, err := r.Bytes("value.a")
		if got != nil || (err != nil) != fails {
			t.Errorf("%.20q: %q, %v", value, got, err)
		}
	}
}

func TestARecordWithoutATimeHasNone(t *testing.T) {
	for _, at := range []time.Time{{}, time.UnixMilli(-1), time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), time.UnixMilli(1 << 62)} {
		r := place.Record{Timestamp: at}
		if got, err := r.Bytes("timestamp"); got != nil || err != nil {
			t.Errorf("%v: %q, %v", at, got, err)
		}
	}
}
