package calendar_test

import (
	"testing"
	"time"

	"github.com/taskengine/taskengine/schedule/calendar"
)

func BenchmarkNext(b *testing.B) {
	for _, zone := range []string{"UTC", "America/New_York", "Europe/Zurich", "Asia/Tokyo", "Africa/Casablanca", "Australia/Lord_Howe"} {
		in, err := calendar.LoadLocation(zone)
		if err != nil {
			b.Fatal(err)
		}
		for _, expr := range []string{"* * * * *", "*/15 9-17 * * MON-FRI", "30 2 * * *", "0 0 1 1 *", "0 0 29 2 *", "0 9 LW * *"} {
			b.Run(zone+"/"+expr, func(b *testing.B) {
				c, err := calendar.ParseCron(expr, calendar.Options{Location: in})
				if err != nil {
					b.Fatal(err)
				}
				from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
				b.ReportAllocs()
				at, n := from, 0
				for b.Loop() {
					next, ok := c.Next(at)
					if n++; !ok || n%1000 == 0 {
						next = from
					}
					at = next
				}
			})
		}
	}
}
