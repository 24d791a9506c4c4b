package calendar_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/schedule/calendar"
)

func TestAnErrorSaysWhatIsWrongWhereAndWhatToWrite(t *testing.T) {
	for expr, want := range map[string]string{
		"":                        `"" at character 1: the expression is empty; want five fields`,
		" \t":                     `: the expression is empty; want five fields`,
		"* * * *":                 `"* * * *" at character 1: the expression has 4 fields; want five fields (minute, hour, day of month, month, day of week), or six with the second first`,
		"0 0 0 1 1 * 2026":        `"2026" at character 13: there is no field for the year`,
		"0 25 * * *":              `hour "25" at character 3: want 0 to 23`,
		"60 * * * *":              `minute "60" at character 1: want 0 to 59`,
		"60 * * * * *":            `second "60" at character 1: want 0 to 59`,
		"0 0 0 * *":               `day of month "0" at character 5: want 1 to 31`,
		"0 0 * FEVER *":           `month "FEVER" at character 7: want 1 to 12 or JAN to DEC`,
		"0 0 * * MONDAY":          `day of week "MONDAY" at character 9: want 0 to 7 or SUN to SAT`,
		"0 0 * ANF *":             `month "ANF" at character 7: want 1 to 12 or JAN to DEC`,
		"0 0 * * 1-8":             `day of week "8" at character 11: want 0 to 7 or SUN to SAT`,
		"0 0 1- * *":              `day of month "" at character 7: a value is missing here; want 1 to 31`,
		"0 -5 * * *":              `hour "" at character 3: a value is missing here; want 0 to 23`,
		"1,,2 * * * *":            `minute "1,,2" at character 1: there is nothing before or after a comma`,
		"1, * * * *":              `minute "1," at character 1: there is nothing before or after a comma`,
		"*/0 * * * *":             `minute "0" at character 3: want a step of 1 to 59`,
		"*/90 * * * *":            `minute "90" at character 3: want a step of 1 to 59`,
		"* */24 * * *":            `hour "24" at character 5: want a step of 1 to 23`,
		"*/ * * * *":              `minute "" at character 3: want a step of 1 to 59`,
		"/5 * * * *":              `minute "/5" at character 1: a step needs values before it, such as */5`,
		"+5 * * * *":              `minute "+5" at character 1: want 0 to 59`,
		"? * * * *":               `minute "?" at character 1: ? is for the day of month and the day of week; use *`,
		"*5 * * * *":              `minute "*5" at character 1: want 0 to 59`,
		"0 0 25-5 * *":            `day of month "25-5" at character 5: the range ends before it begins, and months have different lengths; write two ranges, such as 25-31,1-5`,
		"0 0 L-31 * *":            `day of month "31" at character 7: want 0 to 30 days before the last one`,
		"0 0 W * *":               `day of month "" at character 5: a value is missing here; want 1 to 31`,
		"0 0 32W * *":             `day of month "32" at character 5: want 1 to 31`,
		"0 0 * * L":               `day of week "L" at character 9: L needs a day before it, such as 5L or FRIL`,
		"0 0 * * 8L":              `day of week "8" at character 9: want 0 to 7 or SUN to SAT`,
		"0 0 * * MON#6":           `day of week "6" at character 13: want 1 to 5, such as MON#2`,
		"0 0 * * MO#1":            `day of week "MO" at character 9: want 0 to 7`,
		"0 L * * *":               `hour "L" at character 3: want 0 to 23`,
		"H(5) * * * *":            `minute "H(5)" at character 1: want H or H with a range, such as H(0-59)`,
		"H(0-60) * * * *":         `minute "60" at character 5: want 0 to 59`,
		"H(0-9)/20 * * * *":       `minute "H(0-9)" at character 1: the step 20 is larger than the 10 values of H`,
		"TZ=UTC":                  `"TZ=UTC" at character 1: an expression has no time zone; remove this, and set the time zone of the schedule`,
		"CRON_TZ=UTC * * * * *":   `"CRON_TZ=UTC" at character 1: an expression has no time zone`,
		"tz= 0 0 * * *":           `"tz=" at character 1: an expression has no time zone`,
		"@every 5m":               `"@every" at character 1: an expression has no interval; use every: with the time instead`,
		"@reboot":                 `"@reboot" at character 1: a schedule fires at times`,
		"@fortnightly":            `"@fortnightly" at character 1: there is no such macro; use @yearly`,
		"@daily 5":                `"5" at character 8: nothing may follow @daily`,
		"é 0 * * *":               `minute "é" at character 1: want 0 to 59`,
		"é é * * *":               `minute "é" at character 1: want 0 to 59`,
		"0 é,25 * * *":            `hour "é" at character 3: want 0 to 23`,
		"0 0 30 2 *":              `"30 2 *" at character 5: the schedule would never fire, because no year has such a day`,
		"0 0 31 4,6,9,11 *":       `the schedule would never fire`,
		"0 0 30W FEB ?":           `the schedule would never fire`,
		"0 0 L-30 2-2 *":          `the schedule would never fire`,
		"0 0 31 2 */6":            `the schedule would never fire`,
		"0 0 * 2 * *\u00a0":       `day of week "*\u00a0" at character 11: want 0 to 7`,
		"0 0 \xffW * *":           `day of month "\xff" at character 5: want 1 to 31`,
		"0 0 * * \xff\xffL":       `day of week "\xff\xff" at character 9: want 0 to 7`,
		"99999999999 * * * *":     `minute "99999999999" at character 1: want 0 to 59`,
		"* * * * * * * * * * * *": `the expression has 12 fields`,
	} {
		_, err := calendar.ParseCron(expr, calendar.Options{Hash: "x"})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v\nwant %s", expr, err, want)
			continue
		}
		var e *calendar.ExpressionError
		if !errors.As(err, &e) || e.Expression != expr || expr[e.Offset:e.Offset+len(e.Part)] != e.Part {
			t.Errorf("%q: the error %#v does not point at the part", expr, err)
		}
	}
}

