package calendar_test

import (
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/schedule/calendar"
)

const layout = "2006-01-02 15:04:05 -0700"

func load(tb testing.TB, zone string) *time.Location {
	tb.Helper()
	l, err := calendar.LoadLocation(zone)
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

func parse(tb testing.TB, expr string, o calendar.Options) *calendar.Calendar {
	tb.Helper()
	c, err := calendar.ParseCron(expr, o)
	if err != nil {
		tb.Fatalf("%q: %v", expr, err)
	}
	return c
}

// fires returns the times after one and before another, as text.
func fires(tb testing.TB, c *calendar.Calendar, after, before time.Time) []string {
	tb.Helper()
	var all []string
	for {
		next, ok := c.Next(after)
		if ok && !next.After(after) {
			tb.Fatalf("%v fires at %v, which is not after %v", c, next, after)
		}
		if !ok || !next.Before(before) {
			return all
		}
		all = append(all, strings.TrimSuffix(next.Format("2006-01-02 15:04 -0700"), "00"))
		after = next
	}
}

func TestAClockChangeMovesNamedTimesAndNoOthers(t *testing.T) {
	const (
		runAfter, skip = calendar.RunAfter, calendar.Skip
		first, both    = calendar.First, calendar.Both
	)
	for _, c := range []struct {
		name       string
		zone, expr string
		gap        calendar.Gap
		repeat     calendar.Repeat
		from, to   string // local, without the second
		want       string
	}{
		{"a time in the gap is made up for", "America/New_York", "30 2 * * *", runAfter, first, "2026-03-08 00:00", "2026-03-09 03:00", "2026-03-08 03:00 -04, 2026-03-09 02:30 -04"},
		{"or not", "America/New_York", "30 2 * * *", skip, first, "2026-03-08 00:00", "2026-03-09 03:00", "2026-03-09 02:30 -04"},
		{"several are made up for once", "America/New_York", "*/10 2 * * *", runAfter, first, "2026-03-08 00:00", "2026-03-09 02:11", "2026-03-08 03:00 -04, 2026-03-09 02:00 -04, 2026-03-09 02:10 -04"},
		{"together with one at the end of the gap", "America/New_York", "0 2,3 * * *", runAfter, first, "2026-03-08 00:00", "2026-03-09 03:00", "2026-03-08 03:00 -04, 2026-03-09 02:00 -04"},
		{"with a second", "America/New_York", "59 59 2 * * *", runAfter, first, "2026-03-08 00:00", "2026-03-09 00:00", "2026-03-08 03:00 -04"},
		{"every hour goes on as it does", "America/New_York", "30 * * * *", runAfter, first, "2026-03-08 01:00", "2026-03-08 05:00", "2026-03-08 01:30 -05, 2026-03-08 03:30 -04, 2026-03-08 04:30 -04"},
		{"every second hour is named", "America/New_York", "0 */2 * * *", runAfter, first, "2026-03-07 23:30", "2026-03-08 05:00", "2026-03-08 00:00 -05, 2026-03-08 03:00 -04, 2026-03-08 04:00 -04"},
		{"a repeated time fires once", "America/New_York", "30 1 * * *", runAfter, first, "2026-11-01 00:00", "2026-11-02 00:00", "2026-11-01 01:30 -04"},
		{"or twice", "America/New_York", "30 1 * * *", runAfter, both, "2026-11-01 00:00", "2026-11-02 00:00", "2026-11-01 01:30 -04, 2026-11-01 01:30 -05"},
		{"every half an hour goes on", "America/New_York", "*/30 * * * *", runAfter, first, "2026-11-01 00:45", "2026-11-01 02:15", "2026-11-01 01:00 -04, 2026-11-01 01:30 -04, 2026-11-01 01:00 -05, 2026-11-01 01:30 -05, 2026-11-01 02:00 -05"},
		{"all hours written otherwise", "America/New_York", "0 0-23/1 * * *", skip, first, "2026-11-01 00:45", "2026-11-01 02:15", "2026-11-01 01:00 -04, 2026-11-01 01:00 -05, 2026-11-01 02:00 -05"},
		{"half an hour is left out", "Australia/Lord_Howe", "15 2 * * *", runAfter, first, "2026-10-04 00:00", "2026-10-05 00:00", "2026-10-04 02:30 +11"},
		{"half an hour is repeated", "Australia/Lord_Howe", "45 1 * * *", runAfter, both, "2026-04-05 00:00", "2026-04-06 00:00", "2026-04-05 01:45 +11, 2026-04-05 01:45 +1030"},
		{"a whole day is left out", "Pacific/Apia", "0 12 30 12 *", runAfter, first, "2011-12-01 00:00", "2012-01-30 00:00", "2011-12-31 00:00 +14"},
		{"or the year", "Pacific/Apia", "0 12 30 12 *", skip, first, "2011-12-01 00:00", "2013-01-30 00:00", "2012-12-30 12:00 +14"},
		{"and its days of the week", "Pacific/Apia", "0 12 * * FRI", runAfter, first, "2011-12-29 00:00", "2012-01-10 00:00", "2011-12-31 00:00 +14, 2012-01-06 12:00 +14"},
		{"a day is left out elsewhere", "Pacific/Kwajalein", "0 8 * * *", runAfter, first, "1993-08-20 00:00", "1993-08-23 00:00", "1993-08-20 08:00 -12, 1993-08-22 00:00 +12, 1993-08-22 08:00 +12"},
		{"a day begins at one", "America/Sao_Paulo", "@daily", runAfter, first, "2018-11-03 12:00", "2018-11-05 12:00", "2018-11-04 01:00 -02, 2018-11-05 00:00 -02"},
		{"a day begins at one, and the last one ended twice", "Asia/Beirut", "0 0 * * *", runAfter, first, "2026-03-28 12:00", "2026-03-29 12:00", "2026-03-29 01:00 +03"},
		{"midnight is not repeated, but the hour before", "America/Asuncion", "30 23,0 * * *", runAfter, first, "2024-03-23 12:00", "2024-03-24 12:00", "2024-03-23 23:30 -03, 2024-03-24 00:30 -04"},
		{"winter time is the change", "Europe/Dublin", "30 1 * * *", runAfter, first, "2026-03-29 00:00", "2026-03-30 00:00", "2026-03-29 02:00 +01"},
		{"and is repeated", "Europe/Dublin", "30 1 * * *", runAfter, both, "2026-10-25 00:00", "2026-10-26 00:00", "2026-10-25 01:30 +01, 2026-10-25 01:30 +00"},
		{"the offset has seconds", "Africa/Monrovia", "0 0 * * *", runAfter, first, "1972-01-06 12:00", "1972-01-08 12:00", "1972-01-07 00:44 +00, 1972-01-08 00:00 +00"},
		{"summer time pauses for Ramadan", "Africa/Casablanca", "30 2 * * *", runAfter, first, "2026-02-14 12:00", "2026-02-16 00:00", "2026-02-15 02:30 +01"},
		{"and goes on after it", "Africa/Casablanca", "30 2 * * *", runAfter, first, "2026-03-21 12:00", "2026-03-23 00:00", "2026-03-22 03:00 +01"},
	} {
		in := load(t, c.zone)
		local := func(s string) time.Time {
			at, err := time.ParseInLocation("2006-01-02 15:04", s, in)
			if err != nil {
				t.Fatal(err)
			}
			return at
		}
		got := strings.Join(fires(t, parse(t, c.expr, calendar.Options{Location: in, Gap: c.gap, Repeat: c.repeat}), local(c.from), local(c.to)), ", ")
		if got != c.want {
			t.Errorf("%s (%s in %s, %v, %v):\n got %s\nwant %s", c.name, c.expr, c.zone, c.gap, c.repeat, got, c.want)
		}
	}
}

func TestDaysMatchByMonthAndWeek(t *testing.T) {
	for expr, want := range map[string]string{
		"0 0 13 * FRI":        "2026-01-02, 2026-01-09, 2026-01-13",
		"0 0 13 * *":          "2026-01-13, 2026-02-13, 2026-03-13",
		"0 0 */10 * MON":      "2026-05-11, 2026-06-01, 2026-08-31",
		"0 0 1-7 * */6":       "2026-01-03, 2026-01-04, 2026-02-01",
		"0 0 ? * 0,7":         "2026-01-04, 2026-01-11, 2026-01-18",
		"0 0 31 * *":          "2026-01-31, 2026-03-31, 2026-05-31",
		"0 0 29 2 *":          "2028-02-29, 2032-02-29, 2036-02-29",
		"0 0 L 2 *":           "2026-02-28, 2027-02-28, 2028-02-29",
		"0 0 L-30 * *":        "2026-01-01, 2026-03-01, 2026-05-01",
		"0 0 1W * *":          "2026-01-01, 2026-02-02, 2026-03-02",
		"0 0 1W 8,11 *":       "2026-08-03, 2026-11-02, 2027-08-02",
		"0 0 31W * *":         "2026-01-30, 2026-03-31, 2026-05-29",
		"0 0 LW * *":          "2026-01-30, 2026-02-27, 2026-03-31",
		"0 0 * * MON#5":       "2026-03-30, 2026-06-29, 2026-08-31",
		"0 0 * * 7L,MON#1":    "2026-01-05, 2026-01-25, 2026-02-02",
		"0 0 * * FRI-MON":     "2026-01-02, 2026-01-03, 2026-01-04",
		"0 0 L * MON#1":       "2026-01-05, 2026-01-31, 2026-02-02",
		"0 0 * NOV-FEB/3 1#1": "2026-02-02, 2026-11-02, 2027-02-01",
	} {
		c := parse(t, expr, calendar.Options{})
		var got []string
		at := time.Date(2026, 1, 1, 0, 0, 0, -1, time.UTC)
		for range 3 {
			at, _ = c.Next(at)
			got = append(got, at.Format(time.DateOnly))
		}
		if s := strings.Join(got, ", "); s != want {
			t.Errorf("%s is on %s, want %s", expr, s, want)
		}
	}
}

func TestFiresEndWithTheYear9999(t *testing.T) {
	minute := parse(t, "* * * * *", calendar.Options{})
	every, err := calendar.Every(time.Minute, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []*calendar.Calendar{minute, every} {
		if at, ok := c.Next(time.Time{}); !ok || at.Unix() != 0 {
			t.Errorf("the first fire of %v is at %v", c, at)
		}
		last := time.Date(9999, 12, 31, 23, 59, 0, 0, time.UTC)
		if at, ok := c.Next(last.Add(-1)); !ok || !at.Equal(last) {
			t.Errorf("the last fire of %v is at %v, %v", c, at, ok)
		}
		for _, after := range []time.Time{last, last.AddDate(1000, 0, 0), time.Unix(1<<62, 0)} {
			if at, ok := c.Next(after); ok {
				t.Errorf("%v fires at %v, which is after %v", c, at, after)
			}
		}
		if at, ok := c.Next(time.Unix(-1<<62, 0)); !ok || at.Unix() != 0 {
			t.Errorf("the first fire of %v is at %v", c, at)
		}
	}
	if at, ok := new(calendar.Calendar).Next(time.Time{}); ok {
		t.Errorf("the zero calendar fires at %v", at)
	}
}

// The clock is put forward at this hour of this day every year, so no rule of dates excludes it.
func TestAScheduleThatOnlyNamesGapsNeverFires(t *testing.T) {
	in := load(t, "America/New_York")
	c := parse(t, "* * 2 * 3 SUN#2", calendar.Options{Location: in, Gap: calendar.Skip})
	if at, ok := c.Next(time.Date(2026, 1, 1, 0, 0, 0, 0, in)); ok {
		t.Errorf("it fires at %v", at)
	}
}

// Package time says for the last day of a distant leap year that its offset has ended.
func TestTheLastDayOfADistantLeapYearIsLikeAnyOther(t *testing.T) {
	in := load(t, "America/New_York")
	c := parse(t, "0 */6 * * *", calendar.Options{Location: in})
	got := strings.Join(fires(t, c, time.Date(2096, 12, 30, 20, 0, 0, 0, in), time.Date(2097, 1, 1, 1, 0, 0, 0, in)), ", ")
	if want := "2096-12-31 00:00 -05, 2096-12-31 06:00 -05, 2096-12-31 12:00 -05, 2096-12-31 18:00 -05, 2097-01-01 00:00 -05"; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

func TestLongPausesEnd(t *testing.T) {
	for expr, want := range map[string][2]string{
		"0 0 29 2 *":      {"2096-02-29", "2104-02-29"},
		"0 0 */28 2 */6":  {"2026-02-01", "2031-02-01"},
		"0 0 29W 2 SUN#5": {"2032-02-29", "2036-02-29"},
	} {
		c := parse(t, expr, calendar.Options{Location: load(t, "Europe/Zurich")})
		after, err := time.Parse(time.DateOnly, want[0])
		if err != nil {
			t.Fatal(err)
		}
		if at, ok := c.Next(after.Add(12 * time.Hour)); !ok || at.Format(time.DateOnly) != want[1] {
			t.Errorf("after %s %s fires at %v, want %s", want[0], expr, at, want[1])
		}
	}
}

func TestAnIntervalIsAnchored(t *testing.T) {
	zurich := load(t, "Europe/Zurich")
	for _, c := range []struct {
		every       time.Duration
		anchor      time.Time
		after, want string
	}{
		{time.Hour, time.Time{}, "2026-03-29 00:59:59 +0000", "2026-03-29 01:00:00 +0000"},
		{time.Hour, time.Time{}, "2026-03-29 01:00:00 +0000", "2026-03-29 02:00:00 +0000"},
		{24 * time.Hour, time.Date(2026, 3, 1, 8, 0, 0, 0, zurich), "2026-03-29 00:00:00 +0000", "2026-03-29 09:00:00 +0200"},
		{7 * time.Hour, time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), "1970-01-01 00:00:00 +0000", "1970-01-01 03:00:00 +0000"},
		{90 * time.Second, time.Date(2026, 1, 1, 0, 0, 30, 0, time.UTC), "2026-01-01 00:00:29 +0000", "2026-01-01 00:00:30 +0000"},
		{90 * time.Second, time.Date(2026, 1, 1, 0, 0, 30, 0, time.UTC), "2025-12-31 23:58:59 +0000", "2025-12-31 23:59:00 +0000"},
	} {
		e, err := calendar.Every(c.every, c.anchor)
		if err != nil {
			t.Fatal(err)
		}
		after, err := time.Parse(layout, c.after)
		if err != nil {
			t.Fatal(err)
		}
		if at, ok := e.Next(after); !ok || at.Format(layout) != c.want {
			t.Errorf("%v after %s: %v, want %s", e, c.after, at, c.want)
		}
	}
	for _, d := range []time.Duration{0, -time.Hour, time.Second - 1} {
		if _, err := calendar.Every(d, time.Time{}); err == nil || !strings.Contains(err.Error(), "want at least 1s") {
			t.Errorf("an interval of %v: %v", d, err)
		}
	}
	if _, err := calendar.Every(time.Hour, time.Date(12026, 1, 1, 0, 0, 0, 0, time.UTC)); err == nil || !strings.Contains(err.Error(), "want 1970 to 9999") {
		t.Errorf("an anchor in a distant year: %v", err)
	}
}
