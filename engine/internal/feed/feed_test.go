package feed_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine/internal/feed"
	"github.com/taskengine/taskengine/task"
)

var begin = time.Date(2026, 11, 29, 3, 0, 0, 0, time.UTC)

func at(second int) time.Time { return begin.Add(time.Duration(second) * time.Second) }

func row(key string) *task.Task { return &task.Task{Key: key, Payload: []byte("p")} }

func keys(p feed.Page) (text string) {
	if p.Gap != nil {
		text = "gap "
	}
	for _, e := range p.Events {
		text += e.Task.Key
	}
	return text
}

func expect(t *testing.T, p feed.Page, want string) feed.Cursor {
	t.Helper()
	if got := keys(p); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if p.Next.At.IsZero() {
		t.Error("the cursor has no time")
	}
	c, err := feed.ParseCursor(p.Next.String())
	if err != nil || c != p.Next {
		t.Errorf("the cursor %v is %v, %v", p.Next, c, err)
	}
	return c
}

func TestAReaderGetsTheEventsBehindItsCursor(t *testing.T) {
	f := feed.New(task.ID{1})
	f.Add(at(0), row("-")) // nobody reads
	c := expect(t, f.Read(at(1), feed.Cursor{}, 10), "")
	p := f.Read(at(1), c, 10)
	for _, k := range "abcd" {
		f.Add(at(2), row(string(k)))
	}
	select {
	case <-p.More:
	default:
		t.Error("the reader was not woken")
	}
	p = f.Read(at(3), c, 3)
	if p.More != nil || !p.Next.At.Equal(at(2)) || p.Events[0].Task.Payload != nil {
		t.Errorf("a part is %+v", p)
	}
	c = expect(t, p, "abc")
	expect(t, f.Read(at(3), c, 3), "d")
	if again := expect(t, f.Read(at(3), p.Events[0].Next, 1), "b"); again == c {
		t.Error("the cursor of an event is not behind it")
	}
}

func TestWhatIsMissingIsAGap(t *testing.T) {
	f := feed.New(task.ID{1})
	c := expect(t, f.Read(at(0), feed.Cursor{}, 10), "")
	for i := range feed.MaxEvents + 3 {
		f.Add(at(min(i, 3)), row("x"))
	}
	p := f.Read(at(100), c, 2)
	if expect(t, p, "gap xx"); !p.Gap.From.Equal(at(0)) || !p.Gap.Until.Equal(at(3)) {
		t.Errorf("a slow reader: %+v", p.Gap)
	}
	f.Add(at(500), row("y")) // nobody reads any more
	f.Add(at(501), row("z"))
	if f.IsOn() {
		t.Error("events are kept for nobody")
	}
	c = expect(t, f.Read(at(600), p.Next, 10), "gap ")
	expect(t, f.Read(at(601), c, 10), "")

	other := feed.New(task.ID{2})
	if p := other.Read(at(5), c, 10); p.Gap == nil || !p.Gap.From.Equal(c.At) || !strings.Contains(p.Gap.Text, "restart") {
		t.Errorf("after a restart: %+v", p)
	}
	if p := f.Read(at(602), feed.Cursor{At: at(1)}, 10); p.Gap == nil || !p.Gap.From.Equal(at(1)) {
		t.Errorf("from a time: %+v", p)
	}
	if p := f.Read(at(603), feed.Cursor{Feed: task.ID{1}, Seq: 1 << 60, At: at(7)}, 10); p.Gap == nil {
		t.Error("a cursor behind the end is no gap")
	}
}

// A cluster has a cursor without a number for a node that has not answered yet.
func TestACursorWithoutANumberIsATime(t *testing.T) {
	f := feed.New(task.ID{1})
	f.Read(at(1), feed.Cursor{}, 10)
	f.Add(at(2), row("a"))
	p := f.Read(at(3), feed.Cursor{Feed: task.ID{1}, At: at(0)}, 10)
	expect(t, p, "gap ")
	if !p.Gap.From.Equal(at(0)) || !p.Gap.Until.Equal(at(3)) {
		t.Errorf("the gap is %+v", p.Gap)
	}
}

func TestACommitWithoutAnAnswerIsAGapAtItsPlace(t *testing.T) {
	f := feed.New(task.ID{1})
	c := expect(t, f.Read(at(0), feed.Cursor{}, 10), "")
	f.Add(at(1), row("a"))
	f.Lose(at(2), errors.New("gone"))
	f.Lose(at(3), errors.New("gone"))
	f.Add(at(4), row("b"))
	for _, want := range []string{"a", "gap ", "gap b"} {
		c = expect(t, f.Read(at(5), c, 10), want)
	}
}

func TestOtherTextsAreNoCursor(t *testing.T) {
	for _, text := range []string{"x", "1.2", "1.2.3", fmt.Sprintf("%v.-1.3", task.ID{1}), fmt.Sprintf("%v.1.x", task.ID{1}), "2026-11-29"} {
		if c, err := feed.ParseCursor(text); err == nil {
			t.Errorf("%q is %v", text, c)
		}
	}
	if c, err := feed.ParseCursor("2026-11-29T03:00:00Z"); err != nil || !c.At.Equal(begin) || !c.Feed.IsZero() {
		t.Errorf("a time is %v, %v", c, err)
	}
}
