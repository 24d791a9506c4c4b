//go:build !race

package calendar_test

import (
	"testing"
	"time"

	"github.com/taskengine/taskengine/schedule/calendar"
)

func TestNextDoesNotAllocate(t *testing.T) {
	every, err := calendar.Every(time.Hour, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	calendars := []*calendar.Calendar{every}
	for _, zone := range zones {
		for _, expr := range benchmarked {
			calendars = append(calendars, parse(t, expr, calendar.Options{Location: load(t, zone)}))
		}
	}
	for _, c := range calendars {
		at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		if n := testing.AllocsPerRun(100, func() { at, _ = c.Next(at) }); n != 0 {
			t.Errorf("%v: %v allocations", c, n)
		}
	}
}
