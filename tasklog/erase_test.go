package tasklog

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/taskengine/taskengine/task"
)

const secret = "anna.secret"

// contents returns all bytes of a log.
func contents(t *testing.T, l *Log) (all []byte) {
	t.Helper()
	if d, ok := l.shelf.disk.(*memory); ok {
		for _, f := range d.files {
			all = append(all, f.data...)
		}
		return all
	}
	files, err := filepath.Glob(filepath.Join(string(l.shelf.disk.(folder)), "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, data...)
	}
	return all
}

func messages(t *testing.T, r *Reader) (all []string) {
	t.Helper()
	for line, err := range r.Lines(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, line.Message)
	}
	return all
}

func TestLinesOfErasedTasksAreGoneAndOthersStay(t *testing.T) {
	for name, dir := range map[string]string{"disk": t.TempDir(), "memory": ""} {
		t.Run(name, func(t *testing.T) {
			l := Open(Options{Dir: dir, MaxBytes: MinBytes})
			defer l.Close()
			ids := task.NewIDs([32]byte{1})
			gone, kept := ids.Next(time.Now()), ids.Next(time.Now())
			say := func(id task.ID, text string) { l.Log(id, 1, slog.NewRecord(time.Now(), slog.LevelInfo, text, 0)) }
			const lines = 2000 // several segments
			reader := l.Reader(kept, time.Time{}, Cursor{})
			for range lines {
				say(gone, "the address is "+secret)
				say(kept, "hello")
			}
			if got := messages(t, reader); len(got) != lines {
				t.Fatalf("the log has %d lines of the other task", len(got))
			}
			if !bytes.Contains(contents(t, l), []byte(secret)) {
				t.Fatal("the search does not find the secret")
			}
			asked := 0
			n, err := l.Erase(t.Context(), func(_ context.Context, some []task.ID) ([]task.ID, error) {
				asked += len(some)
				return slices.DeleteFunc(slices.Clone(some), func(id task.ID) bool { return id != gone }), nil
			})
			if err != nil || n != lines || asked < 2 {
				t.Fatalf("%d lines are erased, of %d, of %d tasks: %v", n, lines, asked, err)
			}
			if bytes.Contains(contents(t, l), []byte(secret)) {
				t.Error("the log has the secret")
			}
			if got := messages(t, l.Reader(gone, time.Time{}, Cursor{})); len(got) != 0 {
				t.Errorf("the log has %d lines of the erased task", len(got))
			}
			if got := messages(t, l.Reader(kept, time.Time{}, Cursor{})); len(got) != lines {
				t.Errorf("the log has %d lines of the other task", len(got))
			}
			say(kept, "again") // a reader goes on from where it was
			if got := messages(t, reader); !slices.Equal(got, []string{"again"}) {
				t.Errorf("the reader goes on with %q", got)
			}
			if n, err := l.Erase(t.Context(), func(_ context.Context, some []task.ID) ([]task.ID, error) { return nil, nil }); n != 0 || err != nil {
				t.Errorf("erased %d, %v", n, err)
			}
		})
	}
}
