package consume

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/internal/reserved"
	"github.com/taskengine/taskengine/kafka/source"
	"github.com/taskengine/taskengine/task"
)

// Errors that callers match with [errors.Is].
var (
	// ErrUnknown says that the configuration of this node has no source with the name.
	ErrUnknown = errors.New("there is no source with this name in the configuration of this node")
	// ErrInvalid says that a seek cannot be.
	ErrInvalid = errors.New("invalid seek")
	// ErrBusy says that a source did not stand still for long enough to be changed.
	ErrBusy = errors.New("the source is running")
	// ErrBrokers says that the brokers do not answer, or do not say where a seek goes.
	ErrBrokers = errors.New("the brokers do not say where that is")
	// ErrEnded says that the task of a source was cancelled or failed by hand. It wraps [engine.ErrNotAllowed].
	ErrEnded = fmt.Errorf("%w: the task of the source was ended by hand; resume it", engine.ErrNotAllowed)
)

// Status is a source as it is stored, and as the brokers say.
type Status struct {
	Name       string
	Definition source.Definition
	Paused     *Pause
	Pending    int    // orders that are not carried out yet
	Problem    string // why not all of its topics are read; "" if they are
	Lag        int64  // offsets behind the positions of all partitions; -1 if that is not known
	Partitions []Partition
	Here       Stats   // what this node has done
	Task       task.ID // of the source
}

// Partition is a partition that a source reads, or has read.
type Partition struct {
	Topic                           string
	Partition                       int32
	Position                        int64  // the offset of the next record
	End                             int64  // the offset behind the last record; -1 if it is not known
	Lag                             int64  // -1 if it is not known
	Owner                           string // the node that reads it; "" if none does
	Message                         string // why it is not read at present, or not to its end; "" if it is
	Records, Tasks, Unread, Skipped uint64
	Lost                            []Lost // the newest lost ranges, including ranges of deleted topics of this name
	Ended                           bool   // its topic was deleted
	Task                            task.ID
}

// wasDeleted is the message of a partition that has ended.
const wasDeleted = "the topic was deleted"

// Apply adds the tasks of the sources that do not exist yet, and has the others look for their topics. e has the Handlers
// and Policies.
func (s *Sources) Apply(ctx context.Context, e *engine.Engine) error {
	for _, name := range slices.Sorted(maps.Keys(s.all)) {
		receipt, err := e.SubmitReserved(ctx, reserved.Owner{}, task.Request{
			ID: idOfSource(name), Type: TypeOf(name), Headers: map[string]string{headerSource: name},
		})
		if err != nil {
			return fmt.Errorf("apply source %s: %w", name, err)
		}
		if receipt.Created {
			continue
		}
		_, err = e.Edit(ctx, task.Ref{ID: receipt.ID}, engine.Edit{At: new(e.Now())})
		if err != nil && !errors.Is(err, engine.ErrNotAllowed) && !errors.Is(err, engine.ErrStale) {
			return fmt.Errorf("apply source %s: %w", name, err)
		}
	}
	return nil
}

// Names returns the names of the sources, in their order.
func (s *Sources) Names() []string { return slices.Sorted(maps.Keys(s.all)) }

// Stats returns what this node has done for each source.
func (s *Sources) Stats() map[string]Stats {
	all := make(map[string]Stats, len(s.all))
	for name, one := range s.all {
		all[name] = one.stats.get()
	}
	return all
}

