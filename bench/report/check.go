package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/taskengine/taskengine/bench/result"
)

// state is the result of the checks of some runs.
type state string

const (
	passed    state = "ok"
	failed    state = "failed"
	unchecked state = "unchecked" // nothing was checked, or there was nothing to check
)

// checks sums up the checks of the runs of a series.
type checks struct {
	state                             state
	passed, runs                      int
	lost, doubled, disorder, exceeded int64
	checked, notes                    []string
}

func (s *series) checks() checks {
	c := checks{runs: len(s.runs), state: passed}
	looked := len(s.runs) > 0
	for _, r := range s.runs {
		if r.Check.Sound() {
			c.passed++
		}
		looked = looked && len(r.Check.Checked) > 0
		c.lost = plus(c.lost, r.Check.Lost)
		c.doubled = plus(c.doubled, r.Check.Doubled)
		c.disorder = plus(c.disorder, r.Check.Disorder)
		c.exceeded = plus(c.exceeded, r.Check.Exceeded)
		for _, what := range r.Check.Checked {
			said := func(other string) bool { return withoutNumbers(other) == withoutNumbers(what) }
			if !slices.ContainsFunc(c.checked, said) {
				c.checked = append(c.checked, what)
			}
		}
		c.notes = append(c.notes, r.Check.Notes...)
	}
	switch {
	case c.passed < c.runs:
		c.state = failed
	case !looked:
		c.state = unchecked
	}
	return c
}

// withoutNumbers returns s without its digits: the checks of several runs differ only in the numbers
// of tasks.
func withoutNumbers(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, s)
}

// plus adds without overflow, so that a huge loss does not look like none.
func plus(a, b int64) int64 {
	switch {
	case b > 0 && a > math.MaxInt64-b:
		return math.MaxInt64
	case b < 0 && a < math.MinInt64-b:
		return math.MinInt64
	}
	return a + b
}

// text returns the checks in a few words.
func (c checks) text() string {
	switch {
	case c.state == failed:
		return fmt.Sprintf("FAILED in %d of %s", c.runs-c.passed, result.Counted(c.runs, "run"))
	case c.runs == 0:
		return "no runs"
	case c.state == unchecked:
		return "nothing checked"
	}
	return fmt.Sprintf("%d/%d"+nbsp+"ok", c.passed, c.runs)
}

// worst returns the worst of the states.
func worst(states ...state) state {
	for _, s := range []state{failed, unchecked} {
		if slices.Contains(states, s) {
			return s
		}
	}
	return passed
}
