package tasklog

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/taskengine/taskengine/task"
)

// faulty is a disk that can be broken, counts its requests, and can be made to
// wait.
type faulty struct {
	disk
	broken atomic.Bool
	part   atomic.Int64 // bytes that a write makes before it fails
	writes atomic.Int64
	opens  atomic.Int64
	stop   atomic.Pointer[chan struct{}] // writes wait until it is closed
}

var errBroken = errors.New("the disk is broken")

func (d *faulty) append(number int64) (file, error) {
	f, err := d.disk.append(number)
	return &faultyFile{f, d}, err
}

func (d *faulty) open(number int64) (file, error) {
	d.opens.Add(1)
	return d.disk.open(number)
}

type faultyFile struct {
	file
	disk *faulty
}

func (f *faultyFile) Write(p []byte) (int, error) {
	f.disk.writes.Add(1)
	if stop := f.disk.stop.Load(); stop != nil {
		<-*stop
	}
	if f.disk.broken.Load() {
		n, _ := f.file.Write(p[:min(len(p), int(f.disk.part.Load()))])
		return n, errBroken
	}
	return f.file.Write(p)
}

func info(message string) slog.Record { return slog.NewRecord(time.Now(), slog.LevelInfo, message, 0) }

func read(t *testing.T, l *Log, id task.ID) []string {
	t.Helper()
	var all []string
	for line, err := range l.Reader(id, time.Time{}, Cursor{}).Lines(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, line.Message)
	}
	return all
}

func TestADiskThatFailsCostsLinesAndIsTriedAgain(t *testing.T) {
	for _, part := range []int64{0, 1, 150, 1 << 20} {
		synctest.Test(t, func(t *testing.T) {
			d := &faulty{disk: newMemory()}
			d.part.Store(part)
			var said bytes.Buffer
			l := open(Options{Log: slog.New(slog.NewTextHandler(&said, nil))}, d, MinBytes)
			id := task.ID{1}
			log := func(message string) {
				l.Log(id, 1, info(message))
				time.Sleep(2 * flushEvery)
			}
			log("before")
			d.broken.Store(true)
			for i := range 10 {
				log(fmt.Sprintf("lost %d", i))
			}
			if n := strings.Count(said.String(), "level=WARN"); n != 1 || !strings.Contains(said.String(), errBroken.Error()) {
				t.Errorf("it was reported %d times: %s", n, &said)
			}
			tried := d.writes.Load()
			time.Sleep(2 * retryAfter)
			if d.writes.Load() != tried {
				t.Error("the disk is tried when there is nothing to write")
			}
			log("lost again")
			d.broken.Store(false)
			log("not tried yet")
			time.Sleep(retryAfter)
			log("after")
			if got, want := fmt.Sprint(read(t, l, id)), "[before after]"; got != want {
				t.Errorf("with %d bytes written the log has %s, want %s", part, got, want)
			}
			if !strings.Contains(said.String(), "written again\" lines_lost=12") {
				t.Errorf("it says %s", &said)
			}
			d.broken.Store(true)
			l.Log(id, 1, info("the last"))
			if err := l.Close(); !errors.Is(err, errBroken) || !strings.HasPrefix(err.Error(), "1 lines") {
				t.Errorf("closing the log returns %v", err)
			}
		})
	}
}

func TestAFolderThatCannotBeMadeCostsLinesOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	l := Open(Options{Dir: filepath.Join(path, "logs"), Log: slog.New(slog.NewTextHandler(&said, nil))})
	for range 3 {
		l.Log(task.ID{1}, 1, info("m"))
		if err := l.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err == nil || strings.Count(said.String(), "level=WARN") != 1 {
		t.Errorf("closing the log returns %v, and it says %s", err, &said)
	}
}

