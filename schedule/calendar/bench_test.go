package calendar_test

import (
	"testing"
	"time"

	"github.com/taskengine/taskengine/schedule/calendar"
)

var benchmarked = []string{"* * * * *", "*/15 9-17 * * MON-FRI", "30 2 * * *", "0 9 LW * *", "0 0 1 1 *", "0 0 29 2 *"}

func BenchmarkNext(b *testing.B) {
	for _, zone := range []string{"UTC", "America/New_York", "Europe/Zurich", "Asia/Tokyo", "Africa/Casablanca", "Australia/Lord_Howe"} {
		in := load(b, zone)
		for _, expr := range benchmarked {
			b.Run(zone+"/"+expr, func(b *testing.B) {
				c := parse(b, expr, calendar.Options{Location: in})
				from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
				b.ReportAllocs()
				at, until := from, from.AddDate(20, 0, 0)
				for b.Loop() {
					if at, _ = c.Next(at); at.After(until) {
						at = from
					}
				}
			})
		}
	}
}
