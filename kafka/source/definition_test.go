package source_test

import (
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/kafka/source"
)

func orders(change func(*source.Definition)) *source.Definition {
	d := &source.Definition{Name: "orders", Topics: []string{"orders"}, Group: "taskengine-orders", Type: "order.placed"}
	if change != nil {
		change(d)
	}
	return d
}

func TestDefinitionsThatAreWrong(t *testing.T) {
	for want, change := range map[string]func(*source.Definition){
		"":                            nil,
		"the name \"\" is empty":      func(d *source.Definition) { d.Name = "" },
		"use no spaces":               func(d *source.Definition) { d.Name = "a b" },
		"201 bytes":                   func(d *source.Definition) { d.Name = strings.Repeat("a", 201) },
		"not UTF-8":                   func(d *source.Definition) { d.Name = "\xff" },
		"either topics or a pattern":  func(d *source.Definition) { d.Pattern = ".*" },
		"either a type or":            func(d *source.Definition) { d.TypeFrom = "key" },
		"type or a type_from":         func(d *source.Definition) { d.Type = "" },
		"belong to the engine":        func(d *source.Definition) { d.Type = "taskengine.schedule" },
		"the group is empty":          func(d *source.Definition) { d.Group = "" },
		"not a regular expression":    func(d *source.Definition) { d.Topics, d.Pattern = nil, "a)|(b" },
		"selects no topic":            func(d *source.Definition) { d.Topics, d.Pattern = nil, "__consumer_.*" },
		`"payload.id" is not a place`: func(d *source.Definition) { d.Key = "payload.id" },
		`"a" is not a place`:          func(d *source.Definition) { d.OrderingKey = "a" },
		`"values" is not a place`:     func(d *source.Definition) { d.Payload = "values" },
		`header x: "b" is not`:        func(d *source.Definition) { d.Headers = map[string]string{"x": "b"} },
		`header "Kafka-Offset" is a header that each task gets`: func(d *source.Definition) { d.Headers = map[string]string{"Kafka-Offset": "key"} },
		`header "traceparent" is a header that each task gets`:  func(d *source.Definition) { d.Headers = map[string]string{"traceparent": "key"} },
		`header "" is empty`:         func(d *source.Definition) { d.Headers = map[string]string{"": "key"} },
		`filter: "c" is not a place`: func(d *source.Definition) { d.Filter = map[string][]string{"c": {"d"}} },
		"key has no values":          func(d *source.Definition) { d.Filter = map[string][]string{"key": nil} },
	} {
		err := orders(change).Check()
		if want == "" && err != nil {
			t.Error(err)
		}
		if want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func TestWhichTopicsASourceReads(t *testing.T) {
	for _, c := range []struct {
		topics  []string
		pattern string
		yes, no string
	}{
		{[]string{"orders", "__consumer_offsets"}, "", "orders __consumer_offsets", "order orders2"},
		{nil, "orders-.*", "orders- orders-eu", "orders xorders-eu orders-eu\n"},
		{nil, "a|b", "a b", "ab aa ba xb"},
		{nil, "(?i)orders", "orders ORDERS", "orders2"},
		{nil, "(?m)^a$", "a", "a\nb b\na"},
		{nil, ".*", "a _a -", "__consumer_offsets __a"},
		{nil, "_?_a|b", "b", "__a"},
	} {
		d := source.Definition{Topics: c.topics, Pattern: c.pattern}
		reads, err := d.Selection()
		if err != nil {
			t.Fatal(err)
		}
		for _, topic := range strings.Split(c.yes, " ") {
			if topic != "" && !reads(topic) {
				t.Errorf("%v %q does not read %q", c.topics, c.pattern, topic)
			}
		}
		for _, topic := range strings.Split(c.no, " ") {
			if reads(topic) {
				t.Errorf("%v %q reads %q", c.topics, c.pattern, topic)
			}
		}
	}
}

func TestStartsAreReadAsTheyAreWritten(t *testing.T) {
	at := time.Date(2026, 1, 31, 17, 0, 0, 0, time.UTC)
	for text, want := range map[string]source.Start{
		"earliest": {}, "latest": source.Latest(), "2026-01-31T17:00:00Z": source.StartAt(at), "2026-01-31T18:00:00.250+01:00": source.StartAt(at.Add(250 * time.Millisecond)),
	} {
		got, err := source.ParseStart(text)
		if err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
		if again, err := source.ParseStart(got.String()); err != nil || again != got {
			t.Errorf("%s: written as %s, and read as %v, %v", text, got, again, err)
		}
		if got.IsLatest() != (text == "latest") || got.Time().IsZero() != (len(text) < 10) {
			t.Errorf("%s: latest %t, at %v", text, got.IsLatest(), got.Time())
		}
	}
	for text, want := range map[string]string{
		"": "is neither earliest", "Latest": "is neither earliest", "2026-01-31": "is neither earliest", "2026-01-31T18:00:00": "a time with a zone",
		"1969-01-01T00:00:00Z": "1970 and 9999", "9999-12-31T23:59:59-01:00": "1970 and 9999",
	} {
		if got, err := source.ParseStart(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}