func TestLoggingDoesNotWaitForTheDisk(t *testing.T) {
	d := &faulty{disk: newMemory()}
	stop := make(chan struct{})
	d.stop.Store(&stop)
	l := open(Options{AttemptBytes: 1 << 30, AttemptLines: 1 << 30}, d, 64<<20)
	defer l.Close()
	const n = 3 * bufferBytes / 1000
	text := strings.Repeat("x", 1000)
	for range n { // would be here for ever
		l.Log(task.ID{1}, 1, info(text))
	}
	close(stop)
	if err := l.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.Log(task.ID{1}, 1, info("when there is room again"))
	got, dropped := 0, 0
	for line, err := range l.Reader(task.ID{1}, time.Time{}, Cursor{}).Lines(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if line.Dropped == 0 {
			got++
		}
		if dropped += line.Dropped; line.Dropped > 0 && got < n/4 {
			t.Errorf("only %d lines are before the gap", got)
		}
	}
	if got+dropped != n+1 || dropped == 0 {
		t.Errorf("%d lines are there and %d are said to be dropped, of %d", got, dropped, n+1)
	}
}

func TestWhatWaitsForADiskThatHangsIsBounded(t *testing.T) {
	d := &faulty{disk: newMemory()}
	stop := make(chan struct{})
	d.stop.Store(&stop)
	l := open(Options{}, d, 64<<20)
	defer l.Close()
	const n = 100_000
	at := func(i int) task.ID { return task.ID{byte(i), byte(i >> 8), byte(i >> 16), 1} }
	text := strings.Repeat("x", 1000)
	for i := range n { // each of them ends with a line dropped
		l.Log(at(i), 1, info(text))
		l.Ended(at(i), 1)
	}
	l.mu.Lock()
	waiting := len(l.buffer)
	l.mu.Unlock()
	if waiting > 2*bufferBytes {
		t.Errorf("%d bytes wait to be written", waiting)
	}
	close(stop)
	if err := l.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.Log(at(n), 1, info("when there is room again"))
	if got := read(t, l, at(n)); len(got) != 1 {
		t.Errorf("the log has %q", got)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if kept := len(l.tallies.recent) + len(l.tallies.older); kept > 2*generation {
		t.Errorf("%d attempts are counted", kept)
	}
}

func TestNothingIsWrittenWhileNothingIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &faulty{disk: newMemory()}
		l := open(Options{}, d, MinBytes)
		defer l.Close()
		time.Sleep(time.Hour)
		if n := d.writes.Load(); n != 0 {
			t.Errorf("there were %d writes", n)
		}
		for range 3 {
			l.Log(task.ID{1}, 1, info("m"))
		}
		time.Sleep(flushEvery + 1)
		synctest.Wait()
		if n := d.writes.Load(); n != 1 {
			t.Errorf("after three lines there were %d writes", n)
		}
		time.Sleep(time.Hour)
		if n := d.writes.Load(); n != 1 {
			t.Errorf("an hour later there were %d writes", n)
		}
	})
}

func TestTheSegmentsOfOtherTasksAreReadOnceAtMost(t *testing.T) {
	dir, id := folder(t.TempDir()), task.ID{0xff}
	l := open(Options{AttemptLines: 1 << 30}, dir, MinBytes)
	for i := range 3000 {
		l.Log(task.ID{byte(i), byte(i >> 8), 1}, 1, info("m"))
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = open(Options{}, dir, MinBytes)
	defer l.Close()
	l.Log(id, 1, info("own"))
	for range 2 {
		if got := read(t, l, id); len(got) != 1 {
			t.Fatalf("the log has %v", got)
		}
	}
	may, all := 0, 0
	l.shelf.mu.Lock()
	defer l.shelf.mu.Unlock()
	for _, seg := range l.shelf.segments {
		if seg.indexed != seg.size {
			t.Errorf("of segment %d, %d of %d bytes are indexed", seg.number, seg.indexed, seg.size)
		}
		all++
		if seg.filter.mayHave(id) {
			may++
		}
	}
	if all < 4 || may > 2 { // that with the line, and one by mistake
		t.Errorf("the lines may be in %d of %d segments", may, all)
	}
}

func TestAFilterHasWhatWasAddedToIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newShelf(newMemory(), MinBytes)
		one, two := newFilter(s.maxSegment, s.seed), newFilter(s.maxSegment, s.seed)
		ids := rapid.SliceOf(rapid.Custom(func(t *rapid.T) (id task.ID) {
			copy(id[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
			return id
		})).Draw(t, "ids")
		for i, id := range ids {
			if i%2 == 0 {
				one.add(id)
			} else {
				two.add(id)
			}
		}
		one.join(two)
		for _, id := range ids {
			if !one.mayHave(id) {
				t.Fatalf("%v is not there", id)
			}
		}
	})
}

