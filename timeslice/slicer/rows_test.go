package slicer_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/timeslice"
	"github.com/taskengine/taskengine/timeslice/slicer"
)

// rowsOf returns the rows of some platforms with the same values, which are all that they have of their own.
func rowsOf(values map[string]string, names ...string) (rows []slicer.Row) {
	for _, name := range names {
		rows = append(rows, slicer.Row{Name: name, Values: values, Replace: true})
	}
	return rows
}

// apply applies rows, and returns how many have each outcome.
func (n *node) apply(rows []slicer.Row) map[slicer.Outcome]int {
	n.t.Helper()
	all, err := n.sources.ApplyRows(n.t.Context(), n.Engine, "orders", rows, false, by)
	if err != nil {
		n.t.Fatal(err)
	}
	counts := make(map[slicer.Outcome]int)
	for i, one := range all {
		if one.Name != rows[i].Name || one.Err != nil {
			n.t.Errorf("%+v for the row %+v", one, rows[i])
		}
		counts[one.Outcome]++
	}
	return counts
}

func (n *node) counts(got, want map[slicer.Outcome]int) {
	n.t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		n.t.Errorf("outcomes %v, want %v", got, want)
	}
}

// A source that has no platform in its configuration gets a thousand at once, each with values of its own for its first slice. The same list
// changes nothing, and another one changes the rows that differ.
func TestAThousandPlatformsAreAppliedAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := start(t, definition(t, map[string]string{"lag": "1s"}), nil) // its platforms have the interval
		time.Sleep(time.Second)
		begin := time.Now()
		var rows []slicer.Row
		for i := range 1000 {
			start := begin.Add(-time.Duration(i%3+1) * time.Hour).Format(time.RFC3339)
			rows = append(rows, slicer.Row{Name: fmt.Sprintf("p%03d", i), Values: map[string]string{"interval": "1h", "start": start}, Replace: true})
		}
		n.counts(n.apply(rows), map[slicer.Outcome]int{slicer.Created: 1000})
		time.Sleep(10 * time.Second)
		for i, r := range rows {
			calls := n.fetched(r.Name)
			tiles(t, calls, begin.Add(-time.Duration(i%3+1)*time.Hour), begin)
			if s := n.get(r.Name).State; s.Version != 1 || len(s.History) != 2 || s.History[0].What != "add" || s.History[0].By != "anna" || !strings.HasPrefix(s.History[1].What, "set interval=1h0m0s start=") {
				t.Fatalf("%+v", s)
			}
		}
		n.counts(n.apply(rows), map[slicer.Outcome]int{slicer.Unchanged: 1000})
		time.Sleep(time.Second)
		for i := range rows {
			switch {
			case i < 10:
				rows[i] = slicer.Row{Name: rows[i].Name, Removed: true}
			case i < 30:
				rows[i].Values = map[string]string{"interval": "30m"} // its start is unset
			case i < 60:
				rows[i].Values, rows[i].Replace = nil, false // a name alone
			case i < 100:
				rows[i].Values, rows[i].Replace = map[string]string{"retries": "1"}, false
			}
		}
		n.counts(n.apply(rows), map[slicer.Outcome]int{slicer.Removed: 10, slicer.Updated: 60, slicer.Unchanged: 930})
		n.counts(n.apply(rows), map[slicer.Outcome]int{slicer.Unchanged: 1000})
		time.Sleep(time.Second)
		for i, r := range rows {
			s := n.get(r.Name).State
			want := "interval=1h0m0s start=" + begin.Add(-time.Duration(i%3+1)*time.Hour).UTC().Format(time.RFC3339)
			switch {
			case i >= 10 && i < 30:
				want = "interval=30m0s"
			case i >= 60 && i < 100:
				want = strings.Replace(want, " ", " retries=1 ", 1)
			}
			own := (&timeslice.Order{Set: s.Layers.Own.All()}).String()
			if s.Removed != (i < 10) || own != "set "+want || s.Used.Lag != time.Second || (s.Version == 2) != (i < 30 || i >= 60 && i < 100) {
				t.Errorf("%s: %s, %+v", r.Name, own, s)
			}
		}
		n.counts(n.apply([]slicer.Row{{Name: "p000"}, {Name: "none", Removed: true}}), map[slicer.Outcome]int{slicer.Updated: 1, slicer.Unchanged: 1})
		time.Sleep(time.Second)
		if s := n.get("p000").State; s.Removed || s.Version != 3 || s.Used.Interval != time.Hour {
			t.Errorf("%+v", s)
		}
	})
}

