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
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/taskengine/taskengine/task"
	"github.com/taskengine/taskengine/tasklog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ids returns so many tasks.
func ids(n int) []task.ID {
	source := task.NewIDs([32]byte{1})
	all := make([]task.ID, n)
	for i := range all {
		all[i] = source.Next(time.Now())
	}
	return all
}

// open opens a log, and closes it when the test ends.
func open(t testing.TB, o tasklog.Options) *tasklog.Log {
	t.Helper()
	l := tasklog.Open(o)
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("closing the log: %v", err)
		}
	})
	return l
}

// say logs a line as a handler does.
func say(l *tasklog.Log, id task.ID, attempt uint32, message string, attrs ...slog.Attr) {
	r := slog.NewRecord(time.Now(), slog.LevelInfo, message, 0)
	r.AddAttrs(attrs...)
	l.Log(id, attempt, r)
}

// lines reads what r has not read yet.
func lines(t testing.TB, r *tasklog.Reader) []tasklog.Line {
	t.Helper()
	var all []tasklog.Line
	for line, err := range r.Lines(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, line)
	}
	return all
}

func read(t testing.TB, l *tasklog.Log, id task.ID) []tasklog.Line {
	t.Helper()
	return lines(t, l.Reader(id, time.Time{}, tasklog.Cursor{}))
}

func messages(all []tasklog.Line) []string {
	texts := make([]string, len(all))
	for i, l := range all {
		texts[i] = l.Message
	}
	return texts
}

func TestATaskHasTheLinesThatWereLoggedAboutIt(t *testing.T) {
	for name, dir := range map[string]string{"in a folder": t.TempDir() + "/logs", "in memory": ""} {
		t.Run(name, func(t *testing.T) {
			l, id := open(t, tasklog.Options{Dir: dir}), ids(2)
			at := time.Date(2026, 11, 21, 23, 0, 0, 123456000, time.FixedZone("", 3600))
			r := slog.NewRecord(at, slog.LevelWarn+1, "first\n\"line\" \xff", 0)
			r.AddAttrs(slog.String("msg", "not the message"), slog.Uint64("n", 1<<63), slog.Group("of", slog.Any("err", errors.New("bad"))))
			l.Log(id[0], 3, r)
			say(l, id[1], 1, "another's", slog.Any("raw", json.RawMessage(fmt.Sprintf("{\"task\":%q,\n\"log\":1}", id[0]))))
			say(l, id[0], 4, "second")

			got := read(t, l, id[0])
			if len(got) != 2 || time.Since(got[1].Time) > time.Minute {
				t.Fatalf("the log has %+v", got)
			}
			got[1].Time = time.Time{}
			want := []tasklog.Line{
				{
					Attempt: 3, Time: at.UTC(), Level: slog.LevelWarn + 1, Message: "first\n\"line\" \ufffd",
					Attrs: json.RawMessage(`{"msg":"not the message","n":9223372036854775808,"of":{"err":"bad"}}`),
				},
				{Attempt: 4, Level: slog.LevelInfo, Message: "second"},
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("the lines (-want +got)\n%s", diff)
			}
			if got := read(t, l, task.ID{1}); len(got) > 0 {
				t.Errorf("a task that never logged has %v", got)
			}
		})
	}
}