func TestAFilterIsSeldomWrong(t *testing.T) {
	const n = maxSegment / 150
	s := newShelf(newMemory(), segmentShare*maxSegment)
	f := newFilter(s.maxSegment, s.seed)
	ids := task.NewIDs([32]byte{1})
	for range n {
		f.add(ids.Next(time.Now()))
	}
	wrong := 0
	for range n {
		if f.mayHave(ids.Next(time.Now())) {
			wrong++
		}
	}
	if wrong > n/50 {
		t.Errorf("it is wrong about %d of %d", wrong, n)
	}
}

func FuzzSegmentsHoldAnything(f *testing.F) {
	id := task.ID{1}
	f.Add([]byte(`{"task":"`+id.String()+`","attempt":1,"log":{"time":"2026-01-01T00:00:00Z","level":"INFO","msg":"m"}}`+"\n"), int64(0))
	f.Add([]byte("\n\n{\"task\":\"01000000-0000-0000-0000-000000000000\""), int64(3))
	f.Add(bytes.Repeat([]byte("x"), 5*MaxLine), int64(-1))
	f.Fuzz(func(t *testing.T, content []byte, offset int64) {
		d := newMemory()
		segment, _ := d.append(1)
		segment.Write(content)
		l := open(Options{}, listing{d, []entry{{number: 1, size: int64(len(content))}}}, MinBytes)
		defer l.Close()
		for line, err := range l.Reader(id, time.Time{}, Cursor{1, max(0, offset)}).Lines(t.Context()) {
			if err != nil || line.Time.IsZero() {
				t.Errorf("it returns %v, %v", line, err)
			}
		}
		l.Log(id, 7, info("after that"))
		got := read(t, l, id)
		if len(got) == 0 || got[len(got)-1] != "after that" {
			t.Errorf("the log has %q", got)
		}
	})
}

// listing is a memory that had segments before.
type listing struct {
	*memory
	entries []entry
}

func (l listing) list() ([]entry, error) { return l.entries, nil }

// BenchmarkRead reads the log of one task out of 64 MiB: the first time after a start, when
// every segment is looked at, and then.
func BenchmarkRead(b *testing.B) {
	dir, ids := b.TempDir(), task.NewIDs([32]byte{1})
	l, own := Open(Options{Dir: dir}), ids.Next(time.Now())
	for i := range 64 << 20 / 150 {
		if i%100_000 == 0 {
			l.Log(own, 1, info("own"))
		}
		l.Log(ids.Next(time.Now()), 1, info("half way through the pages"))
		if i%10_000 == 0 {
			if err := l.Flush(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	}
	if err := l.Close(); err != nil {
		b.Fatal(err)
	}
	for _, first := range []bool{true, false} {
		b.Run(map[bool]string{true: "first", false: "again"}[first], func(b *testing.B) {
			l := Open(Options{Dir: dir})
			defer func() { l.Close() }()
			for b.Loop() {
				if first {
					l.Close()
					l = Open(Options{Dir: dir})
				}
				n := 0
				for _, err := range l.Reader(own, time.Time{}, Cursor{}).Lines(b.Context()) {
					if err != nil {
						b.Fatal(err)
					}
					n++
				}
				if n != 5 {
					b.Fatalf("there are %d lines", n)
				}
			}
		})
	}
}

func BenchmarkLog(b *testing.B) {
	for name, dir := range map[string]string{"folder": b.TempDir(), "memory": ""} {
		b.Run(name, func(b *testing.B) {
			l := Open(Options{Dir: dir, AttemptLines: 1 << 40, AttemptBytes: 1 << 40})
			defer l.Close()
			r := info("half way through the pages")
			r.AddAttrs(slog.Int("page", 17), slog.String("partner", "acme"))
			id := task.NewIDs([32]byte{1}).Next(time.Now())
			b.ReportAllocs()
			for b.Loop() {
				l.Log(id, 1, r)
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			b.ReportMetric(100*float64(l.tallies.find(key{id, 1}).lines)/float64(b.N), "%kept")
		})
	}
}
