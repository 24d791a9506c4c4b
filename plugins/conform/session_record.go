package conform

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"github.com/taskengine/taskengine/plugins/internal/wire"
)

// runReport is a message about a run other than its finish. One of log, progress and checkpoint is set.
type runReport struct {
	late       bool // it came after the finish
	log        *wire.LogLine
	progress   *wire.Progress
	checkpoint *wire.Checkpoint
}

func (r runReport) run() uint64 {
	return max(r.log.GetRunId(), r.progress.GetRunId(), r.checkpoint.GetRunId())
}

// storedOf returns the answers of a host that has stored the checkpoints in a frame.
func storedOf(f *wire.FromHandler) (out []*wire.Stored) {
	for _, k := range f.GetCheckpoints() {
		if k.GetNumber() != 0 {
			out = append(out, &wire.Stored{RunId: k.GetRunId(), Number: k.GetNumber()})
		}
	}
	return out
}

// isEnd reports whether no line can follow in a stream of lines.
func isEnd(err error) bool {
	var file *fs.PathError
	return errors.Is(err, io.EOF) || errors.Is(err, wire.ErrLongLine) || errors.As(err, &file)
}

// record records a frame. mu must be held.
func (s *session) record(f *wire.FromHandler) {
	if s.first == nil {
		s.first = f
	} else if f.GetHello() != nil {
		s.recordOddity("a hello after the first frame")
	}
	for _, l := range f.GetLogs() {
		s.recordReport(runReport{log: l})
	}
	for _, p := range f.GetProgress() {
		s.recordReport(runReport{progress: p})
	}
	for _, c := range f.GetCheckpoints() {
		s.recordReport(runReport{checkpoint: c})
	}
	for _, k := range f.GetChecks() {
		s.recordQuestion("a check", k)
	}
	for _, k := range f.GetReads() {
		s.recordQuestion("a read of a document", k)
	}
	s.leaving = s.leaving || f.GetLeaving()
	for _, fin := range f.GetFinishes() { // the other messages of the frame count as before them
		if s.node != nil && fin.GetEarlier() != nil {
			s.earlier = append(s.earlier, fin)
			continue
		}
		if s.runs[fin.GetRunId()] == nil {
			s.recordOddity(fmt.Sprintf("a finish of run %d, which it was not given", fin.GetRunId()))
		} else if len(s.finishes[fin.GetRunId()]) > 0 {
			s.recordOddity(fmt.Sprintf("another finish of run %d", fin.GetRunId()))
		}
		s.finishes[fin.GetRunId()] = append(s.finishes[fin.GetRunId()], fin)
	}
	if n := f.GetPong(); n != 0 {
		if !s.asked[n] {
			s.recordOddity(fmt.Sprintf("a pong with %d, without such a ping", n))
		}
		s.pongs[n] = true
	}
	s.credits += int(f.GetCredits())
	if slots := s.slots(); s.credits > slots+len(s.finishes)+len(s.earlier) && s.tooMany == "" {
		s.tooMany = fmt.Sprintf("it has %d slots and had given %d credits when %d runs were answered", slots, s.credits, len(s.finishes))
	}
}

func (s *session) recordReport(r runReport) {
	const most = 10_000
	if id := r.run(); id != 0 && s.runs[id] == nil {
		s.recordOddity(fmt.Sprintf("a log line, progress or checkpoint of run %d, which it was not given", id))
	}
	r.late = len(s.finishes[r.run()]) > 0
	if len(s.reports) < most {
		s.reports = append(s.reports, r)
	}
}

func (s *session) recordQuestion(what string, k question) {
	const most = 200
	if s.runs[k.GetRunId()] == nil {
		s.recordOddity(fmt.Sprintf("%s of run %d, which it was not given", what, k.GetRunId()))
	}
	if len(s.questions) < most {
		s.questions = append(s.questions, k)
	}
}

func (s *session) recordOddity(what string) {
	const most = 100
	if len(s.odd) < most {
		s.odd = append(s.odd, what)
	}
}

// oddities returns the unexpected messages.
func (s *session) oddities() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.odd)
}
