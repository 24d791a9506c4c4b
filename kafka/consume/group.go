package consume

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// commitToGroup has the position of a partition committed to the consumer group soon, for programs that show lag. It does
// not wait for brokers.
func (s *localSource) commitToGroup(at place, p *position) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.grouped.AddOffset(at.topic, at.partition, p.Next, p.Epoch)
	if s.grouping || s.isClosed || time.Since(s.groupedAt) < idleSave*9/10 {
		return
	}
	due := s.grouped
	s.grouped, s.groupedAt, s.grouping = make(kadm.Offsets), time.Now(), true
	s.aside.Go(func() { s.commitGroup(due) })
}

// commitGroup commits positions to the consumer group.
func (s *localSource) commitGroup(due kadm.Offsets) {
	ctx, cancel := context.WithTimeout(context.Background(), answerTime)
	defer cancel()
	admin, err := s.admin(forGroup)
	if err == nil {
		err = admin.CommitAllOffsets(ctx, s.definition.Group, due)
	}
	if err != nil {
		err = s.failed("", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.grouping = false
	if err != nil && !s.isClosed && s.groupLog.Allow() {
		s.config.Log.Warn("the positions of a source cannot be committed to its consumer group, so that programs which show its lag are wrong; the source reads on",
			"source", s.definition.Name, "group", s.definition.Group, "error", err)
	}
}
