package server

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/taskengine/taskengine/internal/suggest"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/task"
)

// Sources are the sources of tasks in the configuration of a node. It is safe for concurrent use.
type Sources interface {
	// Names returns their names in order.
	Names() []string
	// Source returns one with its partitions, by topic and number.
	Source(ctx context.Context, name string) (*Source, error)
	// Pause, Resume and Seek give a source an order, which is durable when they return.
	Pause(ctx context.Context, name, reason string) error
	Resume(ctx context.Context, name string) error
	Seek(ctx context.Context, name string, to SourceSeek) error
	// Plan returns where a seek would take the partitions now.
	Plan(ctx context.Context, name string, to SourceSeek) ([]SourceMove, error)
	// Counts returns the counts of this node by source, since it started. It does not wait.
	Counts() map[string]SourceCounts
}

// Errors of [Sources].
var (
	ErrNoSource   = errors.New("there is no such source in the configuration of this node")
	ErrSourceSeek = errors.New("invalid seek")
	ErrSourceBusy = errors.New("the source is running, or has too many orders") // the caller may try again
	// ErrSourceBrokers says that the brokers do not answer, or do not say where a seek goes.
	ErrSourceBrokers = errors.New("the brokers do not say where that is")
)

// Source is a source of tasks at one moment. Counts are sums over all nodes.
type Source struct {
	Name       string
	Topics     []string
	Pattern    string
	Group      string
	Paused     *SourcePause
	Orders     int    // that are not carried out yet
	Problem    string // why it does not read all of its topics; "" if it does
	Lag        int64  // -1 if it is not known
	Partitions []SourcePartition
	TaskID     task.ID // of the task that is the source
}

// SourcePause says since when a source is paused, and why.
type SourcePause struct {
	Since  time.Time
	Reason string
}

// SourcePartition is a partition that a source reads.
type SourcePartition struct {
	Topic      string
	Partition  int32
	Position   int64        // the offset of the next record
	End, Lag   int64        // -1 if they are not known
	Node       string       // that reads it; "" if none does
	Message    string       // why it is not read at present; "" if it is
	Records    uint64       // that were read
	Tasks      uint64       // that were added
	Unreadable uint64       // records that could not become tasks
	Skipped    uint64       // records that the filter left out, or that had a task already
	Lost       []SourceLoss // the newest
	Ended      bool         // its topic was deleted: it is not read, and Message says so
	TaskID     task.ID      // of the task that is the partition
}

// SourceLoss is a range of offsets that could not be read.
type SourceLoss struct {
	From, To int64 // the first offset, and that behind the last one
	At       time.Time
	Reason   string
}

// SourceSeek says where a source goes. One of Begin, End, Time and Offset is set.
type SourceSeek struct {
	Topic      string // "" for all
	Partition  *int32 // of Topic; nil for all
	Begin, End bool
	Time       time.Time
	Offset     *int64
}

// SourceMove is the effect of a seek on a partition.
type SourceMove struct {
	Topic     string
	Partition int32
	From, To  int64 // offsets
}

// SourceCounts are the counts of a node for a source since the node started.
type SourceCounts struct {
	Records, Tasks, Unreadable, Skipped, Lost uint64
	Lag                                       int64 // of the partitions that the node reads
	Reading                                   int   // how many these are
	Waits                                     bool  // one of them waits, for instance for room in a backlog
}

// manySources is how many sources are asked for at the same time.
const manySources = 16

// ListSources returns the sources without their partitions.
func (a *API) ListSources(ctx context.Context, _ *taskenginev1.ListSourcesRequest) (*taskenginev1.ListSourcesResponse, error) {
	res := &taskenginev1.ListSourcesResponse{}
	if a.sources == nil {
		return res, nil
	}
	all, err := AllSources(ctx, a.sources)
	if err != nil {
		return nil, a.answer(err)
	}
	for _, s := range all {
		m := sourceOf(s)
		m.Partitions = nil
		res.Sources = append(res.Sources, m)
	}
	return res, nil
}

