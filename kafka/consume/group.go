package consume

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// groupRenewal is how often positions are committed to the consumer group that have not changed: brokers forget the positions of a
// group without members after some days, and people delete groups.
const groupRenewal = 10 * time.Minute

// group are the positions of a source in its consumer group.
type group struct {
	due       kadm.Offsets       // to be committed
	committed map[place]groupPos // since renewed
	renewed   time.Time          // when all of them were last due
	at        time.Time          // when positions were last committed
	isBusy    bool               // they are being committed
}

type groupPos struct {
	next  int64
	epoch int32
}

func newGroup() group { return group{due: make(kadm.Offsets), committed: make(map[place]groupPos)} }

// commitToGroup has the position of a partition committed to the consumer group soon, for programs that show lag, unless
// it is there. It does not wait for brokers.
func (s *localSource) commitToGroup(at place, p *position) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := &s.group
	if time.Since(g.renewed) >= s.pace.renewal {
		clear(g.committed)
		g.renewed = time.Now()
	}
	if was, ok := g.committed[at]; !ok || was != (groupPos{p.Next, p.Epoch}) {
		g.due.AddOffset(at.topic, at.partition, p.Next, p.Epoch)
	}
	if len(g.due) == 0 || g.isBusy || s.isClosed || time.Since(g.at) < s.pace.save*9/10 {
		return
	}
	due := g.due
	g.due, g.at, g.isBusy = make(kadm.Offsets), time.Now(), true
	s.aside.Go(func() { s.commitGroup(due) })
}

// commitGroup commits positions to the consumer group. Readers have those committed again that fail.
func (s *localSource) commitGroup(due kadm.Offsets) {
	ctx, cancel := context.WithTimeout(context.Background(), answerTime)
	defer cancel()
	var answers kadm.OffsetResponses
	admin, err := s.admin(forGroup)
	if err == nil {
		answers, err = admin.CommitOffsets(ctx, s.definition.Group, due)
	}
	if err == nil {
		err = answers.Error()
	}
	if err != nil {
		err = s.failed("", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	g := &s.group
	g.isBusy = false
	answers.Each(func(one kadm.OffsetResponse) {
		if one.Err != nil {
			return
		}
		g.committed[place{one.Topic, one.Partition}] = groupPos{one.At, one.LeaderEpoch}
		if next, ok := g.due.Lookup(one.Topic, one.Partition); ok && next.At == one.At && next.LeaderEpoch == one.LeaderEpoch {
			g.due.Delete(one.Topic, one.Partition) // a reader has repeated it meanwhile
		}
	})
	if err != nil && !s.isClosed && s.groupLog.Allow() {
		s.config.Log.Warn("the positions of a source cannot be committed to its consumer group, so that programs which show its lag are wrong; the source reads on",
			"source", s.definition.Name, "group", s.definition.Group, "error", err)
	}
}
