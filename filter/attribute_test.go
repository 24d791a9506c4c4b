package filter_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/filter"
	"github.com/taskengine/taskengine/task"
)

func TestAttributesAreParsed(t *testing.T) {
	for text, want := range map[string]string{
		"payload.customer.id": "payload.customer.id", "headers.tenant": "header.tenant", "header.a.b": `header."a.b"`, "payload.näme": `payload."näme"`,
	} {
		if a, err := filter.ParseAttribute(text); err != nil || a.String() != want {
			t.Errorf("%s: %v, %v, not %s", text, a, err, want)
		}
	}
	for _, text := range []string{"", "payload", "headers", "payload.", "payload..a", "result.a", "state", "error.kind"} {
		if _, err := filter.ParseAttribute(text); err == nil {
			t.Errorf("%q is an attribute", text)
		}
	}
}

// All tasks that a filter selects have one of the values of its lookups.
func TestLookupsFindWhatFiltersSelect(t *testing.T) {
	payloads := []string{
		"", "no JSON", `{"a": 17}`, `{"a": "17"}`, `{"a": 17.0}`, `{"a": 1.7e1}`, `{"a": "17.0"}`, `{"a": [1, "x", {"b": 2}]}`, `{"a": {"b": true}}`, `{"a": null}`, `{"a": ""}`,
		`{"a": -0}`, `{"a": 0}`, `{"a": 1e999}`, `{"a": "1e999"}`, `{"a": "017"}`, `{"a": 123456789012345678901234567890}`, `{"a": 12345678901234567890123456789e1}`, `{"a": "- x, y"}`,
		`{"a": [` + strings.Repeat(`"v", `, 40) + `"v"]}`, `{"a": [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20]}`,
	}
	attributes := []filter.Attribute{attribute(t, "payload.a"), attribute(t, "payload.a.b"), attribute(t, "headers.h")}
	found := 0
	for _, text := range []string{
		"17", `"17"`, "17.0", `"17.0"`, "170e-1", "x", "1", "2", "true", "0", "-0", "0.0", "1e999", "017", "123456789012345678901234567890", `"- x, y"`, "v", "20", "x,1,0", `""`, "1*",
	} {
		for _, field := range []string{"payload.a", "payload.a.b", "header.h"} {
			f, err := filter.Parse(field+"="+text, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			lookups := f.Lookups()
			if unusable := text == `""` || text == "1*"; unusable != (len(lookups) == 0) {
				t.Fatalf("%s: lookups %v", f, lookups)
			} else if unusable {
				continue
			}
			values := lookups[0].Values([]string{"other", "pay"})
			for _, payload := range payloads {
				row := &task.Task{Type: "pay", Payload: []byte(payload), Headers: map[string]string{"h": strings.Trim(text, `"`)}}
				row.Search = filter.SearchValues("pay", attributes, row.Headers, row.Payload)
				if !slices.IsSorted(row.Search) || len(row.Search) > task.MaxSearchValues {
					t.Errorf("%s: values %v", payload, row.Search)
				}
				if !f.Selects(row) {
					continue
				}
				if found++; !(task.SearchSet{Values: values}).Selects(row) {
					t.Errorf("%s does not find %s", f, payload)
				}
			}
		}
	}
	if found < 100 {
		t.Errorf("only %d tasks were selected", found)
	}
}

func attribute(t *testing.T, text string) filter.Attribute {
	t.Helper()
	a, err := filter.ParseAttribute(text)
	if err != nil {
		t.Fatal(err)
	}
	return a
}
