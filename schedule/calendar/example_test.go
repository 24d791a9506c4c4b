package calendar_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/taskengine/taskengine/schedule/calendar"
)

// print shows the first fires after a time.
func print(c *calendar.Calendar, after time.Time, n int) {
	for range n {
		next, ok := c.Next(after)
		if !ok {
			fmt.Println("never again")
			return
		}
		fmt.Println(next.Format("Mon 2006-01-02 15:04 MST"))
		after = next
	}
}

func ExampleParseCron() {
	zurich, err := calendar.LoadLocation("Europe/Zurich")
	if err != nil {
		fmt.Println(err)
		return
	}
	c, err := calendar.ParseCron("30 7 * * MON-FRI", calendar.Options{Location: zurich})
	if err != nil {
		fmt.Println(err)
		return
	}
	print(c, time.Date(2026, 11, 26, 12, 0, 0, 0, zurich), 3)
	// Output:
	// Fri 2026-11-27 07:30 CET
	// Mon 2026-11-30 07:30 CET
	// Tue 2026-12-01 07:30 CET
}

// The clock is put forward at 02:00, and back at 02:00 seven months later.
func ExampleParseCron_clockChanges() {
	newYork, err := calendar.LoadLocation("America/New_York")
	if err != nil {
		fmt.Println(err)
		return
	}
	spring := time.Date(2026, 3, 7, 12, 0, 0, 0, newYork)
	fall := time.Date(2026, 11, 1, 0, 0, 0, 0, newYork)

	for _, o := range []calendar.Options{{}, {Gap: calendar.Skip, Repeat: calendar.Both}} {
		o.Location = newYork
		inGap, _ := calendar.ParseCron("30 2 * * *", o)
		inRepeat, _ := calendar.ParseCron("30 1 * * *", o)
		fmt.Println(o.Gap, o.Repeat)
		print(inGap, spring, 2)
		print(inRepeat, fall, 2)
	}
	fmt.Println("every hour")
	hourly, _ := calendar.ParseCron("30 * * * *", calendar.Options{Location: newYork})
	print(hourly, fall, 4)
	// Output:
	// run_after first
	// Sun 2026-03-08 03:00 EDT
	// Mon 2026-03-09 02:30 EDT
	// Sun 2026-11-01 01:30 EDT
	// Mon 2026-11-02 01:30 EST
	// skip both
	// Mon 2026-03-09 02:30 EDT
	// Tue 2026-03-10 02:30 EDT
	// Sun 2026-11-01 01:30 EDT
	// Sun 2026-11-01 01:30 EST
	// every hour
	// Sun 2026-11-01 00:30 EDT
	// Sun 2026-11-01 01:30 EDT
	// Sun 2026-11-01 01:30 EST
	// Sun 2026-11-01 02:30 EST
}

func ExampleParseCron_daysOfTheMonth() {
	after := time.Date(2026, 1, 15, 0, 0, 0, 0, time.UTC)
	for _, expr := range []string{"0 18 LW * *", "0 9 * * MON#2", "0 9 * * 5L", "0 9 13 * FRI"} {
		c, _ := calendar.ParseCron(expr, calendar.Options{})
		fmt.Println(expr)
		print(c, after, 3)
	}
	// Output:
	// 0 18 LW * *
	// Fri 2026-01-30 18:00 UTC
	// Fri 2026-02-27 18:00 UTC
	// Tue 2026-03-31 18:00 UTC
	// 0 9 * * MON#2
	// Mon 2026-02-09 09:00 UTC
	// Mon 2026-03-09 09:00 UTC
	// Mon 2026-04-13 09:00 UTC
	// 0 9 * * 5L
	// Fri 2026-01-30 09:00 UTC
	// Fri 2026-02-27 09:00 UTC
	// Fri 2026-03-27 09:00 UTC
	// 0 9 13 * FRI
	// Fri 2026-01-16 09:00 UTC
	// Fri 2026-01-23 09:00 UTC
	// Fri 2026-01-30 09:00 UTC
}

// H spreads schedules that have one expression. Its value follows from the name alone.
func ExampleParseCron_hash() {
	for _, name := range []string{"backup", "report"} {
		c, _ := calendar.ParseCron("H H(0-5) * * *", calendar.Options{Hash: name})
		fmt.Println(name, "fires at", c)
	}
	// Output:
	// backup fires at 16 2 * * *
	// report fires at 18 5 * * *
}

func ExampleExpressionError() {
	_, err := calendar.ParseCron("0 25 * * *", calendar.Options{})
	fmt.Println(err)
	var wrong *calendar.ExpressionError
	if errors.As(err, &wrong) {
		fmt.Println(wrong.Offset, wrong.Part)
	}
	_, err = calendar.ParseCron("0 0 30 FEB *", calendar.Options{})
	fmt.Println(err)
	// Output:
	// hour "25" at character 3: want 0 to 23
	// 2 25
	// "30 FEB *" at character 5: the schedule would never fire, because no year has such a day
}

func ExampleEvery() {
	c, err := calendar.Every(90*time.Minute, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(c)
	print(c, time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC), 2)
	// Output:
	// every 1h30m from 2026-01-01T00:00:00Z
	// Wed 2026-07-01 13:30 UTC
	// Wed 2026-07-01 15:00 UTC
}
