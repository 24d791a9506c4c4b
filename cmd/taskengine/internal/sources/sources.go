// Package sources shows the sources of a node to its API, metrics and alerts.
package sources

import (
	"context"
	"errors"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/kafka/consume"
	"github.com/taskengine/taskengine/server"
)

// Sources are the sources of a node. It implements [server.Sources].
type Sources struct {
	of     *consume.Sources
	engine *engine.Engine
}

var _ server.Sources = (*Sources)(nil)

// Of returns the sources that an engine runs.
func Of(s *consume.Sources, e *engine.Engine) *Sources { return &Sources{s, e} }

// Names implements [server.Sources].
func (s *Sources) Names() []string { return s.of.Names() }

// Source implements [server.Sources].
func (s *Sources) Source(ctx context.Context, name string) (*server.Source, error) {
	st, err := s.of.Get(ctx, s.engine, name)
	if err != nil {
		return nil, converted(err)
	}
	all := &server.Source{
		Name: st.Name, Topics: st.Definition.Topics, Pattern: st.Definition.Pattern, Group: st.Definition.Group,
		Orders: st.Pending, Problem: st.Problem, Lag: st.Lag, TaskID: st.Task,
	}
	if st.Paused != nil {
		all.Paused = &server.SourcePause{Since: st.Paused.At, Reason: st.Paused.Reason}
	}
	for i := range st.Partitions {
		all.Partitions = append(all.Partitions, partitionOf(&st.Partitions[i]))
	}
	return all, nil
}

func partitionOf(p *consume.Partition) server.SourcePartition {
	one := server.SourcePartition{
		Topic: p.Topic, Partition: p.Partition, Position: p.Position, End: p.End, Lag: p.Lag, Node: p.Owner, Message: p.Message,
		Records: p.Records, Tasks: p.Tasks, Unreadable: p.Unread, Skipped: p.Skipped, Ended: p.Ended, TaskID: p.Task,
	}
	for _, l := range p.Lost {
		one.Lost = append(one.Lost, server.SourceLoss{From: l.From, To: l.To, At: l.At, Reason: l.Reason})
	}
	return one
}

// Pause implements [server.Sources].
func (s *Sources) Pause(ctx context.Context, name, reason string) error {
	return converted(s.of.Pause(ctx, s.engine, name, reason))
}

// Resume implements [server.Sources].
func (s *Sources) Resume(ctx context.Context, name string) error {
	return converted(s.of.Resume(ctx, s.engine, name))
}

// Seek implements [server.Sources].
func (s *Sources) Seek(ctx context.Context, name string, to server.SourceSeek) error {
	return converted(s.of.Seek(ctx, s.engine, name, seekOf(to)))
}

// Plan implements [server.Sources].
func (s *Sources) Plan(ctx context.Context, name string, to server.SourceSeek) ([]server.SourceMove, error) {
	moves, err := s.of.Plan(ctx, s.engine, name, seekOf(to))
	if err != nil {
		return nil, converted(err)
	}
	all := make([]server.SourceMove, len(moves))
	for i, m := range moves {
		all[i] = server.SourceMove(m)
	}
	return all, nil
}

func seekOf(to server.SourceSeek) consume.Seek {
	return consume.Seek{Topic: to.Topic, Partition: to.Partition, Begin: to.Begin, End: to.End, Time: to.Time, Offset: to.Offset}
}

// Counts implements [server.Sources].
func (s *Sources) Counts() map[string]server.SourceCounts {
	all := make(map[string]server.SourceCounts)
	for name, st := range s.of.Stats() {
		all[name] = server.SourceCounts{
			Records: st.Records, Tasks: st.Tasks, Unreadable: st.Unread, Skipped: st.Skipped, Lost: st.Lost,
			Lag: st.Lag, Reading: st.Reading, Waits: st.Waiting != "",
		}
	}
	return all
}

// classes maps errors of package consume to errors of the API. The first match counts.
var classes = [...]struct{ of, is error }{
	{consume.ErrUnknown, server.ErrNoSource},
	{consume.ErrInvalid, server.ErrSourceSeek},
	{consume.ErrBusy, server.ErrSourceBusy},
	{consume.ErrBrokers, server.ErrSourceBrokers},
}

// converted returns an error of package consume as one of the API. It keeps the text.
func converted(err error) error {
	for _, c := range classes {
		if errors.Is(err, c.of) {
			return classified{err, c.is}
		}
	}
	return err
}

// classified is an error that is also another one.
type classified struct {
	error
	is error
}

// Unwrap returns both errors.
func (c classified) Unwrap() []error { return []error{c.error, c.is} }