func TestAnExpressionHasOneText(t *testing.T) {
	for expr, want := range map[string]string{
		" 0\t0  * * *\n":        "0 0 * * *",
		"00 007 * * *":          "0 7 * * *",
		"5/20 */2 * * *":        "5-59/20 */2 * * *",
		"0 0 ? JAN,mar-May ?":   "0 0 * 1,3-5 *",
		"0 0 1-31 * sun":        "0 0 1-31 * 0",
		"0 0 * * 7":             "0 0 * * 0",
		"0 0 * * 7-2":           "0 0 * * 0-2",
		"0 0 * * FRI-SUN":       "0 0 * * 5-0",
		"0 0 * * 5-7":           "0 0 * * 5-7",
		"0 0 * * 0-7":           "0 0 * * 0-6",
		"0 22-5/3 * * *":        "0 22-5/3 * * *",
		"0 0 l,LW,1w,l-3 * *":   "0 0 L,LW,1W,L-3 * *",
		"0 0 * * fril,7L,tue#2": "0 0 * * 5L,0L,2#2",
		"59 59 23 31 12 *":      "59 59 23 31 12 *",
		"@YEARLY":               "0 0 1 1 *",
		"@annually":             "0 0 1 1 *",
		"@monthly":              "0 0 1 * *",
		"@weekly":               "0 0 * * 0",
		"@daily":                "0 0 * * *",
		" @midnight ":           "0 0 * * *",
		"@hourly":               "0 * * * *",
	} {
		c, err := calendar.ParseCron(expr, calendar.Options{})
		if err != nil {
			t.Errorf("%q: %v", expr, err)
			continue
		}
		if c.String() != want {
			t.Errorf("%q is written %q, want %q", expr, c, want)
		}
	}
}

// What H stands for must not change with a release, because schedules would move.
func TestHKeepsItsValues(t *testing.T) {
	for name, want := range map[string]string{
		"a":       "36 34 18 24 5 2",
		"backup":  "10 16 20 1 12 0",
		"Zürich":  "22 9 22 25 7 4",
		"a\nhour": "4 59 22 26 3 6",
	} {
		const expr = "H H H H H H"
		c, err := calendar.ParseCron(expr, calendar.Options{Hash: name})
		if err != nil || c.String() != want {
			t.Errorf("%q with the name %q is %v (%v), want %s", expr, name, c, err, want)
		}
	}
	for expr, want := range map[string]string{
		"H(0-29) H/6 * * *":          "16 2-23/6 * * *",
		"H(0-29)/10 H(22-5) * * *":   "6-29/10 2 * * *",
		"H,H(30-59) H/2 * * *":       "16,46 0-23/2 * * *",
		"0 0 H(1-31) H/3 H(MON-FRI)": "0 0 22 3-12/3 2",
		"0 0 H/7 * H(FRI-MON)/2":     "0 0 1-28/7 * 5-1/2",
	} {
		c, err := calendar.ParseCron(expr, calendar.Options{Hash: "backup"})
		if err != nil || c.String() != want {
			t.Errorf("%q with the name backup is %v (%v), want %s", expr, c, err, want)
		}
	}
	if _, err := calendar.ParseCron("H * * * *", calendar.Options{}); err == nil || !strings.Contains(err.Error(), "H needs the name of the schedule") {
		t.Errorf("H without a name: %v", err)
	}
}

func TestTheZoneOfTheMachineIsRefused(t *testing.T) {
	if _, err := calendar.ParseCron("@daily", calendar.Options{Location: time.Local}); err == nil || !strings.Contains(err.Error(), "would depend on where it runs") {
		t.Errorf("time.Local: %v", err)
	}
	for name, want := range map[string]string{
		"":                    "has no name",
		"Local":               "would depend on where it runs",
		"localtime":           "would depend on where it runs",
		"right/Europe/Zurich": `use "Europe/Zurich"`,
		"Europe/Zürich":       "not known",
		"../etc/passwd":       "not known",
	} {
		if l, err := calendar.LoadLocation(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is %v (%v), want an error with %q", name, l, err, want)
		}
	}
}

func TestPoliciesHaveTexts(t *testing.T) {
	for _, g := range []calendar.Gap{calendar.RunAfter, calendar.Skip} {
		var back calendar.Gap
		if text, _ := g.MarshalText(); back.UnmarshalText(text) != nil || back != g {
			t.Errorf("%v is read as %v", g, back)
		}
	}
	for _, r := range []calendar.Repeat{calendar.First, calendar.Both} {
		var back calendar.Repeat
		if text, _ := r.MarshalText(); back.UnmarshalText(text) != nil || back != r {
			t.Errorf("%v is read as %v", r, back)
		}
	}
	var g calendar.Gap
	if err := g.UnmarshalText([]byte("both")); err == nil || err.Error() != `"both" is not known; use run_after or skip` {
		t.Error(err)
	}
	var r calendar.Repeat
	if err := r.UnmarshalText([]byte("")); err == nil || err.Error() != `"" is not known; use first or both` {
		t.Error(err)
	}
	if _, err := calendar.ParseCron("@daily", calendar.Options{Gap: 2}); err == nil {
		t.Error("a gap that does not exist is accepted")
	}
	if _, err := calendar.ParseCron("@daily", calendar.Options{Repeat: 2}); err == nil {
		t.Error("a repeat that does not exist is accepted")
	}
}
