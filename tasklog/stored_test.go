package tasklog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taskengine/taskengine/codec"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
	"github.com/taskengine/taskengine/tasklog"
)

// stubborn is a store that refuses the calls that refuse says, or does them without an answer.
type stubborn struct {
	*memory.Store
	mu      sync.Mutex
	refused int // guarded by mu: how many calls
	refuse  func(call int) (before, after error)
}

func (s *stubborn) AppendLogs(ctx context.Context, most int64, pieces ...storage.LogPiece) error {
	s.mu.Lock()
	before, after := s.refuse(s.refused)
	s.refused++
	s.mu.Unlock()
	if before != nil {
		return before
	}
	return errors.Join(s.Store.AppendLogs(ctx, most, pieces...), after)
}

func TestLinesInAStoreAreReadByEveryNode(t *testing.T) {
	s, id := memory.New(), ids(2)
	one := open(t, tasklog.Options{Store: tasklog.InStore(s, tasklog.StoreOptions{Node: "n1"})})
	two := open(t, tasklog.Options{Store: tasklog.InStore(s, tasklog.StoreOptions{Node: "n2"})})
	say(one, id[0], 1, "first", slog.String("a", "b"))
	say(one, id[1], 1, "another's")
	if got := read(t, one, id[0]); len(got) != 1 || got[0].Node != "n1" || string(got[0].Attrs) != `{"a":"b"}` || got[0].Attempt != 1 {
		t.Fatalf("the lines are %+v", got)
	}
	r := two.Reader(id[0], time.Time{}, tasklog.Cursor{})
	lines(t, r)
	for i := range 20 {
		say(two, id[0], 2, fmt.Sprint(i))
	}
	got := lines(t, r)
	if len(got) != 20 || got[19].Message != "19" || got[19].Node != "n2" || got[19].Attempt != 2 {
		t.Fatalf("behind the cursor there are %v", messages(got))
	}
	if all := read(t, one, id[0]); len(all) != 21 {
		t.Fatalf("there are %v", messages(all))
	}
}

func TestReadersOfAStoreGoOnFromACursorWithinAPiece(t *testing.T) {
	s, id := memory.New(), ids(1)[0]
	l := open(t, tasklog.Options{Store: tasklog.InStore(s, tasklog.StoreOptions{})})
	var want, got []string
	for i := range 30 {
		say(l, id, 1, fmt.Sprint(i))
		want = append(want, fmt.Sprint(i))
		if i%7 == 0 {
			if err := l.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	cursor := ""
	for range 31 {
		at, err := tasklog.ParseCursor(cursor)
		if err != nil {
			t.Fatal(err)
		}
		r := l.Reader(id, time.Time{}, at)
		for line, err := range r.Lines(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, line.Message)
			break
		}
		cursor = r.Cursor().String()
	}
	if strings.Join(got, ",") != strings.Join(want, ",") {
		t.Fatalf("line by line there are %v", got)
	}
}

func TestACallWithoutAnAnswerDoublesNoLine(t *testing.T) {
	lost := errors.New("the answer is lost")
	s := &stubborn{Store: memory.New(), refuse: func(call int) (before, after error) {
		switch call {
		case 0:
			return nil, lost
		case 1:
			return lost, nil
		}
		return nil, nil
	}}
	var said bytes.Buffer
	l := open(t, tasklog.Options{Store: tasklog.InStore(s, tasklog.StoreOptions{}), Log: slog.New(slog.NewTextHandler(&said, nil))})
	id := ids(1)[0]
	say(l, id, 1, "once")
	if got := read(t, l, id); len(got) != 1 || said.Len() > 0 {
		t.Fatalf("the lines are %v, and the log says %s", messages(got), said.String())
	}
}

func TestAStoreThatFailsCostsNoWaitAndLinesAreCountedWhenTheLogIsClosed(t *testing.T) {
	failing := errors.New("the store is away")
	s := &stubborn{Store: memory.New(), refuse: func(int) (before, after error) { return failing, nil }}
	l := tasklog.Open(tasklog.Options{Store: tasklog.InStore(s, tasklog.StoreOptions{})})
	id := ids(1)[0]
	for i := range 3 {
		say(l, id, 1, fmt.Sprint(i)) // does not wait
	}
	if err := l.Close(); !errors.Is(err, failing) || !strings.Contains(err.Error(), "3 lines") {
		t.Fatalf("closing the log gives %v", err)
	}
}

func TestLinesInAStoreAreEncodedForTheirTask(t *testing.T) {
	key := bytes.Repeat([]byte{7}, codec.KeySize)
	keyed, err := codec.New(codec.Config{Key: "k", Keys: map[string][]byte{"k": key}})
	if err != nil {
		t.Fatal(err)
	}
	s, id := memory.New(), ids(2)
	l := open(t, tasklog.Options{Store: tasklog.InStore(s, tasklog.StoreOptions{Codec: keyed})})
	say(l, id[0], 1, "a secret")
	if got := read(t, l, id[0]); len(got) != 1 || got[0].Message != "a secret" {
		t.Fatalf("the lines are %v", messages(got))
	}
	pieces, _, err := s.ReadLog(t.Context(), id[0], 0, 1<<20)
	if err != nil || len(pieces) != 1 || bytes.Contains(pieces[0].Data, []byte("secret")) {
		t.Fatalf("the store has %v (%v)", pieces, err)
	}
	pieces[0].Task = id[1] // it is not of that task
	if err := s.AppendLogs(t.Context(), 1<<20, pieces...); err != nil {
		t.Fatal(err)
	}
	if got := read(t, l, id[1]); len(got) != 1 || got[0].Level != slog.LevelWarn || !strings.Contains(got[0].Message, "cannot be read") {
		t.Fatalf("the lines are %+v", got)
	}
}

func TestAStoreKeepsTheNewestLinesOfATask(t *testing.T) {
	s, id := memory.New(), ids(1)[0]
	l := open(t, tasklog.Options{Store: tasklog.InStore(s, tasklog.StoreOptions{TaskBytes: 2000})})
	for i := range 50 {
		say(l, id, uint32(1+i), fmt.Sprintf("%02d %s", i, strings.Repeat("x", 50)))
		if err := l.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	got := read(t, l, id)
	if n := len(got); n < 5 || n > 20 || !strings.HasPrefix(got[n-1].Message, "49") {
		t.Fatalf("there are %d lines: %v", len(got), messages(got))
	}
}

// BenchmarkStored measures a line of a task, with the stores in memory alone: what the goroutine of a handler and the writer do.
func BenchmarkStored(b *testing.B) {
	for name, o := range map[string]tasklog.Options{
		"files": {Dir: b.TempDir()}, "store": {Store: tasklog.InStore(memory.New(), tasklog.StoreOptions{})},
	} {
		b.Run(name, func(b *testing.B) {
			o.AttemptLines, o.AttemptBytes = 1<<30, 1<<40
			l := tasklog.Open(o)
			defer l.Close()
			source, at := task.NewIDs([32]byte{1}), time.Now()
			r := slog.NewRecord(at, slog.LevelInfo, "the page was fetched", 0)
			r.AddAttrs(slog.String("url", "https://example.com/a/b"), slog.Int("bytes", 12345))
			id, n := source.Next(at), 0
			for b.Loop() {
				if n++; n%10 == 0 {
					l.Ended(id, 1)
					id = source.Next(at)
				}
				l.Log(id, 1, r)
			}
			if err := l.Flush(context.Background()); err != nil {
				b.Fatal(err)
			}
		})
	}
}