// Get returns a source. It asks the brokers for the ends of the partitions; if they do not answer, these are not known.
func (s *Sources) Get(ctx context.Context, e *engine.Engine, name string) (*Status, error) {
	of, ok := s.all[name]
	if !ok {
		return nil, fmt.Errorf("%w: %s", ErrUnknown, name)
	}
	all := &Status{Name: name, Definition: of.definition, Here: of.stats.get(), Task: idOfSource(name)}
	t, err := e.Get(ctx, all.Task)
	switch {
	case errors.Is(err, task.ErrNotFound):
		all.Lag, all.Problem = -1, "no node has begun to read it"
		return all, nil
	case err != nil:
		return nil, fmt.Errorf("read source %s: %w", name, err)
	}
	st, err := decodeState(t.Checkpoint())
	if err != nil {
		return nil, err
	}
	all.Paused, all.Pending, all.Problem = st.Paused, len(st.Orders), st.Problem
	if st.Began.IsZero() { // it has found no topic
		all.Lag, all.Problem = -1, cmp.Or(st.Problem, t.LastError, "no node has looked for its topics yet")
	}
	if t.State == task.Cancelled || t.State == task.Failed {
		all.Problem = ErrEnded.Error()
	}
	ends := of.ends(ctx, slices.Collect(maps.Keys(st.Topics)), false)
	for _, topic := range slices.Sorted(maps.Keys(st.Topics)) {
		for i := range st.Topics[topic].Partitions {
			p, err := of.partition(ctx, e, idOfPartition(name, topic, st.Topics[topic].ID, i))
			switch {
			case errors.Is(err, task.ErrNotFound):
				continue
			case err != nil:
				return nil, err
			}
			if end, ok := ends.all.Lookup(topic, i); ok && end.Err == nil {
				p.End, p.Lag, p.Ended = end.Offset, max(0, end.Offset-p.Position), false
				if until, ok := ends.stable.Lookup(topic, i); ok && until.Err == nil && p.Position >= until.Offset && p.Lag > 0 && p.Message == "" {
					p.Message = fmt.Sprintf("a transaction that has not ended holds back %d offsets", p.Lag)
				}
			}
			switch {
			case p.Ended:
			case p.Lag < 0:
				all.Lag = -1
			case all.Lag >= 0:
				all.Lag += p.Lag
			}
			all.Partitions = append(all.Partitions, *p)
		}
	}
	all.addLost(st.Lost)
	return all, nil
}

// addLost adds the losses with deleted topics to the partitions of their names.
func (s *Status) addLost(all []lostOf) {
	for _, one := range all {
		i := slices.IndexFunc(s.Partitions, func(p Partition) bool { return p.Topic == one.Topic && p.Partition == one.Partition })
		if i < 0 { // the topic has fewer partitions now
			i = len(s.Partitions)
			s.Partitions = append(s.Partitions, Partition{
				Topic: one.Topic, Partition: one.Partition, Position: one.To, End: -1, Lag: -1, Message: wasDeleted, Ended: true,
			})
		}
		s.Partitions[i].Lost = append(slices.Clone(s.Partitions[i].Lost), one.Lost)
	}
}

// partition returns the partition of a task.
func (s *localSource) partition(ctx context.Context, e *engine.Engine, id task.ID) (*Partition, error) {
	t, err := e.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	of, at, err := decodePartition(t.Payload, t.Checkpoint())
	if err != nil {
		return nil, err
	}
	p := &Partition{
		Topic: of.Topic, Partition: of.Partition, Position: at.Next, End: -1, Lag: -1, Message: t.Progress().Message, Task: id,
		Records: at.Records, Tasks: at.Tasks, Unread: at.Unread, Skipped: at.Skipped, Lost: at.Lost,
	}
	switch {
	case at.Gone:
		p.Ended, p.Message = true, wasDeleted
	case t.State == task.Processing:
		p.Owner = nodeOf(e, t.Owner)
	case t.State == task.Waiting && t.LastError != "" && t.Attempt > 0:
		p.Message = t.LastError
	case !t.State.Live():
		p.Message = "its task is " + t.State.String()
	}
	return p, nil
}

// nodeOf returns the name of a node, or its id if the name is not known.
func nodeOf(e *engine.Engine, incarnation task.ID) string {
	if incarnation == e.Incarnation() {
		return e.Name()
	}
	for _, m := range e.Members() {
		if m.Incarnation == incarnation && m.Name != "" {
			return m.Name
		}
	}
	return incarnation.String()
}

// Pause stops a source from reading, until Resume. Its partitions keep their positions.
func (s *Sources) Pause(ctx context.Context, e *engine.Engine, name, reason string) error {
	return s.order(ctx, e, name, "pause", order{Pause: true, Reason: reason})
}

// Resume ends a pause.
func (s *Sources) Resume(ctx context.Context, e *engine.Engine, name string) error {
	return s.order(ctx, e, name, "resume", order{Resume: true})
}

