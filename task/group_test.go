package task_test

import (
	"slices"
	"testing"

	"github.com/taskengine/taskengine/task"
)

func TestAGroupKeepsItsValuesApart(t *testing.T) {
	lists := [][]string{
		{},
		{"a"},
		{"a", "b"},
		{"", ""},
		{"", "a"},
		{"a", ""},
		{"a\x1fb"},
		{"a", "b\x1f"},
		{"\x1e"},
		{"\x1e0"},
		{"\x1e1"},
		{"\x1e", "1"},
		{"\x1f", "\x1e1\x1e0"},
		{"é\xff", "\x00"},
	}
	packed := map[string][]string{}
	for _, values := range lists {
		g := task.GroupOf(values...)
		if other, ok := packed[g]; ok && len(other) == len(values) {
			t.Errorf("%q and %q are both packed as %q", other, values, g)
		}
		packed[g] = values
		if got := task.GroupValues(g, len(values)); !slices.Equal(got, values) {
			t.Errorf("%q came back as %q", values, got)
		}
	}
}

func TestAGroupOfAnotherNumberOfValuesIsCutOrFilledUp(t *testing.T) {
	g := task.GroupOf("a", "b\x1f", "c")
	for n, want := range [][]string{{}, {"a"}, {"a", "b\x1f"}, {"a", "b\x1f", "c"}, {"a", "b\x1f", "c", ""}} {
		if got := task.GroupValues(g, n); !slices.Equal(got, want) {
			t.Errorf("with %d limits the values are %q, want %q", n, got, want)
		}
	}
	if g := task.GroupOf(); g != "" {
		t.Errorf("no values are packed as %q", g)
	}
}

func FuzzGroupRoundTrip(f *testing.F) {
	f.Add("a", "b", "c")
	f.Add("\x1f", "\x1e0", "\x1e")
	f.Add("", "\x1e\x1f1", "0\x1e")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		for _, values := range [][]string{{a}, {a, b}, {a, b, c}} {
			g := task.GroupOf(values...)
			if got := task.GroupValues(g, len(values)); !slices.Equal(got, values) {
				t.Fatalf("%q came back as %q", values, got)
			}
		}
		task.GroupValues(a, 2) // whatever was stored, it must not panic
	})
}
