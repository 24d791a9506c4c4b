package blocks_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine/internal/blocks"
)

var begin = time.Date(2026, 11, 29, 3, 0, 0, 0, time.UTC)

func at(second int) time.Time { return begin.Add(time.Duration(second) * time.Second) }

func show(spans []blocks.Span) string {
	var all []string
	for _, s := range spans {
		all = append(all, fmt.Sprintf("%s%s %d-%d", s.Type, s.Limit, int(s.From.Sub(begin).Seconds()), int(s.To.Sub(begin).Seconds())))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

func all(blocks.Cause) bool { return true }

func TestSpansReachFromTheFirstLookToTheLast(t *testing.T) {
	l := blocks.New(begin)
	limit := blocks.Cause{Code: "limit", Limit: "l"}
	pause := blocks.Cause{Code: "paused", Type: "t", Exact: true}
	look := func(second int, causes ...blocks.Cause) { l.Look(at(second), 3*time.Second, causes) }
	look(1, limit)
	look(2, limit, pause)
	look(3, pause) // it had room for a moment
	look(4, limit, pause)
	look(20, pause)
	if got, want := show(l.Between(at(0), at(30), at(30), all)), "l 1-4, t 2-30"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	look(31)
	look(40, limit) // once: nothing is known of its length
	look(50)
	if got, want := show(l.Between(at(3), at(25), at(60), all)), "l 3-4, t 3-25"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := show(l.Between(at(0), at(60), at(60), all)), "l 1-4, t 2-31"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if !l.Since().Equal(begin) {
		t.Errorf("since %v", l.Since())
	}
}

func TestNotesThatAreGivenUpAreNotKnownAnyMore(t *testing.T) {
	l := blocks.New(begin)
	for i := range blocks.MaxSpans + 5 {
		c := blocks.Cause{Code: "paused", Type: fmt.Sprint(i), Exact: true}
		l.Look(at(2*i), 0, []blocks.Cause{c})
		l.Look(at(2*i+1), 0, nil)
	}
	if !l.Since().Equal(at(2*4 + 1)) {
		t.Errorf("since %v", l.Since().Sub(begin))
	}
	if n := len(l.Between(begin, at(1_000_000), at(1_000_000), all)); n != blocks.MaxSpans {
		t.Errorf("%d spans", n)
	}
	var many []blocks.Cause
	for i := range blocks.MaxOpen + 1 {
		many = append(many, blocks.Cause{Code: "limit", Limit: fmt.Sprint(i)})
	}
	if l.Look(at(100_000), 0, many); !l.Since().Equal(at(100_000)) {
		t.Errorf("since %v, with more limits than are noted", l.Since().Sub(begin))
	}
}