// Seek moves the positions of a source. Records that were read before become tasks once more if they are read again.
func (s *Sources) Seek(ctx context.Context, e *engine.Engine, name string, to Seek) error {
	if err := to.check(); err != nil {
		return err
	}
	return s.order(ctx, e, name, "seek", order{Seek: &to})
}

func (s *Seek) check() error {
	n := 0
	for _, is := range [...]bool{s.Begin, s.End, !s.Time.IsZero(), s.Offset != nil} {
		if is {
			n++
		}
	}
	switch {
	case n != 1:
		return fmt.Errorf("%w: name one of begin, end, a time and an offset", ErrInvalid)
	case s.Offset != nil && (s.Topic == "" || s.Partition == nil):
		return fmt.Errorf("%w: an offset is that of a partition; name the topic and the partition", ErrInvalid)
	case s.Offset != nil && *s.Offset < 0:
		return fmt.Errorf("%w: the offset %d is negative", ErrInvalid, *s.Offset)
	case s.Partition != nil && (s.Topic == "" || *s.Partition < 0):
		return fmt.Errorf("%w: name the topic of the partition, which is 0 or more", ErrInvalid)
	case !s.Time.IsZero() && (s.Time.Unix() < 0 || s.Time.Year() > 9999):
		return fmt.Errorf("%w: times must lie between the years 1970 and 9999", ErrInvalid)
	}
	return nil
}

// checkTopic returns an error if the source does not read the topic and the partition of s.
func (s *Seek) checkTopic(st *state) error {
	if s.Topic == "" {
		return nil
	}
	known, ok := st.Topics[s.Topic]
	switch {
	case !ok:
		return fmt.Errorf("%w: the source reads no topic %s", ErrInvalid, s.Topic)
	case s.Partition != nil && *s.Partition >= known.Partitions:
		return fmt.Errorf("%w: topic %s has %d partitions", ErrInvalid, s.Topic, known.Partitions)
	}
	return nil
}

const (
	maxOrders  = 100
	orderTries = 200
	orderPause = 20 * time.Millisecond // between two tries: the run of a source is short while brokers answer
	patientFor = 50                    // tries until a run is interrupted, which waits for brokers
)

// order gives a source an order, and has it run now.
func (s *Sources) order(ctx context.Context, e *engine.Engine, name, verb string, o order) error {
	of, ok := s.all[name]
	if !ok {
		return fmt.Errorf("%w: %s", ErrUnknown, name)
	}
	for try := range orderTries {
		err := of.orderOnce(ctx, e, o, try >= patientFor)
		if !errors.Is(err, engine.ErrStale) && !errors.Is(err, engine.ErrNotAllowed) || errors.Is(err, ErrEnded) {
			if err != nil {
				err = fmt.Errorf("%s source %s: %w", verb, name, err)
			}
			return err
		}
		select {
		case <-time.After(orderPause):
		case <-ctx.Done():
			return fmt.Errorf("%s source %s: %w", verb, name, context.Cause(ctx))
		}
	}
	return fmt.Errorf("%s source %s: %w", verb, name, ErrBusy)
}

// orderOnce returns [engine.ErrNotAllowed] while the source runs, unless it interrupts that. A run may be repeated.
func (s *localSource) orderOnce(ctx context.Context, e *engine.Engine, o order, interrupts bool) error {
	t, err := e.Get(ctx, idOfSource(s.definition.Name))
	switch {
	case err != nil:
		return err
	case t.State == task.Cancelled, t.State == task.Failed:
		return ErrEnded
	}
	st, err := decodeState(t.Checkpoint())
	if err != nil {
		return err
	}
	if o.Seek != nil {
		if err := o.Seek.checkTopic(&st); err != nil {
			return err
		}
	}
	if len(st.Orders) >= maxOrders {
		return fmt.Errorf("%w: %d orders wait to be carried out", ErrBusy, len(st.Orders))
	}
	st.Last++
	o.Number, o.At = st.Last, e.Now()
	st.Orders = append(st.Orders, o)
	_, err = e.Edit(ctx, t.Ref(), engine.Edit{Interrupts: interrupts, At: &o.At, Checkpoint: new(st.encode())})
	return err
}
