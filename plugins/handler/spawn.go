package handler

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/plugins/internal/wire"
)

// Child is a task that another task adds. Only Type is required.
type Child struct {
	Type        string
	Payload     []byte
	Key         string            // unique among the type's tasks while they are kept; "" if none
	OrderingKey string            // tasks that share it run one at a time, in the order in which they are ready; "" if none
	Headers     map[string]string // stored unchanged, such as a trace context
	RunAt       time.Time         // when it is due; zero is now
	Priority    *uint8            // task.HighestPriority..task.LowestPriority; nil for the type's
}

// Spawn adds a task if and only if the task that ctx belongs to succeeds, that is, if its handler returns no error or
// that of [task.Again]. The child is sent together with the result, and dropped if the handler fails or snoozes.
//
// Spawn returns an error if the child is not valid, if the handler has returned, or if the host does not take children;
// the last is a permanent error of class "unsupported". If the handler ignores the error, its task fails with it, so that
// no child is lost. If ctx belongs to no task of a [Program], Spawn only returns an error.
func Spawn(ctx context.Context, c Child) error {
	return attach(ctx, "children", c.flaw(), func(x *extras) {
		child := &wire.Child{
			Type: c.Type, Key: c.Key, OrderingKey: c.OrderingKey, Payload: bytes.Clone(c.Payload), Headers: maps.Clone(c.Headers),
		}
		if !c.RunAt.IsZero() {
			child.RunAt = c.RunAt.UnixMicro()
		}
		if c.Priority != nil {
			child.Priority = proto.Uint32(uint32(*c.Priority))
		}
		x.children = append(x.children, child)
	})
}

// Signal fails with a permanent error of class "unsupported", as [Spawn] does with a host that takes no children: no host
// takes signals yet.
func Signal(ctx context.Context, id task.ID, name string, payload []byte) error {
	var flaw error
	switch {
	case id.IsZero():
		flaw = errors.New("a signal needs the id of a task")
	case name == "" || !utf8.ValidString(name):
		flaw = fmt.Errorf("the name of a signal is %q: it must be text", name)
	}
	return attach(ctx, "signals", flaw, func(x *extras) {
		x.signals = append(x.signals, &wire.Signal{TaskId: id[:], Name: name, Payload: bytes.Clone(payload)})
	})
}

// flaw returns what is wrong with c. A text that is not valid UTF-8 would break the stream.
func (c *Child) flaw() error {
	if c.Type == "" {
		return errors.New("a child needs a type")
	}
	if c.Priority != nil && *c.Priority > task.LowestPriority {
		return fmt.Errorf("the priority of a child is %d, of 0 (sooner) to 9 (later)", *c.Priority)
	}
	texts := []string{c.Type, c.Key, c.OrderingKey}
	for k, v := range c.Headers {
		texts = append(texts, k, v)
	}
	for _, s := range texts {
		if !utf8.ValidString(s) {
			return fmt.Errorf("a child has the text %.100q, which is not valid UTF-8", s)
		}
	}
	return nil
}

// extras are sent with the answer of a run that succeeds.
type extras struct {
	children []*wire.Child
	signals  []*wire.Signal
	err      error // the first error of Spawn or Signal
}

// runKey is the key of a context's run.
type runKey struct{}

// attach adds to the extras of the task that ctx belongs to.
func attach(ctx context.Context, feature string, flaw error, add func(*extras)) error {
	r, ok := ctx.Value(runKey{}).(*run)
	if !ok {
		return fmt.Errorf("%s need the context of a task that a handler program runs; for one of a batch see ContextOf", feature)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return fmt.Errorf("%s come too late: the handler has returned", feature)
	}
	if !r.terms.features[feature] {
		flaw = task.Permanent(task.WithClass("unsupported", fmt.Errorf("the host does not take %s, which the handler has asked for", feature)))
	}
	if r.extras == nil {
		r.extras = new(extras)
	}
	if flaw == nil {
		add(r.extras)
	} else if r.extras.err == nil {
		r.extras.err = flaw
	}
	return flaw
}

// apply returns v, or the error that replaces it because of x.
func (x *extras) apply(v task.Verdict, maxResult uint64) task.Verdict {
	if v.Outcome != task.Completed {
		return v
	}
	if x.err != nil {
		return task.VerdictOf(nil, x.err)
	}
	if size := len(v.Result) + sizeOf(x.children, x.signals); maxResult > 0 && uint64(size) > maxResult {
		return task.VerdictOf(nil, tooLarge("the result, the children and the signals have", size, maxResult))
	}
	return v
}

// sizeOf returns the approximate size of children and signals in a frame.
func sizeOf(children []*wire.Child, signals []*wire.Signal) int {
	size := 0
	for _, c := range children {
		size += proto.Size(c)
	}
	for _, s := range signals {
		size += proto.Size(s)
	}
	return size
}
