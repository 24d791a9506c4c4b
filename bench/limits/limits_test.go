package limits_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/taskengine/taskengine/bench/limits"
)

// TestMain finds goroutines that a measurement has left behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// empty reports files that are left in folders.
func empty(t *testing.T, dirs ...string) {
	t.Helper()
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			t.Errorf("%s is left behind", e.Name())
		}
	}
}

// tempDir sets a new folder for temporary files. Its path is short, since sockets are
// made in it.
func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "t")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	t.Setenv("TMPDIR", dir)
	return dir
}

func TestEveryLimitIsMeasured(t *testing.T) {
	dir, temp := t.TempDir(), tempDir(t)
	var steps []string
	got, err := limits.Measure(t.Context(), limits.Options{
		Dir: dir, Budget: limits.LeastBudget, Progress: func(name string) { steps = append(steps, name) },
	})
	if err != nil {
		t.Fatal(err)
	}
	empty(t, dir, temp)
	all := limits.All()
	if len(got) != len(all) {
		t.Fatalf("%d limits were measured, want %d", len(got), len(all))
	}
	for i, l := range got {
		if l.Name != all[i].Name || l.Unit != all[i].Unit {
			t.Errorf("limit %d is %s in %s, want %s in %s", i, l.Name, l.Unit, all[i].Name, all[i].Unit)
		}
		// A timer may be early by the resolution of a clock.
		if l.Value == 0 || l.Low > l.Value || l.Value > l.High {
			t.Errorf("%s is %v, from %v to %v", l.Name, l.Value, l.Low, l.High)
		}
	}
	for _, s := range steps {
		if len(s) == 0 {
			t.Error("a step has no name")
		}
	}
	if len(steps) == 0 {
		t.Error("there is no progress")
	}
}

func TestNamesAreUniqueAndInTheManual(t *testing.T) {
	manual, err := os.ReadFile("../../docs/benchmarks.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]bool)
	for _, l := range limits.All() {
		if seen[l.Name] {
			t.Errorf("%s is there twice", l.Name)
		}
		seen[l.Name] = true
		if l.What == "" {
			t.Errorf("%s has no description", l.Name)
		}
		if l.Unit != limits.Nanoseconds && l.Unit != limits.PerSecond {
			t.Errorf("%s is in %q", l.Name, l.Unit)
		}
		if !strings.Contains(string(manual), "`"+l.Name+"`") {
			t.Errorf("docs/benchmarks.md has no `%s`", l.Name)
		}
	}
	for _, name := range []string{limits.Fsync, limits.Lives("pebble"), limits.Lives("bolt")} {
		if !seen[name] {
			t.Errorf("there is no limit %s", name)
		}
	}
}

func TestOnlyWhatIsAskedForIsMeasured(t *testing.T) {
	for name, c := range map[string]struct {
		only []string
		want string
	}{
		"a group":                {[]string{"mutex"}, "mutex/handover"},
		"a limit":                {[]string{"fsync/append/p99"}, "fsync/append/p99"},
		"a group within one":     {[]string{"timer/after"}, "timer/after/p50 timer/after/p99"},
		"in the order of all":    {[]string{"btree/1k", limits.Fsync}, limits.Fsync + " btree/1k"},
		"asked for twice":        {[]string{"btree/1k", "btree/1k"}, "btree/1k"},
		"beside one that has it": {[]string{"mutex", "mutex/handover"}, "mutex/handover"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			got, err := limits.Measure(t.Context(), limits.Options{Dir: dir, Budget: limits.LeastBudget, Only: c.only})
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, l := range got {
				names = append(names, l.Name)
			}
			if s := strings.Join(names, " "); s != c.want {
				t.Errorf("measured %s, want %s", s, c.want)
			}
			empty(t, dir)
		})
	}
}

func TestWhatCannotBeMeasuredIsReportedFirst(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		options limits.Options
		want    []string
	}{
		"a budget that is too short": {limits.Options{Budget: 1}, []string{"1ns is too short", "at least 100ms"}},
		"a negative budget":          {limits.Options{Budget: -limits.LeastBudget}, []string{"too short"}},
		"an unknown limit":           {limits.Options{Only: []string{"mutex", "fsink"}}, []string{`no limit "fsink"`, "fsync", "timer"}},
		"half a word":                {limits.Options{Only: []string{"fsy"}}, []string{`no limit "fsy"`}},
		"an empty name":              {limits.Options{Only: []string{""}}, []string{`no limit ""`}},
		"a folder that is not there": {limits.Options{Dir: filepath.Join(file, "..", "none")}, []string{"make a folder to measure in", "none"}},
		"a file for a folder":        {limits.Options{Dir: file}, []string{"make a folder to measure in", "not a directory"}},
	} {
		t.Run(name, func(t *testing.T) {
			c.options.Progress = func(name string) { t.Errorf("%s is measured", name) }
			_, err := limits.Measure(t.Context(), c.options)
			if err == nil {
				t.Fatal("no error")
			}
			if asked := c.options.Dir == ""; errors.Is(err, limits.ErrOptions) != asked {
				t.Errorf("that it is a matter of the options is %v: %v", !asked, err)
			}
			for _, text := range c.want {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("the error does not say %q: %v", text, err)
				}
			}
		})
	}
}

func TestNothingIsLeftOfAMeasurementThatIsCancelled(t *testing.T) {
	for _, l := range limits.All() {
		if strings.HasSuffix(l.Name, "/p99") {
			continue // it is measured with the median
		}
		t.Run(l.Name, func(t *testing.T) {
			dir, temp := t.TempDir(), tempDir(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			_, err := limits.Measure(ctx, limits.Options{
				// So long that only a measurement that looks at ctx ends.
				Dir: dir, Budget: limits.DefaultBudget * 1000, Only: []string{l.Name},
				Progress: func(string) { time.AfterFunc(20*time.Millisecond, cancel) },
			})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("the error is %v", err)
			}
			empty(t, dir, temp)
		})
	}
}

func TestNothingIsMeasuredOnceCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := t.TempDir()
	_, err := limits.Measure(ctx, limits.Options{Dir: dir, Progress: func(name string) { t.Errorf("%s is measured", name) }})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
	empty(t, dir)
}
