package slicer_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/local"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
	"github.com/taskengine/taskengine/timeslice"
	"github.com/taskengine/taskengine/timeslice/slicer"
)

// lossyBus is a bus that loses all hints while loses is set.
type lossyBus struct {
	coord.Bus
	loses *atomic.Bool
}

func (b lossyBus) Publish(ctx context.Context, hints ...task.Hint) error {
	if b.loses.Load() {
		return nil
	}
	return b.Bus.Publish(ctx, hints...)
}

// trio are three nodes on one store, with a bus that may lose its hints.
type trio struct {
	t      *testing.T
	all    []*node
	loses  atomic.Bool
	worked []*atomic.Int64 // by node: slices that it has fetched with the values that are wanted
	want   atomic.Int64    // the retries that slices are to have
}

func startTrio(t *testing.T, d timeslice.Definition) *trio {
	t.Helper()
	g := &trio{t: t}
	store, first := memory.New(), local.New()
	for i := range 3 {
		worked := new(atomic.Int64)
		n := &node{t: t, record: new(record), store: store, coord: first, answer: func(w timeslice.Work, _ *task.Task) error {
			if int64(w.Retries) == g.want.Load() {
				worked.Add(1)
			}
			return nil
		}}
		if i > 0 {
			n.coord = first.Peer()
		}
		n.around = func(c coord.Coordinator) coord.Coordinator {
			c.Bus = lossyBus{c.Bus, &g.loses}
			return c
		}
		n.open(d)
		t.Cleanup(n.close)
		g.all, g.worked = append(g.all, n), append(g.worked, worked)
	}
	return g
}

// pollSlack is how much longer than its interval a poll takes until what it has found is in force: a row that runs is edited at another try.
const pollSlack = 100 * time.Millisecond

// within waits until is holds for a platform as each of the nodes sees it, for a second at most.
func (g *trio) within(what string, names []string, is func(*timeslice.State) bool) {
	g.t.Helper()
	begin := time.Now()
	for i, n := range g.all {
		for _, name := range names {
			for !is(&n.get(name).State) {
				if time.Since(begin) > time.Second+pollSlack {
					g.t.Errorf("%s: node %d does not see it for %s within a second: %+v", what, i, name, n.get(name).State)
					return
				}
				time.Sleep(5 * time.Millisecond)
			}
		}
	}
}

// A change is in force on every node within a second, whichever of them has got it, also if no node hears of it by a hint: of the values of a
// source, of the values of a platform, and of the list of platforms.
func TestAChangeIsInForceOnEveryNodeWithinASecond(t *testing.T) {
	for _, loses := range []bool{false, true} {
		t.Run(fmt.Sprint("hints are lost: ", loses), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				var names []string
				for i := range 30 {
					names = append(names, fmt.Sprintf("p%02d", i))
				}
				g := startTrio(t, definition(t, map[string]string{"interval": "1s", "max_open": "5"}, names...))
				time.Sleep(5 * time.Second)
				g.loses.Store(loses)
				ctx := t.Context()
				for round := range 9 {
					time.Sleep(time.Duration(round*137) * time.Millisecond) // polls are at other moments
					n, retries := g.all[round%3], 10+round
					text := map[string]string{"retries": fmt.Sprint(retries)}
					for i := range g.worked {
						g.worked[i].Store(0)
					}
					g.want.Store(int64(retries))
					has := func(s *timeslice.State) bool { return s.Used != nil && s.Used.Retries == retries }
					if err := n.sources.SetSource(ctx, n.Engine, "orders", text, by); err != nil {
						t.Fatal(err)
					}
					g.within("set of the source", names, has)
					p := timeslice.Platform{Source: "orders", Name: names[round]}
					if err := n.sources.Set(ctx, n.Engine, p, map[string]string{"lag": fmt.Sprint(round+1, "ms")}, by); err != nil {
						t.Fatal(err)
					}
					g.within("set of a platform", []string{p.Name}, func(s *timeslice.State) bool { return s.Used.Lag == time.Duration(round+1)*time.Millisecond })

					added := fmt.Sprint("added-", round)
					rows := []slicer.Row{{Name: added, Values: map[string]string{"lag": "7ms"}}, {Name: names[29-round], Removed: true}}
					if _, err := n.sources.ApplyRows(ctx, n.Engine, "orders", rows, false, by); err != nil {
						t.Fatal(err)
					}
					g.within("an added platform", []string{added}, func(s *timeslice.State) bool { return has(s) && s.Used.Lag == 7*time.Millisecond && !s.Cursor.IsZero() })
					g.within("a removed platform", []string{names[29-round]}, func(s *timeslice.State) bool { return s.Removed })
					time.Sleep(5 * time.Second)
					for i := range g.worked {
						if g.worked[i].Load() == 0 {
							t.Errorf("node %d has fetched nothing with %d retries", i, retries)
						}
					}
				}
			})
		})
	}
}

// A platform with a task that was ended by hand keeps the others from nothing. When its task is resumed, it gets the values that it has missed.
func TestAPlatformThatWasEndedByHandHoldsUpNoValues(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var names []string
		for i := range 200 { // more than are changed at once
			names = append(names, fmt.Sprintf("p%03d", i))
		}
		d := definition(t, map[string]string{"interval": "1h"}, names...)
		n := start(t, d, nil)
		time.Sleep(time.Second)
		ctx := t.Context()
		for _, name := range names[:3] {
			cursor, err := n.Get(ctx, timeslice.Platform{Source: "orders", Name: name}.Cursor())
			if err == nil {
				_, err = n.Fail(ctx, cursor.Ref(), "a mistake")
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		n.close()
		if err := d.Values.Set("retries", "9"); err != nil { // by the configuration, which the source alone passes on
			t.Fatal(err)
		}
		n.open(d)
		time.Sleep(5 * time.Second)
		for _, name := range names[3:] {
			if s := n.get(name).State; s.Used.Retries != 9 {
				t.Fatalf("%s: %+v", name, s.Used)
			}
		}
		if of, err := n.sources.Source(ctx, n.Engine, "orders"); err != nil || of.Waiting() != 0 || of.Problem != "" {
			t.Errorf("%+v, %v", of, err)
		}
		for _, name := range names[:2] {
			cursor, err := n.Get(ctx, timeslice.Platform{Source: "orders", Name: name}.Cursor())
			if err == nil {
				_, err = n.Resume(ctx, cursor.Ref())
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * time.Minute)
		for i, name := range names[:3] {
			if s := n.get(name).State; (s.Used.Retries == 9) != (i < 2) {
				t.Errorf("%s: %+v", name, s.Used)
			}
		}
	})
}