// AllSources returns all sources, by name. It asks for some of them at the same time, because brokers that do not answer
// take a while.
func AllSources(ctx context.Context, from Sources) ([]*Source, error) {
	names := from.Names()
	all, errs := make([]*Source, len(names)), make([]error, len(names))
	slots := make(chan struct{}, manySources)
	for i, name := range names {
		slots <- struct{}{}
		go func() {
			defer func() { <-slots }()
			all[i], errs[i] = from.Source(ctx, name)
		}()
	}
	for range cap(slots) {
		slots <- struct{}{} // the last ones have ended
	}
	return all, errors.Join(errs...)
}

// GetSource returns one source.
func (a *API) GetSource(ctx context.Context, req *taskenginev1.GetSourceRequest) (*taskenginev1.GetSourceResponse, error) {
	m, err := a.source(ctx, req.GetName())
	if err != nil {
		return nil, err
	}
	return &taskenginev1.GetSourceResponse{Source: m}, nil
}

// source returns the message of the source with a name.
func (a *API) source(ctx context.Context, name string) (*taskenginev1.Source, error) {
	if a.sources == nil {
		return nil, a.noSource(name)
	}
	s, err := a.sources.Source(ctx, name)
	if err != nil {
		return nil, a.answerSource(name, err)
	}
	return sourceOf(s), nil
}

// noSource returns the error of a request about a source that does not exist.
func (a *API) noSource(name string) error {
	names := a.sourceNames()
	switch near := suggest.Nearest(name, names); {
	case a.hasSlices(name):
		return a.answer(fmt.Errorf("%w that reads topics: %.200q is a source of time slices", ErrNoSource, text(name)))
	case near != "":
		return a.answer(fmt.Errorf("%w: %.200q; did you mean %s?", ErrNoSource, text(name), text(near)))
	case len(names) == 0:
		return a.answer(fmt.Errorf("%w: %.200q; it has no sources", ErrNoSource, text(name)))
	}
	return a.answer(fmt.Errorf("%w: %.200q", ErrNoSource, text(name)))
}

// answerSource converts an error of a request about a source.
func (a *API) answerSource(name string, err error) error {
	if errors.Is(err, ErrNoSource) {
		return a.noSource(name)
	}
	return a.answer(err)
}

// order calls do, which gives an order to a source, and returns the source afterwards.
func (a *API) order(ctx context.Context, name string, do func(Sources) error) (*taskenginev1.Source, error) {
	if a.sources == nil {
		return nil, a.noSource(name)
	}
	if err := do(a.sources); err != nil {
		return nil, a.answerSource(name, err)
	}
	return a.source(ctx, name)
}

// PauseSource stops a source from reading.
func (a *API) PauseSource(ctx context.Context, req *taskenginev1.PauseSourceRequest) (*taskenginev1.PauseSourceResponse, error) {
	if n := len(req.GetReason()); n > maxReason {
		return nil, a.answer(invalid("reason has %d bytes, of %d allowed", n, maxReason))
	}
	m, err := a.order(ctx, req.GetName(), func(s Sources) error { return s.Pause(ctx, req.GetName(), reasonOf(ctx, req.GetReason())) })
	if err != nil {
		return nil, err
	}
	a.noted(ctx, "a source was paused", "source", req.GetName(), "reason", req.GetReason())
	return &taskenginev1.PauseSourceResponse{Source: m}, nil
}

// ResumeSource ends a pause.
func (a *API) ResumeSource(ctx context.Context, req *taskenginev1.ResumeSourceRequest) (*taskenginev1.ResumeSourceResponse, error) {
	m, err := a.order(ctx, req.GetName(), func(s Sources) error { return s.Resume(ctx, req.GetName()) })
	if err != nil {
		return nil, err
	}
	a.noted(ctx, "a source was resumed", "source", req.GetName())
	return &taskenginev1.ResumeSourceResponse{Source: m}, nil
}

