package handler

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/taskengine/taskengine/internal/wakeup"
	"github.com/taskengine/taskengine/plugins/internal/wire"
	"github.com/taskengine/taskengine/task"
)

// A frame that is too large for the host breaks the stream, and with it the process.
func TestHoweverMuchHandlersSayItsFramesStaySmall(t *testing.T) {
	const runs, lines = 600, 3
	long := strings.Repeat("x", wire.MaxErrorBytes)
	record := slog.NewRecord(time.Now(), slog.LevelInfo, long, 0)
	for n := range 1000 {
		record.AddAttrs(slog.String(fmt.Sprint("field ", n), long))
	}
	s := &session{
		terms:   &terms{features: map[string]bool{"progress": true, "checkpoint": true}},
		running: make(map[uint64]*run), wake: wakeup.New(),
	}
	for n := range uint64(runs) {
		r := newRun(&wire.Run{RunId: n + 1}, nil, s)
		s.running[r.id] = r
		r.Progress(task.Progress{Done: 1, Message: long})
		for range lines {
			r.Log(record)
		}
		if _, err := r.save(make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
	}
	h := &host{finishes: make(map[uint64]*wire.Finish)}
	if err := sendReports(h, s.takeReports(nil)); err != nil {
		t.Fatal(err)
	}
	said := new(wire.FromHandler)
	for _, f := range h.frames {
		n := len(f.GetLogs()) + len(f.GetProgress()) + len(f.GetCheckpoints())
		if size := proto.Size(f); n == 0 || n > wire.FrameMessages || size > wire.FrameBytes+wire.FrameBytes/8 {
			t.Errorf("there is a frame of %d messages and %d bytes", n, size)
		}
		proto.Merge(said, f)
	}
	if len(said.GetLogs()) != runs*lines || len(said.GetProgress()) != runs || len(said.GetCheckpoints()) != runs {
		t.Errorf("%d lines, %d reports and %d checkpoints came of %d runs",
			len(said.GetLogs()), len(said.GetProgress()), len(said.GetCheckpoints()), runs)
	}
}
