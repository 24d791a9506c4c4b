package handler

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"google.golang.org/grpc"

	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/plugins/internal/wire"
)

// says is what the handler of a run has said and nobody has sent yet: of progress and
// checkpoints only the newest.
type says struct {
	progress   *wire.Progress
	checkpoint *wire.Checkpoint
	lines      []*wire.LogLine
	dropped    int // lines that were too many
}

// maxLines is how many lines of a run may wait to be sent.
const maxLines = 1000

var _ task.Reporter = (*run)(nil)

// Progress implements [task.Reporter].
func (r *run) Progress(p task.Progress) {
	r.say("progress", func(s *says) {
		s.progress = &wire.Progress{RunId: r.id, Done: p.Done, Total: p.Total, Message: text(p.Message)}
	})
}

// Checkpoint implements [task.Reporter]: the host keeps the checkpoint before it takes
// the answer of the attempt.
func (r *run) Checkpoint(data []byte) error {
	if len(data) > task.MaxCheckpoint {
		return fmt.Errorf("the checkpoint has %d bytes, of %d allowed", len(data), task.MaxCheckpoint)
	}
	if !r.shift.features["checkpoint"] {
		return errors.New("the host keeps no checkpoints")
	}
	r.say("checkpoint", func(s *says) {
		s.checkpoint = &wire.Checkpoint{RunId: r.id, Data: append([]byte{}, data...)}
	})
	return nil
}

// Log implements [task.Reporter].
func (r *run) Log(record slog.Record) {
	line := &wire.LogLine{
		RunId: r.id, Level: int32(record.Level), Message: text(record.Message), Time: record.Time.UnixMicro(), Fields: map[string]string{},
	}
	record.Attrs(func(a slog.Attr) bool { flatten(line.Fields, "", a); return true })
	r.say("", func(s *says) {
		if len(s.lines) == maxLines {
			s.dropped++
			return
		}
		s.lines = append(s.lines, line)
	})
}

// flatten adds an attribute to fields, those of a group with its name and a dot before.
func flatten(fields map[string]string, prefix string, a slog.Attr) {
	v := a.Value.Resolve()
	if v.Kind() != slog.KindGroup {
		fields[text(prefix+a.Key)] = text(v.String())
		return
	}
	if a.Key != "" {
		prefix += a.Key + "."
	}
	for _, inner := range v.Group() {
		flatten(fields, prefix, inner)
	}
}

// say changes what r has to say and has it sent, if the host serves the feature and the
// run is not answered.
func (r *run) say(feature string, add func(*says)) {
	s := r.shift
	if feature != "" && !s.features[feature] {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running[r.id] != r {
		return
	}
	if r.says.empty() {
		s.talking = append(s.talking, r)
	}
	add(&r.says)
	s.notify()
}

func (s *says) empty() bool { return s.progress == nil && s.checkpoint == nil && len(s.lines) == 0 }

// hear takes what runs have said and appends it to said. It is called with mu held.
func (s *shift) hear(said []says) []says {
	for i, r := range s.talking {
		if n := r.says.dropped; n > 0 {
			r.says.lines = append(r.says.lines, &wire.LogLine{
				RunId: r.id, Level: int32(slog.LevelWarn), Message: fmt.Sprintf("%d lines were dropped", n), Time: time.Now().UnixMicro(),
			})
		}
		said = append(said, r.says)
		r.says = says{}
		s.talking[i] = nil
	}
	s.talking = s.talking[:0]
	return said
}

// relay sends what runs have said.
func relay(stream grpc.BidiStreamingServer[wire.ToHandler, wire.FromHandler], said []says) error {
	frame, size := new(wire.FromHandler), 0
	for i, s := range said {
		if s.progress != nil {
			frame.Progress = append(frame.Progress, s.progress)
		}
		if s.checkpoint != nil {
			frame.Checkpoints = append(frame.Checkpoints, s.checkpoint)
		}
		frame.Logs = append(frame.Logs, s.lines...)
		size += 64 + len(s.checkpoint.GetData())
		for _, l := range s.lines {
			size += 128 + len(l.GetMessage())
		}
		if size < wire.FrameBytes && i < len(said)-1 {
			continue
		}
		if err := stream.Send(frame); err != nil {
			return err
		}
		frame, size = new(wire.FromHandler), 0
	}
	return nil
}

// features returns those that the host serves.
func features(w *wire.Welcome) map[string]bool {
	out := make(map[string]bool)
	for _, f := range w.GetFeatures() {
		out[f] = true
	}
	return out
}
