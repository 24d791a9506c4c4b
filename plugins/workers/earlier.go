package workers

import (
	"context"
	"slices"
	"time"

	"github.com/taskengine/taskengine/plugins/internal/wire"
	"github.com/taskengine/taskengine/task"
)

// earlierFeature is the feature of the protocol to send answers of sessions that the node does not know.
const earlierFeature = "earlier"

// earlierTime is for how long Earlier may try to end attempts.
const earlierTime = 10 * time.Second

// Earlier ends attempts with answers that a worker had when its session ended, because its node had died or could not be
// reached. It returns how many of them count, because their attempts are not over. It is not called again with answers
// that it returned an error for.
type Earlier func(ctx context.Context, ends []EarlierEnd) (counted int, err error)

// EarlierEnd is an answer to an attempt of a session that is over.
type EarlierEnd struct {
	Ref    task.Ref // the id of the task, and its version while the attempt ran
	Type   string   // one of the types of the pool
	Result []byte   // as [task.Handler] returns it
	Err    error    // likewise
}

// endEarlier ends the attempts of earlier sessions that a frame answers. A worker sends few of these, and only after it has
// connected.
func (s *Service) endEarlier(p *Pool, l *link, frame *wire.FromHandler) {
	var ends []EarlierEnd
	for _, f := range frame.GetFinishes() {
		e := f.GetEarlier()
		if e == nil || len(e.GetTaskId()) != len(task.ID{}) || !slices.Contains(p.cfg.Types, e.GetType()) {
			continue
		}
		a := l.rights.AnswerOf(f)
		ends = append(ends, EarlierEnd{
			Ref: task.Ref{ID: task.ID(e.GetTaskId()), Version: e.GetVersion()}, Type: e.GetType(), Result: a.Result, Err: a.Err,
		})
	}
	if len(ends) == 0 || s.earlier == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), earlierTime)
	defer cancel()
	counted, err := s.earlier(ctx, ends)
	if err != nil {
		p.log.Error("answers of workers for tasks of a node before were not stored: these tasks run again", "answers", len(ends), "error", err)
		return
	}
	p.log.Info("a worker has sent answers for tasks of a node before", "answers", len(ends), "counted", counted)
}
