package tasklog_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/taskengine/taskengine/tasklog"
)

func TestReadersGoOnFromACursor(t *testing.T) {
	dir, id := t.TempDir(), ids(1)[0]
	l := open(t, tasklog.Options{Dir: dir, MaxBytes: tasklog.MinBytes})
	const n = 2000 // in several segments
	for i := range n {
		say(l, id, 1, fmt.Sprint(i))
	}
	var got []string
	cursor := ""
	for range n + 1 {
		at, err := tasklog.ParseCursor(cursor)
		if err != nil {
			t.Fatal(err)
		}
		r := l.Reader(id, time.Time{}, at)
		for line, err := range r.Lines(t.Context()) { // one line only
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, line.Message)
			break
		}
		cursor = r.Cursor().String()
	}
	if len(segments(t, dir)) < 3 {
		t.Fatalf("there are %d segments", len(segments(t, dir)))
	}
	if len(got) != n || got[0] != "0" || got[n-1] != fmt.Sprint(n-1) {
		t.Errorf("line by line there are %d lines", len(got))
	}
	for _, bad := range []string{"x", "1", "1-", "-1-0", "1-2-3", "99999999999999999999-1"} {
		if _, err := tasklog.ParseCursor(bad); !errors.Is(err, tasklog.ErrBadCursor) {
			t.Errorf("the cursor %s gives %v", bad, err)
		}
	}
}

func TestACursorAmidALineShowsNothingOfIt(t *testing.T) {
	dir, id := t.TempDir(), ids(2)
	l := open(t, tasklog.Options{Dir: dir})
	inner := fmt.Sprintf(`{"task":"%s","attempt":1,"log":{"time":"2026-01-01T00:00:00Z","level":"INFO","msg":"smuggled"}}`, id[0])
	say(l, id[1], 1, "m", slog.Any("raw", json.RawMessage(inner)))
	say(l, id[0], 1, "own")
	read(t, l, id[0])
	name := filepath.Base(segments(t, dir)[0])
	text, err := os.ReadFile(segments(t, dir)[0])
	if err != nil {
		t.Fatal(err)
	}
	for offset := range bytes.IndexByte(text, '\n') + 2 {
		at, err := tasklog.ParseCursor(fmt.Sprintf("%s-%d", strings.TrimSuffix(name, ".jsonl"), offset))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"own"}, messages(lines(t, l.Reader(id[0], time.Time{}, at)))); diff != "" {
			t.Fatalf("from %d on (-want +got)\n%s", offset, diff)
		}
	}
}

func TestSegmentsFromBeforeATaskAreNotRead(t *testing.T) {
	dir, id := t.TempDir(), ids(1)[0]
	l := tasklog.Open(tasklog.Options{Dir: dir})
	say(l, id, 1, "old")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-3 * time.Hour)
	if err := os.Chtimes(segments(t, dir)[0], old, old); err != nil {
		t.Fatal(err)
	}
	l = open(t, tasklog.Options{Dir: dir})
	for since, want := range map[time.Duration]int{time.Hour: 0, 3 * time.Hour: 1, 2*time.Hour + time.Minute: 1} {
		if got := lines(t, l.Reader(id, time.Now().Add(-since), tasklog.Cursor{})); len(got) != want {
			t.Errorf("a task of %v ago has %d lines, want %d", since, len(got), want)
		}
	}
}

func TestManyLogAndFollowAtOnce(t *testing.T) {
	const tasks, each = 8, 2000
	id := ids(tasks)
	l := open(t, tasklog.Options{Dir: t.TempDir(), MaxBytes: 8 << 20})
	var wg sync.WaitGroup
	for _, id := range id {
		wg.Go(func() {
			for i := range each {
				say(l, id, 1, fmt.Sprint(i), slog.String("task", id.String()))
			}
		})
		wg.Go(func() {
			r, next := l.Reader(id, time.Time{}, tasklog.Cursor{}), 0
			for next < each {
				more := l.Changed()
				for line, err := range r.Lines(t.Context()) {
					if err != nil || line.Message != fmt.Sprint(next) || string(line.Attrs) != fmt.Sprintf(`{"task":%q}`, id) {
						t.Errorf("line %d is %+v (%v)", next, line, err)
						return
					}
					next++
				}
				if next < each {
					<-more
				}
			}
		})
	}
	wg.Wait()
}

func TestAReaderThatIsOvertakenGoesOnWithWhatIsLeft(t *testing.T) {
	for name, dir := range map[string]string{"in a folder": t.TempDir(), "in memory": ""} {
		t.Run(name, func(t *testing.T) {
			const n = 30_000 // several times the kept ones
			l, id := open(t, tasklog.Options{Dir: dir, MaxBytes: tasklog.MinBytes, AttemptLines: n, AttemptBytes: 1 << 30}), ids(1)[0]
			var writer sync.WaitGroup
			writer.Go(func() {
				for i := range n {
					say(l, id, 1, "m", slog.Int("i", i))
					if i%500 == 0 { // so that nothing is dropped
						if err := l.Flush(t.Context()); err != nil {
							t.Error(err)
						}
					}
				}
			})
			r, last, read := l.Reader(id, time.Time{}, tasklog.Cursor{}), -1, 0
			for last < n-1 && !t.Failed() {
				more := l.Changed()
				for _, line := range lines(t, r) {
					var attrs struct{ I int }
					if err := json.Unmarshal(line.Attrs, &attrs); err != nil || attrs.I <= last {
						t.Fatalf("after line %d comes %+v (%v)", last, line, err)
					}
					last = attrs.I
					read++
				}
				if last < n-1 {
					<-more
				}
			}
			writer.Wait()
			if got := len(lines(t, l.Reader(id, time.Time{}, tasklog.Cursor{}))); got == n || read < got {
				t.Errorf("%d lines were read, and %d of %d are left", read, got, n)
			}
		})
	}
}

func TestAReaderSaysThatItsTimeIsOver(t *testing.T) {
	l, id := open(t, tasklog.Options{}), ids(1)[0]
	say(l, id, 1, "m")
	ctx, cancel := context.WithCancelCause(t.Context())
	over := errors.New("over")
	cancel(over)
	for range 2 {
		for line, err := range l.Reader(id, time.Time{}, tasklog.Cursor{}).Lines(ctx) {
			if !errors.Is(err, over) {
				t.Errorf("it returns %v, %v", line, err)
			}
		}
		if err := l.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