// SeekSource moves the positions of a source.
func (a *API) SeekSource(ctx context.Context, req *taskenginev1.SeekSourceRequest) (*taskenginev1.SeekSourceResponse, error) {
	to, err := seekOf(req)
	if err != nil {
		return nil, a.answer(err)
	}
	res := &taskenginev1.SeekSourceResponse{}
	res.Source, err = a.order(ctx, req.GetName(), func(s Sources) error {
		moves, err := s.Plan(ctx, req.GetName(), to)
		if req.GetDryRun() && err != nil {
			return err
		}
		for _, m := range moves {
			res.Moves = append(res.Moves, &taskenginev1.SourceMove{Topic: text(m.Topic), Partition: uint32(m.Partition), Position: uint64(m.From), Target: uint64(m.To)})
		}
		if req.GetDryRun() {
			return nil
		}
		return s.Seek(ctx, req.GetName(), to)
	})
	if err != nil {
		return nil, err
	}
	if !req.GetDryRun() {
		a.noted(ctx, "a source was moved", "source", req.GetName(), "topic", req.GetTopic(), "to", seekWords(&to))
	}
	return res, nil
}

// seekOf converts a request.
func seekOf(req *taskenginev1.SeekSourceRequest) (to SourceSeek, err error) {
	to = SourceSeek{Topic: req.GetTopic(), Begin: req.GetBegin(), End: req.GetEnd()}
	if req.Partition != nil {
		if req.GetPartition() > math.MaxInt32 {
			return to, invalid("the partition %d is too large", req.GetPartition())
		}
		n := int32(req.GetPartition())
		to.Partition = &n
	}
	if to.Time, err = timeOf("time", req.GetTime()); err != nil {
		return to, err
	}
	if at, ok := req.GetTo().(*taskenginev1.SeekSourceRequest_Offset); ok {
		if at.Offset > math.MaxInt64 {
			return to, invalid("the offset %d is too large", at.Offset)
		}
		n := int64(at.Offset)
		to.Offset = &n
	}
	return to, nil
}

// seekWords says where a seek goes.
func seekWords(to *SourceSeek) string {
	switch {
	case to.Begin:
		return "begin"
	case to.End:
		return "end"
	case to.Offset != nil:
		return fmt.Sprint(*to.Offset)
	}
	return to.Time.UTC().Format(time.RFC3339Nano)
}

// sourceOf returns the message of a source.
func sourceOf(s *Source) *taskenginev1.Source {
	m := &taskenginev1.Source{
		Name: text(s.Name), Pattern: text(s.Pattern), Group: text(s.Group), Orders: uint32(s.Orders), Problem: text(s.Problem),
		Lag: known(s.Lag), TaskId: s.TaskID.String(),
	}
	for _, topic := range s.Topics {
		m.Topics = append(m.Topics, text(topic))
	}
	if s.Paused != nil {
		m.Paused = &taskenginev1.SourcePause{Since: stamp(s.Paused.Since), Reason: text(s.Paused.Reason)}
	}
	for i := range s.Partitions {
		p := &s.Partitions[i]
		m.Partitions = append(m.Partitions, partitionOf(p))
		if p.Node != "" {
			m.Reading++
		}
		if !p.Ended {
			m.PartitionCount++
		}
		m.Records += p.Records
		m.Tasks += p.Tasks
		m.Unreadable += p.Unreadable
		m.Skipped += p.Skipped
		for _, l := range p.Lost {
			m.Lost += uint64(max(0, l.To-l.From))
		}
	}
	return m
}

func partitionOf(p *SourcePartition) *taskenginev1.SourcePartition {
	m := &taskenginev1.SourcePartition{
		Topic: text(p.Topic), Partition: uint32(p.Partition), Position: uint64(p.Position), End: known(p.End), Lag: known(p.Lag), Node: text(p.Node),
		Message: text(p.Message), Records: p.Records, Tasks: p.Tasks, Unreadable: p.Unreadable, Skipped: p.Skipped, TaskId: p.TaskID.String(),
	}
	for _, l := range p.Lost {
		m.Lost = append(m.Lost, &taskenginev1.SourceLoss{Begin: uint64(l.From), End: uint64(l.To), At: stamp(l.At), Reason: text(l.Reason)})
	}
	return m
}

// known returns a number, nil if it is negative: it is not known.
func known(n int64) *uint64 {
	if n < 0 {
		return nil
	}
	return new(uint64(n))
}
