package calendar_test

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/taskengine/taskengine/schedule/calendar"
)

// Zones with changes of any kind.
var zones = []string{
	"UTC", "America/New_York", "Europe/Zurich", "Europe/Dublin", "Australia/Lord_Howe", "Pacific/Apia", "Pacific/Kwajalein",
	"America/Sao_Paulo", "Asia/Beirut", "America/Asuncion", "Africa/Casablanca", "Africa/Cairo", "Africa/Monrovia", "Asia/Gaza", "Antarctica/Troll",
	"Antarctica/Casey", "America/Caracas", "Asia/Pyongyang", "Asia/Kathmandu", "America/Nuuk", "America/Santiago", "Pacific/Chatham",
}

// changes returns the instants from 1970 to 2045 at which a zone changes its offset.
func changes(in *time.Location) []int64 {
	var all []int64
	_, before := time.Unix(0, 0).In(in).Zone()
	for at := time.Unix(0, 0); at.Year() < 2045; {
		_, next := at.In(in).ZoneBounds()
		if next.IsZero() {
			break
		}
		if !next.After(at) {
			next = at.Add(24 * time.Hour)
		}
		at = next
		if _, offset := at.In(in).Zone(); offset != before {
			all, before = append(all, at.Unix()), offset
		}
	}
	return all
}

// options draws a zone and an instant near one of its changes.
func options(t *rapid.T, tb testing.TB) (calendar.Options, int64) {
	o := calendar.Options{
		Location: load(tb, rapid.SampledFrom(zones).Draw(t, "zone")),
		Gap:      rapid.SampledFrom([]calendar.Gap{calendar.RunAfter, calendar.Skip}).Draw(t, "gap"),
		Repeat:   rapid.SampledFrom([]calendar.Repeat{calendar.First, calendar.Both}).Draw(t, "repeat"),
	}
	at := rapid.Int64Range(0, 2e9).Draw(t, "at")
	if c := changes(o.Location); len(c) > 0 {
		at = rapid.SampledFrom(c).Draw(t, "change")
	}
	return o, at
}

// drawCron draws an expression that fires at some time.
func drawCron(t *rapid.T, o calendar.Options, withSeconds bool, near int64) (expression, *calendar.Calendar) {
	e := expressions(withSeconds, time.Unix(near, 0).In(o.Location)).Draw(t, "expression")
	c, err := calendar.ParseCron(e.text, o)
	if err != nil {
		t.Skip(err)
	}
	return e, c
}

func TestFiresAreThoseOfAWalkByMinutes(tb *testing.T) {
	rapid.Check(tb, func(t *rapid.T) {
		o, change := options(t, tb)
		// Before 1972 Monrovia had an offset with seconds, which steps of a minute miss.
		checkWalk(t, o, max(change, 1e8), walk{step: 60, length: 40 * 3600, earlier: 6 * 3600})
	})
}

func TestFiresAreThoseOfAWalkBySeconds(tb *testing.T) {
	rapid.Check(tb, func(t *rapid.T) {
		o, change := options(t, tb)
		checkWalk(t, o, change, walk{step: 1, length: 2 * 3600, earlier: 4 * 3600})
	})
}

// The clocks of these zones are changed more often, and by more, than any real one.
func TestFiresAreThoseOfAWalkInAnyZone(tb *testing.T) {
	rapid.Check(tb, func(t *rapid.T) {
		o, _ := options(t, tb)
		var change int64
		o.Location, change = randomZone(t)
		checkWalk(t, o, change, walk{step: 60, length: 30 * 3600, earlier: 60 * 3600})
	})
}

// randomZone draws a zone with offsets that are multiples of 15 minutes, and one of its changes.
func randomZone(t *rapid.T) (*time.Location, int64) {
	const quarter = 15 * 60
	var ats, offsets []int64
	at := int64(quarter * 1_000_000)
	for range rapid.IntRange(1, 6).Draw(t, "changes") {
		at += quarter * rapid.Int64Range(1, 200).Draw(t, "pause")
		ats = append(ats, at)
		most := rapid.SampledFrom([]int64{4, 100}).Draw(t, "offsets to")
		offsets = append(offsets, quarter*rapid.Int64Range(-most, most).Draw(t, "offset"))
	}
	// The format is that of RFC 8536, version 1.
	file := append([]byte("TZif"), make([]byte, 16)...)
	for _, count := range []int{0, 0, 0, len(ats), len(ats) + 1, 4} {
		file = binary.BigEndian.AppendUint32(file, uint32(count))
	}
	for _, at := range ats {
		file = binary.BigEndian.AppendUint32(file, uint32(at))
	}
	for i := range ats {
		file = append(file, byte(i+1))
	}
	for _, offset := range append([]int64{0}, offsets...) {
		file = binary.BigEndian.AppendUint32(file, uint32(offset))
		file = append(file, 0, 0) // no summer time; the name begins here
	}
	in, err := time.LoadLocationFromTZData("Test/Random", append(file, "LMT\x00"...))
	if err != nil {
		t.Fatal(err)
	}
	return in, rapid.SampledFrom(ats).Draw(t, "change")
}

