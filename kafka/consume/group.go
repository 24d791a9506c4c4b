package consume

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// commitToGroup has the position of a partition committed to the consumer group soon, for programs that show lag.
func (s *reading) commitToGroup(ctx context.Context, at place, p *position) {
	s.mu.Lock()
	s.grouped.AddOffset(at.topic, at.partition, p.Next, p.Epoch)
	var due kadm.Offsets
	if time.Since(s.groupedAt) >= idleSave*9/10 {
		due, s.grouped, s.groupedAt = s.grouped, make(kadm.Offsets), time.Now()
	}
	s.mu.Unlock()
	if due == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	admin, err := s.admin()
	if err != nil {
		return
	}
	err = admin.CommitAllOffsets(ctx, s.definition.Group, due)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil && s.groupLog.Allow() {
		s.config.Log.Warn("the positions of a source cannot be committed to its consumer group, so that programs which show its lag are wrong; the source reads on",
			"source", s.definition.Name, "group", s.definition.Group, "error", err)
	}
}
