package main

import (
	"strings"
	"testing"
)

func TestWhatCannotBeMeasuredIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		o    options
		says string
	}{
		"no rounds":    {options{runs: 0}, "-runs is 0; give 1 or more"},
		"none such":    {options{runs: 1, only: "none-such"}, "-only none-such names none of the subjects"},
		"no such file": {options{markdown: "nothing.json"}, "nothing.json"},
	} {
		if err := run(t.Context(), c.o); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: the error is %v, want %q", name, err, c.says)
		}
	}
}
