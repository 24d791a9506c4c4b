package cli

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/taskengine/taskengine/task"
)

func TestShortIDsTellTasksApart(t *testing.T) {
	const id, same18, same23 = "0190a6f0-7c3e-7cc0-8b5e-3f1d2c4b5a69", "0190a6f0-7c3e-7cc0-9b5e-3f1d2c4b5a69", "0190a6f0-7c3e-7cc0-8b5e-3f1d2c4b5a68"
	for name, c := range map[string]struct{ ids, want []string }{
		"one":                  {[]string{id}, []string{id[:18]}},
		"one twice":            {[]string{id, id, ""}, []string{id[:18], id[:18], ""}},
		"the same time":        {[]string{id, same18}, []string{id[:23], same18[:23]}},
		"only the end differs": {[]string{id, same23}, []string{id, same23}},
		"no ids":               {[]string{"-", "abc"}, []string{"-", "abc"}},
	} {
		if shorten(c.ids); !slices.Equal(c.ids, c.want) {
			t.Errorf("%s: %q, want %q", name, c.ids, c.want)
		}
	}
}

func TestTheIDsOfOneProgramAreShortAndApart(t *testing.T) {
	ids, at := task.NewIDs([32]byte{1}), time.Now()
	var all []string
	for range 10_000 {
		all = append(all, ids.Next(at).String()) // the clock stands still
	}
	shorten(all)
	if len(all[0]) != shortIDs[0] {
		t.Errorf("a short id is %s", all[0])
	}
}

// An id begins with some text if it is less than the id after all of these, and not less than the text.
func TestTheTasksWithABeginningAreBelowOneID(t *testing.T) {
	hex := rapid.StringMatching("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
	rapid.Check(t, func(t *rapid.T) {
		id, other := hex.Draw(t, "id"), hex.Draw(t, "other")
		begin := id[:rapid.IntRange(leastID, idLength).Draw(t, "length")]
		after := afterAll(begin)
		isBelow := func(id string) bool { return after == "" || id < after }
		if !isBeginning(begin) || !isBelow(id) {
			t.Fatalf("%s is not below %s", id, after)
		}
		if got, want := isBelow(other) && other >= begin, strings.HasPrefix(other, begin); got != want {
			t.Fatalf("%s begins with %s: %v, by order %v", other, begin, want, got)
		}
	})
	if got := afterAll("ffffffff-ffff-f"); got != "" {
		t.Errorf("after the last ids is %q", got)
	}
}

func TestABeginningOfAnIDHasItsForm(t *testing.T) {
	for text, want := range map[string]bool{
		"0190a6f0-7c3e": true, "0190A6F0-7C3E": true, "0190a6f0-": true, "0": true, anID: true,
		"": false, anID + "0": false, "0190a6f07c3e": false, "0190a6f0-7c3g": false, "0190-": false, "order-1": false, "0190a6f0-7c3e…": false,
	} {
		if got := isBeginning(text); got != want {
			t.Errorf("%q is the beginning of an id: %v", text, got)
		}
	}
}
