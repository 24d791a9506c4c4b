package dispatch

import (
	"testing"
	"time"

	"github.com/taskengine/taskengine/plugins/internal/calls"
	"github.com/taskengine/taskengine/plugins/internal/wire"
	"github.com/taskengine/taskengine/task"
)

// readingSession returns a session with a run, which has the id 1.
func readingSession(t *testing.T) (*Core[*peer], *Session[*peer], *Call[*peer]) {
	t.Helper()
	c, q := new(Core[*peer]), new(Queue[*peer])
	s := c.NewSession(nil, q, false, 0)
	c.Add(s)
	s.Connect(&wire.Hello{Slots: 1}, 0, calls.Rights{MayRead: []string{"a"}})
	s.AddCredits(1)
	call, err := newCall[*peer](t.Context(), &task.Task{Type: "t"})
	if err != nil {
		t.Fatal(err)
	}
	call.Reporter = struct{ task.Reporter }{}
	c.Push(q, call)
	if frame := new(wire.ToHandler); c.Fill(s, frame, func(*Call[*peer]) error { return nil }) != Something {
		t.Fatal("the run is not sent")
	}
	return c, s, call
}

func TestAReadIsForwardedWithTheRightsOfItsProgramAndAnswered(t *testing.T) {
	c, s, call := readingSession(t)
	asked := &wire.FromHandler{Reads: []*wire.ReadDocument{{RunId: 1, Number: 1, Key: "a"}, {RunId: 9, Number: 2, Key: "a"}, {RunId: 1, Number: 3, Key: "b"}}}
	if _, reporting := c.Receive(s, asked, time.Now(), nil); len(reporting) != 1 || reporting[0] != call {
		t.Fatalf("%v have reports", reporting)
	}
	next, more := c.NextReports(call)
	if !more || len(next.Reads) != 2 || next.Reads[1].GetKey() != "b" || next.Reads[0].Rights.MayRead[0] != "a" {
		t.Fatalf("the reports are %+v", next)
	}
	c.Read(next.Reads[1], &wire.DocumentRead{RunId: 1, Number: 3, Version: 7})
	frame := new(wire.ToHandler)
	if c.Fill(s, frame, nil) != Something || len(frame.Documents) != 2 {
		t.Fatalf("it sends %v", frame)
	}
	if strange, own := frame.Documents[0], frame.Documents[1]; strange.GetNumber() != 2 || strange.GetError() != errRunOver || own.GetVersion() != 7 {
		t.Errorf("it sends %v", frame)
	}
	if c.Fill(s, frame, nil) != Nothing {
		t.Errorf("it sends %v once more", frame)
	}
}

func TestDocumentsFillFramesUpToTheirSize(t *testing.T) {
	c, s, _ := readingSession(t)
	const n = 2*wire.FrameBytes/task.MaxDocument + 1
	for i := range n {
		s.addRead(&wire.DocumentRead{RunId: 1, Number: uint64(i), Data: make([]byte, task.MaxDocument)})
	}
	frame, seen := new(wire.ToHandler), 0
	for c.Fill(s, frame, nil) == Something {
		if len(frame.Documents) > wire.FrameBytes/task.MaxDocument {
			t.Errorf("a frame has %d documents", len(frame.Documents))
		}
		for _, d := range frame.Documents {
			if d.GetNumber() != uint64(seen) {
				t.Fatalf("number %d is sent after %d", d.GetNumber(), seen)
			}
			seen++
		}
	}
	if seen != n || s.unsent != 0 {
		t.Errorf("%d of %d documents are sent, and %d bytes are left", seen, n, s.unsent)
	}
}

func TestAProgramThatReceivesNothingGetsNoMoreDocuments(t *testing.T) {
	_, s, _ := readingSession(t)
	for range mostUnsent/task.MaxDocument + 100 {
		s.addRead(&wire.DocumentRead{RunId: 1, Data: make([]byte, task.MaxDocument)})
	}
	if last := s.documents[len(s.documents)-1]; last.GetError() != errUnread || last.GetData() != nil || s.unsent > mostUnsent+task.MaxDocument {
		t.Errorf("%d bytes wait, and the last answer is {%.100v}", s.unsent, last)
	}
	s.Disconnect()
	before := len(s.documents)
	s.addRead(&wire.DocumentRead{RunId: 1})
	s.Connect(&wire.Hello{Slots: 1}, 0, calls.Rights{})
	if len(s.documents) != 0 || s.unsent != 0 || before == 0 {
		t.Errorf("%d answers are for the next connection", len(s.documents))
	}
}