// walk is how the model goes through a time. It begins by earlier before, in seconds, which is
// more than a clock is put back.
type walk struct{ step, length, earlier int64 }

func checkWalk(t *rapid.T, o calendar.Options, change int64, w walk) {
	e, c := drawCron(t, o, w.step == 1, change)
	from := max(change-rapid.Int64Range(0, w.length).Draw(t, "before"), 2*86400)
	from -= from % w.step
	got := firesFrom(t, c, from, from+w.length)
	want := modelFires(e, o, w.earlier, from, from+w.length, w.step)
	if d := difference(got, want, o.Location); d != "" {
		t.Fatalf("%v in %v, %v, %v: %s", e, o.Location, o.Gap, o.Repeat, d)
	}
}

// firesFrom returns the fires from one instant to before another.
func firesFrom(tb interface{ Fatalf(string, ...any) }, c *calendar.Calendar, from, to int64) (fires []int64) {
	at := time.Unix(from, -1)
	for {
		next, ok := c.Next(at)
		if !ok || next.Unix() >= to {
			return fires
		}
		if !next.After(at) {
			tb.Fatalf("%v fires at %v, which is not after %v", c, next, at)
		}
		fires = append(fires, next.Unix())
		at = next
	}
}

// difference says where two lists of fires differ first, or nothing.
func difference(got, want []int64, in *time.Location) string {
	show := func(fires []int64, i int) string {
		if i >= len(fires) {
			return "no fire"
		}
		return time.Unix(fires[i], 0).In(in).Format(layout)
	}
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			return fmt.Sprintf("got %s, want %s, after %d that are right", show(got, i), show(want, i), i)
		}
	}
	return ""
}

func TestDaysAreThoseOfAWalkByDays(tb *testing.T) {
	rapid.Check(tb, func(t *rapid.T) {
		fields := []matcher{{"0", nil}, {"0", nil}, list(t, "day", monthly, nil), list(t, "month", months, nil), list(t, "weekday", weekdays, nil)}
		fields[0].matches = func(wall time.Time) bool { return wall.Minute() == 0 }
		fields[1].matches = func(wall time.Time) bool { return wall.Hour() == 0 }
		e := join(fields)
		c, err := calendar.ParseCron(e.text, calendar.Options{})
		from := time.Date(rapid.IntRange(1970, 9950).Draw(t, "year"), 1, rapid.IntRange(1, 366).Draw(t, "day of year"), 0, 0, 0, 0, time.UTC)
		wall := from
		for wall.Before(from.AddDate(50, 0, 0)) && !e.matches(wall) {
			wall = wall.AddDate(0, 0, 1)
		}
		found := e.matches(wall)
		if err != nil {
			if found {
				t.Fatalf("%v is refused, but %v matches: %v", e, wall, err)
			}
			return
		}
		next, ok := c.Next(from.Add(-1))
		if found && (!ok || !next.Equal(wall)) || !found && ok && next.Before(wall) {
			t.Fatalf("%v from %v fires at %v, want %v (%v)", e, from, next, wall, found)
		}
	})
}

func TestNextIsTheSameForAllTimesBetweenTwoFires(tb *testing.T) {
	rapid.Check(tb, func(t *rapid.T) {
		o, near := options(t, tb)
		var c *calendar.Calendar
		if rapid.Bool().Draw(t, "interval") {
			every := time.Duration(rapid.Int64Range(int64(time.Second), int64(1000*time.Hour)).Draw(t, "every"))
			anchor := time.Unix(rapid.Int64Range(0, 2e11).Draw(t, "anchor"), rapid.Int64Range(0, 1e9).Draw(t, "nano"))
			var err error
			if c, err = calendar.Every(every, anchor); err != nil {
				t.Fatal(err)
			}
		} else {
			_, c = drawCron(t, o, rapid.Bool().Draw(t, "seconds"), near)
		}
		after := time.Unix(near+rapid.Int64Range(-200000, 200000).Draw(t, "after"), rapid.Int64Range(0, 1e9).Draw(t, "part"))
		first, ok := c.Next(after)
		if !ok {
			return
		}
		if !first.After(after) {
			t.Fatalf("%v fires at %v, which is not after %v", c, first, after)
		}
		between := after.Add(time.Duration(rapid.Int64Range(0, int64(first.Sub(after)-1)).Draw(t, "between")))
		for _, after := range []time.Time{between, first.Add(-1)} {
			if next, ok := c.Next(after); !ok || !next.Equal(first) {
				t.Fatalf("%v fires at %v, but after %v at %v", c, first, after, next)
			}
		}
		if next, ok := c.Next(first); ok && !next.After(first) {
			t.Fatalf("%v fires at %v after %v", c, next, first)
		}
	})
}
