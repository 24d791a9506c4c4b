//go:build !race

package schedule

import (
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/schedule/calendar"
)

// preview returns the times of a day as text, with the effect of a clock change.
func preview(t *testing.T, d Definition, from string, n int) string {
	t.Helper()
	d.Task.Type = "report"
	moments, err := d.Preview("nightly", at(t, from), n)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, m := range moments {
		text := m.Time.Format("02 15:04 -07")
		if !m.Named.IsZero() {
			text += " for " + m.Named.Format("02 15:04")
		}
		if m.Again {
			text += " again"
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

func TestAPreviewSaysWhatAClockChangeHasDone(t *testing.T) {
	const spring, autumn = "2026-03-29 00:00:00", "2026-10-25 00:00:00" // in Berlin the clock goes from 2 to 3, and from 3 to 2
	for _, c := range []struct {
		d          Definition
		from, want string
	}{
		{Definition{Cron: "30 2 * * *", TimeZone: "Europe/Berlin"}, spring, "29 03:00 +02 for 29 02:30, 30 02:30 +02"},
		{Definition{Cron: "20,40 2,3 * * *", TimeZone: "Europe/Berlin"}, spring, "29 03:00 +02 for 29 02:20, 29 03:20 +02"},
		{Definition{Cron: "0 2,3 * * *", TimeZone: "Europe/Berlin"}, spring, "29 03:00 +02, 30 02:00 +02"},
		{Definition{Cron: "30 2 * * *", TimeZone: "Europe/Berlin", Gap: calendar.Skip}, spring, "30 02:30 +02, 31 02:30 +02"},
		{Definition{Cron: "H * * * *", TimeZone: "Europe/Berlin"}, spring, "29 01:04 +01, 29 03:04 +02"},
		{Definition{Cron: "30 2 * * *", TimeZone: "Europe/Berlin"}, autumn, "25 02:30 +02, 26 02:30 +01"},
		{Definition{Cron: "30 2 * * *", TimeZone: "Europe/Berlin", Repeat: calendar.Both}, autumn, "25 02:30 +02, 25 02:30 +01 again"},
		{Definition{Cron: "0 3 * * *", TimeZone: "Europe/Berlin", Repeat: calendar.Both}, autumn, "25 03:00 +01, 26 03:00 +01"},
		{Definition{Cron: "0 0 * * *"}, spring, "29 00:00 +00, 30 00:00 +00"},
		{Definition{Every: time.Hour, Anchor: at(t, "2026-01-01 00:30:00").In(time.FixedZone("", 3600))}, autumn, "25 00:30 +00, 25 01:30 +00"},
		{Definition{Every: time.Hour, End: at(t, spring)}, spring, "29 00:00 +00"},
	} {
		if got := preview(t, c.d, c.from, 2); got != c.want {
			t.Errorf("%s %s:\n%s\nnot\n%s", c.d.Cron, c.d.TimeZone, got, c.want)
		}
	}
}

func TestTimesAreCountedUpToABound(t *testing.T) {
	d := Definition{Every: time.Minute, Task: Template{Type: "report"}}
	from := at(t, "2026-05-01 00:00:00")
	for to, want := range map[time.Time]uint64{from: 1, from.Add(time.Hour): 61, from.Add(-1): 0, from.AddDate(50, 0, 0): 100} {
		if n, err := d.Count("often", from, to, 100); err != nil || n != want {
			t.Errorf("until %v there are %d times, not %d: %v", to, n, want, err)
		}
	}
	d.Task.Type = ""
	if _, err := d.Count("often", from, from, 1); err == nil {
		t.Error("a wrong definition has times")
	}
	if _, err := d.Preview("often", from, 1); err == nil {
		t.Error("a wrong definition has a preview")
	}
}