// A list with a row that cannot be changes nothing, and the error names the row.
func TestAListWithAWrongRowChangesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := start(t, definition(t, map[string]string{"interval": "1m"}, "a"), nil)
		time.Sleep(time.Second)
		for words, row := range map[string]slicer.Row{
			"row 2: ":                               {Name: "b/c"},
			"row 2: there is another row of new":    {Name: "new"},
			"row 2: a is to be removed, and has":    {Name: "a", Removed: true, Values: map[string]string{"lag": "1s"}},
			"a: overlap":                            {Name: "a", Values: map[string]string{"overlap": "1m"}},
			"b: interval":                           {Name: "b", Values: map[string]string{"interval": "1ms"}},
			"did you mean interval?":                {Name: "b", Values: map[string]string{"intervall": "1m"}},
			"threads.node: -1 is not between 0 and": {Name: "a", Values: map[string]string{"threads.node": "-1"}},
		} {
			rows := append(rowsOf(nil, "new"), row)
			for _, isDry := range []bool{false, true} {
				all, err := n.sources.ApplyRows(t.Context(), n.Engine, "orders", rows, isDry, by)
				if all != nil || !errors.Is(err, timeslice.ErrInvalid) || !strings.Contains(err.Error(), words) {
					t.Errorf("%s: %v, %v", words, all, err)
				}
			}
		}
		names, err := n.sources.Platforms(t.Context(), n.Engine, "orders")
		if s := n.get("a").State; err != nil || len(names) != 1 || s.Version != 1 || len(s.History) > 0 {
			t.Errorf("%q, %v, %+v", names, err, s)
		}
		if _, err := n.sources.ApplyRows(t.Context(), n.Engine, "other", nil, false, by); !errors.Is(err, slicer.ErrUnknown) {
			t.Error(err)
		}
	})
}

// A dry run has the outcomes that the same rows have when they are applied.
func TestADryRunHasTheOutcomesOfTheRows(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := start(t, definition(t, map[string]string{"interval": "1m"}, "a", "b"), nil)
		time.Sleep(time.Second)
		rows := []slicer.Row{{Name: "new"}, {Name: "a", Values: map[string]string{"lag": "1s"}}, {Name: "b", Removed: true}, {Name: "none", Removed: true}, {Name: "late", IfVersion: new(uint64(3))}}
		var texts []string
		for _, isDry := range []bool{true, true, false} {
			all, err := n.sources.ApplyRows(t.Context(), n.Engine, "orders", rows, isDry, by)
			if err != nil {
				t.Fatal(err)
			}
			texts = append(texts, fmt.Sprint(all))
		}
		if want := "[{new created 1 <nil>} {a updated 2 <nil>} {b removed 2 <nil>} {none unchanged 0 <nil>} {late  0 apply orders/late: the platform has changed: it has the version 0, and not 3}]"; texts[0] != want || texts[1] != want || texts[2] != want {
			t.Errorf("%q", texts)
		}
	})
}

// Of people who change a platform at the same time, each knowing its version, one changes it; the others learn that it has changed.
func TestAPlatformIsChangedFromTheVersionThatIsKnown(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := definition(t, map[string]string{"interval": "1m"})
		n := startOn(t, memory.New(), d, nil)
		nodes := []*node{n, n.join(d), n.join(d)}
		time.Sleep(time.Second)
		for version := range uint64(10) {
			var group sync.WaitGroup
			var mu sync.Mutex
			won := 0
			for i := range 9 {
				one := nodes[i%3]
				group.Go(func() {
					row := slicer.Row{Name: "a", Values: map[string]string{"retries": fmt.Sprint(version*10 + uint64(i))}, IfVersion: &version}
					all, err := one.sources.ApplyRows(t.Context(), one.Engine, "orders", []slicer.Row{row}, false, by)
					mu.Lock()
					defer mu.Unlock()
					switch {
					case err != nil:
						t.Error(err)
					case all[0].Err == nil && all[0].Version == version+1:
						won++
					case !errors.Is(all[0].Err, slicer.ErrVersion):
						t.Errorf("%+v", all)
					}
				})
			}
			group.Wait()
			if won != 1 {
				t.Errorf("%d have changed version %d", won, version)
			}
		}
		time.Sleep(time.Second)
		if s := n.get("a").State; s.Version != 10 || s.Used.Retries/10 != 9 {
			t.Errorf("%+v", s)
		}
	})
}

// The threads of a row are limits of the platform, and are unset with it.
func TestTheThreadsOfRowsAreLimits(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := start(t, definition(t, map[string]string{"interval": "1m"}), nil)
		time.Sleep(time.Second)
		n.apply(rowsOf(map[string]string{"threads.cluster": "3", "threads.node": "2"}, "a", "b"))
		n.apply(rowsOf(map[string]string{"threads.cluster": "4"}, "b"))
		all, err := n.LimitSettings(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, one := range all {
			got = append(got, fmt.Sprint(one.Limit, " ", one.Value, " ", *one.Max, " ", one.By))
		}
		if want := "orders-slices orders/a 3 anna, orders-slices orders/b 4 anna, orders-slices-node orders/a 2 anna"; strings.Join(got, ", ") != want {
			t.Errorf("limits %q", got)
		}
	})
}