func TestWhatWasLoggedIsThereAfterARestart(t *testing.T) {
	dir, id := t.TempDir(), ids(2)
	var want []string
	for round := range 3 {
		l := tasklog.Open(tasklog.Options{Dir: dir})
		for i := range 100 {
			text := fmt.Sprintf("%d of round %d", i, round)
			want = append(want, text)
			say(l, id[0], 1, text)
			say(l, id[1], 1, "another's")
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		say(l, id[0], 1, "after the end")
		if diff := cmp.Diff(want, messages(read(t, l, id[0]))); diff != "" {
			t.Errorf("a closed log (-want +got)\n%s", diff)
		}
	}
	if diff := cmp.Diff(want, messages(read(t, open(t, tasklog.Options{Dir: dir}), id[0]))); diff != "" {
		t.Errorf("the log after restarts (-want +got)\n%s", diff)
	}
	if found := segments(t, dir); len(found) != 1 {
		t.Errorf("three short lives left %d segments", len(found))
	}
}

func segments(t *testing.T, dir string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestAHalfLineThatACrashLeavesIsSkipped(t *testing.T) {
	id := ids(1)[0]
	for cut := range 120 {
		dir := t.TempDir()
		l := tasklog.Open(tasklog.Options{Dir: dir})
		say(l, id, 1, "whole")
		say(l, id, 1, "half")
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		path := segments(t, dir)[0]
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if len(whole) <= 2*cut {
			t.Fatalf("the segment has %d bytes", len(whole))
		}
		if err := os.Truncate(path, int64(len(whole)-cut)); err != nil {
			t.Fatal(err)
		}
		want := []string{"whole", "half"}
		if cut > 1 { // else nothing but the end of the line is lost, which comes back
			want = want[:1]
		}
		l = tasklog.Open(tasklog.Options{Dir: dir})
		r := l.Reader(id, time.Time{}, tasklog.Cursor{})
		if cut != 1 {
			if diff := cmp.Diff(want, messages(lines(t, r))); diff != "" {
				t.Errorf("%d bytes less (-want +got)\n%s", cut, diff)
			}
			want = want[:0]
		}
		say(l, id, 2, "after")
		if diff := cmp.Diff(append(want, "after"), messages(lines(t, r))); diff != "" {
			t.Errorf("%d bytes less, then a line (-want +got)\n%s", cut, diff)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTheOldestSegmentsGoWhenThereIsNoRoom(t *testing.T) {
	dir, id := t.TempDir(), ids(3)
	l := open(t, tasklog.Options{Dir: dir, MaxBytes: tasklog.MinBytes, AttemptLines: 1 << 30, AttemptBytes: 1 << 30})
	say(l, id[0], 1, "the first of all")
	const n = 20_000
	for i := range n {
		say(l, id[1], 1, fmt.Sprint(i))
		if i%1000 == 0 {
			if err := l.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			if size := sizeOf(t, dir); size > tasklog.MinBytes {
				t.Fatalf("after %d lines the folder has %d bytes", i, size)
			}
		}
	}
	got := messages(read(t, l, id[1]))
	if len(got) < n/4 || len(got) == n || got[len(got)-1] != fmt.Sprint(n-1) {
		t.Fatalf("%d lines are left", len(got))
	}
	for i, text := range got {
		if text != fmt.Sprint(n-len(got)+i) {
			t.Fatalf("line %d of %d is %s", i, len(got), text)
		}
	}
	if got := read(t, l, id[0]); len(got) > 0 {
		t.Errorf("the oldest task has %v", got)
	}
	if size := sizeOf(t, dir); size < tasklog.MinBytes*3/4 {
		t.Errorf("the folder has %d bytes of %d", size, tasklog.MinBytes)
	}
}

func sizeOf(t *testing.T, dir string) (sum int64) {
	t.Helper()
	for _, path := range segments(t, dir) {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		sum += info.Size()
	}
	return sum
}

func TestALowerBoundHoldsAfterARestart(t *testing.T) {
	dir, id := t.TempDir(), ids(1)[0]
	l := tasklog.Open(tasklog.Options{Dir: dir, MaxBytes: 4 << 20, AttemptBytes: 1 << 30, AttemptLines: 1 << 30})
	for range 3 << 20 / 1000 {
		say(l, id, 1, strings.Repeat("x", 1000))
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if size := sizeOf(t, dir); size < 3<<20 {
		t.Fatalf("the folder has %d bytes", size)
	}
	l = open(t, tasklog.Options{Dir: dir, MaxBytes: tasklog.MinBytes})
	say(l, id, 2, "the last")
	got := read(t, l, id)
	if size := sizeOf(t, dir); size > tasklog.MinBytes || len(got) < 2 || got[len(got)-1].Message != "the last" {
		t.Errorf("the folder has %d bytes, and the task %d lines", size, len(got))
	}
}

func TestALowerBoundHoldsForASegmentThatIsLargerThanIt(t *testing.T) {
	dir, id := t.TempDir(), ids(1)[0]
	old := filepath.Join(dir, "0000000000000001.jsonl")
	if err := os.WriteFile(old, bytes.Repeat([]byte("{}\n"), tasklog.MinBytes), 0o600); err != nil {
		t.Fatal(err)
	}
	l := open(t, tasklog.Options{Dir: dir, MaxBytes: tasklog.MinBytes})
	say(l, id, 1, "the last")
	if got := messages(read(t, l, id)); len(got) != 1 || sizeOf(t, dir) > tasklog.MinBytes {
		t.Errorf("the log has %q, and the folder %d bytes", got, sizeOf(t, dir))
	}
}

func TestAnAttemptLogsNoMoreThanItsShare(t *testing.T) {
	const full = "the log of this attempt is full: further lines are dropped"
	for name, o := range map[string]tasklog.Options{
		"of lines": {AttemptLines: 10},
		"of bytes": {AttemptBytes: 1410}, // a line has 139 bytes
	} {
		t.Run(name, func(t *testing.T) {
			l, id := open(t, o), ids(1)[0]
			at := time.Date(2026, 11, 21, 23, 0, 0, 1, time.UTC)
			for i := range 35 {
				l.Log(id, 1, slog.NewRecord(at, slog.LevelInfo, fmt.Sprintf("line %02d", i), 0))
			}
			say(l, id, 2, "the next attempt")
			l.Ended(id, 2)
			want := make([]string, 0, 13)
			for i := range 10 {
				want = append(want, fmt.Sprintf("line %02d", i))
			}
			want = append(want, full, "the next attempt")
			r := l.Reader(id, time.Time{}, tasklog.Cursor{})
			if diff := cmp.Diff(want, messages(lines(t, r))); diff != "" {
				t.Errorf("while it runs (-want +got)\n%s", diff)
			}
			l.Ended(id, 1)
			l.Ended(id, 1)
			end := lines(t, r)
			if len(end) != 1 || end[0].Message != "25 lines were dropped" || end[0].Dropped != 25 || end[0].Attempt != 1 {
				t.Errorf("at its end the log has %+v", end)
			}
			say(l, id, 1, "resumed")
			if diff := cmp.Diff([]string{"resumed"}, messages(lines(t, r))); diff != "" {
				t.Errorf("when it is counted anew (-want +got)\n%s", diff)
			}
		})
	}
}

func TestDroppedLinesAreReportedAlsoIfTheEndOfTheAttemptIsNot(t *testing.T) {
	id := ids(40_000)
	l := open(t, tasklog.Options{AttemptLines: 1, MaxBytes: 64 << 20})
	for range 3 {
		say(l, id[0], 1, "much")
	}
	for _, other := range id[1:] { // until the first is forgotten
		say(l, other, 1, "little")
		if len(other)%1000 == 0 {
			if err := l.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	got := read(t, l, id[0])
	if last := got[len(got)-1]; last.Dropped != 2 {
		t.Errorf("an attempt that was forgotten has %+v", got)
	}

	say(l, id[1], 2, "one")
	say(l, id[1], 2, "two")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	got = read(t, l, id[1])
	if last := got[len(got)-1]; last.Dropped != 1 || last.Message != "1 line was dropped" {
		t.Errorf("an attempt that runs when the log is closed has %+v", got)
	}
}

func TestARunIsNotChargedForEarlierRunsOfTheSameAttempt(t *testing.T) {
	l, id := open(t, tasklog.Options{AttemptLines: 10}), ids(1)[0]
	const runs = 5 // as of a task that recurs: each is attempt 1
	for range runs {
		for i := range 4 {
			say(l, id, 1, fmt.Sprint(i))
		}
		l.Ended(id, 1)
	}
	if got := strings.Join(messages(read(t, l, id)), ""); got != strings.Repeat("0123", runs) {
		t.Errorf("the log has %q", got)
	}
}

func TestAnAttemptThatEndsAfterTheLogIsClosedChangesNothing(t *testing.T) {
	l, id := open(t, tasklog.Options{AttemptLines: 1}), ids(1)[0]
	say(l, id, 1, "kept")
	say(l, id, 1, "dropped")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	want := messages(read(t, l, id))
	l.Ended(id, 1)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := l.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, messages(read(t, l, id))); diff != "" {
		t.Errorf("the log (-before +after)\n%s", diff)
	}
}

func TestLongLinesAreCut(t *testing.T) {
	long := func(n int) string { return strings.Repeat("äx", n/3) }
	many := make([]slog.Attr, 5000)
	for i := range many {
		many[i] = slog.Int(fmt.Sprint(i), i)
	}
	for name, c := range map[string]struct {
		message string
		attrs   []slog.Attr
	}{
		"a long message":               {message: long(100_000)},
		"a message that JSON escapes":  {message: strings.Repeat("\x01", 100_000)},
		"a long attribute":             {message: "short", attrs: []slog.Attr{slog.String("a", long(1<<20)), slog.Int("b", 1)}},
		"a long attribute in a group":  {message: "short", attrs: []slog.Attr{slog.Group("g", slog.Any("a", []string{long(1 << 20)})), slog.Int("b", 1)}},
		"a long name":                  {message: "short", attrs: []slog.Attr{slog.Int(long(1<<20), 1), slog.Int("b", 1)}},
		"many attributes":              {message: "short", attrs: many},
		"a value that JSON makes long": {message: "short", attrs: []slog.Attr{slog.Any("a", json.RawMessage(`"`+long(1<<20)+`"`))}},
	} {
		t.Run(name, func(t *testing.T) {
			dir, id := t.TempDir(), ids(1)[0]
			l := open(t, tasklog.Options{Dir: dir})
			say(l, id, 1, c.message, c.attrs...)
			say(l, id, 1, "next")
			got := read(t, l, id)
			if len(got) != 2 || !got[0].Cut || got[1].Cut {
				t.Fatalf("the log has %d lines", len(got))
			}
			if cut, ok := strings.CutSuffix(got[0].Message, "…"); !strings.HasPrefix(c.message, cut) || ok && len(cut) < 1000 {
				t.Errorf("the message is %.100q, %d bytes", got[0].Message, len(got[0].Message))
			}
			if len(c.attrs) == 2 && !bytes.Contains(got[0].Attrs, []byte(`"b":1`)) {
				t.Errorf("the attributes are %.100q", got[0].Attrs)
			}
			text, err := os.ReadFile(segments(t, dir)[0])
			if first := bytes.IndexByte(text, '\n') + 1; err != nil || first > tasklog.MaxLine {
				t.Errorf("the line has %d bytes (%v)", first, err)
			}
		})
	}
}

func TestARecordWithoutASensibleTimeGetsTheOneOfItsLogging(t *testing.T) {
	l, id := open(t, tasklog.Options{}), ids(1)[0]
	for _, at := range []time.Time{{}, time.UnixMicro(-1 << 62), time.UnixMicro(1 << 62)} {
		l.Log(id, 1, slog.NewRecord(at, slog.LevelInfo, "m", 0))
	}
	got := read(t, l, id)
	if len(got) != 3 {
		t.Fatalf("the log has %+v", got)
	}
	for _, line := range got {
		if since := time.Since(line.Time); since < 0 || since > time.Minute {
			t.Errorf("a line is of %v", line.Time)
		}
	}
}

func TestNoLogKeepsNothing(t *testing.T) {
	var l *tasklog.Log
	say(l, task.ID{1}, 1, "m")
	l.Ended(task.ID{1}, 1)
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}
